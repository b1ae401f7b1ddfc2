//! The task that owns one command: the only writer of its state and its output log.
//!
//! It drains the helper's stream always, whoever watches. Bytes pass the filter and are in the file before anyone learns
//! of them; a state is in the store before anyone sees it. Nothing ends unverified: where the helper's word is missing or
//! worthless, a second exec sweeps the sandbox for what is left of the command, and until that has worked the command
//! stays `running`.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView, Interruption, KillReport, signal_name};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::helper::{EndCause, Ended, ExitStatus, HELPER_PATH, Start, ToHelper};
use glassbox_shared::live::Event;
use glassbox_shared::session::DeathCause;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::filter::Filter;
use super::log::{Log, LogSettings, LogWriter};
use super::protocol::{Conversation, Heard};
use super::{Command, ORDERS, Order};
use crate::clock;
use crate::error::DomainError;
use crate::feed::Feed;
use crate::runtime::{ContainerStatus, ExecSpec, ExecStream, Runtime, RuntimeError};
use crate::store::{Store, StoreError};

mod helper_link;
mod sweep;
pub(crate) use sweep::sweep;

use helper_link::HelperLink;

/// From the exec's start to the helper's first frame. A loaded machine needs a few seconds; nothing sensible needs more.
const START_DEADLINE: Duration = Duration::from_secs(45);
/// What the helper may take beyond its own grace to verify and tell an end before a sweep takes over: its hunt for
/// survivors ends after 5 s, and draining after 1 s.
const HELPER_MARGIN: Duration = Duration::from_secs(12);
/// Between attempts to verify what could not be verified, or to store what could not be stored.
const RETRY: Duration = Duration::from_secs(2);
/// How long a dead stream waits for the owner to say why the sandbox is gone before it is `unknown`.
const VERDICT_DEADLINE: Duration = Duration::from_secs(10);
/// How long output may trickle in after the sandbox's death was reported: what was in flight, no more.
const DRAIN_AFTER_DEATH: Duration = Duration::from_millis(500);
/// Progress events come at most this often for each command: smooth to the eye, nothing to the server.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// The helper's clock starts a moment before its report is heard, and clocks inside may drift a little; in seconds.
const LIMIT_SLACK: f64 = 1.0;
/// Longest last line in a progress event.
const LAST_LINE: usize = 200;

/// What drivers share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The engine.
    pub runtime: Runtime,
    /// Where states are written.
    pub store: Store,
    /// Who is told.
    pub feed: Feed,
    /// The server stops: leave everything as it is, the next start tells the end.
    pub shutdown: CancellationToken,
}

/// A command to be started.
#[derive(Debug)]
pub struct NewCommand {
    /// Whose.
    pub tenant: String,
    /// As it will be stored first.
    pub view: CommandView,
    /// Where it runs.
    pub container: String,
    /// What the helper gets.
    pub start: Start,
    /// Where its log goes.
    pub log_dir: PathBuf,
    /// How large it may get.
    pub log_settings: LogSettings,
    /// Told when its stream broke off: the sandbox may be dead.
    pub suspect: mpsc::Sender<()>,
}

/// Stores the command, makes its log, and gives a handle and the task that drives it. The task ends when nothing of the
/// command will change any more, or when the server stops.
pub async fn prepare(
    shared: Shared,
    new: NewCommand,
) -> Result<(Command, impl Future<Output = ()> + Send + 'static), DomainError> {
    let (writer, log) = LogWriter::create(&new.log_dir, new.log_settings)?;
    if let Err(error) = shared.store.insert_command(&new.tenant, &new.view).await {
        drop(writer);
        if let Err(problem) = super::log::remove(new.log_dir).await {
            tracing::warn!(%problem, "an unused output log could not be removed");
        }
        return Err(error.into());
    }
    let (view, watching) = watch::channel(new.view.clone());
    let (orders, inbox) = mpsc::channel(ORDERS);
    let command = Command::live(watching, orders, log.clone(), new.log_dir);
    let driver = Driver {
        asked: Instant::now(),
        conversation: Conversation::new(new.start.tag, new.start.split),
        tenant: new.tenant,
        container: new.container,
        command_id: new.view.command_id.to_string(),
        view,
        log,
        writer: Some(writer),
        filter: Filter::default(),
        inbox,
        kill: None,
        verdict: None,
        progress: None,
        suspect: new.suspect,
        session_ending: false,
        shared,
    };
    driver.announce();
    Ok((command, driver.run(new.start)))
}

