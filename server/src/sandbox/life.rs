//! What happens on a sandbox's thread, from its beginning to its end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::session::{CreateSession, MemorySize};
use glassbox_shared::tools::ToolAnswer;
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{SandboxConfig, SandboxError, places};
use crate::control::Principal;
use crate::runtime::Runtime;
use crate::server::config::{Config, usual_sandboxes_dir};
use crate::server::data::DataDir;
use crate::server::{self, Server};
use crate::session::Session;
use crate::tools::{Reader, Tools};

/// A program keeps its sandbox for as long as it wants: it goes with the program.
const UNLIMITED: Duration = Duration::from_hours(10 * 365 * 24);
/// What killed programs left is looked for beside the sandbox's life, and its end waits for that at most until so long
/// after its beginning; the engine goes on with what it was told, and the next start with the rest.
const LEFTOVERS_DEADLINE: Duration = Duration::from_secs(20);
/// Calls that are cut off when all is removed, and writes to files that are gone.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// The tenant in labels: there is only one.
const TENANT: &str = "local";

/// What speaks to a sandbox from outside of its thread.
#[derive(Debug, Clone)]
pub(super) struct Inside {
    pub runtime: Handle,
    pub session: Session,
    pub who: Principal,
    tools: Tools,
    reader: Reader,
}

impl Inside {
    pub(super) async fn dispatch(&self, name: &str, input: &Value) -> ToolAnswer {
        self.tools.dispatch(&self.who, &self.session, &self.reader, name, input).await
    }
}

/// The thread's body: answers `made` when the sandbox is ready or cannot be, and `removed` when nothing is left of it.
pub(super) fn live(
    config: SandboxConfig,
    end: &CancellationToken,
    made: oneshot::Sender<Result<Inside, SandboxError>>,
    removed: &watch::Sender<Option<Result<(), SandboxError>>>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = made.send(Err(SandboxError::Start(error.to_string())));
            return;
        }
    };
    let outcome = runtime.block_on(life(&config, end, made));
    if let Err(error) = &outcome {
        tracing::error!(%error);
    }
    removed.send_replace(Some(outcome));
    runtime.shutdown_timeout(LAST_CALLS);
}

/// From the folder that is made to the folder that is gone.
async fn life(
    config: &SandboxConfig,
    end: &CancellationToken,
    made: oneshot::Sender<Result<Inside, SandboxError>>,
) -> Result<(), SandboxError> {
    let parent = config.folder.clone().unwrap_or_else(usual_sandboxes_dir);
    let refuse = |error: anyhow::Error| SandboxError::Start(format!("{error:#}"));
    let prepared = places::make(&parent).and_then(|data| match server::connect(&config.image, data.instance()) {
        Ok(runtime) => Ok((data, runtime)),
        Err(error) => {
            places::discard(data.path());
            Err(error)
        }
    });
    // Who asked may have gone away: then the end is asked for, too.
    let (data, runtime) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = made.send(Err(refuse(error)));
            return Ok(());
        }
    };
    let folder = data.path().to_owned();
    let shutdown = CancellationToken::new();
    let mut failure = None;
    // Also when nobody waits for it any more: what the engine has begun to make would come after the last look at it.
    match Server::start(settings(config, &data), data, runtime.clone(), shutdown.clone()).await {
        Err(error) => failure = Some((made, refuse(error))),
        Ok(server) => {
            match until(end, begin(&server, config)).await {
                Err(error) => failure = Some((made, refuse(error))),
                Ok(inside) => {
                    let _ = made.send(Ok(inside));
                    let leftovers = timeout(LEFTOVERS_DEADLINE, places::clear_leftovers(&parent, &config.image));
                    let lived = async {
                        end.cancelled().await;
                        end_all(&server).await;
                    };
                    let (cleared, ()) = tokio::join!(leftovers, lived);
                    if cleared.is_err() {
                        tracing::info!("what killed programs left is not gone yet; the next start goes on");
                    }
                }
            }
            if failure.is_some() {
                end_all(&server).await;
            }
            shutdown.cancel();
            server.stop().await;
        }
    }
    shutdown.cancel();
    let outcome = vanish(&runtime, &folder).await;
    if let Some((made, failure)) = failure {
        let _ = made.send(Err(failure));
    }
    outcome
}

/// Does something unless the end is asked for before it is done.
async fn until<T>(end: &CancellationToken, doing: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = doing => done,
        () = end.cancelled() => Err(anyhow::anyhow!("nobody waited for it any more")),
    }
}

fn settings(config: &SandboxConfig, data: &DataDir) -> Config {
    let usual = Config::default();
    let asked = config.memory.clone().and_then(|text| MemorySize::Text(text).bytes()).unwrap_or(0);
    Config {
        data_dir: data.path().to_owned(),
        image: config.image.clone(),
        open_workspace_dir: config.workspace.clone().unwrap_or(usual.open_workspace_dir),
        memory_total: usual.memory_total.max(asked),
        max_sessions: 1,
        idle: UNLIMITED,
        lifetime: UNLIMITED,
        ..usual
    }
}

async fn begin(server: &Server, config: &SandboxConfig) -> anyhow::Result<Inside> {
    let who = Principal {
        tenant: TENANT.to_owned(),
        role: Role::Agent,
        actor: Actor::Agent { name: "program".to_owned() },
        key_id: None,
    };
    let request = CreateSession {
        profile: Some(config.profile),
        persistent: Some(true),
        memory: config.memory.clone().map(MemorySize::Text),
        cpus: config.cpus,
        pids_limit: config.pids_limit,
        ..CreateSession::default()
    };
    let made = server.sessions().create(&who, request).await.map_err(anyhow::Error::new)?;
    let session = server.sessions().get(&who.tenant, &made.session_id).map_err(anyhow::Error::new)?;
    let reader = Reader::new(&who, None).map_err(anyhow::Error::new)?;
    Ok(Inside { runtime: Handle::current(), session, who, tools: server.tools(), reader })
}

/// Ends the session, and with it what runs. Whether that is really so is looked at later.
async fn end_all(server: &Server) {
    if let Err(error) = server.sessions().end_all().await {
        tracing::warn!(%error, "the sandbox could not be ended in order");
    }
}

/// Sees to it that nothing is left in the engine, and only then removes the folder, by which it could be found.
async fn vanish(runtime: &Runtime, folder: &Path) -> Result<(), SandboxError> {
    places::remove_everything(runtime).await.map_err(|error| SandboxError::Removal(error.to_string()))?;
    let folder: PathBuf = folder.to_owned();
    // Up to 64 MiB of output for each command.
    if let Err(error) = tokio::task::spawn_blocking(move || places::discard(&folder)).await {
        tracing::warn!(%error, "the folder of a sandbox was not removed");
    }
    Ok(())
}
