//! What models were told, and how far each reader is with each command.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassbox_shared::actor::Actor;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::tools::ToolCallView;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::{Store, StoreError, from_json, parse, to_json};

/// Calls of one session that are kept, and their bytes: a working day of a busy agent. Beyond either the oldest go.
const MAX_CALLS: i64 = 5_000;
const MAX_BYTES: i64 = 32 << 20;
/// As many of them at once, so that it is seldom.
const GO_AT_ONCE: i64 = 100;
/// Readers of one session: a few for each agent. They are kept as long as the session is.
pub const MAX_READERS: u64 = 2_000;

/// How far a reader is with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Offset of the output that it is given next.
    pub next: u64,
    /// It was told how the command ended.
    pub ended: bool,
}

/// What is known of a reader in a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolReader {
    /// The command that a call without an id means.
    pub foreground: Option<CommandId>,
    /// The last restart of the sandbox that it was told of.
    pub restarts_until: f64,
    /// It is one more than [`MAX_READERS`].
    pub too_many: bool,
}

/// How far a reader was told of its sandbox's restarts: before an answer, and with it. Moments, as in `RestartView`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RestartsTold {
    pub from: f64,
    pub to: f64,
}

/// Whether an answer is still wanted: until it is given up, or the store takes it to write it down, whichever is first. One
/// that was taken will count as told, although that takes as long as the disk does: it is worth waiting for.
#[derive(Debug, Clone, Default)]
pub struct Wanted(Arc<Mutex<Fate>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fate {
    #[default]
    Open,
    Taken,
    GivenUp,
}

impl Wanted {
    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody wants it any more. `false`, and nothing is changed: it was taken.
    pub fn give_up(&self) -> bool {
        let mut fate = self.fate();
        if *fate == Fate::Open {
            *fate = Fate::GivenUp;
        }
        *fate == Fate::GivenUp
    }

    /// Takes it, unless it was given up; also once more, because jobs are repeatable.
    fn take(&self) -> bool {
        let mut fate = self.fate();
        if *fate == Fate::Open {
            *fate = Fate::Taken;
        }
        *fate == Fate::Taken
    }

    /// If it was not written down after all, it can be given up again.
    fn settle(&self, told: Result<bool, StoreError>) -> Result<bool, StoreError> {
        let mut fate = self.fate();
        if *fate == Fate::Taken && !matches!(told, Ok(true)) {
            *fate = Fate::Open;
        }
        drop(fate);
        told
    }
}

/// A call of a tool, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub session: SessionId,
    pub reader: String,
    pub actor: Actor,
    pub tool: String,
    /// Its beginning.
    pub input: String,
    pub command: Option<CommandId>,
    pub at: f64,
    pub ended_at: f64,
    /// What the model was told.
    pub text: String,
    pub offset: Option<u64>,
    pub next_offset: Option<u64>,
}

