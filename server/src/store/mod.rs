//! What must survive the server: sessions, commands, keys, sign-ins, in one embedded `SQLite` file.
//!
//! This folder is the only place that names SQL. It keeps rows and the few rules that only a database can keep (a link
//! is taken once, a state that is final stays, a tenant has so many keys at most); it knows nothing of who may do what.
//!
//! One thread owns the connection and does all reads and writes in the order in which they were asked for. [`Store`] is
//! its handle. Jobs that wait together are done in one transaction; a job is answered only after its transaction was
//! committed, so what was answered survives `kill -9` of the server.
//!
//! The file is in WAL mode with `synchronous = NORMAL`: nothing is lost when the process dies, whichever way. When the
//! machine loses power, the last moments may be missing, never a part of a transaction; containers and running commands
//! would be gone then anyway. Other processes (`glassbox keys`) may use the file at the same time.

mod access;
pub mod backup;
mod commands;
mod files;
mod group;
mod history;
mod records;
pub mod search;
mod sessions;
mod tools;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

pub use self::files::FileChange;
pub use self::history::{EndedSession, Expiry, HistoryFilter, PurgeBegun, Totals};
pub use self::records::{KeyRecord, LinkRecord, Revoked, SecretHash, SessionRecord, SignInRecord};
pub use self::tools::{Cursor, MAX_READERS, RestartsTold, ToolCall, ToolReader, Wanted};

use self::group::{Message, Work};

/// Jobs that may wait for the thread. A job takes well under a millisecond, so this many waiting means that the disk
/// stands still; whoever asks then waits, instead of memory filling up.
const QUEUED_JOBS: usize = 256;

/// How long another process (`glassbox keys`) may hold the file before a job fails with [`StoreError::Busy`]. Its
/// transactions are as short as ours.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The write-ahead log is cut back to this after a burst, so that it does not keep its largest size for ever.
const WAL_KEPT_BYTES: i64 = 16 * 1024 * 1024;

/// Never edit one that was released: add the next.
const MIGRATIONS: &[M<'static>] = &[
    M::up(include_str!("schema/1.sql")),
    M::up(include_str!("schema/2.sql")),
    M::up(include_str!("schema/3.sql")),
    M::up(include_str!("schema/4.sql")),
    M::up(include_str!("schema/5.sql")),
];

/// What can go wrong when something is to be remembered. In every case nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full or refuses to take more (quota). The store goes on by itself once there is room.
    #[error("the disk is full")]
    Full,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another process held the file for too long.
    #[error("the database is in use by another process")]
    Busy,
    /// What `SQLite` says.
    #[error("database: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// The file, or a row in it, is not what we wrote; or a change contradicts what is final.
    #[error("{0}")]
    Corrupt(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
        let Some(sqlite) = error.sqlite_error() else { return Self::Sqlite(error) };
        match (sqlite.code, sqlite.extended_code) {
            // SQLite itself tells ENOSPC apart; a quota (EDQUOT), and no room for the shared index, come as these two.
            (ErrorCode::DiskFull, _) | (_, SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE) => Self::Full,
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Self::Busy,
            (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => {
                Self::Corrupt(format!("the database is damaged: {error}"))
            }
            _ => Self::Sqlite(error),
        }
    }
}

/// Handle to the store; clones share one thread and one connection.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: mpsc::Sender<Message>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Store {
    /// Opens the file, making it and bringing its schema up to date where needed. Blocks: for the start only.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(file)?;
        prepare(&connection)?;
        migrate(&mut connection)?;
        let (jobs, waiting) = mpsc::channel(QUEUED_JOBS);
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || group::serve(connection, waiting))
            .map_err(|error| StoreError::Corrupt(format!("cannot start the store's thread: {error}")))?;
        Ok(Self { jobs, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// Does what was asked for before, then closes the file. All later calls fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.jobs.send(Message::Close(closed)).await.is_ok() {
            let _ = done.await; // an error only says that another close was quicker
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It is past its last job; joining makes sure that the file is closed.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// Has something looked up.
    async fn read<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.ask(false, work).await
    }

    /// Has something changed. It happens also when the caller stops waiting.
    async fn write<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.ask(true, work).await
    }

    /// Has something done outside of any transaction.
    async fn alone<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Message::alone(work, answer)).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn ask<T: Send + 'static>(&self, writes: bool, work: impl Work<T>) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Message::job(writes, work, answer)).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Corrupt(format!(
            "the data directory's file system cannot hold the database (journal mode {mode}); use a local disk"
        )));
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // What is deleted is overwritten: a purge must leave no byte. Deletions are rare, so it costs nothing that counts.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT_BYTES, |_| Ok(()))?;
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    use rusqlite_migration::{Error, MigrationDefinitionError};
    Migrations::from_slice(MIGRATIONS).to_latest(connection).map_err(|error| match error {
        Error::RusqliteError { err, .. } => err.into(),
        Error::MigrationDefinition(MigrationDefinitionError::DatabaseTooFarAhead) => {
            StoreError::Corrupt("the data directory was used by a newer Glassbox; run that version".to_owned())
        }
        other => StoreError::Corrupt(format!("the database cannot be brought up to date: {other}")),
    })
}

fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(format!("cannot be written as JSON: {error}")))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("cannot read {text:?}: {error}")))
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|error| StoreError::Corrupt(format!("cannot read {text:?}: {error}")))
}

#[cfg(test)]
pub(crate) mod tests;
