//! The database of a backup: copied beside the server that uses it, and made ready to be served after a restore. Each
//! function opens the file by itself and blocks.

use std::path::Path;
use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::session::{EndReason, SessionState};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::{BUSY_TIMEOUT, StoreError, migrate, prepare, to_json};

/// How long another process may keep the copy from beginning. Its transactions are short.
const COPY_PATIENCE: Duration = Duration::from_secs(30);
const COPY_RETRY: Duration = Duration::from_millis(50);

/// The directory of one command's output log: its session's id, and its own.
pub type LogOf = (String, String);

/// Copies a database as it is at one moment, while others read and write it.
pub fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    // Not `Store::open`: a newer program must not change the schema under an older server that is running.
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    source.busy_timeout(BUSY_TIMEOUT)?;
    let mut target = Connection::open(to)?;
    {
        let copy = Backup::new(&source, &mut target)?;
        let deadline = Instant::now() + COPY_PATIENCE;
        // All pages in one step are one transaction: nothing that is written meanwhile can be half in the copy, and in
        // WAL mode a reader holds no writer up.
        loop {
            match copy.step(-1)? {
                StepResult::Done => break,
                _ if Instant::now() < deadline => std::thread::sleep(COPY_RETRY),
                _ => return Err(StoreError::Busy),
            }
        }
    }
    target.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// The commands in a copy, whose output logs belong to it; those of sessions that are being purged do not.
pub fn logs(copy: &Path) -> Result<Vec<LogOf>, StoreError> {
    let connection = Connection::open(copy)?;
    let is_there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'purges'";
    let has_purges = connection.query_row(is_there, [], |row| row.get::<_, i64>(0))? > 0;
    let but_not = if has_purges { "WHERE session_id NOT IN (SELECT session_id FROM purges)" } else { "" };
    let mut statement =
        connection.prepare(&format!("SELECT session_id, id FROM commands {but_not} ORDER BY session_id, number"))?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What becomes of a restored database's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The copy lives beside the original, whose sandboxes are not its own: every session is over, and its workspace is
    /// lost to it.
    Copy,
    /// It takes the original's place: sessions go on where their workspaces are still there.
    Original,
}

/// Makes a restored database ready to be served, bringing its schema up to date. Tells how many sessions were ended.
pub fn settle(file: &Path, restored: Restored, now: f64) -> Result<usize, StoreError> {
    let mut connection = Connection::open(file)?;
    prepare(&connection)?;
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Err(StoreError::Corrupt(format!("the database is damaged: {sound}")));
    }
    migrate(&mut connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // What a search finds is not in a backup; it is collected anew.
    transaction.execute("UPDATE commands SET indexed = 0", [])?;
    let mut ended = 0;
    if restored == Restored::Copy {
        let lost = to_json(&SessionState::Ended { reason: EndReason::Lost })?;
        ended = transaction.execute(
            "UPDATE sessions SET state_json = ?1, ended_at = ?2, container = NULL WHERE state <> 'ended'",
            params![lost, now],
        )?;
        // What their logs hold is looked up by the next start, as after every restart.
        let interrupted = to_json(&CommandState::Interrupted(Interruption::ServerRestarted))?;
        transaction.execute(
            "UPDATE commands SET state_json = ?1, ended_at = ?2 WHERE state IN ('starting', 'running')",
            params![interrupted, now],
        )?;
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(ended)
}
