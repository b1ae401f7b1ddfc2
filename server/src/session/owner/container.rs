//! The life of a session's container: made, watched, dead, made again.

use std::time::Duration;

use glassbox_shared::session::{DeathCause, EndReason, SessionState};
use tokio::time::Instant;

use super::{ASK_SANDBOX_AFTER, Ending, LOOK_AGAIN, MAX_PAUSE, Outcome, Owner};
use crate::command::Order;
use crate::runtime::{ContainerStatus, RuntimeError};
use crate::session::sandbox;

/// A sandbox that dies younger than this died "at once": the next one is made after a growing pause.
const YOUNG: Duration = Duration::from_secs(10);
/// A death this soon after memory ran out is its work, also where the engine only says that the sandbox exited.
const SHORT_BEFORE_DEATH: Duration = Duration::from_secs(5);

impl Owner {
    /// Asks the engine how the container is, unless that is under way or pointless.
    pub(super) fn look(&mut self) {
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

    pub(super) async fn came_of(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Made(Ok(())) | Outcome::Remade(Ok(true)) => self.container_runs().await,
            Outcome::Made(Err(error)) => {
                self.making = false;
                tracing::warn!(%error, session = %self.id(), "a sandbox could not be made");
                self.failure = Some(error.into());
                self.ending.get_or_insert(Ending::because(EndReason::Failed));
                self.take_down();
            }
            Outcome::Remade(Ok(false)) => {
                self.making = false;
                tracing::error!(session = %self.id(), "the workspace is gone");
                self.ending.get_or_insert(Ending::because(EndReason::Lost));
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
        sandbox::begin_restart(&mut record, Some(cause));
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

    pub(super) async fn remake(&mut self) {
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
}
