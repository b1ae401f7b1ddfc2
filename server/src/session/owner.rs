//! The task that owns one session: the only writer of its record.
//!
//! It never waits for the engine: making, making again and taking down run as work of their own that it owns, and it goes
//! on answering meanwhile. What is about to be made is stored first.

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView, Interruption};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::helper::{DEFAULT_GRACE_MS, Start};
use glassbox_shared::live::Event;
use glassbox_shared::session::{DeathCause, EndReason, Profile, RestartView, SessionState};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::live::Live;
use super::request::ValidCommand;
use super::settings::SessionSettings;
use super::{log_dir, sandbox, view};
use crate::command::driver::{self, NewCommand};
use crate::command::{Command, Order};
use crate::control::Principal;
use crate::error::DomainError;
use crate::runtime::{ContainerStatus, RuntimeError};
use crate::store::SessionRecord;
use crate::{clock, ids};

/// Requests that may wait for an owner; it handles one in milliseconds (a store write).
pub const MESSAGES: usize = 64;
/// Deaths kept for the page.
const MAX_RESTARTS: usize = 20;
/// A sandbox that dies younger than this died "at once": the next one is made after a growing pause.
const YOUNG: Duration = Duration::from_secs(10);
/// The longest such pause, and the pause after the engine refused.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A death this soon after memory ran out is its work, also where the engine only says that the sandbox exited.
const SHORT_BEFORE_DEATH: Duration = Duration::from_secs(5);
/// Pauses before the sandbox itself is asked whether it lives, once memory ran out: under gVisor the whole sandbox may be
/// the victim, and Docker has been seen to call it running for as long as nobody removed it.
const ASK_SANDBOX_AFTER: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(7)];
/// After an engine that could not say how the sandbox is.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Ended commands whose background children hold the output open, for each command that may run at once: each holds a
/// connection to the engine.
const OPEN_OUTPUTS: usize = 4;
/// How long drivers may take to settle once their sandbox is gone; a full disk can hold one up for longer, and the next
/// start settles it then.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);
/// Between attempts to end a session that expired while the engine refuses.
const END_RETRY: Duration = Duration::from_secs(30);
/// Last use is written down at most this often; a restart may lose that much of it.
const USE_INTERVAL: f64 = 30.0;
/// Longest time between two looks at the clock.
const TICK: Duration = Duration::from_secs(60);

/// What an owner can be asked.
#[derive(Debug)]
pub enum Message {
    /// Start a command.
    Run { who: Principal, command: ValidCommand, reply: oneshot::Sender<Result<CommandView, DomainError>> },
    /// End the session; answered when everything is verified gone.
    End { reason: EndReason, by: Option<Actor>, reply: oneshot::Sender<Result<(), DomainError>> },
    /// The engine saw something run out of memory.
    OutOfMemory,
}

/// What the work that an owner started came to.
enum Outcome {
    Made(Result<(), RuntimeError>),
    Remade(Result<bool, RuntimeError>),
    Looked(Result<ContainerStatus, RuntimeError>),
    TakenDown(Result<(), RuntimeError>),
    Cleared,
}

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Everything is to be made.
    Make,
    /// The workspace is there, its container is not.
    Remake,
    /// Everything is there, from an earlier life of the server.
    Adopt,
}

/// An end that is asked for and not yet done.
struct Ending {
    reason: EndReason,
    /// Who asked, if somebody did.
    by: Option<Actor>,
    waiting: Vec<oneshot::Sender<Result<(), DomainError>>>,
    at_work: bool,
    /// Try again then, if nobody asks before.
    again: Option<Instant>,
}

pub struct Owner {
    pub drivers: driver::Shared,
    pub settings: Arc<SessionSettings>,
    pub record: watch::Sender<SessionRecord>,
    pub live: Arc<Live>,
    pub inbox: mpsc::Receiver<Message>,
    pub suspect: (mpsc::Sender<()>, mpsc::Receiver<()>),
    /// Why the first sandbox could not be made.
    failure: Option<DomainError>,
    /// Told how making the first sandbox went.
    made: Option<oneshot::Sender<Result<(), DomainError>>>,
    /// Calls to the engine; at most one of them makes a container.
    work: JoinSet<Outcome>,
    /// Drivers of commands, each with its command's number.
    driving: JoinSet<u64>,
    ending: Option<Ending>,
    looking: bool,
    /// A reason to look came while looking.
    look_again: bool,
    look_at: Option<Instant>,
    /// When the sandbox itself is asked, and how often it was.
    ask_sandbox: Option<(Instant, usize)>,
    making: bool,
    /// A pause before the next attempt to make a container ends then.
    remake_at: Option<Instant>,
    container_since: Instant,
    quick_deaths: u32,
    memory_was_short: Option<Instant>,
}

