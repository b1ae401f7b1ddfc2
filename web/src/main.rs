//! Starts the page in the browser.

use glassbox_web::page::app::App;
use glassbox_web::page::interop::browser;
use leptos::prelude::*;

fn main() {
    std::panic::set_hook(Box::new(|info| {
        leptos::logging::error!("{info}");
        // Nothing works after a panic, so the page says so in the one way that needs nothing of ours.
        if let Some(body) = document().body() {
            let _ = body.set_attribute("data-broken", "");
        }
    }));
    // Before anything else: the token must not stay in the address.
    let link = browser::take_link();
    if let Some(waiting) = document().get_element_by_id("boot") {
        waiting.remove();
    }
    leptos::mount::mount_to_body(move || view! { <App link /> });
}
