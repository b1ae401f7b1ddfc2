//! One session of the list: what it does now, and whether it needs someone.

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::id::CommandId;
use glassbox_shared::session::{SessionState, SessionView};
use glassbox_shared::text::plain;

use super::book::stage;
use super::look::{self, Glyph, Look, QUIET_SECONDS, Tone, look};
use super::words;

/// What the list knows of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// As last told. `latest_command` is kept beside it.
    pub view: SessionView,
    /// The newest running command, else the newest one.
    pub latest: Option<CommandView>,
    /// The last line of output of `latest`.
    pub last_line: String,
}

/// The groups of the list, in the order of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A person has to look: a kill left something alive.
    NeedsYou,
    /// A command runs (or the sandbox is on its way).
    Running,
    /// A command runs and has said nothing for a while.
    Quiet,
    /// Nothing runs.
    Idle,
    /// Over.
    Ended,
}

impl Group {
    /// Those that have a filter.
    pub const FILTERS: [Group; 4] = [Group::NeedsYou, Group::Running, Group::Quiet, Group::Idle];

    /// The filter's name.
    pub fn name(self) -> &'static str {
        match self {
            Group::NeedsYou => "Needs you",
            Group::Running => "Running",
            Group::Quiet => "Quiet",
            Group::Idle => "Idle",
            Group::Ended => "Ended",
        }
    }

    /// A command that turns quiet and wakes again does not move its session in the list: both rank the same.
    fn rank(self) -> u8 {
        match self {
            Group::NeedsYou => 0,
            Group::Running | Group::Quiet => 1,
            Group::Idle => 2,
            Group::Ended => 3,
        }
    }
}

impl Session {
    /// From a list or an event.
    pub fn new(mut view: SessionView) -> Self {
        let latest = view.latest_command.take().map(|command| *command);
        Self { view, latest, last_line: String::new() }
    }

    /// A newer view. Events come without `latest_command`; an end is never taken back.
    pub fn apply(&mut self, mut view: SessionView) {
        if let Some(command) = view.latest_command.take() {
            self.command(&command);
        }
        if matches!(self.view.state, SessionState::Ended { .. }) && !matches!(view.state, SessionState::Ended { .. }) {
            return;
        }
        self.view = view;
    }

    /// One of its commands is new or changed.
    pub fn command(&mut self, command: &CommandView) {
        let replaces = match &self.latest {
            None => true,
            Some(latest) if latest.command_id == command.command_id => stage(&command.state) >= stage(&latest.state),
            // The newest running one, else the newest one.
            Some(latest) => match (latest.state.is_final(), command.state.is_final()) {
                (true, false) => true,
                (false, true) => false,
                _ => command.number > latest.number,
            },
        };
        if !replaces {
            return;
        }
        let same = self.latest.as_ref().is_some_and(|latest| latest.command_id == command.command_id);
        if !same {
            self.last_line.clear();
        }
        self.latest = Some(command.clone());
    }

    /// Its output grew. True: it is the command that is shown.
    pub fn progress(&mut self, id: &CommandId, output_bytes: u64, last_output_at: f64, last_line: &str) -> bool {
        let Some(latest) = self.latest.as_mut().filter(|latest| latest.command_id == *id) else { return false };
        latest.output_bytes = latest.output_bytes.max(output_bytes);
        latest.last_output_at = Some(latest.last_output_at.unwrap_or(0.0).max(last_output_at));
        // The server made it plain already; the page does not rely on that.
        self.last_line = plain(last_line);
        true
    }

    /// The end of the shown command's output came, on request. Output that came by itself meanwhile is newer.
    pub fn tail(&mut self, id: &CommandId, last_line: String) {
        if self.last_line.is_empty() && self.latest.as_ref().is_some_and(|latest| latest.command_id == *id) {
            self.last_line = last_line;
        }
    }

    /// Is it over?
    pub fn ended(&self) -> bool {
        matches!(self.view.state, SessionState::Ended { .. })
    }

    /// Where it belongs at time `now`.
    pub fn group(&self, now: f64) -> Group {
        match (self.view.state, &self.latest) {
            (SessionState::Ended { .. }, _) => Group::Ended,
            (_, Some(command)) if look::survived(command) => Group::NeedsYou,
            (_, Some(command))
                if command.state == CommandState::Running && look::silence(command, now) >= QUIET_SECONDS =>
            {
                Group::Quiet
            }
            (_, Some(command)) if !command.state.is_final() => Group::Running,
            (SessionState::Starting | SessionState::Restarting, _) => Group::Running,
            _ => Group::Idle,
        }
    }

