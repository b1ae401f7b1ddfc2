//! The file `status`: how far the log had got, and whether it was finished.
//!
//! It is written when the log is created and overwritten in place from then on, so that it needs no room on a disk that
//! is full by then. While a command runs the other files say how far its output got; only bytes that could not be
//! written leave no trace there, so the end is noted here whenever some are lost.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::segment::checksum;

/// Its name.
pub(super) const NAME: &str = "status";
const MAGIC: &[u8; 8] = b"GBXLOG1\n";
/// Magic, end, time of the last byte (a float's bits; NaN: none), flags, nothing yet, checksum of all before.
const LENGTH: usize = 48;
const FINISHED: u64 = 1;
const COMPLETE: u64 = 2;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Status {
    pub(super) end: u64,
    pub(super) last_at: Option<f64>,
    pub(super) finished: bool,
    /// As far as the caller of `finish` knew.
    pub(super) complete: bool,
}

impl Status {
    fn encode(&self) -> [u8; LENGTH] {
        let flags = if self.finished { FINISHED } else { 0 } | if self.complete { COMPLETE } else { 0 };
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last_at.unwrap_or(f64::NAN).to_le_bytes());
        bytes[24..32].copy_from_slice(&flags.to_le_bytes());
        let sum = checksum(&bytes[..44]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?));
        if &bytes[..8] != MAGIC || checksum(&bytes[..44]).to_le_bytes() != bytes[44..] {
            return None;
        }
        let (last_at, flags) = (f64::from_bits(word(16)?), word(24)?);
        Some(Self {
            end: word(8)?,
            last_at: (!last_at.is_nan()).then_some(last_at),
            finished: flags & FINISHED != 0,
            complete: flags & COMPLETE != 0,
        })
    }

    /// What is written in a log's directory. Missing or damaged (only after the machine itself crashed): not finished,
    /// and the end is what the other files say.
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        match std::fs::read(directory.join(NAME)) {
            Ok(bytes) => Ok(Self::decode(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }
}

/// The file, open for its owner.
#[derive(Debug)]
pub(super) struct StatusFile(File);

impl StatusFile {
    /// Reserves the file; fails if there is one, because then somebody else owns this log.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(NAME))?;
        file.write_all_at(&Status::default().encode(), 0)?;
        Ok(Self(file))
    }

    pub(super) fn write(&self, status: &Status) -> io::Result<()> {
        self.0.write_all_at(&status.encode(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_and_a_damaged_one_counts_for_nothing() {
        let status = Status { end: 1 << 40, last_at: Some(1.5), finished: true, complete: false };
        let mut bytes = status.encode();
        assert_eq!(Status::decode(&bytes), Some(status));
        assert_eq!(Status::decode(&bytes[..47]), None);
        bytes[9] ^= 1;
        assert_eq!(Status::decode(&bytes), None);
    }
}