/// Puts what the log knows into a view.
pub fn describe_output(view: &mut CommandView, log: &Log) {
    let state = log.state();
    view.output_bytes = state.end;
    view.output_missing_bytes = state.missing;
    view.last_output_at = state.last_at;
}

/// A kill at work.
#[derive(Debug)]
struct Kill {
    by: Actor,
    since: Instant,
    /// Then a sweep takes over from the helper.
    helper_until: Instant,
    waiting: Vec<oneshot::Sender<DomainError>>,
}

/// What the owner said about the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Died(DeathCause),
    SessionEnded,
}

struct Driver {
    shared: Shared,
    tenant: String,
    container: String,
    command_id: String,
    view: watch::Sender<CommandView>,
    log: Log,
    /// Gone once the output is closed.
    writer: Option<LogWriter>,
    filter: Filter,
    conversation: Conversation,
    /// When the command was asked for: nothing of it is older.
    asked: Instant,
    inbox: mpsc::Receiver<Order>,
    kill: Option<Kill>,
    verdict: Option<Verdict>,
    progress: Option<Instant>,
    suspect: mpsc::Sender<()>,
    session_ending: bool,
}

/// A final state, and what belongs to it.
struct End {
    state: CommandState,
    kill: Option<KillReport>,
    /// For how long the command's own process lived, as the helper says.
    ran: Option<Duration>,
}

impl From<CommandState> for End {
    fn from(state: CommandState) -> Self {
        Self { state, kill: None, ran: None }
    }
}

/// How following the stream came to an end.
enum Followed {
    /// Everything was heard.
    Over,
    /// The stream broke off, or the helper talked nonsense, or did not answer.
    Lost(&'static str),
    /// The server stops.
    Stopped,
}

impl Driver {
    async fn run(mut self, start: Start) {
        let limit = Duration::from_millis(start.limit_ms.saturating_add(start.grace_ms)).saturating_add(HELPER_MARGIN);
        let stream = match self.open().await {
            Ok(stream) => stream,
            Err(error) => return self.could_not_start(error).await,
        };
        let (mut link, mut output) = HelperLink::new(stream);
        link.send(ToHelper::Start(Box::new(start)));
        let followed = self.follow(&mut link, &mut output, Instant::now().checked_add(limit)).await;
        // Closing the link first: a helper that lives on sees the end of its stdin and ends what it holds.
        drop((link, output));
        match followed {
            Followed::Over => {}
            Followed::Stopped => return,
            Followed::Lost(why) => {
                tracing::info!(command = %self.command_id, why, "lost the helper");
                if !self.is_final() && !self.settle_lost().await {
                    return;
                }
            }
        }
        self.close_output().await;
    }

    fn is_final(&self) -> bool {
        self.view.borrow().state.is_final()
    }

    async fn open(&mut self) -> Result<ExecStream, RuntimeError> {
        let argv = vec![HELPER_PATH.to_owned(), "run".to_owned(), self.command_id.clone()];
        self.shared.runtime.exec(&self.container, &ExecSpec { argv }).await
    }

    /// The exec was refused. What may nevertheless have started is swept away before anything is claimed.
    async fn could_not_start(mut self, error: RuntimeError) {
        let refused = matches!(
            error,
            RuntimeError::Gone(_) | RuntimeError::Engine(_) | RuntimeError::NoGvisor | RuntimeError::NoImage(_)
        );
        if matches!(error, RuntimeError::Gone(_)) {
            let _ = self.suspect.try_send(());
        }
        let message = format!("the container engine could not start the helper: {error}");
        if refused {
            if self.settle(CommandState::FailedToStart { message }.into()).await {
                self.close_output().await;
            }
        } else if self.settle_lost_as(Some(CommandState::FailedToStart { message })).await {
            self.close_output().await;
        }
    }

