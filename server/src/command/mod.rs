//! One run of a shell command: a durable record with an id, a state and an output log.
//!
//! ```text
//! starting ──▶ running ──▶ exited | signaled | killed | timed_out | interrupted
//!     └──────▶ failed_to_start | interrupted
//! ```
//!
//! The [`driver`] task is the only writer of a command's state and log. Everyone else holds a [`Command`], which can look
//! and ask, and nothing else. Exactly one final state is reached, stored before anyone sees it, and never invented: what
//! cannot be verified stays `running`.

pub mod driver;
pub mod filter;
pub mod log;
pub mod protocol;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::CommandView;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::session::DeathCause;
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::DomainError;
use log::{Log, LogError};

/// Requests that may wait for a driver; a driver handles one in microseconds, so only a broken one is ever this far
/// behind, and the asker is then told to try again.
const ORDERS: usize = 64;

/// What a driver can be told.
#[derive(Debug)]
pub enum Order {
    /// End the whole tree.
    Kill {
        /// Between TERM and KILL.
        grace: Duration,
        /// Who asks.
        by: Actor,
        /// Answered when it could not be verified; a verified end shows in the view.
        unverified: oneshot::Sender<DomainError>,
    },
    /// Send a signal to the command's process group.
    Signal(i32),
    /// The sandbox is dead: nothing of the command runs any more.
    SandboxDied(DeathCause),
    /// The session is being taken down: a sandbox that is gone is gone for that reason.
    SessionEnding,
    /// The session is over and its sandbox verified gone.
    SessionEnded,
    /// The engine saw something in the sandbox run out of memory.
    OutOfMemory,
}

/// A handle to a running or ended command.
#[derive(Debug, Clone)]
pub struct Command {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    view: watch::Receiver<CommandView>,
    orders: Option<mpsc::Sender<Order>>,
    log: Mutex<Option<Log>>,
    log_dir: PathBuf,
}

impl Command {
    /// A running one; `log` is what its driver writes.
    fn live(view: watch::Receiver<CommandView>, orders: mpsc::Sender<Order>, log: Log, log_dir: PathBuf) -> Self {
        Self { inner: Arc::new(Inner { view, orders: Some(orders), log: Mutex::new(Some(log)), log_dir }) }
    }

    /// One that ended earlier, as it was stored.
    pub fn ended(view: CommandView, log_dir: PathBuf) -> Self {
        let (_, view) = watch::channel(view);
        Self { inner: Arc::new(Inner { view, orders: None, log: Mutex::new(None), log_dir }) }
    }

    /// As it is now.
    pub fn view(&self) -> CommandView {
        let mut view = self.inner.view.borrow().clone();
        if !view.output_closed
            && let Some(log) = self.inner.log.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            driver::describe_output(&mut view, log);
        }
        view
    }

    /// Has it ended?
    pub fn is_final(&self) -> bool {
        self.inner.view.borrow().state.is_final()
    }

    /// Waits for its end, at most this long, and tells how it is then.
    pub async fn wait_end(&self, limit: Duration) -> CommandView {
        let mut view = self.inner.view.clone();
        // A passed limit or a vanished driver both mean: tell what is known now.
        let _ = tokio::time::timeout(limit, view.wait_for(|view| view.state.is_final())).await;
        self.view()
    }

    /// Waits until nothing more of it will change, at most this long.
    pub async fn wait_closed(&self, limit: Duration) -> CommandView {
        let mut view = self.inner.view.clone();
        let _ = tokio::time::timeout(limit, view.wait_for(|view| view.state.is_final() && view.output_closed)).await;
        self.view()
    }

    /// Its output log. An ended command's is opened from disk at the first call.
    pub async fn log(&self) -> Result<Log, DomainError> {
        if let Some(log) = self.inner.log.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(log);
        }
        let log = Log::open(self.inner.log_dir.clone()).await.map_err(|error| {
            DomainError::new(ErrorCode::NotFound, "the output of this command is no longer held").because(error)
        })?;
        let mut held = self.inner.log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(held.get_or_insert(log).clone())
    }

    /// Asks its driver.
    pub fn order(&self, order: Order) -> Result<(), DomainError> {
        let already =
            || DomainError::new(ErrorCode::AlreadyEnded, "this command has ended already; nothing was sent to it");
        let Some(orders) = &self.inner.orders else { return Err(already()) };
        orders.try_send(order).map_err(|error| match error {
            mpsc::error::TrySendError::Closed(_) => already(),
            mpsc::error::TrySendError::Full(_) => DomainError::new(
                ErrorCode::Conflict,
                "this command is busy with earlier requests; try again in a moment",
            )
            .retry_after(1),
        })
    }
}

impl From<LogError> for DomainError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Full => DomainError::new(
                ErrorCode::StorageFull,
                "the server's data disk is full; nothing was started; free some space and try again",
            )
            .because(error),
            LogError::BeyondEnd { from, end } => DomainError::new(
                ErrorCode::OffsetBeyondEnd,
                format!("offset {from} is beyond the end of the output ({end} bytes so far)"),
            )
            .because(error),
            LogError::NotFound => {
                DomainError::new(ErrorCode::NotFound, "the output of this command is no longer held").because(error)
            }
            LogError::Io(_) => {
                DomainError::new(ErrorCode::Internal, "the output could not be read or written").because(error)
            }
        }
    }
}
