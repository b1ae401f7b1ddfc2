//! The box that runs a command, or the words that say why it does not.

use crate::page::parts::part::{attr, part};
use leptos::ev;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::command::RunCommand;

use super::here::use_here;
use crate::page::api;
use crate::page::app::use_account;
use crate::page::store::use_store;
use crate::state::session::Doing;

/// Under the commands.
#[component]
pub fn RunBox() -> impl IntoView {
    let here = use_here();
    let (account, session) = (use_account(), here.session());
    let allowed = Memo::new(move |_| session.with(|session| account.may_do(Doing::Run, session.as_ref()?)));
    move || match allowed.get() {
        Some(Ok(())) => view! { <Field /> }.into_any(),
        Some(Err(why)) => view! { <p class="run-note small muted" data-testid="run-note">{why}</p> }.into_any(),
        None => ().into_any(),
    }
}

#[component]
fn Field() -> impl IntoView {
    let here = use_here();
    let store = use_store();
    let text = RwSignal::new(String::new());
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    let newest = StoredValue::new_local(here.to_newest());

    let run = move || {
        let command = text.get_untracked();
        if busy.get_untracked() || command.trim().is_empty() {
            return;
        }
        busy.set(true);
        problem.set(None);
        let session = here.id();
        spawn_local(async move {
            let wanted = RunCommand { command, ..RunCommand::default() };
            match api::run(&session, &wanted).await {
                Ok(view) => {
                    store.change(|world| world.put_command(view));
                    if text.try_set(String::new()).is_none() {
                        newest.try_with_value(|newest| newest());
                    }
                }
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                }
            }
            busy.try_set(false);
        });
    };
    let rows =
        move || text.with(|text| text.lines().count() + usize::from(text.ends_with('\n'))).clamp(1, 6).to_string();
    view! {
        <form class="run-box" on:submit=move |event: ev::SubmitEvent| { event.prevent_default(); run(); }>
            <textarea rows=rows placeholder="run…" aria-label="Command to run; Enter runs it, Shift Enter makes a new line"
                autocomplete="off" autocapitalize="off" spellcheck="false" data-testid="run-input"
                prop:value=attr(move || text.get()) on:input=move |event| text.set(event_target_value(&event))
                on:keydown=move |event: ev::KeyboardEvent| if event.key() == "Enter" && !event.shift_key() && !event.is_composing() {
                    event.prevent_default();
                    run();
                }></textarea>
            <button type="submit" disabled=attr(move || busy.get() || text.with(|text| text.trim().is_empty())) data-testid="run-submit">
                {part(move || if busy.get() { "…" } else { "Run" })}
            </button>
            <p class="problem small" role="alert">{part(move || problem.get())}</p>
        </form>
    }
}
