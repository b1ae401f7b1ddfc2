//! Putting everything together: the one way in, used by the binary's commands and by tests.

pub mod config;
pub mod data;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use glassbox_shared::actor::Role;
use glassbox_shared::session::Profile;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, KeyView};
use crate::command::log::LogSettings;
use crate::feed::Feed;
use crate::history::{History, HistorySettings};
use crate::http::tls::Tls;
use crate::http::{AppState, HttpSettings};
use crate::ids;
use crate::runtime::docker::{DockerConfig, DockerRuntime, find_helper};
use crate::runtime::{Runtime, spec};
use crate::session::Sessions;
use crate::session::settings::SessionSettings;
use crate::store::Store;
use crate::tools::Tools;
use config::Config;
use data::{DataDir, FIRST_TENANT, FirstKey};

/// How long owners and drivers may take to leave after the last request was answered (they begin with the stop itself);
/// what they left is told at the next start.
const STOP_DEADLINE: Duration = Duration::from_secs(3);
/// Characters of the name of a server process in the live protocol.
const EPOCH: usize = 12;

/// Prepares to speak to the engine; whether it is there shows with the first call.
pub fn connect(image: &str, instance: &str) -> anyhow::Result<Runtime> {
    let helper_path = find_helper()
        .context("the helper glassbox-inside is not there; run `make run` once, or name its file in GLASSBOX_HELPER")?;
    let config = DockerConfig { instance: instance.to_owned(), helper_path, helper_image: image.to_owned() };
    Ok(Arc::new(DockerRuntime::connect(config)?))
}

/// Everything that serves, without a listener yet.
#[derive(Debug)]
pub struct Server {
    config: Arc<Config>,
    data: DataDir,
    store: Store,
    access: Access,
    feed: Feed,
    sessions: Sessions,
    history: History,
    tls: Option<Arc<Tls>>,
    shutdown: CancellationToken,
}

impl Server {
    /// Opens the data, brings back what was there, and makes sure that sandboxes can be started.
    pub async fn start(
        config: Config,
        data: DataDir,
        runtime: Runtime,
        shutdown: CancellationToken,
    ) -> anyhow::Result<Self> {
        // What is wrong with the files shows before anything is changed.
        let tls = config.tls.clone().map(|files| Tls::open(files.cert, files.key)).transpose();
        let tls = tls.context("TLS cannot be used")?.map(Arc::new);
        let info = runtime.info().await.context("the Docker engine does not answer; start it, or run make setup")?;
        anyhow::ensure!(
            info.runtimes.iter().any(|name| name == "runsc"),
            "the Docker engine has no runtime named runsc (gVisor), and nothing is started without it; run make setup, or see `glassbox doctor`"
        );
        anyhow::ensure!(
            runtime.has_image(&config.image).await.context("the image could not be looked for")?,
            "the image {} is not there; run make setup, or pull it",
            config.image
        );
        runtime.prepare_helper().await.context("the helper could not be put in its place")?;
        let store = Store::open(&data.database()).context("the database cannot be opened")?;
        let access = Access::new(store.clone(), config.static_keys.clone())
            .with_secret(&store.server_secret().await.context("the database cannot be read")?);
        let feed = Feed::default();
        let settings = session_settings(&config, &data);
        let sessions = Sessions::start(runtime, store.clone(), feed.clone(), settings, shutdown.clone()).await?;
        let history = HistorySettings { retention: config.retention.clone(), search_dir: data.search() };
        // A connection of its own: whoever looks at the past must not make those wait who act now.
        let past = Store::open(&data.database()).context("the database cannot be opened")?;
        let history = History::start(past, sessions.clone(), history, shutdown.clone()).await?;
        Ok(Self { config: Arc::new(config), data, store, access, feed, sessions, history, tls, shutdown })
    }

    /// All sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What models call. To be made once: it keeps a reader from beginning two commands at the same time.
    pub fn tools(&self) -> Tools {
        Tools::new(self.store.clone(), self.shutdown.clone())
    }

    /// Certificate and key, where HTTPS is spoken.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Keys and sign-ins.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Whom a first link is for, and, where no key was configured, the file with the key that was made instead.
    pub async fn first_tenant(&self) -> anyhow::Result<(String, Option<PathBuf>)> {
        let made = match self.data.first_key(&self.access).await? {
            FirstKey::NotNeeded => None,
            FirstKey::Made(file) | FirstKey::Kept(file) => Some(file),
        };
        let tenant = self.config.static_keys.first().map_or_else(|| FIRST_TENANT.to_owned(), |key| key.tenant.clone());
        Ok((tenant, made))
    }

