//! The tree: folders, opened one by one and loaded page by page, shown as rows of one table.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use glassbox_shared::files::{FileEntry, FolderPage, SortBy, SortOrder};

use super::marks::Marks;
use super::names::{is_folder, parent};

/// Entries asked for at a time, the most that the server gives: a jump to the end of a large folder passes all pages.
pub const PAGE: u32 = 1_000;
/// After a change this many entries of a folder are loaded again; the rest when it is scrolled to.
pub const RELOADED: usize = 1_000;
/// Folders that are open at a time; beyond it the one that is to be opened has to become the root.
pub const MOST_OPEN: usize = 32;

/// A folder that is open in the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folder {
    /// For the watch; empty until the first page came.
    pub version: String,
    /// Entries that it has (the filter applied).
    pub total: u64,
    /// Those that are here.
    pub entries: Vec<FileEntry>,
    /// Where to go on.
    pub next: Option<String>,
    /// A page is under way.
    pub loading: bool,
    /// Why it could not be loaded.
    pub problem: Option<String>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Levels below the root.
    pub depth: usize,
    /// What it shows; `None`: not loaded yet.
    pub entry: Option<FileEntry>,
    /// A folder that is open.
    pub open: bool,
    /// New or changed since it was looked at.
    pub fresh: bool,
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    root: String,
    /// By what it is sorted. Names ascending have the folders first ([`SortBy::Type`]).
    pub sort: SortBy,
    /// Which way.
    pub order: SortOrder,
    /// What names of the root's entries must hold.
    pub filter: String,
    folders: BTreeMap<String, Folder>,
    marks: Marks,
    /// Where each row comes from: folder by its place in `places`, entry, depth.
    lines: Vec<(u32, u32, u16)>,
    places: Vec<String>,
    /// Counts changes of what is asked for; late answers to older questions are dropped.
    pub turn: u32,
}

impl Tree {
    /// Of this folder, which is open.
    pub fn new(root: &str) -> Self {
        let mut tree = Self { root: root.to_owned(), sort: SortBy::Type, ..Self::default() };
        tree.folders.insert(root.to_owned(), Folder::default());
        tree
    }

    /// The folder at the top.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// A folder that is open.
    pub fn folder(&self, path: &str) -> Option<&Folder> {
        self.folders.get(path)
    }

    /// All that are open, the root among them.
    pub fn open_folders(&self) -> Vec<String> {
        self.folders.keys().cloned().collect()
    }

    /// Another root: everything begins anew.
    pub fn go(&mut self, root: &str) {
        let (sort, order, turn) = (self.sort, self.order, self.turn);
        *self = Self { sort, order, turn: turn + 1, ..Self::new(root) };
    }

    /// Sorts by this, or the other way round where it is sorted so already.
    pub fn sort_by(&mut self, sort: SortBy) {
        let same = self.sort == sort || (sort == SortBy::Name && self.sort == SortBy::Type);
        let order = match (same, self.order) {
            (true, SortOrder::Asc) => SortOrder::Desc,
            // The newest and the largest are what one looks for.
            (false, _) if matches!(sort, SortBy::Size | SortBy::Modified) => SortOrder::Desc,
            _ => SortOrder::Asc,
        };
        self.order = order;
        self.sort = if sort == SortBy::Name && order == SortOrder::Asc { SortBy::Type } else { sort };
        self.ask_again();
    }

    /// Only names that hold this.
    pub fn filter_by(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.ask_again();
    }

    fn ask_again(&mut self) {
        self.turn += 1;
        for folder in self.folders.values_mut() {
            *folder = Folder::default();
        }
        self.lay_out();
    }

    /// Opens a folder in the tree; false: it is, or too many are.
    pub fn open(&mut self, path: &str) -> bool {
        if self.folders.contains_key(path) || self.folders.len() >= MOST_OPEN {
            return false;
        }
        self.folders.insert(path.to_owned(), Folder::default());
        self.lay_out();
        true
    }

    /// Closes a folder and those in it.
    pub fn close(&mut self, path: &str) {
        let inside = format!("{}/", path.trim_end_matches('/'));
        let root = self.root.clone();
        self.folders.retain(|other, _| *other == root || (other != path && !other.starts_with(&inside)));
        self.lay_out();
    }

