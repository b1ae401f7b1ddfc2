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
    /// It was full, and is not half empty yet.
    is_full: bool,
    /// stdout took less than there was: nothing is tried before it is ready again.
    is_blocked: bool,
}

impl Outgoing {
    /// To a non-blocking stdout, every frame with this tag.
    pub fn new(stdout: File, tag: u64) -> Self {
        Self { stdout, tag, bytes: Vec::new(), start: 0, end: 0, is_full: false, is_blocked: false }
    }

    /// To wait until something can be written, if there is something, or until the reader is gone.
    pub fn watch(&self) -> Watch {
        Watch::write(self.stdout.as_fd(), !self.is_empty())
    }

    /// Is there room for output? Once it was full, only when it is half empty: much at a time takes fewer turns.
    pub fn has_room(&self) -> bool {
        !self.is_full
    }

    /// stdout is ready for more, or its reader is gone.
    pub fn unblock(&mut self) {
        self.is_blocked = false;
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
            self.is_full |= self.end - self.start >= FULL;
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
        while !self.is_empty() && !self.is_blocked {
            let unsent = self.end - self.start;
            match self.stdout.write(&self.bytes[self.start..self.end]) {
                Ok(count) => {
                    self.start += count;
                    // A pipe that does not take all is full.
                    self.is_blocked = count < unsent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_blocked = true,
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        self.is_full &= self.end - self.start > FULL / 2;
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
            self.unblock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use glassbox_shared::helper::FrameBuffer;

    use super::*;

    #[test]
    fn what_is_pushed_comes_out_in_order_from_a_buffer_that_stays_small() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        sys::set_nonblocking(writer.as_fd()).expect("a pipe can be set so");
        let mut outgoing = Outgoing::new(File::from(OwnedFd::from(writer)), 7);
        let (mut frames, mut chunk) = (FrameBuffer::default(), vec![0; 10_000]);
        let (mut written, mut seen) = (0_u64, 0_u64);
        while seen < 5_000_000 {
            while outgoing.has_room() {
                let fill = |space: &mut [u8]| {
                    let length = space.len().min(1 + (written % 70_000) as usize);
                    space[..length].fill_with(|| {
                        written += 1;
                        written as u8
                    });
                    Ok(length)
                };
                outgoing.push_output(Channel::Merged, fill).expect("it was read");
            }
            outgoing.unblock();
            outgoing.write().expect("there is a reader");
            let length = reader.read(&mut chunk).expect("something was written");
            frames.push(&chunk[..length]);
            while let Some((kind, body)) = frames.next_frame().expect("a frame") {
                let FromHelper::Output { bytes, .. } = FromHelper::decode(7, kind, body).expect("of ours") else {
                    panic!("only output was pushed");
                };
                for byte in bytes {
                    seen += 1;
                    assert_eq!(byte, seen as u8, "at {seen}");
                }
            }
            assert!(outgoing.bytes.len() <= 3 * FULL, "{}", outgoing.bytes.len());
        }
    }
}
