//! Commands as rows. Their output is not here: it is in their logs.

use glassbox_shared::command::CommandView;
use glassbox_shared::id::{CommandId, SessionId};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::{Store, StoreError, from_json, parse, to_json};

impl Store {
    /// Writes a new command down. Its environment is not kept: it may hold secrets.
    pub async fn insert_command(&self, tenant: &str, command: &CommandView) -> Result<(), StoreError> {
        let (tenant, command) = (tenant.to_owned(), command.clone());
        self.write(move |connection| insert(connection, &tenant, &command)).await
    }

    /// Writes down what may change of a command. Fails when there is none, or when it has ended otherwise before: a
    /// command reaches one final state, once.
    pub async fn update_command(&self, command: &CommandView) -> Result<(), StoreError> {
        let command = command.clone();
        self.write(move |connection| update(connection, &command)).await
    }

    /// A command of this session.
    pub async fn command(&self, session: &SessionId, id: &CommandId) -> Result<Option<CommandView>, StoreError> {
        let (session, id) = (session.clone(), id.clone());
        self.read(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT * FROM commands WHERE id = ?1 AND session_id = ?2")?;
            let found = statement.query_row([id.as_str(), session.as_str()], |row| Ok(from_row(row))).optional()?;
            found.transpose()
        })
        .await
    }

    /// The session's commands, newest first, at most `limit`; only those with a number below `before` if given. Beside
    /// them what to give as `before` for the next page, unless that was all.
    pub async fn commands(
        &self,
        session: &SessionId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<CommandView>, Option<u64>), StoreError> {
        let session = session.clone();
        // Numbers are far below this; an absurd one means "from the newest".
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        let limit = limit.min(i64::MAX as usize - 1);
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM commands WHERE session_id = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
            )?;
            // One more than asked for tells whether there is a next page.
            let rows = statement.query_and_then(params![session.as_str(), before, limit as i64 + 1], from_row)?;
            let mut commands = rows.collect::<Result<Vec<_>, _>>()?;
            let more = commands.len() > limit;
            commands.truncate(limit);
            let next = if more { commands.last().map(|last| last.number) } else { None };
            Ok((commands, next))
        })
        .await
    }

    /// The commands of all sessions that have not ended or whose output is still open, oldest first: for the start.
    pub async fn unfinished_commands(&self) -> Result<Vec<CommandView>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM commands WHERE state IN ('starting', 'running') OR output_closed = 0
                 ORDER BY created_at, number",
            )?;
            statement.query_and_then([], from_row)?.collect()
        })
        .await
    }
}

fn insert(connection: &Connection, tenant: &str, command: &CommandView) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO commands (id, session_id, tenant, number, command, cwd, split, actor, state_json, created_at,
             started_at, ended_at, pid, limit_seconds, output_bytes, output_missing_bytes, last_output_at,
             output_closed, output_complete, out_of_memory, kill)
         VALUES (:id, :session_id, :tenant, :number, :command, :cwd, :split, :actor, :state_json, :created_at,
             :started_at, :ended_at, :pid, :limit_seconds, :output_bytes, :output_missing_bytes, :last_output_at,
             :output_closed, :output_complete, :out_of_memory, :kill)",
    )?;
    statement.execute(named_params! {
        ":id": command.command_id.as_str(),
        ":session_id": command.session_id.as_str(),
        ":tenant": tenant,
        ":number": command.number.cast_signed(),
        ":command": command.command,
        ":cwd": command.cwd,
        ":split": command.split,
        ":actor": to_json(&command.actor)?,
        ":state_json": to_json(&command.state)?,
        ":created_at": command.created_at,
        ":started_at": command.started_at,
        ":ended_at": command.ended_at,
        ":pid": command.pid,
        ":limit_seconds": command.limit_seconds,
        ":output_bytes": command.output_bytes.cast_signed(),
        ":output_missing_bytes": command.output_missing_bytes.cast_signed(),
        ":last_output_at": command.last_output_at,
        ":output_closed": command.output_closed,
        ":output_complete": command.output_complete,
        ":out_of_memory": command.out_of_memory,
        ":kill": command.kill.as_ref().map(to_json).transpose()?,
    })?;
    Ok(())
}

fn update(connection: &Connection, command: &CommandView) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "UPDATE commands SET state_json = :state_json, started_at = :started_at, ended_at = :ended_at, pid = :pid,
             output_bytes = :output_bytes, output_missing_bytes = :output_missing_bytes,
             last_output_at = :last_output_at, output_closed = :output_closed, output_complete = :output_complete,
             out_of_memory = :out_of_memory, kill = :kill
         WHERE id = :id AND (state IN ('starting', 'running') OR state_json = :state_json)",
    )?;
    let changed = statement.execute(named_params! {
        ":id": command.command_id.as_str(),
        ":state_json": to_json(&command.state)?,
        ":started_at": command.started_at,
        ":ended_at": command.ended_at,
        ":pid": command.pid,
        ":output_bytes": command.output_bytes.cast_signed(),
        ":output_missing_bytes": command.output_missing_bytes.cast_signed(),
        ":last_output_at": command.last_output_at,
        ":output_closed": command.output_closed,
        ":output_complete": command.output_complete,
        ":out_of_memory": command.out_of_memory,
        ":kill": command.kill.as_ref().map(to_json).transpose()?,
    })?;
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!("{} is not in the store, or has ended otherwise before", command.command_id)))
}

pub(super) fn from_row(row: &Row<'_>) -> Result<CommandView, StoreError> {
    Ok(CommandView {
        command_id: parse(&row.get::<_, String>("id")?)?,
        session_id: parse(&row.get::<_, String>("session_id")?)?,
        number: row.get::<_, i64>("number")?.cast_unsigned(),
        command: row.get("command")?,
        cwd: row.get("cwd")?,
        split: row.get("split")?,
        actor: from_json(&row.get::<_, String>("actor")?)?,
        state: from_json(&row.get::<_, String>("state_json")?)?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        pid: row.get("pid")?,
        limit_seconds: row.get("limit_seconds")?,
        output_bytes: row.get::<_, i64>("output_bytes")?.cast_unsigned(),
        output_missing_bytes: row.get::<_, i64>("output_missing_bytes")?.cast_unsigned(),
        last_output_at: row.get("last_output_at")?,
        output_closed: row.get("output_closed")?,
        output_complete: row.get("output_complete")?,
        out_of_memory: row.get("out_of_memory")?,
        kill: row.get::<_, Option<String>>("kill")?.as_deref().map(from_json).transpose()?,
    })
}
