//! Sessions as rows.

use glassbox_shared::id::SessionId;
use glassbox_shared::session::{ControlView, Limits, Profile};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use super::records::SessionRecord;
use super::{Store, StoreError, from_json, parse, to_json};

impl Store {
    /// Writes a new session down.
    pub async fn insert_session(&self, record: &SessionRecord) -> Result<(), StoreError> {
        let record = record.clone();
        self.write(move |connection| insert(connection, &record)).await
    }

    /// Writes down what may change of a session. Fails when there is none, or when it has ended otherwise before.
    pub async fn update_session(&self, record: &SessionRecord) -> Result<(), StoreError> {
        let record = record.clone();
        self.write(move |connection| update(connection, &record)).await
    }

    /// A session, ended or not.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT * FROM sessions WHERE id = ?1")?;
            let found = statement.query_row([id.as_str()], |row| Ok(from_row(row))).optional()?;
            found.transpose()
        })
        .await
    }

    /// The sessions of all tenants that have not ended, oldest first: for the start.
    pub async fn unended_sessions(&self) -> Result<Vec<SessionRecord>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT * FROM sessions WHERE state <> 'ended' ORDER BY created_at, id")?;
            statement.query_and_then([], from_row)?.collect()
        })
        .await
    }
}

fn insert(connection: &Connection, record: &SessionRecord) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, tenant, name, profile, template, memory_bytes, cpus, pids_limit, created_by,
             created_at, last_used_at, state_json, ended_at, ended_by, container, workspace, generation, control_holder,
             control_since, restarts, metadata, commands_total)
         VALUES (:id, :tenant, :name, :profile, :template, :memory_bytes, :cpus, :pids_limit, :created_by,
             :created_at, :last_used_at, :state_json, :ended_at, :ended_by, :container, :workspace, :generation, :control_holder,
             :control_since, :restarts, :metadata, :commands_total)",
    )?;
    statement.execute(named_params! {
        ":id": record.id.as_str(),
        ":tenant": record.tenant,
        ":name": record.name,
        ":profile": record.profile.as_str(),
        ":template": record.template,
        ":memory_bytes": record.limits.memory_bytes.cast_signed(),
        ":cpus": record.limits.cpus,
        ":pids_limit": record.limits.pids_limit,
        ":created_by": to_json(&record.created_by)?,
        ":created_at": record.created_at,
        ":last_used_at": record.last_used_at,
        ":state_json": to_json(&record.state)?,
        ":ended_at": record.ended_at,
        ":ended_by": record.ended_by.as_ref().map(to_json).transpose()?,
        ":container": record.container,
        ":workspace": record.workspace,
        ":generation": record.generation.cast_signed(),
        ":control_holder": to_json(&record.control.holder)?,
        ":control_since": record.control.since,
        ":restarts": to_json(&record.restarts)?,
        ":metadata": to_json(&record.metadata)?,
        ":commands_total": record.commands_total.cast_signed(),
    })?;
    Ok(())
}

fn update(connection: &Connection, record: &SessionRecord) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "UPDATE sessions SET name = :name, last_used_at = :last_used_at, state_json = :state_json,
             ended_at = :ended_at, ended_by = :ended_by, container = :container, generation = :generation,
             control_holder = :control_holder, control_since = :control_since, restarts = :restarts,
             metadata = :metadata, commands_total = :commands_total
         WHERE id = :id AND (state <> 'ended' OR state_json = :state_json)",
    )?;
    let changed = statement.execute(named_params! {
        ":id": record.id.as_str(),
        ":name": record.name,
        ":last_used_at": record.last_used_at,
        ":state_json": to_json(&record.state)?,
        ":ended_at": record.ended_at,
        ":ended_by": record.ended_by.as_ref().map(to_json).transpose()?,
        ":container": record.container,
        ":generation": record.generation.cast_signed(),
        ":control_holder": to_json(&record.control.holder)?,
        ":control_since": record.control.since,
        ":restarts": to_json(&record.restarts)?,
        ":metadata": to_json(&record.metadata)?,
        ":commands_total": record.commands_total.cast_signed(),
    })?;
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!("{} is not in the store, or has ended otherwise before", record.id)))
}

pub(super) fn from_row(row: &Row<'_>) -> Result<SessionRecord, StoreError> {
    let profile: String = row.get("profile")?;
    Ok(SessionRecord {
        id: parse(&row.get::<_, String>("id")?)?,
        tenant: row.get("tenant")?,
        name: row.get("name")?,
        profile: match profile.as_str() {
            "open" => Profile::Open,
            "hardened" => Profile::Hardened,
            _ => return Err(StoreError::Corrupt(format!("unknown profile {profile:?}"))),
        },
        template: row.get("template")?,
        limits: Limits {
            memory_bytes: row.get::<_, i64>("memory_bytes")?.cast_unsigned(),
            cpus: row.get("cpus")?,
            pids_limit: row.get("pids_limit")?,
        },
        created_by: from_json(&row.get::<_, String>("created_by")?)?,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
        state: from_json(&row.get::<_, String>("state_json")?)?,
        ended_at: row.get("ended_at")?,
        ended_by: row.get::<_, Option<String>>("ended_by")?.as_deref().map(from_json).transpose()?,
        container: row.get("container")?,
        workspace: row.get("workspace")?,
        generation: row.get::<_, i64>("generation")?.cast_unsigned(),
        control: ControlView {
            holder: from_json(&row.get::<_, String>("control_holder")?)?,
            since: row.get("control_since")?,
        },
        restarts: from_json(&row.get::<_, String>("restarts")?)?,
        metadata: from_json(&row.get::<_, String>("metadata")?)?,
        commands_total: row.get::<_, i64>("commands_total")?.cast_unsigned(),
    })
}
