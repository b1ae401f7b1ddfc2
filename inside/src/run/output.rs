//! What the command writes: the reading ends of its pipes.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;

use glassbox_shared::helper::{Channel, MAX_OUTPUT};

use crate::sys::{self, Watch};

/// What is taken to be in a pipe that does not tell: Linux pipes hold 64 KiB unless enlarged, at most 1 MiB.
const ASSUMED_IN_PIPE: usize = 1024 * 1024;

/// One pipe that is open still.
#[derive(Debug)]
struct Source {
    channel: Channel,
    pipe: PipeReader,
    /// Bytes that were in it at [`Output::mark`] and have not been read since.
    before_mark: usize,
}

/// The pipes of a command.
#[derive(Debug)]
pub struct Output {
    sources: Vec<Source>,
}

impl Output {
    /// From the reading ends, which are non-blocking.
    pub fn new(pipes: impl IntoIterator<Item = (Channel, PipeReader)>) -> Self {
        let sources = pipes.into_iter().map(|(channel, pipe)| Source { channel, pipe, before_mark: 0 }).collect();
        Self { sources }
    }

    /// To wait for something to read.
    pub fn watches(&self) -> impl Iterator<Item = Watch> + '_ {
        self.sources.iter().map(|source| Watch::read(source.pipe.as_fd()))
    }

    /// Are all pipes at their end?
    pub fn is_closed(&self) -> bool {
        self.sources.is_empty()
    }

    /// Remembers how much is in the pipes now.
    pub fn mark(&mut self) {
        for source in &mut self.sources {
            source.before_mark = sys::readable_bytes(source.pipe.as_fd()).unwrap_or(ASSUMED_IN_PIPE);
        }
    }

    /// Has all been read that was in the pipes at the [`mark`](Self::mark)?
    pub fn is_past_mark(&self) -> bool {
        self.sources.iter().all(|source| source.before_mark == 0)
    }

    /// Reads each pipe once by `take`, which says how much it read (`None`: it has no room for any). Is there likely to be
    /// more at once?
    pub fn read(&mut self, mut take: impl FnMut(Channel, &mut PipeReader) -> Option<io::Result<usize>>) -> bool {
        let mut has_more = false;
        // Another one first each time, so that a flood on one channel does not hold up the other when room is short.
        if self.sources.len() > 1 {
            self.sources.rotate_left(1);
        }
        self.sources.retain_mut(|source| match take(source.channel, &mut source.pipe) {
            None => true,
            Some(Ok(0)) => false,
            Some(Ok(length)) => {
                source.before_mark = source.before_mark.saturating_sub(length);
                has_more |= length >= MAX_OUTPUT;
                true
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                source.before_mark = 0;
                true
            }
            // A pipe gives no other errors; one that does has nothing more to give.
            Some(Err(error)) => error.kind() == io::ErrorKind::Interrupted,
        });
        has_more
    }
}
