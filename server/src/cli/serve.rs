//! `glassbox serve`.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use glassbox_shared::actor::Role;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::demo;
use super::signals::Signals;
use crate::access::{LINK_SECONDS, link_url};
use crate::http::tls::Tls;
use crate::server::config::{LogFormat, ServeArgs};
use crate::server::data::DataDir;
use crate::server::{self, Server};

/// A stop that takes longer than this is cut off: something is stuck, and state is on disk already. Requests and sockets get
/// 5 s of it, owners and drivers 3 s more; the rest is for the database, and for a demo. Whoever asked for the stop waits
/// 10 s.
const STOP_DEADLINE: Duration = Duration::from_secs(9);
/// Removing a sandbox takes a tenth of a second; nobody should wait for a demo.
const DEMO_ENDS: Duration = Duration::from_secs(3);
/// Between looks at the certificate: it is told two weeks before its end, each day.
const CERTIFICATE_INTERVAL: Duration = Duration::from_hours(24);

/// Serve the API and the page.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    serve: ServeArgs,
    /// Also play the scripted demo agent, against this very server.
    #[arg(long)]
    demo: bool,
}

/// Serves until SIGINT or SIGTERM. SIGHUP has the certificate read again; with a terminal it means that this is gone, and
/// stops too.
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
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    anyhow::ensure!(
        !(arguments.demo && config.tls.is_some()),
        "the demo agent speaks plain HTTP; leave out --demo, or the certificate"
    );
    let base = config.public_urls.first().map_or_else(|| format!("{scheme}://{address}"), |url| url.origin.clone());
    let mut signals = Signals::follow()?;
    let runtime = server::connect(&config.image, data.instance())?;
    let shutdown = CancellationToken::new();
    let server = tokio::select! {
        started = Server::start(config, data, runtime, shutdown.clone()) => started?,
        // A start can take minutes after a crash. Cut off, it is as a crash more.
        () = until_stop(&mut signals, None) => {
            say("glassbox is stopping");
            return Ok(());
        }
    };
    let (first, key_file) = server.first_tenant().await?;
    server.announce(&base)?;
    let token = server.access().make_link(&first, Role::Operator).await?;
    say(&format!("glassbox is ready at {base}"));
    if let Some(file) = key_file {
        say(&format!("operator's key: in {}", file.display()));
    }
    say(&format!("sign in (opens once, within {} minutes): {}", LINK_SECONDS / 60, link_url(&base, &token)));
    let demo =
        if arguments.demo { Some(Demo::start(&server, &first, &format!("http://{address}")).await?) } else { None };
    let asked_to_stop = CancellationToken::new();
    let stopping = {
        let (asked, shutdown, tls) = (asked_to_stop.clone(), shutdown.clone(), server.tls());
        async move {
            until_stop(&mut signals, tls.as_deref()).await;
            asked.cancel();
            say("glassbox is stopping");
            if let Some(demo) = demo {
                demo.end().await;
            }
            shutdown.cancel();
        }
    };
    let serving = async {
        let (served, ()) = tokio::join!(server.serve(listener), stopping);
        served
    };
    let cut_off = async {
        asked_to_stop.cancelled().await;
        tokio::time::sleep(STOP_DEADLINE).await;
    };
    tokio::select! {
        outcome = serving => outcome?,
        () = cut_off => tracing::warn!("stopping took longer than {STOP_DEADLINE:?}; leaving the rest to the next start"),
    }
    Ok(())
}

/// Tells whoever started the program. A terminal or a pipe that is gone must not keep it from what it does.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The scripted agent, as a task of this server's.
struct Demo {
    stop: CancellationToken,
    playing: JoinSet<()>,
}

impl Demo {
    async fn start(server: &Server, tenant: &str, url: &str) -> anyhow::Result<Self> {
        let (_, key) = server.demo_key(tenant).await?;
        let (url, stop) = (url.to_owned(), CancellationToken::new());
        let told = stop.clone();
        let mut playing = JoinSet::new();
        playing.spawn(async move {
            if let Err(error) = demo::play(&url, &key, told).await {
                say(&format!("demo: {error:#}"));
            }
        });
        Ok(Self { stop, playing })
    }

    /// Lets it remove its session, for which the server has to be there still.
    async fn end(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(DEMO_ENDS, self.playing.join_next()).await.is_err() {
            say("demo: its session could not be removed in time; it ends by itself when idle");
        }
    }
}

/// Returns when the server shall stop; until then it sees to the certificate.
async fn until_stop(signals: &mut Signals, tls: Option<&Tls>) {
    let has_terminal = std::io::stdin().is_terminal();
    let mut looks = tokio::time::interval(CERTIFICATE_INTERVAL);
    loop {
        tokio::select! {
            _ = signals.interrupt.recv() => return,
            _ = signals.terminate.recv() => return,
            _ = signals.hang_up.recv() => {
                if has_terminal {
                    return;
                }
                read_again(tls);
            }
            _ = looks.tick() => tell_validity(tls),
        }
    }
}

fn read_again(tls: Option<&Tls>) {
    let Some(tls) = tls else {
        tracing::info!(
            "SIGHUP: no certificate is used, so there is nothing to read again; other settings need a restart"
        );
        return;
    };
    match tls.reload() {
        Ok(()) => {
            tracing::info!("certificate and key were read again; new connections use them");
            tell_validity(Some(tls));
        }
        Err(error) => tracing::error!(%error, "the new certificate cannot be used; the old one stays in use"),
    }
}

fn tell_validity(tls: Option<&Tls>) {
    let Some((validity, worry)) = tls.map(Tls::validity) else { return };
    if worry {
        tracing::warn!("the certificate: {validity}; renew it and send SIGHUP");
    } else {
        tracing::info!("the certificate: {validity}");
    }
}

/// Logs go to stderr; `RUST_LOG` chooses what.
fn start_tracing(format: LogFormat) {
    // rmcp tells each session's beginning and every notification.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,rmcp=warn".into());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not end the task that has something to say.
        .log_internal_errors(false);
    match format {
        LogFormat::Pretty => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}
