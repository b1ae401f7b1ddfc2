//! What the parts of a session page share.

use std::collections::HashMap;

use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::id::{CommandId, SessionId};

use crate::page::history::calls;
use crate::page::interop::browser;
use crate::page::route::{Go, use_route};
use crate::page::shortcuts::use_wishes;
use crate::page::store::use_store;
use crate::state::book::Book;
use crate::state::choice::Choice;
use crate::state::keys::Wish;
use crate::state::kill::KillStep;
use crate::state::past::Record;
use crate::state::session::Session;

/// What a narrow screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// The list.
    Commands,
    /// The output.
    Output,
    /// The files.
    Files,
    /// The facts.
    Info,
}

impl Pane {
    /// For the style sheet.
    pub fn word(self) -> &'static str {
        match self {
            Pane::Commands => "commands",
            Pane::Output => "output",
            Pane::Files => "files",
            Pane::Info => "info",
        }
    }
}

/// The open session.
#[derive(Debug, Clone, Copy)]
pub struct Here {
    id: StoredValue<SessionId>,
    session: Memo<Option<Session>>,
    /// Which command is chosen, by the address.
    pub choice: Memo<Choice>,
    /// The place in its output that the address names.
    pub at: Memo<Option<u64>>,
    /// The command that is shown.
    pub shown: Memo<Option<CommandId>>,
    /// The pane of a narrow screen.
    pub pane: RwSignal<Pane>,
    /// Is the right column shown on a wide screen?
    pub facts: RwSignal<bool>,
    /// Are the files in it, or the facts?
    pub side: RwSignal<Pane>,
    /// Among the facts: the time line?
    pub time_line: RwSignal<bool>,
    /// Of a session that is over, what the history says of it, or why it does not.
    pub record: RwSignal<Option<Result<Record, String>>>,
    kills: StoredValue<HashMap<CommandId, ArcRwSignal<KillStep>>>,
}

impl Here {
    /// For the session with this id; the caller gives it as context.
    pub fn new(id: SessionId) -> Self {
        let store = use_store();
        let route = use_route();
        let key = id.clone();
        let session = Memo::new(move |_| store.with_session(&key, Clone::clone));
        let choice = Memo::new(move |_| Choice::from_address(route.query("command").as_deref()));
        let key = id.clone();
        let shown = Memo::new(move |_| {
            store
                .with_book(&key, |book| choice.get().shown(book))
                .unwrap_or_else(|| choice.get().shown(&Book::default()))
        });
        let here = Self {
            id: StoredValue::new(id),
            session,
            choice,
            at: Memo::new(move |_| route.query("at")?.parse().ok()),
            shown,
            pane: RwSignal::new(Pane::Output),
            facts: RwSignal::new(browser::remembered("facts").as_deref() != Some("hidden")),
            side: RwSignal::new(if browser::remembered("side").as_deref() == Some("info") {
                Pane::Info
            } else {
                Pane::Files
            }),
            time_line: RwSignal::new(false),
            record: RwSignal::new(None),
            kills: StoredValue::new(HashMap::new()),
        };
        let wishes = use_wishes();
        let newest = here.to_newest();
        wishes.hear(Wish::Newest, newest);
        wishes.hear(Wish::Files, move || here.go_to(Pane::Files));
        wishes.hear(Wish::Facts, move || here.go_to(Pane::Info));
        here
    }

    /// The session's id.
    pub fn id(self) -> SessionId {
        self.id.get_value()
    }

    /// The session.
    pub fn session(self) -> Memo<Option<Session>> {
        self.session
    }

    /// Is it known that it lives?
    pub fn lives(self) -> bool {
        self.session.with_untracked(|session| session.as_ref().is_some_and(|session| !session.ended()))
    }

    /// The address that picks a command.
    pub fn address(self, command: &CommandId) -> String {
        format!("/sessions/{}?command={command}", self.id())
    }

    /// Goes back to following the newest command.
    pub fn to_newest(self) -> impl Fn() + Clone + 'static {
        let route = use_route();
        move || {
            route.go(&format!("/sessions/{}", self.id()), Go::Instead);
            self.pane.set(Pane::Output);
        }
    }

    /// Is this what the right column of a wide screen shows? Of a session that is over, there are only facts.
    pub fn shows(self, pane: Pane) -> bool {
        let over = self.session.with(|session| session.as_ref().is_some_and(Session::ended));
        self.facts.get() && pane == if over { Pane::Info } else { self.side.get() }
    }

    /// Shows files or facts, on a wide and on a narrow screen, and remembers it; asked again it hides them.
    pub fn go_to(self, pane: Pane) {
        let same = untrack(|| self.shows(pane));
        self.facts.set(!same);
        self.side.set(pane);
        self.pane.update(|shown| *shown = if *shown == pane { Pane::Output } else { pane });
        browser::remember("side", pane.word());
        browser::remember("facts", if same { "hidden" } else { "shown" });
    }

    /// Asks the history what it has of the session.
    pub fn ask_for_record(self) {
        self.record.set(None);
        let id = self.id();
        spawn_local(async move {
            let answer = calls::session(&id).await;
            self.record.try_set(Some(answer.map(|past| past.record).map_err(|failure| failure.detail)));
        });
    }

    /// Where the kill of a command is; kept while the page is open, whichever command is shown.
    pub fn kill_step(self, command: &CommandId) -> ArcRwSignal<KillStep> {
        self.kills.try_update_value(|kills| kills.entry(command.clone()).or_default().clone()).unwrap_or_default()
    }
}

/// The session whose page is open.
pub fn use_here() -> Here {
    expect_context::<Here>()
}
