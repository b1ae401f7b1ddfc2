//! Sessions that have ended, the newest end first.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::session::{EndReason, SessionState};
use glassbox_shared::text::plain;

use super::{Asked, calls};
use crate::page::parts::paged::{Paged, Stage};
use crate::page::parts::state::State;
use crate::page::parts::time::Ago;
use crate::page::route::{Go, use_route};
use crate::state::look;
use crate::state::past::{Past, summary};
use crate::state::{visible, words};

/// Characters of the last command.
const COMMAND_CHARACTERS: usize = 160;
/// Reasons that one may ask for, as in the address and as they are said.
const REASONS: [(&str, &str); 5] = [
    ("", "However they ended"),
    ("deleted", "Deleted"),
    ("expired", "Expired"),
    ("failed", "Could not be made"),
    ("lost", "Lost their workspace"),
];

fn row(past: Past) -> AnyView {
    let second = summary(&past);
    let session = past.session;
    let reason = match session.state {
        SessionState::Ended { reason } => reason,
        // Nothing else is in this list.
        _ => EndReason::Lost,
    };
    let last = session.latest_command.map(|command| visible::shortened(&command.command, COMMAND_CHARACTERS));
    view! {
        <li>
            <a class="row" data-row="" data-testid="history-row" data-session-id=session.session_id.to_string() href=format!("/sessions/{}", session.session_id)>
                <State look=Signal::stored(look::ended(reason)) />
                <strong class="name">{plain(&session.name)}</strong>
                <span class="agent">{plain(session.created_by.name())}</span>
                <code class="command">{last}</code>
                <Ago at=session.ended_at.unwrap_or(session.last_accessed_at) />
                <span class="second">{second}</span>
            </a>
        </li>
    }
    .into_any()
}

/// The list, and what narrows it.
#[component]
pub fn Ended(asked: Asked) -> impl IntoView {
    let route = use_route();
    let keeps = RwSignal::new(None::<f64>);
    let plainly = asked == Asked::default();
    let asked = StoredValue::new(asked);
    let list = Paged::new(move |before| {
        let asked = asked.get_value();
        async move {
            calls::ended(&asked, before, |seconds| {
                keeps.try_set(Some(seconds));
            })
            .await
        }
    });
    let go = move |asked: Asked| route.go(&calls::address(&asked), Go::There);
    let by = move |event| {
        let maker = event_target_value(&event).trim().to_owned();
        go(Asked { maker, ..asked.get_value() });
    };
    let because = move |event| go(Asked { reason: event_target_value(&event), ..asked.get_value() });
    let is = |value: &str| asked.with_value(|asked| asked.reason == value);
    let reasons = REASONS.map(|(value, text)| view! { <option value=value selected=is(value)>{text}</option> });
    let empty = move || list.stage.get() == Stage::All && list.items.with(Vec::is_empty);
    let nothing = move || plainly && empty();
    let kept = move || {
        keeps.get().map(|seconds| {
            format!("Commands, output and time line of an ended session are kept for {}.", words::span(seconds))
        })
    };
    view! {
        <section aria-label="Ended sessions">
            <div class="tools">
                <h2>{if asked.with_value(|asked| asked.words.is_empty()) { "Ended sessions" } else { "Ended sessions, by name, id or command" }}</h2>
                <input type="search" class="maker" hidden=attr(nothing) aria-label="Only sessions made by" placeholder="Made by" autocomplete="off" spellcheck="false" data-testid="history-maker"
                    prop:value=asked.with_value(|asked| asked.maker.clone())
                    on:change=by />
                <select hidden=attr(nothing) aria-label="How they ended" data-testid="history-reason" on:change=because>
                    {reasons.into_iter().collect_view()}
                </select>
            </div>
            <ul class="rows">{part(move || list.items.get().into_iter().map(row).collect::<Vec<_>>())}</ul>
            {part(move || empty().then(|| if plainly {
                view! {
                    <div class="teach" data-testid="history-empty">
                        <p>"No session has ended yet."</p>
                        <p class="muted">
                            "When one does, its sandbox and its files go, and the record of it comes here: every command, what it wrote, and the time line. "
                            "Links to a command, or to a line of its output, go on working."
                        </p>
                        <a class="button" href="/">"All sessions"</a>
                    </div>
                }.into_any()
            } else {
                view! { <p class="muted" data-testid="history-none">"None."</p> }.into_any()
            }))}
            {list.rest("Older sessions")}
            <p class="kept small muted">{part(kept)}</p>
        </section>
    }
}
