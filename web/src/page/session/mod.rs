//! One session: its commands, the output of one of them, and the facts.

mod commands;
mod delete;
mod feed;
mod header;
mod here;
mod info;
mod kill;
mod output;
mod purge;
mod replay;
mod row;
mod run_box;
mod sizes;
mod timeline;
mod told;

use crate::page::parts::part::{attr, effect, part};
use leptos::prelude::*;

use glassbox_shared::id::SessionId;
use glassbox_shared::session::SessionState;
use glassbox_shared::text::plain;

use super::api;
use super::app::NotFound;
use super::files::{FileDialogs, FilePane, FilePanel, Files, use_files};
use super::live::use_live;
use super::parts::icons::{Icon, Name};
use super::route::use_route;
use super::store::use_store;
use super::tab::use_title;
use crate::state::session::Session;
use crate::state::{address, look};
use commands::Commands;
use header::Header;
use here::{Here, Pane, use_here};
use info::Info;
use output::OutputPane;
use sizes::Handle;

/// `/sessions/{id}`
#[component]
pub fn SessionPage() -> impl IntoView {
    let route = use_route();
    let id = Memo::new(move |_| address::session(&route.path()).and_then(|id| id.parse::<SessionId>().ok()));
    move || match id.get() {
        Some(id) => view! { <Open id /> }.into_any(),
        None => view! { <NotFound /> }.into_any(),
    }
}

/// How far the session is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Load {
    Yes,
    Done,
    Missing,
    Failed(String),
}

#[component]
fn Open(id: SessionId) -> impl IntoView {
    let (store, live) = (use_store(), use_live());
    let load = RwSignal::new(Load::Yes);
    let here = Here::new(id.clone());
    provide_context(here);
    provide_context(Files::new(id.clone()));

    let ask = {
        let id = id.clone();
        move || {
            load.set(Load::Yes);
            let (first, second) = (id.clone(), id.clone());
            let lives = here.lives();
            live.load(async move { api::session(&first, lives).await }, move |answer| {
                let _ = match answer {
                    Ok(view) => {
                        store.change(|world| world.put_session(view));
                        load.try_set(Load::Done)
                    }
                    Err(failure) if failure.not_found() => load.try_set(Load::Missing),
                    Err(failure) => load.try_set(Load::Failed(failure.detail)),
                };
            });
            let id = second.clone();
            live.load(async move { api::commands(&second, None, lives).await }, move |answer| {
                if let Ok(list) = answer {
                    store.change(|world| world.load_commands(&id, list));
                }
            });
        }
    };
    ask();
    // It ended while the line was away, so that the list of those that live came without it: the history has it.
    let lost = ask.clone();
    let route = use_route();
    effect(move || {
        let is_lost = here.session().with(Option::is_none) && load.get_untracked() == Load::Done;
        // Whoever deleted it here is on the way elsewhere.
        let is_here = address::session(&untrack(|| route.path())).is_some_and(|id| id == here.id().as_str());
        if is_lost && is_here {
            lost();
        }
    });
    let closing = id.clone();
    on_cleanup(move || store.close_commands(&closing));

    let session = here.session();
    let ended = Memo::new(move |_| session.with(|session| session.as_ref().is_some_and(Session::ended)));
    effect(move || {
        if ended.get() {
            here.ask_for_record();
        }
    });
    use_title(move || {
        session.with(|session| session.as_ref().map(|session| session.view.name.clone()).unwrap_or_default())
    });
    // What is known already is shown at once, while it is asked for again.
    let stage = Memo::new(move |_| match load.get() {
        Load::Yes | Load::Failed(_) if session.with(Option::is_some) => Load::Done,
        Load::Missing if session.with(|session| session.as_ref().is_some_and(Session::ended)) => Load::Done,
        other => other,
    });
    move || {
        match stage.get() {
        Load::Yes => view! { <main id="main" class="centre" aria-busy="true"><p class="muted appear-late">"Opening the session…"</p></main> }.into_any(),
        Load::Done => view! { <Desk /> }.into_any(),
        Load::Missing => view! { <Missing /> }.into_any(),
        Load::Failed(why) => {
            let ask = ask.clone();
            view! {
                <main id="main" class="centre">
                    <div class="card narrow">
                        <h1>"Not loaded"</h1>
                        <p>{why}</p>
                        <div class="actions">
                            <a class="button" href="/">"All sessions"</a>
                            <button type="button" class="primary" on:click=move |_| ask()>"Try again"</button>
                        </div>
                    </div>
                </main>
            }
            .into_any()
        }
    }
    }
}

