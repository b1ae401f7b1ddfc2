//! `glassbox serve`.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use glassbox_shared::actor::Role;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::demo;
use crate::access::{LINK_SECONDS, link_url};
use crate::server::config::{LogFormat, ServeArgs};
use crate::server::data::DataDir;
use crate::server::{self, Server};

/// A stop that takes longer than this is cut off: something is stuck, and state is on disk already.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// Serve the API and the page.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    serve: ServeArgs,
    /// Also play the scripted demo agent, against this very server.
    #[arg(long)]
    demo: bool,
}

/// Serves until SIGINT or SIGTERM.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let config = arguments.serve.into_config()?;
    start_tracing(config.log);
    let data = DataDir::open(&config.data_dir)?;
    // The port is taken before anything is changed, so that a second server stops at once.
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!(
            "cannot listen on {}; is something else running there? choose another address with --listen",
            config.listen
        )
    })?;
    let address = listener.local_addr().context("the listening address cannot be read")?;
    let base = config.public_urls.first().map_or_else(|| format!("http://{address}"), |url| url.origin.clone());
    let runtime = server::connect(&config.image, data.instance())?;
    let shutdown = CancellationToken::new();
    let server = Server::start(config, data, runtime, shutdown.clone()).await?;
    let (first, key_file) = server.first_tenant().await?;
    server.announce(&base)?;
    let token = server.access().make_link(&first, Role::Operator).await?;
    println!("glassbox is ready at {base}");
    if let Some(file) = key_file {
        println!("operator's key: in {}", file.display());
    }
    println!("sign in (opens once, within {} minutes): {}", LINK_SECONDS / 60, link_url(&base, &token));
    let demo = if arguments.demo {
        Some(start_demo(&server, &first, &format!("http://{address}"), shutdown.child_token()).await?)
    } else {
        None
    };
    let stopping = {
        let shutdown = shutdown.clone();
        async move {
            let outcome = stop_signal().await;
            println!("glassbox is stopping");
            shutdown.cancel();
            outcome
        }
    };
    let serving = async {
        let (served, stopped) = tokio::join!(server.serve(listener), stopping);
        served.and(stopped)
    };
    let cut_off = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_DEADLINE).await;
    };
    tokio::select! {
        outcome = serving => outcome?,
        () = cut_off => tracing::warn!("stopping took longer than {STOP_DEADLINE:?}; leaving the rest to the next start"),
    }
    if let Some(demo) = demo {
        demo.abort();
    }
    Ok(())
}

async fn start_demo(
    server: &Server,
    tenant: &str,
    url: &str,
    stop: CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let (_, key) = server.demo_key(tenant).await?;
    let url = url.to_owned();
    Ok(tokio::spawn(async move {
        if let Err(error) = demo::play(&url, &key, stop).await {
            println!("demo: {error:#}");
        }
    }))
}

async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("SIGTERM cannot be followed")?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome.context("SIGINT cannot be followed"),
        _ = terminate.recv() => Ok(()),
    }
}

/// Logs go to stderr; `RUST_LOG` chooses what.
fn start_tracing(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Pretty => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}
