//! The output of one command, and the words around it: what it is, how live it is, what is not shown.

use std::rc::Rc;

use crate::page::parts::part::{attr, part};
use leptos::html::Div;
use leptos::prelude::*;

use glassbox_shared::command::CommandView;
use glassbox_shared::id::CommandId;
use glassbox_shared::live::WatchFrom;
use glassbox_shared::text::plain;

use super::feed::{Feed, FeedWatcher, Shown};
use super::here::use_here;
use super::kill::Kill;
use super::replay;
use super::told::Told;
use crate::page::api;
use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::interop::terminal::{Hear, Terminal};
use crate::page::live::{Watcher, use_live};
use crate::page::parts::copy::Copy;
use crate::page::parts::icons::{Icon, Name};
use crate::page::parts::state::State;
use crate::page::parts::time::Ago;
use crate::page::store::use_store;
use crate::page::theme::use_theme;
use crate::state::session::Session;
use crate::state::stream::{Phase, TAIL_BYTES};
use crate::state::{look, visible, words};

/// Bytes shown before the place that a link names: some screens of it.
const BEFORE_LINK_BYTES: u64 = 8 * 1024;
/// Characters of the newest command in the way back.
const WAY_BACK_CHARACTERS: usize = 60;

/// The middle column.
#[component]
pub fn OutputPane() -> impl IntoView {
    let here = use_here();
    let store = use_store();
    let back = here.to_newest();
    let way_back = Memo::new(move |_| {
        store
            .with_book(&here.id(), |book| {
                here.choice.get().way_back(book).map(|newest| visible::shortened(&newest.command, WAY_BACK_CHARACTERS))
            })
            .flatten()
    });
    let loaded = Memo::new(move |_| store.with_book(&here.id(), |_| ()).is_some());
    view! {
        <section class="output-pane" aria-label="Output">
            {part(move || way_back.get().map(|newest| {
                let back = back.clone();
                view! {
                    <button type="button" class="way-back" on:click=move |_| back() title="Follow the newest command (.)" data-testid="way-back">
                        "newest: "<code>{newest}</code><kbd aria-hidden="true">"."</kbd>
                    </button>
                }
            }))}
            {part(move || match (here.shown.get(), loaded.get()) {
                (Some(id), _) => view! { <Output id at=here.at.get() /> }.into_any(),
                (None, true) => view! {
                    <div class="none">
                        <p>"No command yet."</p>
                        <p class="muted">"The first one appears here by itself."</p>
                    </div>
                }.into_any(),
                (None, false) => view! { <p class="none muted appear-late" aria-busy="true">"Loading the commands…"</p> }.into_any(),
            })}
        </section>
    }
}

