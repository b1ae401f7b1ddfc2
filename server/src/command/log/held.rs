//! What a log holds, and where: the state that its writer and its readers share.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glassbox_shared::text;
use tokio::sync::watch;

use super::ring::Ring;
use super::segment::Span;
use super::{LAST_LINE_LIMIT, LogState};

/// Bytes of the ring that are searched for the last line.
const LAST_LINE_BYTES: usize = 4 * 1024;

/// Behind every handle of one log.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) directory: PathBuf,
    /// Announces; never ahead of `held`.
    pub(super) state: watch::Sender<LogState>,
    held: Mutex<Held>,
}

impl Shared {
    pub(super) fn new(directory: PathBuf, held: Held, state: LogState) -> Self {
        Self { directory, state: watch::Sender::new(state), held: Mutex::new(held) }
    }

    /// For a moment: nobody waits for a disk or a task while holding this.
    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing in these sections panics half way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the byte at an offset is.
#[derive(Debug)]
pub(super) enum Place {
    /// In the ring: here it is, with what follows.
    Memory(Bytes),
    /// In this segment.
    File(Span),
    /// Nowhere; what comes next begins here.
    Missing { until: u64 },
    /// It has not been written yet.
    End,
    /// Nothing was ever announced there.
    Beyond { end: u64 },
}

/// The segments (at most some hundred) and the ring.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// In order, none empty, none overlapping.
    segments: Vec<Span>,
    on_disk: u64,
    end: u64,
    /// While the command runs.
    ring: Option<Ring>,
    /// Afterwards.
    last_line: String,
}

impl Held {
    /// Of a log that is about to be written.
    pub(super) fn with_ring(capacity: usize) -> Self {
        Self { ring: Some(Ring::new(capacity)), ..Self::default() }
    }

    /// Of a log whose files exist.
    pub(super) fn with_segments(segments: Vec<Span>, end: u64) -> Self {
        let on_disk = segments.iter().map(|span| span.length).sum();
        Self { segments, on_disk, end, ..Self::default() }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn missing(&self) -> u64 {
        self.end - self.on_disk
    }

    /// Bytes came and are in the file of the segment that begins at `segment`; `None`: they are in no file.
    pub(super) fn add(&mut self, bytes: &[u8], segment: Option<u64>) {
        let length = bytes.len() as u64;
        if let Some(start) = segment.filter(|_| length > 0) {
            self.on_disk += length;
            match self.segments.last_mut() {
                Some(last) if last.start == start => last.length += length,
                _ => self.segments.push(Span { start, length }),
            }
        }
        self.end += length;
        if let Some(ring) = &mut self.ring {
            ring.push(bytes);
        }
    }

    /// A segment is about to be removed.
    pub(super) fn withdraw(&mut self, start: u64) {
        if let Ok(at) = self.segments.binary_search_by_key(&start, |span| span.start) {
            self.on_disk -= self.segments.remove(at).length;
        }
    }

    /// Is this segment still meant to be there?
    pub(super) fn has(&self, start: u64) -> bool {
        self.segments.binary_search_by_key(&start, |span| span.start).is_ok()
    }

    /// The segments with bytes at or after an offset.
    pub(super) fn segments_from(&self, from: u64) -> &[Span] {
        &self.segments[self.segments.partition_point(|span| span.end() <= from)..]
    }

    /// Finds the byte at `from`, in memory first.
    pub(super) fn find(&self, from: u64, max: usize) -> Place {
        if from >= self.end {
            return if from == self.end { Place::End } else { Place::Beyond { end: self.end } };
        }
        if let Some(bytes) = self.ring.as_ref().and_then(|ring| ring.read(from, max)) {
            return Place::Memory(bytes);
        }
        let next = self.segments_from(from).first();
        if let Some(span) = next.filter(|span| span.start <= from) {
            return Place::File(*span);
        }
        // The ring does not hold `from`, so what it holds lies after it.
        let in_ring = self.ring.as_ref().map_or(self.end, Ring::start);
        Place::Missing { until: next.map_or(self.end, |span| span.start).min(in_ring) }
    }

    pub(super) fn last_line(&self, limit: usize) -> String {
        match &self.ring {
            Some(ring) => text::last_line(&ring.last(LAST_LINE_BYTES), limit),
            None => self.last_line.chars().take(limit).collect(),
        }
    }

    /// Gives the ring's memory back; the last line stays.
    pub(super) fn drop_ring(&mut self) {
        self.last_line = self.last_line(LAST_LINE_LIMIT);
        self.ring = None;
        self.segments.shrink_to_fit();
    }
}
