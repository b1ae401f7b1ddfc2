//! Every state as an icon, a word and a tone; and in a sentence where a word is not enough.

use glassbox_shared::command::{CommandState, CommandView, Interruption, signal_name};
use glassbox_shared::session::{DeathCause, EndReason, SessionState};
use glassbox_shared::text::plain;

use super::words;

/// A running command without output for this long is called quiet: longer than most tools pause between two lines.
pub const QUIET_SECONDS: f64 = 30.0;
/// From here on the time without output is worth saying.
pub const IDLE_WORTH_SAYING_SECONDS: f64 = 5.0;

/// The shape; `page::icons` draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Glyph {
    /// Filled dot.
    Dot,
    /// Half-filled dot.
    Half,
    /// Triangle.
    Triangle,
    /// Check mark.
    Check,
    /// Cross.
    Cross,
    /// Square.
    Square,
    /// Hourglass.
    Hourglass,
    /// Two waves: nobody knows.
    Waves,
    /// Hollow circle.
    Hollow,
    /// A dash: nothing going on.
    Dash,
    /// Turning arrows.
    Turn,
}

/// The colour, as a class name of the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tone {
    /// Blue.
    Running,
    /// Amber.
    Quiet,
    /// Violet.
    Needs,
    /// Green.
    Good,
    /// Red.
    Bad,
    /// Grey-red.
    Killed,
    /// Amber-red.
    TimedOut,
    /// Grey, hatched.
    Interrupted,
    /// Grey.
    Muted,
}

impl Tone {
    /// Class name.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Running => "tone-running",
            Tone::Quiet => "tone-quiet",
            Tone::Needs => "tone-needs",
            Tone::Good => "tone-good",
            Tone::Bad => "tone-bad",
            Tone::Killed => "tone-killed",
            Tone::TimedOut => "tone-timed-out",
            Tone::Interrupted => "tone-interrupted",
            Tone::Muted => "tone-muted",
        }
    }
}

/// How a state looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Shape.
    pub glyph: Glyph,
    /// Word.
    pub word: String,
    /// Colour.
    pub tone: Tone,
}

/// Puts one together.
pub fn look(glyph: Glyph, word: impl Into<String>, tone: Tone) -> Look {
    Look { glyph, word: word.into(), tone }
}

/// A command at time `now`.
pub fn command(command: &CommandView, now: f64) -> Look {
    match &command.state {
        CommandState::Running if silence(command, now) >= QUIET_SECONDS => look(Glyph::Half, "quiet", Tone::Quiet),
        CommandState::Killed { .. } if survived(command) => look(Glyph::Triangle, "killed, not all", Tone::Needs),
        own => state(own),
    }
}

/// A command's state by itself.
pub fn state(state: &CommandState) -> Look {
    match state {
        CommandState::Starting => look(Glyph::Hollow, "starting", Tone::Muted),
        CommandState::Running => look(Glyph::Dot, "running", Tone::Running),
        CommandState::Exited { code: 0 } => look(Glyph::Check, "exit 0", Tone::Good),
        CommandState::Exited { code } => look(Glyph::Cross, format!("exit {code}"), Tone::Bad),
        CommandState::Signaled { signal } => look(Glyph::Cross, signal_name(*signal), Tone::Bad),
        CommandState::Killed { .. } => look(Glyph::Square, "killed", Tone::Killed),
        CommandState::TimedOut => look(Glyph::Hourglass, "timed out", Tone::TimedOut),
        CommandState::FailedToStart { .. } => look(Glyph::Cross, "did not start", Tone::Bad),
        CommandState::Interrupted(_) => look(Glyph::Waves, "interrupted", Tone::Interrupted),
    }
}

/// The state's word on the wire, for `data-state`.
pub fn state_word(state: &CommandState) -> &'static str {
    match state {
        CommandState::Starting => "starting",
        CommandState::Running => "running",
        CommandState::Exited { .. } => "exited",
        CommandState::Signaled { .. } => "signaled",
        CommandState::Killed { .. } => "killed",
        CommandState::TimedOut => "timed_out",
        CommandState::FailedToStart { .. } => "failed_to_start",
        CommandState::Interrupted(_) => "interrupted",
    }
}

