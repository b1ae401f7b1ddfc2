//! A dialog of the browser's own kind: it keeps the focus, closes by Escape, and gives the focus back.

use crate::page::parts::part::effect;
use leptos::ev;
use leptos::html::Dialog;
use leptos::prelude::*;

/// Shown while `open`. Its content is made anew each time.
#[component]
pub fn Modal(
    /// Is it open?
    open: RwSignal<bool>,
    /// Its name for those who do not see it.
    #[prop(into)]
    label: String,
    /// Class of the dialog.
    #[prop(optional)]
    class: &'static str,
    children: ChildrenFn,
) -> impl IntoView {
    let node = NodeRef::<Dialog>::new();
    effect(move || {
        let (Some(dialog), open) = (node.get(), open.get()) else { return };
        if open && !dialog.open() {
            // Fails only when it is open already.
            let _ = dialog.show_modal();
        } else if !open && dialog.open() {
            dialog.close();
        }
    });
    // A click on the dialog itself, not on what is in it, is a click beside it.
    let beside = move |event: ev::MouseEvent| {
        let (Some(dialog), Some(target)) = (node.get(), event.target()) else { return };
        let dialog: &web_sys::EventTarget = dialog.as_ref();
        if *dialog == target {
            open.set(false);
        }
    };
    // The browser tells it late: by then the dialog may be open again.
    let closed = move |_| {
        if node.get().is_some_and(|dialog| !dialog.open()) {
            open.set(false);
        }
    };
    let children = StoredValue::new(children);
    view! {
        <dialog node_ref=node class=class aria-label=label on:close=closed on:mousedown=beside>
            <Show when=move || open.get()>{children.with_value(|children| children())}</Show>
        </dialog>
    }
}