    /// Follows the stream until it is over, lost, or the server stops.
    async fn follow(
        &mut self,
        link: &mut HelperLink,
        output: &mut helper_link::Output,
        limit: Option<Instant>,
    ) -> Followed {
        let start_by = Instant::now() + START_DEADLINE;
        loop {
            let deadline = self.next_deadline(start_by, limit);
            tokio::select! {
                biased;
                () = self.shared.shutdown.cancelled() => return Followed::Stopped,
                Some(order) = self.inbox.recv() => {
                    self.obey(order, Some(link));
                }
                () = sleep_until(deadline) => {
                    if let Some(lost) = self.deadline_passed(start_by, limit) {
                        return Followed::Lost(lost);
                    }
                }
                read = output.next() => match read {
                    Some(Ok(bytes)) => {
                        self.conversation.push(&bytes);
                        if let Err(lost) = self.hear().await {
                            return Followed::Lost(lost);
                        }
                        if self.conversation.is_over() {
                            return Followed::Over;
                        }
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the helper's stream failed");
                        return Followed::Lost("its stream failed");
                    }
                    None => return Followed::Lost("its stream ended early"),
                },
            }
        }
    }

    /// The nearest moment at which something is overdue.
    fn next_deadline(&self, start_by: Instant, limit: Option<Instant>) -> Option<Instant> {
        let ended = self.is_final();
        let started = self.conversation.has_started();
        [
            (!started).then_some(start_by),
            limit.filter(|_| !ended),
            self.kill.as_ref().map(|kill| kill.helper_until),
            self.verdict.map(|_| Instant::now() + DRAIN_AFTER_DEATH),
            self.progress,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Deals with what is overdue; answers why the helper is given up, if it is.
    fn deadline_passed(&mut self, start_by: Instant, limit: Option<Instant>) -> Option<&'static str> {
        let now = Instant::now();
        if self.progress.is_some_and(|at| at <= now) {
            self.progress = None;
            self.announce_progress();
            return None;
        }
        if self.verdict.is_some() {
            return Some("its sandbox is gone");
        }
        if !self.conversation.has_started() && start_by <= now {
            return Some("it did not report a start");
        }
        if self.kill.as_ref().is_some_and(|kill| kill.helper_until <= now) {
            return Some("it did not report the end of a kill");
        }
        if !self.is_final() && limit.is_some_and(|limit| limit <= now) {
            return Some("it did not keep the run-time limit");
        }
        None
    }

    /// Takes in every whole frame.
    async fn hear(&mut self) -> Result<(), &'static str> {
        loop {
            match self.conversation.hear() {
                Ok(None) => return Ok(()),
                Ok(Some(heard)) => self.take(heard).await?,
                Err(nonsense) => {
                    tracing::warn!(command = %self.command_id, %nonsense, "giving the helper up");
                    return Err("it sent nonsense");
                }
            }
        }
    }

    async fn take(&mut self, heard: Heard) -> Result<(), &'static str> {
        match heard {
            Heard::Started { pid } => {
                self.view.send_modify(|view| {
                    view.state = CommandState::Running;
                    view.pid = Some(pid);
                    view.started_at = Some(clock::now());
                });
                // Not stored before it is shown: a crash now ends in `interrupted` from `starting` just as well.
                let view = self.current();
                if let Err(error) = self.shared.store.update_command(&view).await {
                    tracing::warn!(%error, command = %self.command_id, "the start could not be stored");
                }
                self.announce();
            }
            Heard::FailedToStart(message) => {
                self.settle(CommandState::FailedToStart { message }.into()).await;
            }
            Heard::Output(channel, bytes) => {
                let bytes = self.filter.pass(channel, bytes);
                self.append(channel, &bytes);
            }
            Heard::Ended(Ended { cause: EndCause::Limit, .. }) if !self.over_limit() => {
                return Err("it claims a run-time limit that has not passed");
            }
            Heard::Ended(ended) => self.ended(ended).await,
            Heard::OutputClosed => {}
        }
        Ok(())
    }

    fn append(&mut self, channel: glassbox_shared::helper::Channel, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.append(channel, bytes, clock::now()) {
            // The log itself counts what is missing; a command never stops for it.
            tracing::debug!(%error, command = %self.command_id, "output could not be written");
        }
        if self.progress.is_none() {
            self.progress = Some(Instant::now() + PROGRESS_INTERVAL);
        }
    }

