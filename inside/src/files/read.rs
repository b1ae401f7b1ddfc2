//! Content of files.

use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, FromFiles, Head, MAX_DATA, Range};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::Service;
use super::entry;
use super::error::{Error, Naming as _, Result};
use super::root::{Links, read_file, word};
use super::talk::Talk;

/// Files that say they are empty and are not (those in /proc) are read up to here before anything is told of them.
const MADE_UP: usize = 1024 * 1024;

pub fn read(service: &Service, talk: &Talk, path: &str, range: Range) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    let name = parts.join(&b'/');
    let found = service.root.find(&parts, Links::Follow)?;
    let node = found.node.ok_or_else(|| Error::of(Errno::NOENT, &name))?;
    if node.kind() != FileType::RegularFile {
        return Err(Error::not_a_file(&name, word(node.kind())));
    }
    let place = found.place.ok_or_else(|| Error::moved(&name))?;
    // Opened by its name in the folder that is held; what it is is looked at again once it is open.
    let (file, stat) = read_file(place.folder.as_fd(), &place.name)?;
    if (stat.st_dev, stat.st_ino) != (node.stat.st_dev, node.stat.st_ino) {
        return Err(Error::moved(&name));
    }
    let mut entry = entry::entry(&service.root, &service.users, &parts, &stat);
    let made_up = if entry.size == 0 { read_made_up(&file, &name)? } else { Vec::new() };
    if !made_up.is_empty() {
        entry.size = made_up.len() as u64;
    }
    let (start, end) = bounds(range, entry.size)?;
    talk.say(&FromFiles::Head(Box::new(Head { entry, start, length: Some(end - start) })));
    if !made_up.is_empty() {
        for piece in made_up[start as usize..end as usize].chunks(MAX_DATA) {
            talk.send(piece.to_vec())?;
        }
        return Ok(Answer::Nothing);
    }
    let mut at = start;
    while at < end {
        let mut bytes = vec![0; MAX_DATA.min(usize::try_from(end - at).unwrap_or(MAX_DATA))];
        let count = file.read_at(&mut bytes, at).of(&name)?;
        if count == 0 {
            return Err(Error::new(ErrorCode::Conflict, "the file became shorter while it was read"));
        }
        bytes.truncate(count);
        at += count as u64;
        talk.send(bytes)?;
    }
    Ok(Answer::Nothing)
}

fn read_made_up(file: &std::fs::File, name: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; MADE_UP];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            // Some of these cannot be read from an offset, or only by some.
            Err(error) if length == 0 => return Err(Error::of_io(&error, name)),
            Err(_) => break,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// From where to before where.
fn bounds(range: Range, size: u64) -> Result<(u64, u64)> {
    let beyond = || Error::new(ErrorCode::OffsetBeyondEnd, format!("the file has {size} bytes"));
    match range {
        Range::Nothing => Ok((0, 0)),
        Range::All => Ok((0, size)),
        Range::FromTo(start, end) if start < size && start < end => Ok((start, end.min(size))),
        Range::Last(count) if count > 0 && size > 0 => Ok((size.saturating_sub(count), size)),
        Range::FromTo(..) | Range::Last(_) => Err(beyond()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_end_and_refused_beyond_it() {
        assert_eq!(bounds(Range::FromTo(2, 99), 10), Ok((2, 10)));
        assert_eq!(bounds(Range::Last(3), 10), Ok((7, 10)));
        assert_eq!(bounds(Range::Last(30), 10), Ok((0, 10)));
        assert_eq!(bounds(Range::All, 0), Ok((0, 0)));
        for wrong in [Range::FromTo(10, 11), Range::FromTo(3, 3), Range::Last(0)] {
            assert_eq!(bounds(wrong, 10).map_err(|e| e.code), Err(ErrorCode::OffsetBeyondEnd));
        }
        assert!(bounds(Range::Last(1), 0).is_err());
    }
}
