//! The output log of one command: its bytes in the order in which they arrived, each with an absolute offset from 0.
//!
//! ```text
//!            LogWriter (the command's driver task, the only writer)
//!                │ 1. files   2. ring   3. announce
//!   files  ─ [ head ]……missing……[ tail, in segments ]      what survives the server
//!   ring   ─                            [ latest bytes ]    what viewers who keep up are served from
//!                │
//!            Log (cheap handles: viewers, the API, the page)
//! ```
//!
//! A byte is in the file before its offset is announced, so whatever a viewer was told survives `kill -9` of the server:
//! the page cache belongs to the kernel, not to us. There is no fsync: output is worth a lot, but not a disk flush for
//! every line, and a machine that loses power loses the sandboxes too.
//!
//! On disk the log holds its first [`LogSettings::head`] and its latest [`LogSettings::tail`] bytes (up to a sixteenth
//! fewer of the latter, so that the bound is strict). What lies between is missing, and readers are told so
//! ([`Chunk::gap`]). The same happens to bytes that come while the disk is full: offsets go on, the bytes count as
//! missing, the ring still serves them for a while, and writing begins again as soon as there is room. The command never
//! waits.
//!
//! | file | holds |
//! | --- | --- |
//! | `status` | 48 bytes, reserved at the beginning and overwritten in place: the end as announced, finished or not |
//! | `<offset>.bytes` | the bytes from that offset on; the file's length is the truth |
//! | `<offset>.index` | who wrote which of them when: 16 bytes each, see the module `segment` |
//!
//! Opening a log never changes its files: what a crash left half done is recognised and left out each time.
//!
//! This module knows nothing of commands, sessions or viewers, and asks for no time.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use glassbox_shared::helper::Channel;

mod copy;
mod held;
mod reader;
mod ring;
mod segment;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use copy::{CopiedFile, copy};
pub use reader::Log;
pub use writer::LogWriter;

/// Most bytes of one [`Log::read`]. They are copied out of the ring while the writer waits for the lock: at this size
/// some tens of microseconds.
pub const MAX_READ: usize = 256 * 1024;

/// Most records of one [`Log::records`].
pub const MAX_RECORDS: usize = 4096;

/// Most characters of [`Log::last_line`] that are kept once the log is finished and its ring given back.
pub const LAST_LINE_LIMIT: usize = 200;

/// How much a log holds, in bytes of output.
///
/// The index comes on top: at most one record of 16 bytes for each 128 bytes of these figures, that is an eighth. Output
/// that changes its channel more often than that is held for fewer bytes instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// The latest bytes in memory, while the command runs.
    pub ring: usize,
    /// The first bytes on disk; below 4 GiB.
    pub head: u64,
    /// The latest bytes on disk; below 64 GiB.
    pub tail: u64,
}

impl Default for LogSettings {
    /// 1 MiB; 32 MiB; 32 MiB.
    fn default() -> Self {
        Self { ring: 1024 * 1024, head: 32 * 1024 * 1024, tail: 32 * 1024 * 1024 }
    }
}

/// How far a log has got.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LogState {
    /// Offset after the last byte, gaps included.
    pub end: u64,
    /// Bytes before `end` that the files do not hold (the ring may still have the latest of them).
    pub missing: u64,
    /// Nothing will be added.
    pub closed: bool,
    /// Closed, and every byte that was written is held.
    pub complete: bool,
    /// When the last byte came, Unix seconds. After a crash of the server up to 100 ms early.
    pub last_at: Option<f64>,
}

/// What a read gives: first what is missing, then bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes that are no longer held: from the offset that was asked for to `offset`.
    pub gap: Option<(u64, u64)>,
    /// Offset of the first byte of `bytes`.
    pub offset: u64,
    /// The bytes. Empty: there is nothing after `offset` (yet).
    pub bytes: Bytes,
}

impl Chunk {
    fn new(from: u64, offset: u64, bytes: Bytes) -> Self {
        Self { gap: (offset > from).then_some((from, offset)), offset, bytes }
    }

    /// Where to read next.
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// A run of bytes of one channel that came within 100 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Of its first byte.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    /// Who wrote.
    pub channel: Channel,
    /// When its first byte came, Unix seconds (to the millisecond).
    pub at: f64,
}

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No room on the disk, or a quota is used up.
    #[error("there is no room left to write output down")]
    Full,
    /// The disk failed in another way.
    #[error("the files of an output log could not be used")]
    Io(#[source] io::Error),
    /// Asked for bytes that were never announced.
    #[error("offset {from} lies beyond the end of the output, {end}")]
    BeyondEnd {
        /// What was asked for.
        from: u64,
        /// Where the log ends.
        end: u64,
    },
    /// There is no log in this directory.
    #[error("there is no output log")]
    NotFound,
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => LogError::Full,
            _ => LogError::Io(error),
        }
    }
}

/// Removes a log with all its files; fine if there is none. Readers that still hold it find a gap.
pub async fn remove(directory: PathBuf) -> Result<(), LogError> {
    blocking(move || match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => Ok(result?),
    })
    .await
}

/// Runs a short piece of disk work beside the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // It panicked, or the runtime is shutting down.
        Err(error) => Err(LogError::Io(io::Error::other(error))),
    }
}
