//! From a path to what is there, by descriptors only.
//!
//! A path is walked part by part: each part is opened in the folder that is held open, without following a link, and what
//! was opened is asked what it is. Links are read from their descriptor and walked in the same way; `..` goes back to the
//! folder that the walk came from, whatever has become of its name. So nothing that changes under a walk can lead it out
//! of its root: no name is ever resolved twice, and never by the kernel across more than one part.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::path::{display, encode, parts};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

use super::error::{Error, Naming as _, Result};

/// Links that one walk follows, as Linux has it (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Folders above one another: each is a descriptor held open while a walk or a tree is under way.
pub const MAX_DEPTH: usize = 400;

/// Only to look at, never through a link.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What may be reached.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// The workspace's absolute path.
    workspace: Vec<Vec<u8>>,
    confined: bool,
}

/// Does a walk follow a link in its last part?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Keep,
}

/// Where a walk ended.
#[derive(Debug)]
pub struct Found {
    /// The folder that holds it, and its name there; `None`: it is the root, or was reached by going up.
    pub place: Option<Place>,
    /// What is there; `None`: nothing is, but its folder is.
    pub node: Option<Node>,
}

/// A name in a folder that is held open.
#[derive(Debug)]
pub struct Place {
    pub folder: OwnedFd,
    pub name: Vec<u8>,
}

/// Something that was seen, held open only to look at.
#[derive(Debug)]
pub struct Node {
    pub look: OwnedFd,
    pub stat: Stat,
}

impl Node {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// Parts of a path as it was asked for, from the root.
pub type Parts = Vec<Vec<u8>>;

impl Root {
    /// Opens it. In a confined one nothing outside the workspace can be reached.
    pub fn open(workspace: &str, confined: bool) -> Result<Self> {
        let parts = parts(workspace)?;
        let start = if confined { workspace } else { "/" };
        let flags = LOOK.union(OFlags::DIRECTORY);
        let folder = rustix::fs::open(start, flags, Mode::empty()).of(start.as_bytes())?;
        Ok(Self { folder, workspace: parts, confined })
    }

    /// A path as somebody wrote it, from the root. An absolute one is that in both kinds; a relative one begins at the
    /// workspace in both.
    pub fn parts(&self, path: &str) -> Result<Parts> {
        let given = parts(path)?;
        match (self.confined, path.starts_with('/')) {
            (true, false) | (false, true) => Ok(given),
            (true, true) => self.below_workspace(given).ok_or_else(|| outside(path.as_bytes())),
            (false, false) => Ok(self.workspace.iter().cloned().chain(given).collect()),
        }
    }

    /// How a path from the root is told.
    pub fn text(&self, parts: &[Vec<u8>]) -> String {
        let joined = parts.join(&b'/');
        if self.confined { encode(&joined) } else { format!("/{}", encode(&joined)) }
    }

    /// Is it the workspace, or something that the workspace lies in?
    pub fn holds_workspace(&self, parts: &[Vec<u8>]) -> bool {
        if self.confined { parts.is_empty() } else { self.workspace.starts_with(parts) }
    }

    fn below_workspace(&self, absolute: Parts) -> Option<Parts> {
        absolute.strip_prefix(self.workspace.as_slice()).map(<[Vec<u8>]>::to_vec)
    }

