//! One entry of the time line: a command, or a restart of the sandbox.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::command::CommandView;
use glassbox_shared::id::CommandId;
use glassbox_shared::text::plain;

use super::here::{Here, Pane, use_here};
use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::parts::icons::StateIcon;
use crate::page::parts::state::State;
use crate::page::parts::time::Ago;
use crate::page::store::use_store;
use crate::state::look::{self, Glyph};
use crate::state::visible;

/// A command: its text in two lines, its state, its time.
#[component]
pub fn CommandRow(id: CommandId) -> impl IntoView {
    let here = use_here();
    let (store, clock) = (use_store(), use_clock());
    let key = id.clone();
    let command = Memo::new(move |_| store.command(&here.id(), &key));
    // One that is over does not change with the time: thousands of rows then sleep through the seconds.
    let now = move |command: &CommandView| command.ended_at.unwrap_or_else(|| clock.now());
    let look = Memo::new(move |_| {
        command.with(|command| command.as_ref().map(|command| look::command(command, now(command))))
    });
    let time = Memo::new(move |_| {
        command.with(|command| {
            let command = command.as_ref()?;
            let ran = look::ran(command, now(command))?;
            Some(if command.state.is_final() { format!("in {ran}") } else { ran })
        })
    });
    let text = move || {
        command.with(|command| {
            command.as_ref().map(|command| visible::visible(command.command.trim())).unwrap_or_default()
        })
    };
    let exact = move || {
        command.with(|command| {
            command.as_ref().map(|command| format!("Started {}", browser::exact_time(command.created_at)))
        })
    };
    let by = move || {
        command.with(|command| {
            let session = here.session();
            let command = command.as_ref()?;
            // Only who is not the session's own agent is worth a word.
            let other = session
                .with(|session| session.as_ref().is_some_and(|session| session.view.created_by != command.actor));
            other.then(|| plain(command.actor.name()))
        })
    };
    let state =
        move || command.with(|command| command.as_ref().map_or("unknown", |command| look::state_word(&command.state)));
    let shown = key_is_shown(here, id.clone());
    view! {
        <li>
            <a href=here.address(&id) class="command-row" data-row="" data-testid="command-row"
                data-command-id=id.to_string() data-state=state aria-current=attr(move || shown.get().then_some("true"))
                on:click=move |_| here.pane.set(Pane::Output)>
                <code class="text">{part(text)}</code>
                <span class="under">
                    {part(move || look.get().map(|look| view! { <State look /> }))}
                    <span class="by">{part(by)}</span>
                    <span class="figures time" title=exact>{time}</span>
                </span>
            </a>
        </li>
    }
}

fn key_is_shown(here: Here, id: CommandId) -> Memo<bool> {
    Memo::new(move |_| here.shown.with(|shown| shown.as_ref() == Some(&id)))
}

/// The sandbox died and was made anew: why, what is kept, what is lost.
#[component]
pub fn RestartCard(index: usize) -> impl IntoView {
    let session = use_here().session();
    let restart = Memo::new(move |_| session.with(|session| session.as_ref()?.view.restarts.get(index).cloned()));
    move || {
        restart.get().map(|restart| {
            view! {
                <li class="restart-card" data-testid="restart-card">
                    <p class="title"><span class="state tone-quiet"><StateIcon glyph=Glyph::Turn /></span>{look::restarted(restart.cause)}</p>
                    <dl>
                        <div><dt>"Kept"</dt><dd>{plain(&restart.kept)}</dd></div>
                        <div><dt>"Lost"</dt><dd>{plain(&restart.lost)}</dd></div>
                    </dl>
                    <p class="small muted"><Ago at=restart.at /></p>
                </li>
            }
        })
    }
}
