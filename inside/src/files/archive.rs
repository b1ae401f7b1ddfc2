//! A folder as `.tar.gz`, made while it is sent. The format is ustar with GNU's long names, which are bytes of any
//! length; `tar` of every system reads it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, FromFiles, Head, MAX_DATA};
use glassbox_shared::files::path::display;
use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};

use super::Service;
use super::entry;
use super::error::{Error, Naming as _, Result};
use super::list::whole_names;
use super::root::{Links, MAX_DEPTH, look_into, read_file, read_folder};
use super::talk::Talk;

const BLOCK: usize = 512;
/// What could not be packed is told in the archive itself, at most this much of it.
const SKIPPED: &str = "glassbox-skipped.txt";
const MAX_SKIPPED: usize = 64 * 1024;

pub fn archive(service: &Service, talk: &Talk, path: &str) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    let shown = parts.join(&b'/');
    let node = service.root.node(&parts, Links::Follow)?;
    if node.kind() != FileType::Directory {
        return Err(Error::new(ErrorCode::NotAFolder, format!("{}: only folders are packed", display(&shown))));
    }
    let folder = read_folder(node.look.as_fd()).of(&shown)?;
    let entry = entry::entry(&service.root, &service.users, &parts, &node.stat);
    talk.say(&FromFiles::Head(Box::new(Head { entry, start: 0, length: None })));
    let name = parts.last().cloned().unwrap_or_else(|| b"workspace".to_vec());
    let out = Pieces { talk, bytes: Vec::with_capacity(MAX_DATA), failure: None };
    let mut packer = Packer { service, gz: GzEncoder::new(out, Compression::fast()), skipped: Vec::new() };
    let packed = packer.pack(&folder, &node.stat, &name).and_then(|()| packer.finish());
    // The failure of the conversation says more than the error that the encoder made of it.
    match (packed, packer.gz.get_mut().failure.take()) {
        (_, Some(failure)) => Err(failure),
        (Err(error), None) => Err(Error::of_io(&error, &shown)),
        (Ok(()), None) => Ok(Answer::Nothing),
    }
}

/// Collects bytes into frames.
struct Pieces<'a> {
    talk: &'a Talk,
    bytes: Vec<u8>,
    failure: Option<Error>,
}

impl Pieces<'_> {
    fn send(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(MAX_DATA));
        self.talk.send(bytes).map_err(|error| {
            self.failure = Some(error);
            io::Error::other("the conversation is over")
        })
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(MAX_DATA - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..count]);
        if self.bytes.len() == MAX_DATA {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { self.send() }
    }
}

struct Packer<'a> {
    service: &'a Service,
    gz: GzEncoder<Pieces<'a>>,
    skipped: Vec<u8>,
}

