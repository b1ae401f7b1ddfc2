//! What is over: sessions of the history; and what happened in a session, in words.

use glassbox_shared::actor::Actor;
use glassbox_shared::history::{FileAct, Happening};
use glassbox_shared::id::CommandId;
use glassbox_shared::session::SessionView;
use glassbox_shared::text::plain;
use serde::Deserialize;
use serde_json::Value;

use super::fields::{Fields, unknown};
use super::kill;
use super::look::{self, Glyph, Look, Tone, look};
use super::{visible, words};

/// Characters of a command, and of a path, in the time line.
const COMMAND_CHARACTERS: usize = 80;

/// A session of the history.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Past {
    /// As it was at its end.
    pub session: SessionView,
    /// What there is of it.
    pub record: Record,
}

/// What the history adds to a session; see `glassbox_shared::history::HistoryView`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Record {
    /// Who ended it, if somebody did.
    pub ended_by: Option<Actor>,
    /// From then on it may be removed.
    pub kept_until: Option<f64>,
    /// Bytes that all its commands wrote.
    pub output_bytes: u64,
    /// Commands that ended otherwise than with code 0.
    pub commands_failed: u64,
}

/// In two readings: one in the other, sessions would be taken apart by code of their own (see `page::api::understand`).
impl TryFrom<Value> for Past {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        Ok(Self { session: serde_json::from_value(value.clone())?, record: serde_json::from_value(value)? })
    }
}

/// An entry of a time line; see `glassbox_shared::history::TimelineEntry`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Moment {
    /// When.
    pub at: f64,
    /// What.
    pub what: Happening,
}

impl TryFrom<Value> for Moment {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let mut from = Fields(value);
        let kind: String = from.take("event")?;
        let what = match kind.as_str() {
            "created" => Happening::Created { by: from.take("by")? },
            "command_started" => Happening::CommandStarted {
                command_id: from.take("command_id")?,
                number: from.take("number")?,
                command: from.take("command")?,
                by: from.take("by")?,
            },
            "command_ended" => Happening::CommandEnded {
                command_id: from.take("command_id")?,
                number: from.take("number")?,
                end: from.take("end")?,
                kill: from.take("kill")?,
            },
            "restarted" => {
                Happening::Restarted { cause: from.take("cause")?, kept: from.take("kept")?, lost: from.take("lost")? }
            }
            "control" => Happening::Control { holder: from.take("holder")? },
            "file_changed" => Happening::FileChanged {
                act: from.take("act")?,
                path: from.take("path")?,
                name: from.take("name")?,
                to: from.take("to")?,
                to_name: from.take("to_name")?,
                bytes: from.take("bytes")?,
                entries: from.take("entries")?,
                by: from.take("by")?,
            },
            "file_changes_left_out" => Happening::FileChangesLeftOut { changes: from.take("changes")? },
            "ended" => Happening::Ended { reason: from.take("reason")?, by: from.take("by")? },
            other => return unknown(other),
        };
        Ok(Self { at: from.take("at")?, what })
    }
}

