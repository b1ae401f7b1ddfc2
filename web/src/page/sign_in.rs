//! Signing in: by a one-time link or with a key; and a name, because acts are recorded with it.

use crate::page::parts::part::{attr, part};
use leptos::ev;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::api::{self, Failure, Proof};
use super::app::use_account;
use super::interop::browser;
use super::tab::use_title;
use glassbox_shared::error::ErrorCode;

/// Longest name.
const NAME_CHARACTERS: &str = "60";

fn why(failure: &Failure, by_link: bool) -> String {
    match failure.code {
        Some(ErrorCode::LinkExpired) => {
            "This link was used already, or is too old. Make another with: glassbox link".to_owned()
        }
        _ if failure.signed_out() && by_link => "This link is not valid. Make another with: glassbox link".to_owned(),
        _ if failure.signed_out() => "This key is not valid.".to_owned(),
        _ => failure.detail.clone(),
    }
}

/// The page before all others.
#[component]
pub fn SignIn(
    /// The token that was in the address; taken when used.
    link: RwSignal<Option<String>>,
    /// Why one has to sign in (again).
    #[prop(into)]
    reason: Signal<Option<String>>,
) -> impl IntoView {
    use_title(|| "sign in".to_owned());
    let account = use_account();
    let name = RwSignal::new(browser::remembered("name").unwrap_or_default());
    let key = RwSignal::new(String::new());
    let problem = RwSignal::new(None::<String>);
    let busy = RwSignal::new(false);
    let by_link = move || link.with(Option::is_some);

    let submit = move |event: ev::SubmitEvent| {
        event.prevent_default();
        if busy.get_untracked() {
            return;
        }
        let token = link.get_untracked();
        let used_link = token.is_some();
        let proof = token.map_or_else(|| Proof::Key(key.get_untracked().trim().to_owned()), Proof::Link);
        let who = name.get_untracked().trim().to_owned();
        busy.set(true);
        problem.set(None);
        spawn_local(async move {
            let answer = api::sign_in(&proof, &who).await;
            busy.set(false);
            match answer {
                Ok(me) => {
                    browser::remember("name", &who);
                    key.set(String::new());
                    link.set(None);
                    account.signed_in(me);
                }
                Err(failure) => {
                    problem.set(Some(why(&failure, used_link)));
                    // A link works once: what is left is the key.
                    if failure.signed_out() {
                        link.set(None);
                    }
                }
            }
        });
    };
    view! {
        <main class="centre sign-in">
            <form class="card narrow" on:submit=submit>
                <svg class="mark big" viewBox="0 0 20 20" aria-hidden="true">
                    <rect x="1.5" y="1.5" width="17" height="17" rx="4.5" class="pane" />
                    <path d="m5.500 7 3 3-3 3M10.500 13.500h4" class="stroke" />
                </svg>
                <h1>"glassbox"</h1>
                <p class="muted lead">"See into the sandboxes in which agents work, and step in."</p>
                {part(move || reason.get().map(|reason| view! { <p class="notice">{reason}</p> }))}
                <Show when=move || !by_link()>
                    <label>
                        <span>"Key"</span>
                        <input type="password" name="key" required autocomplete="current-password" spellcheck="false" data-testid="sign-in-key"
                            prop:value=attr(move || key.get()) on:input=move |event| key.set(event_target_value(&event)) />
                        <span class="hint">"An operator's or a viewer's key. No key at hand? "<code>"glassbox link"</code>" prints a sign-in link."</span>
                    </label>
                </Show>
                <label>
                    <span>"Your name"</span>
                    <input type="text" name="name" required autocomplete="name" maxlength=NAME_CHARACTERS data-testid="sign-in-name"
                        prop:value=attr(move || name.get()) on:input=move |event| name.set(event_target_value(&event)) />
                    <span class="hint">"Shown and recorded with everything that you do."</span>
                </label>
                <p class="problem" role="alert" data-testid="sign-in-problem">{part(move || problem.get())}</p>
                <button type="submit" class="primary wide" disabled=attr(move || busy.get()) data-testid="sign-in-submit">
                    {part(move || if busy.get() { "Signing in…" } else if by_link() { "Open glassbox" } else { "Sign in" })}
                </button>
            </form>
        </main>
    }
}
