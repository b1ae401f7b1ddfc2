//! The writer's side of the disk: which segment takes the next bytes, and which has to go for it.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use glassbox_shared::helper::Channel;

use super::LogSettings;
use super::segment::{self, SegmentWriter};

/// The tail goes in steps of this part of it: it is at least 15/16 full once it was full, and a new file is needed each
/// 2 MiB.
const SEGMENTS_PER_TAIL: u64 = 16;

/// One record is allowed for each so many bytes that a segment may hold: the index is at most an eighth of the log.
const BYTES_PER_RECORD: u64 = 128;

/// However small the segment.
const MIN_RECORDS: u64 = 16;

/// Most segments of the head, and of the tail. More than one (and [`SEGMENTS_PER_TAIL`]) come only from a disk that is
/// full again and again, or from channels that take turns. After that many the head ends early; the tail loses its
/// oldest.
const MAX_SEGMENTS: usize = 64;

/// Offsets within a segment are u32.
const MAX_SEGMENT: u64 = u32::MAX as u64;

/// A segment of the tail that is on disk.
#[derive(Debug, Clone, Copy)]
struct Kept {
    start: u64,
    bytes: u64,
    records: u64,
}

/// The segment that takes bytes now.
#[derive(Debug)]
struct Open {
    writer: SegmentWriter,
    is_head: bool,
    max_bytes: u64,
    max_records: u64,
}

/// All segments of one log.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    /// What the head may still take; bytes are 0 once it ended.
    head_bytes: u64,
    head_records: u64,
    head_segments: usize,
    /// What the tail may hold.
    tail_bytes: u64,
    tail: VecDeque<Kept>,
    open: Option<Open>,
}

/// What became of some bytes.
#[derive(Debug)]
pub(super) struct Stored {
    /// So many of them are in a file now. 0 without an error: the settings leave no room.
    pub(super) written: usize,
    /// In the segment that begins here.
    pub(super) segment: u64,
    /// Why the rest is not, if the disk refused.
    pub(super) result: io::Result<()>,
}

impl Store {
    pub(super) fn new(directory: PathBuf, settings: LogSettings) -> Self {
        let head_bytes = settings.head.min(MAX_SEGMENT);
        Self {
            directory,
            head_bytes,
            head_records: allowed_records(head_bytes),
            head_segments: 0,
            tail_bytes: settings.tail.min(MAX_SEGMENT * SEGMENTS_PER_TAIL),
            tail: VecDeque::new(),
            open: None,
        }
    }

    /// Writes as many bytes as the segment at hand takes, after beginning a new one where necessary. `offset` is that of
    /// the first byte; `withdraw` is called with the start of each segment before it is removed.
    pub(super) fn write(
        &mut self,
        offset: u64,
        channel: Channel,
        bytes: &[u8],
        at: f64,
        withdraw: impl FnMut(u64),
    ) -> Stored {
        if self.open.as_ref().is_some_and(|open| open.is_full_for(channel, at)) {
            self.seal();
        }
        if self.open.is_none() {
            self.open = match self.begin(offset, withdraw) {
                Ok(open) => open,
                Err(error) => return Stored { written: 0, segment: offset, result: Err(error) },
            };
        }
        let Some(open) = &mut self.open else { return Stored { written: 0, segment: offset, result: Ok(()) } };
        let room = usize::try_from(open.max_bytes - open.writer.span.length).unwrap_or(usize::MAX);
        let (written, result) = open.writer.write(channel, &bytes[..bytes.len().min(room)], at);
        let segment = open.writer.span.start;
        if result.is_err() {
            // A hole follows, so this segment ends here.
            self.seal();
        }
        Stored { written, segment, result }
    }

    /// Ends the segment at hand.
    fn seal(&mut self) {
        let Some(Open { writer, is_head, .. }) = self.open.take() else { return };
        let (span, records) = (writer.span, writer.records);
        if span.length == 0 {
            segment::remove(&self.directory, span.start);
        } else if is_head {
            self.head_segments += 1;
            self.head_bytes -= span.length;
            self.head_records -= records;
        } else {
            self.tail.push_back(Kept { start: span.start, bytes: span.length, records });
        }
    }

    /// Begins a segment; `None`: the settings leave no room for one.
    fn begin(&mut self, start: u64, mut withdraw: impl FnMut(u64)) -> io::Result<Option<Open>> {
        let is_head = self.head_bytes > 0 && self.head_records > 0 && self.head_segments < MAX_SEGMENTS;
        let (max_bytes, max_records) = if is_head {
            (self.head_bytes, self.head_records)
        } else {
            // What comes after the head must never be taken for it.
            self.head_bytes = 0;
            if self.tail_bytes == 0 {
                return Ok(None);
            }
            let bytes = (self.tail_bytes / SEGMENTS_PER_TAIL).max(1);
            (bytes, allowed_records(bytes))
        };
        if !is_head {
            while self.is_tail_full_for(max_bytes, max_records) {
                let Some(oldest) = self.tail.pop_front() else { break };
                withdraw(oldest.start);
                segment::remove(&self.directory, oldest.start);
            }
        }
        let writer = SegmentWriter::create(&self.directory, start)?;
        Ok(Some(Open { writer, is_head, max_bytes, max_records }))
    }

    fn is_tail_full_for(&self, bytes: u64, records: u64) -> bool {
        let held: u64 = self.tail.iter().map(|kept| kept.bytes).sum();
        let indexed: u64 = self.tail.iter().map(|kept| kept.records).sum();
        held + bytes > self.tail_bytes
            || indexed + records > records * SEGMENTS_PER_TAIL
            || self.tail.len() >= MAX_SEGMENTS
    }
}

impl Open {
    fn is_full_for(&self, channel: Channel, at: f64) -> bool {
        self.writer.span.length >= self.max_bytes
            || (self.writer.records >= self.max_records && self.writer.needs_record(channel, at))
    }
}

fn allowed_records(bytes: u64) -> u64 {
    (bytes / BYTES_PER_RECORD).max(MIN_RECORDS)
}
