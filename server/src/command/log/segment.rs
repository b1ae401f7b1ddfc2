//! One stretch of a log on disk: a file of bytes and a file of records beside it, both named by the offset of the first
//! byte.
//!
//! A record of the index is 16 bytes, little endian: the offset of its first byte from the segment's beginning (u32),
//! milliseconds since 1970 (48 bits), the channel (u8), a spare byte, and a checksum of the twelve before. It ends where
//! the next begins, the last one at the end of the bytes; thus it is written once, before its bytes, and never changed:
//! after a crash no byte stands without the record that says whose it is. A record without bytes, or a torn one, ends
//! the index.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use glassbox_shared::helper::Channel;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

use super::Record;

/// Bytes of one record.
const RECORD: usize = 16;

/// Bytes of one channel that come within this time (seconds) share a record: fine enough for a replay that looks like
/// life, coarse enough that a chatty command needs ten records a second.
const COALESCE: f64 = 0.1;

/// Where a segment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Span {
    pub(super) fn end(&self) -> u64 {
        self.start + self.length
    }
}

/// The names of a segment's two files: bytes, index.
pub(super) fn names(start: u64) -> [String; 2] {
    [format!("{start:020}.bytes"), format!("{start:020}.index")]
}

fn bytes_path(directory: &Path, start: u64) -> PathBuf {
    directory.join(&names(start)[0])
}

fn index_path(directory: &Path, start: u64) -> PathBuf {
    directory.join(&names(start)[1])
}

/// FNV-1a: tells a torn record from a whole one; it protects against nobody.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A record as it is in the file; its length is not known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexRecord {
    position: u32,
    milliseconds: u64,
    channel: Channel,
}

impl IndexRecord {
    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&self.position.to_le_bytes());
        bytes[4..10].copy_from_slice(&self.milliseconds.to_le_bytes()[..6]);
        bytes[10] = self.channel as u8;
        let sum = checksum(&bytes[..12]);
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; RECORD]) -> Option<Self> {
        if checksum(&bytes[..12]).to_le_bytes() != bytes[12..] {
            return None;
        }
        let mut milliseconds = [0; 8];
        milliseconds[..6].copy_from_slice(&bytes[4..10]);
        Some(Self {
            position: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            milliseconds: u64::from_le_bytes(milliseconds),
            channel: Channel::from_number(bytes[10])?,
        })
    }
}

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    pub(super) span: Span,
    pub(super) records: u64,
    bytes: File,
    index: File,
    /// Whose the current record is, and when it began.
    current: Option<(Channel, f64)>,
}

impl SegmentWriter {
    /// Makes the files; leaves none behind if it cannot make both.
    pub(super) fn create(directory: &Path, start: u64) -> io::Result<Self> {
        let make = |path: PathBuf| {
            #[cfg(test)]
            super::tests::space::room_for_a_file()?;
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        };
        let index = make(index_path(directory, start))?;
        let bytes = make(bytes_path(directory, start)).inspect_err(|_| remove(directory, start))?;
        Ok(Self { span: Span { start, length: 0 }, records: 0, bytes, index, current: None })
    }

    /// Do bytes of this channel at this time need a record of their own?
    pub(super) fn needs_record(&self, channel: Channel, at: f64) -> bool {
        // A clock that was set back also begins a new one.
        self.current.is_none_or(|(current, since)| current != channel || !(0.0..COALESCE).contains(&(at - since)))
    }

    /// Writes bytes; tells how many are in the file now, and why not all.
    pub(super) fn write(&mut self, channel: Channel, bytes: &[u8], at: f64) -> (usize, io::Result<()>) {
        if self.needs_record(channel, at) {
            let position = self.span.length as u32; // the store keeps segments below 4 GiB
            let milliseconds = ((at * 1000.0).round() as u64).min((1 << 48) - 1);
            let record = IndexRecord { position, milliseconds, channel }.encode();
            let (_, result) = write_all(&self.index, &record, self.records * RECORD as u64);
            if result.is_err() {
                return (0, result);
            }
            self.records += 1;
            self.current = Some((channel, at));
        }
        let (written, result) = write_all(&self.bytes, bytes, self.span.length);
        self.span.length += written as u64;
        (written, result)
    }
}

