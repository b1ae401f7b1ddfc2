//! The tools that an agent's model calls: their schemas, what a call means, and the texts that the model reads.
//!
//! `shell_exec`, `shell_wait` and `shell_kill` keep the contract of the tools that existing agents know; all others go
//! beyond it. Models are shown what [`schema`] has. Every way to call a tool (REST, MCP, library) parses a call by
//! [`Call::parse`] and answers a text made by [`text`] and [`cut`].

pub mod call;
pub mod cut;
pub mod schema;
pub mod text;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::id::CommandId;
pub use call::Call;
pub use schema::{Format, schemas, schemas_waiting};

/// Seconds that a call waits unless it says otherwise.
pub const DEFAULT_TIMEOUT: f64 = 60.0;
/// Longest that one call may wait, in seconds; to wait longer is to call again.
pub const MAX_TIMEOUT: f64 = 3600.0;
/// Levels of folders that `list_files` shows unless asked otherwise, and at most.
pub const DEFAULT_DEPTH: u64 = 3;
/// See [`DEFAULT_DEPTH`].
pub const MAX_DEPTH: u64 = 20;
/// Largest content of `write_file` and largest file that `edit_file` changes, in bytes: what a model can have meant.
pub const MAX_CONTENT: usize = 512 * 1024;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Run a command.
    ShellExec,
    /// Go on waiting for one.
    ShellWait,
    /// End one.
    ShellKill,
    /// What runs.
    ShellList,
    /// Read output again.
    ShellOutput,
    /// Write a file.
    WriteFile,
    /// Read a file.
    ReadFile,
    /// Show what is in a folder.
    ListFiles,
    /// Replace text in a file.
    EditFile,
}

/// Every tool, in the order in which models are shown them.
pub const TOOLS: [Tool; 9] = [
    Tool::ShellExec,
    Tool::ShellWait,
    Tool::ShellKill,
    Tool::ShellList,
    Tool::ShellOutput,
    Tool::WriteFile,
    Tool::ReadFile,
    Tool::ListFiles,
    Tool::EditFile,
];

/// What a tool does to its surroundings, as MCP clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effects {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy what is there.
    pub destructive: bool,
    /// Calling it again with the same input changes nothing more.
    pub idempotent: bool,
}

impl Tool {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Tool::ShellExec => "shell_exec",
            Tool::ShellWait => "shell_wait",
            Tool::ShellKill => "shell_kill",
            Tool::ShellList => "shell_list",
            Tool::ShellOutput => "shell_output",
            Tool::WriteFile => "write_file",
            Tool::ReadFile => "read_file",
            Tool::ListFiles => "list_files",
            Tool::EditFile => "edit_file",
        }
    }

    /// The tool of this name.
    pub fn named(name: &str) -> Option<Tool> {
        TOOLS.into_iter().find(|tool| tool.name() == name)
    }

    /// A few words for people.
    pub fn title(self) -> &'static str {
        match self {
            Tool::ShellExec => "Run a command",
            Tool::ShellWait => "Wait for a command",
            Tool::ShellKill => "Kill a command",
            Tool::ShellList => "List commands",
            Tool::ShellOutput => "Read output",
            Tool::WriteFile => "Write a file",
            Tool::ReadFile => "Read a file",
            Tool::ListFiles => "List files",
            Tool::EditFile => "Edit a file",
        }
    }

    /// What it does to its surroundings.
    pub fn effects(self) -> Effects {
        let effects = |read_only, destructive, idempotent| Effects { read_only, destructive, idempotent };
        match self {
            Tool::ShellExec | Tool::EditFile => effects(false, true, false),
            Tool::ShellKill | Tool::WriteFile => effects(false, true, true),
            // It moves what was given on, but changes nothing in the sandbox.
            Tool::ShellWait => effects(true, false, false),
            Tool::ShellList | Tool::ShellOutput | Tool::ReadFile | Tool::ListFiles => effects(true, false, true),
        }
    }
}

/// What came of a call: `text` is what the model reads, the rest is for the program around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolAnswer {
    /// What the model reads.
    pub text: String,
    /// Does it begin with `ERROR:`?
    pub is_error: bool,
    /// The command that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
    /// Its state word: `running`, `exited`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its exit code as the text gives it, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Offset of the first byte of output that the text is made of: to read a lost answer again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Offset behind the last one: what this reader is given next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Was output left out of the text?
    #[serde(default)]
    pub truncated: bool,
}

/// A call of a tool as it was written down: what the model asked for, and exactly what it was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallView {
    /// Counts upward; of one session's calls the later one has the higher number.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Its input as JSON, at most the first 4 KiB.
    pub input: String,
    /// Who called.
    pub actor: Actor,
    /// The command that it is about.
    pub command_id: Option<CommandId>,
    /// When it was called.
    pub at: f64,
    /// When it was answered.
    pub ended_at: f64,
    /// What the model read.
    pub text: String,
    /// Offset of the first byte of output that the text is made of.
    pub offset: Option<u64>,
    /// Offset behind the last one.
    pub next_offset: Option<u64>,
}

/// GET `/v1/history/{id}/tool-calls`: newest first, a page at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallList {
    /// Newest first.
    pub calls: Vec<ToolCallView>,
    /// Give it as `before` to get the next page; `None`: that was all.
    pub next: Option<u64>,
}

impl ToolAnswer {
    /// One that is about no command.
    pub fn plain(text: String) -> Self {
        Self {
            text,
            is_error: false,
            command_id: None,
            state: None,
            exit_code: None,
            offset: None,
            next_offset: None,
            truncated: false,
        }
    }

    /// A refusal.
    pub fn refused(reason: &str) -> Self {
        Self { is_error: true, ..Self::plain(text::refused(reason)) }
    }
}