/// One entry of a time line, as icon, sentence and colour.
pub fn happening(what: &Happening) -> Look {
    match what {
        Happening::Created { by } => look(Glyph::Hollow, format!("Made by {}", plain(by.name())), Tone::Muted),
        Happening::CommandStarted { number, command, by, .. } => {
            let command = visible::shortened(command, COMMAND_CHARACTERS);
            look(Glyph::Dot, format!("{} ran {number}: {command}", plain(by.name())), Tone::Running)
        }
        Happening::CommandEnded { number, end, kill, .. } => {
            let end_look = look::state(end);
            let word = kill.as_ref().map_or(end_look.word, |report| kill::told(end, report));
            let survived = kill.as_ref().is_some_and(|report| !report.survivors.is_empty());
            let (glyph, tone) = if survived { (Glyph::Triangle, Tone::Needs) } else { (end_look.glyph, end_look.tone) };
            look(glyph, format!("{number} ended: {word}"), tone)
        }
        Happening::Restarted { cause, lost, .. } => {
            look(Glyph::Turn, format!("{}. Lost: {}", look::restarted(*cause), plain(lost)), Tone::Quiet)
        }
        Happening::Control { holder } => {
            look(Glyph::Dash, format!("{} took control", plain(holder.name())), Tone::Muted)
        }
        Happening::FileChanged { act, name, to_name, bytes, entries, by, .. } => {
            let (did, amount) = match act {
                FileAct::Saved => ("saved", bytes.map(words::bytes)),
                FileAct::Uploaded => ("uploaded", bytes.map(words::bytes)),
                FileAct::FolderMade => ("made the folder", None),
                FileAct::Renamed => ("renamed", None),
                FileAct::Copied => ("copied", bytes.map(words::bytes)),
                FileAct::Deleted => ("deleted", several(*entries)),
                FileAct::CopyStopped => ("stopped copying", None),
                FileAct::DeletionStopped => ("stopped deleting", entries.map(|gone| format!("{gone} gone by then"))),
            };
            let to = to_name.as_deref().map(|to| format!(" to {}", path(to))).unwrap_or_default();
            let amount = amount.map(|amount| format!(", {amount}")).unwrap_or_default();
            let text = format!("{} {did} {}{to}{amount}", plain(by.name()), path(name));
            let stopped = matches!(act, FileAct::CopyStopped | FileAct::DeletionStopped);
            look(
                if stopped { Glyph::Square } else { Glyph::Dash },
                text,
                if stopped { Tone::Killed } else { Tone::Muted },
            )
        }
        Happening::FileChangesLeftOut { changes } => {
            let changes = words::count(*changes, "more change", "more changes");
            look(Glyph::Waves, format!("{changes} of files, too many to tell"), Tone::Quiet)
        }
        Happening::Ended { reason, by } => {
            let by = by.as_ref().map(|by| format!(" by {}", plain(by.name()))).unwrap_or_default();
            look(Glyph::Square, format!("The session ended: {}{by}", look::end_reason(*reason)), Tone::Killed)
        }
    }
}

/// The command that an entry is about.
pub fn command(what: &Happening) -> Option<&CommandId> {
    match what {
        Happening::CommandStarted { command_id, .. } | Happening::CommandEnded { command_id, .. } => Some(command_id),
        _ => None,
    }
}

/// The file that an entry is about, where it is there after it.
pub fn file(what: &Happening) -> Option<&str> {
    match what {
        Happening::FileChanged { act: FileAct::Saved | FileAct::Uploaded, path, .. } => Some(path),
        Happening::FileChanged { act: FileAct::Renamed | FileAct::Copied, to, .. } => to.as_deref(),
        _ => None,
    }
}

/// A path as it is shown here; the workspace itself has none.
fn path(name: &str) -> String {
    if name.is_empty() { "the workspace".to_owned() } else { visible::shortened(name, COMMAND_CHARACTERS) }
}

/// What goes without saying of one entry.
fn several(entries: Option<u64>) -> Option<String> {
    entries.filter(|entries| *entries != 1).map(|entries| words::count(entries, "entry", "entries"))
}

