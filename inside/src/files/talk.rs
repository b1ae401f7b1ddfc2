//! One operation's side of the conversation: what it says, what it is told, and how much may be on its way.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{FromFiles, Progress, WINDOW};
use glassbox_shared::files::path::MAX_PATH;

use super::error::{Error, Result};

/// The server takes or sends content, or cancels, sooner than this.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Between two words on how far something is.
const PROGRESS: Duration = Duration::from_millis(250);

/// stdout, shared by all operations: a frame is written whole.
#[derive(Debug)]
pub struct Output {
    stdout: Mutex<File>,
    tag: u64,
}

impl Output {
    pub fn new(stdout: File, tag: u64) -> Self {
        Self { stdout: Mutex::new(stdout), tag }
    }

    pub fn say(&self, operation: u32, what: &FromFiles) {
        let frame = what.encode(self.tag, operation);
        // Without its reader this process has nothing to do; the end of stdin, which comes with it, ends it.
        let _ = self.stdout.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame);
    }
}

/// What an operation was told and has not read yet.
#[derive(Debug)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    content: VecDeque<Vec<u8>>,
    ended: bool,
    cancelled: bool,
    /// Frames of content that may be sent.
    room: u32,
}

impl Inbox {
    pub fn new() -> Self {
        let state = State { content: VecDeque::new(), ended: false, cancelled: false, room: WINDOW };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Content came. `false`: more than was agreed.
    pub fn content(&self, bytes: Vec<u8>) -> bool {
        let mut fits = true;
        self.change(|state| {
            fits = state.content.len() < WINDOW as usize;
            if fits {
                state.content.push_back(bytes);
            }
        });
        fits
    }

    pub fn end(&self) {
        self.change(|state| state.ended = true);
    }

    pub fn taken(&self, frames: u32) {
        self.change(|state| state.room = state.room.saturating_add(frames).min(WINDOW));
    }

    pub fn cancel(&self) {
        self.change(|state| state.cancelled = true);
    }

    /// Waits until `ready` gives something.
    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T> {
        let until = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            if state.cancelled {
                return Err(Error::cancelled());
            }
            if let Some(it) = ready(&mut state) {
                return Ok(it);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(ErrorCode::FilesUnavailable, "nothing came for too long"));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What an operation speaks through.
#[derive(Debug)]
pub struct Talk {
    number: u32,
    output: Arc<Output>,
    inbox: Arc<Inbox>,
    told_progress: Instant,
}

impl Talk {
    pub fn new(number: u32, output: Arc<Output>, inbox: Arc<Inbox>) -> Self {
        Self { number, output, inbox, told_progress: Instant::now() }
    }

    /// One that cannot be cancelled and has nobody to tell, for clearing up.
    pub fn deaf(&self) -> Self {
        let until_never = Instant::now() + PATIENCE;
        Self {
            number: self.number,
            output: Arc::clone(&self.output),
            inbox: Arc::new(Inbox::new()),
            told_progress: until_never,
        }
    }

    pub fn say(&self, what: &FromFiles) {
        self.output.say(self.number, what);
    }

    /// Sends content, at most [`glassbox_shared::files::frames::MAX_DATA`] bytes, when there is room for it.
    pub fn send(&self, bytes: Vec<u8>) -> Result<()> {
        self.inbox.wait(|state| (state.room > 0).then(|| state.room -= 1))?;
        self.say(&FromFiles::Data(bytes));
        Ok(())
    }

    /// The next content; `None` at its end.
    pub fn receive(&self) -> Result<Option<Vec<u8>>> {
        let bytes = self.inbox.wait(|state| match state.content.pop_front() {
            Some(bytes) => Some(Some(bytes)),
            None => state.ended.then_some(None),
        })?;
        if bytes.is_some() {
            self.say(&FromFiles::Taken(1));
        }
        Ok(bytes)
    }

    /// Is it still wanted?
    pub fn check(&self) -> Result<()> {
        if self.inbox.lock().cancelled { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Tells now and then how far it is, and learns whether it is still wanted.
    pub fn progress(&mut self, done: u64, bytes: u64, path: impl FnOnce() -> String) -> Result<()> {
        self.check()?;
        if self.told_progress.elapsed() >= PROGRESS {
            self.told_progress = Instant::now();
            self.tell(done, bytes, &path());
        }
        Ok(())
    }

    /// Tells how far it is, wanted or not.
    pub fn tell(&self, done: u64, bytes: u64, path: &str) {
        // Trees may be deeper than the longest path that can be asked for; it is only shown.
        let path = path.chars().take(3 * MAX_PATH).collect();
        self.say(&FromFiles::Progress(Progress { done, bytes, path }));
    }
}