    /// The helper reported the end of the command's own process.
    async fn ended(&mut self, ended: Ended) {
        let Ended { status, cause, signal, took_ms, ran_ms, survivors } = ended;
        let report = |by: Actor| KillReport { signal, took_ms, by, survivors: survivors.clone() };
        let kill_by = self.kill.as_ref().map(|kill| kill.by.clone());
        let (state, kill) = match (cause, status) {
            (EndCause::Own, ExitStatus::Code(code)) => (CommandState::Exited { code }, None),
            (EndCause::Own, ExitStatus::Signal(signal)) => (CommandState::Signaled { signal }, None),
            (EndCause::Limit, _) => (CommandState::TimedOut, Some(report(Actor::Server))),
            (EndCause::Kill, _) => {
                let by = kill_by.unwrap_or(Actor::Server);
                (CommandState::Killed { signal, by: by.clone() }, Some(report(by)))
            }
            (EndCause::Own, ExitStatus::Unknown) => (CommandState::Interrupted(Interruption::HelperLost), None),
        };
        self.settle(End { state, kill, ran: ran_ms.map(Duration::from_millis) }).await;
    }

    /// Does as told; `link` is the helper, while there is one to talk to.
    fn obey(&mut self, order: Order, link: Option<&mut HelperLink>) {
        match order {
            Order::Kill { grace, by, unverified } => {
                if self.is_final() {
                    let detail = "this command has ended already; nothing was sent to it";
                    let _ = unverified.send(DomainError::new(ErrorCode::AlreadyEnded, detail));
                    return;
                }
                let now = Instant::now();
                let helper_until = now + grace + HELPER_MARGIN;
                if let Some(link) = link {
                    self.conversation.kill_was_asked();
                    link.send(ToHelper::Kill { grace_ms: grace.as_millis() as u64 });
                }
                match &mut self.kill {
                    Some(kill) => {
                        kill.helper_until = kill.helper_until.min(helper_until);
                        kill.waiting.push(unverified);
                    }
                    None => self.kill = Some(Kill { by, since: now, helper_until, waiting: vec![unverified] }),
                }
            }
            Order::Signal(signal) => {
                if let Some(link) = link {
                    tracing::debug!(command = %self.command_id, signal = signal_name(signal), "passing a signal on");
                    link.send(ToHelper::Signal(signal));
                }
            }
            Order::SandboxDied(cause) => self.verdict = self.verdict.or(Some(Verdict::Died(cause))),
            Order::SessionEnding => self.session_ending = true,
            Order::SessionEnded => self.verdict = Some(Verdict::SessionEnded),
            Order::OutOfMemory => {
                if memory_may_have_ended(&self.view.borrow(), clock::now()) {
                    self.view.send_modify(|view| view.out_of_memory = true);
                }
            }
        }
    }

    /// The helper is lost: finds out what is true, and settles it. `false`: the server stops first.
    async fn settle_lost(&mut self) -> bool {
        self.settle_lost_as(None).await
    }

    /// Like [`Self::settle_lost`]; `verified` is the state to take once nothing of the command is left, where it is not
    /// the ordinary one.
    async fn settle_lost_as(&mut self, verified: Option<CommandState>) -> bool {
        let _ = self.suspect.try_send(());
        let over_limit = self.over_limit();
        let mut missing_since: Option<Instant> = None;
        loop {
            if let Some(verdict) = self.verdict {
                let state = match verdict {
                    Verdict::Died(cause) => CommandState::Interrupted(Interruption::SandboxDied { cause }),
                    Verdict::SessionEnded => CommandState::Interrupted(Interruption::SessionEnded),
                };
                return self.settle(state.into()).await;
            }
            match self.shared.runtime.status(&self.container).await {
                // The owner learns of the death as well and says why; until then it is waited for, but not for ever.
                Ok(ContainerStatus::Dead(_) | ContainerStatus::Missing) if self.session_ending => {
                    return self.settle(CommandState::Interrupted(Interruption::SessionEnded).into()).await;
                }
                Ok(status @ (ContainerStatus::Dead(_) | ContainerStatus::Missing)) => {
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= VERDICT_DEADLINE {
                        let cause = if let ContainerStatus::Dead(cause) = status { cause } else { DeathCause::Unknown };
                        return self
                            .settle(CommandState::Interrupted(Interruption::SandboxDied { cause }).into())
                            .await;
                    }
                    let _ = self.suspect.try_send(());
                }
                Ok(ContainerStatus::Running) => {
                    missing_since = None;
                    match sweep::sweep(&self.shared.runtime, &self.container, &self.command_id).await {
                        Ok(ended) => {
                            let end = self.swept(ended, verified, over_limit);
                            return self.settle(end).await;
                        }
                        Err(problem) => self.unverified(&problem),
                    }
                }
                Err(error) => self.unverified(&error.to_string()),
            }
            if !self.wait_for_retry().await {
                return false;
            }
        }
    }

