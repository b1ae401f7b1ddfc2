//! The bar at the top: where one is, search, the line, who one is.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::text::plain;

use super::icons::{Icon, Name};
use crate::page::app::use_account;
use crate::page::live::use_live;
use crate::page::route::use_route;
use crate::page::shortcuts::use_wishes;
use crate::page::theme::{Choice, use_theme};
use crate::state::address::{self, Page};
use crate::state::connection::Line;
use crate::state::keys::Wish;

/// The bar. `children`: what the page adds to the name.
#[component]
pub fn TopBar() -> impl IntoView {
    let account = use_account();
    let (live, wishes) = (use_live(), use_wishes());
    let route = use_route();
    let here = move || address::page(&route.path()) == Page::History;
    let tenant = move || account.me().map(|me| plain(&me.tenant_id));
    let line = move || match live.line.get() {
        Line::Live => ("line live", "live", "Connected: what is shown is as it is now."),
        Line::Connecting => ("line", "connecting", "Connecting to the server."),
        Line::Lost { .. } => ("line lost", "reconnecting", "The connection is lost; what is shown may be old."),
        Line::SignedOut => ("line lost", "signed out", "Signed out."),
    };
    view! {
        <header class="top-bar">
            <a href="/" class="brand" aria-label="glassbox, all sessions">
                <svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
                    <rect x="1.5" y="1.5" width="17" height="17" rx="4.5" class="pane" />
                    <path d="m5.500 7 3 3-3 3M10.500 13.500h4" class="stroke" />
                </svg>
                <span class="name">"glassbox"</span>
            </a>
            <span class="tenant" title="Tenant">{part(tenant)}</span>
            <button type="button" class="search" on:click=move |_| wishes.make(Wish::Palette) title="Find a session, a command, an action">
                <Icon name=Name::Search />
                <span class="label">"Find"</span>
                <kbd aria-hidden="true">"Ctrl K"</kbd>
            </button>
            <a href="/history" class="button quiet to-history" title="History: search everything, ended sessions (h)" aria-current=attr(move || here().then_some("page")) data-testid="to-history">
                <Icon name=Name::History /><span>"History"</span>
            </a>
            <span class=attr(move || line().0) title=attr(move || line().2) data-testid="line">
                <span class="dot" aria-hidden="true"></span>
                <span class="word">{part(move || line().1)}</span>
            </span>
            <AccountMenu />
        </header>
    }
}

#[component]
fn AccountMenu() -> impl IntoView {
    let account = use_account();
    let (theme, wishes) = (use_theme(), use_wishes());
    let name = move || account.me().map(|me| plain(me.actor.name()));
    let choose = move |choice: Choice| {
        view! {
            <button type="button" role="radio" aria-checked=attr(move || (theme.choice() == choice).to_string())
                class:chosen=attr(move || theme.choice() == choice) on:click=move |_| theme.choose(choice)>
                {choice.word()}
            </button>
        }
    };
    view! {
        <button type="button" class="account quiet" popovertarget="account-menu" data-testid="account">
            <span class="who">{part(name)}</span>
            <Icon name=Name::Caret />
        </button>
        <div id="account-menu" class="menu" popover="auto">
            <div class="head">
                <strong>{part(name)}</strong>
                <span class="small muted">
                    {part(move || account.me().map(|me| format!("{} of {}", me.role.as_str(), plain(&me.tenant_id))))}
                </span>
            </div>
            <div class="themes">
                <span id="theme-label" class="small muted">"Theme"</span>
                <div class="segments" role="radiogroup" aria-labelledby="theme-label" data-testid="theme">{Choice::ALL.map(choose).collect_view()}</div>
            </div>
            <button type="button" class="item" popovertarget="account-menu" popovertargetaction="hide" on:click=move |_| wishes.make(Wish::Help)>
                <Icon name=Name::Keys />"Keys"<kbd>"?"</kbd>
            </button>
            <button type="button" class="item" on:click=move |_| account.sign_out() data-testid="sign-out">"Sign out"</button>
            <p class="small muted version">{part(move || account.me().map(|me| format!("glassbox {}", me.version)))}</p>
        </div>
    }
}
