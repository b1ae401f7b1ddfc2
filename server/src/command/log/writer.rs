//! The one who writes a log.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use glassbox_shared::helper::Channel;

use super::held::{Held, Shared};
use super::status::{Status, StatusFile};
use super::store::Store;
use super::{Log, LogError, LogSettings, LogState};

/// While the disk refuses, it is asked again after this time (seconds of the caller's clock), …
const RETRY_AFTER: f64 = 1.0;
/// … or when so many bytes were lost: enough that a full disk costs a busy command next to nothing.
const RETRY_AFTER_BYTES: u64 = 1024 * 1024;

/// Owns a log; belongs to the command's driver task.
///
/// All its methods are synchronous: a write of at most 64 KiB into the page cache takes some tens of microseconds, less
/// than handing it to another thread. Only a kernel that throttles a writer because the disk itself lags makes it
/// slower, and then holding back the command's pipe is right.
///
/// When it is dropped without [`finish`](Self::finish), because its task was, readers are told that the log is closed
/// and not complete.
#[derive(Debug)]
pub struct LogWriter {
    log: Log,
    store: Store,
    status: StatusFile,
    trouble: Option<Trouble>,
    finished: bool,
}

/// The disk refuses.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: f64,
    asked_at: f64,
    lost_since_asked: u64,
    lost: u64,
    full: bool,
}

impl LogWriter {
    /// Makes the log's directory (`logs/<session>/<command>`) and reserves its status file. Fails if there is a log
    /// already. [`LogError::Full`]: better not start a command whose output nobody could keep.
    pub fn create(directory: &Path, settings: LogSettings) -> Result<(LogWriter, Log), LogError> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let status = StatusFile::create(directory)?;
        let store = Store::new(directory.to_owned(), settings);
        let held = Held::with_ring(settings.ring);
        let log = Log::new(Arc::new(Shared::new(directory.to_owned(), held, LogState::default())));
        Ok((LogWriter { log: log.clone(), store, status, trouble: None, finished: false }, log))
    }

    /// A handle for readers.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Adds bytes that came at `at` (Unix seconds), and announces them once they are in the file.
    ///
    /// An error says that bytes of this call are in no file, because the disk is full or fails. They got their offsets
    /// and count as missing; it was logged; go on with the next bytes, which are written again once there is room.
    pub fn append(&mut self, channel: Channel, bytes: &[u8], at: f64) -> Result<(), LogError> {
        let mut rest = bytes;
        let mut result = Ok(());
        while !rest.is_empty() {
            if self.trouble.is_some_and(|trouble| !trouble.is_time_to_ask(at)) {
                result = Err(self.lose(rest, at, None));
                break;
            }
            let shared = &self.log.shared;
            let offset = shared.held().end();
            let stored = self.store.write(offset, channel, rest, at, |start| shared.held().withdraw(start));
            let (written, unwritten) = rest.split_at(stored.written);
            shared.held().add(written, Some(stored.segment));
            rest = unwritten;
            match stored.result {
                Ok(()) if written.is_empty() => {
                    // So it was wished: the settings leave no room.
                    self.skip(rest, at);
                    break;
                }
                Ok(()) => self.recovered(),
                Err(error) => {
                    result = Err(self.lose(rest, at, Some(error.into())));
                    break;
                }
            }
        }
        if !bytes.is_empty() {
            self.announce(at);
        }
        result
    }

    /// Announces the end. `complete: false`: the caller knows of output that was lost before it came here. The ring's
    /// memory is given back; whoever still reads is served from the files.
    #[must_use = "the state says whether the log is complete"]
    pub fn finish(mut self, complete: bool) -> LogState {
        let LogState { end, last_at, .. } = self.log.state();
        let status = Status { end, last_at, finished: true, complete };
        let kept = self.status.write(&status).inspect_err(|error| {
            tracing::warn!(log = %self.log.shared.directory.display(), %error, "the end of an output log could not be written down");
        });
        self.close(complete && kept.is_ok());
        self.log.state()
    }

    fn close(&mut self, complete: bool) {
        self.finished = true;
        let missing = {
            let mut held = self.log.shared.held();
            held.drop_ring();
            held.missing()
        };
        self.log.shared.state.send_modify(|state| {
            state.closed = true;
            state.complete = complete && missing == 0;
        });
    }

    fn announce(&self, at: f64) {
        let (end, missing) = {
            let held = self.log.shared.held();
            (held.end(), held.missing())
        };
        self.log.shared.state.send_modify(|state| {
            (state.end, state.missing, state.last_at) = (end, missing, Some(at));
        });
    }

    /// These bytes go to no file; that they were is noted, because nothing else on disk would say so after a crash.
    fn skip(&self, bytes: &[u8], at: f64) {
        let end = {
            let mut held = self.log.shared.held();
            held.add(bytes, None);
            held.end()
        };
        let status = Status { end, last_at: Some(at), ..Status::default() };
        if let Err(error) = self.status.write(&status) {
            tracing::debug!(log = %self.log.shared.directory.display(), %error, "missing output could not be noted");
        }
    }

    /// The disk refused these bytes: now (`error`), or a moment ago.
    fn lose(&mut self, bytes: &[u8], at: f64, error: Option<LogError>) -> LogError {
        self.skip(bytes, at);
        let full = error.as_ref().map(|error| matches!(error, LogError::Full));
        if let (None, Some(error)) = (self.trouble, &error) {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(log = %self.log.shared.directory.display(), %error, cause, "output cannot be written; it counts as missing until that works again");
        }
        let mut trouble =
            self.trouble.unwrap_or(Trouble { since: at, asked_at: at, lost_since_asked: 0, lost: 0, full: true });
        if let Some(full) = full {
            trouble = Trouble { asked_at: at, lost_since_asked: 0, full, ..trouble };
        }
        trouble.lost += bytes.len() as u64;
        trouble.lost_since_asked += bytes.len() as u64;
        self.trouble = Some(trouble);
        match error {
            Some(error) => error,
            None if trouble.full => LogError::Full,
            None => LogError::Io(std::io::Error::other("writing failed a moment ago")),
        }
    }

    fn recovered(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            tracing::info!(log = %self.log.shared.directory.display(), missing = trouble.lost, since = trouble.since, "output can be written again");
        }
    }
}

impl Trouble {
    fn is_time_to_ask(&self, at: f64) -> bool {
        // A clock that was set back also counts.
        self.lost_since_asked >= RETRY_AFTER_BYTES || !(0.0..RETRY_AFTER).contains(&(at - self.asked_at))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.close(false);
        }
    }
}
