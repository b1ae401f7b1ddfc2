//! New content, new folders, new names. Content becomes visible as a whole or not at all: it is written to a temporary
//! file in the same folder, which then takes the name.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, TEMPORARY};
use glassbox_shared::files::path::display;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, fstatvfs, fsync, linkat, mkdirat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::Service;
use super::delete::remove;
use super::entry::{self, version};
use super::error::{Error, Naming as _, Result};
use super::list::names;
use super::root::{Found, Links, Place, read_folder, word};
use super::talk::Talk;

/// Folders that are remembered as looked through.
const MAX_LOOKED: usize = 1_000;

/// How a file is to be written.
#[derive(Debug)]
pub struct Write {
    pub path: String,
    pub expected: Option<String>,
    pub new: bool,
    pub parents: bool,
    pub limit: u64,
}

/// A file under a name that nobody else uses, gone again unless it is given its real name.
#[derive(Debug)]
pub struct Temporary {
    pub file: File,
    folder: OwnedFd,
    name: LiveName,
    named: bool,
}

/// A temporary name, hidden until this is dropped: after what had it has its real name or is gone.
#[derive(Debug)]
pub struct LiveName {
    name: String,
    live: Live,
}

/// Names under which something is being written.
type Live = Arc<Mutex<HashSet<String>>>;