impl Owner {
    pub fn new(
        drivers: driver::Shared,
        settings: Arc<SessionSettings>,
        record: watch::Sender<SessionRecord>,
        live: Arc<Live>,
        inbox: mpsc::Receiver<Message>,
        made: Option<oneshot::Sender<Result<(), DomainError>>>,
    ) -> Self {
        Self {
            drivers,
            settings,
            record,
            live,
            inbox,
            // One hint waiting is enough: it makes the owner look.
            suspect: mpsc::channel(1),
            failure: None,
            made,
            work: JoinSet::new(),
            driving: JoinSet::new(),
            ending: None,
            looking: false,
            look_again: false,
            look_at: None,
            ask_sandbox: None,
            making: false,
            remake_at: None,
            container_since: Instant::now(),
            quick_deaths: 0,
            memory_was_short: None,
        }
    }

    /// Runs until the session has ended or the server stops.
    pub async fn run(mut self, begin: Begin) {
        self.begin(begin).await;
        while !self.is_over() {
            let next_look = self.next_look();
            tokio::select! {
                biased;
                () = self.drivers.shutdown.cancelled() => break,
                Some(outcome) = self.work.join_next() => match outcome {
                    Ok(outcome) => self.came_of(outcome).await,
                    Err(error) => self.work_broke_off(&error),
                },
                Some(closed) = self.driving.join_next() => self.command_closed(closed),
                message = self.inbox.recv() => match message {
                    Some(message) => self.obey(message).await,
                    None => break,
                },
                Some(()) = self.suspect.1.recv() => self.look(),
                () = tokio::time::sleep_until(next_look) => self.clock_struck().await,
            }
        }
        // Drivers hear of a shutdown themselves; they are waited for, so that their files are closed before the store is.
        if self.drivers.shutdown.is_cancelled() {
            while self.driving.join_next().await.is_some() {}
        }
    }

    fn id(&self) -> String {
        self.record.borrow().id.to_string()
    }

    fn is_over(&self) -> bool {
        matches!(self.record.borrow().state, SessionState::Ended { .. })
    }

    async fn begin(&mut self, begin: Begin) {
        match begin {
            Begin::Make => {
                let spec = self.spec();
                let runtime = self.drivers.runtime.clone();
                self.making = true;
                self.work.spawn(async move { Outcome::Made(sandbox::make(&runtime, &spec).await) });
            }
            Begin::Remake => self.remake().await,
            // It may have died since it was looked at.
            Begin::Adopt => {
                self.publish();
                self.look();
            }
        }
    }

    fn spec(&self) -> crate::runtime::SandboxSpec {
        let record = self.record.borrow();
        let container = record.container.clone().unwrap_or_default();
        sandbox::spec(&record, &container)
    }

    // ---- requests -------------------------------------------------------------------------------------------------

    async fn obey(&mut self, message: Message) {
        match message {
            Message::Run { who, command, reply } => {
                // Whoever asked and has left would never learn of the command.
                if !reply.is_closed() {
                    let result = self.start_command(who, command).await;
                    let _ = reply.send(result);
                }
            }
            Message::End { reason, by, reply } => {
                let ending = self.ending.get_or_insert_with(|| Ending {
                    reason,
                    by,
                    waiting: Vec::new(),
                    at_work: false,
                    again: None,
                });
                ending.waiting.push(reply);
                // Written down, so that a server that stops before it is done does not forget it.
                if let Some(by) = ending.by.clone().filter(|_| self.record.borrow().ended_by.is_none()) {
                    let mut record = self.record.borrow().clone();
                    record.ended_by = Some(by);
                    self.store(record).await;
                }
                self.take_down();
            }
            Message::OutOfMemory => {
                self.memory_was_short = Some(Instant::now());
                self.ask_sandbox = Some((Instant::now() + ASK_SANDBOX_AFTER[0], 0));
                for command in self.live.driven() {
                    // A driver that has just left has its command among the closed ones.
                    let _ = command.order(Order::OutOfMemory);
                }
                self.tell_late_of_memory().await;
            }
        }
    }

