//! An engine in memory, for tests of the domain and for `glassbox idle`: no container, no process, no clock but tokio's.
//!
//! It answers `[HELPER_PATH, "run", COMMAND_ID]` with a helper of its own, which speaks the real frames and "runs" the
//! last argument of the command as a small script. Statements are separated by `;` or a line's end:
//!
//! | statement | does |
//! | --- | --- |
//! | `print TEXT`, `echo TEXT` | writes the text and a line end |
//! | `error TEXT` | the same to stderr, when the command is split |
//! | `flood BYTES` | writes so many bytes, in pieces, as fast as they are taken |
//! | `env NAME`, `cwd` | writes what the command was given |
//! | `sleep MILLISECONDS` | waits |
//! | `hang` | waits until it is ended |
//! | `stubborn` | as `hang`, ends only by KILL after the grace |
//! | `immortal` | as `hang`, survives even KILL, and is named as a survivor |
//! | `deaf` | as `hang`, with a helper that ignores orders: only a sweep ends it |
//! | `exit CODE` | ends with the code; without it a script ends with 0 |
//! | `signal NUMBER` | ends as by somebody's signal |
//! | `leave MILLISECONDS TEXT` | at the end, a child goes on to hold the output open, writes the text and ends |
//! | `claim MILLISECONDS` | at the end, the helper says that it ran so long |
//! | `fail TEXT` | cannot be started, as the first statement |
//! | `vanish` | the helper is gone without a word |
//! | `nonsense` | the helper says something that is no frame |
//! | `die`, `die oom` | the whole sandbox dies |
//!
//! `[HELPER_PATH, "files"]` is answered by a file service ([`files`]).
//!
//! Anything else is an unknown command, as bash has it: exit code 127. What the engine does is set by [`Switches`] and
//! by [`FakeRuntime::kill_container`] and its neighbours.

mod files;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use glassbox_shared::command::Survivor;
use glassbox_shared::helper::{
    Channel, EndCause, Ended, ExitStatus, FrameBuffer, FromHelper, HELPER_PATH, MAX_OUTPUT, Start, ToHelper,
};
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::DeathCause;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

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
/// SIGTERM and SIGKILL.
const TERM: i32 = 15;
const KILL: i32 = 9;
/// The PID of every command.
const PID: i32 = 42;

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
                let helper = Helper {
                    engine: self.clone(),
                    container: container.to_owned(),
                    inbox: Inbox { input: helpers_input, frames: FrameBuffer::default() },
                    output: sender,
                    tag: 0,
                };
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
                        () = sweep(helpers_input, &sender, swept, &switches) => {}
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
        Ok(Inventory { containers: containers.collect(), workspaces: state.workspaces.values().cloned().collect() })
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

/// What the server tells a helper.
struct Inbox {
    input: DuplexStream,
    frames: FrameBuffer,
}

