//! The address bar: where one is, going elsewhere, links that do not load the page again.
//!
//! Instead of a router crate: two pages need none, and it was a twentieth of the download.

use gloo_events::{EventListener, EventListenerOptions};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{HtmlAnchorElement, MouseEvent, UrlSearchParams};

use crate::state::address;

/// The query of an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query(String);

impl Query {
    /// The value of a name, decoded.
    pub fn get(&self, name: &str) -> Option<String> {
        UrlSearchParams::new_with_str(&self.0).ok()?.get(name)
    }
}

/// How to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Back leads to where one was.
    There,
    /// In place of where one was.
    Instead,
}

/// Where the page is.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    path: RwSignal<String>,
    query: RwSignal<Query>,
}

impl Route {
    /// As the address bar says; follows it for the life of the page.
    pub fn start() -> Self {
        let route = Self { path: RwSignal::new(String::new()), query: RwSignal::new(Query::default()) };
        route.read();
        EventListener::new(&window(), "popstate", move |_| route.read()).forget();
        let options = EventListenerOptions::enable_prevent_default();
        EventListener::new_with_options(&document(), "click", options, move |event| {
            if let Some(to) = inside_link(event.unchecked_ref()) {
                event.prevent_default();
                route.go(&to, Go::There);
            }
        })
        .forget();
        route
    }

    /// The path.
    pub fn path(self) -> String {
        self.path.get()
    }

    /// The query.
    pub fn query(self, name: &str) -> Option<String> {
        self.query.with(|query| query.get(name))
    }

    fn read(self) {
        let location = window().location();
        let path = location.pathname().unwrap_or_default();
        let query = Query(location.search().unwrap_or_default());
        if let Some(to) = address::redirect(&path, query.get("at").as_deref()) {
            self.go(&to, Go::Instead);
            return;
        }
        // Only what changed is told: the page of a session stays while another command is chosen.
        let query_changed = self.query.with_untracked(|before| *before != query);
        if self.path.with_untracked(|before| *before != path) {
            self.query.set(query);
            self.path.set(path);
        } else if query_changed {
            self.query.set(query);
        }
    }

    /// To an address of this page.
    pub fn go(self, to: &str, how: Go) {
        let Ok(history) = window().history() else { return };
        // Fails only for addresses of another origin, which ours are not.
        let _ = match how {
            Go::There => history.push_state_with_url(&JsValue::NULL, "", Some(to)),
            Go::Instead => history.replace_state_with_url(&JsValue::NULL, "", Some(to)),
        };
        self.read();
    }
}

/// Where a click on a link of this page leads; `None`: the browser's business.
fn inside_link(event: &MouseEvent) -> Option<String> {
    if event.default_prevented()
        || event.button() != 0
        || event.meta_key()
        || event.ctrl_key()
        || event.shift_key()
        || event.alt_key()
    {
        return None;
    }
    let target: web_sys::Element = event.target()?.dyn_into().ok()?;
    let link: HtmlAnchorElement = target.closest("a[href]").ok()??.unchecked_into();
    let own = link
        .get_attribute("href")
        .is_some_and(|href| href.starts_with('/') && !href.starts_with("/v1/") && !href.starts_with("//"));
    let plain = own && link.target().is_empty() && !link.has_attribute("download");
    plain.then(|| format!("{}{}", link.pathname(), link.search()))
}

/// The page's place.
pub fn use_route() -> Route {
    expect_context::<Route>()
}
