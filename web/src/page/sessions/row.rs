//! One session in the list, two lines: who does what for how long; the last line of output.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::command::CommandState;
use glassbox_shared::id::SessionId;
use glassbox_shared::text::plain;

use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::parts::icons::{Icon, Name};
use crate::page::parts::state::State;
use crate::page::store::use_store;
use crate::state::look::{self, Look};
use crate::state::session::{Group, Session};
use crate::state::{kill, visible, words};

/// Characters of the command that are shown; the rest is in the session.
const COMMAND_CHARACTERS: usize = 160;

/// How the last command ended, for an idle session.
fn ended(session: &Session, now: f64) -> Option<Look> {
    let command = session.latest.as_ref().filter(|command| command.state.is_final())?;
    Some(look::command(command, now))
}

/// The time on the right, and the exact one it stands for.
fn time(session: &Session, now: f64) -> (String, f64) {
    match (session.group(now), &session.latest) {
        (Group::Quiet, Some(command)) => {
            (format!("no output for {}", words::duration(look::silence(command, now))), command.created_at)
        }
        (Group::Running, Some(command)) if command.state == CommandState::Running => {
            (look::ran(command, now).unwrap_or_default(), command.created_at)
        }
        _ => (words::ago(now - session.changed_at()), session.changed_at()),
    }
}

/// The second line: what matters most of it.
fn second(session: &Session) -> String {
    match &session.latest {
        _ if !session.last_line.is_empty() && !session.latest.as_ref().is_some_and(look::survived) => {
            session.last_line.clone()
        }
        None => "no command yet".to_owned(),
        Some(command) => kill::outcome(command).or_else(|| look::explanation(command)).unwrap_or_else(|| {
            match (command.output_bytes, command.state.is_final()) {
                (0, false) => "no output yet".to_owned(),
                (0, true) => "no output".to_owned(),
                (bytes, _) => format!("{} of output", words::bytes(bytes)),
            }
        }),
    }
}

/// The row.
#[component]
pub fn Row(id: SessionId) -> impl IntoView {
    let (store, clock) = (use_store(), use_clock());
    let key = id.clone();
    let session = Memo::new(move |_| store.with_session(&key, Clone::clone));
    let read = move |what: fn(&Session) -> String| {
        move || session.with(|session| session.as_ref().map(what).unwrap_or_default())
    };
    let look = Memo::new(move |_| session.with(|session| session.as_ref().map(|session| session.look(clock.now()))));
    let ended = Memo::new(move |_| session.with(|session| session.as_ref().and_then(|session| ended(session, 0.0))));
    let time = Memo::new(move |_| session.with(|session| session.as_ref().map(|session| time(session, clock.now()))));
    let together = Memo::new(move |_| session.with(|session| session.as_ref().and_then(Session::together)));
    let last_line_is_output =
        move || session.with(|session| session.as_ref().is_some_and(|session| !session.last_line.is_empty()));
    let name = read(|session| plain(&session.view.name));
    let agent = read(|session| plain(session.view.created_by.name()));
    let command = read(|session| {
        session
            .latest
            .as_ref()
            .map(|command| visible::shortened(&command.command, COMMAND_CHARACTERS))
            .unwrap_or_default()
    });
    let gone = move || session.with(|session| session.as_ref().is_none_or(Session::ended));
    view! {
        <li class:gone=gone>
            <a href=format!("/sessions/{id}") class="row" data-row="" data-testid="session-row" data-session-id=id.to_string()>
                {part(move || look.get().map(|look| view! { <State look /> }))}
                <strong class="name">{name}</strong>
                <span class="agent">{agent}</span>
                <code class="command">{command}</code>
                <time class="figures" title=attr(move || time.get().map(|(_, at)| browser::exact_time(at)))>{part(move || time.get().map(|(text, _)| text))}</time>
                <span class="second">
                    {part(move || ended.get().map(|look| view! { <State look /> }))}
                    {part(move || together.get().map(|names| view! { <span class="together" data-testid="row-clients"><Icon name=Name::Together /><span>{names}</span></span> }))}
                    <span class="last" class:mono=last_line_is_output>{part(read(second))}</span>
                </span>
            </a>
        </li>
    }
}
