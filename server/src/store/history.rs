//! Ended sessions as rows: looking them up, and removing them for good.
//!
//! A session whose removal has begun (`purges`) does not exist for anyone any more; what is left of it is taken away step
//! by step, also after a crash in the middle.

use std::collections::BTreeMap;

use glassbox_shared::command::CommandView;
use glassbox_shared::history::{Happening, TimelineEntry};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{EndReason, RestartView, SessionState};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::records::SessionRecord;
use super::{Store, StoreError, commands, files, from_json, parse, sessions, to_json};

/// Characters of a command's text in a time line.
const TIMELINE_TEXT: i64 = 200;
/// Rows that one transaction of a purge removes: some milliseconds, so that nobody else waits long for the file.
const PURGED_AT_ONCE: i64 = 200;
/// What there is of a session beside its own row.
const PURGED: [&str; 6] = ["commands", "file_changes", "tool_calls", "tool_cursors", "tool_readers", "tool_totals"];
/// Rank of a change of files in a time line, among what happened at the same moment.
const FILES: i64 = 5;
/// Attempts to empty the write-ahead log, each waiting as long as for any other lock: others only hold it for moments.
const CHECKPOINTS: usize = 3;

/// Numbers of a session's commands together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub commands: u64,
    /// Bytes that they wrote.
    pub output_bytes: u64,
    /// Ended otherwise than with code 0.
    pub failed: u64,
}

/// An ended session with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedSession {
    /// As it was at its end.
    pub record: SessionRecord,
    /// Of its commands.
    pub totals: Totals,
}

/// Which ended sessions. `None` everywhere: all.
#[derive(Debug, Clone, Default)]
pub struct HistoryFilter {
    /// Part of its name, its id or a command's text; ASCII letters in either case.
    pub text: Option<String>,
    /// Name of who made it.
    pub maker: Option<String>,
    /// Why it ended.
    pub reason: Option<EndReason>,
}

/// When ended sessions are too old: the time before which they ended, by tenant.
#[derive(Debug, Clone, Default)]
pub struct Expiry {
    /// For tenants that are not named.
    pub others: f64,
    /// For the named ones.
    pub named: BTreeMap<String, f64>,
}

/// What came of beginning to remove a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeBegun {
    /// Nobody sees it any more.
    Begun(Totals),
    /// The tenant has no such session.
    NotFound,
    /// It has not ended.
    Lives,
}

const UNPURGED: &str = "id NOT IN (SELECT session_id FROM purges)";

