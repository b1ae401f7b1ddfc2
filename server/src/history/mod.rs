//! What is left of sessions that have ended, readable for a time; and a search in all sessions, live ones too.
//!
//! ```text
//! History (handle): list, read, search          its own connection to the database, so that no driver waits for it
//!    │ purge
//!    ▼
//! worker (one task): takes output in for the search, removes what is too old or shall go
//! ```
//!
//! The worker is the only one that writes words and the only one that removes: the two never meet. Removal goes in steps,
//! each safe to be repeated: invisible (one transaction), rows, files, verified, write-ahead log emptied, forgotten. A
//! crash in between leaves a session that nobody sees, and the next start goes on. Live sessions are never touched.
//!
//! Another tenant's session does not exist here (404), also where the live routes would say so (403): links to a command
//! or a line may be shared, and tell nothing to whom they do not concern.

mod indexer;
mod removal;
mod retention;
mod search;
#[cfg(test)]
mod tests;
pub mod words;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::command::CommandList;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::history::{HistoryList, HistoryView, Purged, Timeline};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::tools::ToolCallList;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::command::Command;
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::session::{Session, Sessions};
use crate::store::{EndedSession, HistoryFilter, Store};

pub use retention::Retention;
pub use search::MAX_HITS;
use worker::Worker;

/// Most entries in one page of a list.
pub const MAX_PAGE: usize = 200;
/// Longest text to filter or to search by, in bytes: more says nothing more.
pub const MAX_QUERY: usize = 256;
/// Purges that may wait for the worker, which needs well under a second for most.
const PURGES: usize = 16;
/// How long a purge may take; the worker goes on when it takes longer.
const PURGE_DEADLINE: Duration = Duration::from_secs(60);
/// Searches at once, each of which keeps a thread busy for up to two seconds (five, where one look takes that long).
const SEARCHES: usize = 2;

/// What operators decide.
#[derive(Debug, Clone)]
pub struct HistorySettings {
    /// How long ended sessions are kept.
    pub retention: Retention,
    /// Where the words are, one file a session. Can be removed while no server runs: it is then made anew.
    pub search_dir: PathBuf,
}

/// A cheap handle.
#[derive(Debug, Clone)]
pub struct History {
    shared: Arc<Shared>,
    purges: mpsc::Sender<Purge>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    sessions: Sessions,
    settings: HistorySettings,
    searches: Arc<Semaphore>,
    shutdown: CancellationToken,
}

/// Asks the worker to remove a session.
#[derive(Debug)]
struct Purge {
    tenant: String,
    id: SessionId,
    reply: oneshot::Sender<Result<Purged, DomainError>>,
}

impl Shared {
    fn search_file(&self, session: &SessionId) -> PathBuf {
        self.settings.search_dir.join(format!("{session}.db"))
    }
}

impl History {
    /// Finishes removals that a crash interrupted, removes files of sessions that nobody knows, and begins to work.
    /// `store` is a handle of its own to the database; it is closed at the end.
    pub async fn start(
        store: Store,
        sessions: Sessions,
        settings: HistorySettings,
        shutdown: CancellationToken,
    ) -> Result<Self, DomainError> {
        let searches = Arc::new(Semaphore::new(SEARCHES));
        let shared = Arc::new(Shared { store, sessions, settings, searches, shutdown });
        let (purges, inbox) = mpsc::channel(PURGES);
        let worker = Worker::start(Arc::clone(&shared), inbox).await?;
        let tasks = TaskTracker::new();
        tasks.spawn(worker.run());
        tasks.close();
        Ok(Self { shared, purges, tasks })
    }

