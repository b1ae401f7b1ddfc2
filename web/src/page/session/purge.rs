//! Removing the record of an ended session for good: the dialog names what goes.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::here::use_here;
use super::shown_name;
use crate::page::clock::use_clock;
use crate::page::history::calls;
use crate::page::parts::modal::Modal;
use crate::page::parts::toasts::use_toasts;
use crate::page::route::{Go, use_route};
use crate::page::store::use_store;
use crate::state::removal::doomed;
use crate::state::words;

/// The dialog.
#[component]
pub fn Purge(open: RwSignal<bool>) -> impl IntoView {
    view! { <Modal open label="Remove the session for good" class="sheet form"><Question open /></Modal> }
}

#[component]
fn Question(open: RwSignal<bool>) -> impl IntoView {
    let here = use_here();
    let (store, toasts, route, clock) = (use_store(), use_toasts(), use_route(), use_clock());
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    let (name, total) = here.session().with_untracked(|session| {
        session.as_ref().map(|session| (shown_name(session), session.view.commands_total)).unwrap_or_default()
    });
    let unread = move || here.record.with(|record| matches!(record, Some(Err(_))));
    if untrack(unread) {
        here.ask_for_record();
    }
    let output = move || here.record.with(|record| doomed(total, record.as_ref()));
    let otherwise = move || {
        let until = here.record.get()?.ok()?.kept_until? - clock.exact();
        Some(format!("Left alone, it goes by itself in {}.", words::duration(until)))
    };
    let said = name.clone();
    let purge = move |_| {
        busy.set(true);
        problem.set(None);
        let (id, name) = (here.id(), said.clone());
        spawn_local(async move {
            match calls::purge(&id).await {
                Ok(gone) => {
                    let commands = words::count(gone.commands, "command", "commands");
                    let bytes = words::bytes(gone.output_bytes);
                    toasts.say(format!("{name} was removed for good: {commands}, {bytes} of output."));
                    store.change(|world| world.forget(&id));
                    // Back would lead to what is not there.
                    route.go("/history", Go::Instead);
                }
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                    busy.try_set(false);
                }
            }
        });
    };
    view! {
        <h2 class="break">"Remove "{name}" for good?"</h2>
        <dl class="consequences">
            <div>
                <dt>"Gone for ever"</dt>
                <dd>
                    <span role="status">{part(output)}</span>" "
                    {part(move || unread().then(|| view! { <button type="button" class="link" on:click=move |_| here.ask_for_record()>"Read it again"</button> }))}
                </dd>
                <dd>"the time line, and everything that a search finds of it"</dd>
                <dd>"every link to it, for everybody: it will lead nowhere"</dd>
            </div>
        </dl>
        <p class="small muted">"There is no way back. "{part(otherwise)}</p>
        <p class="problem" role="alert">{part(move || problem.get())}</p>
        <div class="actions">
            <button type="button" on:click=move |_| open.set(false)>"Cancel"</button>
            <button type="button" class="danger full" disabled=attr(move || busy.get()) on:click=purge data-testid="purge-confirm">
                {part(move || if busy.get() { "Removing…" } else { "Remove for good" })}
            </button>
        </div>
    }
}