    fn over_limit(&self) -> bool {
        let view = self.view.borrow();
        view.started_at.is_some_and(|at| clock::now() - at >= view.limit_seconds - LIMIT_SLACK)
    }

    /// Nothing of the command is left (or the survivors are named): what that makes it.
    fn swept(&self, ended: Ended, verified: Option<CommandState>, over_limit: bool) -> End {
        let kill = self.kill.as_ref();
        let by = kill.map_or(Actor::Server, |kill| kill.by.clone());
        let took_ms = kill.map_or(ended.took_ms, |kill| kill.since.elapsed().as_millis() as u64);
        let report = Some(KillReport { signal: ended.signal, took_ms, by: by.clone(), survivors: ended.survivors });
        let (state, kill) = match (verified, kill) {
            (Some(state), _) => (state, None),
            (None, Some(_)) => (CommandState::Killed { signal: ended.signal, by }, report),
            (None, None) if over_limit => (CommandState::TimedOut, report),
            (None, None) if !self.conversation.has_started() => (
                CommandState::FailedToStart {
                    message: "the helper did not report a start in time; nothing of it is left".into(),
                },
                None,
            ),
            (None, None) => (CommandState::Interrupted(Interruption::HelperLost), report),
        };
        End { state, kill, ran: None }
    }

    /// Tells those who wait for a kill that it could not be verified; the command stays `running`.
    fn unverified(&mut self, problem: &str) {
        tracing::warn!(command = %self.command_id, problem, "could not verify the end of a command; trying again");
        if let Some(kill) = &mut self.kill {
            for waiting in kill.waiting.drain(..) {
                let detail = format!(
                    "the kill could not be verified ({problem}); the command counts as running and the server goes on trying"
                );
                let _ = waiting.send(DomainError::new(ErrorCode::KillUnverified, detail).retry_after(RETRY.as_secs()));
            }
        }
    }

    /// Waits a moment, hearing orders. `false`: the server stops.
    async fn wait_for_retry(&mut self) -> bool {
        let until = Instant::now() + RETRY;
        loop {
            tokio::select! {
                biased;
                () = self.shared.shutdown.cancelled() => return false,
                Some(order) = self.inbox.recv() => {
                    self.obey(order, None);
                    if self.verdict.is_some() {
                        return true;
                    }
                }
                () = tokio::time::sleep_until(until) => return true,
            }
        }
    }

    /// Stores a final state, then shows it. Goes on trying until it is stored; `false`: the server stops first.
    async fn settle(&mut self, end: End) -> bool {
        let mut view = self.current();
        view.state = end.state;
        view.kill = end.kill;
        (view.started_at, view.ended_at) = times(view.started_at, clock::now(), end.ran, self.asked.elapsed());
        if !self.store(&view).await {
            return false;
        }
        self.kill = None;
        // The engine's word may have come while it was stored; the output's end stores it.
        view.out_of_memory |= self.view.borrow().out_of_memory;
        self.view.send_replace(view);
        self.announce();
        true
    }

    fn unstored(&mut self, error: StoreError) {
        let error = DomainError::from(error);
        if let Some(kill) = &mut self.kill {
            for waiting in kill.waiting.drain(..) {
                let _ =
                    waiting.send(DomainError::new(error.code, format!("the command was ended, but {}", error.detail)));
            }
        }
    }

    /// The last step: no more output will come.
    async fn close_output(&mut self) {
        for (channel, rest) in self.filter.flush() {
            self.append(channel, &rest);
        }
        // The last words of a quick command, which no regular report has told.
        if self.progress.take().is_some() {
            self.announce_progress();
        }
        let Some(writer) = self.writer.take() else { return };
        let state = writer.finish(self.conversation.is_over());
        // An order that was taken is heard: the engine's word on memory comes in just these moments. Whoever comes later is
        // refused, and the owner tells it.
        self.inbox.close();
        while let Ok(order) = self.inbox.try_recv() {
            self.obey(order, None);
        }
        let mut view = self.current();
        view.output_closed = true;
        view.output_complete = state.complete;
        if self.store(&view).await {
            self.view.send_replace(view);
            self.announce();
        }
    }