    /// What has to be loaded for the rows `from..to`: folders, each with where to go on. They count as under way.
    pub fn needs(&mut self, from: usize, to: usize) -> Vec<(String, Option<String>)> {
        let mut wanted = BTreeSet::new();
        for folder in &self.folders {
            if folder.1.version.is_empty() {
                wanted.insert(folder.0.clone());
            }
        }
        for (place, entry, _) in self.lines.get(from.min(self.lines.len())..to.min(self.lines.len())).unwrap_or(&[]) {
            let path = &self.places[*place as usize];
            if self.folders.get(path).is_some_and(|folder| *entry as usize >= folder.entries.len()) {
                wanted.insert(path.clone());
            }
        }
        let mut asked = Vec::new();
        for path in wanted {
            let Some(folder) = self.folders.get_mut(&path) else { continue };
            let more = folder.version.is_empty() || folder.next.is_some();
            if !folder.loading && folder.problem.is_none() && more {
                folder.loading = true;
                asked.push((path, folder.next.clone()));
            }
        }
        asked
    }

    /// A page came, in answer to a question of this turn.
    pub fn page(&mut self, turn: u32, path: &str, page: FolderPage) {
        let Some(folder) = self.folders.get_mut(path).filter(|_| turn == self.turn) else { return };
        folder.loading = false;
        folder.problem = None;
        // The first one's version: what changes while the others come is noticed by the watch.
        if folder.version.is_empty() {
            folder.version = page.version;
        }
        folder.next = page.next;
        folder.entries.extend(page.entries);
        // A folder that shrinks while its pages come must not leave rows that never fill.
        folder.total = if folder.next.is_some() {
            page.total.max(folder.entries.len() as u64)
        } else {
            folder.entries.len() as u64
        };
        self.lay_out();
    }

    /// A folder that changed was loaded again. What is new or different is marked.
    pub fn again(&mut self, turn: u32, path: &str, page: FolderPage) {
        let Some(folder) = self.folders.get_mut(path).filter(|_| turn == self.turn) else { return };
        self.marks.compare(&folder.entries, folder.next.is_none(), &page.entries);
        *folder = Folder {
            version: page.version,
            total: page.total,
            entries: page.entries,
            next: page.next,
            ..Folder::default()
        };
        if folder.next.is_none() {
            folder.total = folder.entries.len() as u64;
        }
        // Folders of the tree that are gone close.
        let there: HashSet<String> = folder.entries.iter().map(|entry| entry.path.clone()).collect();
        let whole = folder.next.is_none();
        let gone: Vec<String> = self
            .folders
            .keys()
            .filter(|other| whole && parent(other) == Some(path) && !there.contains(*other) && **other != self.root)
            .cloned()
            .collect();
        for path in gone {
            self.close(&path);
        }
        self.lay_out();
    }

    /// It could not be loaded.
    pub fn failed(&mut self, turn: u32, path: &str, why: &str) {
        if let Some(folder) = self.folders.get_mut(path).filter(|_| turn == self.turn) {
            folder.loading = false;
            folder.problem = Some(why.to_owned());
        }
    }

    /// The person at this page begins to make or change what is at this path. Until [`Tree::acted`] nothing is marked there.
    pub fn acts(&mut self, path: &str) {
        self.marks.acts(path);
    }

    /// They did; `version` is what they left there, `None`: nothing.
    pub fn acted(&mut self, path: &str, version: Option<String>) {
        let listed = self.listed(path).map(|entry| entry.version.clone());
        self.marks.acted(path, version, listed.as_deref());
    }

    /// Is something of theirs under way there?
    pub fn is_acting(&self, path: &str) -> bool {
        self.marks.is_acting(path)
    }

    /// Someone looked at it.
    pub fn looked_at(&mut self, path: &str) {
        self.marks.looked_at(path);
    }

    fn lay_out(&mut self) {
        self.lines.clear();
        self.places.clear();
        let root = self.root.clone();
        self.lay_out_folder(&root, 0);
    }

    fn lay_out_folder(&mut self, path: &str, depth: u16) {
        let Some(folder) = self.folders.get(path) else { return };
        let place = self.places.len() as u32;
        let (total, loaded) = (folder.total as u32, folder.entries.len() as u32);
        // Only folders can be open; few are.
        let inside: Vec<(u32, String)> = (folder.entries.iter().enumerate())
            .filter(|(_, entry)| is_folder(entry) && entry.path != path && self.folders.contains_key(&entry.path))
            .map(|(at, entry)| (at as u32, entry.path.clone()))
            .collect();
        self.places.push(path.to_owned());
        let mut at = 0;
        for (entry, path) in inside {
            self.lines.extend((at..=entry).map(|entry| (place, entry, depth)));
            at = entry + 1;
            self.lay_out_folder(&path, depth + 1);
        }
        self.lines.extend((at..total.max(loaded)).map(|entry| (place, entry, depth)));
    }

