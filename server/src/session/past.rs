//! What the history needs of sessions: how ended ones look, where their logs are, and what is being written right now.

use std::path::PathBuf;

use glassbox_shared::command::CommandView;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::SessionView;

use super::log_dir;
use super::registry::Sessions;
use super::view::{self, Now};
use crate::command::Command;
use crate::store::SessionRecord;

impl Sessions {
    /// A session that no owner has (any more), as it was stored; `latest_command` is left to the caller.
    pub fn stored_view(&self, record: &SessionRecord) -> SessionView {
        view::view(record, Now { last_used_at: record.last_used_at, running: 0 }, &self.shared.settings)
    }

    /// A command that has ended, as it was stored.
    pub fn stored_command(&self, view: CommandView) -> Command {
        let log_dir = log_dir(&self.shared.settings, &view.session_id, &view.command_id);
        Command::ended(view, log_dir)
    }

    /// Where the output logs of all sessions are, each in a folder of its session's name.
    pub fn logs_dir(&self) -> PathBuf {
        self.shared.settings.logs_dir.clone()
    }

    /// Commands of all tenants whose output may still grow.
    pub fn driven(&self) -> Vec<(SessionId, CommandId, Command)> {
        let driven = |session: super::Session| {
            let commands = session.inner.live.driven();
            commands.into_iter().map(move |command| (session.inner.id.clone(), command.view().command_id, command))
        };
        self.all().into_iter().flat_map(driven).collect()
    }
}
