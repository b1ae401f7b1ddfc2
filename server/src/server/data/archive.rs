//! The file of a backup: a gzipped tar archive. Its last entry is the manifest with size and SHA-256 of all others, so an
//! archive that was cut off has none.

use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{DATABASE, FIRST_KEY, LOGS};

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// What this version writes, and the only one that it reads.
pub(super) const FORMAT: u32 = 1;
/// Largest manifest: two million files of output logs.
pub(super) const MOST_MANIFEST_BYTES: u64 = 256 * 1024 * 1024;
/// Longest name of a folder or file of a log; ids and offsets are much shorter.
const MOST_NAME: usize = 64;

/// What an archive says about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    /// Of the program that made it.
    pub(super) version: String,
    /// Unix seconds.
    pub(super) created_at: f64,
    /// On the labels of the original's containers and volumes.
    pub(super) instance: String,
    pub(super) files: Vec<Entry>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Below the data directory.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Hexadecimal.
    pub(super) sha256: String,
}

/// Can this stand in an archive? Nothing else is ever written below a data directory, whatever an archive says.
pub(super) fn is_known(path: &str) -> bool {
    let name = |name: &str| {
        !name.is_empty()
            && name.len() <= MOST_NAME
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [file] => *file == DATABASE || *file == FIRST_KEY,
        [logs, session, command, file] => *logs == LOGS && [session, command, file].into_iter().all(|part| name(part)),
        _ => false,
    }
}

/// The path of a file of a command's log.
pub(super) fn log_path(session: &str, command: &str, file: &str) -> String {
    Path::new(LOGS).join(session).join(command).join(file).display().to_string()
}

/// Counts and sums what is read through it.
pub(super) struct Summed<R> {
    inner: R,
    bytes: u64,
    sum: Sha256,
}

impl<R: Read> Summed<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, bytes: 0, sum: Sha256::new() }
    }

    pub(super) fn entry(self, path: &str) -> Entry {
        let sha256 = self.sum.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Entry { path: path.to_owned(), bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_belongs_into_a_data_directory_is_taken() {
        for good in
            ["glassbox.db", "operator.key", "logs/sbx_abc/cmd_abc/status", "logs/s/c/00000000000000000000.bytes"]
        {
            assert!(is_known(good), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../glassbox.db",
            "instance",
            "lock",
            "address",
            "glassbox.db/x",
            "logs/s/c/../../../x",
            "logs/s/c/.hidden",
            "logs/s/../x",
            "logs//c/x",
            "logs/s/c",
            "logs/s/c/d/e",
            "logs/s/c/a b",
            "logs/s/c/\0",
        ] {
            assert!(!is_known(bad), "{bad:?}");
        }
    }
}