impl Store {
    /// What is known of a reader.
    pub async fn tool_reader(&self, session: &SessionId, reader: &str) -> Result<ToolReader, StoreError> {
        let (session, reader) = (session.clone(), reader.to_owned());
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT foreground, restarts_until FROM tool_readers WHERE session_id = ?1 AND reader = ?2",
            )?;
            let found = statement
                .query_row(params![session.as_str(), reader], |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?)))
                .optional()?;
            let Some((foreground, restarts_until)) = found else {
                let mut statement =
                    connection.prepare_cached("SELECT count(*) FROM tool_readers WHERE session_id = ?1")?;
                let readers = statement.query_row([session.as_str()], |row| row.get::<_, i64>(0))?.cast_unsigned();
                return Ok(ToolReader { too_many: readers >= MAX_READERS, ..ToolReader::default() });
            };
            let foreground = foreground.map(|id| parse(&id)).transpose()?;
            Ok(ToolReader { foreground, restarts_until, too_many: false })
        })
        .await
    }

    /// How far a reader is with a command.
    pub async fn tool_cursor(
        &self,
        session: &SessionId,
        reader: &str,
        command: &CommandId,
    ) -> Result<Cursor, StoreError> {
        let (session, reader, command) = (session.clone(), reader.to_owned(), command.clone());
        self.read(move |connection| cursor(connection, &session, &reader, &command)).await
    }

    /// This is now the command that a call without an id means.
    pub async fn set_foreground(
        &self,
        session: &SessionId,
        reader: &str,
        command: &CommandId,
    ) -> Result<(), StoreError> {
        let (session, reader, command) = (session.clone(), reader.to_owned(), command.clone());
        self.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "INSERT INTO tool_readers (session_id, reader, foreground) VALUES (?1, ?2, ?3)
                 ON CONFLICT (session_id, reader) DO UPDATE SET foreground = excluded.foreground",
            )?;
            statement.execute(params![session.as_str(), reader, command.as_str()])?;
            Ok(())
        })
        .await
    }

    /// Writes down what a model is told of a command's output, and moves its reader on from `from` to `to`, and with the
    /// sandbox's restarts. `false`, and nothing is changed: the reader is not there any more, or nobody wants the answer
    /// (it was given up while this waited for its turn).
    pub async fn tell_output(
        &self,
        call: ToolCall,
        command: &CommandId,
        from: Cursor,
        to: Cursor,
        restarts: RestartsTold,
        wanted: &Wanted,
    ) -> Result<bool, StoreError> {
        let (command, answer) = (command.clone(), wanted.clone());
        let told = self.write(move |connection| {
            let moved = cursor(connection, &call.session, &call.reader, &command)? != from;
            if moved || knows_more(connection, &call, restarts)? || !answer.take() {
                return Ok(false);
            }
            let mut statement = connection.prepare_cached(
                "INSERT OR REPLACE INTO tool_cursors (session_id, reader, command_id, next, ended)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let (session, reader) = (call.session.as_str(), &call.reader);
            statement.execute(params![session, reader, command.as_str(), to.next.cast_signed(), to.ended])?;
            knows(connection, &call, restarts)?;
            insert(connection, &call)?;
            Ok(true)
        });
        wanted.settle(told.await)
    }

    /// What models were told in a session, newest first, at most `limit`; only of one command, and only what has a number
    /// below `before`, if given. Beside it what to give as `before` for the next page, unless that was all.
    pub async fn tool_calls(
        &self,
        session: &SessionId,
        command: Option<&CommandId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<ToolCallView>, Option<u64>), StoreError> {
        let (session, command) = (session.clone(), command.cloned());
        // Numbers are far below this; an absurd one means "from the newest".
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        let limit = limit.min(i64::MAX as usize - 1);
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(match command {
                None => {
                    "SELECT * FROM tool_calls WHERE session_id = ?1 AND id < ?3 AND ?2 IS NULL ORDER BY id DESC LIMIT ?4"
                }
                Some(_) => {
                    "SELECT * FROM tool_calls WHERE session_id = ?1 AND command_id = ?2 AND id < ?3
                     ORDER BY id DESC LIMIT ?4"
                }
            })?;
            let command = command.as_ref().map(CommandId::as_str);
            // One more than asked for tells whether there is a next page.
            let rows = statement.query_and_then(params![session.as_str(), command, before, limit as i64 + 1], from_row)?;
            let mut calls = rows.collect::<Result<Vec<_>, StoreError>>()?;
            let more = calls.len() > limit;
            calls.truncate(limit);
            let next = if more { calls.last().map(|last| last.id) } else { None };
            Ok((calls, next))
        })
        .await
    }

    /// Writes down what a model is told that is no command's output, and moves its reader on with the sandbox's restarts.
    /// `false`, and nothing is changed: as in [`Store::tell_output`].
    pub async fn record_tool_call(
        &self,
        call: ToolCall,
        restarts: RestartsTold,
        wanted: &Wanted,
    ) -> Result<bool, StoreError> {
        let answer = wanted.clone();
        let told = self.write(move |connection| {
            if knows_more(connection, &call, restarts)? || !answer.take() {
                return Ok(false);
            }
            // Who was told nothing of restarts needs no row: those are counted.
            if restarts.to > restarts.from {
                knows(connection, &call, restarts)?;
            }
            insert(connection, &call)?;
            Ok(true)
        });
        wanted.settle(told.await)
    }
}

