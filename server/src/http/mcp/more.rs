//! The tools that only MCP clients have: names and texts that users of the hosted sandboxes know. What they do is in
//! `run` (`run_command`) and `look` (those about the sandbox itself).

pub(super) mod look;
pub(super) mod run;

use glassbox_shared::text::plain;
use glassbox_shared::tools::call::check_command;
use serde::Deserialize;
use serde_json::{Value, json};

/// Seconds that a `run_command` may run unless it says otherwise, and at most.
const DEFAULT_LIMIT: f64 = 30.0;
const MAX_LIMIT: f64 = 60.0;
/// Commands that `activity` tells of unless it is asked for another number, and at most.
const DEFAULT_ACTIVITY: usize = 20;
/// Most characters of why an input does not fit.
const LONGEST_REASON: usize = 200;
const MAX_ACTIVITY: usize = 100;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    RunCommand,
    SandboxInfo,
    ResetSandbox,
    Activity,
    ImportRepo,
    EgressLog,
    SaveSnapshot,
    ListSnapshots,
    RestoreSnapshot,
}

/// In the order in which they are listed.
pub(super) const MORE: [More; 9] = [
    More::RunCommand,
    More::SandboxInfo,
    More::ResetSandbox,
    More::Activity,
    More::ImportRepo,
    More::EgressLog,
    More::SaveSnapshot,
    More::ListSnapshots,
    More::RestoreSnapshot,
];

/// A call that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MoreCall {
    Run { command: String, limit: f64 },
    Info,
    Reset,
    Activity { limit: usize },
}

