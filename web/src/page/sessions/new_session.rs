//! The dialog that makes a session.

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::Input;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::session::{CreateSession, MemorySize, Profile};

use crate::page::api;
use crate::page::parts::modal::Modal;
use crate::page::route::{Go, use_route};
use crate::page::store::use_store;

/// Memory sizes offered; the empty one is the profile's own.
const MEMORY: [(&str, &str); 6] = [
    ("", "As the profile says"),
    ("256m", "256 MiB"),
    ("512m", "512 MiB"),
    ("1g", "1 GiB"),
    ("2g", "2 GiB"),
    ("4g", "4 GiB"),
];

/// The dialog.
#[component]
pub fn NewSession(open: RwSignal<bool>) -> impl IntoView {
    view! { <Modal open label="New session" class="sheet form"><Form open /></Modal> }
}

#[component]
fn Form(open: RwSignal<bool>) -> impl IntoView {
    let store = use_store();
    let name = RwSignal::new(String::new());
    let profile = RwSignal::new(Profile::Open);
    let memory = RwSignal::new(String::new());
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    let route = use_route();

    let submit = move |event: ev::SubmitEvent| {
        event.prevent_default();
        if busy.get_untracked() {
            return;
        }
        let text =
            |signal: RwSignal<String>| Some(signal.get_untracked().trim().to_owned()).filter(|text| !text.is_empty());
        let wanted = CreateSession {
            name: text(name),
            profile: Some(profile.get_untracked()),
            persistent: Some(true),
            memory: text(memory).map(MemorySize::Text),
            ..CreateSession::default()
        };
        busy.set(true);
        problem.set(None);
        spawn_local(async move {
            let answer = api::create_session(&wanted).await;
            // The dialog may have been closed meanwhile; the session is in the list then.
            match answer {
                Ok(view) => {
                    let path = format!("/sessions/{}", view.session_id);
                    store.change(|world| world.put_session(view));
                    if open.try_get_untracked() == Some(true) {
                        open.set(false);
                        route.go(&path, Go::There);
                    }
                }
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                }
            }
            busy.try_set(false);
        });
    };
    let choice = move |which: Profile, title: &'static str, what: &'static str| {
        view! {
            <label class="choice">
                <input type="radio" name="profile" value=which.as_str() prop:checked=attr(move || profile.get() == which) on:change=move |_| profile.set(which) />
                <span><strong>{title}</strong><span class="small muted">{what}</span></span>
            </label>
        }
    };
    let first = NodeRef::<Input>::new();
    effect(move || first.get().map(|input| input.focus()));
    view! {
        <form on:submit=submit>
            <h2>"New session"</h2>
            <label>
                <span>"Name"</span>
                <input node_ref=first type="text" maxlength="80" placeholder="what it is for" autocomplete="off" data-testid="new-session-name"
                    prop:value=attr(move || name.get()) on:input=move |event| name.set(event_target_value(&event)) />
            </label>
            <fieldset>
                <legend>"Profile"</legend>
                {choice(Profile::Open, "open", "Root in a writable system: install things, build things. No network.")}
                {choice(Profile::Hardened, "hardened", "An ordinary user, a read-only system, no capabilities. No network.")}
            </fieldset>
            <label>
                <span>"Memory"</span>
                <select data-testid="new-session-memory" on:change=move |event| memory.set(event_target_value(&event))>
                    {MEMORY.map(|(value, text)| view! { <option value=value>{text}</option> }).collect_view()}
                </select>
            </label>
            <p class="problem" role="alert">{part(move || problem.get())}</p>
            <div class="actions">
                <button type="button" on:click=move |_| open.set(false)>"Cancel"</button>
                <button type="submit" class="primary" disabled=attr(move || busy.get()) data-testid="new-session-submit">
                    {part(move || if busy.get() { "Making it…" } else { "Make session" })}
                </button>
            </div>
        </form>
    }
}
