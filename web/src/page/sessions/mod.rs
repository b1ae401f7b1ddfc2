//! The home page: every live session, whoever needs someone first.

mod empty;
mod new_session;
mod row;

use crate::page::parts::part::{attr, effect, part};
use leptos::html::Input;
use leptos::prelude::*;

use super::app::use_account;
use super::clock::use_clock;
use super::parts::icons::{Icon, Name};
use super::route::{Go, use_route};
use super::shortcuts::use_wishes;
use super::store::{Loading, use_store};
use crate::state::keys::Wish;
use crate::state::order;
use crate::state::session::{Group, may_act};
use empty::Empty;
use new_session::NewSession;
use row::Row;

/// `/`
#[component]
pub fn SessionsPage() -> impl IntoView {
    let (store, clock, account) = (use_store(), use_clock(), use_account());
    let group = RwSignal::new(None::<Group>);
    let typed = RwSignal::new(String::new());
    let held = RwSignal::new(false);

    // What was asked for: a change of it overrules the hold.
    let asked = Memo::new(move |_| (group.get(), typed.get()));
    let wanted = Memo::new(move |_| {
        let (group, typed) = asked.get();
        store.list(clock.now(), group, &typed)
    });
    let shown = Memo::new(move |previous: Option<&(_, Vec<_>)>| {
        let asked = asked.get();
        let wanted = wanted.get();
        let list = match previous {
            Some((before, shown)) if *before == asked => order::held(shown, &wanted, held.get()),
            _ => wanted,
        };
        (asked, list)
    });
    let rows = Memo::new(move |_| shown.get().1);
    let moved = Memo::new(move |_| held.get() && rows.get() != wanted.get());
    let counts = Memo::new(move |_| store.counts(clock.now()));
    let total = Memo::new(move |_| counts.get().iter().sum::<usize>());

    let creating = RwSignal::new(false);
    let route = use_route();
    effect(move || {
        if route.query("new").is_some() {
            creating.set(true);
            route.go("/", Go::Instead);
        }
    });
    let may = move || account.me().is_some_and(|me| may_act(me.role));
    let filter = NodeRef::<Input>::new();
    use_wishes().hear(Wish::Filter, move || {
        if let Some(input) = filter.get_untracked() {
            let _ = input.focus();
        }
    });

    let chip = move |which: Option<Group>, name: &'static str, count: Signal<usize>| {
        view! {
            <button type="button" class="chip" aria-pressed=attr(move || (group.get() == which).to_string()) class:chosen=attr(move || group.get() == which)
                class:needs=attr(move || { which == Some(Group::NeedsYou) && count.get() > 0 }) on:click=move |_| group.set(which)>
                {name}<span class="count figures">{count}</span>
            </button>
        }
    };
    let chips = Group::FILTERS
        .into_iter()
        .enumerate()
        .map(|(index, which)| chip(Some(which), which.name(), Signal::derive(move || counts.get()[index])));
    let loading = move || store.loading.get();
    view! {
        <main id="main" class="sessions">
            <div class="tools">
                <h1 class="sr-only">"Sessions"</h1>
                <div class="chips" role="group" aria-label="Show">
                    {chip(None, "All", total.into())}
                    {chips.collect_view()}
                    <a class="button chip" href="/history">{Group::Ended.name()}</a>
                </div>
                <label class="filter">
                    <span class="sr-only">"Filter sessions by name, agent or command"</span>
                    <Icon name=Name::Search />
                    <input node_ref=filter type="search" placeholder="Filter" autocomplete="off" spellcheck="false" data-testid="filter"
                        prop:value=attr(move || typed.get()) on:input=move |event| typed.set(event_target_value(&event))
                        on:keydown=move |event| if event.key() == "Escape" {
                            typed.set(String::new());
                            if let Some(input) = filter.get_untracked() { let _ = input.blur(); }
                        } />
                    <kbd aria-hidden="true">"/"</kbd>
                </label>
                <Show when=may>
                    <button type="button" class="primary" on:click=move |_| creating.set(true) data-testid="new-session">
                        <Icon name=Name::Plus /><span>"New session"</span>
                    </button>
                </Show>
            </div>
            {part(move || match (loading(), total.get(), rows.with(Vec::is_empty)) {
                (Loading::Done, 0, true) => view! { <Empty creating may=Signal::derive(may) /> }.into_any(),
                (Loading::Done, _, true) => view! {
                    <div class="none">
                        <p>"No session matches."</p>
                        <button type="button" on:click=move |_| { typed.set(String::new()); group.set(None); }>"Show all"</button>
                    </div>
                }.into_any(),
                (Loading::Yes, _, true) => view! { <p class="none muted appear-late" aria-busy="true">"Loading the sessions…"</p> }.into_any(),
                (Loading::Failed(why), _, true) => view! {
                    <div class="none"><p role="alert">{why}</p><p class="muted">"Trying again by itself."</p></div>
                }.into_any(),
                _ => ().into_any(),
            })}
            <ul class="rows" aria-label="Sessions"
                on:pointerenter=move |_| held.set(true) on:pointerleave=move |_| held.set(false)
                on:focusin=move |_| held.set(true) on:focusout=move |_| held.set(false)>
                <For each=move || rows.get() key=Clone::clone let:id><Row id /></For>
            </ul>
            <p class="held small muted" aria-hidden="true">{part(move || moved.get().then_some("Order held while you are here"))}</p>
            <NewSession open=creating />
        </main>
    }
}