#[component]
fn Output(id: CommandId, at: Option<u64>) -> impl IntoView {
    let here = use_here();
    let (store, live) = (use_store(), use_live());
    let key = StoredValue::new(id.clone());
    let command = Memo::new(move |_| store.command(&here.id(), &key.get_value()));
    // Picked by its address, and older than the pages that are loaded: ask for it.
    if command.with_untracked(Option::is_none) {
        let (session, id, lives) = (here.id(), id.clone(), here.lives());
        live.load(async move { api::command(&session, &id, lives).await }, move |answer| {
            if let Ok(view) = answer {
                store.change(|world| world.put_command(view));
            }
        });
    }
    // A link to a place in the output begins a little before it.
    let from = RwSignal::new(match at {
        Some(at) => WatchFrom::Offset(at.saturating_sub(BEFORE_LINK_BYTES)),
        None => WatchFrom::Tail(TAIL_BYTES),
    });
    let over = here.session().with_untracked(|session| session.as_ref().is_some_and(Session::ended));
    let shown = RwSignal::new(Shown::default());
    let link = RwSignal::new(None::<String>);
    let feed = StoredValue::new_local(None::<Rc<Feed>>);
    let log = StoredValue::new(api::log_address(&here.id(), &id, over));
    let to_live = move |_| feed.with_value(|feed| feed.as_ref().map(|feed| feed.to_live())).unwrap_or_default();
    view! {
        <Head command />
        <div class="notes">
            {part(move || shown.with(|shown| (shown.stream.hidden > 0).then(|| words::bytes(shown.stream.hidden))).map(|hidden| view! {
                <p class="note" data-testid="earlier-note">
                    <span>{hidden}" before this not shown"</span>
                    <button type="button" class="link" on:click=move |_| from.set(WatchFrom::Offset(0))>"Load from the start"</button>
                </p>
            }))}
            {part(move || shown.with(|shown| (shown.stream.missing > 0).then(|| words::bytes(shown.stream.missing))).map(|missing| view! {
                <p class="note" data-testid="gap-note">
                    <span>{missing}" left out where the output says so"</span>
                    <a href=log.get_value() download="">"Download the log"</a>
                </p>
            }))}
            {part(move || shown.with(|shown| shown.problem.clone()).map(|problem| view! { <p class="note bad" role="alert">{problem}</p> }))}
            {part(move || command.with(|command| command.as_ref().and_then(look::explanation)).map(|text| view! { <p class="note">{text}</p> }))}
            {part(move || link.get().map(|target| view! {
                <p class="note" data-testid="link-note">
                    <span>"This link leads to "</span>
                    <a href=target.clone() target="_blank" rel="noopener noreferrer">{visible::visible_line(&target)}</a>
                    <button type="button" class="quiet icon-only" aria-label="Close this note" on:click=move |_| link.set(None)><Icon name=Name::Close /></button>
                </p>
            }))}
        </div>
        <div class="screen">
            {part(move || { let from = from.get(); view! { <Screen id=key.get_value() from place=at shown link feed /> } })}
            {part(move || shown.with(|shown| shown.scroll.away.then_some(shown.scroll.new_lines)).map(|new| view! {
                <button type="button" class="jump" on:click=to_live data-testid="jump-to-live">
                    <Icon name=Name::Down />
                    {if new == 0 { "jump to live".to_owned() } else { format!("{}, jump to live", words::count(new, "new line", "new lines")) }}
                </button>
            }))}
        </div>
        <footer class="status">
            <Status command shown />
            <div class="acts">
                <Copy text=format!("{}/sessions/{}/commands/{id}", browser::origin(), here.id()) what="a link to this command" />
                <Told command id=id.clone() />
                <Kill command id=id.clone() />
                <a class="button quiet icon-only" href=log.get_value() download="" title="Download the whole log" aria-label="Download the whole log" data-testid="download-log">
                    <Icon name=Name::Download />
                </a>
            </div>
        </footer>
    }
}

/// The terminal itself; made anew for every command and every start.
#[component]
fn Screen(
    id: CommandId,
    from: WatchFrom,
    place: Option<u64>,
    shown: RwSignal<Shown>,
    link: RwSignal<Option<String>>,
    feed: StoredValue<Option<Rc<Feed>>, LocalStorage>,
) -> impl IntoView {
    let here = use_here();
    let (live, theme) = (use_live(), use_theme());
    let node = NodeRef::<Div>::new();
    shown.set(Shown::default());
    let own = StoredValue::new_local(Feed::new(from, shown));
    feed.set_value(Some(own.get_value()));
    Effect::new(move |opened: Option<bool>| {
        let (Some(element), Some(feed)) = (node.get(), own.try_get_value()) else { return false };
        let dark = theme.dark();
        if opened == Some(true) {
            feed.set_dark(dark);
            return true;
        }
        let (parsed, moved) = (Rc::downgrade(&feed), Rc::downgrade(&feed));
        let hear = Hear {
            parsed: Box::new(move || {
                if let Some(feed) = parsed.upgrade() {
                    feed.parsed();
                }
            }),
            moved: Box::new(move || {
                if let Some(feed) = moved.upgrade() {
                    feed.moved();
                }
            }),
            link: Box::new(move |target| {
                link.try_set(Some(target).filter(|target| is_web(target)));
            }),
            leave: Box::new(leave_terminal),
        };
        feed.attach(Terminal::open(&element, dark, hear));
        if let Some(at) = place {
            feed.go_to(at);
        }
        if here.session().with_untracked(|session| session.as_ref().is_some_and(Session::ended)) {
            replay::start(here.id(), id.clone(), from, &feed);
            return true;
        }
        let watcher: Rc<dyn Watcher> = Rc::new(FeedWatcher(Rc::clone(&feed)));
        let watch = live.watch(here.id(), id.clone(), &watcher);
        feed.watched(watch, watcher);
        true
    });
    on_cleanup(move || {
        if let Some(feed) = own.try_get_value() {
            feed.close();
        }
    });
    view! {
        <div class="tty" node_ref=node role="region" aria-label="Output; Escape twice leaves it" data-testid="output"></div>
    }
}

