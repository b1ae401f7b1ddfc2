//! Commands as the API and the page see them. Times are Unix seconds as floats.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::id::{CommandId, SessionId};
use crate::session::DeathCause;

/// Longest command text: what one argument of a Linux process can hold, less room for the rest.
pub const MAX_COMMAND_BYTES: usize = 120 * 1024;

/// A command may run for a day, unless the server is configured or asked otherwise.
pub const DEFAULT_LIMIT_SECONDS: f64 = 86_400.0;

/// Why nobody can know how a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Interruption {
    /// The whole sandbox died.
    SandboxDied {
        /// Why it died.
        cause: DeathCause,
    },
    /// The container engine stopped answering for good.
    EngineLost,
    /// The server was restarted while the command ran.
    ServerRestarted,
    /// The session ended while the command ran.
    SessionEnded,
    /// The helper vanished or sent nonsense.
    HelperLost,
}

/// Where a command is in its life. Exactly one of the last six is reached, once, and never invented.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CommandState {
    /// Asked for; no process seen yet.
    Starting,
    /// The helper reported its PID.
    Running,
    /// The process itself ended.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// Ended by a signal that nobody here sent.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// Ended by a kill from here, verified.
    Killed {
        /// The last signal that was needed.
        signal: i32,
        /// Who asked.
        by: Actor,
    },
    /// Ended by its own limit, verified.
    TimedOut,
    /// The helper or the engine could not start it.
    FailedToStart {
        /// Why, for people.
        message: String,
    },
    /// Nobody can know how it ended.
    Interrupted(Interruption),
}

impl CommandState {
    /// Has it ended?
    pub fn is_final(&self) -> bool {
        !matches!(self, CommandState::Starting | CommandState::Running)
    }
}

/// A process that outlived a kill.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Survivor {
    /// Process id inside the sandbox.
    pub pid: i32,
    /// Its name, made printable.
    pub name: String,
}

/// What a kill really did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KillReport {
    /// The last signal that was needed.
    pub signal: i32,
    /// Milliseconds from the first signal to the verified end.
    pub took_ms: u64,
    /// Who asked.
    pub by: Actor,
    /// Empty: nothing is left.
    pub survivors: Vec<Survivor>,
}

/// A command as everyone who may see it sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommandView {
    /// The id.
    pub command_id: CommandId,
    /// The session it runs in.
    pub session_id: SessionId,
    /// Counts from 1 within its session.
    pub number: u64,
    /// The text that bash got.
    pub command: String,
    /// Working directory; `None`: the workspace.
    pub cwd: Option<String>,
    /// stdout and stderr kept apart?
    pub split: bool,
    /// Who started it.
    pub actor: Actor,
    /// Where it is in its life: `state` and its details.
    #[serde(flatten)]
    pub state: CommandState,
    /// Asked for.
    pub created_at: f64,
    /// First process seen.
    pub started_at: Option<f64>,
    /// Ended.
    pub ended_at: Option<f64>,
    /// Process id inside the sandbox.
    pub pid: Option<i32>,
    /// Seconds after which it is ended.
    pub limit_seconds: f64,
    /// Bytes of output that were written, gaps included: offsets go from 0 to here.
    pub output_bytes: u64,
    /// Bytes no longer held, because the log is full (they lie between its first and its latest part).
    pub output_missing_bytes: u64,
    /// When the last byte came.
    pub last_output_at: Option<f64>,
    /// Will no more output come? A background child may hold it open after the command's end.
    pub output_closed: bool,
    /// Does the log hold all that was written? Known once the output is closed.
    pub output_complete: bool,
    /// Did the engine see a process of this sandbox run out of memory while the command ran?
    pub out_of_memory: bool,
    /// What a kill did, if there was one.
    pub kill: Option<KillReport>,
}

impl CommandView {
    /// One that was asked for at `created_at`, and of which nothing is known yet. It runs in the workspace, for at most
    /// [`DEFAULT_LIMIT_SECONDS`], with both channels in one, unless the caller says otherwise.
    pub fn starting(
        session_id: SessionId,
        command_id: CommandId,
        number: u64,
        command: impl Into<String>,
        actor: Actor,
        created_at: f64,
    ) -> Self {
        Self {
            command_id,
            session_id,
            number,
            command: command.into(),
            cwd: None,
            split: false,
            actor,
            state: CommandState::Starting,
            created_at,
            started_at: None,
            ended_at: None,
            pid: None,
            limit_seconds: DEFAULT_LIMIT_SECONDS,
            output_bytes: 0,
            output_missing_bytes: 0,
            last_output_at: None,
            output_closed: false,
            output_complete: false,
            out_of_memory: false,
            kill: None,
        }
    }
}

/// POST `/v1/sessions/{id}/commands`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunCommand {
    /// Text for `bash -c`, at most 120 KiB.
    pub command: String,
    /// Working directory; the workspace unless given. Relative ones start there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// More environment variables, at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Keep stdout and stderr apart; else both go to one pipe, in the order in which they were written.
    #[serde(default)]
    pub split: bool,
    /// Run on a terminal; not yet (501).
    #[serde(default)]
    pub tty: bool,
    /// Ended after this many seconds, at most the server's limit (24 h unless configured).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// What the agent that asks is called, 1 to 60 characters; the key's name unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// GET `…/commands`: newest first, a page at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommandList {
    /// Newest first.
    pub commands: Vec<CommandView>,
    /// Give it as `before` to get the next page; `None`: that was all.
    pub next: Option<u64>,
}

/// POST `…/kill`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KillCommand {
    /// Seconds between TERM and KILL, 0 to 60; 5 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<f64>,
}

/// POST `…/signal`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignalCommand {
    /// A name such as `SIGINT`, or `INT`.
    pub signal: String,
}

/// Answer headers of `…/output`.
pub mod output_headers {
    /// Offset of the first byte of the body.
    pub const OFFSET: &str = "glassbox-offset";
    /// Ask with this next.
    pub const NEXT: &str = "glassbox-next-offset";
    /// Bytes missing directly before the body (asked-for bytes that are no longer held); 0 or absent: none.
    pub const GAP: &str = "glassbox-gap-bytes";
    /// `true`: no more output will come after `NEXT`.
    pub const END: &str = "glassbox-end";
    /// The command's state word.
    pub const STATE: &str = "glassbox-command-state";
}

/// Linux signal numbers by name, as far as people use them here.
const SIGNALS: [(&str, i32); 19] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

/// `SIGTERM` for 15; `signal 64` for what has no common name.
pub fn signal_name(number: i32) -> String {
    SIGNALS
        .iter()
        .find(|(_, n)| *n == number)
        .map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

/// The number for `SIGINT`, `INT` or `int`.
pub fn signal_number(name: &str) -> Option<i32> {
    let upper = name.trim().to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS.iter().find(|(known, _)| *known == bare).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_a_word_with_its_details_beside_it() {
        let json = |state: CommandState| serde_json::to_value(state).expect("plain data");
        assert_eq!(json(CommandState::Exited { code: 7 }), serde_json::json!({"state": "exited", "code": 7}));
        assert_eq!(
            json(CommandState::Interrupted(Interruption::SandboxDied { cause: DeathCause::Oom })),
            serde_json::json!({"state": "interrupted", "reason": "sandbox_died", "cause": "oom"})
        );
    }

    #[test]
    fn signals_have_names_both_ways() {
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(64), "signal 64");
        assert_eq!(signal_number("sigint"), Some(2));
        assert_eq!(signal_number("KILL"), Some(9));
        assert_eq!(signal_number("BOGUS"), None);
    }
}