impl More {
    pub(super) fn name(self) -> &'static str {
        match self {
            More::RunCommand => "run_command",
            More::SandboxInfo => "sandbox_info",
            More::ResetSandbox => "reset_sandbox",
            More::Activity => "activity",
            More::ImportRepo => "import_repo",
            More::EgressLog => "egress_log",
            More::SaveSnapshot => "save_snapshot",
            More::ListSnapshots => "list_snapshots",
            More::RestoreSnapshot => "restore_snapshot",
        }
    }

    pub(super) fn named(name: &str) -> Option<More> {
        MORE.into_iter().find(|tool| tool.name() == name)
    }

    /// A few words for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            More::RunCommand => "Run a short command",
            More::SandboxInfo => "Describe the sandbox",
            More::ResetSandbox => "Begin with an empty sandbox",
            More::Activity => "Show what was run",
            More::ImportRepo => "Import a repository",
            More::EgressLog => "Show network use",
            More::SaveSnapshot => "Save a snapshot",
            More::ListSnapshots => "List snapshots",
            More::RestoreSnapshot => "Restore a snapshot",
        }
    }

    /// What the model is told.
    pub(super) fn description(self) -> &'static str {
        match self {
            More::RunCommand => {
                "Runs a short bash command in your sandbox and answers with stdout and stderr apart and the exit code. \
                 The command is ended after `timeout_seconds`; for anything that may take longer use shell_exec, which \
                 lets it go on."
            }
            More::SandboxInfo => "Tells what your sandbox is: its state, limits, folders, and when it ends.",
            More::ResetSandbox => {
                "Deletes your sandbox with all files and processes in it. The next call gets a new, empty one. This cannot be undone."
            }
            More::Activity => {
                "Lists the commands that were run in this sandbox, newest first: by whom, how each ended, how long it took."
            }
            More::ImportRepo => "Unpacks a public repository in the sandbox. Not enabled on this server.",
            More::EgressLog => {
                "Shows which hosts were contacted. Not enabled on this server: sandboxes have no network."
            }
            More::SaveSnapshot => "Saves a folder as a snapshot. Not enabled on this server.",
            More::ListSnapshots => "Lists saved snapshots. Not enabled on this server.",
            More::RestoreSnapshot => "Brings a saved snapshot back. Not enabled on this server.",
        }
    }

    /// JSON Schema of its input.
    pub(super) fn schema(self) -> Value {
        let text = |what: &str| json!({"type": "string", "description": what});
        let limit = |most: usize, usual: usize| json!({"type": "integer", "minimum": 1, "maximum": most, "description": format!("At most so many; {usual} unless given.")});
        let (properties, required): (Value, &[&str]) = match self {
            More::RunCommand => (
                json!({
                    "command": text("Text for `bash -c`."),
                    "timeout_seconds": {
                        "type": "number", "minimum": 1, "maximum": MAX_LIMIT,
                        "description": "Seconds after which it is ended; 30 unless given.",
                    },
                }),
                &["command"],
            ),
            More::SandboxInfo | More::ResetSandbox | More::ListSnapshots => (json!({}), &[]),
            More::Activity => (json!({"limit": limit(MAX_ACTIVITY, DEFAULT_ACTIVITY)}), &[]),
            More::EgressLog => (json!({"limit": limit(1_000, 200)}), &[]),
            More::ImportRepo => (
                json!({"repo": text("`owner/name` or its address."), "ref": text("Branch, tag or commit."), "path": text("Where to unpack it.")}),
                &["repo"],
            ),
            More::SaveSnapshot => (json!({"name": text("Its name."), "path": text("The folder.")}), &[]),
            More::RestoreSnapshot => {
                (json!({"snapshot_id": text("Its id."), "path": text("Where to.")}), &["snapshot_id"])
            }
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// Read-only, destructive, idempotent; as `glassbox_shared::tools::Effects`.
    pub(super) fn effects(self) -> (bool, bool, bool) {
        match self {
            More::RunCommand | More::RestoreSnapshot => (false, true, false),
            More::ResetSandbox => (false, true, true),
            More::SandboxInfo | More::Activity | More::EgressLog | More::ListSnapshots => (true, false, true),
            More::ImportRepo | More::SaveSnapshot => (false, false, false),
        }
    }

    /// Takes a call as a model wrote it. The error is for the model.
    pub(super) fn parse(self, input: &Value) -> Result<MoreCall, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Run {
            command: String,
            timeout_seconds: Option<f64>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Limited {
            limit: Option<f64>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}

        let empty = json!({});
        let input = if input.is_null() { &empty } else { input };
        let name = self.name();
        // It quotes the input, which may be a MiB.
        let wrong = |error: serde_json::Error| {
            let why: String = plain(&error.to_string()).chars().take(LONGEST_REASON).collect();
            format!("the input of {name} does not fit: {why}")
        };
        match self {
            More::RunCommand => {
                let Run { command, timeout_seconds } = Run::deserialize(input).map_err(wrong)?;
                check_command(&command)?;
                let limit = timeout_seconds.unwrap_or(DEFAULT_LIMIT);
                if !(1.0..=MAX_LIMIT).contains(&limit) {
                    return Err(format!(
                        "`timeout_seconds` must be a number from 1 to {MAX_LIMIT}; use shell_exec for what takes longer"
                    ));
                }
                Ok(MoreCall::Run { command, limit })
            }
            More::SandboxInfo => Nothing::deserialize(input).map_err(wrong).map(|_| MoreCall::Info),
            More::ResetSandbox => Nothing::deserialize(input).map_err(wrong).map(|_| MoreCall::Reset),
            More::Activity => {
                let Limited { limit } = Limited::deserialize(input).map_err(wrong)?;
                let limit = limit.unwrap_or(DEFAULT_ACTIVITY as f64);
                if limit.fract() != 0.0 || !(1.0..=MAX_ACTIVITY as f64).contains(&limit) {
                    return Err(format!("`limit` must be a whole number from 1 to {MAX_ACTIVITY}"));
                }
                Ok(MoreCall::Activity { limit: limit as usize })
            }
            More::ImportRepo | More::EgressLog | More::SaveSnapshot | More::ListSnapshots | More::RestoreSnapshot => {
                Err(format!("{name} is not enabled on this server"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_or_told_what_would_be_right() {
        let run = |input| More::RunCommand.parse(&input);
        assert_eq!(run(json!({"command": "ls"})), Ok(MoreCall::Run { command: "ls".into(), limit: 30.0 }));
        assert_eq!(
            run(json!({"command": "ls", "timeout_seconds": 5})),
            Ok(MoreCall::Run { command: "ls".into(), limit: 5.0 })
        );
        assert!(run(json!({})).is_err_and(|why| why.contains("`command`")));
        assert!(run(json!({"command": ""})).is_err_and(|why| why.contains("empty")));
        assert!(run(json!({"command": "ls", "timeout_seconds": 61})).is_err_and(|why| why.contains("shell_exec")));
        assert!(run(json!({"command": "ls", "cwd": "/"})).is_err_and(|why| why.contains("cwd")));
        assert!(run(json!([])).is_err());
        let long = "x".repeat(1 << 20);
        for input in [json!({"command": "ls", long.as_str(): 1}), json!({"command": 1, "timeout_seconds": long})] {
            assert!(run(input).is_err_and(|why| why.len() < 1_000), "what is quoted of the input is bounded");
        }
        assert_eq!(More::SandboxInfo.parse(&Value::Null), Ok(MoreCall::Info));
        assert_eq!(More::Activity.parse(&json!({"limit": 3.0})), Ok(MoreCall::Activity { limit: 3 }));
        assert!(More::Activity.parse(&json!({"limit": 0})).is_err());
    }

    #[test]
    fn what_is_not_built_says_so_whatever_is_asked_of_it() {
        for tool in [More::ImportRepo, More::EgressLog, More::SaveSnapshot, More::ListSnapshots, More::RestoreSnapshot]
        {
            let why = tool.parse(&json!({"x": 1})).expect_err("not built");
            assert_eq!(why, format!("{} is not enabled on this server", tool.name()));
        }
    }

    #[test]
    fn names_are_found_again_and_schemas_are_objects() {
        for tool in MORE {
            assert_eq!(More::named(tool.name()), Some(tool));
            assert_eq!(tool.schema()["type"], "object");
        }
        assert_eq!(More::named("shell_exec"), None);
    }
}
