//! An engine in memory, for tests of the domain and for the benchmark: no container, no process, no clock but tokio's.
//!
//! It answers `[HELPER_PATH, "run", COMMAND_ID]` and `[HELPER_PATH, "sweep", COMMAND_ID]` with a [`helper`] of its own, which
//! speaks the real frames and "runs" the last argument of the command as a small [`script`], and `[HELPER_PATH, "files"]`
//! with a file service ([`files`]). What the engine does is set by [`Switches`] and by [`FakeRuntime::kill_container`] and
//! its neighbours.

mod files;
mod helper;
mod script;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::unfold;
use glassbox_shared::helper::HELPER_PATH;
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::DeathCause;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::helper::Helper;
use super::spec::RUNTIME;
use super::{
    ContainerRuntime, ContainerStatus, EVENT_QUEUE, EngineInfo, ExecSpec, ExecStream, Inventory, Owned, RuntimeError,
    RuntimeEvent, SandboxSpec, labels,
};

/// Items of output that an exec holds before its helper waits, as a socket would.
const OUTPUT_QUEUE: usize = 8;
/// Bytes of input that an exec holds.
const INPUT_BUFFER: usize = 64 * 1024;
/// How long tests' stand-in for a hung engine lets a caller wait: beyond every deadline of the domain.
const FOREVER: Duration = Duration::from_hours(365 * 24);

/// What goes wrong. All off at first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    /// Every call answers that the engine cannot be reached.
    pub engine_down: bool,
    /// The engine has no runsc.
    pub no_gvisor: bool,
    /// Sandboxes cannot be started.
    pub refuse_starts: bool,
    /// Starting a sandbox never returns.
    pub hang_starts: bool,
    /// Neither containers nor workspaces can be removed.
    pub refuse_removals: bool,
    /// Execs cannot be started.
    pub refuse_execs: bool,
    /// Every helper says something that is no frame.
    pub nonsense: bool,
    /// Every helper says nothing at all.
    pub silent: bool,
    /// Sweeps end without an answer.
    pub sweeps_fail: bool,
}

#[derive(Debug)]
struct Container {
    spec: SandboxSpec,
    dead: Option<DeathCause>,
    life: CancellationToken,
    /// Commands that run in it, by id: cancelled by a sweep.
    commands: HashMap<String, CancellationToken>,
}

#[derive(Debug, Default)]
struct State {
    switches: Switches,
    containers: BTreeMap<String, Container>,
    workspaces: BTreeMap<String, Owned>,
    started: Vec<SandboxSpec>,
    sweeps: usize,
    file_services: usize,
    dropped_uploads: usize,
}

/// The engine in memory. A clone is the same engine.
#[derive(Debug, Clone)]
pub struct FakeRuntime {
    state: Arc<Mutex<State>>,
    listeners: broadcast::Sender<RuntimeEvent>,
    trouble: watch::Sender<Option<EngineTrouble>>,
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeRuntime {
    /// An engine with nothing in it, and every image.
    pub fn new() -> Self {
        Self { state: Arc::default(), listeners: broadcast::channel(EVENT_QUEUE).0, trouble: watch::channel(None).0 }
    }

    /// Changes what goes wrong from now on.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.lock().switches);
    }

    /// A container dies, and the engine reports it.
    pub fn kill_container(&self, container: &str, cause: DeathCause) {
        self.end_container(container, cause);
        if cause == DeathCause::Oom {
            self.report(RuntimeEvent::OutOfMemory { container: container.to_owned() });
        }
        self.report(RuntimeEvent::Died { container: container.to_owned() });
    }

    /// A container dies, and nobody is told: the event was lost.
    pub fn kill_container_unseen(&self, container: &str, cause: DeathCause) {
        self.end_container(container, cause);
    }

    /// A container is removed by somebody else.
    pub fn lose_container(&self, container: &str) {
        if let Some(found) = self.lock().containers.remove(container) {
            found.life.cancel();
        }
    }

    /// A workspace is removed by somebody else.
    pub fn lose_workspace(&self, workspace: &str) {
        self.lock().workspaces.remove(workspace);
    }

    /// Reports an event, for instance [`RuntimeEvent::Resumed`].
    pub fn report(&self, event: RuntimeEvent) {
        // Nobody listening is no failure.
        let _ = self.listeners.send(event);
    }

