//! `write_file`, `read_file`, `list_files`, `edit_file`: by the session's file service, as the sandbox's user.

use std::fmt::Write as _;

use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Head, Operation, Range};
use glassbox_shared::files::path::{display, encode};
use glassbox_shared::files::{FileEntry, FileType, MAX_PAGE, SortBy, SortOrder};
use glassbox_shared::tools::cut::Cut;
use glassbox_shared::tools::{MAX_CONTENT, ToolAnswer, text};

use tokio::time::timeout;

use super::Calling;
use crate::error::DomainError;
use crate::files::Said;

/// Largest file that `read_file` goes through, in bytes: all of it passes the server to find lines and the end.
const MAX_READ: u64 = 64 << 20;
/// How long reading one file or listing folders may take: a service that drips must not hold its turn for ever. The
/// largest that is read takes gVisor some seconds.
const LONGEST: Duration = Duration::from_mins(2);
/// Bytes at the beginning of a file in which a byte 0 means that it is no text, as `git` and `grep` have it.
const PROBED: usize = 8 * 1024;
/// Entries that `list_files` shows.
const MAX_ENTRIES: usize = 1000;
/// Places in a file that an error names.
const MAX_PLACES: usize = 5;

impl Calling<'_> {
    pub(super) async fn write_file(&self, path: &str, content: String) -> Result<ToolAnswer, DomainError> {
        let bytes = content.len();
        let entry = self.write(path, Bytes::from(content), None).await?;
        Ok(self.tell(ToolAnswer::plain(format!("wrote {bytes} bytes to {}", named(&entry)))).await)
    }

    pub(super) async fn read_file(
        &self,
        path: &str,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<ToolAnswer, DomainError> {
        let mut lines = Lines::new(offset, limit);
        let entry = self.read(path, MAX_READ, |bytes| lines.take(bytes)).await?;
        lines.output.finish();
        let Lines { output, line, .. } = lines;
        let mut notes = Vec::new();
        if output.is_cut() {
            notes.push(format!("the middle of {} was cut; offset and limit choose lines", named(&entry)));
        }
        let text = match (entry.size, output.is_empty()) {
            (0, _) => "(the file is empty)".to_owned(),
            (_, true) => return Err(DomainError::invalid(format!("{} has only {line} lines", named(&entry)))),
            _ => text::with_notes(&notes, text::not_a_note(output.text())),
        };
        Ok(self.tell(ToolAnswer { truncated: output.is_cut(), ..ToolAnswer::plain(text) }).await)
    }

    pub(super) async fn list_files(&self, path: &str, max_depth: u64) -> Result<ToolAnswer, DomainError> {
        let listed = timeout(LONGEST, self.listed(path, max_depth)).await.map_err(|_| too_slow())??;
        Ok(self.tell(listed).await)
    }

    async fn listed(&self, path: &str, max_depth: u64) -> Result<ToolAnswer, DomainError> {
        let mut list = String::new();
        let mut entries = 0;
        // Folders to go into, the next one last: its path, and how it is written.
        let mut folders = vec![(encode(path.as_bytes()), String::new(), 1)];
        let mut cut = false;
        'folders: while let Some((folder, prefix, depth)) = folders.pop() {
            let mut cursor = None;
            let mut inside = Vec::new();
            loop {
                let operation = Operation::List {
                    path: folder.clone(),
                    sort: SortBy::Name,
                    order: SortOrder::Asc,
                    filter: String::new(),
                    cursor,
                    limit: MAX_PAGE,
                };
                let page = match self.session.look_at_files(operation).await {
                    Ok(Answer::Page { entries, next, .. }) => (entries, next),
                    Ok(_) => return Err(unexpected()),
                    // A folder below that is gone meanwhile, or closed to the sandbox's user, hides nothing else.
                    Err(error) if !prefix.is_empty() && is_of_that_folder(error.code) => {
                        // Writing to a string cannot fail.
                        let _ = writeln!(list, "{prefix}  ({})", error.detail);
                        continue 'folders;
                    }
                    Err(error) => return Err(error),
                };
                for entry in &page.0 {
                    if entries == MAX_ENTRIES {
                        cut = true;
                        break 'folders;
                    }
                    entries += 1;
                    let line = format!("{prefix}{}", entry.name);
                    list.push_str(&told(entry, &line));
                    if entry.kind == FileType::Folder && depth < max_depth {
                        inside.push((entry.path.clone(), format!("{line}/"), depth + 1));
                    }
                }
                cursor = page.1;
                if cursor.is_none() {
                    break;
                }
            }
            inside.reverse();
            folders.append(&mut inside);
        }
        if cut {
            let _ = writeln!(list, "... [only the first {MAX_ENTRIES} entries; list a folder below, or use find] ...");
        }
        let text =
            if list.is_empty() { "(the folder is empty)".to_owned() } else { list.trim_end_matches('\n').to_owned() };
        // A name can begin like one.
        let text = text::not_a_note(text);
        Ok(ToolAnswer { truncated: cut, ..ToolAnswer::plain(text) })
    }

    pub(super) async fn edit_file(
        &self,
        path: &str,
        old: &str,
        new: &str,
        all: bool,
    ) -> Result<ToolAnswer, DomainError> {
        let mut content = Vec::new();
        let entry = self.read(path, MAX_CONTENT as u64, |bytes| content.extend_from_slice(bytes)).await?;
        let content = String::from_utf8(content)
            .map_err(|_| DomainError::invalid(format!("{} is no UTF-8 text; edit it with a command", named(&entry))))?;
        let replaced = replaced(&content, old, new, all).map_err(DomainError::invalid)?;
        let count = replaced.count;
        let entry = match self.write(path, Bytes::from(replaced.text), Some(entry.version)).await {
            Err(error) if error.code == ErrorCode::Changed => {
                let detail = "the file was changed by someone else in this moment; read it again";
                return Err(DomainError::new(ErrorCode::Changed, detail));
            }
            result => result?,
        };
        let places = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
        let text = format!("replaced {places} in {} (line {})", named(&entry), replaced.first_line);
        Ok(self.tell(ToolAnswer::plain(text)).await)
    }

    /// Writes a file whole; only over this version, if one is given.
    async fn write(&self, path: &str, content: Bytes, expected: Option<String>) -> Result<FileEntry, DomainError> {
        let operation = Operation::Write {
            path: encode(path.as_bytes()),
            expected,
            new: false,
            parents: true,
            limit: self.session.largest_file(),
        };
        let mut call = self.session.write_files(self.who, operation).await?;
        call.send(content).await?;
        match call.finish().await? {
            Answer::Entry(entry) => Ok(*entry),
            _ => Err(unexpected()),
        }
    }

    /// Reads a text file of at most `most` bytes, in pieces.
    async fn read(&self, path: &str, most: u64, take: impl FnMut(&[u8])) -> Result<FileEntry, DomainError> {
        timeout(LONGEST, self.read_on(path, most, take)).await.map_err(|_| too_slow())?
    }

    async fn read_on(&self, path: &str, most: u64, mut take: impl FnMut(&[u8])) -> Result<FileEntry, DomainError> {
        let operation = Operation::Read { path: encode(path.as_bytes()), range: Range::All };
        let mut call = self.session.read_files(operation).await?;
        let Said::Head(head) = call.next().await? else { return Err(unexpected()) };
        let Head { entry, .. } = *head;
        let too_large = |size: u64| {
            let detail = format!(
                "{} has {size} bytes, more than {most}; use a command such as sed, head or tail",
                named(&entry)
            );
            DomainError::new(ErrorCode::TooLarge, detail)
        };
        if entry.size > most {
            return Err(too_large(entry.size));
        }
        let mut length = 0;
        loop {
            match call.next().await? {
                Said::Data(bytes) => {
                    if (length as usize) < PROBED && bytes[..bytes.len().min(PROBED - length as usize)].contains(&0) {
                        let detail = format!(
                            "{} is no text ({} bytes); look at it with a command such as xxd",
                            named(&entry),
                            entry.size
                        );
                        return Err(DomainError::invalid(detail));
                    }
                    // It may grow while it is read.
                    length += bytes.len() as u64;
                    if length > most {
                        return Err(too_large(length));
                    }
                    take(&bytes);
                }
                Said::Done(_) => return Ok(entry),
                Said::Head(_) | Said::Progress(_) => return Err(unexpected()),
            }
        }
    }
}

