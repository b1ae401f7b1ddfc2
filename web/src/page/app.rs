//! Who is signed in, and which page is shown.

use crate::page::parts::part::part;
use leptos::ev;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::api::{self, Me};
use super::clock::Clock;
use super::files::{has_drafts, is_written_by};
use super::history::HistoryPage;
use super::interop::browser;
use super::live::Live;
use super::parts::connection_bar::ConnectionBar;
use super::parts::help::Help;
use super::parts::palette::Palette;
use super::parts::toasts::{ToastList, Toasts};
use super::parts::top_bar::TopBar;
use super::route::{Go, Route, use_route};
use super::session::SessionPage;
use super::sessions::SessionsPage;
use super::shortcuts::{Wishes, use_wishes};
use super::sign_in::SignIn;
use super::store::Store;
use super::tab::{self, Announcer, Hidden, Title};
use super::theme::Theme;
use crate::state::address::{self, Page};
use crate::state::keys::Wish;
use crate::state::session::{Doing, Session, may_do};

/// What is known of who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// Asking.
    NotYet,
    /// Nobody; the reason where there is one to tell.
    Nobody(Option<String>),
    /// This one.
    Someone(Me),
    /// The server cannot be asked.
    Unreachable(String),
}

/// The account of this browser.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    known: RwSignal<Known>,
    live: StoredValue<Option<Live>>,
    toasts: Toasts,
}

impl Account {
    /// Who is signed in.
    pub fn me(self) -> Option<Me> {
        match self.known.get() {
            Known::Someone(me) => Some(me),
            _ => None,
        }
    }

    /// May they do this in a session now, and if not, why? `None`: it is not known yet who they are.
    pub fn may_do(self, doing: Doing, session: &Session) -> Option<Result<(), String>> {
        let me = self.me()?;
        Some(may_do(doing, me.role, &me.actor, &session.view))
    }

    fn ask(self) {
        self.known.set(Known::NotYet);
        spawn_local(async move {
            match api::me().await {
                Ok(me) => self.signed_in(me),
                Err(failure) if failure.signed_out() => self.known.set(Known::Nobody(None)),
                Err(failure) => self.known.set(Known::Unreachable(failure.detail)),
            }
        });
    }

    /// From now on this one.
    pub fn signed_in(self, me: Me) {
        is_written_by(me.actor.name());
        self.known.set(Known::Someone(me));
        if let Some(live) = self.live.get_value() {
            live.start();
        }
    }

    /// The server does not know us any more.
    fn dropped(self) {
        if matches!(self.known.get_untracked(), Known::Someone(_)) {
            self.leave(Some("Your sign-in has ended. Sign in again to go on where you were.".to_owned()));
        }
    }

    fn leave(self, reason: Option<String>) {
        if let Some(live) = self.live.get_value() {
            live.stop();
        }
        self.known.set(Known::Nobody(reason));
    }

    /// Signs out here and at the server.
    pub fn sign_out(self) {
        spawn_local(async move {
            match api::sign_out().await {
                Err(failure) if !failure.signed_out() => self.toasts.say(format!("Not signed out: {}", failure.detail)),
                _ => {
                    is_written_by("");
                    self.leave(None);
                }
            }
        });
    }
}

/// The account of this browser.
pub fn use_account() -> Account {
    expect_context::<Account>()
}

/// The page. `link`: the token that was in the address.
#[component]
pub fn App(link: Option<String>) -> impl IntoView {
    let clock = Clock::start();
    let store = Store::new();
    let toasts = Toasts::new();
    let account = Account { known: RwSignal::new(Known::NotYet), live: StoredValue::new(None), toasts };
    let live = Live::new(store, clock, move || account.dropped());
    account.live.set_value(Some(live));
    provide_context(clock);
    provide_context(store);
    provide_context(account);
    provide_context(live);
    provide_context(toasts);
    provide_context(Route::start());
    provide_context(Theme::start());
    provide_context(Wishes::start());
    provide_context(Hidden::start());
    provide_context(Title(RwSignal::new(String::new())));
    tab::follow();
    // The browser asks before a tab goes with what was not saved.
    let asks = window_event_listener(ev::beforeunload, |event| {
        if has_drafts() {
            event.prevent_default();
        }
    });
    on_cleanup(move || asks.remove());

    let link = RwSignal::new(link);
    if link.with_untracked(Option::is_none) {
        account.ask();
    } else {
        account.known.set(Known::Nobody(None));
    }
    // Changes of who we are must not rebuild the page while it is the same person.
    let stage = Memo::new(move |_| match account.known.get() {
        Known::NotYet => 0,
        Known::Nobody(_) => 1,
        Known::Someone(_) => 2,
        Known::Unreachable(_) => 3,
    });
    let reason = move || match account.known.get() {
        Known::Nobody(reason) => reason,
        Known::Unreachable(reason) => Some(reason),
        _ => None,
    };
    view! {
        {part(move || match stage.get() {
            0 => view! { <main class="centre" aria-busy="true"><p class="muted appear-late">"Opening…"</p></main> }.into_any(),
            1 => view! { <SignIn link reason=Signal::derive(reason) /> }.into_any(),
            2 => view! { <Inside /> }.into_any(),
            _ => view! {
                <main class="centre">
                    <div class="card narrow">
                        <h1>"No answer"</h1>
                        <p>{part(reason)}</p>
                        <p class="muted">{format!("Is glassbox running at {}?", browser::origin())}</p>
                        <div class="actions"><button type="button" class="primary" on:click=move |_| account.ask()>"Try again"</button></div>
                    </div>
                </main>
            }
            .into_any(),
        })}
    }
}

#[component]
fn Inside() -> impl IntoView {
    let route = use_route();
    let page = Memo::new(move |_| address::page(&route.path()));
    use_wishes().hear(Wish::History, move || route.go("/history", Go::There));
    view! {
        <a class="skip" href="#main">"Skip to the content"</a>
        <TopBar />
        <ConnectionBar />
        {part(move || match page.get() {
            Page::Sessions => view! { <SessionsPage /> }.into_any(),
            Page::Session => view! { <SessionPage /> }.into_any(),
            Page::History => view! { <HistoryPage /> }.into_any(),
            Page::Nowhere => view! { <NotFound /> }.into_any(),
        })}
        <ToastList />
        <Announcer />
        <Help />
        <Palette />
    }
}

/// Nothing is here.
#[component]
pub fn NotFound() -> impl IntoView {
    view! {
        <main id="main" class="centre">
            <div class="card narrow">
                <h1>"Nothing here"</h1>
                <p class="muted">"This address leads nowhere."</p>
                <div class="actions"><a class="button primary" href="/">"All sessions"</a></div>
            </div>
        </main>
    }
}
