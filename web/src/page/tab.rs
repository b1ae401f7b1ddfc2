//! Title and icon of the tab: what goes on, seen from another tab.

use crate::page::parts::part::{effect, part};
use gloo_events::EventListener;
use leptos::prelude::*;

use glassbox_shared::text::plain;

use super::clock::use_clock;
use super::interop::browser;
use super::store::use_store;
use crate::state::session::Group;

/// What the open page is called; a page sets it.
#[derive(Debug, Clone, Copy)]
pub struct Title(pub RwSignal<String>);

/// Is the tab in the background? What can wait until someone looks is not asked for then.
#[derive(Debug, Clone, Copy)]
pub struct Hidden(RwSignal<bool>);

impl Hidden {
    /// Follows the browser, for the life of the page.
    pub fn start() -> Self {
        let hidden = RwSignal::new(document().hidden());
        EventListener::new(&document(), "visibilitychange", move |_| hidden.set(document().hidden())).forget();
        Self(hidden)
    }

    /// Whoever reads it hears when it changes.
    pub fn get(self) -> bool {
        self.0.get()
    }
}

/// Is the tab in the background?
pub fn use_hidden() -> Hidden {
    expect_context::<Hidden>()
}

/// Sets the name of the page for as long as the caller lives.
pub fn use_title(name: impl Fn() -> String + 'static) {
    let title = expect_context::<Title>().0;
    effect(move || title.set(name()));
    on_cleanup(move || title.set(String::new()));
}

/// Live sessions by group, as in [`Group::FILTERS`].
fn counts() -> Memo<[usize; 4]> {
    let (store, clock) = (use_store(), use_clock());
    Memo::new(move |_| store.counts(clock.now()))
}

/// Says once, to those who do not see it, that a session needs someone.
#[component]
pub fn Announcer() -> impl IntoView {
    let counts = counts();
    let needs = Memo::new(move |_| counts.get()[0]);
    view! {
        <p class="sr-only" role="alert">
            {part(move || match needs.get() {
                0 => String::new(),
                1 => "One session needs you.".to_owned(),
                more => format!("{more} sessions need you."),
            })}
        </p>
    }
}

/// Keeps title and icon true.
pub fn follow() {
    let title = expect_context::<Title>().0;
    let counts = counts();
    effect(move || {
        let [needs, running, quiet, _] = counts.get();
        let active = running + quiet;
        let what = match (needs, active) {
            (0, 0) => String::new(),
            (0, active) => format!("({active} running) "),
            (needs, _) => format!("({needs} need{} you) ", if needs == 1 { "s" } else { "" }),
        };
        let name = title.get();
        let name = if name.is_empty() { String::new() } else { format!("{} · ", plain(&name)) };
        document().set_title(&format!("{what}{name}glassbox"));
    });
    let icon = Memo::new(move |_| {
        let counts = counts.get();
        let count =
            |group: Group| Group::FILTERS.iter().position(|filter| *filter == group).map_or(0, |index| counts[index]);
        match (count(Group::NeedsYou), count(Group::Running) + count(Group::Quiet)) {
            (0, 0) => None,
            (0, _) => Some("%234f8ff0"),
            _ => Some("%23a06be0"),
        }
    });
    effect(move || browser::set_icon(icon.get()));
}
