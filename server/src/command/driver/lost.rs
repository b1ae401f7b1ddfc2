//! What is true of a command whose helper is lost: the owner's word, the engine's, or what a sweep finds. Nothing is
//! claimed before one of them is had.

use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, Interruption, KillReport};
use glassbox_shared::helper::Ended;
use glassbox_shared::session::DeathCause;
use tokio::time::Instant;

use super::Driver;
use super::orders::Verdict;
use super::settle::End;
use super::sweep::sweep;
use crate::clock;
use crate::runtime::ContainerStatus;

/// How long a dead stream waits for the owner to say why the sandbox is gone before it is `unknown`.
const VERDICT_DEADLINE: Duration = Duration::from_secs(10);
/// The helper's clock starts a moment before its report is heard, and clocks inside may drift a little; in seconds.
const LIMIT_SLACK: f64 = 1.0;

impl Driver {
    /// The helper is lost: finds out what is true, and settles it. `false`: the server stops first.
    pub(super) async fn settle_lost(&mut self) -> bool {
        self.settle_lost_as(None).await
    }

    /// Like [`Self::settle_lost`]; `verified` is the state to take once nothing of the command is left, where it is not
    /// the ordinary one.
    pub(super) async fn settle_lost_as(&mut self, verified: Option<CommandState>) -> bool {
        let _ = self.suspect.try_send(());
        let over_limit = self.over_limit();
        let mut missing_since: Option<Instant> = None;
        loop {
            if let Some(verdict) = self.verdict {
                let state = match verdict {
                    Verdict::Died(cause) => CommandState::Interrupted(Interruption::SandboxDied { cause }),
                    Verdict::SessionEnded => CommandState::Interrupted(Interruption::SessionEnded),
                };
                return self.settle(state.into()).await;
            }
            match self.shared.runtime.status(&self.container).await {
                // The owner learns of the death as well and says why; until then it is waited for, but not for ever.
                Ok(ContainerStatus::Dead(_) | ContainerStatus::Missing) if self.session_ending => {
                    return self.settle(CommandState::Interrupted(Interruption::SessionEnded).into()).await;
                }
                Ok(status @ (ContainerStatus::Dead(_) | ContainerStatus::Missing)) => {
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= VERDICT_DEADLINE {
                        let cause = if let ContainerStatus::Dead(cause) = status { cause } else { DeathCause::Unknown };
                        return self
                            .settle(CommandState::Interrupted(Interruption::SandboxDied { cause }).into())
                            .await;
                    }
                    let _ = self.suspect.try_send(());
                }
                Ok(ContainerStatus::Running) => {
                    missing_since = None;
                    match sweep(&self.shared.runtime, &self.container, &self.command_id).await {
                        Ok(ended) => {
                            let end = self.swept(ended, verified, over_limit);
                            return self.settle(end).await;
                        }
                        Err(problem) => self.unverified(&problem),
                    }
                }
                Err(error) => self.unverified(&error.to_string()),
            }
            if !self.wait_for_retry().await {
                return false;
            }
        }
    }

    pub(super) fn over_limit(&self) -> bool {
        let view = self.view.borrow();
        view.started_at.is_some_and(|at| clock::now() - at >= view.limit_seconds - LIMIT_SLACK)
    }

    /// Nothing of the command is left (or the survivors are named): what that makes it.
    fn swept(&self, ended: Ended, verified: Option<CommandState>, over_limit: bool) -> End {
        let kill = self.kill.as_ref();
        let by = kill.map_or(Actor::Server, |kill| kill.by.clone());
        let took_ms = kill.map_or(ended.took_ms, |kill| kill.since.elapsed().as_millis() as u64);
        let report = Some(KillReport { signal: ended.signal, took_ms, by: by.clone(), survivors: ended.survivors });
        let (state, kill) = match (verified, kill) {
            (Some(state), _) => (state, None),
            (None, Some(_)) => (CommandState::Killed { signal: ended.signal, by }, report),
            (None, None) if over_limit => (CommandState::TimedOut, report),
            (None, None) if !self.conversation.has_started() => (
                CommandState::FailedToStart {
                    message: "the helper did not report a start in time; nothing of it is left".into(),
                },
                None,
            ),
            (None, None) => (CommandState::Interrupted(Interruption::HelperLost), report),
        };
        End { state, kill, ran: None }
    }
}