impl Store {
    /// A session of this tenant, ended or not, unless it is being removed.
    pub async fn session_of(&self, tenant: &str, id: &SessionId) -> Result<Option<EndedSession>, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        self.read(move |connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT * FROM sessions WHERE id = ?1 AND tenant = ?2 AND {UNPURGED}"))?;
            let found = statement
                .query_row([id.as_str(), &tenant], |row| Ok(sessions::from_row(row)))
                .optional()?
                .transpose()?;
            let Some(record) = found else { return Ok(None) };
            Ok(Some(EndedSession { totals: totals(connection, &record.id)?, record }))
        })
        .await
    }

    /// The tenant's ended sessions, newest end first, at most `limit`; only those after `before` (end and id) if given.
    /// Beside them whether there are more.
    pub async fn ended_sessions(
        &self,
        tenant: &str,
        filter: &HistoryFilter,
        before: Option<(f64, SessionId)>,
        limit: usize,
    ) -> Result<(Vec<EndedSession>, bool), StoreError> {
        let (tenant, filter) = (tenant.to_owned(), filter.clone());
        let text = filter.text.map(|text| text.to_ascii_lowercase());
        let reason = filter.reason.map(|reason| SessionState::Ended { reason });
        let (at, id) = before.map_or((f64::MAX, String::new()), |(at, id)| (at, id.to_string()));
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT * FROM sessions
                 WHERE tenant = :tenant AND state = 'ended' AND (ended_at, id) < (:at, :id) AND {UNPURGED}
                     AND (:maker IS NULL OR created_by ->> 'name' = :maker)
                     AND (:reason IS NULL OR state_json = :reason)
                     AND (:text IS NULL OR instr(lower(name), :text) OR instr(id, :text) OR EXISTS (
                         SELECT 1 FROM commands WHERE session_id = sessions.id AND instr(lower(command), :text)))
                 ORDER BY ended_at DESC, id DESC LIMIT :limit",
            ))?;
            let rows = statement.query_and_then(
                named_params! {
                    ":tenant": tenant,
                    ":at": at,
                    ":id": id,
                    ":maker": filter.maker,
                    ":reason": reason.as_ref().map(to_json).transpose()?,
                    ":text": text,
                    // One more than asked for tells whether there is a next page.
                    ":limit": limit as i64 + 1,
                },
                sessions::from_row,
            )?;
            let mut records = rows.collect::<Result<Vec<_>, _>>()?;
            let more = records.len() > limit;
            records.truncate(limit);
            let with_totals =
                |record: SessionRecord| Ok(EndedSession { totals: totals(connection, &record.id)?, record });
            Ok((records.into_iter().map(with_totals).collect::<Result<Vec<_>, StoreError>>()?, more))
        })
        .await
    }

    /// What happened in a session, oldest first, at most `limit` entries; only those after the place `after` if given.
    /// Beside them the place of the last one, if there are more.
    pub async fn timeline(
        &self,
        session: &SessionId,
        after: Option<(f64, i64, i64)>,
        limit: usize,
    ) -> Result<(Vec<TimelineEntry>, Option<(f64, i64, i64)>), StoreError> {
        let session = session.clone();
        let (at, rank, number) = after.unwrap_or((f64::MIN, 0, 0));
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM (
                     SELECT created_at AS at, 0 AS rank, 0 AS number, NULL AS id, NULL AS text, created_by AS json, NULL AS more,
                             NULL AS bytes, NULL AS entries
                         FROM sessions WHERE id = :id
                     UNION ALL SELECT created_at, 1, number, id, substr(command, 1, :characters), actor, NULL, NULL, NULL
                         FROM commands WHERE session_id = :id
                     UNION ALL SELECT ended_at, 2, number, id, NULL, state_json, kill, NULL, NULL
                         FROM commands WHERE session_id = :id AND ended_at IS NOT NULL
                     UNION ALL SELECT value ->> 'at', 3, key, NULL, NULL, value, NULL, NULL, NULL
                         FROM sessions, json_each(restarts) WHERE sessions.id = :id
                     UNION ALL SELECT control_since, 4, 0, NULL, NULL, control_holder, NULL, NULL, NULL
                         FROM sessions WHERE id = :id AND control_since > created_at
                     UNION ALL SELECT at, 5, number, path, to_path, actor, act, bytes, entries
                         FROM file_changes WHERE session_id = :id
                     UNION ALL SELECT ended_at, 6, 0, NULL, NULL, state_json, ended_by, NULL, NULL
                         FROM sessions WHERE id = :id AND ended_at IS NOT NULL)
                 WHERE (at, rank, number) > (:at, :rank, :number) ORDER BY at, rank, number LIMIT :limit",
            )?;
            let rows = statement.query_and_then(
                named_params! {
                    ":id": session.as_str(),
                    ":characters": TIMELINE_TEXT,
                    ":at": at,
                    ":rank": rank,
                    ":number": number,
                    ":limit": limit as i64 + 1,
                },
                |row| {
                    let place = (row.get("at")?, row.get("rank")?, row.get("number")?);
                    Ok::<_, StoreError>((place, happening(row)?))
                },
            )?;
            let mut found: Vec<((f64, i64, i64), Happening)> = rows.collect::<Result<_, _>>()?;
            let more = found.len() > limit;
            found.truncate(limit);
            let next = if more { found.last().map(|(place, _)| *place) } else { None };
            let entries = found.into_iter().map(|((at, ..), what)| TimelineEntry { at, what }).collect();
            Ok((entries, next))
        })
        .await
    }

    // ---- removing -------------------------------------------------------------------------------------------------

    /// Makes an ended session invisible, as the first step of removing it.
    pub async fn begin_purge(&self, tenant: &str, id: &SessionId, at: f64) -> Result<PurgeBegun, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        self.write(move |connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT state FROM sessions WHERE id = ?1 AND tenant = ?2 AND {UNPURGED}"))?;
            let state: Option<String> = statement.query_row([id.as_str(), &tenant], |row| row.get(0)).optional()?;
            match state.as_deref() {
                None => return Ok(PurgeBegun::NotFound),
                Some("ended") => {}
                Some(_) => return Ok(PurgeBegun::Lives),
            }
            let totals = totals(connection, &id)?;
            connection
                .prepare_cached("INSERT INTO purges (session_id, begun_at) VALUES (?1, ?2)")?
                .execute(params![id.as_str(), at])?;
            Ok(PurgeBegun::Begun(totals))
        })
        .await
    }

    /// Makes sessions that are too old invisible, at most so many, the oldest first.
    pub async fn begin_expired(&self, expiry: &Expiry, at: f64, most: usize) -> Result<usize, StoreError> {
        let expiry = expiry.clone();
        self.write(move |connection| {
            let named = to_json(&expiry.named)?;
            let mut statement = connection.prepare_cached(&format!(
                "INSERT INTO purges (session_id, begun_at)
                 SELECT sessions.id, :at FROM sessions LEFT JOIN json_each(:named) AS named ON named.key = tenant
                 WHERE state = 'ended' AND ended_at <= coalesce(named.value, :others) AND sessions.{UNPURGED}
                 ORDER BY ended_at LIMIT :most",
            ))?;
            Ok(statement
                .execute(named_params! {":at": at, ":named": named, ":others": expiry.others, ":most": most as i64})?)
        })
        .await
    }

    /// Sessions whose removal has begun.
    pub async fn purging(&self) -> Result<Vec<SessionId>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT session_id FROM purges ORDER BY begun_at")?;
            statement.query_and_then([], |row| parse(&row.get::<_, String>(0)?))?.collect()
        })
        .await
    }

    /// Removes the rows of a session whose removal has begun.
    pub async fn purge_rows(&self, id: &SessionId) -> Result<(), StoreError> {
        loop {
            let id = id.clone();
            let removed = self
                .write(move |connection| {
                    let mut removed = 0;
                    for table in PURGED {
                        let mut statement = connection.prepare_cached(&format!(
                            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE session_id = ?1
                                 AND session_id IN (SELECT session_id FROM purges) LIMIT ?2)",
                        ))?;
                        removed += statement.execute(params![id.as_str(), PURGED_AT_ONCE])?;
                    }
                    if removed == 0 {
                        connection
                            .prepare_cached(
                                "DELETE FROM sessions WHERE id = ?1 AND id IN (SELECT session_id FROM purges)",
                            )?
                            .execute([id.as_str()])?;
                    }
                    Ok(removed)
                })
                .await?;
            if removed == 0 {
                return Ok(());
            }
        }
    }

    /// Forgets that a session was ever removed: rows and files are verified gone, so is what the write-ahead log held.
    pub async fn end_purge(&self, id: &SessionId) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |connection| {
            let mut left = connection.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id.as_str()])?;
            for table in PURGED {
                let any = format!("SELECT 1 FROM {table} WHERE session_id = ?1");
                left |= connection.prepare_cached(&any)?.exists([id.as_str()])?;
            }
            if left {
                return Err(StoreError::Corrupt(format!("{id} still has rows after its removal")));
            }
            connection.prepare_cached("DELETE FROM purges WHERE session_id = ?1")?.execute([id.as_str()])?;
            Ok(())
        })
        .await
    }

    /// Moves everything from the write-ahead log into the database and empties the log, which may still hold what was
    /// deleted.
    pub async fn empty_write_ahead_log(&self) -> Result<(), StoreError> {
        for _ in 0..CHECKPOINTS {
            let busy: i64 = self
                .alone(|connection| {
                    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
                    Ok(statement.query_row([], |row| row.get(0))?)
                })
                .await?;
            if busy == 0 {
                return Ok(());
            }
        }
        Err(StoreError::Busy)
    }

    /// Those of these sessions that are not in the store.
    pub async fn unknown_sessions(&self, ids: Vec<SessionId>) -> Result<Vec<SessionId>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?;
            let mut unknown = Vec::new();
            for id in &ids {
                if !statement.exists([id.as_str()])? {
                    unknown.push(id.clone());
                }
            }
            Ok(unknown)
        })
        .await
    }

    // ---- what a search can find -----------------------------------------------------------------------------------

    /// Is the session there, and nobody removes it?
    pub async fn stays(&self, id: &SessionId) -> Result<bool, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let mut statement =
                connection.prepare_cached(&format!("SELECT 1 FROM sessions WHERE id = ?1 AND {UNPURGED}"))?;
            Ok(statement.exists([id.as_str()])?)
        })
        .await
    }

    /// Commands whose output is closed and cannot be searched yet, at most so many.
    pub async fn unindexed_commands(&self, most: usize) -> Result<Vec<CommandView>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM commands WHERE indexed = 0 AND output_closed = 1
                     AND session_id NOT IN (SELECT session_id FROM purges)
                 ORDER BY session_id, number LIMIT ?1",
            )?;
            statement.query_and_then([most as i64], commands::from_row)?.collect()
        })
        .await
    }

    /// Now it can be searched, all of it or only in part.
    pub async fn command_indexed(&self, id: &CommandId, partly: bool) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |connection| {
            connection
                .prepare_cached("UPDATE commands SET indexed = ?2 WHERE id = ?1")?
                .execute(params![id.as_str(), if partly { 2 } else { 1 }])?;
            Ok(())
        })
        .await
    }

    /// Sessions of which something can be searched.
    pub async fn indexed_sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT DISTINCT session_id FROM commands WHERE indexed <> 0")?;
            statement.query_and_then([], |row| parse(&row.get::<_, String>(0)?))?.collect()
        })
        .await
    }

    /// The session's words are lost and have to be collected anew.
    pub async fn session_unindexed(&self, id: &SessionId) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |connection| {
            connection
                .prepare_cached("UPDATE commands SET indexed = 0 WHERE session_id = ?1")?
                .execute([id.as_str()])?;
            Ok(())
        })
        .await
    }

    /// The tenant's sessions, live and ended, newest first, from this one on: when it was made, id, name, has it ended?
    pub async fn sessions_to_search(
        &self,
        tenant: &str,
        from: Option<(f64, SessionId)>,
        most: usize,
    ) -> Result<Vec<(f64, SessionId, String, bool)>, StoreError> {
        let tenant = tenant.to_owned();
        let (at, id) = from.map_or((f64::MAX, String::new()), |(at, id)| (at, id.to_string()));
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT created_at, id, name, state = 'ended' FROM sessions
                 WHERE tenant = ?1 AND (created_at, id) <= (?2, ?3) AND {UNPURGED}
                 ORDER BY created_at DESC, id DESC LIMIT ?4",
            ))?;
            statement
                .query_and_then(params![tenant, at, id, most as i64], |row| {
                    Ok((row.get(0)?, parse(&row.get::<_, String>(1)?)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .await
    }
}

fn totals(connection: &Connection, session: &SessionId) -> Result<Totals, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), coalesce(sum(output_bytes), 0),
             coalesce(sum(ended_at IS NOT NULL AND NOT (state = 'exited' AND state_json ->> 'code' = 0)), 0)
         FROM commands WHERE session_id = ?1",
    )?;
    let number = |row: &Row<'_>, column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
    Ok(statement.query_row([session.as_str()], |row| {
        Ok(Totals { commands: number(row, 0)?, output_bytes: number(row, 1)?, failed: number(row, 2)? })
    })?)
}

