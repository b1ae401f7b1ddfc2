//! `glassbox backup`: everything that is worth keeping in one file, while a server uses the data or not.
//!
//! The server's lock is not touched: `SQLite` lets several processes in, and output logs only grow. First the database is
//! copied as it is at one moment, then the logs of the commands that it names. A log may have grown by then, which the
//! start after a restore finds out by itself, as after a crash; never is one shorter than the database says.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::archive::{Entry, FORMAT, MANIFEST, Manifest, Summed, log_path};
use super::{DATABASE, FIRST_KEY, INSTANCE, LOGS, database_beside_server, read_short};
use crate::clock;
use crate::command::log;
use crate::store::backup;

/// How the folders begin in which backups are made, beside their file.
const WORK: &str = ".glassbox-backup-";

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept {
    /// Output logs.
    pub logs: usize,
    /// Bytes before compression.
    pub bytes: u64,
}

/// Writes a backup of a data directory to a file that is not there yet: whole or not at all, for its owner's eyes only.
pub fn backup(data_dir: &Path, to: &Path) -> anyhow::Result<Kept> {
    let database = database_beside_server(data_dir)?;
    let shown = to.display();
    if fs::symlink_metadata(to).is_ok() {
        bail!("{shown} is there already; name a new file");
    }
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    remove_interrupted(folder);
    let (work, _lock) = work_folder(folder).with_context(|| format!("cannot write to the folder of {shown}"))?;
    let copy = work.path().join(DATABASE);
    backup::copy(&database, &copy).context("the database cannot be copied")?;

    let mut file = tempfile::Builder::new()
        .prefix("backup-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(work.path())
        .with_context(|| format!("cannot write to the folder of {shown}"))?;
    let kept = write(data_dir, &copy, file.as_file_mut()).with_context(|| format!("{shown} was not written"))?;
    file.as_file().sync_all().with_context(|| format!("{shown} cannot be written to the disk"))?;
    file.persist_noclobber(to).map_err(|error| error.error).with_context(|| format!("{shown} cannot be made"))?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(|| format!("{shown} may not last"))?;
    Ok(kept)
}

/// A folder of its own to work in: `SQLite` puts files beside the copy. It is locked for as long as somebody works in it.
fn work_folder(folder: &Path) -> io::Result<(TempDir, File)> {
    loop {
        let work =
            tempfile::Builder::new().prefix(WORK).permissions(fs::Permissions::from_mode(0o700)).tempdir_in(folder)?;
        let lock = File::open(work.path())?;
        lock.lock()?;
        // Somebody who cleans up may have taken it for a forgotten one before it was locked.
        if fs::symlink_metadata(work.path()).is_ok() {
            return Ok((work, lock));
        }
    }
}

/// Removes what interrupted backups left: folders of ours in which nobody works any more. What cannot be removed is no
/// reason not to make a backup.
fn remove_interrupted(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(WORK));
        if is_ours && let Err(error) = remove_forgotten(&entry.path()) {
            eprintln!("{}, left by an interrupted backup, cannot be removed: {error}", entry.path().display());
        }
    }
}

fn remove_forgotten(work: &Path) -> io::Result<()> {
    // Never through a link, in case the folder is not ours alone.
    let lock = match OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    match lock.try_lock() {
        Ok(()) => fs::remove_dir_all(work),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn write(data_dir: &Path, database: &Path, to: &mut File) -> anyhow::Result<Kept> {
    let instance = read_short(&data_dir.join(INSTANCE))?.map(|text| text.trim().to_owned()).unwrap_or_default();
    let mut archive = Archive { tar: tar::Builder::new(GzEncoder::new(to, Compression::fast())), files: Vec::new() };
    let mut kept = Kept::default();
    let copy = File::open(database).context("the copied database cannot be read")?;
    let length = copy.metadata().context("the copied database cannot be read")?.len();
    archive.add(DATABASE, copy, length)?;
    if let Some(key) = read_short(&data_dir.join(FIRST_KEY))? {
        archive.add(FIRST_KEY, key.as_bytes(), key.len() as u64)?;
    }
    for (session, command) in backup::logs(database).context("the copied database cannot be read")? {
        let directory = data_dir.join(LOGS).join(&session).join(&command);
        let files = log::copy(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        kept.logs += usize::from(!files.is_empty());
        for log::CopiedFile { name, file, bytes } in files {
            archive.add(&log_path(&session, &command, &name), file, bytes)?;
        }
    }
    kept.bytes = archive.files.iter().map(|entry| entry.bytes).sum();
    archive.finish(instance)?;
    Ok(kept)
}

struct Archive<W: Write> {
    tar: tar::Builder<GzEncoder<W>>,
    files: Vec<Entry>,
}

impl<W: Write> Archive<W> {
    /// Adds so many bytes of a file.
    fn add(&mut self, path: &str, from: impl Read, bytes: u64) -> anyhow::Result<()> {
        let mut summed = Summed::new(from.take(bytes));
        self.append(path, &mut summed, bytes)?;
        let entry = summed.entry(path);
        // tar would not notice.
        anyhow::ensure!(entry.bytes == bytes, "{path} became shorter while it was read");
        self.files.push(entry);
        Ok(())
    }

    fn append(&mut self, path: &str, from: impl Read, bytes: u64) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(clock::now() as u64);
        self.tar.append_data(&mut header, path, from).with_context(|| format!("{path} cannot be added"))
    }

    fn finish(mut self, instance: String) -> anyhow::Result<()> {
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: clock::now(),
            instance,
            files: std::mem::take(&mut self.files),
        };
        let text = serde_json::to_vec(&manifest).context("the manifest cannot be written")?;
        self.append(MANIFEST, text.as_slice(), text.len() as u64)?;
        let compressed = self.tar.into_inner().context("the archive cannot be finished")?;
        compressed.finish().context("the archive cannot be finished")?.flush().context("the archive cannot be finished")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interrupted_backup_left_goes_and_what_somebody_works_in_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (work, _lock) = work_folder(folder.path()).expect("made");
        let forgotten = folder.path().join(".glassbox-backup-forgotten");
        fs::create_dir(&forgotten).expect("made");
        fs::write(forgotten.join(DATABASE), "half of it").expect("written");
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        fs::write(elsewhere.join("file"), "kept").expect("written");
        std::os::unix::fs::symlink(&elsewhere, folder.path().join(".glassbox-backup-link")).expect("made");
        remove_interrupted(folder.path());
        assert!(!forgotten.exists());
        assert!(work.path().exists(), "somebody works in it");
        assert!(elsewhere.join("file").exists(), "no link is followed");
    }
}
