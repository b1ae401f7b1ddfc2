//! What was: a search through commands and output of all sessions, and the sessions that have ended.
//!
//! Everything that is asked is in the address, so that a search can be sent to someone. What was found is hostile like all
//! output: its parts come as plain text, and are only ever text nodes.

pub mod calls;
mod ended;
mod found;

use crate::page::parts::part::{attr, part};
use leptos::ev;
use leptos::html::Input;
use leptos::prelude::*;

use super::parts::icons::{Icon, Name};
use super::route::{Go, use_route};
use super::shortcuts::use_wishes;
use super::tab::use_title;
use crate::state::keys::Wish;
use ended::Ended;
use found::Found;

/// What the address asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Searched for; in ended sessions, also part of name, id or command.
    pub words: String,
    /// Only sessions that this one made.
    pub maker: String,
    /// Only sessions that ended so: the reason's word on the wire.
    pub reason: String,
}

/// `/history`
#[component]
pub fn HistoryPage() -> impl IntoView {
    let route = use_route();
    let asked = Memo::new(move |_| {
        let value = |name: &str| route.query(name).unwrap_or_default();
        Asked { words: value("q"), maker: value("agent"), reason: value("state") }
    });
    let words = Memo::new(move |_| asked.with(|asked| asked.words.clone()));
    use_title(move || words.with(|words| if words.is_empty() { "History".to_owned() } else { format!("“{words}”") }));
    let field = NodeRef::<Input>::new();
    use_wishes().hear(Wish::Filter, move || {
        if let Some(field) = field.get_untracked() {
            let _ = field.focus();
            field.select();
        }
    });
    // Asked again, it is searched again: there may be more by now.
    let turn = RwSignal::new(0u32);
    let submit = move |event: ev::SubmitEvent| {
        event.prevent_default();
        turn.update(|turn| *turn += 1);
        let words = field.get_untracked().map(|field| field.value()).unwrap_or_default();
        let asked = Asked { words: words.trim().to_owned(), ..asked.get_untracked() };
        route.go(&calls::address(&asked), Go::There);
    };
    view! {
        <main id="main" class="sessions history">
            <div class="tools">
                <h1>"History"</h1>
                <form class="filter" role="search" on:submit=submit>
                    <Icon name=Name::Search />
                    <input node_ref=field type="search" aria-label="Search commands and output of all sessions" placeholder="Search commands and output" maxlength="256"
                        enterkeyhint="search" autocomplete="off" autocapitalize="off" spellcheck="false" data-testid="history-search" prop:value=attr(move || words.get()) />
                    <kbd aria-hidden="true">"/"</kbd>
                    <button type="submit">"Search"</button>
                </form>
            </div>
            {part(move || {
                turn.get();
                let words = words.get();
                if words.is_empty() {
                    view! {
                        <p class="hint">
                            "Finds words, and what begins with them, in every command and in what it wrote, of live sessions too. "
                            "All words must stand near each other; "<code>"\"quoted words\""</code>" stand as they are."
                        </p>
                    }.into_any()
                } else {
                    view! { <Found words /> }.into_any()
                }
            })}
            {part(move || view! { <Ended asked=asked.get() /> })}
        </main>
    }
}
