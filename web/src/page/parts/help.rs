//! The list of keys.

use leptos::prelude::*;

use super::modal::Modal;
use crate::page::shortcuts::use_wishes;
use crate::state::keys::{HELP, Wish};

/// Opened by `?`.
#[component]
pub fn Help() -> impl IntoView {
    let open = RwSignal::new(false);
    use_wishes().hear(Wish::Help, move || open.set(true));
    view! {
        <Modal open label="Keys" class="sheet help">
            <h2>"Keys"</h2>
            <dl class="keys">
                {HELP.iter().map(|(keys, what)| view! {
                    <div>
                        <dt>{keys.split("  ").map(|key| view! { <kbd>{key}</kbd> }).collect_view()}</dt>
                        <dd>{*what}</dd>
                    </div>
                }).collect_view()}
            </dl>
            <p class="small muted">"Letters do nothing while a field or the output has the focus."</p>
            <div class="actions"><button type="button" on:click=move |_| open.set(false)>"Close"</button></div>
        </Modal>
    }
}
