//! A state as icon, word and colour.

use crate::page::parts::part::part;
use leptos::prelude::*;

use super::icons::StateIcon;
use crate::state::look::Look;

/// Icon and word in the state's colour.
#[component]
pub fn State(#[prop(into)] look: Signal<Look>) -> impl IntoView {
    let class = move || format!("state {}", look.with(|look| look.tone.class()));
    view! {
        <span class=class>
            <StateIcon glyph=Signal::derive(move || look.with(|look| look.glyph)) />
            <span class="word">{part(move || look.with(|look| look.word.clone()))}</span>
        </span>
    }
}
