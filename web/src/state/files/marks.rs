//! What is new to whoever looks: entries that somebody else made or changed, until someone looked at them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use glassbox_shared::files::FileEntry;

use super::names::is_folder;

/// The marks of one tree, by path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marks {
    fresh: BTreeSet<String>,
    /// What the person at this page makes or changes: `None` while it is under way, then the version that they left. An
    /// entry goes when the folder's list shows it.
    own: BTreeMap<String, Option<String>>,
}

impl Marks {
    /// A folder was loaded again: marks what is new or different. `complete`: all that was in it is in `before`.
    pub fn compare(&mut self, before: &[FileEntry], complete: bool, now: &[FileEntry]) {
        let before: HashMap<&str, &str> =
            before.iter().map(|entry| (entry.path.as_str(), entry.version.as_str())).collect();
        for entry in now {
            let known = before.get(entry.path.as_str());
            // A folder changes with each file in it; that is told at the file.
            let changed = match known {
                Some(version) => *version != entry.version && !is_folder(entry),
                None => complete,
            };
            // A new folder of one's own may have got something since.
            let is_own = |version: &String| *version == entry.version || is_folder(entry);
            if self.own.get(&entry.path).is_some_and(|own| own.as_ref().is_some_and(is_own)) {
                self.own.remove(&entry.path);
            } else if changed {
                self.fresh.insert(entry.path.clone());
            }
        }
    }

    /// The person at this page begins to make or change what is at this path. Until [`Marks::acted`] nothing is marked there.
    pub fn acts(&mut self, path: &str) {
        self.own.insert(path.to_owned(), None);
    }

    /// They did; `version` is what they left there, `None`: nothing. `listed`: the version in the folder's list.
    pub fn acted(&mut self, path: &str, version: Option<String>, listed: Option<&str>) {
        self.own.remove(path);
        let Some(version) = version else { return };
        if listed == Some(version.as_str()) {
            // The list was quicker than the answer.
            self.fresh.remove(path);
        } else {
            self.own.insert(path.to_owned(), Some(version));
        }
    }

    /// Is something of theirs under way there?
    pub fn is_acting(&self, path: &str) -> bool {
        self.own.get(path) == Some(&None)
    }

    /// Someone looked at it.
    pub fn looked_at(&mut self, path: &str) {
        self.fresh.remove(path);
    }

    /// Is it new or changed since it was looked at?
    pub fn is_fresh(&self, path: &str) -> bool {
        self.fresh.contains(path) && !self.is_acting(path)
    }
}

#[cfg(test)]
mod tests {
    use glassbox_shared::files::FileType;

    use super::super::Tree;
    use super::*;
    use crate::state::samples::{entry, page};

    #[test]
    fn what_the_agent_changed_is_marked_until_someone_looks() {
        let mut tree = Tree::new("");
        let folder = entry("d", FileType::Folder, "a");
        tree.page(0, "", page("", 2, vec![folder.clone(), entry("x", FileType::File, "a")], None));
        let fresh =
            |tree: &Tree| (0..tree.len()).map(|at| tree.row(at).is_some_and(|row| row.fresh)).collect::<Vec<_>>();
        assert_eq!(fresh(&tree), [false, false]);
        let changed = FileEntry { version: "b".to_owned(), ..folder };
        let entries = vec![changed, entry("new", FileType::File, "a"), entry("x", FileType::File, "b")];
        tree.again(0, "", page("", 3, entries, None));
        assert_eq!(fresh(&tree), [false, true, true]);
        tree.looked_at("x");
        assert_eq!(fresh(&tree), [false, true, false]);
    }

    #[test]
    fn what_one_did_oneself_is_not_marked_whoever_hears_of_it_first() {
        let version = |version: &str| FileEntry { version: version.to_owned(), ..entry("x", FileType::File, "") };
        let listed = |version: FileEntry| page("", 1, vec![version], None);
        let fresh = |tree: &Tree| tree.row(0).is_some_and(|row| row.fresh);
        let mut tree = Tree::new("");
        tree.page(0, "", listed(version("a")));

        tree.acts("x");
        tree.again(0, "", listed(version("b")));
        assert!(!fresh(&tree), "the list came before the answer");
        tree.acted("x", Some("b".to_owned()));
        assert!(!fresh(&tree) && !tree.is_acting("x"));

        tree.acts("x");
        tree.acted("x", Some("c".to_owned()));
        tree.again(0, "", listed(version("b")));
        tree.again(0, "", listed(version("c")));
        assert!(!fresh(&tree), "the answer came before the list");

        tree.acts("x");
        tree.again(0, "", listed(version("theirs")));
        tree.acted("x", Some("d".to_owned()));
        assert!(fresh(&tree), "somebody else was quicker");
        tree.looked_at("x");
        tree.again(0, "", listed(version("d")));
        assert!(!fresh(&tree));

        tree.acts("x");
        tree.again(0, "", listed(version("e")));
        tree.acted("x", None);
        assert!(fresh(&tree), "ours was refused");
    }

    #[test]
    fn a_new_folder_of_ones_own_is_not_marked_and_what_an_agent_puts_there_later_is() {
        let mut tree = Tree::new("");
        tree.page(0, "", page("", 0, vec![], None));
        tree.acts("d");
        tree.acted("d", Some("a".to_owned()));
        tree.again(0, "", page("", 1, vec![entry("d", FileType::Folder, "b")], None));
        assert_eq!(tree.row(0).map(|row| row.fresh), Some(false));
        tree.again(0, "", page("", 0, vec![], None));
        tree.again(0, "", page("", 1, vec![entry("d", FileType::Folder, "c")], None));
        assert_eq!(tree.row(0).map(|row| row.fresh), Some(true), "someone made it anew");
    }
}
