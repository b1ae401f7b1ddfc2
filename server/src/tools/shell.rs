//! `shell_exec`, `shell_wait`, `shell_kill`, and what goes beyond them: `shell_list`, `shell_output`.

use std::fmt::Write as _;
use std::time::Duration;

use glassbox_shared::command::{CommandState, CommandView, KillCommand, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::CommandId;
use glassbox_shared::text::plain;
use glassbox_shared::tools::{ToolAnswer, text};
use tokio::time::Instant;

use super::Calling;
use super::follow::{Followed, follow, part, word};
use crate::clock;
use crate::command::Command;
use crate::error::DomainError;
use crate::store::{Cursor, MAX_READERS, ToolReader};

/// How often an answer is made anew because another call of the same reader was quicker. Each time that one has been
/// given something, so this many means that something is wrong.
const TRIES: usize = 100;
/// Ended commands that `shell_list` shows.
const LISTED: usize = 20;
/// Characters of a command's text in a list.
const SHORT: usize = 100;

impl Calling<'_> {
    pub(super) async fn exec(
        &self,
        command: String,
        timeout: f64,
        background: bool,
    ) -> Result<ToolAnswer, DomainError> {
        let until = self.after(timeout);
        let mut notes = Vec::new();
        let (view, command) = {
            let lock = self.tools.beginning(self.session, self.reader);
            let _beginning = lock.lock().await;
            if !background && let Some((before, cursor)) = self.foreground().await? {
                let view = before.view();
                if !view.state.is_final() {
                    let mut answer = about(&view, text::busy(&view, clock::now()));
                    answer.is_error = true;
                    return Ok(self.tell(answer).await);
                }
                if !cursor.ended {
                    notes.push(text::ended_meanwhile(&view));
                }
            }
            let view = self.begin(command, background).await?;
            let command = self.session.command(&view.command_id).await?;
            (view, command)
        };
        if background {
            return Ok(self.tell(about(&view, text::in_background(&view))).await);
        }
        self.report(&command, until, notes).await
    }

    /// Starts it and notes that it is in the foreground: both, also when nobody waits for the answer any more.
    async fn begin(&self, command: String, background: bool) -> Result<CommandView, DomainError> {
        let (session, who, store) = (self.session.clone(), self.who.clone(), self.tools.store.clone());
        let reader = self.reader.0.clone();
        let begun = async move {
            let view = session.run(&who, RunCommand { command, ..RunCommand::default() }).await?;
            if !background && let Err(error) = store.set_foreground(session.id(), &reader, &view.command_id).await {
                // It runs; what is lost is that a call without an id means it.
                tracing::warn!(%error, command = view.command_id.as_str(), "the foreground could not be noted");
            }
            Ok(view)
        };
        self.session.see_through(begun).await
    }

    pub(super) async fn wait(&self, timeout: f64, command: Option<CommandId>) -> Result<ToolAnswer, DomainError> {
        let until = self.after(timeout);
        let command = match command {
            Some(id) => self.session.command(&id).await?,
            None => self.unfinished().await?,
        };
        self.report(&command, until, Vec::new()).await
    }

    pub(super) async fn kill(&self, command: Option<CommandId>) -> Result<ToolAnswer, DomainError> {
        let command = match command {
            Some(id) => {
                let command = self.session.command(&id).await?;
                if command.is_final() && self.cursor(&id).await?.ended {
                    return Err(DomainError::new(ErrorCode::AlreadyEnded, "this command has ended already"));
                }
                command
            }
            None => self.unfinished().await?,
        };
        if !command.is_final() {
            match self.session.kill(self.who, &command.view().command_id, KillCommand::default()).await {
                Ok(_) => {}
                // It was quicker: then its own end is the answer.
                Err(error) if error.code == ErrorCode::AlreadyEnded => {}
                Err(error) => return Err(error),
            }
        }
        self.report(&command, Instant::now(), Vec::new()).await
    }

    pub(super) async fn list(&self) -> Result<ToolAnswer, DomainError> {
        let now = clock::now();
        let commands = self.session.commands(None, crate::session::MAX_PAGE).await?.commands;
        let (running, ended): (Vec<_>, Vec<_>) = commands.iter().partition(|view| !view.state.is_final());
        let mut list = match running.len() {
            0 => "no command is running\n".to_owned(),
            1 => "1 command is running:\n".to_owned(),
            many => format!("{many} commands are running:\n"),
        };
        let mut line = |view: &CommandView, how: &str| {
            let command = short(&view.command);
            // Writing to a string cannot fail.
            let _ =
                writeln!(list, "{}  {how}  {} bytes of output  {command}", view.command_id.as_str(), view.output_bytes);
        };
        for view in &running {
            let seconds = (now - view.started_at.unwrap_or(view.created_at)).max(0.0).round();
            line(view, &format!("running for {seconds}s"));
        }
        for (nth, view) in ended.iter().take(LISTED).enumerate() {
            let how = match text::exit_code(&view.state) {
                Some(code) if matches!(view.state, CommandState::Exited { .. }) => format!("exit={code}"),
                Some(code) => format!("killed (exit={code})"),
                None => word(&view.state).unwrap_or_default(),
            };
            line(view, &if nth == 0 { format!("last ended: {how}") } else { format!("ended: {how}") });
        }
        Ok(self.tell(ToolAnswer::plain(list.trim_end().to_owned())).await)
    }

    pub(super) async fn output(&self, id: &CommandId, offset: u64, limit: usize) -> Result<ToolAnswer, DomainError> {
        let command = self.session.command(id).await?;
        let log = command.log().await?;
        let end = log.state().end;
        let part = part(&log, offset, limit).await?;
        let mut notes = Vec::new();
        if part.from > offset {
            notes.push(format!("bytes {offset} to {} are no longer held", part.from));
        }
        let mut text = format!("bytes {} to {} of {end}\noutput:\n{}", part.from, part.to, part.text);
        let more = part.to < end;
        if more {
            notes.push(format!("more follows: go on with offset {}", part.to));
        }
        text = text::with_notes(&notes, text);
        let answer = ToolAnswer {
            is_error: false,
            offset: Some(part.from),
            next_offset: Some(part.to),
            truncated: more,
            ..about(&command.view(), text)
        };
        Ok(self.tell(answer).await)
    }

    /// Follows a command until a moment, makes the text, and moves the reader's cursor.
    async fn report(&self, command: &Command, until: Instant, before: Vec<String>) -> Result<ToolAnswer, DomainError> {
        let id = command.view().command_id;
        let log = command.log().await?;
        for _ in 0..TRIES {
            let cursor = self.cursor(&id).await?;
            let followed = follow(command, &log, cursor.next, until, &self.tools.shutdown).await?;
            let restarts = self.restarts(&self.known_reader().await?);
            let answer = self.noted(&restarts, self.answer(&followed, cursor, before.clone()));
            let moved = Cursor { next: followed.output.next(), ended: followed.view.state.is_final() };
            let record = self.record(&answer);
            if self.tools.store.tell_output(record, &id, cursor, moved, restarts.told, &self.wanted.0).await? {
                return Ok(answer);
            }
        }
        Err(DomainError::new(
            ErrorCode::Conflict,
            "too many calls wait for this command's output under one name; use `reader` to tell them apart",
        ))
    }

    fn answer(&self, followed: &Followed, cursor: Cursor, mut notes: Vec<String>) -> ToolAnswer {
        let Followed { view, output, closed } = followed;
        if let CommandState::Killed { by, .. } = &view.state
            && *by != self.who.actor
        {
            notes.push(text::ended_by(by));
        }
        if view.out_of_memory && view.state.is_final() {
            notes.push(text::OUT_OF_MEMORY.to_owned());
        }
        if output.is_cut() {
            notes.push(text::rest_is_held(view, cursor.next));
        }
        if view.state.is_final() && !closed {
            notes.push(text::output_is_open(view));
        }
        let text = text::with_notes(&notes, text::of_command(view, output, clock::now()));
        ToolAnswer {
            offset: Some(cursor.next),
            next_offset: Some(output.next()),
            truncated: output.is_cut(),
            ..about(view, text)
        }
    }

    /// The reader's command in the foreground, and how far it was told of it.
    async fn foreground(&self) -> Result<Option<(Command, Cursor)>, DomainError> {
        let reader = self.known_reader().await?;
        let Some(id) = reader.foreground else { return Ok(None) };
        Ok(Some((self.session.command(&id).await?, self.cursor(&id).await?)))
    }

    /// The command in the foreground, as long as its end was not told.
    async fn unfinished(&self) -> Result<Command, DomainError> {
        match self.foreground().await? {
            Some((command, cursor)) if !cursor.ended => Ok(command),
            _ => {
                let detail = match self.session.view().commands_running {
                    0 => "no command is currently running; start one with shell_exec".to_owned(),
                    others => format!(
                        "no command is currently running that you started in the foreground, and {others} others are; \
                         shell_list shows their ids"
                    ),
                };
                Err(DomainError::new(ErrorCode::Conflict, detail))
            }
        }
    }

    /// What is known of who reads. One more than a session can remember is refused before anything is done.
    async fn known_reader(&self) -> Result<ToolReader, DomainError> {
        let reader = self.tools.store.tool_reader(self.session.id(), &self.reader.0).await?;
        if reader.too_many {
            let detail = format!("this session has had {MAX_READERS} readers, which is the limit; use fewer names");
            return Err(DomainError::new(ErrorCode::Conflict, detail));
        }
        Ok(reader)
    }

    /// So many seconds from now, or when this call has to be answered.
    fn after(&self, seconds: f64) -> Instant {
        let asked = Instant::now() + Duration::from_secs_f64(seconds);
        self.until.map_or(asked, |until| asked.min(until))
    }

    async fn cursor(&self, command: &CommandId) -> Result<Cursor, DomainError> {
        Ok(self.tools.store.tool_cursor(self.session.id(), &self.reader.0, command).await?)
    }
}

/// An answer about a command, without its output.
fn about(view: &CommandView, text: String) -> ToolAnswer {
    ToolAnswer {
        is_error: matches!(view.state, CommandState::FailedToStart { .. } | CommandState::Interrupted(_)),
        command_id: Some(view.command_id.clone()),
        state: word(&view.state),
        exit_code: text::exit_code(&view.state),
        ..ToolAnswer::plain(text)
    }
}

/// A command's text on one line.
fn short(command: &str) -> String {
    let line = plain(command.lines().next().unwrap_or_default());
    let cut = line.chars().count() > SHORT || command.lines().nth(1).is_some();
    let line: String = line.chars().take(SHORT).collect();
    if cut { format!("{line} …") } else { line }
}
