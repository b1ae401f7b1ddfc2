//! What the helper says: frames to stdout, never waiting for the reader.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use glassbox_shared::helper::{Channel, FromHelper, MAX_OUTPUT, OUTPUT_HEADER, output_header};

use crate::sys::{self, Watch};

/// With this many bytes unsent, the command's pipes are not read any more, so that the command waits for the reader as
/// it would on any pipe. What is held stays in the processor's cache. Frames that are not output are few and small and always taken.
const FULL: usize = 256 * 1024;

/// Frames on their way to the server.
///
/// They stand one after the other in one buffer, which is used again and again: output is read from the command's pipe to
/// where it is sent from, and what came in many pieces leaves in one. Memory that is new costs gVisor more than all the
/// copying.
#[derive(Debug)]
pub struct Outgoing {
    stdout: File,
    tag: u64,
    bytes: Vec<u8>,
    /// What is unsent lies from here, …
    start: usize,
    /// … to before here. The rest of the buffer is free.
    end: usize,
}

impl Outgoing {
    /// To a non-blocking stdout, every frame with this tag.
    pub fn new(stdout: File, tag: u64) -> Self {
        Self { stdout, tag, bytes: Vec::new(), start: 0, end: 0 }
    }

    /// To wait until something can be written, if there is something, or until the reader is gone.
    pub fn watch(&self) -> Watch {
        Watch::write(self.stdout.as_fd(), !self.is_empty())
    }

    /// Is there room for output?
    pub fn has_room(&self) -> bool {
        self.end - self.start < FULL
    }

    /// Is everything written?
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Adds a frame.
    pub fn push(&mut self, message: &FromHelper) {
        let frame = message.encode(self.tag);
        self.free(frame.len())[..frame.len()].copy_from_slice(&frame);
        self.end += frame.len();
    }

    /// Adds a frame of what `read` puts into the space that it is given, if that is anything; says how much it was.
    pub fn push_output(
        &mut self,
        channel: Channel,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let tag = self.tag;
        let (header, space) = self.free(OUTPUT_HEADER + MAX_OUTPUT).split_at_mut(OUTPUT_HEADER);
        let length = read(&mut space[..MAX_OUTPUT])?;
        if length > 0 {
            header.copy_from_slice(&output_header(tag, channel, length));
            self.end += OUTPUT_HEADER + length;
        }
        Ok(length)
    }

    /// At least so many free bytes, after what is unsent. What is unsent is moved only when that frees more than it moves,
    /// so that a byte is moved once at most; the buffer is thus at most twice as large as what it holds.
    fn free(&mut self, length: usize) -> &mut [u8] {
        let unsent = self.end - self.start;
        if self.bytes.len() - self.end < length {
            if self.start > unsent {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, unsent);
            }
            self.bytes.resize(self.bytes.len().max(self.end + length), 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Writes as much as goes without waiting. An error means that the reader is gone.
    pub fn write(&mut self) -> io::Result<()> {
        while !self.is_empty() {
            let unsent = self.end - self.start;
            match self.stdout.write(&self.bytes[self.start..self.end]) {
                Ok(count) => {
                    self.start += count;
                    if count < unsent {
                        // A pipe that does not take all is full.
                        return Ok(());
                    }
                    (self.start, self.end) = (0, 0);
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
