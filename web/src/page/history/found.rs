//! What a search found, newest session first, each with the line around it.

use crate::page::parts::part::part;
use leptos::prelude::*;

use glassbox_shared::history::{FoundIn, SearchHit};
use glassbox_shared::text::plain;

use super::calls;
use crate::page::parts::paged::{Paged, Stage};
use crate::state::{visible, words};

/// Characters of a command that are shown.
const COMMAND_CHARACTERS: usize = 100;

/// Where it stands: `live · line 12`.
fn place(hit: &SearchHit) -> String {
    let session = if hit.session_ended { "ended" } else { "live" };
    match (hit.found_in, hit.line) {
        (FoundIn::Command, _) => format!("{session} · the command"),
        (FoundIn::Output, Some(line)) => format!("{session} · line {}", words::thousands(line)),
        (FoundIn::Output, None) => format!("{session} · after {}", words::bytes(hit.offset)),
    }
}

fn row(hit: SearchHit) -> AnyView {
    let at = match hit.found_in {
        FoundIn::Output => format!("?at={}", hit.offset),
        FoundIn::Command => String::new(),
    };
    let place = place(&hit);
    let snippet = hit.snippet.into_iter().map(|part| {
        let text = visible::visible(&part.text).replace('\n', " ");
        if part.found { view! { <mark>{text}</mark> }.into_any() } else { text.into_any() }
    });
    view! {
        <li>
            <a class="hit" data-row="" data-testid="search-hit" href=format!("/sessions/{}/commands/{}{at}", hit.session_id, hit.command_id)>
                <strong class="name">{plain(&hit.session_name)}</strong>
                <code class="command">{visible::shortened(&hit.command, COMMAND_CHARACTERS)}</code>
                <span class="place figures">{place}</span>
                <code class="found"><bdi>{snippet.collect_view()}</bdi></code>
            </a>
        </li>
    }
    .into_any()
}

/// The list.
#[component]
pub fn Found(words: String) -> impl IntoView {
    let partly = RwSignal::new(0u64);
    let hits = Paged::new(move |before| {
        let words = words.clone();
        async move {
            let page = calls::search(&words, before).await?;
            partly.try_update(|all| *all += page.partly);
            Ok((page.hits, page.next))
        }
    });
    let said = move || match (hits.stage.get(), hits.items.with(Vec::len) as u64) {
        (Stage::Loading, 0) => "Searching…".to_owned(),
        (Stage::Failed(_), 0) => String::new(),
        (Stage::All, 0) => "Nothing found. Every word must occur, near the others; fewer words find more.".to_owned(),
        (Stage::All, found) => words::count(found, "place", "places"),
        (_, 0) => "Nothing found so far.".to_owned(),
        (_, found) => format!("{} so far", words::count(found, "place", "places")),
    };
    let not_all = move || {
        let commands = partly.get();
        (commands > 0)
            .then(|| format!("Of {} not all output can be searched.", words::count(commands, "command", "commands")))
    };
    view! {
        <section aria-label="Found">
            <p class="said" role="status" data-testid="search-status"><span>{part(said)}</span>{part(not_all)}</p>
            <ul class="rows">{part(move || hits.items.get().into_iter().map(row).collect::<Vec<_>>())}</ul>
            {hits.rest("Search on")}
        </section>
    }
}
