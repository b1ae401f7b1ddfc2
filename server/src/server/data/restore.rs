//! `glassbox restore`: a data directory from a backup, whole or not at all.
//!
//! Everything is written into a hidden folder inside the new data directory first (which may be a mount point, so it
//! cannot be renamed itself), and checked; then it is moved to its place. `instance` comes last: without it no server
//! takes the folder for its own.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use flate2::read::GzDecoder;

use super::archive::{Entry, FORMAT, MANIFEST, MOST_MANIFEST_BYTES, Manifest, Summed, is_known};
use super::{DATABASE, FIRST_KEY, INSTANCE, INSTANCE_CHARACTERS, LOGS, is_instance, make_private, write_whole};
use crate::store::backup::{self, Restored};
use crate::{clock, ids};

/// What was restored.
#[derive(Debug, Clone)]
pub struct Back {
    /// The version that made the backup.
    pub version: String,
    /// When it was made, Unix seconds.
    pub created_at: f64,
    /// What is on the labels of the original's containers and volumes.
    pub original: String,
    /// Sessions that were live then and are over now.
    pub ended_sessions: usize,
    /// Files.
    pub files: usize,
}

/// Makes a data directory that is not there, or is empty, from a backup.
///
/// As [`Restored::Copy`] it gets an instance of its own, so that it never touches a container or volume of the original,
/// which may run beside it on the same engine.
pub fn restore(from: &Path, data_dir: &Path, restored: Restored) -> anyhow::Result<Back> {
    let shown = data_dir.display();
    let archive = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    make_private(data_dir).with_context(|| format!("cannot make the data directory {shown}"))?;
    let entries = fs::read_dir(data_dir).with_context(|| format!("cannot read the data directory {shown}"))?;
    for entry in entries {
        // A file system of its own begins with this folder.
        if entry.with_context(|| format!("cannot read the data directory {shown}"))?.file_name() != "lost+found" {
            bail!("{shown} is not empty; restore into a new folder, or move that one away");
        }
    }
    fs::set_permissions(data_dir, fs::Permissions::from_mode(0o700))
        .with_context(|| format!("cannot make the data directory {shown} private"))?;
    let work = tempfile::Builder::new()
        .prefix(".restore-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(data_dir)
        .with_context(|| format!("cannot write to the data directory {shown}"))?;
    let manifest = unpack(archive, work.path()).with_context(|| format!("{} was not restored", from.display()))?;
    let database = work.path().join(DATABASE);
    let ended_sessions = backup::settle(&database, restored, clock::now()).context("the database cannot be used")?;
    File::open(&database).and_then(|file| file.sync_all()).context("the database cannot be written to the disk")?;
    let instance = match restored {
        Restored::Copy => ids::random_characters(INSTANCE_CHARACTERS),
        Restored::Original => {
            ensure!(is_instance(&manifest.instance), "the backup does not say which server it is of");
            manifest.instance.clone()
        }
    };
    for name in [LOGS, FIRST_KEY, DATABASE] {
        if work.path().join(name).exists() {
            fs::rename(work.path().join(name), data_dir.join(name))
                .with_context(|| format!("{name} cannot be moved to its place"))?;
        }
    }
    // Empty now.
    work.close().context("the folder for unpacking cannot be removed")?;
    write_whole(data_dir, INSTANCE, &instance).context("the instance cannot be written")?;
    let Manifest { version, created_at, instance: original, files, .. } = manifest;
    Ok(Back { version, created_at, original, ended_sessions, files: files.len() })
}

/// Unpacks everything, and compares it with the manifest.
fn unpack(archive: File, to: &Path) -> anyhow::Result<Manifest> {
    let mut archive = tar::Archive::new(GzDecoder::new(io::BufReader::new(archive)));
    let mut unpacked: HashMap<String, Entry> = HashMap::new();
    let mut manifest = None;
    for entry in archive.entries().context("this is no backup")? {
        let mut entry = entry.context("this is no backup, or it is damaged or cut off")?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        ensure!(manifest.is_none(), "something follows the manifest");
        ensure!(entry.header().entry_type().is_file(), "{path:?} is not a plain file");
        if path == MANIFEST {
            manifest = Some(read_manifest(&mut entry)?);
            continue;
        }
        ensure!(is_known(&path), "{path:?} does not belong into a backup");
        let written =
            write(&mut entry, &to.join(&path), &path).with_context(|| format!("{path} cannot be unpacked"))?;
        ensure!(unpacked.insert(path.clone(), written).is_none(), "{path} is there twice");
    }
    // To the very end, where the checksum of the compressed stream is.
    io::copy(&mut archive.into_inner(), &mut io::sink()).context("it is damaged or cut off")?;
    let manifest: Manifest = manifest.context("it has no manifest, so it was cut off")?;
    for expected in &manifest.files {
        match unpacked.remove(&expected.path) {
            Some(found) if found == *expected => {}
            Some(_) => bail!("{} is damaged: its checksum does not fit", expected.path),
            None => bail!("{} is missing", expected.path),
        }
    }
    if let Some(path) = unpacked.keys().next() {
        bail!("{path} is not in the manifest");
    }
    ensure!(to.join(DATABASE).is_file(), "it holds no database");
    make_private(&to.join(LOGS)).context("the folder for output logs cannot be made")?;
    Ok(manifest)
}

fn read_manifest(entry: &mut impl Read) -> anyhow::Result<Manifest> {
    let mut text = Vec::new();
    entry.take(MOST_MANIFEST_BYTES + 1).read_to_end(&mut text).context("the manifest cannot be read")?;
    ensure!(text.len() as u64 <= MOST_MANIFEST_BYTES, "the manifest is too long");
    let manifest: Manifest = serde_json::from_slice(&text).context("the manifest cannot be read")?;
    ensure!(
        manifest.format == FORMAT,
        "it was made by Glassbox {} in a format that this version does not read; restore it with that version",
        manifest.version
    );
    Ok(manifest)
}

fn write(from: impl Read, to: &Path, path: &str) -> anyhow::Result<Entry> {
    if let Some(folder) = to.parent() {
        make_private(folder).context("its folder cannot be made")?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut summed = Summed::new(from);
    io::copy(&mut summed, &mut file)?;
    file.flush()?;
    Ok(summed.entry(path))
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
