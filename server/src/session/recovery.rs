//! After a start: what was there before is brought back or taken down, and every command that ran is told its end.
//!
//! A sandbox that still runs, under gVisor and with this server's helper, is adopted: what ran under the eyes of the old
//! server is ended and looked for, and then called `interrupted(server_restarted)`; processes in the background whose
//! output nobody held go on. Where any of that cannot be verified the container is removed, which ends every process in
//! it, and the session goes on in a new one on the same workspace.

use std::collections::HashMap;

use glassbox_shared::command::{CommandState, CommandView, Interruption};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{EndReason, SessionState};

use super::owner::Begin;
use super::registry::Sessions;
use super::{log_dir, sandbox};
use crate::clock;
use crate::command::Command;
use crate::command::driver::sweep;
use crate::command::log::{Log, LogError};
use crate::error::DomainError;
use crate::runtime::Runtime;
use crate::store::SessionRecord;

/// Sweeps of one sandbox at the same time: each is an exec, and a session may have twenty commands.
const SWEEPS_AT_ONCE: usize = 4;

impl Sessions {
    /// Brings everything back; the server does not listen before this is done.
    pub(super) async fn recover(&self) -> Result<(), DomainError> {
        let mut unfinished: HashMap<SessionId, Vec<CommandView>> = HashMap::new();
        for command in self.shared.store.unfinished_commands().await? {
            unfinished.entry(command.session_id.clone()).or_default().push(command);
        }
        // All at once: an engine can need minutes for one container.
        let recoveries = self.shared.store.unended_sessions().await?.into_iter().map(|record| {
            let commands = unfinished.remove(&record.id).unwrap_or_default();
            async move {
                let (id, spare) = (record.id.clone(), record.clone());
                if let Err(error) = self.recover_one(record, commands).await {
                    // It must not keep all others from coming back, and its files must not be swept away.
                    tracing::error!(%error, session = %id, "a session could not be brought back yet; trying again");
                    self.spare(spare);
                }
            }
        });
        futures_util::future::join_all(recoveries.collect::<Vec<_>>()).await;
        // Commands of sessions that ended while the end of a command could not be stored.
        for command in unfinished.into_values().flatten() {
            self.settle(command, Interruption::SessionEnded).await?;
        }
        Ok(())
    }

    /// Tries again with those that an engine's trouble kept from coming back.
    pub(super) async fn recover_spared(&self) {
        let _turn = self.shared.trying_again.lock().await;
        // Each stays spared until it is back, so that no sweep takes what is its own.
        for record in self.spared() {
            let id = record.id.clone();
            let recovered = async {
                let unfinished = self.shared.store.unfinished_commands().await?;
                let commands = unfinished.into_iter().filter(|command| command.session_id == id).collect();
                self.recover_one(record, commands).await
            };
            match recovered.await {
                Ok(()) => {
                    self.spare_no_more(&id);
                    tracing::info!(session = %id, "a session came back after all");
                }
                Err(error) => {
                    tracing::warn!(%error, session = %id, "a session can still not be brought back; trying again");
                }
            }
        }
    }

