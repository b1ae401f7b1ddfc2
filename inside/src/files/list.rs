//! Pages of folders, and their versions.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, PAGE_BYTES};
use glassbox_shared::files::path::{decode, display, encode};
use glassbox_shared::files::{FileType, MAX_PAGE, SortBy, SortOrder};
use rustix::fs::{AtFlags, FileType as SystemType, RawDir, RawDirEntry, Stat, fstat, statat};
use rustix::io::Errno;

use super::Service;
use super::entry::{self, changed, kind_of};
use super::error::{Error, Naming as _, Result};
use super::root::Links;
use super::talk::Talk;

/// Larger folders are not listed: their names alone would take a good part of a small sandbox's memory.
const MAX_ENTRIES: usize = 500_000;
/// Folders up to here have a version that changes with each of their files; looking at all costs gVisor 40 ms.
const LOOKED_INTO: usize = 1_000;
/// What an entry takes beside its path and names.
const ENTRY_BYTES: usize = 400;
/// Bytes of entries that the kernel gives at once.
const BUFFER: usize = 64 * 1024;
/// Listings that are kept so that the next page need not be read anew, and for how long.
const KEPT: usize = 2;
const KEPT_FOR: Duration = Duration::from_secs(15);

/// Something in a folder, with what it is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub name: Box<[u8]>,
    pub kind: FileType,
    /// Size or time; 0 when sorted by neither.
    key: i128,
}

/// Listings of folders with many pages.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<Listing>>);

#[derive(Debug, Clone)]
struct Listing {
    of: (u64, i128, SortBy, SortOrder, String),
    at: Instant,
    version: String,
    items: Arc<Vec<Item>>,
}

/// What one page is asked with.
#[derive(Debug)]
pub struct Page {
    pub path: String,
    pub sort: SortBy,
    pub order: SortOrder,
    pub filter: String,
    pub cursor: Option<String>,
    pub limit: u32,
}