fn is_web(target: &str) -> bool {
    target.starts_with("https://") || target.starts_with("http://")
}

/// The focus goes to the row of the shown command.
fn leave_terminal() {
    use wasm_bindgen::JsCast;
    let row = document().query_selector("[data-row][aria-current]").ok().flatten();
    let row = row.and_then(|row| row.dyn_into::<web_sys::HtmlElement>().ok());
    match (row.filter(|row| row.offset_parent().is_some()), document().active_element()) {
        (Some(row), _) => {
            let _ = row.focus();
        }
        (None, Some(element)) => {
            let _ = element.unchecked_into::<web_sys::HtmlElement>().blur();
        }
        _ => {}
    }
}

/// What runs, who started it, since when.
#[component]
fn Head(command: Memo<Option<CommandView>>) -> impl IntoView {
    let clock = use_clock();
    let whole = RwSignal::new(false);
    let text = Memo::new(move |_| {
        command.with(|command| command.as_ref().map(|command| visible::visible(&command.command)).unwrap_or_default())
    });
    let long = Memo::new(move |_| text.with(|text| visible::is_long(text)));
    let look =
        Memo::new(move |_| command.with(|command| command.as_ref().map(|command| look::command(command, clock.now()))));
    let ran = Memo::new(move |_| {
        command.with(|command| command.as_ref().and_then(|command| look::ran(command, clock.now())))
    });
    let facts = move || {
        command.with(|command| {
            command.as_ref().map(|command| {
                let place =
                    command.cwd.as_ref().map(|cwd| format!(" · in {}", visible::visible_line(cwd))).unwrap_or_default();
                let pid = command
                    .pid
                    .filter(|_| !command.state.is_final())
                    .map(|pid| format!(" · pid {pid}"))
                    .unwrap_or_default();
                format!("{}{place}{pid}", plain(command.actor.name()))
            })
        })
    };
    let started =
        Signal::derive(move || command.with(|command| command.as_ref().map_or(0.0, |command| command.created_at)));
    view! {
        <header class="command-head">
            <div class="what">
                <pre class="text" class:whole=attr(move || whole.get()) data-testid="command-text">{text}</pre>
                <Show when=move || long.get()>
                    <button type="button" class="link small" aria-expanded=attr(move || whole.get().to_string()) on:click=move |_| whole.update(|whole| *whole = !*whole)>
                        {part(move || if whole.get() { "Less" } else { "Whole command" })}
                    </button>
                </Show>
                <p class="facts small muted">{part(facts)}" · started "<Ago at=started /></p>
            </div>
            <div class="how">
                {part(move || look.get().map(|look| view! { <State look /> }))}
                <span class="figures ran" title="How long it ran">{ran}</span>
                <Copy text=Signal::derive(move || command.with(|command| command.as_ref().map(|command| command.command.clone()).unwrap_or_default())) what="the command" />
            </div>
        </header>
    }
}

/// `live · 18 KB · no output for 9 s`
#[component]
fn Status(command: Memo<Option<CommandView>>, #[prop(into)] shown: Signal<Shown>) -> impl IntoView {
    let clock = use_clock();
    let written =
        Memo::new(move |_| command.with(|command| command.as_ref().map_or(0, |command| command.output_bytes)));
    let first = Memo::new(move |_| shown.with(|shown| shown.stream.status(written.get())));
    let bytes = Memo::new(move |_| words::bytes(written.get().max(shown.with(|shown| shown.stream.offset()))));
    let silent = Memo::new(move |_| {
        command.with(|command| {
            let command = command.as_ref()?;
            if !command.state.is_final() {
                let silence = look::silence(command, clock.now());
                return (silence >= look::IDLE_WORTH_SAYING_SECONDS)
                    .then(|| format!("no output for {}", words::duration(silence)));
            }
            // The stream tells of the output's end a moment before the command's view does.
            let closed = command.output_closed || shown.with(|shown| matches!(shown.stream.phase, Phase::Ended { .. }));
            (!closed).then(|| "it ended; something it started keeps the output open".to_owned())
        })
    });
    view! {
        <p class="words" data-testid="status">
            <span class="first" class:live=attr(move || first.with(|first| first == "live"))>{first}</span>
            <span class="figures">{bytes}</span>
            {part(move || silent.get().map(|text| view! { <span class="figures">{text}</span> }))}
        </p>
    }
}