/// `3 commands · 1 failed · 18 KB of output`.
pub fn summary(past: &Past) -> String {
    let failed = match past.record.commands_failed {
        0 => String::new(),
        failed => format!(" · {} failed", words::thousands(failed)),
    };
    format!(
        "{}{failed} · {} of output",
        words::count(past.session.commands_total, "command", "commands"),
        words::bytes(past.record.output_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;
    use glassbox_shared::command::{CommandState, KillReport, Survivor};
    use glassbox_shared::history::{HistoryView, TimelineEntry};
    use glassbox_shared::session::{DeathCause, EndReason, SessionState};

    #[test]
    fn a_session_of_the_history_is_read_as_the_server_writes_it() {
        let mut session = samples::session(1);
        session.state = SessionState::Ended { reason: EndReason::Expired };
        session.commands_total = 3;
        let view = HistoryView {
            session: session.clone(),
            ended_by: Some(samples::agent()),
            kept_until: Some(9.5),
            output_bytes: 18_000,
            commands_failed: 1,
        };
        let past: Past = serde_json::from_value(serde_json::to_value(view).expect("plain data")).expect("the same");
        assert_eq!((&past.session, past.record.kept_until), (&session, Some(9.5)));
        assert_eq!(summary(&past), "3 commands · 1 failed · 18 KB of output");
    }

    #[test]
    fn every_entry_of_a_time_line_is_read_as_the_server_writes_it() {
        // A new one stops here until it is read above and written below.
        let kind = |what: &Happening| match what {
            Happening::Created { .. } => 0,
            Happening::CommandStarted { .. } => 1,
            Happening::CommandEnded { .. } => 2,
            Happening::Restarted { .. } => 3,
            Happening::Control { .. } => 4,
            Happening::FileChanged { .. } => 5,
            Happening::FileChangesLeftOut { .. } => 6,
            Happening::Ended { .. } => 7,
        };
        let (by, command_id) = (samples::agent(), samples::command_id(1));
        let kill = Some(KillReport { signal: 15, took_ms: 3, by: by.clone(), survivors: vec![] });
        let all = [
            Happening::Created { by: by.clone() },
            Happening::CommandStarted {
                command_id: command_id.clone(),
                number: 1,
                command: "ls".to_owned(),
                by: by.clone(),
            },
            Happening::CommandEnded {
                command_id,
                number: 1,
                end: CommandState::Killed { signal: 15, by: by.clone() },
                kill,
            },
            Happening::Restarted { cause: Some(DeathCause::Oom), kept: "k".to_owned(), lost: "l".to_owned() },
            Happening::Control { holder: by },
            saved(FileAct::Renamed, Some("b%FF")),
            Happening::FileChangesLeftOut { changes: 3 },
            Happening::Ended { reason: EndReason::Lost, by: None },
        ];
        for (at, what) in all.into_iter().enumerate() {
            assert_eq!(kind(&what), at, "one of each");
            let written = serde_json::to_value(TimelineEntry { at: 1.5, what: what.clone() }).expect("plain data");
            assert_eq!(serde_json::from_value::<Moment>(written).expect("the same"), Moment { at: 1.5, what });
        }
    }

    fn saved(act: FileAct, to: Option<&str>) -> Happening {
        Happening::FileChanged {
            act,
            path: "src/a%20b".to_owned(),
            name: "src/a b".to_owned(),
            to: to.map(str::to_owned),
            to_name: to.map(str::to_owned),
            bytes: Some(1_200),
            entries: Some(12),
            by: Actor::Human { name: "Ann".to_owned() },
        }
    }

    #[test]
    fn what_was_done_to_files_is_said_and_leads_to_what_is_there() {
        for (act, to, said, leads) in [
            (FileAct::Saved, None, "Ann saved src/a b, 1.2 KB", Some("src/a%20b")),
            (FileAct::Uploaded, None, "Ann uploaded src/a b, 1.2 KB", Some("src/a%20b")),
            (FileAct::FolderMade, None, "Ann made the folder src/a b", None),
            (FileAct::Renamed, Some("c"), "Ann renamed src/a b to c", Some("c")),
            (FileAct::Copied, Some("c"), "Ann copied src/a b to c, 1.2 KB", Some("c")),
            (FileAct::Deleted, None, "Ann deleted src/a b, 12 entries", None),
            (FileAct::CopyStopped, Some("c"), "Ann stopped copying src/a b to c", None),
            (FileAct::DeletionStopped, None, "Ann stopped deleting src/a b, 12 gone by then", None),
        ] {
            let what = saved(act, to);
            assert_eq!(happening(&what).word, said);
            assert_eq!(file(&what), leads, "{said}");
            assert_eq!(command(&what), None);
        }
        let left_out = Happening::FileChangesLeftOut { changes: 1_204 };
        assert_eq!(happening(&left_out).word, "1,204 more changes of files, too many to tell");
    }

    #[test]
    fn what_happened_is_said_with_who_did_it() {
        let ann = Actor::Human { name: "Ann".to_owned() };
        let started = Happening::CommandStarted {
            command_id: samples::command_id(1),
            number: 1,
            command: "ls\u{1b}[2J".to_owned(),
            by: ann.clone(),
        };
        assert_eq!(happening(&started).word, "Ann ran 1: ls␛[2J");
        assert_eq!(command(&started), Some(&samples::command_id(1)));
        let ended = |state: CommandState, kill: Option<KillReport>| {
            happening(&Happening::CommandEnded { command_id: samples::command_id(1), number: 1, end: state, kill })
        };
        assert_eq!(ended(CommandState::Exited { code: 3 }, None).word, "1 ended: exit 3");
        let report = |survivors| {
            Some(KillReport { signal: 15, took_ms: 3, by: Actor::Human { name: "Ann".to_owned() }, survivors })
        };
        let killed = CommandState::Killed { signal: 15, by: ann.clone() };
        assert_eq!(
            ended(killed.clone(), report(vec![])).word,
            "1 ended: killed, SIGTERM after 3 ms, nothing left · by Ann"
        );
        let left = vec![Survivor { pid: 7, name: "sh".to_owned() }];
        assert_eq!(ended(killed, report(left)).glyph, Glyph::Triangle, "what survived is not a plain end");
        let over = Happening::Ended { reason: EndReason::Deleted, by: Some(ann) };
        assert_eq!(happening(&over).word, "The session ended: deleted by Ann");
        assert_eq!(command(&over), None);
    }
}