fn happening(row: &Row<'_>) -> Result<Happening, StoreError> {
    if row.get::<_, i64>("rank")? == FILES {
        return files::happening(row);
    }
    let json: String = row.get("json")?;
    let more: Option<String> = row.get("more")?;
    let command = || parse::<CommandId>(&row.get::<_, String>("id")?);
    let number = || Ok::<u64, StoreError>(row.get::<_, i64>("number")?.cast_unsigned());
    Ok(match row.get::<_, i64>("rank")? {
        0 => Happening::Created { by: from_json(&json)? },
        1 => Happening::CommandStarted {
            command_id: command()?,
            number: number()?,
            command: row.get("text")?,
            by: from_json(&json)?,
        },
        2 => Happening::CommandEnded {
            command_id: command()?,
            number: number()?,
            end: from_json(&json)?,
            kill: more.as_deref().map(from_json).transpose()?,
        },
        3 => {
            let RestartView { cause, kept, lost, .. } = from_json(&json)?;
            Happening::Restarted { cause, kept, lost }
        }
        4 => Happening::Control { holder: from_json(&json)? },
        _ => match from_json(&json)? {
            SessionState::Ended { reason } => {
                Happening::Ended { reason, by: more.as_deref().map(from_json).transpose()? }
            }
            state => return Err(StoreError::Corrupt(format!("an end with the state {state:?}"))),
        },
    })
}