    async fn start_command(&mut self, who: Principal, command: ValidCommand) -> Result<CommandView, DomainError> {
        if self.ending.is_some() {
            return Err(DomainError::not_found("session"));
        }
        if self.record.borrow().state != SessionState::Ready {
            let detail = "the sandbox has just died and is being made again; try again in a moment";
            return Err(DomainError::new(ErrorCode::Conflict, detail).retry_after(1));
        }
        let driven = self.live.driven().len();
        if driven >= self.settings.max_commands.saturating_mul(OPEN_OUTPUTS) {
            let detail = format!(
                "background processes hold the output of {driven} commands open, which is the limit; end some, or redirect their output"
            );
            return Err(DomainError::new(ErrorCode::CommandLimit, detail));
        }
        let running = self.live.now().running as usize;
        if running >= self.settings.max_commands {
            let detail =
                format!("{running} commands are running in this session, which is its limit; wait for one or kill it");
            return Err(DomainError::new(ErrorCode::CommandLimit, detail));
        }
        let mut record = self.record.borrow().clone();
        record.commands_total += 1;
        record.last_used_at = clock::now();
        let (id, number) = (ids::command(), record.commands_total);
        let view = CommandView {
            command_id: id.clone(),
            session_id: record.id.clone(),
            number,
            command: command.command.clone(),
            cwd: command.cwd.clone(),
            split: command.split,
            actor: who.actor,
            state: CommandState::Starting,
            created_at: clock::now(),
            started_at: None,
            ended_at: None,
            pid: None,
            limit_seconds: command.limit.as_secs_f64(),
            output_bytes: 0,
            output_missing_bytes: 0,
            last_output_at: None,
            output_closed: false,
            output_complete: false,
            out_of_memory: false,
            kill: None,
        };
        self.drivers.store.update_session(&record).await?;
        let new = NewCommand {
            tenant: record.tenant.clone(),
            view: view.clone(),
            container: record.container.clone().unwrap_or_default(),
            start: start(&record, command),
            log_dir: log_dir(&self.settings, &record.id, &id),
            log_settings: self.settings.log,
            suspect: self.suspect.0.clone(),
        };
        self.record.send_replace(record);
        let (handle, drive) = driver::prepare(self.drivers.clone(), new).await?;
        self.live.add(number, id, handle.clone());
        self.driving.spawn(async move {
            drive.await;
            number
        });
        self.publish();
        Ok(handle.view())
    }

    /// A fault of ours. Nothing is under way any more; the next look or attempt finds out how things are.
    fn work_broke_off(&mut self, error: &tokio::task::JoinError) {
        tracing::error!(%error, session = %self.id(), "a session's work broke off");
        (self.making, self.looking) = (false, false);
        self.look_at = Some(Instant::now() + LOOK_AGAIN);
        if let Some(ending) = &mut self.ending {
            ending.at_work = false;
            ending.again = Some(Instant::now() + END_RETRY);
        } else if self.record.borrow().state == SessionState::Restarting {
            self.remake_at = Some(Instant::now() + MAX_PAUSE);
        }
    }

    fn command_closed(&mut self, closed: Result<u64, tokio::task::JoinError>) {
        match closed {
            Ok(number) if self.drivers.shutdown.is_cancelled() => {
                tracing::debug!(number, "left a command to the next start");
            }
            Ok(number) => {
                self.live.remove(number);
                self.publish();
            }
            Err(error) => {
                tracing::error!(%error, session = %self.id(), "a command's driver broke off; the next start will tell its end");
            }
        }
    }

    /// The engine's word came after the command's end: it is added to what was stored.
    async fn tell_late_of_memory(&mut self) {
        for command in self.live.closed() {
            let mut view = command.view();
            if view.out_of_memory || !driver::memory_may_have_ended(&view) {
                continue;
            }
            view.out_of_memory = true;
            if let Err(error) = self.drivers.store.update_command(&view).await {
                tracing::warn!(%error, command = %view.command_id, "that memory ran out could not be stored");
                continue;
            }
            let dir = log_dir(&self.settings, &view.session_id, &view.command_id);
            self.live.correct(&Command::ended(view.clone(), dir));
            let tenant = self.record.borrow().tenant.clone();
            self.drivers.feed.publish(&tenant, Event::Command { command: Box::new(view) });
        }
    }

    // ---- the container's life -------------------------------------------------------------------------------------