    /// What is known of the engine from now on.
    pub fn set_trouble(&self, trouble: Option<EngineTrouble>) {
        self.trouble.send_replace(trouble);
    }

    /// Containers that are there, dead ones too.
    pub fn containers(&self) -> Vec<String> {
        self.lock().containers.keys().cloned().collect()
    }

    /// Workspaces that are there.
    pub fn workspaces(&self) -> Vec<String> {
        self.lock().workspaces.keys().cloned().collect()
    }

    /// Every sandbox that was ever started, in order.
    pub fn started(&self) -> Vec<SandboxSpec> {
        self.lock().started.clone()
    }

    /// Ids of commands that run now.
    pub fn running(&self) -> Vec<String> {
        self.lock().containers.values().flat_map(|container| container.commands.keys().cloned()).collect()
    }

    /// Sweeps that were asked for.
    pub fn sweeps(&self) -> usize {
        self.lock().sweeps
    }

    /// File services that were started.
    pub fn file_services(&self) -> usize {
        self.lock().file_services
    }

    /// Uploads that file services were told to give up.
    pub fn dropped_uploads(&self) -> usize {
        self.lock().dropped_uploads
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up(&self) -> Result<MutexGuard<'_, State>, RuntimeError> {
        let state = self.lock();
        if state.switches.engine_down {
            Err(RuntimeError::Unreachable("it was switched off".to_owned()))
        } else {
            Ok(state)
        }
    }

    fn end_container(&self, container: &str, cause: DeathCause) {
        if let Some(found) = self.lock().containers.get_mut(container) {
            found.dead = Some(cause);
            found.commands.clear();
            found.life.cancel();
        }
    }

    fn end_command(&self, container: &str, command: &str) {
        if let Some(found) = self.lock().containers.get_mut(container) {
            found.commands.remove(command);
        }
    }
}

fn refused(what: &str) -> RuntimeError {
    RuntimeError::Engine(format!("{what} was switched off"))
}

