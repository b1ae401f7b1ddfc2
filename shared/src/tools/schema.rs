//! What models are shown of the tools: descriptions, and the JSON Schema of each input.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cut::MAX_CHARACTERS;
use super::{DEFAULT_TIMEOUT, MAX_DEPTH, MAX_TIMEOUT, TOOLS, Tool};

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

impl Tool {
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
        self.schema_waiting(DEFAULT_TIMEOUT)
    }

    /// The same where a call waits for another time unless it says otherwise, in seconds.
    pub fn schema_waiting(self, default: f64) -> Value {
        let command_id = json!({"type": "string", "description": "The command's id, such as shell_list shows."});
        let timeout = json!({
            "type": "number",
            "description": format!("Seconds to wait for the command's end before answering; {default} unless given."),
            "minimum": 0, "maximum": MAX_TIMEOUT as u64,
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
}

/// All schemas, as a model's API takes them.
pub fn schemas(format: Format) -> Vec<Value> {
    schemas_waiting(format, DEFAULT_TIMEOUT)
}

/// The same where calls wait for another time unless they say otherwise, in seconds.
pub fn schemas_waiting(format: Format, default: f64) -> Vec<Value> {
    let one = |tool: Tool| {
        let (name, description, schema) = (tool.name(), tool.description(), tool.schema_waiting(default));
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

#[cfg(test)]
mod tests {
    use super::super::Call;
    use super::*;

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
            let missing = Call::parse(name, &json!({}));
            assert_eq!(missing.is_err(), !required.is_empty(), "{name}");
            for property in one["input_schema"]["properties"].as_object().expect("an object").keys() {
                // A value of no type that is taken: the argument is known, and looked at.
                let why = Call::parse(name, &json!({ property: [] })).expect_err("no argument is a list");
                assert!(!why.contains("has no argument"), "{name} {property}: {why}");
            }
        }
    }

    #[test]
    fn a_schema_says_how_long_its_call_waits_and_whole_numbers_are_whole() {
        let said = |schemas: Vec<Value>, name: &str| {
            let tool = schemas.into_iter().find(|tool| tool["name"] == name).expect("it is there");
            tool["input_schema"]["properties"]["timeout"].to_string()
        };
        for name in ["shell_exec", "shell_wait"] {
            let usual = said(schemas(Format::Anthropic), name);
            assert!(usual.contains("; 60 unless given.") && usual.contains("\"maximum\":3600,"), "{usual}");
            let long = said(schemas_waiting(Format::Anthropic, 120.0), name);
            assert!(long.contains("; 120 unless given."), "{long}");
            let short = said(schemas_waiting(Format::Anthropic, 0.5), name);
            assert!(short.contains("; 0.5 unless given."), "{short}");
        }
    }
}
