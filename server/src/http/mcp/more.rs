//! The tools that only MCP clients have: names and texts that users of the hosted sandboxes know.

use std::fmt::Write as _;
use std::time::Duration;

use glassbox_shared::command::{CommandState, CommandView, MAX_COMMAND_BYTES, RunCommand};
use glassbox_shared::helper::Channel;
use glassbox_shared::session::{Profile, SessionState};
use glassbox_shared::text::plain;
use glassbox_shared::tools::cut::Cut;
use glassbox_shared::tools::{ToolAnswer, text};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Shared;
use super::place::Place;
use crate::clock;
use crate::command::log::Log;
use crate::control::Principal;
use crate::error::DomainError;
use crate::http::error::from_log;
use crate::session::Session;

/// Most characters of a `run_command`'s output, as its users know it.
const MAX_TEXT: usize = 20_000;
/// Bytes of output that are read at a time.
const PIECE: usize = 64 * 1024;
/// Records of output that are looked at at a time.
const RECORDS: usize = 1_000;
/// Seconds that a `run_command` may run unless it says otherwise, and at most.
const DEFAULT_LIMIT: f64 = 30.0;
const MAX_LIMIT: f64 = 60.0;
/// Commands that `activity` tells of unless it is asked for another number, and at most.
const DEFAULT_ACTIVITY: usize = 20;
const MAX_ACTIVITY: usize = 100;
/// Characters of a command in a list.
const SHORT: usize = 120;

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
        let wrong =
            |error: serde_json::Error| format!("the input of {name} does not fit: {}", plain(&error.to_string()));
        match self {
            More::RunCommand => {
                let Run { command, timeout_seconds } = Run::deserialize(input).map_err(wrong)?;
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

impl Shared {
    /// Those that need no sandbox: they tell of the one that is there, or that there is none.
    pub(super) async fn look(
        &self,
        who: &Principal,
        place: &Place,
        call: &MoreCall,
    ) -> Result<ToolAnswer, DomainError> {
        if *call == MoreCall::Reset {
            let text = if self.give_up(who, place).await? {
                "the sandbox is deleted, with all files and processes in it; the next call gets a new, empty one"
            } else {
                "there was no sandbox yet; the next call gets a new, empty one"
            };
            return Ok(ToolAnswer::plain(text.to_owned()));
        }
        let Some(session) = self.find(place) else {
            let text = "there is no sandbox yet: the first command or file operation makes one".to_owned();
            return Ok(ToolAnswer::plain(text));
        };
        match call {
            MoreCall::Activity { limit } => activity(&session, *limit).await,
            _ => Ok(ToolAnswer::plain(info(&session, place))),
        }
    }
}

/// `run_command`: answers at the command's end or, if that comes later, in time before `until`.
pub(super) async fn run(
    who: &Principal,
    session: &Session,
    command: String,
    limit: f64,
    until: Instant,
) -> Result<ToolAnswer, DomainError> {
    let request = RunCommand { command, split: true, timeout_seconds: Some(limit), ..RunCommand::default() };
    let started = session.run(who, request).await?;
    let command = session.command(&started.command_id).await?;
    let view = command.wait_end(until.saturating_duration_since(Instant::now())).await;
    let output = Output::read(&command.log().await?).await?;
    Ok(answer(who, &view, &output))
}

/// Both channels of a command, together at most [`MAX_TEXT`] characters.
#[derive(Debug)]
struct Output {
    stdout: Cut,
    stderr: Cut,
    missing: u64,
}

impl Output {
    /// As far as there is some now.
    async fn read(log: &Log) -> Result<Self, DomainError> {
        let end = log.state().end;
        let output = Self::cut(log, end, MAX_TEXT, MAX_TEXT).await?;
        let (out, err) = (output.stdout.characters() as usize, output.stderr.characters() as usize);
        if out + err <= MAX_TEXT {
            return Ok(output);
        }
        // Each gets half, and what the other one does not need.
        let half = MAX_TEXT / 2;
        let errs = err.min(half.max(MAX_TEXT.saturating_sub(out)));
        Self::cut(log, end, MAX_TEXT - errs, errs).await
    }

    async fn cut(log: &Log, end: u64, out: usize, err: usize) -> Result<Self, DomainError> {
        let (stdout, stderr) = (Cut::with_limit(0, out), Cut::with_limit(0, err));
        let mut output = Self { stdout, stderr, missing: 0 };
        let mut at = 0;
        while at < end {
            let records = log.records(at, RECORDS).await.map_err(from_log)?;
            if records.is_empty() {
                break;
            }
            for record in records {
                let channel = if record.channel == Channel::Stderr { &mut output.stderr } else { &mut output.stdout };
                let last = (record.offset + record.length).min(end);
                at = at.max(record.offset);
                while at < last {
                    let most = usize::try_from(last - at).unwrap_or(PIECE).min(PIECE);
                    let chunk = log.read(at, most).await.map_err(from_log)?;
                    if chunk.offset > at {
                        // Dropped by the log since the records were read.
                        at = chunk.offset;
                        continue;
                    }
                    if chunk.bytes.is_empty() {
                        break;
                    }
                    channel.push(&chunk.bytes);
                    at += chunk.bytes.len() as u64;
                }
            }
        }
        output.stdout.finish();
        output.stderr.finish();
        output.missing = end.saturating_sub(output.stdout.end() + output.stderr.end());
        Ok(output)
    }
}

/// What this caller is told.
fn answer(who: &Principal, view: &CommandView, output: &Output) -> ToolAnswer {
    let mut lines = Vec::new();
    for (name, cut) in [("STDOUT", &output.stdout), ("STDERR", &output.stderr)] {
        let text = cut.text();
        if !text.trim().is_empty() {
            lines.push(format!("[{name}]:\n{}", text.trim()));
        }
    }
    let mut warn = |what: String| lines.push(format!("[WARNING]: {what}"));
    if output.stdout.is_cut() || output.stderr.is_cut() {
        let id = &view.command_id;
        warn(format!("the middle of the output was cut; shell_output with command_id {id} reads all that is held"));
    }
    if output.missing > 0 {
        warn(format!("{} bytes of output are no longer held", output.missing));
    }
    if view.out_of_memory {
        warn("Memory limit exceeded: a process of this sandbox ran out of memory".to_owned());
    }
    let limit = view.limit_seconds;
    let code = match &view.state {
        CommandState::FailedToStart { message } => {
            return about(view, text::refused(&format!("the command could not be started: {message}")), true);
        }
        CommandState::Interrupted(reason) => {
            let (why, so_far) = (text::interruption(*reason), lines.join("\n"));
            let text = text::refused(&format!("nobody can know how the command ended: {why}\n{so_far}"));
            return about(view, text.trim_end().to_owned(), true);
        }
        CommandState::TimedOut => {
            lines.push(format!("[TIMEOUT]: the command was ended after {limit} seconds"));
            Some(-1)
        }
        CommandState::Starting | CommandState::Running => {
            warn(format!(
                "the command is still running and is ended after {limit} seconds; call shell_wait with command_id {}",
                view.command_id
            ));
            None
        }
        CommandState::Killed { by, .. } if *by != who.actor => {
            warn(text::ended_by(by));
            text::exit_code(&view.state)
        }
        state => text::exit_code(state),
    };
    lines.extend(code.map(|code| format!("[EXIT CODE]: {code}")));
    let mut answer = about(view, lines.join("\n"), false);
    answer.truncated = output.stdout.is_cut() || output.stderr.is_cut() || output.missing > 0;
    answer
}

fn about(view: &CommandView, text: String, is_error: bool) -> ToolAnswer {
    let state = serde_json::to_value(&view.state).ok().and_then(|state| state["state"].as_str().map(str::to_owned));
    ToolAnswer {
        is_error,
        command_id: Some(view.command_id.clone()),
        state,
        exit_code: text::exit_code(&view.state),
        ..ToolAnswer::plain(text)
    }
}

/// What a sandbox is.
fn info(session: &Session, place: &Place) -> String {
    let (view, now) = (session.view(), clock::now());
    let state = match view.state {
        SessionState::Starting => "it is being made",
        SessionState::Ready => "ready",
        SessionState::Restarting => "it died and is being made again",
        SessionState::Ended { .. } => "ended",
    };
    let (profile, folders) = match view.profile {
        Profile::Open => {
            ("open", "you are root; commands start in /root, which survives if the sandbox dies and is made again")
        }
        Profile::Hardened => (
            "hardened",
            "you are uid 1000; commands start in /workspace, and only that, /tmp (64 MB, lost if the sandbox dies) and /dev/shm can be written",
        ),
    };
    let limits = &view.limits;
    let ends = view.expires_at.map_or_else(
        || "not while it is in use".to_owned(),
        |at| format!("in {} if nothing uses it", spoken(at - now)),
    );
    let restarts = match view.restarts.len() {
        0 => "never".to_owned(),
        some => format!("{some} times"),
    };
    let lines = [
        ("sandbox", format!("{} (workspace {:?}, profile {profile})", view.session_id, place.workspace)),
        ("state", state.to_owned()),
        ("folders", folders.to_owned()),
        (
            "limits",
            format!("{} MiB memory, {} CPUs, {} processes", limits.memory_bytes >> 20, limits.cpus, limits.pids_limit),
        ),
        ("network", "none, only loopback".to_owned()),
        ("made", format!("{} ago by {}", spoken(now - view.created_at), view.created_by.name())),
        ("ends", ends),
        ("commands", format!("{} so far, {} running", view.commands_total, view.commands_running)),
        ("made again", restarts),
        ("people", "can watch everything live, and can stop commands".to_owned()),
    ];
    lines.iter().map(|(what, text)| format!("{what}: {text}")).collect::<Vec<_>>().join("\n")
}

/// The latest commands.
async fn activity(session: &Session, limit: usize) -> Result<ToolAnswer, DomainError> {
    let commands = session.commands(None, limit).await?.commands;
    let now = clock::now();
    let mut list = String::new();
    for view in &commands {
        let began = view.started_at.unwrap_or(view.created_at);
        let how = match &view.state {
            CommandState::Starting | CommandState::Running => format!("running for {}", spoken(now - began)),
            state => {
                let took = spoken(view.ended_at.unwrap_or(began) - began);
                match text::exit_code(state) {
                    Some(code) if matches!(state, CommandState::Exited { .. }) => format!("exit={code} after {took}"),
                    Some(code) => format!("killed (exit={code}) after {took}"),
                    None => format!("interrupted after {took}"),
                }
            }
        };
        let (id, ago, actor) = (&view.command_id, spoken(now - view.created_at), view.actor.name());
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{ago} ago  {id}  {actor}  {how}  {}", short(&view.command));
    }
    let text = if list.is_empty() { "no command was run yet".to_owned() } else { list.trim_end().to_owned() };
    Ok(ToolAnswer::plain(text))
}

/// A command's text on one line.
fn short(command: &str) -> String {
    let line = plain(command.lines().next().unwrap_or_default());
    let cut = line.chars().count() > SHORT || command.lines().nth(1).is_some();
    let line: String = line.chars().take(SHORT).collect();
    if cut { format!("{line} …") } else { line }
}

/// A time in words. Clocks that were set back give 0.
fn spoken(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}min", seconds / 60),
        _ => format!("{}h", seconds / 3600),
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

    #[test]
    fn times_are_spoken_in_a_unit_that_fits() {
        assert_eq!(["0s", "119s", "2min", "2h"].map(str::to_owned), [-5.0, 119.4, 120.0, 7200.0].map(spoken));
    }
}
