//! The tools that an agent's model calls: their schemas, what a call means, and the texts that the model reads.
//!
//! `shell_exec`, `shell_wait` and `shell_kill` keep the contract of the tools that existing agents know; all others go
//! beyond it. Every way to call a tool (REST, MCP, library) parses a call by [`Call::parse`] and answers a text made by
//! [`text`] and [`cut`].

pub mod cut;
pub mod text;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::command::MAX_COMMAND_BYTES;
use crate::id::CommandId;
use cut::MAX_CHARACTERS;

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

/// Whose form a list of schemas has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Format {
    /// `name`, `description`, `input_schema`.
    #[default]
    Anthropic,
    /// `{"type": "function", "function": {name, description, parameters}}`.
    Openai,
}

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

    /// What the model is told.
    pub fn description(self) -> &'static str {
        match self {
            Tool::ShellExec => {
                "Runs a bash command in your sandbox, a Linux machine of its own without network access. Answers with \
                 the exit code and the output, stdout and stderr together in the order in which they were written. A \
                 command that takes longer than `timeout` is not stopped: you get the output so far, and then choose \
                 shell_wait to go on waiting or shell_kill to end it. Every command starts in the workspace with a \
                 fresh shell: a `cd` or an exported variable lasts for that command only, so join what belongs \
                 together with `&&`. Files, installed packages and background processes stay. Standard input is \
                 empty: pass flags such as `-y` instead of answering questions. One command runs at a time unless \
                 `background` is true; use that for servers and watchers."
            }
            Tool::ShellWait => {
                "Goes on waiting for the command that is running, at most `timeout` seconds, and answers with the \
                 output that you have not been given yet. Without `command_id` it is the last command that you did \
                 not start in the background."
            }
            Tool::ShellKill => {
                "Ends a command that is running, with every process that it started: SIGTERM, and SIGKILL for what is \
                 left after 5 seconds. Answers how it ended, with the rest of its output."
            }
            Tool::ShellList => "Lists the commands that run now in this sandbox, and the last ones that have ended.",
            Tool::ShellOutput => {
                "Reads a part of a command's output again, from a byte offset on; for output whose middle was cut. \
                 It does not change what shell_wait gives."
            }
            Tool::WriteFile => {
                "Writes a text file, whole: it replaces what is there. Missing folders are made. Relative paths start \
                 in the workspace."
            }
            Tool::ReadFile => {
                "Reads a text file. Long files are cut in the middle; `offset` and `limit` choose lines. Relative \
                 paths start in the workspace."
            }
            Tool::ListFiles => {
                "Lists a folder and the folders in it, one line an entry: folders end with `/`, files have their size \
                 in bytes."
            }
            Tool::EditFile => {
                "Replaces a text in a file by another. `old_string` must stand in the file exactly as given, white \
                 space and line ends included, and only once, unless `replace_all` is true."
            }
        }
    }

    /// JSON Schema of its input.
    pub fn schema(self) -> Value {
        let command_id = json!({"type": "string", "description": "The command's id, such as shell_list shows."});
        let timeout = json!({
            "type": "number",
            "description": "Seconds to wait for the command's end before answering; 60 unless given.",
            "minimum": 0, "maximum": MAX_TIMEOUT,
        });
        let path = |what: &str| json!({"type": "string", "description": what});
        let (properties, required): (Value, &[&str]) = match self {
            Tool::ShellExec => (
                json!({
                    "command": {"type": "string", "description": "Text for `bash -c`."},
                    "timeout": timeout,
                    "background": {
                        "type": "boolean",
                        "description": "Start it, do not wait, and answer with its command id; false unless given.",
                    },
                }),
                &["command"],
            ),
            Tool::ShellWait => (json!({"timeout": timeout, "command_id": command_id}), &[]),
            Tool::ShellKill => (json!({"command_id": command_id}), &[]),
            Tool::ShellList => (json!({}), &[]),
            Tool::ShellOutput => (
                json!({
                    "command_id": command_id,
                    "offset": {"type": "integer", "minimum": 0, "description": "First byte; 0 unless given."},
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": MAX_CHARACTERS,
                        "description": "Most characters; 30000 unless given.",
                    },
                }),
                &["command_id"],
            ),
            Tool::WriteFile => (
                json!({
                    "path": path("The file."),
                    "content": {"type": "string", "description": "All that will be in it."},
                }),
                &["path", "content"],
            ),
            Tool::ReadFile => (
                json!({
                    "path": path("The file."),
                    "offset": {"type": "integer", "minimum": 1, "description": "First line; 1 unless given."},
                    "limit": {"type": "integer", "minimum": 1, "description": "Most lines; all unless given."},
                }),
                &["path"],
            ),
            Tool::ListFiles => (
                json!({
                    "path": path("The folder; the workspace unless given."),
                    "max_depth": {
                        "type": "integer", "minimum": 1, "maximum": MAX_DEPTH,
                        "description": "Levels of folders; 3 unless given.",
                    },
                }),
                &[],
            ),
            Tool::EditFile => (
                json!({
                    "path": path("The file."),
                    "old_string": {"type": "string", "description": "The text to replace, exactly."},
                    "new_string": {"type": "string", "description": "What stands there afterwards."},
                    "replace_all": {"type": "boolean", "description": "Replace it everywhere; false unless given."},
                }),
                &["path", "old_string", "new_string"],
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
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

/// All schemas, as a model's API takes them.
pub fn schemas(format: Format) -> Vec<Value> {
    let one = |tool: Tool| {
        let (name, description, schema) = (tool.name(), tool.description(), tool.schema());
        match format {
            Format::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
            Format::Openai => json!({
                "type": "function",
                "function": {"name": name, "description": description, "parameters": schema},
            }),
        }
    };
    TOOLS.into_iter().map(one).collect()
}

/// A call that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// `shell_exec`
    Exec {
        /// For bash.
        command: String,
        /// Seconds.
        timeout: f64,
        /// Do not wait.
        background: bool,
    },
    /// `shell_wait`
    Wait {
        /// Seconds.
        timeout: f64,
        /// The last one in the foreground unless given.
        command: Option<CommandId>,
    },
    /// `shell_kill`
    Kill {
        /// The last one in the foreground unless given.
        command: Option<CommandId>,
    },
    /// `shell_list`
    List,
    /// `shell_output`
    Output {
        /// Whose.
        command: CommandId,
        /// First byte.
        offset: u64,
        /// Most characters.
        limit: usize,
    },
    /// `write_file`
    WriteFile {
        /// Where.
        path: String,
        /// All of it.
        content: String,
    },
    /// `read_file`
    ReadFile {
        /// Where.
        path: String,
        /// First line, from 1.
        offset: u64,
        /// Most lines.
        limit: Option<u64>,
    },
    /// `list_files`
    ListFiles {
        /// Where; empty: the workspace.
        path: String,
        /// Levels.
        max_depth: u64,
    },
    /// `edit_file`
    EditFile {
        /// Where.
        path: String,
        /// What stands there.
        old: String,
        /// What shall stand there.
        new: String,
        /// Everywhere?
        all: bool,
    },
}

impl Call {
    /// Takes a call as a model wrote it. The error is for the model: what is wrong and what would be right.
    pub fn parse(name: &str, input: &Value) -> Result<Call, String> {
        let Some(tool) = Tool::named(name) else {
            let names: Vec<_> = TOOLS.into_iter().map(Tool::name).collect();
            return Err(format!("there is no tool {:?}; the tools are {}", shortened(name), names.join(", ")));
        };
        let empty = Map::new();
        let fields = match input {
            Value::Object(fields) => fields,
            // Models leave it out where nothing is required.
            Value::Null => &empty,
            _ => return Err(format!("the input of {name} must be a JSON object")),
        };
        let schema = tool.schema();
        let known = schema["properties"].as_object().unwrap_or(&empty);
        if let Some(unknown) = fields.keys().find(|key| !known.contains_key(*key)) {
            let names: Vec<_> = known.keys().map(String::as_str).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("{name} has no argument {:?}; its arguments: {names}", shortened(unknown)));
        }
        let input = Input { tool: name, fields };
        Ok(match tool {
            Tool::ShellExec => {
                let command = input.required("command")?;
                if command.trim().is_empty() {
                    return Err("`command` is empty".to_owned());
                }
                if command.len() > MAX_COMMAND_BYTES {
                    return Err(format!(
                        "`command` has {} bytes, at most {MAX_COMMAND_BYTES} are possible; write it to a file with \
                         write_file and run that",
                        command.len()
                    ));
                }
                let background = input.flag("background")?;
                Call::Exec { command, timeout: input.timeout()?, background }
            }
            Tool::ShellWait => Call::Wait { timeout: input.timeout()?, command: input.command()? },
            Tool::ShellKill => Call::Kill { command: input.command()? },
            Tool::ShellList => Call::List,
            Tool::ShellOutput => Call::Output {
                command: input.command()?.ok_or_else(|| input.missing("command_id"))?,
                offset: input.number("offset", 0, u64::MAX)?.unwrap_or(0),
                limit: input.number("limit", 1, MAX_CHARACTERS as u64)?.map_or(MAX_CHARACTERS, |limit| limit as usize),
            },
            Tool::WriteFile => {
                Call::WriteFile { path: input.path()?, content: input.content("content", "the content")? }
            }
            Tool::ReadFile => Call::ReadFile {
                path: input.path()?,
                offset: input.number("offset", 1, u64::MAX)?.unwrap_or(1),
                limit: input.number("limit", 1, u64::MAX)?,
            },
            Tool::ListFiles => Call::ListFiles {
                path: input.text("path")?.unwrap_or_default(),
                max_depth: input.number("max_depth", 1, MAX_DEPTH)?.unwrap_or(DEFAULT_DEPTH),
            },
            Tool::EditFile => {
                let old = input.required("old_string")?;
                let new = input.content("new_string", "the new text")?;
                if old.is_empty() {
                    return Err("`old_string` is empty; use write_file to make a file".to_owned());
                }
                if old == new {
                    return Err("`old_string` and `new_string` are the same; nothing would change".to_owned());
                }
                Call::EditFile { path: input.path()?, old, new, all: input.flag("replace_all")? }
            }
        })
    }
}

