//! Times: relative ones with the exact one on hover, and ticking ones.

use crate::page::parts::part::attr;
use leptos::prelude::*;

use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::state::words;

/// `3m ago`, the exact time on hover.
#[component]
pub fn Ago(#[prop(into)] at: Signal<f64>) -> impl IntoView {
    let clock = use_clock();
    let text = Memo::new(move |_| words::ago(clock.now() - at.get()));
    view! { <time class="figures" title=attr(move || browser::exact_time(at.get()))>{text}</time> }
}
