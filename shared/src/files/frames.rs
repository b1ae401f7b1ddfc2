//! The frames between the server and `glassbox-inside files`, one exec a session that serves many operations at once.
//!
//! A frame is cut as in [`crate::helper`] (length, kind, in the helper's direction the tag); then comes the number of the
//! operation (u32, little endian), and a payload: JSON for control, raw bytes for content.
//!
//! An operation is begun by [`ToFiles::Begin`] and is over with [`FromFiles::Done`] or [`FromFiles::Failed`], of which
//! exactly one comes. Content flows in frames of at most [`MAX_DATA`] bytes, and at most [`WINDOW`] of them that the other
//! side has not taken yet ([`ToFiles::Taken`], [`FromFiles::Taken`]): whoever reads slowly slows only their own operation.

use serde::{Deserialize, Serialize};

use super::{FileEntry, MAX_PAGE, SortBy, SortOrder};
use crate::error::ErrorCode;
use crate::helper::{FrameError, frame, json, parse};

/// Most content in one frame.
pub const MAX_DATA: usize = 128 * 1024;
/// Longest payload of anything else that the helper says, pages apart: two paths and two names, all of them escaped, are 51 KiB.
pub const MAX_WORD: usize = 64 * 1024;
/// A page ends before its entries are larger than this as text: frames are bounded, and names can be long.
pub const PAGE_BYTES: usize = 1024 * 1024;
/// Longest payload that is a page: one entry more than [`PAGE_BYTES`], and a quarter of all for what JSON escapes in names.
pub const MAX_PAGE_WORD: usize = PAGE_BYTES + PAGE_BYTES / 2;
/// Frames of content of one operation that may be on their way: 1 MiB, which fills the pipe over a round trip of the
/// engine many times.
pub const WINDOW: u32 = 8;
/// Operations at once: each is a thread of the helper, and a hardened sandbox may have 64 in all.
pub const MAX_OPERATIONS: usize = 16;
/// Uploads in pieces that are under way at once; each is a file that is held open.
pub const MAX_UPLOADS: usize = 16;
/// What temporary files begin with; listings leave those out that are just being written.
pub const TEMPORARY: &str = ".glassbox-tmp-";

/// First and once: what may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The secret that every frame of the helper must carry.
    pub tag: u64,
    /// The workspace's absolute path.
    pub workspace: String,
    /// Nothing outside the workspace; paths are relative to it. Else the root is `/`, and paths are absolute.
    pub confined: bool,
}

/// Something to do. Paths are as in the REST API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Operation {
    /// A page of a folder; answers [`Answer::Page`].
    List {
        /// The folder.
        path: String,
        /// By what.
        sort: SortBy,
        /// Which way.
        order: SortOrder,
        /// Only names that hold this text, ASCII letters without regard to case.
        filter: String,
        /// Where the page before ended.
        cursor: Option<String>,
        /// Most entries.
        limit: u32,
    },
    /// One entry; answers [`Answer::Entry`].
    Stat {
        /// Which.
        path: String,
        /// Of a link, what it leads to.
        follow: bool,
    },
    /// The version of a folder with all that is in it, or of a file; answers [`Answer::Version`].
    Version {
        /// Which.
        path: String,
    },
    /// Content; answers [`FromFiles::Head`], the bytes, [`Answer::Nothing`].
    Read {
        /// The file.
        path: String,
        /// Which part of it.
        range: Range,
    },
    /// Replaces or makes a file by what comes in [`ToFiles::Data`]; answers [`Answer::Entry`].
    Write {
        /// The file.
        path: String,
        /// Only if the file has this version.
        expected: Option<String>,
        /// Only if there is no such file.
        new: bool,
        /// Make missing folders.
        parents: bool,
        /// More bytes than this are too many.
        limit: u64,
    },
    /// A folder as `.tar.gz`; answers [`FromFiles::Head`], the bytes, [`Answer::Nothing`].
    Archive {
        /// The folder.
        path: String,
    },
    /// Makes a folder and its parents; answers [`Answer::Entry`].
    MakeFolder {
        /// The folder.
        path: String,
    },
    /// Gives something another name; answers [`Answer::Entry`].
    Rename {
        /// What.
        from: String,
        /// Its new path.
        to: String,
        /// Replace a file that is there.
        replace: bool,
    },
    /// Copies, with [`FromFiles::Progress`]; answers [`Answer::Job`].
    Copy {
        /// What.
        from: String,
        /// The copy's path.
        to: String,
        /// Replace a file that is there.
        replace: bool,
    },
    /// Deletes, with [`FromFiles::Progress`]; answers [`Answer::Job`].
    Delete {
        /// What.
        path: String,
        /// A folder with all that is in it.
        recursive: bool,
    },
    /// Begins an upload in pieces; answers [`Answer::Upload`].
    StartUpload {
        /// The id that it shall have.
        id: String,
        /// The file.
        path: String,
        /// Bytes that it will have.
        size: u64,
        /// Replace a file that is there.
        replace: bool,
    },
    /// How far an upload is; answers [`Answer::Upload`].
    Upload {
        /// Which.
        id: String,
    },
    /// More of an upload, by what comes in [`ToFiles::Data`]; answers [`Answer::Upload`], at its end with the entry.
    Append {
        /// Which.
        id: String,
        /// Where the bytes belong: where the upload is.
        offset: u64,
    },
    /// Gives an upload up; answers [`Answer::Nothing`].
    DropUpload {
        /// Which.
        id: String,
    },
}

