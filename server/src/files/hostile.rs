//! What a file service says, checked: `None` is what ours would never say. What people will read is made anew here.

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Failure, Head, Progress};
use glassbox_shared::files::path::{self, MAX_PATH};
use glassbox_shared::files::{FileEntry, MAX_PAGE};
use glassbox_shared::text::plain;

use super::unavailable;
use crate::error::DomainError;

/// Longest text of a failure: a path as people see it, with some words.
const MAX_DETAIL: usize = 2_000;
/// A user's name.
const MAX_OWNER: usize = 64;
/// A version is a hash; it becomes a header.
const MAX_VERSION: usize = 64;
/// A cursor holds a name, encoded.
const MAX_CURSOR: usize = 1_000;

/// A path as we write it: decoded and encoded again it is the same.
fn is_path(text: &str) -> bool {
    // A name below the longest path that can be asked for.
    text.len() <= 3 * (MAX_PATH + 256) && path::decode(text).is_ok_and(|bytes| path::encode(&bytes) == text)
}

fn name_of(text: &str) -> String {
    let bytes = path::decode(text).unwrap_or_default();
    path::display(path::last(&bytes))
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_VERSION && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(super) fn entry(mut entry: FileEntry) -> Option<FileEntry> {
    let octal = entry.mode.len() <= 6 && entry.mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    if !is_path(&entry.path) || !is_version(&entry.version) || !octal || !entry.modified.is_finite() {
        return None;
    }
    entry.name = name_of(&entry.path);
    entry.owner = entry.owner.map(|owner| plain(&owner).chars().take(MAX_OWNER).collect());
    if let Some(target) = &mut entry.target {
        if !is_path(&target.path) {
            return None;
        }
        target.name = name_of(&target.path);
    }
    Some(entry)
}

pub(super) fn head(mut head: Box<Head>) -> Option<Box<Head>> {
    head.entry = entry(head.entry)?;
    let fits =
        head.length.is_none_or(|length| head.start.checked_add(length).is_some_and(|end| end <= head.entry.size));
    fits.then_some(head)
}

pub(super) fn progress(progress: Progress) -> Option<Progress> {
    // A path of a tree that is deeper than one that can be asked for is cut, not refused: it is only shown.
    let path = progress.path.chars().take(3 * MAX_PATH).collect();
    progress.path.is_ascii().then_some(Progress { path, ..progress })
}

/// `Err`: nonsense.
fn boxed(found: Option<Box<FileEntry>>) -> Result<Option<Box<FileEntry>>, ()> {
    found.map(|found| entry(*found).map(Box::new).ok_or(())).transpose()
}

pub(super) fn answer(answer: Answer) -> Option<Answer> {
    Some(match answer {
        Answer::Nothing => Answer::Nothing,
        Answer::Entry(found) => Answer::Entry(Box::new(entry(*found)?)),
        Answer::Page { path, version, total, entries, next } => {
            let cursor = next.as_ref().is_none_or(|next| next.len() <= MAX_CURSOR && next.is_ascii());
            if !is_path(&path) || !is_version(&version) || !cursor || entries.len() > MAX_PAGE as usize {
                return None;
            }
            // Who follows such pages would come no nearer to their end; ours fills each with what is there.
            if entries.is_empty() && next.is_some() {
                return None;
            }
            let entries = entries.into_iter().map(entry).collect::<Option<Vec<_>>>()?;
            Answer::Page { path, version, total, entries, next }
        }
        Answer::Version(version) => Answer::Version(Some(version).filter(|version| is_version(version))?),
        Answer::Job { done, bytes, skipped, entry } => Answer::Job { done, bytes, skipped, entry: boxed(entry).ok()? },
        Answer::Upload { offset, size, entry } if offset <= size => {
            Answer::Upload { offset, size, entry: boxed(entry).ok()? }
        }
        Answer::Upload { .. } => return None,
    })
}

/// Only codes that a file operation may have.
pub(super) fn failure(Failure { code, detail }: Failure) -> DomainError {
    let detail: String = plain(&detail).chars().take(MAX_DETAIL).collect();
    match code {
        ErrorCode::OutsideWorkspace
        | ErrorCode::PermissionDenied
        | ErrorCode::NotFound
        | ErrorCode::Conflict
        | ErrorCode::Exists
        | ErrorCode::NotEmpty
        | ErrorCode::Changed
        | ErrorCode::OffsetBeyondEnd
        | ErrorCode::TooLarge
        | ErrorCode::Invalid
        | ErrorCode::BadName
        | ErrorCode::NotAFile
        | ErrorCode::NotAFolder
        | ErrorCode::LinkLoop
        | ErrorCode::FileLimit
        | ErrorCode::WorkspaceFull => DomainError::new(code, detail),
        _ => unavailable(&detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassbox_shared::files::FileType;

    fn example() -> FileEntry {
        FileEntry {
            path: "a/b%0Ac".to_owned(),
            name: "something else".to_owned(),
            kind: FileType::File,
            size: 3,
            mode: "0644".to_owned(),
            uid: 0,
            gid: 0,
            owner: Some("\u{1b}[31mroot".to_owned()),
            modified: 1.0,
            version: "abc".to_owned(),
            target: None,
        }
    }

    #[test]
    fn names_are_made_from_paths_and_not_believed() {
        let checked = entry(example()).expect("sense");
        assert_eq!(checked.name, "b\\nc");
        assert_eq!(checked.owner.as_deref(), Some("root"));
    }

    #[test]
    fn what_ours_would_never_say_is_nonsense() {
        for change in [
            (|entry: &mut FileEntry| entry.path = "a b".to_owned()) as fn(&mut FileEntry),
            |entry| entry.path = "%zz".to_owned(),
            |entry| entry.version = "a\"\r\nx: y".to_owned(),
            |entry| entry.version = String::new(),
            |entry| entry.mode = "rwx".to_owned(),
            |entry| entry.modified = f64::NAN,
        ] {
            let mut hostile = example();
            change(&mut hostile);
            assert_eq!(entry(hostile), None);
        }
        let beyond = Head { entry: example(), start: 2, length: Some(u64::MAX) };
        assert_eq!(head(Box::new(beyond)), None);
        assert_eq!(answer(Answer::Upload { offset: 2, size: 1, entry: None }), None);
    }

    #[test]
    fn a_page_after_which_there_are_more_holds_something() {
        let page = |entries: &[FileEntry], next: Option<&str>| Answer::Page {
            path: "a".to_owned(),
            version: "abc".to_owned(),
            total: 1,
            entries: entries.to_vec(),
            next: next.map(str::to_owned),
        };
        assert_eq!(answer(page(&[], Some("0:0:a"))), None, "whoever follows it would never come to an end");
        assert!(answer(page(&[], None)).is_some());
        assert!(answer(page(&[example()], Some("0:0:a"))).is_some());
    }

    #[test]
    fn a_code_that_is_none_of_its_business_becomes_an_unavailable_service() {
        let hostile = Failure { code: ErrorCode::Unauthorized, detail: "sign in \u{1b}[2Jagain".to_owned() };
        let error = failure(hostile);
        assert_eq!(error.code, ErrorCode::FilesUnavailable);
        assert!(!error.detail.contains('\u{1b}'));
    }
}
