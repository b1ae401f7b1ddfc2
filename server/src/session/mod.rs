//! A sandbox with its workspace and its whole history.
//!
//! ```text
//! starting ──▶ ready ◀──▶ restarting        restarting: its container died; the next one takes over the workspace
//!     │          │            │
//!     └──────────┴────────────┴──▶ ended(deleted | expired | failed | lost)
//! ```
//!
//! An [`owner`] task is the only writer of a session's state; [`Session`] is the handle that everyone else holds, and
//! [`Sessions`] knows them all. What the engine is asked to make is written down before it is asked. An end is told only
//! when container and workspace are verified gone.

mod engine;
mod files;
mod jobs;
mod live;
mod owner;
mod past;
mod recovery;
mod registry;
pub mod request;
pub mod sandbox;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandList, CommandState, CommandView, KillCommand, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::helper::DEFAULT_GRACE_MS;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{EndReason, SessionState, SessionView};
use tokio::sync::{mpsc, oneshot, watch};

use crate::command::{Command, Order};
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::files::Files;
use crate::store::SessionRecord;
use engine::EngineWatch;
pub use files::Change;
pub use jobs::{Job, JobWord};
use live::Live;
use owner::Message;
pub use registry::Sessions;
use settings::SessionSettings;

/// How long a command waits for a sandbox that is being made again; engines that need longer are broken.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// How long an owner may take to answer: it stores and starts, it does not wait for engines.
const OWNER_DEADLINE: Duration = Duration::from_secs(20);
/// Ending means removing a container; after a fork bomb Docker has been seen to take 100 s.
const END_DEADLINE: Duration = Duration::from_secs(180);
/// Longest grace between TERM and KILL that can be asked for.
const MAX_GRACE: f64 = 60.0;
/// What a kill may take beyond its grace until it is verified or known to be unverifiable: helper, then a sweep.
const KILL_MARGIN: Duration = Duration::from_secs(50);
/// Most commands in one page of a list.
pub const MAX_PAGE: usize = 200;

/// A handle to a live session.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: SessionId,
    tenant: String,
    record: watch::Receiver<SessionRecord>,
    live: Arc<Live>,
    messages: mpsc::Sender<Message>,
    suspect: mpsc::Sender<()>,
    settings: Arc<SessionSettings>,
    store: crate::store::Store,
    files: Files,
    jobs: jobs::Jobs,
    engine: EngineWatch,
}