    /// Rows, loaded or not.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One of them.
    pub fn row(&self, at: usize) -> Option<Row> {
        let (place, entry, depth) = *self.lines.get(at)?;
        let folder = self.folders.get(&self.places[place as usize])?;
        let entry = folder.entries.get(entry as usize);
        let is = |set: &dyn Fn(&str) -> bool| entry.is_some_and(|entry| set(&entry.path));
        Some(Row {
            depth: depth.into(),
            entry: entry.cloned(),
            open: is(&|path| path != self.root && self.folders.contains_key(path)),
            fresh: is(&|path| self.marks.is_fresh(path)),
        })
    }

    /// What the list of its folder says of a path.
    pub fn listed(&self, path: &str) -> Option<&FileEntry> {
        self.folders.get(parent(path)?)?.entries.iter().find(|entry| entry.path == path)
    }

    /// Where a path is shown.
    pub fn position(&self, path: &str) -> Option<usize> {
        (0..self.len()).find(|at| self.entry_at(*at).is_some_and(|entry| entry.path == path))
    }

    fn entry_at(&self, at: usize) -> Option<&FileEntry> {
        let (place, entry, _) = *self.lines.get(at)?;
        self.folders.get(&self.places[place as usize])?.entries.get(entry as usize)
    }
}

#[cfg(test)]
mod tests {
    use glassbox_shared::files::FileType;

    use super::super::child;
    use super::*;
    use crate::state::samples::{entry, page};

    fn files(folder: &str, numbers: std::ops::Range<u32>) -> Vec<FileEntry> {
        numbers.map(|number| entry(&child(folder, &format!("{number:05}")), FileType::File, "a")).collect()
    }

    fn names(tree: &Tree) -> Vec<String> {
        (0..tree.len()).filter_map(|at| tree.row(at)?.entry).map(|entry| entry.path).collect()
    }

    #[test]
    fn a_large_folder_has_all_its_rows_at_once_and_loads_what_is_looked_at() {
        let mut tree = Tree::new("big");
        assert_eq!(tree.needs(0, 40), [("big".to_owned(), None)]);
        assert_eq!(tree.needs(0, 40), [], "it is under way");
        tree.page(0, "big", page("big", 65_000, files("big", 0..500), Some("c1")));
        assert_eq!((tree.len(), tree.needs(0, 40)), (65_000, vec![]));
        assert_eq!(tree.row(600).map(|row| row.entry), Some(None));
        assert_eq!(tree.needs(480, 520), [("big".to_owned(), Some("c1".to_owned()))]);
        tree.page(0, "big", page("big", 65_000, files("big", 500..1000), None));
        assert_eq!(tree.len(), 1000, "the last page says how many there really are");
    }

    #[test]
    fn an_answer_to_an_older_question_is_dropped() {
        let mut tree = Tree::new("");
        tree.needs(0, 9);
        tree.sort_by(SortBy::Size);
        tree.page(0, "", page("", 1, files("", 0..1), None));
        assert!(tree.is_empty());
        assert_eq!(tree.needs(0, 9).len(), 1, "and the new one is asked");
        assert_eq!((tree.sort, tree.order), (SortBy::Size, SortOrder::Desc), "the largest first");
        tree.sort_by(SortBy::Name);
        assert_eq!((tree.sort, tree.order), (SortBy::Type, SortOrder::Asc), "folders first");
        tree.sort_by(SortBy::Name);
        assert_eq!((tree.sort, tree.order), (SortBy::Name, SortOrder::Desc));
    }

    #[test]
    fn folders_open_in_place_and_close_with_what_is_in_them() {
        let mut tree = Tree::new("");
        tree.page(0, "", page("", 2, vec![entry("src", FileType::Folder, "a"), entry("z", FileType::File, "a")], None));
        assert!(tree.open("src"));
        assert!(!tree.open("src"));
        assert_eq!(tree.needs(0, 9), [("src".to_owned(), None)]);
        tree.page(0, "src", page("src", 1, vec![entry("src/in", FileType::Folder, "a")], None));
        tree.open("src/in");
        tree.page(0, "src/in", page("src/in", 1, files("src/in", 0..1), None));
        assert_eq!(names(&tree), ["src", "src/in", "src/in/00000", "z"]);
        assert_eq!(tree.row(2).map(|row| row.depth), Some(2));
        assert_eq!(tree.row(0).map(|row| row.open), Some(true));
        tree.close("src");
        assert_eq!((names(&tree), tree.open_folders()), (vec!["src".to_owned(), "z".to_owned()], vec![String::new()]));
    }

    #[test]
    fn an_open_folder_that_is_gone_closes() {
        let mut tree = Tree::new("/root");
        tree.page(0, "/root", page("/root", 1, vec![entry("/root/d", FileType::Folder, "a")], None));
        tree.open("/root/d");
        tree.again(0, "/root", page("/root", 0, vec![], None));
        assert_eq!((tree.len(), tree.open_folders()), (0, vec!["/root".to_owned()]));
    }
}
