//! The loop: takes in what the helper says, does what others ask, and notices what is overdue.

use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::command::CommandState;
use glassbox_shared::helper::{Channel, EndCause, Ended};
use tokio::time::Instant;

use super::Driver;
use super::helper_link::{HelperLink, Output};
use crate::clock;
use crate::command::protocol::Heard;

/// From the exec's start to the helper's first frame. A loaded machine needs a few seconds; nothing sensible needs more.
const START_DEADLINE: Duration = Duration::from_secs(45);
/// How long output may trickle in after the sandbox's death was reported: what was in flight, no more.
const DRAIN_AFTER_DEATH: Duration = Duration::from_millis(500);
/// Progress events come at most this often for each command: smooth to the eye, nothing to the server.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How following the stream came to an end.
pub(super) enum Followed {
    /// Everything was heard.
    Over,
    /// The stream broke off, or the helper talked nonsense, or did not answer.
    Lost(&'static str),
    /// The server stops.
    Stopped,
}

impl Driver {
    /// Follows the stream until it is over, lost, or the server stops.
    pub(super) async fn follow(
        &mut self,
        link: &mut HelperLink,
        output: &mut Output,
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

    pub(super) fn append(&mut self, channel: Channel, bytes: &[u8]) {
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
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
