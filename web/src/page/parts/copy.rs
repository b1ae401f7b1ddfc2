//! A button that copies, and says whether it did.

use crate::page::parts::part::{attr, part};
use gloo_timers::callback::Timeout;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::icons::{Icon, Name};
use crate::page::interop::browser;

/// How long the answer stays.
const SAID_MS: u32 = 1600;

/// Copies `text`; `what` names it for those who do not see the icon.
#[component]
pub fn Copy(#[prop(into)] text: Signal<String>, #[prop(into)] what: String) -> impl IntoView {
    let said = RwSignal::new(None::<bool>);
    let copy = move |event: leptos::ev::MouseEvent| {
        event.prevent_default();
        event.stop_propagation();
        let text = text.get_untracked();
        spawn_local(async move {
            let done = browser::copy(&text).await;
            // The row may be gone by now.
            if said.try_set(Some(done)).is_none() {
                Timeout::new(SAID_MS, move || {
                    said.try_set(None);
                })
                .forget();
            }
        });
    };
    let title = format!("Copy {what}");
    view! {
        <button type="button" class="quiet icon-only copy" class:done=attr(move || said.get() == Some(true)) title=title.clone() aria-label=title on:click=copy>
            {part(move || match said.get() {
                Some(true) => view! { <Icon name=Name::Done /> },
                _ => view! { <Icon name=Name::Copy /> },
            })}
            <span class="said" role="status">
                {part(move || match said.get() {
                    None => "",
                    Some(true) => "copied",
                    Some(false) => "the browser refused",
                })}
            </span>
        </button>
    }
}

/// A text to copy, with its button.
#[component]
pub fn Snippet(#[prop(into)] text: Signal<String>, #[prop(into)] what: String) -> impl IntoView {
    view! {
        <div class="snippet">
            <pre tabindex="0">{text}</pre>
            <Copy text what />
        </div>
    }
}
