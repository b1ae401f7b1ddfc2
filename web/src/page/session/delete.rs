//! Deleting a session: the dialog names what goes and what stays.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::here::use_here;
use super::shown_name;
use crate::page::api;
use crate::page::parts::modal::Modal;
use crate::page::parts::toasts::use_toasts;
use crate::page::route::{Go, use_route};
use crate::page::store::use_store;
use crate::state::{visible, words};

/// Running commands that are named; the others are counted.
const NAMED: usize = 3;
/// Characters of each.
const CHARACTERS: usize = 48;

/// The dialog.
#[component]
pub fn Delete(open: RwSignal<bool>) -> impl IntoView {
    view! { <Modal open label="Delete the session" class="sheet form"><Question open /></Modal> }
}

#[component]
fn Question(open: RwSignal<bool>) -> impl IntoView {
    let here = use_here();
    let (store, toasts) = (use_store(), use_toasts());
    let session = here.session();
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    let route = use_route();
    let name = session.with_untracked(|session| session.as_ref().map(shown_name).unwrap_or_default());
    let running = move || {
        let named = store
            .with_book(&here.id(), |book| {
                let running = book.iter().filter(|command| !command.state.is_final());
                running.take(NAMED).map(|command| visible::shortened(&command.command, CHARACTERS)).collect::<Vec<_>>()
            })
            .unwrap_or_default();
        let count = session
            .with(|session| session.as_ref().map_or(0, |session| session.view.commands_running))
            .max(named.len() as u64);
        let more = if count > named.len() as u64 { ", …" } else { "" };
        (count > 0).then(|| {
            format!(
                "{}: {}{more}",
                words::count(count, "running command is killed", "running commands are killed"),
                named.join(", ")
            )
        })
    };
    let total = move || session.with(|session| session.as_ref().map_or(0, |session| session.view.commands_total));
    let said = name.clone();
    let delete = move |_| {
        busy.set(true);
        problem.set(None);
        let (id, name) = (here.id(), said.clone());
        spawn_local(async move {
            match api::delete_session(&id).await {
                Ok(()) => {
                    toasts.say(format!("{name} was deleted."));
                    store.change(|world| world.forget(&id));
                    route.go("/", Go::There);
                }
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                    busy.try_set(false);
                }
            }
        });
    };
    view! {
        <h2>"Delete "{name}"?"</h2>
        <dl class="consequences">
            <div>
                <dt>"Gone at once"</dt>
                <dd>"the sandbox and every file in it, its workspace included"</dd>
                {part(move || running().map(|text| view! { <dd>{text}</dd> }))}
            </div>
            <div>
                <dt>"Kept for a while"</dt>
                <dd>{part(move || format!("the record of {} with their output", words::count(total(), "command", "commands")))}</dd>
            </div>
        </dl>
        <p class="problem" role="alert">{part(move || problem.get())}</p>
        <div class="actions">
            <button type="button" on:click=move |_| open.set(false)>"Cancel"</button>
            <button type="button" class="danger full" disabled=attr(move || busy.get()) on:click=delete data-testid="delete-confirm">
                {part(move || if busy.get() { "Deleting…" } else { "Delete" })}
            </button>
        </div>
    }
}
