//! The task that owns one command: the only writer of its state and its output log.
//!
//! It drains the helper's stream always, whoever watches. Bytes pass the filter and are in the file before anyone learns
//! of them; a state is in the store before anyone sees it. Nothing ends unverified: where the helper's word is missing or
//! worthless, a second exec sweeps the sandbox for what is left of the command, and until that has worked the command
//! stays `running`.

use std::path::PathBuf;
use std::time::Duration;

use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::helper::{HELPER_PATH, Start, ToHelper};
use glassbox_shared::live::Event;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::filter::Filter;
use super::log::{Log, LogSettings, LogWriter};
use super::protocol::Conversation;
use super::{Command, ORDERS, Order};
use crate::clock;
use crate::error::DomainError;
use crate::feed::Feed;
use crate::runtime::{ExecSpec, ExecStream, Runtime, RuntimeError};
use crate::store::Store;

mod follow;
mod helper_link;
mod lost;
mod orders;
mod settle;
mod sweep;
pub use orders::memory_may_have_ended;
pub(crate) use sweep::sweep;

use follow::Followed;
use helper_link::HelperLink;
use orders::{Kill, Verdict};

/// What the helper may take beyond its own grace to verify and tell an end before a sweep takes over: its hunt for
/// survivors ends after 5 s, and draining after 1 s.
const HELPER_MARGIN: Duration = Duration::from_secs(12);
/// Between attempts to verify what could not be verified, or to store what could not be stored.
const RETRY: Duration = Duration::from_secs(2);
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