impl Inbox {
    /// The next order; `None`: stdin is at its end, or is nonsense. May be dropped while waiting.
    async fn next(&mut self) -> Option<ToHelper> {
        loop {
            if let Some((kind, body)) = self.frames.next_frame().ok()? {
                return ToHelper::decode(kind, body).ok();
            }
            let mut bytes = [0; 4096];
            match self.input.read(&mut bytes).await {
                Ok(count @ 1..) => self.frames.push(&bytes[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

async fn sweep(
    mut input: DuplexStream,
    output: &mpsc::Sender<Bytes>,
    swept: Option<CancellationToken>,
    switches: &Switches,
) {
    let mut tag = [0; 8];
    if input.read_exact(&mut tag).await.is_err() || switches.sweeps_fail {
        return;
    }
    if let Some(swept) = swept {
        swept.cancel();
    }
    let ended =
        Ended { status: ExitStatus::Unknown, cause: EndCause::Kill, signal: KILL, took_ms: 1, ran_ms: None, survivors: Vec::new() };
    // A server that does not listen any more is no failure.
    let _ = output.send(Bytes::from(FromHelper::Ended(ended).encode(u64::from_le_bytes(tag)))).await;
}

/// How much a command resists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resistance {
    None,
    Stubborn,
    Immortal,
    Deaf,
}

/// The helper of one command. Its methods answer `None` when it is over without a word.
struct Helper {
    engine: FakeRuntime,
    container: String,
    inbox: Inbox,
    output: mpsc::Sender<Bytes>,
    tag: u64,
}

impl Helper {
    async fn run(mut self, switches: &Switches) -> Option<()> {
        let Some(ToHelper::Start(start)) = self.inbox.next().await else { return None };
        self.tag = start.tag;
        if switches.silent {
            sleep(FOREVER).await;
        }
        if switches.nonsense {
            return self.raw(b"this is no frame".as_slice()).await;
        }
        let script = start.argv.last().cloned().unwrap_or_default();
        let limit = Instant::now() + Duration::from_millis(start.limit_ms);
        if let Some(message) = script.trim().strip_prefix("fail ") {
            return self.say(&FromHelper::FailedToStart { message: message.to_owned() }).await;
        }
        self.say(&FromHelper::Started { pid: PID }).await?;
        let began = Instant::now();
        let mut claimed = None;
        let mut left = None;
        let mut ended = None;
        for statement in script.split([';', '\n']).map(str::trim).filter(|statement| !statement.is_empty()) {
            let (word, rest) = statement.split_once(' ').unwrap_or((statement, ""));
            let number = rest.parse::<u64>().unwrap_or_default();
            ended = match word {
                "print" | "echo" => self.line(&start, Channel::Stdout, rest).await?,
                "error" => self.line(&start, Channel::Stderr, rest).await?,
                "env" => self.line(&start, Channel::Stdout, start.env.get(rest).map_or("", String::as_str)).await?,
                "cwd" => self.line(&start, Channel::Stdout, start.cwd.as_deref().unwrap_or("")).await?,
                "flood" => self.flood(&start, number, limit).await?,
                "sleep" => {
                    self.wait(&start, Instant::now() + Duration::from_millis(number), limit, Resistance::None).await?
                }
                "hang" => self.wait(&start, Instant::now() + FOREVER, limit, Resistance::None).await?,
                "stubborn" => self.wait(&start, Instant::now() + FOREVER, limit, Resistance::Stubborn).await?,
                "immortal" => self.wait(&start, Instant::now() + FOREVER, limit, Resistance::Immortal).await?,
                "deaf" => self.wait(&start, Instant::now() + FOREVER, limit, Resistance::Deaf).await?,
                "exit" => Some(own_end(ExitStatus::Code(number as i32))),
                "signal" => Some(own_end(ExitStatus::Signal(number as i32))),
                "leave" => {
                    let (pause, text) = rest.split_once(' ').unwrap_or((rest, ""));
                    left = Some((Duration::from_millis(pause.parse().unwrap_or_default()), text.to_owned()));
                    None
                }
                "claim" => {
                    claimed = Some(number);
                    None
                }
                "vanish" => return None,
                "nonsense" => return self.raw(b"this is no frame".as_slice()).await,
                "die" => {
                    let cause = if rest == "oom" { DeathCause::Oom } else { DeathCause::Exit };
                    self.engine.kill_container(&self.container, cause);
                    return None;
                }
                unknown => {
                    self.line(&start, Channel::Stderr, &format!("bash: {unknown}: command not found")).await?;
                    Some(own_end(ExitStatus::Code(127)))
                }
            };
            if ended.is_some() {
                break;
            }
        }
        let mut ended = ended.unwrap_or_else(|| own_end(ExitStatus::Code(0)));
        if ended.status != ExitStatus::Unknown {
            ended.ran_ms = claimed.or(Some(began.elapsed().as_millis() as u64));
        }
        let was_killed = ended.cause != EndCause::Own;
        self.say(&FromHelper::Ended(ended)).await?;
        if let Some((pause, text)) = left.filter(|_| !was_killed)
            && self.wait(&start, Instant::now() + pause, Instant::now() + FOREVER, Resistance::None).await?.is_none()
        {
            let _ = self.line(&start, Channel::Stdout, &text).await?;
        }
        self.say(&FromHelper::OutputClosed).await
    }

    async fn raw(&self, bytes: impl Into<Vec<u8>>) -> Option<()> {
        self.output.send(Bytes::from(bytes.into())).await.ok()
    }

    async fn say(&self, frame: &FromHelper) -> Option<()> {
        self.raw(frame.encode(self.tag)).await
    }

    async fn line(&self, start: &Start, channel: Channel, text: &str) -> Option<Option<Ended>> {
        let channel = if start.split { channel } else { Channel::Merged };
        self.say(&FromHelper::Output { channel, bytes: format!("{text}\n").into_bytes() }).await.map(|()| None)
    }

    /// Writes until the end, or until told to stop.
    async fn flood(&mut self, start: &Start, bytes: u64, limit: Instant) -> Option<Option<Ended>> {
        let channel = if start.split { Channel::Stdout } else { Channel::Merged };
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let piece = left.min(MAX_OUTPUT);
            let frame = FromHelper::Output { channel, bytes: vec![b'x'; piece] }.encode(self.tag);
            // Telling comes before writing: a kill must not wait behind output.
            let place = self.output.clone();
            tokio::select! {
                biased;
                told = self.told(start, limit, Resistance::None) => {
                    return Some(Some(told?.obey(Resistance::None).await));
                }
                sent = place.send(Bytes::from(frame)) => sent.ok()?,
            }
            left -= piece;
        }
        Some(None)
    }

    /// Waits until `until`; how the command ended, if it was told to meanwhile.
    async fn wait(
        &mut self,
        start: &Start,
        until: Instant,
        limit: Instant,
        resistance: Resistance,
    ) -> Option<Option<Ended>> {
        tokio::select! {
            biased;
            told = self.told(start, limit, resistance) => Some(Some(told?.obey(resistance).await)),
            () = sleep_until(until) => Some(None),
        }
    }

    /// Waits until the command is told to end, or its limit is reached. May be dropped while waiting.
    async fn told(&mut self, start: &Start, limit: Instant, resistance: Resistance) -> Option<Told> {
        let ignores_signals = resistance != Resistance::None;
        loop {
            tokio::select! {
                biased;
                order = self.inbox.next() => match order? {
                    _ if resistance == Resistance::Deaf => {}
                    ToHelper::Kill { grace_ms } => return Some(Told::End(EndCause::Kill, grace_ms)),
                    ToHelper::Signal(number) if number == KILL || !ignores_signals => return Some(Told::Signal(number)),
                    _ => {}
                },
                () = sleep_until(limit), if resistance != Resistance::Deaf => {
                    return Some(Told::End(EndCause::Limit, start.grace_ms));
                }
            }
        }
    }
}

/// Why a command ends before its script does.
enum Told {
    Signal(i32),
    /// A kill or the limit, with the milliseconds of its grace.
    End(EndCause, u64),
}

impl Told {
    /// How the command ends, after the grace that it uses up when it resists.
    async fn obey(self, resistance: Resistance) -> Ended {
        let (cause, grace_ms) = match self {
            Told::Signal(number) => return own_end(ExitStatus::Signal(number)),
            Told::End(cause, grace_ms) => (cause, grace_ms),
        };
        let (status, signal, survivors) = match resistance {
            Resistance::None | Resistance::Deaf => (ExitStatus::Signal(TERM), TERM, Vec::new()),
            Resistance::Stubborn => (ExitStatus::Signal(KILL), KILL, Vec::new()),
            Resistance::Immortal => {
                (ExitStatus::Unknown, KILL, vec![Survivor { pid: PID, name: "immortal".to_owned() }])
            }
        };
        let took_ms = if signal == KILL { grace_ms } else { 0 };
        sleep(Duration::from_millis(took_ms)).await;
        Ended { status, cause, signal, took_ms, ran_ms: None, survivors }
    }
}

fn own_end(status: ExitStatus) -> Ended {
    Ended { status, cause: EndCause::Own, signal: 0, took_ms: 0, ran_ms: None, survivors: Vec::new() }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use glassbox_shared::session::Profile;
    use tokio::io::AsyncWriteExt as _;

    use super::super::spec::tests::example;
    use super::*;

    const TAG: u64 = 7;

    async fn sandbox() -> FakeRuntime {
        let engine = FakeRuntime::new();
        let spec = example(Profile::Open);
        engine.create_workspace(&spec.workspace, "t", "s").await.expect("made");
        engine.start(&spec).await.expect("started");
        engine
    }

    fn container() -> String {
        example(Profile::Open).container
    }

    async fn exec(engine: &FakeRuntime, argv: &[&str]) -> ExecStream {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        engine.exec(&container(), &ExecSpec { argv }).await.expect("an exec")
    }

    async fn send(stream: &mut ExecStream, order: ToHelper) {
        stream.input.write_all(&order.encode()).await.expect("written");
    }

    async fn run(engine: &FakeRuntime, script: &str) -> ExecStream {
        let mut stream = exec(engine, &[HELPER_PATH, "run", "cmd_a"]).await;
        let start = Start {
            tag: TAG,
            argv: vec!["bash".to_owned(), "-c".to_owned(), script.to_owned()],
            cwd: None,
            env: BTreeMap::new(),
            split: true,
            limit_ms: 60_000,
            grace_ms: 10,
            stdin: false,
            terminal: None,
        };
        send(&mut stream, ToHelper::Start(Box::new(start))).await;
        stream
    }

    async fn rest(stream: &mut ExecStream) -> Vec<FromHelper> {
        let mut buffer = FrameBuffer::default();
        let mut frames = Vec::new();
        while let Some(bytes) = stream.output.next().await {
            buffer.push(&bytes.expect("no error"));
            while let Some((kind, body)) = buffer.next_frame().expect("frames") {
                frames.push(FromHelper::decode(TAG, kind, body).expect("frames"));
            }
        }
        frames
    }

    fn out(channel: Channel, text: &str) -> FromHelper {
        FromHelper::Output { channel, bytes: text.as_bytes().to_vec() }
    }

    fn ended(code: i32, ran_ms: u64) -> FromHelper {
        FromHelper::Ended(Ended { ran_ms: Some(ran_ms), ..own_end(ExitStatus::Code(code)) })
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_prints_and_exits() {
        let engine = sandbox().await;
        let mut stream = run(&engine, "print one; error two\nsleep 300; exit 3; print never").await;
        let expected = [
            FromHelper::Started { pid: PID },
            out(Channel::Stdout, "one\n"),
            out(Channel::Stderr, "two\n"),
            ended(3, 300),
            FromHelper::OutputClosed,
        ];
        assert_eq!(rest(&mut stream).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_was_left_writes_after_the_end() {
        let engine = sandbox().await;
        let mut stream = run(&engine, "leave 500 late").await;
        let expected = [
            FromHelper::Started { pid: PID },
            ended(0, 0),
            out(Channel::Stdout, "late\n"),
            FromHelper::OutputClosed,
        ];
        assert_eq!(rest(&mut stream).await, expected);
    }

    #[tokio::test]
    async fn a_kill_ends_a_hanging_command_and_a_flooding_one() {
        for script in ["hang", "flood 100000000000"] {
            let engine = sandbox().await;
            let mut stream = run(&engine, script).await;
            send(&mut stream, ToHelper::Kill { grace_ms: 1 }).await;
            let frames = rest(&mut stream).await;
            assert!(
                frames.iter().any(|frame| matches!(frame, FromHelper::Ended(Ended { cause: EndCause::Kill, .. }))),
                "{script}"
            );
            while !engine.running().is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends_a_stubborn_command_by_force_and_names_who_survives() {
        let engine = sandbox().await;
        let mut stream = run(&engine, "immortal").await;
        let frames = rest(&mut stream).await;
        let FromHelper::Ended(ended) = &frames[1] else { panic!("no end: {frames:?}") };
        assert_eq!((ended.cause, ended.signal, ended.survivors.len()), (EndCause::Limit, KILL, 1));
    }

    #[tokio::test]
    async fn a_deaf_helper_is_ended_by_a_sweep() {
        let engine = sandbox().await;
        let mut stream = run(&engine, "deaf").await;
        send(&mut stream, ToHelper::Kill { grace_ms: 0 }).await;
        let mut sweep = exec(&engine, &[HELPER_PATH, "sweep", "cmd_a"]).await;
        sweep.input.write_all(&TAG.to_le_bytes()).await.expect("written");
        assert!(matches!(
            rest(&mut sweep).await.as_slice(),
            [FromHelper::Ended(Ended { status: ExitStatus::Unknown, .. })]
        ));
        assert_eq!(rest(&mut stream).await, [FromHelper::Started { pid: PID }]);
        assert_eq!(engine.sweeps(), 1);
    }

    #[tokio::test]
    async fn a_death_ends_the_streams_and_is_reported() {
        let engine = sandbox().await;
        let mut events = engine.events();
        let mut stream = run(&engine, "die oom").await;
        assert_eq!(rest(&mut stream).await, [FromHelper::Started { pid: PID }]);
        assert!(matches!(events.recv().await, Ok(RuntimeEvent::OutOfMemory { .. })));
        assert!(matches!(events.recv().await, Ok(RuntimeEvent::Died { .. })));
        assert_eq!(engine.status(&container()).await.expect("up"), ContainerStatus::Dead(DeathCause::Oom));
        let exec = engine
            .exec(&container(), &ExecSpec { argv: vec![HELPER_PATH.to_owned(), "run".to_owned(), "x".to_owned()] })
            .await;
        assert!(matches!(exec, Err(RuntimeError::Gone(_))));
    }

    #[tokio::test]
    async fn the_end_of_stdin_ends_the_command() {
        let engine = sandbox().await;
        let stream = run(&engine, "hang").await;
        assert_eq!(engine.running(), ["cmd_a"]);
        drop(stream);
        while !engine.running().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_engine_that_is_down_answers_nothing() {
        let engine = sandbox().await;
        engine.switch(|switches| switches.engine_down = true);
        assert!(matches!(engine.status(&container()).await, Err(RuntimeError::Unreachable(_))));
        engine.switch(|switches| switches.engine_down = false);
        assert_eq!(engine.status(&container()).await.expect("up"), ContainerStatus::Running);
    }
}