/// Was the reader told of these restarts meanwhile? Then this answer must not say it again.
fn knows_more(connection: &Connection, call: &ToolCall, restarts: RestartsTold) -> Result<bool, StoreError> {
    if restarts.to <= restarts.from {
        return Ok(false);
    }
    let mut statement =
        connection.prepare_cached("SELECT restarts_until FROM tool_readers WHERE session_id = ?1 AND reader = ?2")?;
    let until = statement.query_row([call.session.as_str(), &call.reader], |row| row.get::<_, f64>(0)).optional()?;
    Ok(until.is_some_and(|until| until > restarts.from))
}

/// The reader was told of the restarts up to then.
fn knows(connection: &Connection, call: &ToolCall, restarts: RestartsTold) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO tool_readers (session_id, reader, restarts_until) VALUES (?1, ?2, ?3)
         ON CONFLICT (session_id, reader) DO UPDATE SET restarts_until = max(restarts_until, excluded.restarts_until)",
    )?;
    statement.execute(params![call.session.as_str(), call.reader, restarts.to])?;
    Ok(())
}

fn cursor(
    connection: &Connection,
    session: &SessionId,
    reader: &str,
    command: &CommandId,
) -> Result<Cursor, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT next, ended FROM tool_cursors WHERE session_id = ?1 AND reader = ?2 AND command_id = ?3",
    )?;
    let found = statement
        .query_row(params![session.as_str(), reader, command.as_str()], |row| {
            Ok(Cursor { next: row.get::<_, i64>(0)?.cast_unsigned(), ended: row.get(1)? })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn insert(connection: &Connection, call: &ToolCall) -> Result<(), StoreError> {
    let (session, length) = (call.session.as_str(), (call.text.len() + call.input.len()) as i64);
    let mut statement = connection.prepare_cached(
        "INSERT INTO tool_calls (session_id, reader, actor, tool, input, command_id, at, ended_at, text, bytes, start,
             next_offset)
         VALUES (:session_id, :reader, :actor, :tool, :input, :command_id, :at, :ended_at, :text, :bytes, :start,
             :next_offset)",
    )?;
    statement.execute(named_params! {
        ":session_id": session,
        ":reader": call.reader,
        ":actor": to_json(&call.actor)?,
        ":tool": call.tool,
        ":input": call.input,
        ":command_id": call.command.as_ref().map(CommandId::as_str),
        ":at": call.at,
        ":ended_at": call.ended_at,
        ":text": call.text,
        ":bytes": length,
        ":start": call.offset.map(u64::cast_signed),
        ":next_offset": call.next_offset.map(u64::cast_signed),
    })?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO tool_totals (session_id, calls, bytes) VALUES (?1, 1, ?2)
         ON CONFLICT (session_id) DO UPDATE SET calls = calls + 1, bytes = bytes + excluded.bytes
         RETURNING calls, bytes",
    )?;
    let (calls, bytes): (i64, i64) =
        statement.query_row(params![session, length], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if calls <= MAX_CALLS && bytes <= MAX_BYTES {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "DELETE FROM tool_calls WHERE id IN (SELECT id FROM tool_calls WHERE session_id = ?1 ORDER BY id LIMIT ?2)
         RETURNING bytes",
    )?;
    let gone = statement.query_map(params![session, GO_AT_ONCE], |row| row.get::<_, i64>(0))?;
    let gone = gone.collect::<Result<Vec<_>, _>>()?;
    let mut statement = connection
        .prepare_cached("UPDATE tool_totals SET calls = calls - ?2, bytes = bytes - ?3 WHERE session_id = ?1")?;
    statement.execute(params![session, gone.len() as i64, gone.iter().sum::<i64>()])?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> Result<ToolCallView, StoreError> {
    let number = |name: &str| row.get::<_, Option<i64>>(name).map(|number| number.map(i64::cast_unsigned));
    Ok(ToolCallView {
        id: number("id")?.unwrap_or_default(),
        tool: row.get("tool")?,
        input: row.get("input")?,
        actor: from_json(&row.get::<_, String>("actor")?)?,
        command_id: row.get::<_, Option<String>>("command_id")?.map(|id| parse(&id)).transpose()?,
        at: row.get("at")?,
        ended_at: row.get("ended_at")?,
        text: row.get("text")?,
        offset: number("start")?,
        next_offset: number("next_offset")?,
    })
}
