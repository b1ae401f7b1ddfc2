//! Ended sessions, and searching in all of them, as the API and the page see them. Times are Unix seconds as floats.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::command::{CommandState, KillReport};
use crate::id::{CommandId, SessionId};
use crate::session::{DeathCause, EndReason, SessionView};

/// A session in the history: how it was at its end, and what there is to read. A live one, which `/v1/history/{id}` shows
/// as well, is as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryView {
    /// The session, with its newest command.
    #[serde(flatten)]
    pub session: SessionView,
    /// Who ended it; `None`: nobody did (it expired, for example), or it lives.
    pub ended_by: Option<Actor>,
    /// From then on it may be removed; `None` while it lives.
    pub kept_until: Option<f64>,
    /// Bytes that all its commands wrote.
    pub output_bytes: u64,
    /// Commands that ended otherwise than with code 0.
    pub commands_failed: u64,
}

/// GET `/v1/history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryList {
    /// Whose they are.
    pub tenant_id: String,
    /// How long ended sessions of this tenant are kept.
    pub retention_seconds: f64,
    /// Newest end first.
    pub sessions: Vec<HistoryView>,
    /// Give it as `before` to get the next page; `None`: that was all.
    pub next: Option<String>,
}

/// What somebody did to files, through the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FileAct {
    /// Wrote a file.
    Saved,
    /// Brought the last piece of an upload.
    Uploaded,
    /// Made a folder, unless it was there.
    FolderMade,
    /// Gave something another path.
    Renamed,
    /// Copied.
    Copied,
    /// Deleted.
    Deleted,
    /// Stopped a copy, which leaves nothing.
    CopyStopped,
    /// Stopped a deletion; what it had deleted by then is gone.
    DeletionStopped,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Happening {
    /// The session was made.
    Created {
        /// By whom.
        by: Actor,
    },
    /// A command was asked for.
    CommandStarted {
        /// Which.
        command_id: CommandId,
        /// Counts from 1 within the session.
        number: u64,
        /// The beginning of its text, at most 200 characters.
        command: String,
        /// By whom.
        by: Actor,
    },
    /// A command ended.
    CommandEnded {
        /// Which.
        command_id: CommandId,
        /// Counts from 1 within the session.
        number: u64,
        /// How: `state` and its details.
        end: CommandState,
        /// What a kill did, and who asked for it.
        kill: Option<KillReport>,
    },
    /// The sandbox died and was made again; at most the last 20 are known.
    Restarted {
        /// `None`: the server was restarted.
        cause: Option<DeathCause>,
        /// What is still there.
        kept: String,
        /// What is not.
        lost: String,
    },
    /// Someone took control, other than who made the session.
    Control {
        /// Who has it since then.
        holder: Actor,
    },
    /// Files were changed through the API, with success. (What commands change is not known.)
    FileChanged {
        /// What was done.
        act: FileAct,
        /// To which file, folder or link, as everywhere: lossless.
        path: String,
        /// The same, for people.
        name: String,
        /// Of a rename and a copy, where to.
        to: Option<String>,
        /// The same, for people.
        to_name: Option<String>,
        /// Bytes that were written or copied, where that is known.
        bytes: Option<u64>,
        /// Entries that were copied or deleted, where that is known.
        entries: Option<u64>,
        /// By whom.
        by: Actor,
    },
    /// From here on changes of files are only counted: a time line holds at most 10,000 of them.
    FileChangesLeftOut {
        /// How many so far.
        changes: u64,
    },
    /// The session ended.
    Ended {
        /// Why.
        reason: EndReason,
        /// Who did it, if somebody did.
        by: Option<Actor>,
    },
}

/// One entry of a time line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimelineEntry {
    /// When.
    pub at: f64,
    /// What: `event` and its details.
    #[serde(flatten)]
    pub what: Happening,
}

/// GET `/v1/history/{id}/timeline`: oldest first, a page at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Timeline {
    /// Oldest first.
    pub entries: Vec<TimelineEntry>,
    /// Give it as `after` to get the next page; `None`: that was all.
    pub next: Option<String>,
}

/// DELETE `/v1/history/{id}`: what was removed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Purged {
    /// Which session.
    pub session_id: SessionId,
    /// How many commands it had.
    pub commands: u64,
    /// How many bytes these had written.
    pub output_bytes: u64,
}

/// Where a word was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FoundIn {
    /// In the command's own text.
    Command,
    /// In what it wrote.
    Output,
}

/// A part of a snippet. Plain text: never markup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnippetPart {
    /// Without control characters.
    pub text: String,
    /// Is this what was searched for?
    pub found: bool,
}

/// A line in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchHit {
    /// In which session.
    pub session_id: SessionId,
    /// Its name.
    pub session_name: String,
    /// Has the session ended?
    pub session_ended: bool,
    /// In which command.
    pub command_id: CommandId,
    /// Counts from 1 within its session.
    pub number: u64,
    /// The beginning of its text, at most 200 characters.
    pub command: String,
    /// In its text or in its output.
    pub found_in: FoundIn,
    /// Offset in bytes of the first found word, from the beginning of the output (or of the command's text).
    pub offset: u64,
    /// Its line, from 1; `None` where lines before it were not counted.
    pub line: Option<u64>,
    /// The line, or the part around what was found.
    pub snippet: Vec<SnippetPart>,
    /// Not all of this command's output can be searched: of a long one only the first and the latest part, nothing of what
    /// came when the words of its session had reached their limit, and nothing of what its log does not hold any more.
    pub partly_indexed: bool,
}

/// GET `/v1/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchResult {
    /// Newest session first, newest command first.
    pub hits: Vec<SearchHit>,
    /// Give it as `before` to go on; `None`: everything was searched. A page can be empty and have a next one: a search
    /// answers after about two seconds with what it has, or after five where its first look takes as long.
    pub next: Option<String>,
    /// Commands in the sessions searched here of whose output not all can be searched ([`SearchHit::partly_indexed`]).
    pub partly_indexed: u64,
}
