//! Commands of a session: begun within its limits, and let go when their drivers are done.

use glassbox_shared::command::CommandView;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::helper::{DEFAULT_GRACE_MS, Start};
use glassbox_shared::live::Event;
use glassbox_shared::session::SessionState;

use super::Owner;
use crate::command::Command;
use crate::command::driver::{self, NewCommand};
use crate::control::Principal;
use crate::error::DomainError;
use crate::session::log_dir;
use crate::session::request::ValidCommand;
use crate::{clock, ids};

/// Ended commands whose background children hold the output open, for each command that may run at once: each holds a
/// connection to the engine.
const OPEN_OUTPUTS: usize = 4;

impl Owner {
    pub(super) async fn start_command(
        &mut self,
        who: Principal,
        command: ValidCommand,
    ) -> Result<CommandView, DomainError> {
        if self.ending.is_some() {
            return Err(DomainError::not_found("session"));
        }
        if self.record.borrow().state != SessionState::Ready {
            let detail = "the sandbox has just died and is being made again; try again in a moment";
            return Err(DomainError::new(ErrorCode::Conflict, detail).retry_after(1));
        }
        let driven = self.live.driven().len();
        if driven >= self.settings.max_commands.saturating_mul(OPEN_OUTPUTS) {
            let detail = format!(
                "background processes hold the output of {driven} commands open, which is the limit; end some, or redirect their output"
            );
            return Err(DomainError::new(ErrorCode::CommandLimit, detail));
        }
        let running = self.live.now().running as usize;
        if running >= self.settings.max_commands {
            let detail =
                format!("{running} commands are running in this session, which is its limit; wait for one or kill it");
            return Err(DomainError::new(ErrorCode::CommandLimit, detail));
        }
        let mut record = self.record.borrow().clone();
        record.commands_total += 1;
        record.last_used_at = clock::now();
        let (id, number) = (ids::command(), record.commands_total);
        let view = CommandView {
            cwd: command.cwd.clone(),
            split: command.split,
            limit_seconds: command.limit.as_secs_f64(),
            ..CommandView::starting(
                record.id.clone(),
                id.clone(),
                number,
                command.command.clone(),
                who.actor,
                clock::now(),
            )
        };
        self.drivers.store.update_session(&record).await?;
        let new = NewCommand {
            tenant: record.tenant.clone(),
            view: view.clone(),
            container: record.container.clone().unwrap_or_default(),
            start: start(self.settings.workspace_dir(record.profile), command),
            log_dir: log_dir(&self.settings, &record.id, &id),
            log_settings: self.settings.log,
            suspect: self.suspect.0.clone(),
        };
        self.record.send_replace(record);
        let (handle, drive) = driver::prepare(self.drivers.clone(), new).await?;
        self.live.add(number, id, handle.clone());
        self.driving.spawn(async move {
            drive.await;
            number
        });
        self.publish();
        Ok(handle.view())
    }

    pub(super) async fn command_closed(&mut self, closed: Result<u64, tokio::task::JoinError>) {
        match closed {
            Ok(number) if self.drivers.shutdown.is_cancelled() => {
                tracing::debug!(number, "left a command to the next start");
            }
            Ok(number) => {
                self.live.remove(number);
                self.tell_late_of_memory().await;
                self.publish();
            }
            Err(error) => {
                tracing::error!(%error, session = %self.id(), "a command's driver broke off; the next start will tell its end");
            }
        }
    }

    /// The engine's word came after the command's end, or while its driver was leaving: it is added to what was stored.
    pub(super) async fn tell_late_of_memory(&mut self) {
        let Some(reported) = self.memory_reported else { return };
        for command in self.live.closed() {
            let mut view = command.view();
            if view.out_of_memory || !driver::memory_may_have_ended(&view, reported) {
                continue;
            }
            view.out_of_memory = true;
            if let Err(error) = self.drivers.store.update_command(&view).await {
                tracing::warn!(%error, command = %view.command_id, "that memory ran out could not be stored");
                continue;
            }
            let dir = log_dir(&self.settings, &view.session_id, &view.command_id);
            self.live.correct(&Command::ended(view.clone(), dir));
            let tenant = self.record.borrow().tenant.clone();
            self.drivers.feed.publish(&tenant, Event::Command { command: Box::new(view) });
        }
    }
}

/// What the helper gets.
fn start(workspace: &str, command: ValidCommand) -> Start {
    let cwd = match command.cwd {
        None => workspace.to_owned(),
        Some(cwd) if cwd.starts_with('/') => cwd,
        Some(cwd) => format!("{workspace}/{cwd}"),
    };
    Start {
        tag: ids::tag(),
        argv: vec!["/bin/bash".into(), "-c".into(), command.command],
        cwd: Some(cwd),
        env: command.env,
        split: command.split,
        limit_ms: command.limit.as_millis() as u64,
        grace_ms: DEFAULT_GRACE_MS,
        stdin: false,
        terminal: None,
    }
}