fn too_slow() -> DomainError {
    let detail = format!("the sandbox's file service did not come to an end within {LONGEST:?}; use a command instead");
    DomainError::new(ErrorCode::FilesUnavailable, detail)
}

fn unexpected() -> DomainError {
    DomainError::new(ErrorCode::FilesUnavailable, "the sandbox's file service answered something else; try again")
}

/// Errors of one folder, and not of the service or the whole call.
fn is_of_that_folder(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotFound | ErrorCode::PermissionDenied | ErrorCode::NotAFolder | ErrorCode::BadName)
}

/// A file's path for people.
fn named(entry: &FileEntry) -> String {
    glassbox_shared::files::path::decode(&entry.path).map_or_else(|_| entry.name.clone(), |path| display(&path))
}

/// An entry's line.
fn told(entry: &FileEntry, line: &str) -> String {
    match (entry.kind, &entry.target) {
        (FileType::Folder, _) => format!("{line}/\n"),
        (FileType::File, _) => format!("{line}  {}\n", entry.size),
        (FileType::Link, Some(target)) => format!("{line} -> {}\n", target.name),
        (FileType::Link, None) => format!("{line} -> ?\n"),
        (FileType::Fifo, _) => format!("{line}  (named pipe)\n"),
        (FileType::Socket, _) => format!("{line}  (socket)\n"),
        (FileType::Device, _) => format!("{line}  (device)\n"),
    }
}

