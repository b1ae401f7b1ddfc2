//! Lists that come in pages: what is here, how far it is, and the way to more.

use std::pin::Pin;

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::page::api::Failure;

/// How far a list is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// A page was asked for.
    Loading,
    /// There is more.
    More,
    /// That was all.
    All,
    /// A page did not come; why.
    Failed(String),
}

/// A page, and where to go on.
pub type Page<T> = Result<(Vec<T>, Option<String>), Failure>;
type Ask<T> = Box<dyn Fn(Option<String>) -> Pin<Box<dyn Future<Output = Page<T>>>>>;

/// The list.
pub struct Paged<T: 'static> {
    /// What has come.
    pub items: RwSignal<Vec<T>>,
    /// How far it is.
    pub stage: RwSignal<Stage>,
    next: StoredValue<Option<String>>,
    /// The page that was asked for last: where it begins, in the server's words and in ours.
    last: StoredValue<(Option<String>, usize)>,
    stale: StoredValue<bool>,
    ask: StoredValue<Ask<T>, LocalStorage>,
}

impl<T> std::fmt::Debug for Paged<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Paged")
    }
}

impl<T> Clone for Paged<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Paged<T> {}

impl<T: Send + Sync> Paged<T> {
    /// Asks for the first page; `ask` gets where to go on.
    pub fn new<F: Future<Output = Page<T>> + 'static>(ask: impl Fn(Option<String>) -> F + 'static) -> Self {
        let paged = Self {
            items: RwSignal::new(Vec::new()),
            stage: RwSignal::new(Stage::Loading),
            next: StoredValue::new(None),
            last: StoredValue::new((None, 0)),
            stale: StoredValue::new(false),
            ask: StoredValue::new_local(Box::new(move |from| Box::pin(ask(from)))),
        };
        paged.load(None, 0);
        paged
    }

    /// Asks for the next page, or once more for the one that did not come.
    pub fn more(self) {
        match self.stage.get_untracked() {
            Stage::Loading => {}
            Stage::Failed(_) => self.repeat(),
            Stage::More | Stage::All => self.load(self.next.get_value(), self.items.with_untracked(Vec::len)),
        }
    }

    /// The end may be longer now, or different: asks for the last page again. Where there is more anyway, nothing is lost.
    pub fn again(self) {
        match self.stage.get_untracked() {
            Stage::Loading => self.stale.set_value(true),
            Stage::All | Stage::Failed(_) => self.repeat(),
            Stage::More => {}
        }
    }

    fn repeat(self) {
        let (from, start) = self.last.get_value();
        self.load(from, start);
    }

    fn load(self, from: Option<String>, start: usize) {
        self.stage.set(Stage::Loading);
        self.stale.set_value(false);
        self.last.set_value((from.clone(), start));
        let Some(answer) = self.ask.try_with_value(|ask| ask(from)) else { return };
        spawn_local(async move {
            let answer = answer.await;
            // Whoever showed the list may be gone.
            if self.items.is_disposed() {
                return;
            }
            match answer {
                Ok((items, next)) => {
                    self.items.update(|all| {
                        all.truncate(start);
                        all.extend(items);
                    });
                    self.stage.set(if next.is_some() { Stage::More } else { Stage::All });
                    self.next.set_value(next);
                    if self.stale.get_value() {
                        self.again();
                    }
                }
                Err(failure) => self.stage.set(Stage::Failed(failure.detail)),
            }
        });
    }

    /// What stands under the list: that it comes, that there is more, or why there is not. `word` is on the button.
    pub fn rest(self, word: &'static str) -> AnyView {
        let (items, stage) = (self.items, self.stage);
        let kind = Memo::new(move |_| match (stage.get(), items.with(Vec::is_empty)) {
            (Stage::Loading, true) => 0,
            (Stage::Loading | Stage::More, _) => 1,
            (Stage::Failed(_), _) => 2,
            (Stage::All, _) => 3,
        });
        foot(kind, stage, word, Box::new(move || self.more()))
    }
}

/// The same for lists of everything.
fn foot(kind: Memo<u8>, stage: RwSignal<Stage>, word: &'static str, more: Box<dyn Fn() + Send + Sync>) -> AnyView {
    let more = StoredValue::new(more);
    let more = move |_| more.with_value(|more| more());
    let loading = move || stage.with(|stage| *stage == Stage::Loading);
    let why = move || match stage.get() {
        Stage::Failed(why) => why,
        _ => String::new(),
    };
    part(move || match kind.get() {
        0 => view! { <div class="skeleton" role="status" aria-busy="true" aria-label="Loading"><i></i><i></i><i></i></div> }.into_any(),
        // Not disabled while it loads: the focus stays where it is.
        1 => view! {
            <button type="button" class="older" aria-disabled=attr(move || loading().to_string()) on:click=more>
                {part(move || if loading() { "Loading…" } else { word })}
            </button>
        }
        .into_any(),
        2 => view! {
            <div class="not-loaded">
                <p class="problem" role="alert">{part(why)}</p>
                <button type="button" on:click=more>"Try again"</button>
            </div>
        }
        .into_any(),
        _ => ().into_any(),
    })
    .into_any()
}
