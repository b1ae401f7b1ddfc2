//! `run_command`: one short command, with both channels apart.

use glassbox_shared::command::{CommandState, CommandView, RunCommand};
use glassbox_shared::helper::Channel;
use glassbox_shared::tools::cut::Cut;
use glassbox_shared::tools::{ToolAnswer, text};
use tokio::time::Instant;

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

/// `run_command`: answers at the command's end or, if that comes later, in time before `until`.
pub(in crate::http::mcp) async fn run(
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