/// What a model gave, with errors that say what would be right.
struct Input<'a> {
    tool: &'a str,
    fields: &'a Map<String, Value>,
}

impl Input<'_> {
    /// `null` is as good as left out.
    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn missing(&self, name: &str) -> String {
        format!("{} needs the argument `{name}`", self.tool)
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{name}` must be a string")),
        }
    }

    fn required(&self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    fn path(&self) -> Result<String, String> {
        self.required("path")
    }

    fn content(&self, name: &str, what: &str) -> Result<String, String> {
        let content = self.required(name)?;
        if content.len() > MAX_CONTENT {
            let length = content.len();
            return Err(format!("{what} has {length} bytes, at most {MAX_CONTENT} are possible; write it in parts"));
        }
        Ok(content)
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("`{name}` must be true or false")),
        }
    }

    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        // Some models write 3.0 for 3.
        let whole = value.as_u64().or_else(|| {
            value
                .as_f64()
                .filter(|number| number.fract() == 0.0 && (0.0..=9e15).contains(number))
                .map(|number| number as u64)
        });
        match whole.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None if most == u64::MAX => Err(format!("`{name}` must be a whole number, at least {least}")),
            None => Err(format!("`{name}` must be a whole number from {least} to {most}")),
        }
    }

    fn timeout(&self) -> Result<f64, String> {
        match self.get("timeout") {
            None => Ok(DEFAULT_TIMEOUT),
            Some(value) => value
                .as_f64()
                .filter(|seconds| (0.0..=MAX_TIMEOUT).contains(seconds))
                .ok_or_else(|| format!("`timeout` must be a number of seconds from 0 to {MAX_TIMEOUT}")),
        }
    }

    fn command(&self) -> Result<Option<CommandId>, String> {
        let Some(id) = self.text("command_id")? else { return Ok(None) };
        id.parse().map(Some).map_err(|_| {
            let id = shortened(&id);
            format!("{id:?} is no command id; shell_list shows the ids, and without one it is the last command")
        })
    }
}

/// Enough to recognise what was given.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, input: Value) -> Result<Call, String> {
        Call::parse(name, &input)
    }

    #[test]
    fn a_call_as_models_write_it_is_understood() {
        let exec = parse("shell_exec", json!({"command": "ls", "timeout": 5})).expect("fine");
        assert_eq!(exec, Call::Exec { command: "ls".into(), timeout: 5.0, background: false });
        assert_eq!(parse("shell_wait", json!({})), Ok(Call::Wait { timeout: DEFAULT_TIMEOUT, command: None }));
        assert_eq!(parse("shell_kill", Value::Null), Ok(Call::Kill { command: None }));
        assert_eq!(parse("shell_wait", json!({"command_id": null})), Ok(Call::Wait { timeout: 60.0, command: None }));
        let list = parse("list_files", json!({"max_depth": 2.0})).expect("fine");
        assert_eq!(list, Call::ListFiles { path: String::new(), max_depth: 2 });
    }

    #[test]
    fn a_wrong_call_says_what_would_be_right() {
        let why = |name: &str, input: Value| parse(name, input).expect_err("wrong");
        assert!(
            why("shell", json!({})).starts_with("there is no tool \"shell\"; the tools are shell_exec, shell_wait,")
        );
        assert_eq!(why("shell_exec", json!({})), "shell_exec needs the argument `command`");
        assert_eq!(why("shell_exec", json!({"command": 7})), "`command` must be a string");
        assert_eq!(why("shell_exec", json!({"command": " "})), "`command` is empty");
        assert_eq!(why("shell_exec", json!([1])), "the input of shell_exec must be a JSON object");
        assert_eq!(
            why("shell_exec", json!({"command": "x", "timeout": "1"})),
            "`timeout` must be a number of seconds from 0 to 3600"
        );
        assert_eq!(why("shell_wait", json!({"timeout": -1})), "`timeout` must be a number of seconds from 0 to 3600");
        assert_eq!(
            why("shell_exec", json!({"cmd": "x"})),
            "shell_exec has no argument \"cmd\"; its arguments: background, command, timeout"
        );
        assert!(why("shell_wait", json!({"command_id": "../x"})).contains("shell_list shows the ids"));
        assert_eq!(why("list_files", json!({"max_depth": 0})), "`max_depth` must be a whole number from 1 to 20");
        assert_eq!(
            why("read_file", json!({"path": "a", "offset": 1.5})),
            "`offset` must be a whole number, at least 1"
        );
    }

    #[test]
    fn every_schema_says_what_its_call_takes_in_both_forms() {
        let (anthropic, openai) = (schemas(Format::Anthropic), schemas(Format::Openai));
        assert_eq!((anthropic.len(), openai.len()), (TOOLS.len(), TOOLS.len()));
        for (one, other) in anthropic.iter().zip(&openai) {
            assert_eq!(other["type"], "function");
            assert_eq!(other["function"]["name"], one["name"]);
            assert_eq!(other["function"]["parameters"], one["input_schema"]);
            let name = one["name"].as_str().expect("a name");
            let required = one["input_schema"]["required"].as_array().expect("a list");
            let missing = parse(name, json!({}));
            assert_eq!(missing.is_err(), !required.is_empty(), "{name}");
            for property in one["input_schema"]["properties"].as_object().expect("an object").keys() {
                // A value of no type that is taken: the argument is known, and looked at.
                let why = parse(name, json!({ property: [] })).expect_err("no argument is a list");
                assert!(!why.contains("has no argument"), "{name} {property}: {why}");
            }
        }
    }
}
