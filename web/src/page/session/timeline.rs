//! What happened in a session, oldest first; of a live one it grows.

use crate::page::parts::part::{effect, part};
use leptos::prelude::*;

use super::here::use_here;
use crate::page::history::calls;
use crate::page::interop::browser;
use crate::page::parts::paged::Paged;
use crate::page::parts::state::State;
use crate::state::past::{self, Moment};
use crate::state::words;

/// The list.
#[component]
pub fn Timeline() -> impl IntoView {
    let here = use_here();
    let list = Paged::new(move |after| {
        let id = here.id();
        async move { calls::timeline(&id, after).await }
    });
    // All that makes an entry changes one of these.
    let changes = Memo::new(move |_| {
        here.session().with(|session| {
            session.as_ref().map(|session| {
                let view = &session.view;
                let ended = view.commands_total - view.commands_running.min(view.commands_total);
                (view.commands_total, ended, view.restarts.len(), view.control.since.to_bits(), view.ended_at.is_some())
            })
        })
    });
    let mut seen = changes.get_untracked();
    effect(move || {
        let now = changes.get();
        if now != seen {
            seen = now;
            list.again();
        }
    });
    let row = move |start: f64, entry: Moment| {
        let look = view! { <State look=Signal::stored(past::happening(&entry.what)) /> };
        let what = match past::command(&entry.what) {
            Some(command) => view! { <a href=here.address(command)>{look}</a> }.into_any(),
            None => look.into_any(),
        };
        let after = format!("+{}", words::duration(entry.at - start));
        view! { <li><time class="figures" title=browser::exact_time(entry.at)>{after}</time>{what}</li> }.into_any()
    };
    view! {
        <ol class="timeline" aria-label="Time line, oldest first" data-testid="timeline">
            {part(move || {
                let entries = list.items.get();
                let start = entries.first().map_or(0.0, |first| first.at);
                entries.into_iter().map(move |entry| row(start, entry)).collect::<Vec<_>>()
            })}
        </ol>
        {list.rest("Go on")}
    }
}