    /// Waits for the worker and closes the database; the shutdown token must be cancelled before.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
        self.shared.store.close().await;
    }

    /// The tenant's ended sessions, newest end first.
    pub async fn list(
        &self,
        tenant: &str,
        filter: &HistoryFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<HistoryList, DomainError> {
        let before = before.map(|text| time_and_id(text).ok_or_else(|| no_cursor("before"))).transpose()?;
        let limit = limit.clamp(1, MAX_PAGE);
        let (ended, more) = self.shared.store.ended_sessions(tenant, filter, before, limit).await?;
        let next = ended
            .last()
            .filter(|_| more)
            .map(|last| format!("{}~{}", last.record.ended_at.unwrap_or_default(), last.record.id));
        let mut sessions = Vec::with_capacity(ended.len());
        for session in ended {
            sessions.push(self.view(session).await?);
        }
        let retention_seconds = self.shared.settings.retention.for_tenant(tenant).as_secs_f64();
        Ok(HistoryList { tenant_id: tenant.to_owned(), retention_seconds, sessions, next })
    }

    /// One session, live or ended.
    pub async fn session(&self, tenant: &str, id: &SessionId) -> Result<HistoryView, DomainError> {
        let stored = self.find(tenant, id).await?;
        self.view(stored).await
    }

    /// Its commands, newest first, those before number `before` if given.
    pub async fn commands(
        &self,
        tenant: &str,
        id: &SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<CommandList, DomainError> {
        self.find(tenant, id).await?;
        if let Some(live) = self.live(tenant, id) {
            return live.commands(before, limit).await;
        }
        let (commands, next) = self.shared.store.commands(id, before, limit.clamp(1, MAX_PAGE)).await?;
        Ok(CommandList { commands, next })
    }

    /// One of its commands, with its output log.
    pub async fn command(&self, tenant: &str, id: &SessionId, command: &CommandId) -> Result<Command, DomainError> {
        self.find(tenant, id).await?;
        if let Some(live) = self.live(tenant, id) {
            return live.command(command).await;
        }
        let stored = self.shared.store.command(id, command).await?;
        Ok(self.shared.sessions.stored_command(stored.ok_or_else(|| DomainError::not_found("command"))?))
    }

    /// What models were told in it, newest first; of one command only, if given.
    pub async fn tool_calls(
        &self,
        tenant: &str,
        id: &SessionId,
        command: Option<&CommandId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ToolCallList, DomainError> {
        self.find(tenant, id).await?;
        let (calls, next) = self.shared.store.tool_calls(id, command, before, limit.clamp(1, MAX_PAGE)).await?;
        Ok(ToolCallList { calls, next })
    }

    /// What happened in it, oldest first.
    pub async fn timeline(
        &self,
        tenant: &str,
        id: &SessionId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Timeline, DomainError> {
        let after = after.map(|text| place_in_time(text).ok_or_else(|| no_cursor("after"))).transpose()?;
        self.find(tenant, id).await?;
        let (entries, next) = self.shared.store.timeline(id, after, limit.clamp(1, MAX_PAGE)).await?;
        Ok(Timeline { entries, next: next.map(|(at, rank, number)| format!("{at}~{rank}~{number}")) })
    }

    /// Removes an ended session for good; answered when no byte of it is left.
    pub async fn purge(&self, who: &Principal, id: &SessionId) -> Result<Purged, DomainError> {
        control::may(who, Act::Purge)?;
        let (reply, answer) = oneshot::channel();
        let purge = Purge { tenant: who.tenant.clone(), id: id.clone(), reply };
        self.purges.try_send(purge).map_err(|refused| match refused {
            TrySendError::Full(_) => {
                let detail = "too many removals are waiting; nothing was changed; try again in a moment";
                DomainError::new(ErrorCode::NoCapacity, detail).retry_after(5)
            }
            TrySendError::Closed(_) => DomainError::shutting_down(),
        })?;
        let answered = async { answer.await.map_err(|_| DomainError::shutting_down())? };
        tokio::time::timeout(PURGE_DEADLINE, answered).await.unwrap_or_else(|_| {
            // It may still wait for its turn.
            let detail = "removing the session takes longer than usual; the server goes on";
            Err(DomainError::new(ErrorCode::Conflict, detail).retry_after(30))
        })
    }

    async fn find(&self, tenant: &str, id: &SessionId) -> Result<EndedSession, DomainError> {
        self.shared.store.session_of(tenant, id).await?.ok_or_else(|| DomainError::not_found("session"))
    }

    fn live(&self, tenant: &str, id: &SessionId) -> Option<Session> {
        self.shared.sessions.get(tenant, id).ok()
    }

    async fn view(&self, stored: EndedSession) -> Result<HistoryView, DomainError> {
        let EndedSession { record, totals } = stored;
        let session = if let Some(live) = self.live(&record.tenant, &record.id) {
            live.view()
        } else {
            let mut view = self.shared.sessions.stored_view(&record);
            let (newest, _) = self.shared.store.commands(&record.id, None, 1).await?;
            view.latest_command = newest.into_iter().next().map(Box::new);
            view
        };
        let retention = self.shared.settings.retention.for_tenant(&record.tenant).as_secs_f64();
        Ok(HistoryView {
            session,
            ended_by: record.ended_by,
            kept_until: record.ended_at.map(|at| at + retention),
            output_bytes: totals.output_bytes,
            commands_failed: totals.failed,
        })
    }
}

fn no_cursor(name: &str) -> DomainError {
    DomainError::invalid(format!("{name} is not the `next` of a page before"))
}

/// `TIME~ID`
fn time_and_id(text: &str) -> Option<(f64, SessionId)> {
    let (at, id) = text.split_once('~')?;
    Some((time(at)?, id.parse().ok()?))
}

/// `TIME~RANK~NUMBER`
fn place_in_time(text: &str) -> Option<(f64, i64, i64)> {
    let (at, rest) = text.split_once('~')?;
    let (rank, number) = rest.split_once('~')?;
    Some((time(at)?, rank.parse().ok()?, number.parse().ok()?))
}

fn time(text: &str) -> Option<f64> {
    text.parse().ok().filter(|at: &f64| at.is_finite())
}

/// Runs disk work beside the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::store::StoreError> + Send + 'static,
) -> Result<T, crate::store::StoreError> {
    // It panicked, or the runtime is shutting down.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(crate::store::StoreError::Closed))
}

/// Removes a file or a folder with everything in it; fine if there is none.
fn remove_whole(path: &Path) -> std::io::Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
