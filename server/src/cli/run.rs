//! `glassbox run -- COMMAND`: one command in a sandbox of its own.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use glassbox_shared::command::{CommandState, Interruption, KillCommand, RunCommand, signal_name};
use glassbox_shared::session::Profile;

use super::signals::Signals;
use crate::command::Command;
use crate::sandbox::{Sandbox, SandboxConfig};
use crate::server::config::DEFAULT_IMAGE;

/// Bytes read from the log at a time.
const READ: usize = 64 * 1024;
/// Reading a piece of the log from this machine's own disk.
const READ_DEADLINE: Duration = Duration::from_secs(5);
/// Exit code where the command's own cannot be known, as shells use it for a command that could not be run.
const UNKNOWN: u8 = 125;

/// Run one command in a sandbox of its own and remove the sandbox afterwards.
#[derive(Debug, Args)]
pub struct Arguments {
    /// `open` (root, writable system) or `hardened`.
    #[arg(long, default_value = "open", value_parser = profile)]
    profile: Profile,
    /// The image.
    #[arg(long, env = "GLASSBOX_IMAGE", default_value = DEFAULT_IMAGE)]
    image: String,
    /// Memory, for example 512m or 2g.
    #[arg(long)]
    memory: Option<String>,
    /// The command and its arguments, after `--`.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// The profile of this name.
pub(super) fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "open" => Ok(Profile::Open),
        "hardened" => Ok(Profile::Hardened),
        _ => Err("use open or hardened".into()),
    }
}

/// Runs it; the exit code is the command's.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // Each of them ends the command and removes the sandbox.
    let mut signals = Signals::follow()?;
    let Arguments { profile, image, memory, command } = arguments;
    let config = SandboxConfig { image, profile, memory, ..SandboxConfig::default() };
    let sandbox = tokio::select! {
        started = Sandbox::start(config) => started?,
        () = signals.any() => anyhow::bail!("interrupted before the sandbox was ready"),
    };
    let outcome = in_sandbox(&sandbox, &command, &mut signals).await;
    // The sandbox goes in every case.
    let removed = sandbox.stop().await;
    let code = outcome?;
    removed?;
    Ok(code)
}

async fn in_sandbox(sandbox: &Sandbox, words: &[String], signals: &mut Signals) -> anyhow::Result<ExitCode> {
    let session = sandbox.session();
    let command = RunCommand { command: shell_words(words), ..RunCommand::default() };
    let started = session.run(sandbox.who(), command).await.map_err(anyhow::Error::new)?;
    let command = session.command(&started.command_id).await.map_err(anyhow::Error::new)?;
    follow(sandbox, &command, signals).await
}

/// Copies the output to this terminal until the command ends; Ctrl-C kills the command.
async fn follow(sandbox: &Sandbox, command: &Command, signals: &mut Signals) -> anyhow::Result<ExitCode> {
    let (session, who) = (sandbox.session(), sandbox.who());
    let log = command.log().await.map_err(anyhow::Error::new)?;
    let mut grown = log.watch();
    let mut offset = 0;
    let id = command.view().command_id;
    let ended = command.clone();
    let end = async move { ended.wait_end(Duration::MAX).await };
    tokio::pin!(end);
    // Signals first: a command that floods this terminal must not keep Ctrl-C waiting.
    let view = loop {
        tokio::select! {
            biased;
            () = signals.any() => {
                eprintln!("glassbox: killing the command");
                let killed = tokio::select! {
                    killed = session.kill(who, &id, KillCommand { grace_seconds: Some(1.0) }) => killed,
                    () = signals.any() => anyhow::bail!("interrupted twice; removing the sandbox"),
                };
                break killed.map_err(anyhow::Error::new)?;
            }
            copied = copy(&log, offset) => {
                let next = copied?;
                if next == offset {
                    // Nothing new yet: more comes, or the end.
                    tokio::select! {
                        biased;
                        () = signals.any() => {
                            eprintln!("glassbox: killing the command");
                            break session.kill(who, &id, KillCommand { grace_seconds: Some(1.0) }).await.map_err(anyhow::Error::new)?;
                        }
                        Ok(()) = grown.changed() => {}
                        view = &mut end => break view,
                    }
                }
                offset = next;
            }
        }
    };
    // All that the command's own process wrote is in the log by now; what a background child adds is not waited for.
    let all = log.state().end;
    while offset < all {
        let next = copy(&log, offset).await?;
        if next == offset {
            break;
        }
        offset = next;
    }
    Ok(exit_code(&view.state))
}

/// Copies one piece; answers where the next begins.
async fn copy(log: &crate::command::log::Log, offset: u64) -> anyhow::Result<u64> {
    let read = log.read(offset, READ);
    let chunk = tokio::time::timeout(READ_DEADLINE, read).await.context("the output could not be read in time")??;
    if let Some((from, to)) = chunk.gap {
        eprintln!("glassbox: {} bytes of output are missing here", to - from);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&chunk.bytes).and_then(|()| out.flush()).context("this terminal takes no more output")?;
    Ok(chunk.next())
}

fn exit_code(state: &CommandState) -> ExitCode {
    let code = match state {
        CommandState::Exited { code } => *code as u8,
        CommandState::Signaled { signal } | CommandState::Killed { signal, .. } => {
            eprintln!("glassbox: ended by {}", signal_name(*signal));
            (128 + signal) as u8
        }
        CommandState::TimedOut => {
            eprintln!("glassbox: ended at its run-time limit");
            124
        }
        CommandState::FailedToStart { message } => {
            eprintln!("glassbox: could not be started: {message}");
            UNKNOWN
        }
        CommandState::Interrupted(Interruption::SandboxDied { cause }) => {
            eprintln!("glassbox: the sandbox died ({cause:?}); nobody can know how the command ended");
            UNKNOWN
        }
        CommandState::Interrupted(reason) => {
            eprintln!("glassbox: interrupted ({reason:?}); nobody can know how the command ended");
            UNKNOWN
        }
        CommandState::Starting | CommandState::Running => UNKNOWN,
    };
    ExitCode::from(code)
}

/// Arguments as one text for bash, each quoted so that it arrives as it was given.
fn shell_words(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_as_they_were_given() {
        let words: Vec<String> = ["bash", "-c", "echo 'it''s' \"$X\""].iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(shell_words(&words), r#"'bash' '-c' 'echo '\''it'\'''\''s'\'' "$X"'"#);
    }
}
