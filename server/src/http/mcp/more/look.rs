//! `sandbox_info`, `activity`, `reset_sandbox`: about the sandbox itself.

use std::fmt::Write as _;
use std::time::Duration;

use glassbox_shared::command::CommandState;
use glassbox_shared::session::{Profile, SessionState};
use glassbox_shared::text::plain;
use glassbox_shared::tools::{ToolAnswer, text};

use crate::clock;
use crate::error::DomainError;
use crate::http::mcp::place::Place;
use crate::session::Session;

/// Characters of a command in a list.
const SHORT: usize = 120;

/// Where there is no sandbox.
pub(in crate::http::mcp) fn none_yet(to_reset: bool) -> ToolAnswer {
    let text = if to_reset {
        "there was no sandbox yet; the next call gets a new, empty one"
    } else {
        "there is no sandbox yet: the first command or file operation makes one"
    };
    ToolAnswer::plain(text.to_owned())
}

/// A sandbox was to be given up; `false`: somebody else has done it in this moment.
pub(in crate::http::mcp) fn given_up(was_there: bool) -> ToolAnswer {
    if !was_there {
        return none_yet(true);
    }
    let text = "the sandbox is deleted, with all files and processes in it; the next call gets a new, empty one";
    ToolAnswer::plain(text.to_owned())
}

/// What a sandbox is.
pub(in crate::http::mcp) fn info(session: &Session, place: &Place) -> ToolAnswer {
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
    ToolAnswer::plain(lines.iter().map(|(what, text)| format!("{what}: {text}")).collect::<Vec<_>>().join("\n"))
}

/// The latest commands.
pub(in crate::http::mcp) async fn activity(session: &Session, limit: usize) -> Result<ToolAnswer, DomainError> {
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
    fn times_are_spoken_in_a_unit_that_fits() {
        assert_eq!(["0s", "119s", "2min", "2h"].map(str::to_owned), [-5.0, 119.4, 120.0, 7200.0].map(spoken));
    }
}