impl LiveName {
    pub fn as_str(&self) -> &str {
        &self.name
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl Drop for LiveName {
    fn drop(&mut self) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Seeded by the system for each.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Is it exactly what [`Temporaries::name`] makes, here or in a service before? What only begins like it is somebody's own.
fn is_temporary(name: &[u8]) -> bool {
    let hex = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    name.strip_prefix(TEMPORARY.as_bytes())
        .is_some_and(|rest| rest.len() == 8 + 1 + 16 && rest[8] == b'-' && hex(&rest[..8]) && hex(&rest[9..]))
}

/// What this service calls its temporary files, and where it has looked for those of dead ones: a service that was killed,
/// or whose sandbox died, leaves what it was writing.
#[derive(Debug)]
pub struct Temporaries {
    prefix: String,
    live: Live,
    looked: Mutex<HashSet<(u64, u64)>>,
}

impl Temporaries {
    pub fn new() -> Self {
        let prefix = format!("{TEMPORARY}{:08x}-", random() >> 32);
        Self { prefix, live: Live::default(), looked: Mutex::default() }
    }

    /// A name that is nobody's.
    pub fn name(&self) -> LiveName {
        let name = format!("{}{:016x}", self.prefix, random());
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        LiveName { name, live: Arc::clone(&self.live) }
    }

    /// Is it something that is just being written, which is not for listings and copies? What only looks like it is shown:
    /// nobody hides anything by a name.
    pub fn hides(&self, folder: &OwnedFd, name: &[u8]) -> bool {
        if !is_temporary(name) {
            return false;
        }
        let live = std::str::from_utf8(name)
            .is_ok_and(|name| self.live.lock().unwrap_or_else(PoisonError::into_inner).contains(name));
        // One that was being written when the folder was read may have its real name by now.
        live || matches!(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// Removes what dead services left in a folder; at the first writing to it, once. What cannot be removed stays.
    pub fn clear(&self, talk: &Talk, folder: &OwnedFd, shown: &[u8]) -> Result<()> {
        let stat = fstat(folder).of(shown)?;
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            // Forgetting costs a look.
            if looked.len() >= MAX_LOOKED {
                looked.clear();
            }
            if !looked.insert((stat.st_dev, stat.st_ino)) {
                return Ok(());
            }
        }
        // A folder that is too large to be gone through can be written to all the same.
        let Ok(listed) = read_folder(folder.as_fd()).of(shown).and_then(|all| names(talk, &all, shown)) else {
            return Ok(());
        };
        for name in listed {
            if is_temporary(&name) && !name.starts_with(self.prefix.as_bytes()) {
                let _ = remove(&mut talk.deaf(), folder, &name, true, "", 0, &mut 0);
            }
        }
        Ok(())
    }
}

impl Temporary {
    pub fn make(service: &Service, talk: &Talk, folder: &OwnedFd, shown: &[u8]) -> Result<Self> {
        service.temporaries.clear(talk, folder, shown)?;
        let folder = folder.try_clone().of(shown)?;
        let name = service.temporaries.name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o666)).of(shown)?;
        Ok(Self { file: File::from(file), folder, name, named: false })
    }

    /// Gives it its name, when every byte is on the disk.
    pub fn name(mut self, place: &Place, replace: bool) -> Result<()> {
        self.file.sync_all().of(&place.name)?;
        if replace {
            rename(&self.folder, self.name.as_bytes(), place, true)?;
            self.named = true;
        } else {
            // The one step that never replaces, everywhere; the temporary name goes when this is dropped. (Only for what
            // is written out: gVisor forgets what it has not written yet of a file when one of its names goes.)
            let (from, to) = (self.name.as_str(), place.name.as_slice());
            linkat(&self.folder, from, &place.folder, to, AtFlags::empty()).of(to)?;
        }
        sync_folder(&place.folder);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.named {
            let _ = unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// So that the name survives too. The content has: where this fails, a crash may bring back the old name.
fn sync_folder(folder: &OwnedFd) {
    if let Ok(readable) = read_folder(folder.as_fd()) {
        let _ = fsync(readable);
    }
}

/// Gives something another name.
///
/// gVisor's file systems on the host (workspaces) cannot refuse to replace. Then it is looked whether the name is free: a
/// file that gets that name between the look and the rename is replaced all the same.
pub fn rename(folder: &OwnedFd, name: &[u8], to: &Place, replace: bool) -> Result<()> {
    let there = to.name.as_slice();
    let mut done = if replace {
        renameat(folder, name, &to.folder, there)
    } else {
        renameat_with(folder, name, &to.folder, there, RenameFlags::NOREPLACE)
    };
    if !replace && matches!(done, Err(Errno::INVAL | Errno::NOSYS)) {
        done = match statat(&to.folder, there, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(folder, name, &to.folder, there),
            Err(errno) => Err(errno),
        };
    }
    match done {
        // A folder cannot take a file's name, nor the other way round, nor that of a folder with something in it.
        Err(Errno::NOTDIR | Errno::ISDIR | Errno::NOTEMPTY) => Err(Error::of(Errno::EXIST, there)),
        other => other.of(there),
    }
}

/// Refuses what is not a regular file, and what is not the version that was expected.
fn check_expected(name: &[u8], there: Option<&Stat>, expected: Option<&str>, new: bool) -> Result<()> {
    let changed = |detail: &str| Err(Error::new(ErrorCode::Changed, format!("{}: {detail}", display(name))));
    if let Some(stat) = there {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Err(Error::not_a_file(name, word(kind)));
        }
    }
    match (expected, there) {
        (_, Some(_)) if new => changed("it is there already"),
        (Some(_), None) => changed("it is not there any more"),
        (Some(expected), Some(stat)) if version(stat) != expected => {
            changed("it was changed meanwhile; look at the new content and try again")
        }
        _ => Ok(()),
    }
}

pub fn write(service: &Service, talk: &Talk, write: &Write) -> Result<Answer> {
    let parts = service.root.parts(&write.path)?;
    let shown = parts.join(&b'/');
    let Some((_, above)) = parts.split_last() else {
        return Err(Error::not_a_file(&shown, "folder"));
    };
    if write.parents {
        make_folders(service, above)?;
    }
    let Found { place, node } = service.root.find(&parts, Links::Follow)?;
    let expected = write.expected.as_deref();
    check_expected(&shown, node.as_ref().map(|node| &node.stat), expected, write.new)?;
    let Some(place) = place else {
        return Err(Error::not_a_file(&shown, "folder"));
    };
    let mut temporary = Temporary::make(service, talk, &place.folder, &shown)?;
    let mut length = 0;
    while let Some(bytes) = talk.receive()? {
        length += bytes.len() as u64;
        if length > write.limit {
            return Err(too_large(&shown, write.limit));
        }
        temporary.file.write_all(&bytes).of(&shown)?;
    }
    // What is there now decides, not what was there when the first byte came.
    let there = match statat(&place.folder, place.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(Error::of(errno, &shown)),
    };
    check_expected(&shown, there.as_ref(), expected, write.new)?;
    if let Some(stat) = &there {
        keep_permissions(&temporary.file, stat);
    }
    let named = temporary.name(&place, !write.new);
    if write.new && matches!(&named, Err(error) if error.code == ErrorCode::Exists) {
        check_expected(&shown, there.as_ref(), expected, false)?;
        return Err(Error::new(ErrorCode::Changed, format!("{}: it is there already", display(&shown))));
    }
    named?;
    at_place(service, &parts, &place)
}

pub fn too_large(shown: &[u8], limit: u64) -> Error {
    let detail = format!("{}: files of more than {limit} bytes are not taken here", display(shown));
    Error::new(ErrorCode::TooLarge, detail)
}

/// As far as the sandbox's user may.
fn keep_permissions(file: &File, stat: &Stat) {
    use std::os::unix::fs::{PermissionsExt as _, fchown};
    let _ = fchown(file, Some(stat.st_uid), Some(stat.st_gid));
    let _ = file.set_permissions(std::fs::Permissions::from_mode(stat.st_mode & 0o7777));
}

/// What there is now.
pub fn at_place(service: &Service, parts: &[Vec<u8>], place: &Place) -> Result<Answer> {
    let stat = statat(&place.folder, place.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).of(&place.name)?;
    let mut entry = entry::entry(&service.root, &service.users, parts, &stat);
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        entry.target = entry::target(&service.root, parts, &place.folder, &place.name);
    }
    Ok(Answer::Entry(Box::new(entry)))
}

/// Makes what is missing of it. Each step is walked from the root again, so that links count as everywhere.
fn make_folders(service: &Service, parts: &[Vec<u8>]) -> Result<()> {
    for length in 1..=parts.len() {
        let parts = &parts[..length];
        let shown = parts.join(&b'/');
        match service.root.find(parts, Links::Follow)? {
            Found { node: Some(node), .. } if node.kind() == FileType::Directory => {}
            Found { node: Some(_), .. } => return Err(Error::of(Errno::NOTDIR, &shown)),
            Found { place: Some(place), node: None } => {
                match mkdirat(&place.folder, place.name.as_slice(), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(Error::of(errno, &shown)),
                }
            }
            Found { place: None, node: None } => return Err(Error::of(Errno::NOENT, &shown)),
        }
    }
    Ok(())
}

pub fn make_folder(service: &Service, path: &str) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    let shown = parts.join(&b'/');
    if let Ok(Found { node: Some(node), .. }) = service.root.find(&parts, Links::Follow)
        && node.kind() != FileType::Directory
    {
        return Err(Error::of(Errno::EXIST, &shown));
    }
    make_folders(service, &parts)?;
    super::list::stat(service, path, true)
}

pub fn rename_entry(service: &Service, from: &str, to: &str, replace: bool) -> Result<Answer> {
    let (from, to) = (service.root.parts(from)?, service.root.parts(to)?);
    let source = source(service, &from)?;
    if service.root.holds_workspace(&from) {
        return Err(Error::new(ErrorCode::Conflict, "the workspace cannot be renamed"));
    }
    let target = target(service, &to, replace)?;
    match rename(&source.folder, &source.name, &target, replace) {
        Err(error) if to.starts_with(&from) && to != from => {
            let detail = format!("a folder cannot be moved into itself ({})", error.detail);
            return Err(Error::new(ErrorCode::Conflict, detail));
        }
        other => other?,
    }
    at_place(service, &to, &target)
}

/// What is to be moved or copied: it must be there and have a name.
pub fn source(service: &Service, parts: &[Vec<u8>]) -> Result<Place> {
    let Found { place, node } = service.root.find(parts, Links::Keep)?;
    if node.is_none() {
        return Err(Error::of(Errno::NOENT, &parts.join(&b'/')));
    }
    place.ok_or_else(|| Error::new(ErrorCode::Conflict, "this folder itself cannot be moved, copied or deleted"))
}

/// Where it is to be.
pub fn target(service: &Service, parts: &[Vec<u8>], replace: bool) -> Result<Place> {
    let shown = parts.join(&b'/');
    let Found { place, node } = service.root.find(parts, Links::Keep)?;
    if let Some(node) = node
        && (!replace || node.kind() == FileType::Directory)
    {
        return Err(Error::of(Errno::EXIST, &shown));
    }
    place.ok_or_else(|| Error::of(Errno::EXIST, &shown))
}

/// Refuses at once what will not fit. Where the system cannot say, writing finds out.
pub fn check_room(folder: &OwnedFd, size: u64, shown: &[u8]) -> Result<()> {
    match fstatvfs(folder) {
        Ok(disk) if disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < size => {
            Err(Error::of(Errno::NOSPC, shown))
        }
        _ => Ok(()),
    }
}