/// Which part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// Only its head: nothing is read.
    Nothing,
    /// All of it.
    All,
    /// From here to before there (or the end, if that comes first).
    FromTo(u64, u64),
    /// So many bytes at the end.
    Last(u64),
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing to say.
    Nothing,
    /// What there is.
    Entry(Box<FileEntry>),
    /// A page of a folder.
    Page {
        /// The folder's.
        path: String,
        /// The folder's.
        version: String,
        /// Entries on all pages.
        total: u64,
        /// This page's.
        entries: Vec<FileEntry>,
        /// Where it ends, if there are more.
        next: Option<String>,
    },
    /// A version.
    Version(String),
    /// A copy or deletion.
    Job {
        /// Entries.
        done: u64,
        /// Bytes.
        bytes: u64,
        /// Entries that were not copied.
        skipped: u64,
        /// What a copy made.
        entry: Option<Box<FileEntry>>,
    },
    /// An upload.
    Upload {
        /// Bytes that have arrived.
        offset: u64,
        /// Bytes that it will have.
        size: u64,
        /// The file, at its end.
        entry: Option<Box<FileEntry>>,
    },
}

/// What comes before content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// What is read.
    pub entry: FileEntry,
    /// First byte that comes.
    pub start: u64,
    /// Bytes that will come; not known of an archive.
    pub length: Option<u64>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable; the server takes only those that a file operation may have.
    pub code: ErrorCode,
    /// For people.
    pub detail: String,
}

/// How far a copy or deletion is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Entries.
    pub done: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where.
    pub path: String,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq)]
pub enum ToFiles {
    /// First and once; its operation number means nothing.
    Open(Open),
    /// Begin an operation.
    Begin(Box<Operation>),
    /// Content.
    Data(Vec<u8>),
    /// No more content.
    End,
    /// So many frames of content were taken: more may come.
    Taken(u32),
    /// Give the operation up; it answers [`FromFiles::Failed`] all the same.
    Cancel,
}

/// What the helper says.
#[derive(Debug, Clone, PartialEq)]
pub enum FromFiles {
    /// What comes before content.
    Head(Box<Head>),
    /// Content.
    Data(Vec<u8>),
    /// So many frames of content were taken: more may come.
    Taken(u32),
    /// How far it is.
    Progress(Progress),
    /// It is over.
    Done(Box<Answer>),
    /// It is over, without success.
    Failed(Failure),
}

const OPEN: u8 = 21;
const BEGIN: u8 = 22;
const DATA: u8 = 23;
const END: u8 = 24;
const TAKEN: u8 = 25;
const CANCEL: u8 = 26;
const HEAD: u8 = 121;
const CONTENT: u8 = 122;
const TOOK: u8 = 123;
const PROGRESS: u8 = 124;
const DONE: u8 = 125;
const FAILED: u8 = 126;
/// What [`Answer::Page`] begins with.
const PAGE: &[u8] = br#"{"page":"#;