#[async_trait::async_trait]
impl ContainerRuntime for FakeRuntime {
    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        let no_gvisor = self.up()?.switches.no_gvisor;
        let runtimes = ["runc", RUNTIME].into_iter().filter(|name| !(no_gvisor && *name == RUNTIME));
        Ok(EngineInfo { version: "fake".to_owned(), runtimes: runtimes.map(str::to_owned).collect() })
    }

    async fn prepare_helper(&self) -> Result<(), RuntimeError> {
        self.up().map(|_| ())
    }

    async fn has_image(&self, image: &str) -> Result<bool, RuntimeError> {
        self.up().map(|_| !image.starts_with("missing"))
    }

    async fn create_workspace(&self, name: &str, tenant: &str, session: &str) -> Result<(), RuntimeError> {
        let labels = owned_labels("workspace", tenant, session);
        self.up()?.workspaces.insert(name.to_owned(), Owned { name: name.to_owned(), labels });
        Ok(())
    }

    async fn has_workspace(&self, name: &str) -> Result<bool, RuntimeError> {
        Ok(self.up()?.workspaces.contains_key(name))
    }

    async fn remove_workspace(&self, name: &str) -> Result<(), RuntimeError> {
        let mut state = self.up()?;
        if state.switches.refuse_removals {
            return Err(refused("removing"));
        }
        state.workspaces.remove(name);
        Ok(())
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), RuntimeError> {
        if self.up()?.switches.hang_starts {
            sleep(FOREVER).await;
        }
        let mut state = self.up()?;
        if state.switches.no_gvisor {
            return Err(RuntimeError::NoGvisor);
        }
        if state.switches.refuse_starts {
            return Err(refused("starting"));
        }
        if spec.image.starts_with("missing") {
            return Err(RuntimeError::NoImage(spec.image.clone()));
        }
        if !state.workspaces.contains_key(&spec.workspace) {
            return Err(RuntimeError::Gone(format!("the workspace {} is gone", spec.workspace)));
        }
        let container =
            Container { spec: spec.clone(), dead: None, life: CancellationToken::new(), commands: HashMap::new() };
        state.started.push(spec.clone());
        if let Some(before) = state.containers.insert(spec.container.clone(), container) {
            before.life.cancel();
        }
        Ok(())
    }

    async fn remove(&self, container: &str) -> Result<(), RuntimeError> {
        let was_alive = {
            let mut state = self.up()?;
            if state.switches.refuse_removals {
                return Err(refused("removing"));
            }
            state.containers.remove(container).is_some_and(|found| {
                found.life.cancel();
                found.dead.is_none()
            })
        };
        if was_alive {
            self.report(RuntimeEvent::Died { container: container.to_owned() });
        }
        Ok(())
    }

    async fn status(&self, container: &str) -> Result<ContainerStatus, RuntimeError> {
        Ok(match self.up()?.containers.get(container) {
            None => ContainerStatus::Missing,
            Some(Container { dead: Some(cause), .. }) => ContainerStatus::Dead(*cause),
            Some(_) => ContainerStatus::Running,
        })
    }

    async fn probe(&self, container: &str) -> Result<ContainerStatus, RuntimeError> {
        self.status(container).await
    }

    async fn can_adopt(&self, container: &str) -> Result<bool, RuntimeError> {
        Ok(self.status(container).await? == ContainerStatus::Running)
    }

    async fn exec(&self, container: &str, exec: &ExecSpec) -> Result<ExecStream, RuntimeError> {
        let (input, helpers_input) = tokio::io::duplex(INPUT_BUFFER);
        let (sender, receiver) = mpsc::channel(OUTPUT_QUEUE);
        let argv: Vec<&str> = exec.argv.iter().map(String::as_str).collect();
        let mut state = self.up()?;
        let switches = state.switches.clone();
        if switches.refuse_execs {
            return Err(refused("exec"));
        }
        let found = state.containers.get_mut(container).filter(|found| found.dead.is_none());
        let Some(found) = found else { return Err(RuntimeError::Gone(format!("{container} is not running"))) };
        let life = found.life.clone();
        match argv.as_slice() {
            [HELPER_PATH, "run", command] => {
                let swept = CancellationToken::new();
                found.commands.insert((*command).to_owned(), swept.clone());
                let helper = Helper::new(self, container, helpers_input, sender);
                let (engine, container, command) = (self.clone(), container.to_owned(), (*command).to_owned());
                tokio::spawn(async move {
                    tokio::select! {
                        () = life.cancelled() => {}
                        () = swept.cancelled() => {}
                        _ = helper.run(&switches) => {}
                    }
                    engine.end_command(&container, &command);
                });
            }
            [HELPER_PATH, "sweep", command] => {
                let swept = found.commands.remove(*command);
                state.sweeps += 1;
                tokio::spawn(async move {
                    tokio::select! {
                        () = life.cancelled() => {}
                        () = helper::sweep(helpers_input, &sender, swept, &switches) => {}
                    }
                });
            }
            [HELPER_PATH, "files"] => {
                state.file_services += 1;
                let engine = self.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = life.cancelled() => {}
                        _ = files::serve(&engine, helpers_input, sender) => {}
                    }
                });
            }
            other => return Err(RuntimeError::Engine(format!("this engine cannot run {other:?}"))),
        }
        drop(state);
        let output =
            unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|bytes| (Ok(bytes), receiver)) });
        Ok(ExecStream { input: Box::pin(input), output: Box::pin(output) })
    }

    async fn inventory(&self) -> Result<Inventory, RuntimeError> {
        let state = self.up()?;
        let containers = state.containers.iter().map(|(name, container)| Owned {
            name: name.clone(),
            labels: owned_labels("sandbox", &container.spec.tenant, &container.spec.session),
        });
        let workspaces = state.workspaces.values().cloned().collect();
        Ok(Inventory { containers: containers.collect(), workspaces, filling: Vec::new() })
    }

    fn trouble(&self) -> watch::Receiver<Option<EngineTrouble>> {
        self.trouble.subscribe()
    }

    fn events(&self) -> broadcast::Receiver<RuntimeEvent> {
        self.listeners.subscribe()
    }
}

fn owned_labels(kind: &str, tenant: &str, session: &str) -> BTreeMap<String, String> {
    let pairs =
        [(labels::INSTANCE, "fake"), (labels::KIND, kind), (labels::TENANT, tenant), (labels::SESSION, session)];
    pairs.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}
