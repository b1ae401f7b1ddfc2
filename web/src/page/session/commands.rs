//! The left column: commands and restarts, newest first, and the box to run one.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use super::here::use_here;
use super::row::{CommandRow, RestartCard};
use super::run_box::RunBox;
use crate::page::api;
use crate::page::live::use_live;
use crate::page::store::use_store;
use crate::state::book::Entry;
use crate::state::words;

/// The column.
#[component]
pub fn Commands() -> impl IntoView {
    let here = use_here();
    let (store, live) = (use_store(), use_live());
    let session = here.session();
    let held = RwSignal::new(false);
    let wanted = Memo::new(move |_| {
        let restarts =
            session.with(|session| session.as_ref().map(|session| session.view.restarts.clone()).unwrap_or_default());
        store.with_book(&here.id(), |book| book.time_line(&restarts)).unwrap_or_default()
    });
    // Held: new ones wait above, so that nothing moves under the pointer.
    let shown = Memo::new(move |previous: Option<&Vec<Entry>>| {
        let wanted = wanted.get();
        match (held.get(), previous.and_then(|shown| shown.first())) {
            (true, Some(first)) => match wanted.iter().position(|entry| entry == first) {
                Some(start) => wanted[start..].to_vec(),
                None => wanted,
            },
            _ => wanted,
        }
    });
    let waiting = Memo::new(move |_| wanted.with(Vec::len).saturating_sub(shown.with(Vec::len)));
    let older = Memo::new(move |_| store.with_book(&here.id(), |book| book.next).flatten());
    let busy = RwSignal::new(false);
    let load_older = move |_| {
        let Some(before) = older.get_untracked() else { return };
        busy.set(true);
        let (asked, id, lives) = (here.id(), here.id(), here.lives());
        live.load(async move { api::commands(&asked, Some(before), lives).await }, move |answer| {
            if let Ok(list) = answer {
                store.change(|world| world.load_older(&id, list));
            }
            busy.try_set(false);
        });
    };
    let total =
        Memo::new(move |_| session.with(|session| session.as_ref().map_or(0, |session| session.view.commands_total)));
    view! {
        <section class="commands" aria-label="Commands">
            <h2>"Commands"<span class="count figures">{part(move || words::thousands(total.get().max(wanted.with(|all| all.iter().filter(|entry| matches!(entry, Entry::Command(_))).count() as u64))))}</span></h2>
            <div class="scroll" on:pointerenter=move |event| if event.pointer_type() == "mouse" { held.set(true) } on:pointerleave=move |_| held.set(false)>
                <p class="waiting" role="status">
                    {part(move || (waiting.get() > 0).then(|| view! {
                        <button type="button" class="link small" on:click=move |_| held.set(false)>
                            {part(move || words::count(waiting.get() as u64, "new one above", "new ones above"))}
                        </button>
                    }))}
                </p>
                <ul>
                    <For each=move || shown.get() key=Clone::clone let:entry>
                        {match entry {
                            Entry::Command(id) => view! { <CommandRow id /> }.into_any(),
                            Entry::Restart(index) => view! { <RestartCard index /> }.into_any(),
                        }}
                    </For>
                </ul>
                <Show when=move || older.get().is_some()>
                    <button type="button" class="older" disabled=attr(move || busy.get()) on:click=load_older>
                        {part(move || if busy.get() { "Loading…" } else { "Older commands" })}
                    </button>
                </Show>
            </div>
            <RunBox />
        </section>
    }
}
