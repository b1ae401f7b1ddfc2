//! The thin bar that says when the line to the server is down. Never over the content.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use crate::page::clock::use_clock;
use crate::page::live::use_live;
use crate::state::connection::Line;
use crate::state::words;

/// Shorter losses are not worth a bar.
const WORTH_SAYING_SECONDS: f64 = 1.0;

/// The bar; it has its place also while it is empty, so that nothing jumps.
#[component]
pub fn ConnectionBar() -> impl IntoView {
    let (live, clock) = (use_live(), use_clock());
    let lost_for = move || match live.line.get() {
        Line::Lost { since } => Some(clock.exact() - since).filter(|_| clock.now() > 0.0),
        _ => None,
    };
    let shown = Memo::new(move |_| lost_for().is_some_and(|seconds| seconds >= WORTH_SAYING_SECONDS));
    // What was said before the line was lost may be over.
    let engine_shown = Memo::new(move |_| live.engine.with(Option::is_some) && live.line.get() == Line::Live);
    view! {
        <div class="connection-bar" class:shown=attr(move || shown.get()) role="status" data-testid="connection-bar" data-line=attr(move || {
            match live.line.get() {
                Line::Connecting => "connecting",
                Line::Live => "live",
                Line::Lost { .. } => "lost",
                Line::SignedOut => "signed-out",
            }
        })>
            {part(move || shown.get().then(|| view! {
                <span>"Reconnecting. Output continues where it stopped."</span>
                " "
                <span class="figures since" aria-hidden="true">
                    {part(move || lost_for().map(|seconds| format!("Not connected for {}; states are from then.", words::duration(seconds))))}
                </span>
            }))}
        </div>
        <div class="connection-bar" class:shown=attr(move || engine_shown.get()) role="status" data-testid="engine-bar">
            {part(move || engine_shown.get().then(|| view! {
                <span>"The container engine does not answer. Nothing can be started; kills wait for it."</span>
                " "
                <span class="figures since" aria-hidden="true">
                    {part(move || live.engine.get().map(|trouble| format!("For {}.", words::duration(clock.exact() - trouble.since))))}
                </span>
            }))}
        </div>
    }
}
