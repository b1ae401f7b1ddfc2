//! Short messages that go away by themselves. Text only: what they say may come from a sandbox.

use gloo_timers::callback::Timeout;
use leptos::prelude::*;

use super::icons::{Icon, Name};

/// How long one stays.
const SHOWN_MS: u32 = 7_000;
/// Most at a time; older ones go first.
const MOST: usize = 4;

/// The messages.
#[derive(Debug, Clone, Copy)]
pub struct Toasts(RwSignal<Vec<(u32, String)>>);

impl Toasts {
    /// None.
    pub fn new() -> Self {
        Self(RwSignal::new(Vec::new()))
    }

    /// Says something.
    pub fn say(self, text: impl Into<String>) {
        let id = self.0.with_untracked(|all| all.last().map_or(0, |(id, _)| id.wrapping_add(1)));
        self.0.update(|all| {
            all.push((id, text.into()));
            if all.len() > MOST {
                all.remove(0);
            }
        });
        Timeout::new(SHOWN_MS, move || self.close(id)).forget();
    }

    fn close(self, id: u32) {
        self.0.update(|all| all.retain(|(other, _)| *other != id));
    }
}

impl Default for Toasts {
    fn default() -> Self {
        Self::new()
    }
}

/// The page's messages.
pub fn use_toasts() -> Toasts {
    expect_context::<Toasts>()
}

/// Where they appear.
#[component]
pub fn ToastList() -> impl IntoView {
    let toasts = use_toasts();
    view! {
        <div class="toasts" role="status" aria-live="polite" data-testid="toasts">
            <For each=move || toasts.0.get() key=|(id, _)| *id let:toast>
                <div class="toast">
                    <span>{toast.1.clone()}</span>
                    <button type="button" class="quiet icon-only" aria-label="Close this message" on:click=move |_| toasts.close(toast.0)>
                        <Icon name=Name::Close />
                    </button>
                </div>
            </For>
        </div>
    }
}
