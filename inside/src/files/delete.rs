//! Deleting: a file, an empty folder, or a folder with all that is in it.

use std::os::fd::{AsFd, OwnedFd};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::Answer;
use glassbox_shared::files::path::encode;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::Service;
use super::error::{Error, Naming as _, Result};
use super::list::names;
use super::root::{MAX_DEPTH, look_into, read_folder, too_deep};
use super::talk::Talk;
use super::write::source;

/// Folders into which something new is put while they are deleted are emptied again, this often.
const ROUNDS: usize = 20;

pub fn delete(service: &Service, talk: &mut Talk, path: &str, recursive: bool) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    if service.root.holds_workspace(&parts) {
        return Err(Error::new(ErrorCode::Conflict, "the workspace itself cannot be deleted; delete what is in it"));
    }
    let place = source(service, &parts)?;
    let mut done = 0;
    let path = service.root.text(&parts);
    let removed = remove(talk, &place.folder, &place.name, recursive, &path, 0, &mut done);
    // Cancelled or failed, what is gone is gone: how much that is must be known, and not as of a moment before.
    if removed.is_err() && done > 0 {
        talk.tell(done, 0, &path);
    }
    removed?;
    Ok(Answer::Job { done, bytes: 0, skipped: 0, entry: None })
}

/// Removes a name from a folder, with all that lies below it; never what a link leads to.
pub fn remove(
    talk: &mut Talk,
    folder: &OwnedFd,
    name: &[u8],
    recursive: bool,
    path: &str,
    depth: usize,
    done: &mut u64,
) -> Result<()> {
    talk.progress(*done, 0, || path.to_owned())?;
    // Linux says EISDIR of a folder; POSIX, and whoever follows it, EPERM.
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) => {
            *done += 1;
            return Ok(());
        }
        // Gone meanwhile: what was wanted.
        Err(Errno::NOENT) if depth > 0 => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(Error::of(errno, name)),
    }
    if !recursive {
        unlinkat(folder, name, AtFlags::REMOVEDIR).of(name)?;
        *done += 1;
        return Ok(());
    }
    if depth >= MAX_DEPTH {
        return Err(too_deep(path.as_bytes()));
    }
    let inner = match look_into(folder.as_fd(), name) {
        Ok(inner) => inner,
        Err(Errno::NOENT) if depth > 0 => return Ok(()),
        // It could not be unlinked although it is no folder.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(Error::of(Errno::PERM, name)),
        Err(errno) => return Err(Error::of(errno, name)),
    };
    for _ in 0..ROUNDS {
        let listed = names(talk, &read_folder(inner.as_fd()).of(name)?, name)?;
        for own in listed {
            let path = format!("{path}/{}", encode(&own));
            remove(talk, &inner, &own, true, &path, depth + 1, done)?;
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                *done += 1;
                return Ok(());
            }
            Err(Errno::NOENT) => return Ok(()),
            // Something new came meanwhile.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(Error::of(errno, name)),
        }
    }
    Err(Error::of(Errno::NOTEMPTY, name))
}
