//! Handles for those who read a log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::held::{Held, Place, Shared};
use super::status::Status;
use super::{Chunk, LogError, LogState, MAX_READ, MAX_RECORDS, Record, blocking, segment};

/// A cheap handle to a log: of a command that runs, or of one that ended.
///
/// A viewer needs nothing but an offset and this: [`watch`](Self::watch) wakes it, [`read`](Self::read) gives it what
/// came. It never makes the writer wait for more than the copy of one read.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) shared: Arc<Shared>,
}

impl Log {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Opens the log of an ended command, read only. A log that was not finished, because the server died, is closed
    /// and not complete; it ends with the last byte that was announced (or, not yet announced, written).
    ///
    /// Not for a log that still has a writer: use the writer's handle.
    pub async fn open(directory: PathBuf) -> Result<Log, LogError> {
        blocking(move || {
            let segments = match segment::list(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LogError::NotFound),
                result => result?,
            };
            let status = Status::read(&directory)?;
            let written = segments.last().map_or(0, segment::Span::end);
            let mut last_at = status.last_at;
            if !status.finished
                && let Some(last) = segments.last().filter(|last| last.end() > status.end)
            {
                last_at = segment::last_time(&directory, *last).ok().flatten().or(last_at);
            }
            let held = Held::with_segments(segments, written.max(status.end));
            let (end, missing) = (held.end(), held.missing());
            let complete = status.finished && status.complete && missing == 0;
            let state = LogState { end, missing, closed: true, complete, last_at };
            Ok(Log::new(Arc::new(Shared::new(directory, held, state))))
        })
        .await
    }

    /// How far it has got.
    pub fn state(&self) -> LogState {
        *self.shared.state.borrow()
    }

    /// Changes whenever bytes were added, and when the log is closed.
    pub fn watch(&self) -> watch::Receiver<LogState> {
        self.shared.state.subscribe()
    }

    /// The offset at which to begin for the last `bytes` bytes. It may lie in a gap, which the first read then tells.
    pub fn tail(&self, bytes: u64) -> u64 {
        self.state().end.saturating_sub(bytes)
    }

    /// Reads from an offset: at most `max` bytes (and [`MAX_READ`]), fewer wherever that is easier, none only at the
    /// end. From memory if the ring has them, else from the files.
    pub async fn read(&self, from: u64, max: usize) -> Result<Chunk, LogError> {
        let max = max.clamp(1, MAX_READ);
        let mut offset = from;
        loop {
            let place = self.shared.held().find(offset, max);
            let span = match place {
                Place::Memory(bytes) => return Ok(Chunk::new(from, offset, bytes)),
                Place::End => return Ok(Chunk::new(from, offset, Bytes::new())),
                Place::Beyond { end } => return Err(LogError::BeyondEnd { from, end }),
                Place::Missing { until } => {
                    offset = until;
                    continue;
                }
                Place::File(span) => span,
            };
            let length = usize::try_from(span.end() - offset).map_or(max, |rest| rest.min(max));
            let directory = &self.shared.directory;
            if let Some(bytes) = segment::read_cached(directory, span.start, offset - span.start, length) {
                return Ok(Chunk::new(from, offset, bytes.into()));
            }
            let shared = Arc::clone(&self.shared);
            let bytes =
                blocking(move || match segment::read(&shared.directory, span.start, offset - span.start, length) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                    result => Ok(result?),
                })
                .await?;
            if !bytes.is_empty() {
                return Ok(Chunk::new(from, offset, bytes.into()));
            }
            // Either the writer removed the segment meanwhile, after it had withdrawn it: then look again. Or somebody
            // else did: then its bytes are missing, whatever we believed.
            if self.shared.held().has(span.start) {
                offset = span.end();
            }
        }
    }

    /// Who wrote what from an offset on, in order: at most `max` records (and [`MAX_RECORDS`]). Bytes that are missing
    /// have none. Empty: nothing more.
    pub async fn records(&self, from: u64, max: usize) -> Result<Vec<Record>, LogError> {
        let max = max.clamp(1, MAX_RECORDS);
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let segments = shared.held().segments_from(from).to_vec();
            let mut records = Vec::new();
            for span in segments {
                match segment::records(&shared.directory, span, from, max - records.len()) {
                    // Removed by the writer meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => records.extend(result?),
                }
                if records.len() == max {
                    break;
                }
            }
            Ok(records)
        })
        .await
    }

    /// The last line with something in it, made plain, at most `limit` characters; from memory. Empty for a log that
    /// was opened from its files.
    pub fn last_line(&self, limit: usize) -> String {
        self.shared.held().last_line(limit)
    }
}