/// Some lines of what passes.
struct Lines {
    first: u64,
    /// The first one that is not wanted any more.
    end: u64,
    /// The line that the next byte is in, from 1.
    line: u64,
    output: Cut,
}

impl Lines {
    fn new(first: u64, limit: Option<u64>) -> Self {
        let end = limit.map_or(u64::MAX, |limit| first.saturating_add(limit));
        Self { first, end, line: 1, output: Cut::new(0) }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if (self.first..self.end).contains(&self.line) {
                self.output.push(piece);
            }
            if piece.ends_with(b"\n") {
                self.line += 1;
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Replaced {
    text: String,
    count: usize,
    /// Of the first place, from 1.
    first_line: usize,
}

/// The text with `old` replaced, or why not.
fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, String> {
    let places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let Some(first) = places.first() else {
        let hint = if text.contains("\r\n") && !old.contains('\r') && old.contains('\n') {
            "; the file's lines end with CR LF"
        } else if text.contains(old.trim()) && !old.trim().is_empty() {
            "; without the white space at its ends it does stand there"
        } else {
            ""
        };
        return Err(format!("`old_string` does not stand in the file{hint}; read the file and copy it exactly"));
    };
    if places.len() > 1 && !all {
        let lines: Vec<String> = places.iter().take(MAX_PLACES).map(|at| line(*at).to_string()).collect();
        let more = if places.len() > MAX_PLACES { ", …" } else { "" };
        return Err(format!(
            "`old_string` stands in the file {} times (lines {}{more}); give more of the text around it, or set replace_all",
            places.len(),
            lines.join(", ")
        ));
    }
    Ok(Replaced { text: text.replace(old, new), count: places.len(), first_line: line(*first) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, first: u64, limit: Option<u64>, piece: usize) -> String {
        let mut lines = Lines::new(first, limit);
        for piece in text.as_bytes().chunks(piece) {
            lines.take(piece);
        }
        lines.output.finish();
        lines.output.text()
    }

    #[test]
    fn lines_are_counted_from_one_whatever_the_pieces() {
        for piece in 1..9 {
            assert_eq!(lines("a\nbä\nc\n", 2, Some(1), piece), "bä\n");
            assert_eq!(lines("a\nbä\nc", 2, None, piece), "bä\nc");
            assert_eq!(lines("a\nbä\nc", 1, None, piece), "a\nbä\nc");
            assert_eq!(lines("a\n", 3, None, piece), "");
        }
    }

    #[test]
    fn an_edit_needs_its_text_once_and_says_where_else_it_is() {
        let done = replaced("one\ntwo\n", "two", "2", false).expect("once");
        assert_eq!(done, Replaced { text: "one\n2\n".into(), count: 1, first_line: 2 });
        let twice = replaced("a\nb\na\n", "a", "c", false).expect_err("twice");
        assert_eq!(
            twice,
            "`old_string` stands in the file 2 times (lines 1, 3); give more of the text around it, or set replace_all"
        );
        assert_eq!(replaced("a\nb\na\n", "a", "c", true).expect("all").text, "c\nb\nc\n");
    }

    #[test]
    fn an_edit_whose_text_is_missing_says_what_may_be_wrong() {
        let why = |text, old| replaced(text, old, "x", false).expect_err("missing");
        assert!(why("a\r\nb\r\n", "a\nb").contains("CR LF"));
        assert!(why("  a b", "a b ").contains("white space"));
        assert_eq!(why("a", "b"), "`old_string` does not stand in the file; read the file and copy it exactly");
    }
}
