//! Files of a sandbox, through the helper inside it: no path of a sandbox is ever opened on the host.
//!
//! A session has one [`Files`]. At its first use it starts `glassbox-inside files` in the sandbox, by one exec, and keeps it
//! while it is used; so an operation costs a round trip and not an exec. Many operations run over it at once; each is a
//! [`Call`]. When the service dies, its calls fail and the next use starts a new one.
//!
//! Everything that it says is hostile: [`hostile`] checks each answer.

mod call;
mod hostile;
mod link;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::files::path;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::DomainError;
use crate::runtime::Runtime;
pub use call::{Call, Said};
use link::Link;

/// Operations that give content, at once in one session. Together with [`CHANGES`] and [`BRIEF`] fewer than the helper
/// takes (`MAX_OPERATIONS`), because one that was given up ends a moment later than its call.
const READS: usize = 5;
/// Those that take content, and copies and deletions. They have turns of their own: whoever may only watch, and reads
/// slowly, keeps nobody from writing.
const CHANGES: usize = 3;
/// Other operations at once; they take milliseconds.
const BRIEF: usize = 4;
/// How long an operation waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Long polls for changes at once in one session: a few tabs, each with a few folders.
const WATCHES: usize = 16;

/// Where a file service runs, and what it may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The container.
    pub container: String,
    /// The workspace's path in it.
    pub workspace: String,
    /// Nothing but the workspace.
    pub confined: bool,
}

impl Place {
    /// A path as it was asked for, as all answers tell it: from the workspace where there is nothing else, absolute where
    /// there is. (`inside/src/files/root.rs` does the same.)
    pub fn told(&self, asked: &str) -> String {
        // It was checked before it got here.
        let parts = path::parts(asked).unwrap_or_default();
        let workspace = path::parts(&self.workspace).unwrap_or_default();
        let parts = match (self.confined, asked.starts_with('/')) {
            (true, true) => parts.strip_prefix(workspace.as_slice()).unwrap_or(&parts).to_vec(),
            (false, false) => [workspace, parts].concat(),
            _ => parts,
        };
        format!("{}{}", if self.confined { "" } else { "/" }, path::encode(&parts.join(&b'/')))
    }
}

/// A session's file service, started when it is needed. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Files {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    tasks: TaskTracker,
    /// The session has ended, or the server stops.
    closed: CancellationToken,
    link: Mutex<Option<Link>>,
    reads: Arc<Semaphore>,
    changes: Arc<Semaphore>,
    brief: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl Files {
    /// Of one session. Its tasks are spawned on `tasks` and end with `closed`.
    pub fn new(runtime: Runtime, tasks: TaskTracker, closed: CancellationToken) -> Self {
        let turns = |count| Arc::new(Semaphore::new(count));
        let inner = Inner {
            runtime,
            tasks,
            closed,
            link: Mutex::new(None),
            reads: turns(READS),
            changes: turns(CHANGES),
            brief: turns(BRIEF),
            watches: turns(WATCHES),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The session has ended.
    pub fn close(&self) {
        self.inner.closed.cancel();
    }

    /// Begins an operation.
    pub async fn begin(&self, place: &Place, operation: Operation) -> Result<Call, DomainError> {
        let turn = tokio::time::timeout(TURN, Arc::clone(self.turns(&operation)).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let detail = "too many file operations at once in this session; try again in a moment";
            return Err(DomainError::new(ErrorCode::FileLimit, detail).retry_after(5));
        };
        // A service that has just left for lack of use refuses; the next one does not.
        match self.link(place)?.call(operation.clone(), turn) {
            Ok(call) => Ok(call),
            Err(turn) => self.link(place)?.call(operation, turn).map_err(|_| unavailable("it ended at once")),
        }
    }

    /// Among which an operation takes its turn.
    fn turns(&self, operation: &Operation) -> &Arc<Semaphore> {
        match operation {
            Operation::Read { .. } | Operation::Archive { .. } => &self.inner.reads,
            Operation::Write { .. } | Operation::Append { .. } | Operation::Copy { .. } | Operation::Delete { .. } => {
                &self.inner.changes
            }
            _ => &self.inner.brief,
        }
    }

    /// Does an operation that has neither content nor progress.
    pub async fn ask(&self, place: &Place, operation: Operation) -> Result<Answer, DomainError> {
        self.begin(place, operation).await?.answer().await
    }

    /// Work that goes on when whoever asked for it has left.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(work);
    }

    /// A place among those who wait for changes.
    pub fn watch(&self) -> Result<OwnedSemaphorePermit, DomainError> {
        Arc::clone(&self.inner.watches).try_acquire_owned().map_err(|_| {
            let detail = format!("{WATCHES} requests wait for changes in this session, which is the limit");
            DomainError::new(ErrorCode::FileLimit, detail).retry_after(5)
        })
    }

    /// The service that runs there, or a new one.
    fn link(&self, place: &Place) -> Result<Link, DomainError> {
        let inner = &self.inner;
        if inner.closed.is_cancelled() {
            return Err(DomainError::not_found("session"));
        }
        // The section cannot panic half-way.
        let mut current = inner.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = current.as_ref().filter(|link| link.serves(place)) {
            return Ok(link.clone());
        }
        if let Some(old) = current.take() {
            old.end();
        }
        let (link, work) = Link::start(inner.runtime.clone(), place.clone(), inner.closed.clone());
        inner.tasks.spawn(work);
        *current = Some(link.clone());
        Ok(link)
    }
}

/// The service is not there for this operation.
fn unavailable(why: &str) -> DomainError {
    let detail = format!("the sandbox's file service did not do this: {why}; try again");
    DomainError::new(ErrorCode::FilesUnavailable, detail).retry_after(1)
}
