//! Tests of the log as a whole.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

mod concurrent;
mod crash;
mod full;
mod model;
pub(super) mod space;
mod throughput;

/// So small that everything happens: segments of 16 bytes.
const TINY: LogSettings = LogSettings { ring: 32, head: 64, tail: 256 };

/// What a log ought to hold.
#[derive(Debug, Default, Clone)]
struct Model {
    bytes: Vec<u8>,
    channels: Vec<Channel>,
}

impl Model {
    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn slice(&self, from: u64, length: usize) -> &[u8] {
        &self.bytes[from as usize..from as usize + length]
    }
}

/// One append.
#[derive(Debug, Clone)]
struct Piece {
    channel: Channel,
    length: usize,
    /// Seconds since the one before.
    after: f64,
}

fn pieces(count: usize, longest: usize) -> impl Strategy<Value = Vec<Piece>> {
    let piece = (0_u8..4, 0..longest, 0_u32..200).prop_map(|(channel, length, after)| Piece {
        channel: Channel::from_number(channel).expect("0 to 3"),
        length,
        after: f64::from(after) / 1000.0,
    });
    proptest::collection::vec(piece, 0..count)
}

/// A writer and its model, fed together.
struct Pair {
    writer: LogWriter,
    log: Log,
    model: Model,
    at: f64,
    /// Keeps the files.
    _keep: tempfile::TempDir,
    directory: PathBuf,
}

impl Pair {
    fn new(settings: LogSettings) -> Self {
        let keep = tempfile::tempdir().expect("a temporary directory");
        let directory = keep.path().join("session").join("command");
        let (writer, log) = LogWriter::create(&directory, settings).expect("a new log");
        Self { writer, log, model: Model::default(), at: 1_700_000_000.0, _keep: keep, directory }
    }

    fn append(&mut self, piece: &Piece) -> Result<(), LogError> {
        let start = self.model.bytes.len();
        // No period that could hide a wrong offset.
        let bytes: Vec<u8> = (start..start + piece.length).map(byte_at).collect();
        self.at += piece.after;
        self.model.bytes.extend_from_slice(&bytes);
        self.model.channels.resize(start + piece.length, piece.channel);
        let result = self.writer.append(piece.channel, &bytes, self.at);
        assert_eq!(self.log.state().end, self.model.end(), "every byte gets its offset, whatever became of it");
        result
    }
}

fn byte_at(offset: usize) -> u8 {
    ((offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8
}

/// Reads from `from` to the end in steps of `max`: every byte is the model's or said to be missing. How many are.
async fn walk(log: &Log, model: &Model, from: u64, max: usize) -> u64 {
    let (mut offset, mut missing) = (from, 0);
    loop {
        let chunk = log.read(offset, max).await.expect("a readable log");
        if let Some((start, end)) = chunk.gap {
            assert_eq!(start, offset, "a gap begins where one asked");
            assert!(end > start && end == chunk.offset, "{chunk:?}");
            missing += end - start;
        } else {
            assert_eq!(chunk.offset, offset);
        }
        assert!(chunk.bytes.len() <= max);
        assert_eq!(&chunk.bytes[..], model.slice(chunk.offset, chunk.bytes.len()), "at {}", chunk.offset);
        offset = chunk.next();
        if chunk.bytes.is_empty() {
            assert_eq!(offset, log.state().end, "nothing comes only at the end");
            return missing;
        }
    }
}

/// Every record says whose its bytes are. How many bytes have one.
async fn check_records(log: &Log, model: &Model, from: u64, max: usize) -> u64 {
    let (mut offset, mut known) = (from, 0);
    loop {
        let records = log.records(offset, max).await.expect("a readable index");
        assert!(records.len() <= max);
        for record in &records {
            assert!(record.offset >= offset && record.length > 0, "{record:?} after {offset}");
            offset = record.offset + record.length;
            known += record.length;
            let channels = &model.channels[record.offset as usize..offset as usize];
            assert!(channels.iter().all(|channel| *channel == record.channel), "{record:?} against {channels:?}");
        }
        if records.is_empty() {
            return known;
        }
    }
}

fn bytes_on_disk(directory: &Path, ending: &str) -> u64 {
    let entries = std::fs::read_dir(directory).expect("the log's directory").map(|entry| entry.expect("an entry"));
    entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == ending))
        .map(|entry| entry.metadata().expect("a file").len())
        .sum()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}
