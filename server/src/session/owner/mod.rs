//! The task that owns one session: the only writer of its record.
//!
//! It never waits for the engine: making, making again and taking down run as work of their own that it owns, and it goes
//! on answering meanwhile. What is about to be made is stored first.

mod commands;
mod container;
mod end;

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::CommandView;
use glassbox_shared::live::Event;
use glassbox_shared::session::{EndReason, SessionState};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::live::Live;
use super::request::ValidCommand;
use super::settings::SessionSettings;
use super::{sandbox, view};
use crate::clock;
use crate::command::{Order, driver};
use crate::control::Principal;
use crate::error::DomainError;
use crate::runtime::{ContainerStatus, RuntimeError};
use crate::store::SessionRecord;

/// Requests that may wait for an owner; it handles one in milliseconds (a store write).
pub const MESSAGES: usize = 64;
/// The longest pause before a sandbox is made again, and the pause after our own work on it broke off.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Pauses before the sandbox itself is asked whether it lives, once memory ran out: under gVisor the whole sandbox may be
/// the victim, and Docker has been seen to call it running for as long as nobody removed it.
const ASK_SANDBOX_AFTER: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(7)];
/// After an engine that could not say how the sandbox is.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
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
    /// There is something new of files in the time line.
    FilesChanged,
    /// Other clients use it than before.
    ClientsChanged,
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

impl Ending {
    fn because(reason: EndReason) -> Self {
        Self { reason, by: None, waiting: Vec::new(), at_work: false, again: None }
    }
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
    /// When the engine said so last, in Unix seconds.
    memory_reported: Option<f64>,
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
            memory_reported: None,
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
                Some(closed) = self.driving.join_next() => self.command_closed(closed).await,
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
        sandbox::spec(&record, &container, &self.settings)
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
                let ending = self.ending.get_or_insert_with(|| Ending { by, ..Ending::because(reason) });
                ending.waiting.push(reply);
                // Written down, so that a server that stops before it is done does not forget it.
                if let Some(by) = ending.by.clone().filter(|_| self.record.borrow().ended_by.is_none()) {
                    let mut record = self.record.borrow().clone();
                    record.ended_by = Some(by);
                    self.store(record).await;
                }
                self.take_down();
            }
            Message::FilesChanged | Message::ClientsChanged => self.publish(),
            Message::OutOfMemory => {
                self.memory_was_short = Some(Instant::now());
                self.memory_reported = Some(clock::now());
                self.ask_sandbox = Some((Instant::now() + ASK_SANDBOX_AFTER[0], 0));
                for command in self.live.driven() {
                    // One that takes no orders any more has its command among the closed ones in a moment.
                    let _ = command.order(Order::OutOfMemory);
                }
                self.tell_late_of_memory().await;
            }
        }
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
            self.ending = Some(Ending::because(EndReason::Expired));
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
        let mut view = view::view(&self.record.borrow(), self.live.now(), &self.settings);
        view.clients = self.live.clients();
        view
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