    /// How it looks in the list.
    pub fn look(&self, now: f64) -> Look {
        match (self.view.state, self.group(now)) {
            (SessionState::Ready, Group::NeedsYou) => look(Glyph::Triangle, "needs you", Tone::Needs),
            (SessionState::Ready, Group::Running) => look(Glyph::Dot, "running", Tone::Running),
            (SessionState::Ready, Group::Quiet) => look(Glyph::Half, "quiet", Tone::Quiet),
            (SessionState::Ready, _) => look(Glyph::Dash, "idle", Tone::Muted),
            (state, _) => look::session_state(state),
        }
    }

    /// When it last began, ended or got something; output does not count, or the list would never rest.
    pub fn changed_at(&self) -> f64 {
        let command = self.latest.as_ref().map_or(0.0, |command| command.ended_at.unwrap_or(command.created_at));
        self.view.created_at.max(command)
    }

    /// Order of the list: need, then change (newest first), then id, so that it is total.
    pub fn order(&self, other: &Self, now: f64) -> std::cmp::Ordering {
        (self.group(now).rank().cmp(&other.group(now).rank()))
            .then(other.changed_at().total_cmp(&self.changed_at()))
            .then(self.view.session_id.cmp(&other.view.session_id))
    }

    /// `2 agents: claude-code 2.1, codex 0.9`: those that use the sandbox at once now. Hardly ever are they meant to, so it
    /// is worth a word as soon as it is more than one.
    pub fn together(&self) -> Option<String> {
        let clients = &self.view.clients;
        (clients.len() > 1 && !self.ended()).then(|| {
            format!("{}: {}", words::count(clients.len() as u64, "agent", "agents"), plain(&clients.join(", ")))
        })
    }

    /// Does it match what someone typed? Name, agents, id, command.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.trim().to_lowercase();
        let command = self.latest.as_ref().map_or("", |command| command.command.as_str());
        let own = [self.view.name.as_str(), self.view.created_by.name(), self.view.session_id.as_str(), command];
        text.is_empty()
            || own
                .into_iter()
                .chain(self.view.clients.iter().map(String::as_str))
                .any(|field| field.to_lowercase().contains(&text))
    }
}

/// Something that needs control of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Running commands.
    Run,
    /// Changing files.
    Write,
}

/// May the person at this page (their key's role, and who is written down) do this in the session now? If not, why, in words.
pub fn may_do(doing: Doing, role: Role, own: &Actor, view: &SessionView) -> Result<(), String> {
    let (act, left) = match doing {
        Doing::Run => ("run commands", "watch and kill"),
        Doing::Write => ("change files", "look at files and download them"),
    };
    match view.state {
        SessionState::Ended { .. } => return Err("The session has ended.".to_owned()),
        SessionState::Starting => return Err("The sandbox is being made.".to_owned()),
        SessionState::Ready | SessionState::Restarting => {}
    }
    match (role, &view.control.holder) {
        (Role::Viewer, _) => Err(format!("You are signed in to watch. An operator's key can {act}.")),
        (Role::Admin, _) => Err("An admin's key has no sandboxes.".to_owned()),
        (_, holder) if in_control(own, holder) => Ok(()),
        (_, Actor::Human { name }) => {
            Err(format!("Someone else ({}) is in control here. You can {left}.", plain(name)))
        }
        (_, holder) => Err(format!(
            "{} is in control here. You can {left}; taking over comes in a later version.",
            plain(holder.name())
        )),
    }
}

/// As `server/src/control.rs` has it: an agent's session is used by any agent, a human's by that human.
fn in_control(own: &Actor, holder: &Actor) -> bool {
    match (own, holder) {
        (Actor::Agent { .. }, Actor::Agent { .. }) => true,
        (Actor::Human { name: own }, Actor::Human { name }) => own == name,
        _ => false,
    }
}

/// May they create sessions and kill? Neither needs control.
pub fn may_act(role: Role) -> bool {
    matches!(role, Role::Operator | Role::Agent)
}

/// May they delete the session? For an operator it is the strongest stop; others need control.
pub fn may_delete(role: Role, own: &Actor, view: &SessionView) -> bool {
    role == Role::Operator || (role == Role::Agent && in_control(own, &view.control.holder))
}

/// May they remove an ended session from the history?
pub fn may_purge(role: Role) -> bool {
    role == Role::Operator
}

#[cfg(test)]
mod tests {
    use glassbox_shared::session::EndReason;

    use super::*;
    use crate::state::samples;

    fn running(number: u64) -> CommandView {
        samples::command(number, "make")
    }

    fn ended(number: u64) -> CommandView {
        CommandView { state: CommandState::Exited { code: 0 }, ended_at: Some(number as f64 + 0.5), ..running(number) }
    }

