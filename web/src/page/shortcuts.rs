//! Keys of the whole page; pages and parts hear the wishes that concern them.

use crate::page::parts::part::effect;
use gloo_events::{EventListener, EventListenerOptions};
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, KeyboardEvent};

use super::interop::browser;
use crate::state::keys::{Press, Wish, wish};

/// The latest wish; the number makes the same wish twice two wishes.
#[derive(Debug, Clone, Copy)]
pub struct Wishes(RwSignal<Option<(Wish, u32)>>);

impl Wishes {
    /// Listens for the life of the page.
    pub fn start() -> Self {
        let wishes = Self(RwSignal::new(None));
        let options = EventListenerOptions::enable_prevent_default();
        EventListener::new_with_options(&window(), "keydown", options, move |event| {
            let event: &KeyboardEvent = event.unchecked_ref();
            if event.default_prevented() || event.is_composing() {
                return;
            }
            let press = Press {
                key: &event.key(),
                command: event.ctrl_key() || event.meta_key(),
                shift: event.shift_key(),
                alt: event.alt_key(),
                typing: browser::is_typing(),
            };
            match wish(press) {
                None => {}
                Some(Wish::Down) => move_rows(1),
                Some(Wish::Up) => move_rows(-1),
                // A focused link or button opens by itself.
                Some(Wish::Open) => return,
                Some(wish) => wishes.make(wish),
            }
            if wish(press).is_some() {
                event.prevent_default();
            }
        })
        .forget();
        wishes
    }

    /// As if the key had been pressed.
    pub fn make(self, wish: Wish) {
        self.0.update(|latest| *latest = Some((wish, latest.map_or(0, |(_, number)| number.wrapping_add(1)))));
    }

    /// Hears one kind of wish for as long as the caller lives; those from before are not heard.
    pub fn hear(self, kind: Wish, act: impl Fn() + 'static) {
        let signal = self.0;
        let mut seen = signal.get_untracked();
        effect(move || {
            let latest = signal.get();
            if latest != seen && latest.is_some_and(|(wish, _)| wish == kind) {
                untrack(&act);
            }
            seen = latest;
        });
    }
}

/// The page's wishes.
pub fn use_wishes() -> Wishes {
    expect_context::<Wishes>()
}

/// Moves the focus over the rows (`data-row`) of the page.
fn move_rows(by: isize) {
    let Ok(rows) = document().query_selector_all("[data-row]") else { return };
    let rows: Vec<HtmlElement> =
        (0..rows.length()).filter_map(|index| rows.get(index)).map(JsCast::unchecked_into).collect();
    let rows: Vec<HtmlElement> = rows.into_iter().filter(|row| row.offset_parent().is_some()).collect();
    let Some(last) = rows.len().checked_sub(1) else { return };
    let focused = document().active_element();
    let at = rows.iter().position(|row| focused.as_ref() == Some(row.as_ref()));
    let next = match at {
        Some(at) => at.saturating_add_signed(by).min(last),
        None if by > 0 => rows.iter().position(|row| row.has_attribute("aria-current")).unwrap_or(0),
        None => last,
    };
    // Fails only for elements that cannot take the focus.
    let _ = rows[next].focus();
}