    /// Asks the engine how the container is, unless that is under way or pointless.
    fn look(&mut self) {
        let record = self.record.borrow();
        if record.state != SessionState::Ready || self.ending.is_some() {
            return;
        }
        let Some(container) = record.container.clone() else { return };
        drop(record);
        if self.looking {
            self.look_again = true;
            return;
        }
        self.looking = true;
        self.look_at = None;
        let runtime = self.drivers.runtime.clone();
        let due = self.ask_sandbox.filter(|(at, _)| *at <= Instant::now());
        if let Some((_, asked)) = due {
            let next = ASK_SANDBOX_AFTER.get(asked + 1);
            self.ask_sandbox = next.map(|pause| (Instant::now() + *pause, asked + 1));
        }
        self.work.spawn(async move {
            Outcome::Looked(match due {
                Some(_) => runtime.probe(&container).await,
                None => runtime.status(&container).await,
            })
        });
    }

    async fn came_of(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Made(Ok(())) | Outcome::Remade(Ok(true)) => self.container_runs().await,
            Outcome::Made(Err(error)) => {
                self.making = false;
                tracing::warn!(%error, session = %self.id(), "a sandbox could not be made");
                self.failure = Some(error.into());
                self.ending.get_or_insert(Ending {
                    reason: EndReason::Failed,
                    by: None,
                    waiting: Vec::new(),
                    at_work: false,
                    again: None,
                });
                self.take_down();
            }
            Outcome::Remade(Ok(false)) => {
                self.making = false;
                tracing::error!(session = %self.id(), "the workspace is gone");
                self.ending.get_or_insert(Ending {
                    reason: EndReason::Lost,
                    by: None,
                    waiting: Vec::new(),
                    at_work: false,
                    again: None,
                });
                self.take_down();
            }
            Outcome::Remade(Err(error)) => {
                tracing::warn!(%error, session = %self.id(), "the sandbox could not be made again; trying again");
                self.making = false;
                if matches!(error, RuntimeError::Unreachable(_)) && self.ending.is_none() {
                    // It is no fault of the sandbox, and nobody should wait long once the engine is back.
                    self.remake_at = Some(Instant::now() + LOOK_AGAIN);
                } else {
                    self.quick_deaths += 1;
                    self.remake_after_pause().await;
                }
            }
            Outcome::Looked(status) => {
                self.looking = false;
                match status {
                    Ok(ContainerStatus::Running) => {}
                    Ok(ContainerStatus::Dead(cause)) => self.container_died(cause).await,
                    Ok(ContainerStatus::Missing) => self.container_died(DeathCause::Unknown).await,
                    Err(error) => {
                        tracing::warn!(%error, session = %self.id(), "could not ask how the sandbox is; asking again");
                        self.look_at = Some(Instant::now() + LOOK_AGAIN);
                    }
                }
                if std::mem::take(&mut self.look_again) {
                    self.look();
                }
            }
            Outcome::TakenDown(Ok(())) => {
                let reason = self.ending.as_ref().map_or(EndReason::Deleted, |ending| ending.reason);
                self.finish(reason).await;
            }
            Outcome::TakenDown(Err(error)) => self.could_not_take_down(error),
            Outcome::Cleared => {}
        }
    }

    async fn container_runs(&mut self) {
        self.making = false;
        self.container_since = Instant::now();
        self.memory_was_short = None;
        self.ask_sandbox = None;
        if self.ending.is_some() {
            return self.take_down();
        }
        let mut record = self.record.borrow().clone();
        record.state = SessionState::Ready;
        // The container is there and its name is stored: a state that could not be stored is only told late.
        self.store(record).await;
        if let Some(made) = self.made.take() {
            let _ = made.send(Ok(()));
        }
        // It may have died before anyone looked for its events.
        self.look();
    }

    async fn container_died(&mut self, cause: DeathCause) {
        // Drivers have been told that the session is ending: that is then the cause.
        if self.ending.is_some() {
            return;
        }
        (self.look_at, self.ask_sandbox) = (None, None);
        let was_short = self.memory_was_short.is_some_and(|at| at.elapsed() < SHORT_BEFORE_DEATH);
        let cause = if was_short { DeathCause::Oom } else { cause };
        for command in self.live.driven() {
            let _ = command.order(Order::SandboxDied(cause));
        }
        self.quick_deaths = if self.container_since.elapsed() < YOUNG { self.quick_deaths + 1 } else { 0 };
        let mut record = self.record.borrow().clone();
        if let Some(dead) = record.container.clone() {
            let runtime = self.drivers.runtime.clone();
            self.work.spawn(async move {
                if let Err(error) = runtime.remove(&dead).await {
                    tracing::warn!(%error, container = dead, "a dead container could not be removed; the sweep tries again");
                }
                Outcome::Cleared
            });
        }
        record.restarts.push(RestartView {
            at: clock::now(),
            cause: Some(cause),
            kept: "all files in the workspace".into(),
            lost: "running commands, background processes, and files outside the workspace".into(),
        });
        let surplus = record.restarts.len().saturating_sub(MAX_RESTARTS);
        record.restarts.drain(..surplus);
        record.state = SessionState::Restarting;
        self.store(record).await;
        self.remake_after_pause().await;
    }

    /// None after a first death, then growing.
    fn pause(&self) -> Duration {
        if self.quick_deaths <= 1 {
            Duration::ZERO
        } else {
            Duration::from_secs(1 << (self.quick_deaths - 1).min(5)).min(MAX_PAUSE)
        }
    }

    async fn remake_after_pause(&mut self) {
        let pause = self.pause();
        if self.ending.is_some() {
            self.take_down();
        } else if pause.is_zero() {
            self.remake().await;
        } else {
            self.remake_at = Some(Instant::now() + pause);
        }
    }

    async fn remake(&mut self) {
        self.remake_at = None;
        let mut record = self.record.borrow().clone();
        record.state = SessionState::Restarting;
        record.generation += 1;
        let container = sandbox::container_name(&self.settings.instance, record.id.as_str(), record.generation);
        record.container = Some(container);
        self.store(record).await;
        let (spec, runtime) = (self.spec(), self.drivers.runtime.clone());
        self.making = true;
        self.work.spawn(async move { Outcome::Remade(sandbox::remake(&runtime, &spec).await) });
    }

    // ---- the end --------------------------------------------------------------------------------------------------

    /// Starts to take everything down, unless that is under way. A container that is just being made is waited for: what
    /// comes of the making leads back here.
    fn take_down(&mut self) {
        let Some(ending) = &mut self.ending else { return };
        if ending.at_work || self.making {
            return;
        }
        ending.at_work = true;
        ending.again = None;
        self.remake_at = None;
        for command in self.live.driven() {
            // A driver that is gone has settled already.
            let _ = command.order(Order::SessionEnding);
        }
        let record = self.record.borrow().clone();
        let runtime = self.drivers.runtime.clone();
        self.work.spawn(async move {
            Outcome::TakenDown(sandbox::take_down(&runtime, record.container.as_deref(), &record.workspace).await)
        });
    }

    /// Whoever waits for the first sandbox learns why there is none.
    fn tell_failure(&mut self) {
        if let (Some(made), Some(failure)) = (self.made.take(), self.failure.take()) {
            let _ = made.send(Err(failure));
        }
    }

    fn could_not_take_down(&mut self, error: RuntimeError) {
        tracing::warn!(%error, session = %self.id(), "a session could not be taken down");
        self.tell_failure();
        let Some(ending) = &mut self.ending else { return };
        ending.at_work = false;
        let text = error.to_string();
        for reply in ending.waiting.drain(..) {
            let detail = format!(
                "the sandbox could not be removed yet ({text}); the session is not ended, the server goes on trying"
            );
            let _ = reply
                .send(Err(DomainError::new(ErrorCode::EngineUnavailable, detail).retry_after(END_RETRY.as_secs())));
        }
        ending.again = Some(Instant::now() + END_RETRY);
    }

    /// Everything is verified gone: settles the commands, then the record.
    async fn finish(&mut self, reason: EndReason) {
        for command in self.live.driven() {
            let _ = command.order(Order::SessionEnded);
        }
        let settle_by = Instant::now() + SETTLE_DEADLINE;
        let mut late = Vec::new();
        for command in self.live.driven() {
            let closed = command.wait_closed(settle_by.saturating_duration_since(Instant::now())).await;
            if !(closed.state.is_final() && closed.output_closed) {
                late.push(closed);
            }
        }
        // Their drivers are busy with an engine that does not answer. Nothing of these commands is left, and nobody else
        // writes their ends any more.
        self.driving.shutdown().await;
        for mut view in late {
            if !view.state.is_final() {
                view.state = CommandState::Interrupted(Interruption::SessionEnded);
                view.ended_at = Some(clock::now());
            }
            view.output_closed = true;
            if let Err(error) = self.drivers.store.update_command(&view).await {
                tracing::warn!(%error, command = %view.command_id, "the end of a command could not be stored; the next start does it");
            }
        }
        let mut record = self.record.borrow().clone();
        record.state = SessionState::Ended { reason };
        record.ended_at = Some(clock::now());
        record.ended_by = self.ending.as_ref().and_then(|ending| ending.by.clone());
        record.container = None;
        if let Err(error) = self.drivers.store.update_session(&record).await {
            tracing::error!(%error, session = %record.id, "the end of a session could not be stored; trying again");
            let error = DomainError::from(error);
            let ending = self.ending.get_or_insert(Ending {
                reason,
                by: None,
                waiting: Vec::new(),
                at_work: false,
                again: None,
            });
            ending.at_work = false;
            ending.again = Some(Instant::now() + END_RETRY);
            for reply in ending.waiting.drain(..) {
                let _ =
                    reply.send(Err(DomainError::new(error.code, format!("the sandbox is gone, but {}", error.detail))));
            }
            return;
        }
        self.record.send_replace(record);
        self.publish();
        self.tell_failure();
        if let Some(ending) = self.ending.take() {
            for reply in ending.waiting {
                let _ = reply.send(Ok(()));
            }
        }
    }

    // ---- time -----------------------------------------------------------------------------------------------------

    fn next_look(&self) -> Instant {
        let now = Instant::now();
        if let Some(ending) = &self.ending {
            return ending.again.unwrap_or(now + TICK);
        }
        if let Some(at) = self.remake_at.into_iter().chain(self.next_question()).min() {
            return at;
        }
        let left =
            self.view().expires_at.map_or(TICK.as_secs_f64(), |at| (at - clock::now()).clamp(0.05, TICK.as_secs_f64()));
        now + Duration::from_secs_f64(left)
    }

    /// When the sandbox is to be looked at. Not while that is under way or pointless: what changes it wakes the owner.
    fn next_question(&self) -> Option<Instant> {
        if self.looking || self.record.borrow().state != SessionState::Ready {
            return None;
        }
        self.look_at.into_iter().chain(self.ask_sandbox.map(|(at, _)| at)).min()
    }

    async fn clock_struck(&mut self) {
        if let Some(ending) = &self.ending {
            if ending.again.is_some_and(|at| at <= Instant::now()) {
                self.take_down();
            }
            return;
        }
        if self.view().expires_at.is_some_and(|at| at <= clock::now()) {
            tracing::info!(session = %self.id(), "a session expires");
            self.ending =
                Some(Ending { reason: EndReason::Expired, by: None, waiting: Vec::new(), at_work: false, again: None });
            return self.take_down();
        }
        if self.remake_at.is_some_and(|at| at <= Instant::now()) {
            return self.remake().await;
        }
        if self.next_question().is_some_and(|at| at <= Instant::now()) {
            self.look();
        }
        let used = self.live.now().last_used_at;
        if used - self.record.borrow().last_used_at >= USE_INTERVAL {
            let mut record = self.record.borrow().clone();
            record.last_used_at = used;
            self.store(record).await;
        }
    }

    // ---- telling --------------------------------------------------------------------------------------------------

    fn view(&self) -> glassbox_shared::session::SessionView {
        view::view(&self.record.borrow(), self.live.now(), &self.settings)
    }

    /// Stores a record, then shows it. Where it cannot be stored it is shown all the same: the sandbox is what it is, and
    /// the next start finds out for itself.
    async fn store(&mut self, record: SessionRecord) {
        if let Err(error) = self.drivers.store.update_session(&record).await {
            tracing::error!(%error, session = %record.id, "a session could not be stored");
        }
        self.record.send_replace(record);
        self.publish();
    }

    fn publish(&self) {
        let view = self.view();
        self.drivers.feed.publish(&view.tenant_id.clone(), Event::Session { session: Box::new(view) });
    }
}

/// What the helper gets.
fn start(record: &SessionRecord, command: ValidCommand) -> Start {
    let workspace = match record.profile {
        Profile::Open => "/root",
        Profile::Hardened => "/workspace",
    };
    let cwd = match command.cwd {
        None => workspace.to_owned(),
        Some(cwd) if cwd.starts_with('/') => cwd,
        Some(cwd) => format!("{workspace}/{cwd}"),
    };
    Start {
        tag: ids::tag(),
        argv: vec!["/bin/bash".into(), "-c".into(), command.command],
        cwd: Some(cwd),
        env: command.env,
        split: command.split,
        limit_ms: command.limit.as_millis() as u64,
        grace_ms: DEFAULT_GRACE_MS,
        stdin: false,
        terminal: None,
    }
}
