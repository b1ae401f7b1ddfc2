//! What is told of a file.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;

use glassbox_shared::files::path::{display, encode, last};
use glassbox_shared::files::{FileEntry, FileType, LinkTarget};
use rustix::fs::{FileType as SystemType, OFlags, Stat, readlinkat};

use super::error::{Naming as _, Result};
use super::root::{Found, Links, Root};

/// Users that are known by name, and how much of their list is read.
const MAX_USERS: usize = 1_000;
const MAX_PASSWD: u64 = 256 * 1024;
/// Longest name of a user that is told.
const MAX_USER: usize = 64;

/// Names of the sandbox's users.
#[derive(Debug, Default)]
pub struct Users(HashMap<u32, String>);

impl Users {
    /// Reads `/etc/passwd`, as far as it is one.
    pub fn read() -> Self {
        Self::try_read().unwrap_or_default()
    }

    fn try_read() -> std::io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open("/etc/passwd")?;
        if !file.metadata()?.is_file() {
            return Ok(Self::default());
        }
        let mut bytes = Vec::new();
        file.take(MAX_PASSWD).read_to_end(&mut bytes)?;
        Ok(Self::of(&bytes))
    }

    fn of(passwd: &[u8]) -> Self {
        let users = passwd.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let (name, number) = (fields.next()?, fields.nth(1)?);
            let number = std::str::from_utf8(number).ok()?.parse().ok()?;
            Some((number, display(name).chars().take(MAX_USER).collect()))
        });
        let mut names = HashMap::new();
        for (number, name) in users.take(MAX_USERS) {
            names.entry(number).or_insert(name);
        }
        Self(names)
    }
}

pub fn kind_of(kind: SystemType) -> FileType {
    match kind {
        SystemType::RegularFile => FileType::File,
        SystemType::Directory => FileType::Folder,
        SystemType::Symlink => FileType::Link,
        SystemType::Fifo => FileType::Fifo,
        SystemType::Socket => FileType::Socket,
        _ => FileType::Device,
    }
}

pub fn kind_of_stat(stat: &Stat) -> FileType {
    kind_of(SystemType::from_raw_mode(stat.st_mode))
}

/// When the content changed, in nanoseconds.
pub fn changed(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// Adds what distinguishes two versions. Neither the inode's number nor the time of its last change: gVisor makes up the
/// first anew in every sandbox, and may tell another one for the second once it has forgotten a file and looks again.
pub fn add_version(hasher: &mut DefaultHasher, stat: &Stat) {
    (kind_of_stat(stat) as u8, stat.st_size, changed(stat), stat.st_mode & 0o7777).hash(hasher);
}

/// The version of a file.
pub fn version(stat: &Stat) -> String {
    let mut hasher = DefaultHasher::new();
    add_version(&mut hasher, stat);
    text(&hasher)
}

/// A hash as text.
pub fn text(hasher: &DefaultHasher) -> String {
    format!("{:016x}", hasher.finish())
}

/// Everything but a link's target.
pub fn entry(root: &Root, users: &Users, parts: &[Vec<u8>], stat: &Stat) -> FileEntry {
    FileEntry {
        path: root.text(parts),
        name: parts.last().map(|name| display(name)).unwrap_or_default(),
        kind: kind_of_stat(stat),
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: format!("{:04o}", stat.st_mode & 0o7777),
        uid: stat.st_uid,
        gid: stat.st_gid,
        owner: users.0.get(&stat.st_uid).cloned(),
        modified: changed(stat) as f64 / 1e9,
        version: version(stat),
        target: None,
    }
}

/// Where a link leads.
pub fn target(root: &Root, parts: &[Vec<u8>], folder: impl AsFd, name: &[u8]) -> Option<LinkTarget> {
    let target = readlinkat(folder, name, Vec::new()).ok()?.into_bytes();
    let there = root.node(parts, Links::Follow).ok();
    Some(LinkTarget {
        path: encode(&target),
        name: display(if target.is_empty() { &target } else { last(&target) }),
        kind: there.map(|node| kind_of(node.kind())),
    })
}

/// Of something that was found.
pub fn found(root: &Root, users: &Users, parts: &[Vec<u8>], found: &Found) -> Result<FileEntry> {
    let node = found.node.as_ref().ok_or(rustix::io::Errno::NOENT).of(&parts.join(&b'/'))?;
    let mut entry = entry(root, users, parts, &node.stat);
    if entry.kind == FileType::Link
        && let Some(place) = &found.place
    {
        entry.target = target(root, parts, &place.folder, &place.name);
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_user_counts_and_nonsense_is_passed_over() {
        let users = Users::of(b"root:x:0:0::/:/bin/sh\n\nnonsense\ntoor:x:0:0\nb\x1bd:x:7:7\nx:y:z\n");
        assert_eq!(users.0.get(&0).map(String::as_str), Some("root"));
        assert_eq!(users.0.get(&7).map(String::as_str), Some("b\\u{1b}d"));
        assert_eq!(users.0.len(), 2);
    }
}