impl Packer<'_> {
    fn skip(&mut self, name: &[u8], why: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.extend_from_slice(display(name).as_bytes());
            self.skipped.extend_from_slice(b": ");
            self.skipped.extend_from_slice(why.as_bytes());
            self.skipped.push(b'\n');
        }
    }

    fn pack(&mut self, folder: &OwnedFd, stat: &Stat, name: &[u8]) -> io::Result<()> {
        self.header(name, b'5', stat, 0, b"")?;
        self.pack_below(folder, name, 0)
    }

    fn pack_below(&mut self, folder: &OwnedFd, above: &[u8], depth: usize) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            self.skip(above, "too many folders lie in one another");
            return Ok(());
        }
        let listed = match whole_names(self.service, self.gz.get_ref().talk, folder, above) {
            Ok(listed) => listed,
            Err(error) => {
                self.skip(above, &error.detail);
                return Ok(());
            }
        };
        for own in listed {
            let name = [above, &own].join(&b'/');
            self.check()?;
            if let Err(error) = self.pack_one(folder, &own, &name, depth)? {
                self.skip(&name, &error.detail);
            }
        }
        Ok(())
    }

    /// Outer error: the archive is broken; inner: this one is left out.
    fn pack_one(&mut self, folder: &OwnedFd, own: &[u8], name: &[u8], depth: usize) -> io::Result<Result<()>> {
        let stat = match statat(folder, own, AtFlags::SYMLINK_NOFOLLOW).of(own) {
            Ok(stat) => stat,
            Err(error) => return Ok(Err(error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => match read_file(folder.as_fd(), own) {
                Ok((file, stat)) => self.pack_file(&file, &stat, name)?,
                Err(error) => return Ok(Err(error)),
            },
            FileType::Symlink => match readlinkat(folder, own, Vec::new()).of(own) {
                Ok(target) => self.header(name, b'2', &stat, 0, target.as_bytes())?,
                Err(error) => return Ok(Err(error)),
            },
            FileType::Directory => {
                match look_into(folder.as_fd(), own).and_then(|inner| read_folder(inner.as_fd())).of(own) {
                    Ok(inner) => {
                        self.header(name, b'5', &stat, 0, b"")?;
                        self.pack_below(&inner, name, depth + 1)?;
                    }
                    Err(error) => return Ok(Err(error)),
                }
            }
            other => return Ok(Err(Error::not_a_file(own, super::root::word(other)))),
        }
        Ok(Ok(()))
    }

    fn pack_file(&mut self, file: &File, stat: &Stat, name: &[u8]) -> io::Result<()> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.header(name, b'0', stat, size, b"")?;
        let mut bytes = vec![0; MAX_DATA];
        let mut at = 0;
        while at < size {
            let most = bytes.len().min(usize::try_from(size - at).unwrap_or(usize::MAX));
            // It became shorter, or cannot be read: its size is told already, so zeros stand for the rest.
            let Ok(count @ 1..) = file.read_at(&mut bytes[..most], at) else {
                self.skip(name, "it changed while it was packed; its end is filled with zeros");
                self.zeros(size - at)?;
                break;
            };
            self.gz.write_all(&bytes[..count])?;
            at += count as u64;
            self.check()?;
        }
        self.pad(size)
    }

    fn check(&mut self) -> io::Result<()> {
        let pieces = self.gz.get_mut();
        pieces.talk.check().map_err(|error| {
            pieces.failure = Some(error);
            io::Error::other("the conversation is over")
        })
    }

    fn zeros(&mut self, mut count: u64) -> io::Result<()> {
        let zeros = [0; 4096];
        while count > 0 {
            let most = zeros.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            self.gz.write_all(&zeros[..most])?;
            count -= most as u64;
            self.check()?;
        }
        Ok(())
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        self.zeros((BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64)
    }

    fn header(&mut self, name: &[u8], kind: u8, stat: &Stat, size: u64, link: &[u8]) -> io::Result<()> {
        let mut name = name.to_vec();
        if kind == b'5' {
            name.push(b'/');
        }
        for (long, what) in [(link, b'K'), (name.as_slice(), b'L')] {
            if long.len() > 100 {
                let length = long.len() as u64 + 1;
                self.gz.write_all(&block(b"././@LongLink", what, (0, 0, 0, 0), length, b""))?;
                self.gz.write_all(long)?;
                self.gz.write_all(&[0])?;
                self.pad(length)?;
            }
        }
        let owner = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid, stat.st_mtime.max(0) as u64);
        self.gz.write_all(&block(&name, kind, owner, size, link))
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.skipped.is_empty() {
            let text = std::mem::take(&mut self.skipped);
            let size = text.len() as u64;
            self.gz.write_all(&block(SKIPPED.as_bytes(), b'0', (0o644, 0, 0, 0), size, b""))?;
            self.gz.write_all(&text)?;
            self.pad(size)?;
        }
        self.zeros(2 * BLOCK as u64)?;
        self.gz.try_finish()?;
        self.gz.get_mut().flush()
    }
}

/// A header's 512 bytes.
fn block(name: &[u8], kind: u8, (mode, uid, gid, time): (u32, u32, u32, u64), size: u64, link: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(100)]);
    put(100, &number(u64::from(mode), 8));
    put(108, &number(u64::from(uid), 8));
    put(116, &number(u64::from(gid), 8));
    put(124, &number(size, 12));
    put(136, &number(time, 12));
    put(148, b"        ");
    put(156, &[kind]);
    put(157, &link[..link.len().min(100)]);
    put(257, b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// In octal digits, or where these do not suffice as GNU does it: binary, marked by the first bit.
fn number(value: u64, width: usize) -> Vec<u8> {
    let octal = format!("{value:0digits$o}\0", digits = width - 1).into_bytes();
    if octal.len() <= width {
        return octal;
    }
    let mut binary = vec![0; width];
    binary[0] = 0x80;
    binary[width - 8..].copy_from_slice(&value.to_be_bytes());
    if width == 8 {
        // Only 32-bit numbers stand in the narrow fields.
        binary[0] = 0x80;
    }
    binary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_too_large_for_digits_are_binary() {
        assert_eq!(number(0o644, 8), b"0000644\0");
        assert_eq!(number(8 << 30, 12)[0], 0x80);
        assert_eq!(number(8 << 30, 12)[4..], (8_u64 << 30).to_be_bytes());
        assert_eq!(number(u64::from(u32::MAX), 8), [0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }
}
