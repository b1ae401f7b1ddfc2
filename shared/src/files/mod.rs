//! Files of a sandbox, as the REST API tells of them (`/v1/sessions/{id}/fs/…`).
//!
//! Names of files are bytes. A [`FileEntry`]'s `path` is lossless: [`path::encode`] wrote it, and it is given back as it
//! is, in bodies and after `?path=` (where it needs no further encoding). Its `name` is for people only.
//!
//! | module | what |
//! | --- | --- |
//! | [`path`] | names and paths as text |
//! | [`frames`] | the frames between the server and `glassbox-inside files` |

pub mod frames;
pub mod path;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::error::ErrorCode;

/// Entries of a page unless asked otherwise.
pub const DEFAULT_PAGE: u32 = 200;
/// Most entries of a page: about 400 kB of JSON.
pub const MAX_PAGE: u32 = 1_000;

/// What something in a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FileType {
    /// A folder.
    Folder,
    /// A regular file, the only thing that has content.
    File,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkTarget {
    /// What stands in the link, encoded as every path; it may be relative to the link's folder.
    pub path: String,
    /// The same, for people.
    pub name: String,
    /// What is there; `None` when there is nothing, or nothing that may be seen.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileEntry {
    /// Lossless: percent-encoded bytes. Hardened: from the workspace (`""` is the workspace itself); open: absolute.
    pub path: String,
    /// Its last part for people: what cannot be shown is written as an escape.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Bytes, of a file.
    pub size: u64,
    /// Permissions as octal text, such as `0644`.
    pub mode: String,
    /// Owner's number.
    pub uid: u32,
    /// Group's number.
    pub gid: u32,
    /// Owner's name, if the sandbox's list of users has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Last change of the content, Unix seconds.
    pub modified: f64,
    /// Changes whenever the file does. Opaque; the `ETag` of its content without the quotes.
    pub version: String,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LinkTarget>,
}

/// What a listing is sorted by; folders are not put first, unless by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SortBy {
    /// By the bytes of the name, ASCII letters without regard to case.
    #[default]
    Name,
    /// By size, then name.
    Size,
    /// By last change, then name.
    Modified,
    /// Folders, files, links, others; then by name.
    Type,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SortOrder {
    /// Smallest, oldest, or first in the alphabet first.
    #[default]
    Asc,
    /// The other way round.
    Desc,
}

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FolderPage {
    /// The folder.
    pub path: String,
    /// Its name for people; empty for the workspace of a hardened sandbox and for `/`.
    pub name: String,
    /// Changes when the folder does; for `…/fs/watch`.
    pub version: String,
    /// Entries that the filter leaves, on all pages together.
    pub total: u64,
    /// This page's.
    pub entries: Vec<FileEntry>,
    /// Give it as `cursor` for the next page; `None`: this is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST …/fs/uploads`: a large file in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartUpload {
    /// Where the file will be; its folder must exist.
    pub path: String,
    /// Bytes that it will have.
    pub size: u64,
    /// Replace what is there at the end; else that is a conflict.
    #[serde(default)]
    pub replace: bool,
}

/// An upload that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadView {
    /// Its id.
    pub upload_id: String,
    /// Bytes that have arrived: where to go on.
    pub offset: u64,
    /// Bytes that it will have.
    pub size: u64,
}

/// `PATCH …/fs/uploads/{id}`: how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadProgress {
    /// Bytes that have arrived.
    pub offset: u64,
    /// The file, when all of it has arrived. The upload is then over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<FileEntry>,
}

/// `POST …/fs/folders`: missing parents are made too, and a folder that is there already is fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MakeFolder {
    /// The folder.
    pub path: String,
}

/// `POST …/fs/rename` and `…/fs/copy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MoveEntry {
    /// What.
    pub from: String,
    /// The whole new path, not only the folder.
    pub to: String,
    /// Replace a file that is there; else that is a conflict. Folders are never replaced.
    #[serde(default)]
    pub replace: bool,
}

/// A line of the answer to a copy or a deletion (`application/x-ndjson`). The last one is `done` or `error`; where
/// neither comes, the connection broke off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobLine {
    /// It is under way; at most four a second.
    Progress(JobProgress),
    /// It is done.
    Done(JobDone),
    /// It was given up. A copy leaves nothing; what a deletion had deleted is gone.
    Error(JobError),
}

/// How far a copy or a deletion is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobProgress {
    /// Entries that are done.
    pub done: u64,
    /// Bytes that were copied; 0 in a deletion.
    #[serde(default)]
    pub bytes: u64,
    /// Where it is.
    pub path: String,
}

/// What a copy or a deletion came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDone {
    /// Entries copied or deleted.
    pub done: u64,
    /// Bytes that were copied; 0 in a deletion.
    #[serde(default)]
    pub bytes: u64,
    /// Pipes, sockets and devices that were not copied.
    #[serde(default)]
    pub skipped: u64,
    /// What a copy made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<FileEntry>,
}

/// Why a copy or a deletion was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobError {
    /// As in every error's body.
    pub code: ErrorCode,
    /// For people.
    pub detail: String,
}

/// What takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobKind {
    /// A copy.
    Copy,
    /// A deletion.
    Delete,
}

/// A copy or a deletion that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobView {
    /// Its id.
    pub job_id: String,
    /// Which of both.
    pub kind: JobKind,
    /// What is copied or deleted, lossless.
    pub path: String,
    /// The same, for people.
    pub name: String,
    /// The copy's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The same, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_name: Option<String>,
    /// Who began it.
    pub by: Actor,
    /// When.
    pub since: f64,
    /// Entries that are done.
    pub done: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// `GET …/fs/jobs`: oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobList {
    /// All that are under way.
    pub jobs: Vec<JobView>,
}

/// `GET …/fs/watch`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WatchAnswer {
    /// The folder's (or file's) version now.
    pub version: String,
    /// Is it another one than was given?
    pub changed: bool,
}
