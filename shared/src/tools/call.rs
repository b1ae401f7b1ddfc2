//! What a model's call of a tool means, or what is wrong with it.

use serde_json::{Map, Value};

use super::cut::MAX_CHARACTERS;
use super::{DEFAULT_DEPTH, DEFAULT_TIMEOUT, MAX_CONTENT, MAX_DEPTH, MAX_TIMEOUT, TOOLS, Tool};
use crate::command::MAX_COMMAND_BYTES;
use crate::id::CommandId;

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
                check_command(&command)?;
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

/// Can this be a command? If not, what to do.
pub fn check_command(command: &str) -> Result<(), String> {
    if command.trim().is_empty() {
        return Err("`command` is empty".to_owned());
    }
    if command.len() > MAX_COMMAND_BYTES {
        return Err(format!(
            "`command` has {} bytes, at most {MAX_COMMAND_BYTES} are possible; write it to a file with write_file and run that",
            command.len()
        ));
    }
    Ok(())
}

/// Enough to recognise what was given.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