    #[test]
    fn the_newest_running_command_stands_for_the_session_else_the_newest() {
        let mut session = Session::new(samples::session(1));
        session.command(&running(1));
        session.command(&ended(2));
        assert_eq!(session.latest.as_ref().map(|c| c.number), Some(1), "still running");
        session.command(&ended(1));
        session.command(&ended(2));
        assert_eq!(session.latest.as_ref().map(|c| c.number), Some(2));
        session.command(&running(2));
        assert_eq!(session.group(3.0), Group::Idle, "an end is never taken back");
    }

    #[test]
    fn an_event_without_the_latest_command_keeps_it() {
        let mut session = Session::new(samples::session(1));
        session.command(&running(1));
        session.apply(samples::session(1));
        assert_eq!(session.group(2.0), Group::Running);
        assert_eq!(session.group(31.0), Group::Quiet);
    }

    #[test]
    fn turning_quiet_does_not_move_a_session() {
        let mut quiet = Session::new(samples::session(1));
        quiet.command(&running(5));
        let mut busy = Session::new(samples::session(2));
        busy.command(&running(4));
        busy.progress(&samples::command_id(4), 10, 99.0, "x");
        assert_eq!((quiet.group(100.0), busy.group(100.0)), (Group::Quiet, Group::Running));
        assert!(quiet.order(&busy, 100.0).is_lt(), "it changed later");
        assert!(quiet.order(&busy, 6.0).is_lt());
    }

    #[test]
    fn the_last_line_belongs_to_the_command_that_is_shown() {
        let mut session = Session::new(samples::session(1));
        session.command(&running(1));
        assert!(session.progress(&samples::command_id(1), 3, 2.0, "4\u{1b}[1m2 %"));
        assert_eq!(session.last_line, "42 %");
        session.command(&running(2));
        assert_eq!(session.last_line, "");
        assert!(!session.progress(&samples::command_id(1), 9, 3.0, "old"));
    }

    #[test]
    fn a_search_finds_name_agent_and_command() {
        let mut session = Session::new(samples::session(1));
        session.command(&samples::command(1, "pytest -q"));
        assert!(["", " SESSION-1 ", "agent-7", "pytest"].iter().all(|text| session.matches(text)));
        assert!(!session.matches("cargo"));
    }

    #[test]
    fn agents_are_named_as_soon_as_more_than_one_uses_the_sandbox() {
        let of = |clients: &[&str]| {
            let clients = clients.iter().map(|client| (*client).to_owned()).collect();
            Session::new(SessionView { clients, ..samples::session(1) })
        };
        assert_eq!((of(&[]).together(), of(&["codex 0.9"]).together()), (None, None));
        let mut both = of(&["claude\u{1b}[1m 2.1", "codex 0.9"]);
        assert_eq!(both.together().as_deref(), Some("2 agents: claude 2.1, codex 0.9"));
        assert!(both.matches("Codex") && !of(&[]).matches("codex"));
        both.view.state = SessionState::Ended { reason: EndReason::Deleted };
        assert_eq!(both.together(), None, "nobody uses what is gone");
    }

    #[test]
    fn who_may_run_and_write_is_said_in_words() {
        let mut view = samples::session(1);
        let [ann, bob] = ["Ann", "Bob"].map(|name| Actor::Human { name: name.to_owned() });
        let why = |doing, role, own, view: &SessionView| may_do(doing, role, own, view).err().unwrap_or_default();
        assert!(
            why(Doing::Run, Role::Operator, &ann, &view).starts_with("agent-7 is in control here. You can watch and")
        );
        assert!(why(Doing::Write, Role::Operator, &ann, &view).contains("look at files and download them"));
        assert!(may_do(Doing::Run, Role::Agent, &ann, &view).is_err(), "a human with an agent's key is no agent");
        assert!(!may_delete(Role::Agent, &ann, &view) && may_delete(Role::Operator, &ann, &view));
        view.control.holder = ann.clone();
        assert_eq!(may_do(Doing::Write, Role::Operator, &ann, &view), Ok(()));
        assert!(may_delete(Role::Agent, &ann, &view) && !may_delete(Role::Viewer, &ann, &view));
        assert_eq!(
            why(Doing::Write, Role::Operator, &bob, &view),
            "Someone else (Ann) is in control here. You can look at files and download them."
        );
        assert!(why(Doing::Write, Role::Viewer, &ann, &view).starts_with("You are signed in to watch."));
        view.state = SessionState::Ended { reason: EndReason::Deleted };
        assert_eq!(why(Doing::Run, Role::Operator, &ann, &view), "The session has ended.");
        assert!(may_act(Role::Operator) && !may_act(Role::Viewer));
    }
}
