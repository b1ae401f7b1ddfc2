//! Everything the page knows, by id; an event tells which parts it touched.

use std::collections::BTreeMap;

use glassbox_shared::command::{CommandList, CommandView};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::Event;
use glassbox_shared::session::SessionView;

use super::book::Book;
use super::session::{Group, Session};

/// A part of the world that changed, for whoever shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Which sessions there are.
    Sessions,
    /// One session.
    Session(SessionId),
    /// Which commands a session has.
    Commands(SessionId),
    /// One command.
    Command(CommandId),
}

/// All of it. Commands are only kept of sessions that someone opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    sessions: BTreeMap<SessionId, Session>,
    books: BTreeMap<SessionId, Book>,
}

impl World {
    /// A session that is known, ended ones included.
    pub fn session(&self, id: &SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// A session's commands, where they were loaded.
    pub fn book(&self, id: &SessionId) -> Option<&Book> {
        self.books.get(id)
    }

    /// A command of an opened session.
    pub fn command(&self, session: &SessionId, id: &CommandId) -> Option<&CommandView> {
        self.books.get(session)?.get(id)
    }

    /// Sessions that match, in the order of the list; ended ones only when these are asked for.
    pub fn list(&self, now: f64, group: Option<Group>, text: &str) -> Vec<SessionId> {
        let mut found: Vec<&Session> = self
            .sessions
            .values()
            .filter(|session| {
                session.ended() == (group == Some(Group::Ended))
                    && group.is_none_or(|group| session.group(now) == group)
                    && session.matches(text)
            })
            .collect();
        found.sort_by(|a, b| a.order(b, now));
        found.into_iter().map(|session| session.view.session_id.clone()).collect()
    }

    /// Live sessions in each group of [`Group::FILTERS`].
    pub fn counts(&self, now: f64) -> [usize; 4] {
        let mut counts = [0; 4];
        for session in self.sessions.values() {
            let group = session.group(now);
            if let Some(index) = Group::FILTERS.iter().position(|filter| *filter == group) {
                counts[index] += 1;
            }
        }
        counts
    }

    /// All live sessions, for a palette.
    pub fn live(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(|session| !session.ended())
    }

    /// The list came: what it does not have is gone.
    pub fn load_sessions(&mut self, views: Vec<SessionView>) -> Vec<Part> {
        let mut old = std::mem::take(&mut self.sessions);
        for view in views {
            let id = view.session_id.clone();
            let session = match old.remove(&id) {
                Some(mut known) => {
                    known.apply(view);
                    known
                }
                None => Session::new(view),
            };
            self.sessions.insert(id, session);
        }
        let mut parts: Vec<Part> = self.sessions.keys().chain(old.keys()).cloned().map(Part::Session).collect();
        // An ended one that is still looked at stays readable.
        self.sessions.extend(old.into_iter().filter(|(_, session)| session.ended()));
        parts.push(Part::Sessions);
        parts
    }

    /// A session's first page of commands came.
    pub fn load_commands(&mut self, session: &SessionId, list: CommandList) -> Vec<Part> {
        self.page(session, list, Book::first_page)
    }

    /// An older page came.
    pub fn load_older(&mut self, session: &SessionId, list: CommandList) -> Vec<Part> {
        self.page(session, list, Book::older_page)
    }

    fn page(&mut self, session: &SessionId, list: CommandList, take: fn(&mut Book, CommandList)) -> Vec<Part> {
        let mut parts: Vec<Part> =
            list.commands.iter().map(|command| Part::Command(command.command_id.clone())).collect();
        take(self.books.entry(session.clone()).or_default(), list);
        parts.push(Part::Commands(session.clone()));
        parts
    }

    /// Sessions whose commands are kept.
    pub fn opened(&self) -> Vec<SessionId> {
        self.books.keys().cloned().collect()
    }

    /// Nobody looks at the session any more.
    pub fn close_commands(&mut self, session: &SessionId) {
        self.books.remove(session);
    }

    /// The server does not know it (any more).
    pub fn forget(&mut self, session: &SessionId) -> Vec<Part> {
        self.sessions.remove(session);
        vec![Part::Session(session.clone()), Part::Sessions]
    }

    /// A view from an answer or an event.
    pub fn put_session(&mut self, view: SessionView) -> Vec<Part> {
        let id = view.session_id.clone();
        let ended = |world: &Self| world.sessions.get(&id).is_none_or(Session::ended);
        let was_ended = ended(self);
        match self.sessions.get_mut(&id) {
            Some(session) => session.apply(view),
            None => {
                self.sessions.insert(id.clone(), Session::new(view));
            }
        }
        let mut parts = vec![Part::Session(id.clone())];
        if was_ended != ended(self) {
            parts.push(Part::Sessions);
        }
        parts
    }

    /// A view from an answer or an event.
    pub fn put_command(&mut self, command: CommandView) -> Vec<Part> {
        let mut parts = Vec::new();
        if let Some(session) = self.sessions.get_mut(&command.session_id) {
            session.command(&command);
            parts.push(Part::Session(command.session_id.clone()));
        }
        if let Some(book) = self.books.get_mut(&command.session_id) {
            parts.push(Part::Command(command.command_id.clone()));
            let session = command.session_id.clone();
            if book.apply(command) {
                parts.push(Part::Commands(session));
            }
        }
        parts
    }

    /// Commands whose last line the list wants and does not have.
    pub fn without_last_line(&self) -> Vec<CommandView> {
        let silent = self.live().filter(|session| session.last_line.is_empty());
        silent.filter_map(|session| session.latest.clone()).filter(|command| command.output_bytes > 0).collect()
    }

    /// The last line of a command, on request.
    pub fn put_last_line(&mut self, command: &CommandView, last_line: String) -> Vec<Part> {
        if let Some(session) = self.sessions.get_mut(&command.session_id) {
            session.tail(&command.command_id, last_line);
        }
        vec![Part::Session(command.session_id.clone())]
    }

    /// Something happened.
    pub fn apply(&mut self, event: Event) -> Vec<Part> {
        match event {
            Event::Session { session } => self.put_session(*session),
            Event::Command { command } => self.put_command(*command),
            Event::Progress { session_id, command_id, output_bytes, last_output_at, last_line } => {
                let mut parts = Vec::new();
                let session = self.sessions.get_mut(&session_id);
                if session
                    .is_some_and(|session| session.progress(&command_id, output_bytes, last_output_at, &last_line))
                {
                    parts.push(Part::Session(session_id.clone()));
                }
                let book = self.books.get_mut(&session_id);
                if book.is_some_and(|book| book.progress(&command_id, output_bytes, last_output_at)) {
                    parts.push(Part::Command(command_id));
                }
                parts
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;
    use glassbox_shared::session::{EndReason, SessionState};

    #[test]
    fn commands_are_kept_only_of_sessions_that_someone_opened() {
        let mut world = World::default();
        world.load_sessions(vec![samples::session(1)]);
        let parts = world.put_command(samples::command(1, "ls"));
        assert_eq!(parts, [Part::Session(samples::session_id(1))]);
        world.load_commands(&samples::session_id(1), CommandList { commands: vec![], next: None });
        let parts = world.put_command(samples::command(2, "make"));
        assert!(parts.contains(&Part::Commands(samples::session_id(1))));
        assert!(world.command(&samples::session_id(1), &samples::command_id(2)).is_some());
        world.close_commands(&samples::session_id(1));
        assert!(world.book(&samples::session_id(1)).is_none());
    }

    #[test]
    fn an_ended_session_leaves_the_list_but_stays_readable() {
        let mut world = World::default();
        world.load_sessions(vec![samples::session(1), samples::session(2)]);
        let mut over = samples::session(1);
        over.state = SessionState::Ended { reason: EndReason::Deleted };
        let parts = world.apply(Event::Session { session: Box::new(over) });
        assert!(parts.contains(&Part::Sessions));
        assert_eq!(world.list(9.0, None, ""), [samples::session_id(2)]);
        world.load_sessions(vec![samples::session(2)]);
        assert!(world.session(&samples::session_id(1)).is_some_and(Session::ended));
    }

    #[test]
    fn the_list_has_counts_and_filters() {
        let mut world = World::default();
        world.load_sessions((1..=3).map(samples::session).collect());
        world.put_command(samples::command(1, "make"));
        assert_eq!(world.counts(2.0), [0, 1, 0, 2]);
        assert_eq!(world.counts(60.0), [0, 0, 1, 2]);
        assert_eq!(world.list(2.0, None, "").first(), Some(&samples::session_id(1)));
        assert_eq!(world.list(2.0, Some(Group::Idle), ""), [samples::session_id(3), samples::session_id(2)]);
        assert_eq!(world.list(2.0, None, "session-2"), [samples::session_id(2)]);
    }

    #[test]
    fn progress_touches_one_session_and_one_command() {
        let mut world = World::default();
        world.load_sessions(vec![samples::session(1)]);
        world.put_command(samples::command(1, "make"));
        let progress = Event::Progress {
            session_id: samples::session_id(1),
            command_id: samples::command_id(1),
            output_bytes: 5,
            last_output_at: 3.0,
            last_line: "ok".to_owned(),
        };
        assert_eq!(world.apply(progress), [Part::Session(samples::session_id(1))]);
        assert_eq!(world.session(&samples::session_id(1)).map(|s| s.last_line.as_str()), Some("ok"));
    }
}
