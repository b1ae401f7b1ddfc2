//! The world of `crate::state`, reactive by parts: whoever reads a session or a command hears of its changes only.

use std::collections::HashMap;

use leptos::prelude::*;

use glassbox_shared::command::CommandView;
use glassbox_shared::id::{CommandId, SessionId};

use crate::state::book::Book;
use crate::state::session::{Group, Session};
use crate::state::world::{Part, World};

/// How far the first list is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Loading {
    /// Under way.
    #[default]
    Yes,
    /// Here (and kept up to date).
    Done,
    /// It could not be loaded; why.
    Failed(String),
}

/// Handle to it.
#[derive(Debug, Clone, Copy)]
pub struct Store {
    world: StoredValue<World>,
    triggers: StoredValue<HashMap<Part, ArcTrigger>>,
    /// The list of sessions.
    pub loading: RwSignal<Loading>,
}

impl Store {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            world: StoredValue::new(World::default()),
            triggers: StoredValue::new(HashMap::new()),
            loading: RwSignal::new(Loading::Yes),
        }
    }

    /// Changes the world and tells whoever reads the parts that were touched.
    pub fn change(self, how: impl FnOnce(&mut World) -> Vec<Part>) {
        let Some(parts) = self.world.try_update_value(how) else { return };
        let triggers: Vec<ArcTrigger> =
            self.triggers.with_value(|triggers| parts.iter().filter_map(|part| triggers.get(part).cloned()).collect());
        for trigger in triggers {
            trigger.notify();
        }
    }

    /// Whoever calls this from a view or a memo hears of changes of the part.
    fn track(self, part: Part) {
        let trigger =
            self.triggers.try_update_value(|triggers| triggers.entry(part).or_insert_with(ArcTrigger::new).clone());
        if let Some(trigger) = trigger {
            trigger.track();
        }
    }

    /// A part of a session.
    pub fn with_session<T>(self, id: &SessionId, read: impl FnOnce(&Session) -> T) -> Option<T> {
        self.track(Part::Session(id.clone()));
        self.world.with_value(|world| world.session(id).map(read))
    }

    /// Is a session known to live?
    pub fn lives(self, id: &SessionId) -> bool {
        self.peek(|world| world.session(id).is_some_and(|session| !session.ended()))
    }

    /// A session's commands.
    pub fn with_book<T>(self, id: &SessionId, read: impl FnOnce(&Book) -> T) -> Option<T> {
        self.track(Part::Commands(id.clone()));
        self.world.with_value(|world| world.book(id).map(read))
    }

    /// One command.
    pub fn command(self, session: &SessionId, id: &CommandId) -> Option<CommandView> {
        self.track(Part::Command(id.clone()));
        self.world.with_value(|world| world.command(session, id).cloned())
    }

    fn track_sessions(self) {
        self.track(Part::Sessions);
        let ids: Vec<SessionId> =
            self.world.with_value(|world| world.live().map(|session| session.view.session_id.clone()).collect());
        for id in ids {
            self.track(Part::Session(id));
        }
    }

    /// Live sessions that match, in order.
    pub fn list(self, now: f64, group: Option<Group>, text: &str) -> Vec<SessionId> {
        self.track_sessions();
        self.world.with_value(|world| world.list(now, group, text))
    }

    /// Live sessions by group.
    pub fn counts(self, now: f64) -> [usize; 4] {
        self.track_sessions();
        self.world.with_value(|world| world.counts(now))
    }

    /// A look at everything, without hearing of changes.
    pub fn peek<T>(self, read: impl FnOnce(&World) -> T) -> T {
        self.world.with_value(read)
    }

    /// Forgets everything: someone else may sign in.
    pub fn clear(self) {
        self.world.set_value(World::default());
        self.triggers.update_value(HashMap::clear);
        self.loading.set(Loading::Yes);
    }

    /// Lets go of a session's commands.
    pub fn close_commands(self, session: &SessionId) {
        let gone: Vec<CommandId> = self.peek(|world| {
            world
                .book(session)
                .map(|book| book.iter().map(|command| command.command_id.clone()).collect())
                .unwrap_or_default()
        });
        self.world.update_value(|world| world.close_commands(session));
        self.triggers.update_value(|triggers| {
            for id in gone {
                triggers.remove(&Part::Command(id));
            }
            triggers.remove(&Part::Commands(session.clone()));
        });
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

/// The page's store.
pub fn use_store() -> Store {
    expect_context::<Store>()
}