/// Did a kill leave something alive?
pub fn survived(command: &CommandView) -> bool {
    command.kill.as_ref().is_some_and(|kill| !kill.survivors.is_empty())
}

/// Seconds without output: since the last byte, or since the start where none came.
pub fn silence(command: &CommandView, now: f64) -> f64 {
    (now - command.last_output_at.or(command.started_at).unwrap_or(command.created_at)).max(0.0)
}

/// For how long it ran, or has been running. `None`: nobody saw it run, or nobody knows.
pub fn ran(command: &CommandView, now: f64) -> Option<String> {
    let seconds = |from: f64| (command.ended_at.unwrap_or(now) - from).max(0.0);
    match &command.state {
        CommandState::Starting | CommandState::Running => {
            Some(words::duration(seconds(command.started_at.unwrap_or(command.created_at))))
        }
        CommandState::FailedToStart { .. } => None,
        // Its end is when the server found out.
        CommandState::Interrupted(_) => {
            Some(format!("at most {}", words::duration(seconds(command.started_at?).ceil())))
        }
        _ => Some(words::short_duration_ms((seconds(command.started_at?) * 1000.0).round() as u64)),
    }
}

/// What the word leaves open, in a sentence; `None` where it leaves nothing open.
pub fn explanation(command: &CommandView) -> Option<String> {
    let text = match &command.state {
        CommandState::Signaled { signal } => format!("It ended by {}; nobody here sent it.", signal_name(*signal)),
        CommandState::TimedOut => {
            format!("It reached its limit of {} and was ended.", words::duration(command.limit_seconds))
        }
        CommandState::FailedToStart { message } => format!("It did not start: {}", plain(message)),
        CommandState::Interrupted(why) => format!("Nobody can know how it ended: {}.", interruption(*why)),
        _ => {
            return command
                .out_of_memory
                .then(|| "A process of this sandbox ran out of memory while it ran.".to_owned());
        }
    };
    Some(text)
}

fn interruption(why: Interruption) -> &'static str {
    match why {
        Interruption::SandboxDied { cause: DeathCause::Oom } => "this sandbox ran out of memory",
        Interruption::SandboxDied { cause: DeathCause::Exit } => {
            "the first process of this sandbox ended, and the sandbox with it"
        }
        Interruption::SandboxDied { cause: DeathCause::Unknown } => {
            "this sandbox died, and the engine does not say why"
        }
        Interruption::EngineLost => "the container engine stopped answering",
        Interruption::ServerRestarted => "the server was restarted while it ran",
        Interruption::SessionEnded => "its session ended while it ran",
        Interruption::HelperLost => "the helper in the sandbox was lost",
    }
}

/// That the sandbox was made again, and why.
pub fn restarted(cause: Option<DeathCause>) -> &'static str {
    match cause {
        Some(DeathCause::Oom) => "Sandbox restarted: it ran out of memory",
        Some(DeathCause::Exit) => "Sandbox restarted: its first process ended",
        Some(DeathCause::Unknown) => "Sandbox restarted: it died, the engine does not say why",
        None => "Sandbox restarted: the server was restarted",
    }
}

/// A session's own state, where it is not simply ready.
pub fn session_state(state: SessionState) -> Look {
    match state {
        SessionState::Starting => look(Glyph::Hollow, "starting", Tone::Muted),
        SessionState::Ready => look(Glyph::Dash, "ready", Tone::Muted),
        SessionState::Restarting => look(Glyph::Turn, "restarting", Tone::Quiet),
        SessionState::Ended { reason } => look(Glyph::Square, format!("ended, {}", end_reason(reason)), Tone::Killed),
    }
}