pub fn page(service: &Service, talk: &Talk, page: &Page) -> Result<Answer> {
    let parts = service.root.parts(&page.path)?;
    let folder = service.root.folder(&parts)?;
    let name = parts.join(&b'/');
    let stat = fstat(&folder).of(&name)?;
    let of = (stat.st_ino, changed(&stat), page.sort, page.order, page.filter.clone());
    let kept = page.cursor.as_ref().and_then(|_| service.kept.get(&of));
    let listing = if let Some(listing) = kept {
        listing
    } else {
        let listing = list(service, talk, &folder, &stat, page, of, &name)?;
        if listing.items.len() > page.limit as usize {
            service.kept.keep(listing.clone());
        }
        listing
    };
    let items = &listing.items;
    let start = match &page.cursor {
        None => 0,
        Some(cursor) => {
            let last = from_cursor(cursor)?;
            items.partition_point(|item| compare(item, &last, page.sort, page.order) != Ordering::Greater)
        }
    };
    let limit = page.limit.clamp(1, MAX_PAGE) as usize;
    let mut end = start;
    let mut entries = Vec::with_capacity(limit.min(items.len() - start));
    let mut bytes = 0;
    // Up to the limit of those that are there: the server takes no empty page for one after which more comes.
    while entries.len() < limit && bytes <= PAGE_BYTES && end < items.len() {
        talk.check()?;
        let item = &items[end];
        end += 1;
        // What is gone meanwhile is left out.
        let Ok(stat) = statat(&folder, &*item.name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let path: Vec<Vec<u8>> = parts.iter().cloned().chain([item.name.to_vec()]).collect();
        let mut entry = entry::entry(&service.root, &service.users, &path, &stat);
        if entry.kind == FileType::Link {
            entry.target = entry::target(&service.root, &path, &folder, &item.name);
        }
        let link = entry.target.as_ref().map_or(0, |target| target.path.len() + target.name.len());
        bytes += ENTRY_BYTES + entry.path.len() + entry.name.len() + link;
        entries.push(entry);
    }
    let next = (end < items.len()).then(|| cursor(&items[end - 1]));
    let version = listing.version.clone();
    Ok(Answer::Page { path: service.root.text(&parts), version, total: items.len() as u64, entries, next })
}

/// Reads and sorts all of it.
fn list(
    service: &Service,
    talk: &Talk,
    folder: &OwnedFd,
    stat: &Stat,
    page: &Page,
    of: (u64, i128, SortBy, SortOrder, String),
    name: &[u8],
) -> Result<Listing> {
    let mut items = read(service, talk, folder, name)?;
    let version = version_of(folder, stat, &items);
    if !page.filter.is_empty() {
        let wanted = page.filter.to_ascii_lowercase().into_bytes();
        items.retain(|item| {
            let name = item.name.to_ascii_lowercase();
            name.windows(wanted.len()).any(|part| part == wanted)
        });
    }
    if matches!(page.sort, SortBy::Size | SortBy::Modified) {
        for item in &mut items {
            talk.check()?;
            let Ok(stat) = statat(folder, &*item.name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            item.key = if page.sort == SortBy::Size { i128::from(stat.st_size) } else { changed(&stat) };
        }
    }
    items.sort_unstable_by(|a, b| compare(a, b, page.sort, page.order));
    Ok(Listing { of, at: Instant::now(), version, items: Arc::new(items) })
}

/// All that is in a folder but what is just being written, in no order.
fn read(service: &Service, talk: &Talk, folder: &OwnedFd, name: &[u8]) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    each(talk, folder, name, |entry| {
        let own = entry.file_name().to_bytes();
        if service.temporaries.hides(folder, own) {
            return items.len();
        }
        let kind = match entry.file_type() {
            SystemType::Unknown => statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(SystemType::Unknown, |stat| SystemType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        items.push(Item { name: own.into(), kind: kind_of(kind), key: 0 });
        items.len()
    })?;
    Ok(items)
}

/// Goes through a folder. `take` says how many entries it holds.
fn each(talk: &Talk, folder: &OwnedFd, name: &[u8], mut take: impl FnMut(&RawDirEntry<'_>) -> usize) -> Result<()> {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(folder.as_fd(), &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.of(name)?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let held = take(&entry);
        if held > MAX_ENTRIES {
            let detail =
                format!("{}: more than {MAX_ENTRIES} entries are more than can be gone through here", display(name));
            return Err(Error::new(ErrorCode::TooLarge, detail));
        }
        if held.is_multiple_of(1024) {
            talk.check()?;
        }
    }
    Ok(())
}

/// The names of all that is in a folder but what others are just writing: that is not for copies.
pub fn whole_names(service: &Service, talk: &Talk, folder: &OwnedFd, name: &[u8]) -> Result<Vec<Box<[u8]>>> {
    let mut names = names(talk, folder, name)?;
    names.retain(|name| !service.temporaries.hides(folder, name));
    Ok(names)
}

/// The names of all that is in a folder, temporary files too.
pub fn names(talk: &Talk, folder: &OwnedFd, name: &[u8]) -> Result<Vec<Box<[u8]>>> {
    let mut names = Vec::new();
    each(talk, folder, name, |entry| {
        names.push(entry.file_name().to_bytes().into());
        names.len()
    })?;
    Ok(names)
}

fn version_of(folder: &OwnedFd, stat: &Stat, items: &[Item]) -> String {
    let mut hasher = DefaultHasher::new();
    (changed(stat), stat.st_mode, items.len()).hash(&mut hasher);
    if items.len() <= LOOKED_INTO {
        let mut items: Vec<&Item> = items.iter().collect();
        items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for item in items {
            item.name.hash(&mut hasher);
            if let Ok(stat) = statat(folder, &*item.name, AtFlags::SYMLINK_NOFOLLOW) {
                entry::add_version(&mut hasher, &stat);
            }
        }
    }
    entry::text(&hasher)
}

/// The version of a folder or file.
pub fn version(service: &Service, talk: &Talk, path: &str) -> Result<String> {
    let parts = service.root.parts(path)?;
    let node = service.root.node(&parts, Links::Follow)?;
    if node.kind() != SystemType::Directory {
        return Ok(entry::version(&node.stat));
    }
    let name = parts.join(&b'/');
    let folder = super::root::read_folder(node.look.as_fd()).of(&name)?;
    Ok(version_of(&folder, &node.stat, &read(service, talk, &folder, &name)?))
}

fn compare(a: &Item, b: &Item, sort: SortBy, order: SortOrder) -> Ordering {
    let first = match sort {
        SortBy::Name => Ordering::Equal,
        SortBy::Size | SortBy::Modified => a.key.cmp(&b.key),
        SortBy::Type => a.kind.cmp(&b.kind),
    };
    let whole = first
        .then_with(|| a.name.iter().map(u8::to_ascii_lowercase).cmp(b.name.iter().map(u8::to_ascii_lowercase)))
        .then_with(|| a.name.cmp(&b.name));
    match order {
        SortOrder::Asc => whole,
        SortOrder::Desc => whole.reverse(),
    }
}

/// The last entry of a page, by which the next one is found also when the folder has changed.
fn cursor(item: &Item) -> String {
    format!("{}:{}:{}", item.kind as u8, item.key, encode(&item.name))
}

fn from_cursor(cursor: &str) -> Result<Item> {
    let parse = || {
        let mut parts = cursor.splitn(3, ':');
        let kinds =
            [FileType::Folder, FileType::File, FileType::Link, FileType::Fifo, FileType::Socket, FileType::Device];
        let kind = *kinds.get(parts.next()?.parse::<usize>().ok()?)?;
        let key = parts.next()?.parse().ok()?;
        Some(Item { kind, key, name: decode(parts.next()?).ok()?.into() })
    };
    parse().ok_or_else(|| Error::new(ErrorCode::Invalid, "cursor must be the `next` of a page before"))
}

impl Kept {
    fn get(&self, of: &(u64, i128, SortBy, SortOrder, String)) -> Option<Listing> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|listing| listing.of == *of && listing.at.elapsed() < KEPT_FOR).cloned()
    }

    fn keep(&self, listing: Listing) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.of != listing.of && other.at.elapsed() < KEPT_FOR);
        kept.truncate(KEPT - 1);
        kept.insert(0, listing);
    }
}

pub fn stat(service: &Service, path: &str, follow: bool) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    let found = service.root.find(&parts, if follow { Links::Follow } else { Links::Keep })?;
    if found.node.is_none() {
        return Err(Error::of(Errno::NOENT, &parts.join(&b'/')));
    }
    Ok(Answer::Entry(Box::new(entry::found(&service.root, &service.users, &parts, &found)?)))
}