fn number(body: &[u8]) -> Result<(u32, &[u8]), FrameError> {
    let (number, payload) = body.split_first_chunk::<4>().ok_or(FrameError::Malformed("no number"))?;
    Ok((u32::from_le_bytes(*number), payload))
}

fn data(payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    if payload.len() > MAX_DATA { Err(FrameError::TooLong(payload.len())) } else { Ok(payload.to_vec()) }
}

/// What the helper says, looked at only when it is no longer than ours would say it.
fn word<'a, T: Deserialize<'a>>(payload: &'a [u8], longest: usize) -> Result<T, FrameError> {
    if payload.len() > longest { Err(FrameError::TooLong(payload.len())) } else { parse(payload) }
}

/// An answer; only a page may be long.
fn answer(payload: &[u8]) -> Result<Box<Answer>, FrameError> {
    let longest = if payload.starts_with(PAGE) { MAX_PAGE_WORD } else { MAX_WORD };
    let answer: Box<Answer> = word(payload, longest)?;
    match &*answer {
        Answer::Page { entries, .. } if entries.len() > MAX_PAGE as usize => Err(FrameError::TooLong(payload.len())),
        _ => Ok(answer),
    }
}

/// [`ToFiles::Data`] as bytes, from wherever the content lies.
pub fn content(operation: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, &[&operation.to_le_bytes(), bytes])
}

impl ToFiles {
    /// As bytes.
    pub fn encode(&self, operation: u32) -> Vec<u8> {
        let number = operation.to_le_bytes();
        match self {
            ToFiles::Open(open) => frame(OPEN, &[&number, &json(open)]),
            ToFiles::Begin(what) => frame(BEGIN, &[&number, &json(what)]),
            ToFiles::Data(bytes) => content(operation, bytes),
            ToFiles::End => frame(END, &[&number]),
            ToFiles::Taken(frames) => frame(TAKEN, &[&number, &json(frames)]),
            ToFiles::Cancel => frame(CANCEL, &[&number]),
        }
    }

    /// From a frame's kind and body: the operation's number, and what is said.
    pub fn decode(kind: u8, body: &[u8]) -> Result<(u32, Self), FrameError> {
        let (number, payload) = number(body)?;
        let said = match kind {
            OPEN => ToFiles::Open(parse(payload)?),
            BEGIN => ToFiles::Begin(parse(payload)?),
            DATA => ToFiles::Data(data(payload)?),
            END => ToFiles::End,
            TAKEN => ToFiles::Taken(parse(payload)?),
            CANCEL => ToFiles::Cancel,
            _ => return Err(FrameError::Malformed("kind")),
        };
        Ok((number, said))
    }
}

impl FromFiles {
    /// As bytes, carrying `tag`.
    pub fn encode(&self, tag: u64, operation: u32) -> Vec<u8> {
        let (tag, number) = (tag.to_le_bytes(), operation.to_le_bytes());
        match self {
            FromFiles::Head(head) => frame(HEAD, &[&tag, &number, &json(head)]),
            FromFiles::Data(bytes) => frame(CONTENT, &[&tag, &number, bytes]),
            FromFiles::Taken(frames) => frame(TOOK, &[&tag, &number, &json(frames)]),
            FromFiles::Progress(progress) => frame(PROGRESS, &[&tag, &number, &json(progress)]),
            FromFiles::Done(answer) => frame(DONE, &[&tag, &number, &json(answer)]),
            FromFiles::Failed(failure) => frame(FAILED, &[&tag, &number, &json(failure)]),
        }
    }