    /// Writes down where people find the page, for `glassbox link`.
    pub fn announce(&self, base: &str) -> anyhow::Result<()> {
        self.data.announce_address(base)
    }

    /// A fresh agent key for the demo.
    pub async fn demo_key(&self, tenant: &str) -> anyhow::Result<(KeyView, String)> {
        // Keys of earlier demos are of no use to anybody: their secrets were never shown.
        for key in self.access.list_keys(tenant).await? {
            if key.active && key.name == DEMO_KEY && key.role == Role::Agent {
                self.access.revoke_key(tenant, &key.key_id).await?;
            }
        }
        Ok(self.access.create_key(tenant, DEMO_KEY, Role::Agent).await?)
    }

    /// Serves until the shutdown token is cancelled, then stops everything.
    pub async fn serve(self, listener: TcpListener) -> anyhow::Result<()> {
        let state = AppState {
            sessions: self.sessions.clone(),
            tools: self.tools(),
            history: self.history.clone(),
            access: self.access.clone(),
            feed: self.feed.clone(),
            settings: Arc::new(http_settings(&self.config, self.tls.clone())),
            shutdown: self.shutdown.clone(),
            epoch: ids::random_characters(EPOCH),
        };
        let served = tokio::select! {
            served = crate::http::serve_http(listener, state, self.shutdown.clone()) => served,
            never = prune_regularly(&self.access) => match never {},
        };
        self.shutdown.cancel();
        self.stop().await;
        served.context("serving broke off")
    }

    /// Waits for owners and drivers, then closes the store. The shutdown token must be cancelled before.
    pub async fn stop(self) {
        let sessions = tokio::time::timeout(STOP_DEADLINE, self.sessions.stopped());
        let history = tokio::time::timeout(STOP_DEADLINE, self.history.stopped());
        let (sessions, history) = tokio::join!(sessions, history);
        if sessions.is_err() {
            tracing::warn!("some sessions did not stop within {STOP_DEADLINE:?}; the next start brings them back");
        }
        if history.is_err() {
            tracing::warn!("what the history was doing took longer than {STOP_DEADLINE:?}; the next start goes on");
        }
        self.store.close().await;
        // The data directory's lock is given up last.
        drop(self.data);
    }
}

/// Between two looks for links and sign-ins that are too old; they are refused long before they are deleted.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

async fn prune_regularly(access: &Access) -> std::convert::Infallible {
    let mut ticks = tokio::time::interval(PRUNE_INTERVAL);
    loop {
        ticks.tick().await;
        if let Err(error) = access.prune().await {
            tracing::warn!(%error, "old links and sign-ins could not be deleted; trying again");
        }
    }
}

/// The demo agent's key.
const DEMO_KEY: &str = "demo-agent";

fn session_settings(config: &Config, data: &DataDir) -> SessionSettings {
    SessionSettings {
        instance: data.instance().to_owned(),
        image: config.image.clone(),
        templates: Vec::new(),
        open_workspace_dir: config.open_workspace_dir.clone(),
        logs_dir: data.logs(),
        log: log_settings(config),
        max_sessions: config.max_sessions,
        max_commands: config.max_commands,
        idle: config.idle,
        lifetime: config.lifetime,
        max_command: config.max_command_time,
        memory_total: config.memory_total,
        max_memory: config.memory_total.max(spec::default_limits(Profile::Open).memory_bytes),
        max_cpus: std::thread::available_parallelism().map_or(2.0, |cpus| (cpus.get() as f64).max(2.0)),
        max_file: config.max_file,
        max_pids: MAX_PIDS,
    }
}

fn log_settings(config: &Config) -> LogSettings {
    let sizes = &config.logs;
    LogSettings { ring: sizes.ring_bytes as usize, head: sizes.head_bytes, tail: sizes.tail_bytes }
}

/// Highest process limit that a session may ask for: the machine has about 32,000 process ids for everyone.
const MAX_PIDS: u32 = 4096;

fn http_settings(config: &Config, tls: Option<Arc<Tls>>) -> HttpSettings {
    HttpSettings {
        public_urls: config.public_urls.iter().map(|url| url.origin.clone()).collect(),
        trusted_proxies: config.trusted_proxies.clone(),
        tls,
        max_connections: config.max_connections,
        requests_per_minute: config.requests_per_minute,
        page_requests_per_minute: config.page_requests_per_minute,
    }
}
