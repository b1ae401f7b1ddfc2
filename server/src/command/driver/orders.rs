//! What others ask of a driver: kills, signals, and what the owner knows of the sandbox.

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView, signal_name};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::helper::ToHelper;
use glassbox_shared::session::DeathCause;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::helper_link::HelperLink;
use super::{Driver, HELPER_MARGIN, RETRY};
use crate::clock;
use crate::command::Order;
use crate::error::DomainError;
use crate::store::StoreError;

/// The engine reports that memory ran out up to some moments after the process that it ended was waited for; in seconds.
const MEMORY_REPORT_DELAY: f64 = 2.0;

/// A kill at work.
#[derive(Debug)]
pub(super) struct Kill {
    pub(super) by: Actor,
    pub(super) since: Instant,
    /// Then a sweep takes over from the helper.
    pub(super) helper_until: Instant,
    waiting: Vec<oneshot::Sender<DomainError>>,
}

/// What the owner said about the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Died(DeathCause),
    SessionEnded,
}

impl Driver {
    /// Does as told; `link` is the helper, while there is one to talk to.
    pub(super) fn obey(&mut self, order: Order, link: Option<&mut HelperLink>) {
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

    /// Tells those who wait for a kill that it could not be verified; the command stays `running`.
    pub(super) fn unverified(&mut self, problem: &str) {
        if self.session_ending {
            // Its sandbox goes at any moment. Whoever takes it down verifies that, and tells where it fails.
            tracing::debug!(command = %self.command_id, problem, "a command's sandbox is being taken down");
        } else {
            tracing::warn!(command = %self.command_id, problem, "could not verify the end of a command; trying again");
        }
        if let Some(kill) = &mut self.kill {
            for waiting in kill.waiting.drain(..) {
                let detail = format!(
                    "the kill could not be verified ({problem}); the command counts as running and the server goes on trying"
                );
                let _ = waiting.send(DomainError::new(ErrorCode::KillUnverified, detail).retry_after(RETRY.as_secs()));
            }
        }
    }

    pub(super) fn unstored(&mut self, error: StoreError) {
        let error = DomainError::from(error);
        if let Some(kill) = &mut self.kill {
            for waiting in kill.waiting.drain(..) {
                let _ =
                    waiting.send(DomainError::new(error.code, format!("the command was ended, but {}", error.detail)));
            }
        }
    }

    /// Waits a moment, hearing orders. `false`: the server stops.
    pub(super) async fn wait_for_retry(&mut self) -> bool {
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
}

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
