//! What the server says: frames from stdin.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use glassbox_shared::helper::{FrameBuffer, Start, ToHelper};

use crate::sys::{self, Watch};

/// Read at once; frames other than the first are tiny.
const CHUNK: usize = 64 * 1024;

/// The server's side of the conversation.
#[derive(Debug)]
pub struct Incoming {
    stdin: File,
    frames: FrameBuffer,
    chunk: Vec<u8>,
}

impl Incoming {
    /// From a non-blocking stdin.
    pub fn new(stdin: File) -> Self {
        Self { stdin, frames: FrameBuffer::default(), chunk: vec![0; CHUNK] }
    }

    /// To wait for something to [`read`](Self::read).
    pub fn watch(&self) -> Watch {
        Watch::read(self.stdin.as_fd())
    }

    /// Takes in what is there. An error, of which the end is one, means that the server is gone.
    pub fn read(&mut self) -> io::Result<()> {
        match self.stdin.read(&mut self.chunk) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(length) => {
                self.frames.push(&self.chunk[..length]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next message of those taken in. An error means nonsense: whoever speaks is not our server.
    pub fn next(&mut self) -> io::Result<Option<ToHelper>> {
        let frame = self.frames.next_frame().map_err(nonsense)?;
        frame.map(|(kind, body)| ToHelper::decode(kind, body)).transpose().map_err(nonsense)
    }

    /// Waits for the first message, which says what to run.
    pub fn start(&mut self, deadline: Instant) -> io::Result<Start> {
        loop {
            match self.next()? {
                Some(ToHelper::Start(start)) => return Ok(*start),
                Some(_) => return Err(nonsense("the first frame must say what to run")),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody said what to run"));
            }
            sys::poll(&mut [self.watch()], Some(left))?;
            self.read()?;
        }
    }
}

fn nonsense(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
