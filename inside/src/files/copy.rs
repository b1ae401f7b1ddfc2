//! Copying: into a temporary name beside the target, which takes its real name when all is there.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, MAX_DATA};
use glassbox_shared::files::path::encode;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat, statat, symlinkat};

use super::Service;
use super::delete::remove;
use super::error::{Error, Naming as _, Result};
use super::list::whole_names;
use super::root::{MAX_DEPTH, look_into, read_file, read_folder, too_deep};
use super::talk::Talk;
use super::write::{at_place, rename, source, target};

#[derive(Debug, Default)]
struct Copied {
    entries: u64,
    bytes: u64,
    skipped: u64,
}

pub fn copy(service: &Service, talk: &mut Talk, from: &str, to: &str, replace: bool) -> Result<Answer> {
    let (from, to) = (service.root.parts(from)?, service.root.parts(to)?);
    let source = source(service, &from)?;
    let target = target(service, &to, replace)?;
    if to.starts_with(&from) && to != from {
        return Err(Error::new(ErrorCode::Conflict, "a folder cannot be copied into itself"));
    }
    service.temporaries.clear(talk, &target.folder, &target.name)?;
    let temporary = service.temporaries.name();
    let mut copied = Copied::default();
    let path = service.root.text(&from);
    let done = copy_one(
        service,
        talk,
        (&source.folder, &source.name),
        (&target.folder, temporary.as_bytes()),
        &path,
        0,
        &mut copied,
    )
    .and_then(|()| rename(&target.folder, temporary.as_bytes(), &target, replace));
    if let Err(error) = done {
        // Nobody waits for this, and what was copied must go whatever has come over the copy.
        let _ = remove(&mut talk.deaf(), &target.folder, temporary.as_bytes(), true, "", 0, &mut 0);
        return Err(error);
    }
    if copied.entries == 0 {
        return Err(Error::not_a_file(&source.name, "pipe, socket or device"));
    }
    let Answer::Entry(entry) = at_place(service, &to, &target)? else {
        return Err(Error::moved(&target.name));
    };
    Ok(Answer::Job { done: copied.entries, bytes: copied.bytes, skipped: copied.skipped, entry: Some(entry) })
}

fn copy_one(
    service: &Service,
    talk: &mut Talk,
    (from, name): (&OwnedFd, &[u8]),
    (to, new): (&OwnedFd, &[u8]),
    path: &str,
    depth: usize,
    copied: &mut Copied,
) -> Result<()> {
    talk.progress(copied.entries, copied.bytes, || path.to_owned())?;
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).of(name)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => copy_file(talk, from, name, (to, new), path, copied)?,
        FileType::Symlink => {
            let target = readlinkat(from, name, Vec::new()).of(name)?;
            symlinkat(target, to, new).of(name)?;
        }
        FileType::Directory if depth >= MAX_DEPTH => return Err(too_deep(path.as_bytes())),
        FileType::Directory => {
            let inner = look_into(from.as_fd(), name).of(name)?;
            // Writable until all is in it.
            mkdirat(to, new, Mode::from_raw_mode(0o700)).of(name)?;
            let made = look_into(to.as_fd(), new).of(name)?;
            for own in whole_names(service, talk, &read_folder(inner.as_fd()).of(name)?, name)? {
                let path = format!("{path}/{}", encode(&own));
                copy_one(service, talk, (&inner, &own), (&made, &own), &path, depth + 1, copied)?;
            }
            let mode = Mode::from_raw_mode(fstat(&inner).of(name)?.st_mode & 0o7777);
            rustix::fs::fchmod(read_folder(made.as_fd()).of(name)?, mode).of(name)?;
        }
        _ => {
            copied.skipped += 1;
            // A single one has nothing to be copied to.
            return if depth == 0 { Err(Error::not_a_file(name, "pipe, socket or device")) } else { Ok(()) };
        }
    }
    copied.entries += 1;
    Ok(())
}

fn copy_file(
    talk: &mut Talk,
    from: &OwnedFd,
    name: &[u8],
    (to, new): (&OwnedFd, &[u8]),
    path: &str,
    copied: &mut Copied,
) -> Result<()> {
    let (file, stat) = read_file(from.as_fd(), name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = std::fs::File::from(openat(to, new, flags, Mode::from_raw_mode(0o600)).of(name)?);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let mut bytes = vec![0; MAX_DATA];
    let mut at = 0;
    // Not beyond the size at the beginning: a file that grows as fast as it is read would never end.
    while at < size {
        let most = bytes.len().min(usize::try_from(size - at).unwrap_or(usize::MAX));
        let count = file.read_at(&mut bytes[..most], at).of(name)?;
        if count == 0 {
            break;
        }
        copy.write_all(&bytes[..count]).of(name)?;
        at += count as u64;
        copied.bytes += count as u64;
        talk.progress(copied.entries, copied.bytes, || path.to_owned())?;
    }
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o7777)).of(name)?;
    Ok(())
}
