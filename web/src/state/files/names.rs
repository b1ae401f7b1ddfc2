//! Paths and names of files: taken apart, put together, made fit for people.

use glassbox_shared::files::{FileEntry, FileType, path};

/// The folder that a path is in; the root of everything has none.
pub fn parent(path: &str) -> Option<&str> {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", last)) if !last.is_empty() => Some("/"),
        Some((parent, _)) => Some(parent),
        None if path.is_empty() || path == "/" => None,
        None => Some(""),
    }
}

/// The path of a child with this name.
pub fn child(folder: &str, name: &str) -> String {
    let name = path::encode(name.as_bytes()).replace('/', "%2F");
    match folder {
        "" => name,
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    }
}

/// A path for people.
pub fn shown(text: &str) -> String {
    path::decode(text).map_or_else(|_| text.to_owned(), |bytes| path::display(&bytes))
}

/// The last part of a path for people.
pub fn shown_name(text: &str) -> String {
    path::decode(text).map_or_else(|_| text.to_owned(), |bytes| path::display(path::last(&bytes)))
}

/// Why a name cannot be given to a file, if it cannot.
pub fn name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("A name is needed."),
        "." | ".." => Some("This name is taken by the system."),
        name if name.contains('/') => Some("A name cannot hold a slash."),
        name if name.contains('\0') => Some("A name cannot hold a byte 0."),
        name if name.len() > path::MAX_NAME => Some("A name has at most 255 bytes."),
        _ => None,
    }
}

/// The folders from the top to `path`, each with its name for people.
pub fn crumbs(path: &str) -> Vec<(String, String)> {
    let mut crumbs = vec![(path.to_owned(), shown_name(path))];
    let mut at = path;
    while let Some(above) = parent(at) {
        crumbs.push((above.to_owned(), shown_name(above)));
        at = above;
    }
    crumbs.reverse();
    crumbs
}

/// A folder, or a link to one?
pub fn is_folder(entry: &FileEntry) -> bool {
    match entry.kind {
        FileType::Folder => true,
        FileType::Link => entry.target.as_ref().is_some_and(|target| target.kind == Some(FileType::Folder)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_and_put_together_without_loss() {
        assert_eq!(
            [parent("/"), parent(""), parent("/a"), parent("/a/b"), parent("a"), parent("a/b")],
            [None, None, Some("/"), Some("/a"), Some(""), Some("a")]
        );
        assert_eq!([child("", "a b"), child("/", "ü"), child("x", "100%")], ["a%20b", "/%C3%BC", "x/100%25"]);
        let tops: Vec<String> = crumbs("/root/a%0Ab").into_iter().map(|(path, _)| path).collect();
        assert_eq!(tops, ["/", "/root", "/root/a%0Ab"]);
        assert_eq!(shown_name("x/%E2%80%AEgpj.exe%FF"), "\\u{202e}gpj.exe\\xff");
    }

    #[test]
    fn names_that_no_file_can_have_are_told_before_they_are_sent() {
        assert!(
            name_problem("a/b").is_some() && name_problem("..").is_some() && name_problem(&"x".repeat(256)).is_some()
        );
        assert_eq!(name_problem("<img src=x onerror=alert(1)>"), None);
    }
}
