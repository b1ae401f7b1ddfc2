//! The end of a session: everything is taken down, verified gone, settled and told.

use std::time::Duration;

use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::session::{EndReason, SessionState};
use tokio::time::Instant;

use super::{END_RETRY, Ending, Outcome, Owner};
use crate::clock;
use crate::command::Order;
use crate::error::DomainError;
use crate::runtime::RuntimeError;
use crate::session::sandbox;

/// How long drivers may take to settle once their sandbox is gone; a full disk can hold one up for longer, and the next
/// start settles it then.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

impl Owner {
    /// Starts to take everything down, unless that is under way. A container that is just being made is waited for: what
    /// comes of the making leads back here.
    pub(super) fn take_down(&mut self) {
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

    pub(super) fn could_not_take_down(&mut self, error: RuntimeError) {
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
    pub(super) async fn finish(&mut self, reason: EndReason) {
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
            let ending = self.ending.get_or_insert(Ending::because(reason));
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
}
