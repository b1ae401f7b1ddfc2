//! Columns that are drawn wider or narrower, by pointer or arrow keys, and remembered.

use crate::page::parts::part::{attr, effect};
use leptos::ev;
use leptos::html::Div;
use leptos::prelude::*;

use crate::page::interop::browser;

/// Pixels that an arrow key moves.
const STEP: i32 = 16;

/// The handle between two columns.
#[component]
pub fn Handle(
    /// The variable of the style sheet that it sets.
    variable: &'static str,
    /// Its name for those who do not see it.
    label: &'static str,
    /// 1: wider to the right, -1: wider to the left.
    grows: i32,
    /// Width when nothing is remembered.
    first: i32,
    /// Narrowest.
    least: i32,
    /// Widest.
    most: i32,
) -> impl IntoView {
    let remembered = browser::remembered(variable).and_then(|width| width.parse::<i32>().ok());
    let width = RwSignal::new(remembered.unwrap_or(first).clamp(least, most));
    effect(move || browser::set_length(variable, width.get()));
    let set = move |pixels: i32| width.set(pixels.clamp(least, most));
    let keep = move || browser::remember(variable, &width.get_untracked().to_string());
    let node = NodeRef::<Div>::new();
    let drag = RwSignal::new(None::<(i32, i32)>);
    let down = move |event: ev::PointerEvent| {
        event.prevent_default();
        if let Some(handle) = node.get_untracked() {
            // Fails only for a pointer that is gone already.
            let _ = handle.set_pointer_capture(event.pointer_id());
        }
        drag.set(Some((event.client_x(), width.get_untracked())));
    };
    let moved = move |event: ev::PointerEvent| {
        if let Some((start, before)) = drag.get_untracked() {
            set(before + grows * (event.client_x() - start));
        }
    };
    let up = move |_| {
        if drag.get_untracked().is_some() {
            drag.set(None);
            keep();
        }
    };
    let key = move |event: ev::KeyboardEvent| {
        let by = match event.key().as_str() {
            "ArrowLeft" => -STEP,
            "ArrowRight" => STEP,
            _ => return,
        };
        event.prevent_default();
        set(width.get_untracked() + grows * by);
        keep();
    };
    view! {
        <div class="handle" class:dragging=attr(move || drag.get().is_some()) node_ref=node role="separator" tabindex="0" aria-orientation="vertical" aria-label=label
            aria-valuemin=least.to_string() aria-valuemax=most.to_string() aria-valuenow=attr(move || width.get().to_string())
            on:pointerdown=down on:pointermove=moved on:pointerup=up on:pointercancel=up on:keydown=key
            on:dblclick=move |_| { set(first); keep(); }></div>
    }
}