impl Session {
    /// The id.
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }

    /// As it is now.
    pub fn view(&self) -> SessionView {
        let mut view = view::view(&self.inner.record.borrow(), self.inner.live.now(), &self.inner.settings);
        view.clients = self.inner.live.clients();
        view.latest_command = self.inner.live.latest().map(|command| Box::new(command.view()));
        view
    }

    /// It is being used: its idle time begins anew.
    pub fn touch(&self) {
        self.inner.live.touch();
    }

    /// These MCP clients are connected to it, by their names; for people who look.
    pub fn used_by(&self, clients: Vec<String>) {
        if self.inner.live.set_clients(clients) {
            self.tell(Message::ClientsChanged);
        }
    }

    /// Starts a command and answers at once. Waits for a sandbox that is being made again.
    pub async fn run(&self, who: &Principal, request: RunCommand) -> Result<CommandView, DomainError> {
        control::may_act_in(who, Act::Run, &self.inner.record.borrow().control)?;
        let command = request::command(request, &self.inner.settings)?;
        self.inner.engine.check("nothing was started")?;
        self.touch();
        self.inner.engine.or_trouble("nothing was started", self.ready()).await?;
        self.ask(OWNER_DEADLINE, |reply| Message::Run { who: who.clone(), command, reply }).await
    }

    /// Does something to its end, also when whoever asked for it has left.
    pub async fn see_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DomainError>> + Send + 'static,
    ) -> Result<T, DomainError> {
        let (reply, answer) = oneshot::channel();
        self.inner.files.spawn(async move {
            let _ = reply.send(work.await); // whoever asked may have left
        });
        answer.await.map_err(|_| DomainError::shutting_down())?
    }

    /// Commands before `before` (all without it), newest first.
    pub async fn commands(&self, before: Option<u64>, limit: usize) -> Result<CommandList, DomainError> {
        let (mut commands, next) = self.inner.store.commands(&self.inner.id, before, limit.clamp(1, MAX_PAGE)).await?;
        for command in &mut commands {
            if let Some(live) = self.inner.live.get(&command.command_id) {
                *command = live.view();
            }
        }
        Ok(CommandList { commands, next })
    }

    /// One command, running or ended.
    pub async fn command(&self, id: &CommandId) -> Result<Command, DomainError> {
        if let Some(live) = self.inner.live.get(id) {
            return Ok(live);
        }
        let stored = self.inner.store.command(&self.inner.id, id).await?;
        let view = stored.ok_or_else(|| DomainError::not_found("command"))?;
        Ok(Command::ended(view, self.log_dir(id)))
    }

    /// Ends a command's whole tree and answers when that is verified.
    pub async fn kill(
        &self,
        who: &Principal,
        id: &CommandId,
        request: KillCommand,
    ) -> Result<CommandView, DomainError> {
        control::may_act_in(who, Act::Kill, &self.inner.record.borrow().control)?;
        let grace = request.grace_seconds.unwrap_or(DEFAULT_GRACE_MS as f64 / 1000.0);
        if !(0.0..=MAX_GRACE).contains(&grace) {
            return Err(DomainError::invalid(format!("grace_seconds is from 0 to {MAX_GRACE}")));
        }
        let grace = Duration::from_secs_f64(grace);
        let command = self.command(id).await?;
        if command.is_final() {
            return Err(already_ended("nothing was sent to it"));
        }
        self.touch();
        let (unverified, mut problem) = oneshot::channel();
        command.order(Order::Kill { grace, by: who.actor.clone(), unverified })?;
        let verified = async {
            tokio::select! {
                biased;
                Ok(error) = &mut problem => Err(error),
                view = command.wait_end(grace + KILL_MARGIN) => Ok(view),
            }
        };
        let view = self.inner.engine.or_trouble("the kill goes on as soon as it does", verified).await?;
        match view.state {
            // It was quicker than the kill.
            CommandState::Exited { .. } | CommandState::Signaled { .. } => Err(already_ended("the kill came too late")),
            CommandState::Starting | CommandState::Running => {
                let detail = "the kill could not be verified in time; the server goes on trying";
                Err(DomainError::new(ErrorCode::KillUnverified, detail).retry_after(5))
            }
            _ => Ok(view),
        }
    }

    /// Sends a signal to a command's process group.
    pub async fn signal(&self, who: &Principal, id: &CommandId, signal: i32) -> Result<CommandView, DomainError> {
        control::may_act_in(who, Act::Kill, &self.inner.record.borrow().control)?;
        let command = self.command(id).await?;
        if command.is_final() {
            return Err(already_ended("nothing was sent to it"));
        }
        self.touch();
        command.order(Order::Signal(signal))?;
        Ok(command.view())
    }

    /// Is it ended, and only still known because someone holds it?
    fn is_over(&self) -> bool {
        matches!(self.inner.record.borrow().state, SessionState::Ended { .. })
    }

    /// Its container may have died. One hint waiting is enough to make the owner look.
    fn suspect(&self) {
        let _ = self.inner.suspect.try_send(());
    }

    /// Tells the owner something that needs no answer. A full queue means that it has plenty of reasons to look already.
    fn tell(&self, message: Message) {
        let _ = self.inner.messages.try_send(message);
    }

    async fn end(&self, reason: EndReason, by: Option<Actor>) -> Result<(), DomainError> {
        let ended = self.ask(END_DEADLINE, |reply| Message::End { reason, by, reply });
        self.inner.engine.or_trouble("the session is not ended yet; the server goes on trying", ended).await
    }

    /// Waits until commands can run.
    async fn ready(&self) -> Result<(), DomainError> {
        let mut record = self.inner.record.clone();
        let settled =
            record.wait_for(|record| matches!(record.state, SessionState::Ready | SessionState::Ended { .. }));
        let state = match tokio::time::timeout(READY_DEADLINE, settled).await {
            Ok(Ok(record)) => record.state,
            Ok(Err(_)) => return Err(DomainError::shutting_down()),
            Err(_) => {
                let detail = "the sandbox is being made again and is not ready yet; try again in a moment";
                return Err(DomainError::new(ErrorCode::EngineUnavailable, detail).retry_after(5));
            }
        };
        if matches!(state, SessionState::Ended { .. }) { Err(DomainError::not_found("session")) } else { Ok(()) }
    }

    async fn ask<T>(
        &self,
        limit: Duration,
        message: impl FnOnce(oneshot::Sender<Result<T, DomainError>>) -> Message,
    ) -> Result<T, DomainError> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.inner.messages.send(message(reply)).await.map_err(|_| DomainError::not_found("session"))?;
            answer.await.map_err(|_| DomainError::shutting_down())?
        };
        tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
            let detail = format!("no answer within {limit:?}; look at the session again to see what became of it");
            Err(DomainError::new(ErrorCode::EngineUnavailable, detail).retry_after(5))
        })
    }

    fn log_dir(&self, command: &CommandId) -> std::path::PathBuf {
        log_dir(&self.inner.settings, &self.inner.id, command)
    }
}

fn already_ended(what: &str) -> DomainError {
    DomainError::new(ErrorCode::AlreadyEnded, format!("this command has ended already; {what}"))
}

/// Where a command's output log is.
fn log_dir(settings: &SessionSettings, session: &SessionId, command: &CommandId) -> std::path::PathBuf {
    settings.logs_dir.join(session.as_str()).join(command.as_str())
}