    /// From a frame's kind and body; refuses a frame that does not carry `tag`.
    pub fn decode(tag: u64, kind: u8, body: &[u8]) -> Result<(u32, Self), FrameError> {
        let Some((carried, rest)) = body.split_first_chunk::<8>() else {
            return Err(FrameError::Malformed("no tag"));
        };
        if u64::from_le_bytes(*carried) != tag {
            return Err(FrameError::Malformed("tag"));
        }
        let (number, payload) = number(rest)?;
        let said = match kind {
            HEAD => FromFiles::Head(word(payload, MAX_WORD)?),
            CONTENT => FromFiles::Data(data(payload)?),
            TOOK => FromFiles::Taken(word(payload, MAX_WORD)?),
            PROGRESS => FromFiles::Progress(word(payload, MAX_WORD)?),
            DONE => FromFiles::Done(answer(payload)?),
            FAILED => FromFiles::Failed(word(payload, MAX_WORD)?),
            _ => return Err(FrameError::Malformed("kind")),
        };
        Ok((number, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileType;
    use crate::helper::FrameBuffer;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_is_understood() {
        let said = [
            ToFiles::Open(Open { tag: u64::MAX, workspace: "/workspace".to_owned(), confined: true }),
            ToFiles::Begin(Box::new(Operation::Read { path: "a%0A".to_owned(), range: Range::FromTo(3, 9) })),
            ToFiles::Data(vec![0, 1, 2]),
            ToFiles::End,
            ToFiles::Taken(3),
            ToFiles::Cancel,
        ];
        let mut buffer = FrameBuffer::default();
        for one in &said {
            buffer.push(&one.encode(7));
            let (kind, body) = buffer.next_frame().expect("well formed").expect("whole");
            assert_eq!(ToFiles::decode(kind, body), Ok((7, one.clone())));
        }
    }

    #[test]
    fn a_frame_with_a_foreign_tag_is_nonsense() {
        let bytes = FromFiles::Done(Box::new(Answer::Nothing)).encode(1, 7);
        let mut buffer = FrameBuffer::default();
        buffer.push(&bytes);
        let (kind, body) = buffer.next_frame().expect("well formed").expect("whole");
        assert_eq!(FromFiles::decode(1, kind, body), Ok((7, FromFiles::Done(Box::new(Answer::Nothing)))));
        assert_eq!(FromFiles::decode(2, kind, body), Err(FrameError::Malformed("tag")));
    }

    #[test]
    fn too_much_content_in_one_frame_is_refused() {
        let bytes = FromFiles::Data(vec![0; MAX_DATA + 1]).encode(1, 7);
        let mut buffer = FrameBuffer::default();
        buffer.push(&bytes);
        let (kind, body) = buffer.next_frame().expect("well formed").expect("whole");
        assert_eq!(FromFiles::decode(1, kind, body), Err(FrameError::TooLong(MAX_DATA + 1)));
    }

    #[test]
    fn only_a_page_may_be_long_and_it_has_no_more_entries_than_a_page_has() {
        let understood = |said: FromFiles| {
            let mut buffer = FrameBuffer::default();
            buffer.push(&said.encode(1, 7));
            let (kind, body) = buffer.next_frame().expect("well formed").expect("whole");
            FromFiles::decode(1, kind, body).is_ok_and(|(_, heard)| heard == said)
        };
        let failed = |length| FromFiles::Failed(Failure { code: ErrorCode::NotFound, detail: "x".repeat(length) });
        assert!(understood(failed(MAX_WORD - 100)));
        assert!(!understood(failed(MAX_WORD)));
        assert!(!understood(FromFiles::Progress(Progress { done: 0, bytes: 0, path: "x".repeat(MAX_WORD) })));
        assert!(!understood(FromFiles::Done(Box::new(Answer::Version("x".repeat(MAX_WORD))))));
        let page = |count, name: usize| {
            let entry = FileEntry {
                path: "x".repeat(name),
                name: "x".repeat(name),
                kind: FileType::File,
                size: 1,
                mode: "0644".to_owned(),
                uid: 0,
                gid: 0,
                owner: None,
                modified: 1.0,
                version: "v".to_owned(),
                target: None,
            };
            let (path, version) = (String::new(), "v".to_owned());
            let page = Answer::Page { path, version, total: 1, entries: vec![entry; count], next: None };
            FromFiles::Done(Box::new(page))
        };
        assert!(understood(page(MAX_PAGE as usize, 500)));
        assert!(!understood(page(MAX_PAGE as usize + 1, 1)));
        assert!(!understood(page(MAX_PAGE as usize, 750)));
    }

    proptest! {
        #[test]
        fn nonsense_never_panics(kind in any::<u8>(), body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = FromFiles::decode(0, kind, &body);
            let _ = ToFiles::decode(kind, &body);
        }
    }
}
