//! The head of a session: its name, whose it is, who is in control; the way to delete it.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::actor::Actor;
use glassbox_shared::text::plain;

use super::delete::Delete;
use super::here::{Pane, use_here};
use super::purge::Purge;
use super::shown_name;
use crate::page::app::use_account;
use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::parts::icons::{Icon, Name};
use crate::page::parts::state::State;
use crate::state::session::{Session, may_delete, may_purge};

/// What is shown by a word and a sign only, at more length.
pub(super) const TOGETHER: &str = "They use this one sandbox at once, with the same files and processes, and are told so. To keep \
                                   them apart, give each a workspace of its own: ?workspace=NAME in its MCP address.";

fn control(session: &Session) -> String {
    match &session.view.control.holder {
        Actor::Agent { .. } => "agent in control".to_owned(),
        Actor::Human { name } => format!("{} in control", plain(name)),
        Actor::Server => "nobody in control".to_owned(),
    }
}

/// The head.
#[component]
pub fn Header() -> impl IntoView {
    let here = use_here();
    let (clock, account, session) = (use_clock(), use_account(), here.session());
    let read = move |what: fn(&Session) -> String| {
        move || session.with(|session| session.as_ref().map(what).unwrap_or_default())
    };
    let look = Memo::new(move |_| session.with(|session| session.as_ref().map(|session| session.look(clock.now()))));
    let since = move || {
        session.with(|session| {
            session.as_ref().map(|session| format!("Since {}", browser::exact_time(session.view.control.since)))
        })
    };
    let human =
        move || session.with(|session| session.as_ref().is_some_and(|session| session.view.control.holder.is_human()));
    let deleting = RwSignal::new(false);
    let ended = Memo::new(move |_| session.with(|session| session.as_ref().is_some_and(Session::ended)));
    let may_delete = Memo::new(move |_| {
        let me = account.me();
        session.with(|session| {
            me.zip(session.as_ref())
                .is_some_and(|(me, session)| !session.ended() && may_delete(me.role, &me.actor, &session.view))
        })
    });
    let together = Memo::new(move |_| session.with(|session| session.as_ref().and_then(Session::together)));
    let purging = RwSignal::new(false);
    let may_purge = Memo::new(move |_| ended.get() && account.me().is_some_and(|me| may_purge(me.role)));
    let side = move |pane: Pane, icon: Name, text: &'static str, title: &'static str| {
        view! {
            <button type="button" class="quiet facts-toggle" aria-pressed=attr(move || here.shows(pane).to_string()) on:click=move |_| here.go_to(pane) title=title>
                <Icon name=icon /><span>{text}</span>
            </button>
        }
    };
    view! {
        <header class="session-head">
            <a href="/" class="button quiet icon-only back" aria-label="All sessions" title="All sessions"><Icon name=Name::Back /></a>
            <h1 data-testid="session-name">{part(read(shown_name))}</h1>
            {part(move || look.get().map(|look| view! { <State look /> }))}
            <p class="facts muted">
                <span title="Made by">{read(|session| plain(session.view.created_by.name()))}</span>
                <span title="Profile">{part(read(|session| session.view.profile.as_str().to_owned()))}</span>
            </p>
            {part(move || (!ended.get()).then(|| view! { <span class="badge" class:human=human title=since data-testid="control">{part(read(control))}</span> }))}
            {part(move || together.get().map(|names| view! { <span class="badge together" title=TOGETHER data-testid="clients"><Icon name=Name::Together /><span>{names}</span></span> }))}
            <div class="acts">
                {part(move || (!ended.get()).then(|| side(Pane::Files, Name::Folder, "Files", "The files of the sandbox (f)")))}
                {side(Pane::Info, Name::Info, "Info", "Facts about the session (i)")}
                <Show when=move || may_purge.get()>
                    <button type="button" class="quiet" on:click=move |_| purging.set(true) title="Remove the record of the session for good" data-testid="purge-session"><Icon name=Name::Trash /><span>"Remove"</span></button>
                </Show>
                <Show when=move || may_delete.get()>
                    <button type="button" class="quiet" on:click=move |_| deleting.set(true) title="Delete the session" aria-label="Delete the session" data-testid="delete-session"><Icon name=Name::Trash /><span>"Delete"</span></button>
                </Show>
            </div>
            <Delete open=deleting />
            <Purge open=purging />
        </header>
    }
}
