//! Ctrl K: sessions, commands of the open session, and actions, found by a few letters.

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::Input;
use leptos::prelude::*;

use glassbox_shared::id::SessionId;
use glassbox_shared::text::plain;

use super::icons::StateIcon;
use super::modal::Modal;
use crate::page::app::use_account;
use crate::page::clock::use_clock;
use crate::page::history::{self, Asked};
use crate::page::route::{Go, use_route};
use crate::page::shortcuts::use_wishes;
use crate::page::store::use_store;
use crate::page::theme::{Choice, use_theme};
use crate::state::keys::Wish;
use crate::state::look::{self, Glyph, Look, Tone, look};
use crate::state::session::may_act;
use crate::state::{address, palette, visible};

/// Results shown at a time.
const MOST_RESULTS: usize = 12;
/// Commands of the session that are offered.
const MOST_COMMANDS: usize = 50;
/// Characters of a command that are shown.
const COMMAND_CHARACTERS: usize = 80;

#[derive(Debug, Clone, PartialEq)]
enum Act {
    Go(String),
    Wish(Wish),
    Theme(Choice),
    SignOut,
}

#[derive(Debug, Clone, PartialEq)]
struct Item {
    look: Option<Look>,
    text: String,
    note: String,
    act: Act,
}

/// The id of the session whose page is open.
pub fn open_session(path: &str) -> Option<SessionId> {
    address::session(path)?.parse().ok()
}

fn items(path: &str) -> Vec<Item> {
    let store = use_store();
    let now = use_clock().exact();
    let session = open_session(path);
    let mut items = Vec::new();
    let action = |text: &str, note: &str, act| Item { look: None, text: text.to_owned(), note: note.to_owned(), act };
    store.peek(|world| {
        for id in world.list(now, None, "") {
            let Some(other) = world.session(&id) else { continue };
            let command = other
                .latest
                .as_ref()
                .map_or(String::new(), |command| visible::shortened(&command.command, COMMAND_CHARACTERS));
            items.push(Item {
                look: Some(other.look(now)),
                text: plain(&other.view.name),
                note: format!("session · {} · {command}", plain(other.view.created_by.name())),
                act: Act::Go(format!("/sessions/{id}")),
            });
        }
        if let Some(book) = session.as_ref().and_then(|id| world.book(id)) {
            for command in book.iter().take(MOST_COMMANDS) {
                items.push(Item {
                    look: Some(look::command(command, now)),
                    text: visible::shortened(&command.command, COMMAND_CHARACTERS),
                    note: format!("command {} · {}", command.number, look::command(command, now).word),
                    act: Act::Go(format!("/sessions/{}?command={}", command.session_id, command.command_id)),
                });
            }
        }
    });
    if session.is_some() {
        items.push(action("Follow the newest command", ".", Act::Wish(Wish::Newest)));
        items.push(action("Kill the shown command", "Shift X · asks first", Act::Wish(Wish::Kill)));
        items.push(action("Files of this session", "f", Act::Wish(Wish::Files)));
        items.push(action("Facts about this session", "i", Act::Wish(Wish::Facts)));
    }
    items.push(action("All sessions", "page", Act::Go("/".to_owned())));
    items.push(action("History: search everything, ended sessions", "h", Act::Wish(Wish::History)));
    if use_account().me().is_some_and(|me| may_act(me.role)) {
        items.push(action("New session", "dialog", Act::Go("/?new=1".to_owned())));
    }
    items.push(action("Keys", "?", Act::Wish(Wish::Help)));
    for choice in Choice::ALL {
        items.push(action(&format!("Theme: {}", choice.word()), "colours", Act::Theme(choice)));
    }
    items.push(action("Sign out", "leave this browser", Act::SignOut));
    items
}

/// What was typed can always be sought in the history.
fn everywhere(typed: &str) -> Option<Item> {
    let asked = Asked { words: typed.to_owned(), ..Asked::default() };
    (!typed.is_empty()).then(|| Item {
        look: None,
        text: format!("Search everywhere for “{typed}”"),
        note: "commands and output".to_owned(),
        act: Act::Go(history::calls::address(&asked)),
    })
}

/// The palette; opened by a wish.
#[component]
pub fn Palette() -> impl IntoView {
    let open = RwSignal::new(false);
    use_wishes().hear(Wish::Palette, move || open.update(|open| *open = !*open));
    view! { <Modal open label="Find" class="sheet palette"><Finder open /></Modal> }
}

#[component]
fn Finder(open: RwSignal<bool>) -> impl IntoView {
    let path = untrack(|| use_route().path());
    let all = StoredValue::new(items(&path));
    let typed = RwSignal::new(String::new());
    let chosen = RwSignal::new(0usize);
    let found = Memo::new(move |_| {
        let typed = typed.get();
        let mut found = palette::find(all.get_value(), &typed, MOST_RESULTS, |item| &item.text);
        found.extend(everywhere(typed.trim()));
        found
    });
    let route = use_route();
    let (wishes, theme, account) = (use_wishes(), use_theme(), use_account());
    let act = StoredValue::new_local(move |item: Item| {
        open.set(false);
        match item.act {
            Act::Go(path) => route.go(&path, Go::There),
            Act::Wish(wish) => wishes.make(wish),
            Act::Theme(choice) => theme.choose(choice),
            Act::SignOut => account.sign_out(),
        }
    });
    let act = move |item: Item| act.with_value(|act| act(item));

    let on_key = move |event: ev::KeyboardEvent| {
        let count = found.with_untracked(Vec::len).max(1);
        match event.key().as_str() {
            "ArrowDown" => chosen.update(|at| *at = (*at + 1) % count),
            "ArrowUp" => chosen.update(|at| *at = (*at + count - 1) % count),
            "Enter" => {
                if let Some(item) = found.with_untracked(|found| found.get(chosen.get_untracked()).cloned()) {
                    act(item);
                }
            }
            _ => return,
        }
        event.prevent_default();
    };
    let input = NodeRef::<Input>::new();
    effect(move || input.get().map(|input| input.focus()));

    let row = move |(index, item): (usize, Item)| {
        let selected = move || chosen.get() == index;
        let glyph = item.look.as_ref().map_or(look(Glyph::Dash, "", Tone::Muted), Clone::clone);
        let tone = glyph.tone.class();
        let click = item.clone();
        view! {
            <li id=format!("found-{index}") role="option" aria-selected=attr(move || selected().to_string()) class:chosen=selected
                on:mousemove=move |_| chosen.set(index) on:click=move |_| act(click.clone())>
                <span class=format!("state {tone}")><StateIcon glyph=glyph.glyph /></span>
                <span class="text">{item.text}</span>
                <span class="aside">{item.note}</span>
            </li>
        }
    };
    view! {
        <input node_ref=input class="finder" type="text" role="combobox" aria-expanded="true" aria-controls="found" autocomplete="off" spellcheck="false"
            aria-label="Find a session, a command or an action" placeholder="Find a session, a command, an action"
            aria-activedescendant=attr(move || format!("found-{}", chosen.get()))
            prop:value=attr(move || typed.get())
            on:input=move |event| { typed.set(event_target_value(&event)); chosen.set(0); }
            on:keydown=on_key data-testid="palette-input" />
        <ul id="found" role="listbox" aria-label="Found">
            {part(move || found.get().into_iter().enumerate().map(row).collect_view())}
        </ul>
    }
}