/// Among sessions that have all ended: only how.
pub fn ended(reason: EndReason) -> Look {
    let (glyph, word, tone) = match reason {
        EndReason::Deleted => (Glyph::Square, "deleted", Tone::Killed),
        EndReason::Expired => (Glyph::Hourglass, "expired", Tone::Muted),
        EndReason::Failed => (Glyph::Cross, "not made", Tone::Bad),
        EndReason::Lost => (Glyph::Waves, "lost", Tone::Interrupted),
    };
    look(glyph, word, tone)
}

/// Why a session ended.
pub fn end_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Deleted => "deleted",
        EndReason::Expired => "expired",
        EndReason::Failed => "its sandbox could not be made",
        EndReason::Lost => "its workspace is gone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;
    use glassbox_shared::actor::Actor;

    fn with(state: CommandState) -> CommandView {
        CommandView { state, ..samples::command(1, "make") }
    }

    #[test]
    fn a_running_command_turns_quiet_after_half_a_minute_and_wakes_again() {
        let mut running = with(CommandState::Running);
        running.started_at = Some(100.0);
        assert_eq!(command(&running, 129.0).word, "running");
        assert_eq!(command(&running, 130.0).word, "quiet");
        running.last_output_at = Some(129.0);
        assert_eq!(command(&running, 130.0).word, "running");
        assert_eq!(ran(&running, 130.0).as_deref(), Some("30 s"));
    }

    #[test]
    fn how_long_it_ran_is_never_nothing_and_never_invented() {
        let ran = |state, started_at: Option<f64>, ended_at| {
            ran(&CommandView { started_at, ended_at: Some(ended_at), ..with(state) }, 999.0)
        };
        let exited = CommandState::Exited { code: 0 };
        let unix = 1_796_000_000.0;
        assert_eq!(ran(exited.clone(), Some(unix), unix).as_deref(), Some("under 1 ms"));
        assert_eq!(ran(exited.clone(), Some(unix), unix + 0.001).as_deref(), Some("1 ms"));
        assert_eq!(ran(exited.clone(), Some(unix), unix + 0.3).as_deref(), Some("0.3 s"));
        assert_eq!(ran(exited, None, 3.0), None, "nobody saw when it began");
        assert_eq!(ran(CommandState::FailedToStart { message: String::new() }, None, 3.0), None);
        let lost = CommandState::Interrupted(Interruption::ServerRestarted);
        assert_eq!(ran(lost, Some(1.0), 14.2).as_deref(), Some("at most 14 s"));
    }

    #[test]
    fn every_end_has_its_own_word_and_shape() {
        let by = Actor::Human { name: "Ann".to_owned() };
        let ends = [
            (CommandState::Exited { code: 0 }, "exit 0", Glyph::Check),
            (CommandState::Exited { code: 127 }, "exit 127", Glyph::Cross),
            (CommandState::Signaled { signal: 11 }, "SIGSEGV", Glyph::Cross),
            (CommandState::Killed { signal: 15, by }, "killed", Glyph::Square),
            (CommandState::TimedOut, "timed out", Glyph::Hourglass),
            (CommandState::FailedToStart { message: String::new() }, "did not start", Glyph::Cross),
            (CommandState::Interrupted(Interruption::ServerRestarted), "interrupted", Glyph::Waves),
        ];
        for (state, word, glyph) in ends {
            let look = command(&with(state), 0.0);
            assert_eq!((look.word.as_str(), look.glyph), (word, glyph));
        }
    }

    #[test]
    fn an_unknown_end_says_why_it_is_unknown() {
        let died = with(CommandState::Interrupted(Interruption::SandboxDied { cause: DeathCause::Oom }));
        assert_eq!(
            explanation(&died).as_deref(),
            Some("Nobody can know how it ended: this sandbox ran out of memory.")
        );
        assert_eq!(explanation(&with(CommandState::Exited { code: 2 })), None);
    }

    #[test]
    fn an_error_from_a_sandbox_cannot_act_on_the_page() {
        let failed = with(CommandState::FailedToStart { message: "no \u{1b}[31mbash".to_owned() });
        assert_eq!(explanation(&failed).as_deref(), Some("It did not start: no bash"));
    }
}
