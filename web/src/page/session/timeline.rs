//! What happened in a session, oldest first; of a live one it grows.

use crate::page::parts::part::{effect, part};
use gloo_timers::future::TimeoutFuture;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::here::use_here;
use crate::page::files::use_files;
use crate::page::history::calls;
use crate::page::interop::browser;
use crate::page::parts::paged::Paged;
use crate::page::parts::state::State;
use crate::page::store::use_store;
use crate::page::tab::use_hidden;
use crate::state::past::{self, Moment};
use crate::state::words;

/// Between a change and the question: an agent that runs many short commands costs one question for some of them.
const PAUSE_MS: u32 = 1_000;

/// The list.
#[component]
pub fn Timeline() -> impl IntoView {
    let here = use_here();
    let list = Paged::new(move |after| {
        let id = here.id();
        async move { calls::timeline(&id, after).await }
    });
    // All that makes an entry changes one of these.
    let store = use_store();
    let running = Memo::new(move |_| {
        let running: Vec<_> = store
            .with_book(&here.id(), |book| {
                book.iter()
                    .filter(|command| !command.state.is_final())
                    .map(|command| command.command_id.clone())
                    .collect()
            })
            .unwrap_or_default();
        // The end of each is told of it alone.
        for id in &running {
            store.command(&here.id(), id);
        }
        running
    });
    let changes = Memo::new(move |_| {
        here.session().with(|session| {
            session.as_ref().map(|session| {
                let view = &session.view;
                let restarted = view.restarts.last().map(|restart| restart.at.to_bits());
                // Changes of files are use, and told as such.
                let used = view.last_accessed_at.to_bits();
                let ended = view.ended_at.is_some();
                (view.commands_total, running.get(), restarted, view.control.since.to_bits(), ended, used)
            })
        })
    });
    let hidden = use_hidden();
    let asked = StoredValue::new(changes.get_untracked());
    let waits = StoredValue::new(false);
    effect(move || {
        let now = changes.get();
        // Hidden, it asks for nothing; shown again, it asks once for all that it missed.
        if hidden.get() || waits.get_value() || asked.with_value(|asked| *asked == now) {
            return;
        }
        waits.set_value(true);
        spawn_local(async move {
            TimeoutFuture::new(PAUSE_MS).await;
            // Whoever showed the list may be gone.
            if waits.try_set_value(false).is_none() && !untrack(|| hidden.get()) {
                // What changed meanwhile is asked for along with it.
                asked.set_value(changes.get_untracked());
                list.again();
            }
        });
    });
    let files = use_files();
    let row = move |start: f64, entry: Moment| {
        let look = view! { <State look=Signal::stored(past::happening(&entry.what)) /> };
        let file = past::file(&entry.what).filter(|_| here.lives()).map(|path| files.address(path));
        let what = match past::command(&entry.what).map(|command| here.address(command)).or(file) {
            Some(address) => view! { <a href=address>{look}</a> }.into_any(),
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
