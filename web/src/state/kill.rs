//! A kill, step by step: asking, ending, and what really happened.

use glassbox_shared::command::{CommandState, CommandView, KillReport, signal_name};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::text::plain;

use super::words;

/// Seconds between TERM and KILL that the page asks for.
pub const GRACE_SECONDS: f64 = 5.0;
/// Survivors named in the sentence; the others are counted.
const NAMED_SURVIVORS: usize = 4;

/// Where the kill control of one command is.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum KillStep {
    /// A button.
    #[default]
    Ready,
    /// Asks whether it is meant.
    Asking,
    /// Sent at this time; the server answers when it has verified the end.
    Ending {
        /// When.
        since: f64,
    },
    /// The server did not do it, or could not verify it.
    Refused {
        /// Why, for people.
        message: String,
    },
}

impl KillStep {
    /// The first click: asks.
    pub fn ask(&mut self) {
        if !matches!(self, KillStep::Ending { .. }) {
            *self = KillStep::Asking;
        }
    }

    /// Taken back.
    pub fn cancel(&mut self) {
        if matches!(self, KillStep::Asking) {
            *self = KillStep::Ready;
        }
    }

    /// The second click. True: send it now; a third click does not send it twice.
    pub fn confirm(&mut self, now: f64) -> bool {
        if matches!(self, KillStep::Asking) {
            *self = KillStep::Ending { since: now };
            return true;
        }
        false
    }

    /// The server's refusal in plain words.
    pub fn refused(&mut self, code: Option<ErrorCode>, detail: &str) {
        *self = match code {
            // Nothing is wrong: it was over before. What is shown is its own end.
            Some(ErrorCode::AlreadyEnded) => KillStep::Ready,
            Some(ErrorCode::KillUnverified) => KillStep::Refused {
                message: "The end could not be verified, so it still counts as running. You can try again.".to_owned(),
            },
            _ => KillStep::Refused { message: format!("Not killed: {}", plain(detail)) },
        };
    }
}

/// `killed, SIGTERM after 2 s, nothing left` or `2 processes survived: 41 sleep, 42 sh`.
pub fn result(report: &KillReport) -> String {
    let took = match report.took_ms {
        0 => "at once".to_owned(),
        took => format!("after {}", words::short_duration_ms(took)),
    };
    if report.survivors.is_empty() {
        return format!("killed, {} {took}, nothing left", signal_name(report.signal));
    }
    let named: Vec<String> = report
        .survivors
        .iter()
        .take(NAMED_SURVIVORS)
        .map(|survivor| format!("{} {}", survivor.pid, plain(&survivor.name)))
        .collect();
    let more = report.survivors.len().saturating_sub(NAMED_SURVIVORS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "{} survived {} {took}: {}{more}",
        words::count(report.survivors.len() as u64, "process", "processes"),
        signal_name(report.signal),
        named.join(", ")
    )
}

/// What is said of a command that someone tried to kill; `None` when nobody did.
pub fn outcome(command: &CommandView) -> Option<String> {
    command.kill.as_ref().map(|report| told(&command.state, report))
}

/// The same, of a command in this state.
pub fn told(state: &CommandState, report: &KillReport) -> String {
    let by = format!(" · by {}", plain(report.by.name()));
    match state {
        CommandState::Killed { .. } | CommandState::Running | CommandState::Starting => result(report) + &by,
        _ if report.survivors.is_empty() => format!("it ended by itself while being killed, nothing left{by}"),
        _ => result(report) + &by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassbox_shared::actor::Actor;
    use glassbox_shared::command::Survivor;

    fn report(survivors: Vec<Survivor>) -> KillReport {
        KillReport { signal: 15, took_ms: 2000, by: Actor::Human { name: "Ann".to_owned() }, survivors }
    }

    #[test]
    fn a_kill_is_asked_once_and_sent_once() {
        let mut step = KillStep::default();
        assert!(!step.confirm(1.0), "nobody asked");
        step.ask();
        assert!(step.confirm(1.0));
        assert!(!step.confirm(2.0));
        step.ask();
        assert_eq!(step, KillStep::Ending { since: 1.0 });
    }

    #[test]
    fn a_kill_that_came_too_late_is_no_failure_and_an_unverified_one_is_not_called_done() {
        let mut step = KillStep::Ending { since: 1.0 };
        step.refused(Some(ErrorCode::AlreadyEnded), "has ended");
        assert_eq!(step, KillStep::Ready);
        step.refused(Some(ErrorCode::KillUnverified), "");
        assert!(matches!(&step, KillStep::Refused { message } if message.contains("still counts as running")));
    }

    #[test]
    fn the_result_says_which_signal_after_how_long_and_who_is_left() {
        assert_eq!(result(&report(vec![])), "killed, SIGTERM after 2 s, nothing left");
        assert_eq!(result(&KillReport { took_ms: 0, ..report(vec![]) }), "killed, SIGTERM at once, nothing left");
        let left =
            vec![Survivor { pid: 41, name: "sleep\u{1b}[0m".to_owned() }, Survivor { pid: 42, name: "sh".to_owned() }];
        assert_eq!(result(&report(left)), "2 processes survived SIGTERM after 2 s: 41 sleep, 42 sh");
    }
}
