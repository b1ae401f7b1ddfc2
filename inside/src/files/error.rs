//! What can go wrong, in the words of whoever asked.

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::Failure;
use glassbox_shared::files::path::{PathError, display};
use rustix::io::Errno;

/// Longest text of a failure, in characters: of a path that is deeper than any that can be asked for, this much is told.
const MAX_DETAIL: usize = 8_000;

/// A failure on its way to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: ErrorCode,
    pub detail: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// What the system said about this file.
    pub fn of(errno: Errno, name: &[u8]) -> Self {
        let name = display(name);
        let (code, says) = match errno {
            Errno::NOENT => (ErrorCode::NotFound, "there is no such file or folder"),
            Errno::ACCESS | Errno::PERM => (ErrorCode::PermissionDenied, "the sandbox's user may not do this"),
            Errno::ROFS => (ErrorCode::PermissionDenied, "this part of the sandbox is read-only"),
            Errno::EXIST => (ErrorCode::Exists, "something of that name is there already"),
            Errno::NOTEMPTY => (ErrorCode::NotEmpty, "the folder is not empty"),
            Errno::NOTDIR => (ErrorCode::NotAFolder, "it is not a folder"),
            Errno::ISDIR => (ErrorCode::NotAFile, "it is a folder"),
            Errno::LOOP => (ErrorCode::LinkLoop, "links lead to links without end"),
            Errno::NAMETOOLONG | Errno::ILSEQ => (ErrorCode::BadName, "this name cannot be"),
            Errno::NOSPC | Errno::DQUOT => {
                (ErrorCode::WorkspaceFull, "the sandbox's disk is full; delete something and try again")
            }
            Errno::FBIG => (ErrorCode::TooLarge, "the file would be too large"),
            Errno::XDEV => (ErrorCode::Conflict, "the new place is on another file system; copy it instead"),
            Errno::INVAL => (ErrorCode::Conflict, "this cannot be done with it"),
            Errno::BUSY | Errno::TXTBSY => (ErrorCode::Conflict, "it is in use"),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                (ErrorCode::FilesUnavailable, "the sandbox has no room for this now; try again")
            }
            other => return Self::new(ErrorCode::Conflict, format!("{name}: the system says: {other}")),
        };
        Self::new(code, format!("{name}: {says}"))
    }

    /// The same of the standard library.
    pub fn of_io(error: &std::io::Error, name: &[u8]) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::of(Errno::from_raw_os_error(number), name),
            None => Self::new(ErrorCode::Conflict, format!("{}: {error}", display(name))),
        }
    }

    /// Whoever asked does not want it any more.
    pub fn cancelled() -> Self {
        Self::new(ErrorCode::Conflict, "this was cancelled")
    }

    pub fn not_a_file(name: &[u8], what: &str) -> Self {
        Self::new(ErrorCode::NotAFile, format!("{}: it is a {what}, which has no content", display(name)))
    }

    /// It was replaced between two steps.
    pub fn moved(name: &[u8]) -> Self {
        Self::new(ErrorCode::Conflict, format!("{}: it was replaced just now; try again", display(name)))
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::new(ErrorCode::BadName, error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(Error { code, detail }: Error) -> Self {
        let detail = if detail.len() > MAX_DETAIL { detail.chars().take(MAX_DETAIL).collect() } else { detail };
        Failure { code, detail }
    }
}

/// Says of which file the system spoke.
pub trait Naming<T> {
    fn of(self, name: &[u8]) -> Result<T>;
}

impl<T> Naming<T> for rustix::io::Result<T> {
    fn of(self, name: &[u8]) -> Result<T> {
        self.map_err(|errno| Error::of(errno, name))
    }
}

impl<T> Naming<T> for std::io::Result<T> {
    fn of(self, name: &[u8]) -> Result<T> {
        self.map_err(|error| Error::of_io(&error, name))
    }
}
