//! What the helper says: frames to stdout, never waiting for the reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use glassbox_shared::helper::FromHelper;

use crate::sys::{self, Watch};

/// With this many bytes unsent, the command's pipes are not read any more, so that the command waits for the reader as
/// it would on any pipe. Frames that are not output are few and small and always taken.
const FULL: usize = 1024 * 1024;

/// Frames on their way to the server.
#[derive(Debug)]
pub struct Outgoing {
    stdout: File,
    tag: u64,
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first frame that are written already.
    written: usize,
    /// Bytes of all frames that are not written yet.
    unsent: usize,
}

impl Outgoing {
    /// To a non-blocking stdout, every frame with this tag.
    pub fn new(stdout: File, tag: u64) -> Self {
        Self { stdout, tag, frames: VecDeque::new(), written: 0, unsent: 0 }
    }

    /// To wait until something can be written, if there is something, or until the reader is gone.
    pub fn watch(&self) -> Watch {
        Watch::write(self.stdout.as_fd(), !self.is_empty())
    }

    /// Is there room for output?
    pub fn has_room(&self) -> bool {
        self.unsent < FULL
    }

    /// Is everything written?
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds a frame.
    pub fn push(&mut self, message: &FromHelper) {
        let frame = message.encode(self.tag);
        self.unsent += frame.len();
        self.frames.push_back(frame);
    }

    /// Writes as much as goes without waiting. An error means that the reader is gone.
    pub fn write(&mut self) -> io::Result<()> {
        while let Some(frame) = self.frames.front() {
            match self.stdout.write(&frame[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.unsent -= count;
                    if self.written == frame.len() {
                        self.frames.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes everything, waiting until the deadline.
    pub fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            self.write()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_empty() || left.is_zero() {
                return Ok(());
            }
            sys::poll(&mut [self.watch()], Some(left))?;
        }
    }
}