    async fn recover_one(&self, mut record: SessionRecord, commands: Vec<CommandView>) -> Result<(), DomainError> {
        let runtime = &self.shared.runtime;
        let was_running = commands.iter().any(|command| !command.state.is_final());
        let began = !matches!(record.state, SessionState::Starting);
        let reason = if !began {
            Some(EndReason::Failed)
        } else if record.ended_by.is_some() {
            // Somebody asked for its end, and the server stopped before that was done.
            Some(EndReason::Deleted)
        } else if !runtime.has_workspace(&record.workspace).await? {
            Some(EndReason::Lost)
        } else if !was_running && self.expired(&record) {
            Some(EndReason::Expired)
        } else {
            None
        };
        let adopted = reason.is_none() && self.adopt(&record, &commands).await;
        if let Some(container) = record.container.as_ref().filter(|_| !adopted) {
            runtime.remove(container).await?;
        }
        for command in commands {
            self.settle(command, Interruption::ServerRestarted).await?;
        }
        if let Some(reason) = reason {
            sandbox::take_down(runtime, None, &record.workspace).await?;
            record.state = SessionState::Ended { reason };
            record.ended_at = Some(clock::now());
            record.container = None;
            return Ok(self.shared.store.update_session(&record).await?);
        }
        if was_running {
            // A running command is use, also while nobody could write it down.
            record.last_used_at = clock::now();
        }
        let (newest, _) = self.shared.store.commands(&record.id, None, 1).await?;
        let newest = newest.into_iter().next().map(|view| {
            let dir = log_dir(&self.shared.settings, &record.id, &view.command_id);
            Command::ended(view, dir)
        });
        if adopted {
            self.bring_back(self.prepare(record, newest, None), Begin::Adopt);
            return Ok(());
        }
        sandbox::begin_restart(&mut record, None);
        self.bring_back(self.prepare(record, newest, None), Begin::Remake);
        Ok(())
    }

    /// Takes over the sandbox as it is, if that can be done truthfully: nothing of `commands` runs any more afterwards.
    async fn adopt(&self, record: &SessionRecord, commands: &[CommandView]) -> bool {
        let runtime = &self.shared.runtime;
        let Some(container) = record.container.as_deref().filter(|_| record.state == SessionState::Ready) else {
            return false;
        };
        match runtime.can_adopt(container).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                tracing::info!(%error, session = %record.id, "a sandbox cannot be taken over");
                return false;
            }
        }
        let mut adopted = true;
        for some in commands.chunks(SWEEPS_AT_ONCE) {
            let verified = futures_util::future::join_all(
                some.iter()
                    .map(|command| is_verified_over(runtime, container, &command.command_id))
                    .collect::<Vec<_>>(),
            );
            adopted &= verified.await.into_iter().all(|is_over| is_over);
        }
        if adopted {
            tracing::info!(session = %record.id, container, "a sandbox goes on");
        }
        adopted
    }

    fn expired(&self, record: &SessionRecord) -> bool {
        let settings = &self.shared.settings;
        let now = clock::now();
        now >= record.last_used_at + settings.idle.as_secs_f64()
            || now >= record.created_at + settings.lifetime.as_secs_f64()
    }

    /// Nothing of the command runs any more: tells its end, and what its log really holds.
    async fn settle(&self, mut command: CommandView, interruption: Interruption) -> Result<(), DomainError> {
        let dir = log_dir(&self.shared.settings, &command.session_id, &command.command_id);
        match Log::open(dir).await {
            Ok(log) => {
                let state = log.state();
                command.output_bytes = state.end;
                command.output_missing_bytes = state.missing;
                command.last_output_at = state.last_at.or(command.last_output_at);
                command.output_complete = state.closed && state.complete;
            }
            Err(error) => {
                if !matches!(error, LogError::NotFound) {
                    tracing::warn!(%error, command = %command.command_id, "an output log cannot be read");
                }
                command.output_complete = false;
            }
        }
        command.output_closed = true;
        if !command.state.is_final() {
            command.state = CommandState::Interrupted(interruption);
            command.ended_at = Some(clock::now());
        }
        Ok(self.shared.store.update_command(&command).await?)
    }
}

/// Ends and looks for everything of a command. False: something is left, or nobody knows.
async fn is_verified_over(runtime: &Runtime, container: &str, command: &CommandId) -> bool {
    let problem = match sweep(runtime, container, command.as_str()).await {
        Ok(ended) if ended.survivors.is_empty() => return true,
        Ok(ended) => format!("{} processes survived", ended.survivors.len()),
        Err(problem) => problem,
    };
    tracing::warn!(problem, %command, "the end of a command could not be verified; its sandbox goes");
    false
}