/// Like `write_all_at`, but tells how far it got.
fn write_all(file: &File, bytes: &[u8], at: u64) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match write_some(file, &bytes[written..], at + written as u64) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

fn write_some(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    #[cfg(test)]
    let bytes = super::tests::space::room_for(bytes)?;
    file.write_at(bytes, at)
}

/// Removes a segment's files. What cannot be removed stays until the whole log goes.
pub(super) fn remove(directory: &Path, start: u64) {
    for path in [bytes_path(directory, start), index_path(directory, start)] {
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a part of an output log could not be removed");
        }
    }
}

/// Reads at most `max` bytes at a position, if the kernel has them in memory: then this is over at once, and no other
/// thread has to be woken for it. `None`: it has not, or cannot tell.
pub(super) fn read_cached(directory: &Path, start: u64, position: u64, max: usize) -> Option<Vec<u8>> {
    let path = bytes_path(directory, start);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
    let mut bytes = vec![0; max];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], position, ReadWriteFlags::NOWAIT).ok()?;
    bytes.truncate(read);
    (read > 0).then_some(bytes)
}

/// Reads at most `max` bytes at a position; fewer at the end of the file.
pub(super) fn read(directory: &Path, start: u64, position: u64, max: usize) -> io::Result<Vec<u8>> {
    read_from(&File::open(bytes_path(directory, start))?, position, max)
}

fn read_from(file: &File, position: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    let mut read = 0;
    while read < max {
        match file.read_at(&mut bytes[read..], position + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// The records of a segment from offset `from` on, clipped to it and to the segment, at most `max`.
pub(super) fn records(directory: &Path, span: Span, from: u64, max: usize) -> io::Result<Vec<Record>> {
    let file = File::open(index_path(directory, span.start))?;
    let from = from.max(span.start);
    // Find the last record that begins at or before `from`; whatever cannot be read lies behind the end of the index.
    let (mut low, mut high) = (0, file.metadata()?.len() / RECORD as u64);
    while low < high {
        let middle = low.midpoint(high);
        let before = decode_all(&read_from(&file, middle * RECORD as u64, RECORD)?)
            .first()
            .is_some_and(|record| span.start + u64::from(record.position) <= from);
        if before { low = middle + 1 } else { high = middle }
    }
    let first = low.saturating_sub(1);
    let found = decode_all(&read_from(&file, first * RECORD as u64, (max + 1) * RECORD)?);
    let ends = found.iter().skip(1).map(|next| span.start + u64::from(next.position)).chain([span.end()]);
    let records = found.iter().zip(ends).filter_map(|(record, end)| {
        let (offset, end) = ((span.start + u64::from(record.position)).max(from), end.min(span.end()));
        (offset < end).then(|| Record {
            offset,
            length: end - offset,
            channel: record.channel,
            at: record.milliseconds as f64 / 1000.0,
        })
    });
    Ok(records.take(max).collect())
}

/// As many as are whole and in order.
fn decode_all(bytes: &[u8]) -> Vec<IndexRecord> {
    let mut records: Vec<IndexRecord> = Vec::with_capacity(bytes.len() / RECORD);
    for bytes in bytes.as_chunks::<RECORD>().0 {
        match IndexRecord::decode(*bytes) {
            Some(record) if records.last().is_none_or(|last| last.position < record.position) => records.push(record),
            _ => break,
        }
    }
    records
}

/// When the last record of a segment began.
pub(super) fn last_time(directory: &Path, span: Span) -> io::Result<Option<f64>> {
    let last = records(directory, span, span.end().saturating_sub(1), 1)?;
    Ok(last.first().map(|record| record.at))
}

/// The segments of a directory in order, as far as they hold bytes; none reaches into the next.
pub(super) fn list(directory: &Path) -> io::Result<Vec<Span>> {
    let mut spans = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(start) = name.to_str().and_then(|name| name.strip_suffix(".bytes")?.parse().ok()) else { continue };
        let length = match entry.metadata() {
            Ok(metadata) => metadata.len().min(u64::MAX - start),
            // A writer removed it just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if length > 0 {
            spans.push(Span { start, length });
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    for at in 1..spans.len() {
        let next = spans[at].start;
        spans[at - 1].length = spans[at - 1].length.min(next - spans[at - 1].start);
    }
    Ok(spans)
}