    /// Stores a view, for as long as it takes. `false`: the server stops first, or the store holds another end already,
    /// which then is the one that counts.
    async fn store(&mut self, view: &CommandView) -> bool {
        loop {
            match self.shared.store.update_command(view).await {
                Ok(()) => return true,
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(%error, command = %self.command_id, "the store refuses the end of a command");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, command = %self.command_id, "the end of a command could not be stored; trying again");
                    self.unstored(error);
                }
            }
            if !self.wait_for_retry().await {
                return false;
            }
        }
    }

    /// The view with what the log knows.
    fn current(&self) -> CommandView {
        let mut view = self.view.borrow().clone();
        describe_output(&mut view, &self.log);
        view
    }

    fn announce(&self) {
        self.shared.feed.publish(&self.tenant, Event::Command { command: Box::new(self.current()) });
    }

    fn announce_progress(&self) {
        let view = self.current();
        let event = Event::Progress {
            session_id: view.session_id,
            command_id: view.command_id,
            output_bytes: view.output_bytes,
            last_output_at: view.last_output_at.unwrap_or_else(clock::now),
            last_line: self.log.last_line(LAST_LINE),
        };
        self.shared.feed.publish(&self.tenant, event);
    }
}

/// When a command began and ended. Our clock tells when frames came, and the frames of a quick command come together; so
/// what the helper says of the time between counts, as far as our clock allows it: nothing begins before it was asked for,
/// and nothing has ended later than now.
fn times(heard: Option<f64>, now: f64, ran: Option<Duration>, since_asked: Duration) -> (Option<f64>, Option<f64>) {
    let (Some(started), Some(ran)) = (heard, ran) else { return (heard, Some(now)) };
    let ran = ran.min(since_asked).as_secs_f64();
    if started + ran <= now { (heard, Some(started + ran)) } else { (Some(now - ran), Some(now)) }
}

/// The engine reports that memory ran out up to some moments after the process that it ended was waited for; in seconds.
const MEMORY_REPORT_DELAY: f64 = 2.0;

/// May memory that the engine saw run out at `reported` (Unix seconds) have to do with this command: did it run then, or
/// had it just ended badly?
pub fn memory_may_have_ended(view: &CommandView, reported: f64) -> bool {
    let just_then = view.created_at <= reported && view.ended_at.is_some_and(|at| reported - at <= MEMORY_REPORT_DELAY);
    match view.state {
        CommandState::Exited { code: 0 } => false,
        CommandState::Exited { .. } | CommandState::Signaled { .. } => just_then,
        _ => !view.state.is_final(),
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_000.0;

    fn between(heard: f64, ran_ms: u64) -> (f64, f64) {
        let asked = Duration::from_secs(8);
        let (started, ended) = times(Some(heard), NOW, Some(Duration::from_millis(ran_ms)), asked);
        (started.expect("it began"), ended.expect("it ended"))
    }

    #[test]
    fn a_command_that_is_told_all_at_once_ran_as_long_as_its_helper_says() {
        assert_eq!(between(NOW, 250), (999.75, 1_000.0));
    }

    #[test]
    fn an_end_that_is_told_late_was_when_its_helper_says() {
        assert_eq!(between(994.0, 1_500), (994.0, 995.5));
    }

    #[test]
    fn a_helper_that_lies_moves_nothing_out_of_what_our_clock_saw() {
        assert_eq!(between(994.0, u64::MAX), (992.0, 1_000.0), "not before it was asked for");
        assert_eq!(between(994.0, 0), (994.0, 994.0), "no end before the start");
        // Somebody set our clock back.
        assert_eq!(between(1_100.0, 2_000), (998.0, 1_000.0));
    }

    #[test]
    fn without_the_helpers_word_our_clock_counts() {
        assert_eq!(times(Some(994.0), NOW, None, Duration::ZERO), (Some(994.0), Some(NOW)));
        assert_eq!(times(None, NOW, Some(Duration::from_secs(1)), Duration::ZERO), (None, Some(NOW)));
    }
}