#[component]
fn Missing() -> impl IntoView {
    view! {
        <main id="main" class="centre">
            <div class="card narrow" data-testid="missing-session">
                <h1>"No such session"</h1>
                <p>"It was removed for good, or it never was, or it belongs to someone else."</p>
                <p class="muted">"A session that has ended can be read in the history, until its time is over or someone removes it."</p>
                <div class="actions"><a class="button" href="/history">"History"</a><a class="button primary" href="/">"All sessions"</a></div>
            </div>
        </main>
    }
}

#[component]
fn Desk() -> impl IntoView {
    let here = use_here();
    let files = use_files();
    let session = here.session();
    let ended = Memo::new(move |_| {
        session.with(|session| match session.as_ref().map(|session| session.view.state) {
            Some(SessionState::Ended { reason }) => Some(look::end_reason(reason)),
            _ => None,
        })
    });
    let restarting = Memo::new(move |_| {
        session.with(|session| session.as_ref().is_some_and(|session| session.view.state == SessionState::Restarting))
    });
    let tab = move |pane: Pane, icon: Name, text: &'static str| {
        view! {
            <button type="button" aria-pressed=attr(move || (here.pane.get() == pane).to_string()) class:chosen=attr(move || here.pane.get() == pane)
                on:click=move |_| here.pane.set(pane)>
                <Icon name=icon /><span>{text}</span>
            </button>
        }
    };
    view! {
        <main id="main" class="session" data-pane=attr(move || here.pane.get().word()) class:without-facts=attr(move || !here.facts.get())>
            <Header />
            <div class="banner" role="status">
                {part(move || ended.get().map(|why| view! {
                    <p>"This session has ended ("{why}"). Its sandbox and files are gone; what you see is the record of it."</p>
                }))}
                {part(move || restarting.get().then(|| view! { <p>"The sandbox died; a new one is being made on the same workspace."</p> }))}
            </div>
            <div class="desk">
                <Commands />
                <Handle variable="--commands" label="Width of the commands" grows=1 first=288 least=200 most=560 />
                {part(move || match files.file.get() {
                    Some(path) => view! { <section class="output-pane" aria-label="File"><FilePane path /></section> }.into_any(),
                    None => view! { <OutputPane /> }.into_any(),
                })}
                <Handle variable="--facts" label="Width of files and facts" grows=-1 first=336 least=240 most=720 />
                <Side />
            </div>
            <FileDialogs />
            <nav class="bottom-bar" aria-label="Parts of the session">
                {tab(Pane::Commands, Name::List, "Commands")}
                {tab(Pane::Output, Name::Terminal, "Output")}
                {part(move || (!ended.with(Option::is_some)).then(|| tab(Pane::Files, Name::Folder, "Files")))}
                {tab(Pane::Info, Name::Info, "Info")}
            </nav>
        </main>
    }
}

/// The right column: files or facts.
#[component]
fn Side() -> impl IntoView {
    let here = use_here();
    let files = use_files();
    let profile = Memo::new(move |_| {
        here.session()
            .with(|session| session.as_ref().filter(|session| !session.ended()).map(|session| session.view.profile))
    });
    let begun = Memo::new(move |_| {
        let wanted = (here.facts.get() && here.side.get() == Pane::Files)
            || here.pane.get() == Pane::Files
            || files.file.with(Option::is_some);
        if let (true, Some(profile)) = (wanted, profile.get()) {
            files.begin(profile);
        }
        wanted
    });
    let lives = Memo::new(move |_| profile.get().is_some());
    view! {
        <aside class="side" data-side=attr(move || if lives.get() { here.side.get().word() } else { Pane::Info.word() }) aria-label="Files and facts">
            {part(move || (lives.get() && begun.get()).then(|| view! { <FilePanel /> }))}
            <Info />
        </aside>
    }
}

/// The name of a session, fit to be shown.
fn shown_name(session: &Session) -> String {
    plain(&session.view.name)
}