    /// Walks.
    pub fn find(&self, parts: &[Vec<u8>], links: Links) -> Result<Found> {
        let whole = parts.join(&b'/');
        // What is still to be walked, the next part last.
        let mut todo: Parts = parts.iter().rev().cloned().collect();
        // The folders that lead here, without the root.
        let mut stack: Vec<OwnedFd> = Vec::new();
        let mut followed = 0;
        while let Some(part) = todo.pop() {
            if part == b".." {
                // Only links go up.
                if stack.pop().is_none() && self.confined {
                    return Err(outside(&whole));
                }
                continue;
            }
            let here = stack.last().unwrap_or(&self.folder);
            let last = todo.is_empty();
            let look = match openat(here, part.as_slice(), LOOK, Mode::empty()) {
                Ok(look) => look,
                Err(Errno::NOENT) if last => {
                    let place = Place { folder: again(here.as_fd(), &whole)?, name: part };
                    return Ok(Found { place: Some(place), node: None });
                }
                Err(errno) => return Err(Error::of(errno, &whole)),
            };
            let stat = fstat(&look).of(&whole)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink if !last || links == Links::Follow => {
                    followed += 1;
                    if followed > MAX_LINKS {
                        return Err(Error::of(Errno::LOOP, &whole));
                    }
                    let target = readlinkat(&look, c"", Vec::new()).of(&whole)?.into_bytes();
                    let mut next = link_parts(&target);
                    if target.starts_with(b"/") {
                        stack.clear();
                        if self.confined {
                            next = self.below_workspace(next).ok_or_else(|| outside(&whole))?;
                        }
                    }
                    todo.extend(next.into_iter().rev());
                    // Two links of 4 kB each in one another are longer than any path may be.
                    if todo.len() > 2 * glassbox_shared::files::path::MAX_PATH {
                        return Err(Error::of(Errno::NAMETOOLONG, &whole));
                    }
                }
                FileType::Directory if !last => {
                    if stack.len() >= MAX_DEPTH {
                        return Err(too_deep(&whole));
                    }
                    stack.push(look);
                }
                _ if last => {
                    let place = Place { folder: again(here.as_fd(), &whole)?, name: part };
                    return Ok(Found { place: Some(place), node: Some(Node { look, stat }) });
                }
                _ => return Err(Error::of(Errno::NOTDIR, &whole)),
            }
        }
        let look = match stack.pop() {
            Some(folder) => folder,
            None => again(self.folder.as_fd(), &whole)?,
        };
        let stat = fstat(&look).of(&whole)?;
        Ok(Found { place: None, node: Some(Node { look, stat }) })
    }

    /// Something that must be there.
    pub fn node(&self, parts: &[Vec<u8>], links: Links) -> Result<Node> {
        self.find(parts, links)?.node.ok_or_else(|| Error::of(Errno::NOENT, &parts.join(&b'/')))
    }

    /// A folder that must be there, to be read.
    pub fn folder(&self, parts: &[Vec<u8>]) -> Result<OwnedFd> {
        let node = self.node(parts, Links::Follow)?;
        let name = parts.join(&b'/');
        if node.kind() != FileType::Directory {
            return Err(Error::of(Errno::NOTDIR, &name));
        }
        read_folder(node.look.as_fd()).of(&name)
    }
}

/// Another descriptor of the same folder.
fn again(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    folder.try_clone_to_owned().of(name)
}

/// A folder in a folder, only to look at, never through a link. (A folder that is opened to be read must not be opened by
/// name: gVisor of 2024-07 follows a link for `O_DIRECTORY`, whatever `O_NOFOLLOW` says, unless `O_PATH` is there.)
pub fn look_into(folder: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, LOOK.union(OFlags::DIRECTORY), Mode::empty())
}

/// The same folder, to be read.
pub fn read_folder(folder: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    openat(folder, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a regular file in a folder, to be read; nothing else, and without waiting for whoever made it something else.
pub fn read_file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(std::fs::File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match openat(folder, name, flags, Mode::empty()) {
        // Whoever followed it before has found no link there.
        Err(Errno::LOOP) => return Err(Error::moved(name)),
        other => other.of(name)?,
    };
    let stat = fstat(&file).of(name)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((std::fs::File::from(file), stat)),
        other => Err(Error::not_a_file(name, word(other))),
    }
}

/// What stands in a link; unlike in a path that was asked for, `..` may.
fn link_parts(target: &[u8]) -> Parts {
    target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).map(<[u8]>::to_vec).collect()
}

/// Of a thing without content, for people.
pub fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "thing",
    }
}

fn outside(path: &[u8]) -> Error {
    let detail =
        format!("{}: this leads out of the workspace, and nothing outside it can be reached here", display(path));
    Error::new(ErrorCode::OutsideWorkspace, detail)
}

pub fn too_deep(path: &[u8]) -> Error {
    Error::new(ErrorCode::BadName, format!("{}: more than {MAX_DEPTH} folders lie in one another", display(path)))
}
