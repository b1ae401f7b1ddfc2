//! Loading what is shown, while events go on.

use std::rc::Rc;

use gloo_timers::callback::Timeout;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::text::last_line;

use super::Inner;
use crate::page::api::{self, Failure};
use crate::page::store::{Loading, Store};
use crate::state::world::World;

/// Events kept while lists are being loaded, to be applied again after them. Beyond it the lists are loaded once more.
const MOST_HELD_EVENTS: usize = 2_000;
/// After a list could not be loaded, with the line up.
const RELOAD_MS: u32 = 2_000;
/// Sessions whose last line is asked for when a list comes.
const MOST_LAST_LINES: usize = 60;
/// Bytes that surely hold a last line worth showing.
const LAST_LINE_BYTES: u64 = 600;
/// Characters of it, as events have them.
const LAST_LINE_CHARACTERS: usize = 200;

impl Inner {
    pub(super) fn load<T: 'static>(
        self: &Rc<Self>,
        call: impl Future<Output = Result<T, Failure>> + 'static,
        take: impl FnOnce(Result<T, Failure>) + 'static,
    ) {
        let inner = Rc::clone(self);
        inner.loads.set(inner.loads.get() + 1);
        spawn_local(async move {
            let answer = call.await;
            if answer.as_ref().is_err_and(Failure::signed_out) {
                (inner.signed_out)();
            }
            take(answer);
            inner.loads.set(inner.loads.get() - 1);
            if inner.loads.get() > 0 {
                return;
            }
            let held = inner.held.take();
            if held.len() > MOST_HELD_EVENTS {
                inner.load_lists();
                return;
            }
            for event in held {
                inner.store.change(|world| world.apply(event));
            }
        });
    }

    /// Loads what is shown: the sessions, and the first page of commands of the opened ones.
    pub(super) fn load_lists(self: &Rc<Self>) {
        let store = self.store;
        let again = Rc::downgrade(self);
        self.load(api::sessions(), move |answer| match answer {
            Ok(list) => {
                store.change(|world| world.load_sessions(list.sessions));
                store.loading.set(Loading::Done);
                spawn_local(load_last_lines(store));
            }
            Err(failure) if failure.signed_out() => {}
            Err(failure) => {
                if store.loading.get_untracked() != Loading::Done {
                    store.loading.set(Loading::Failed(failure.detail));
                }
                Timeout::new(RELOAD_MS, move || {
                    if let Some(inner) = again.upgrade().filter(|inner| inner.greeted.get()) {
                        inner.load_lists();
                    }
                })
                .forget();
            }
        });
        for session in store.peek(World::opened) {
            let (id, lives) = (session.clone(), store.lives(&session));
            self.load(async move { api::commands(&id, None, lives).await }, move |answer| {
                if let Ok(list) = answer {
                    store.change(|world| world.load_commands(&session, list));
                }
            });
        }
    }
}

/// The last line of each session's command: lists come without it, and events bring it only when there is more output.
/// One after the other, and only once a list.
async fn load_last_lines(store: Store) {
    for command in store.peek(World::without_last_line).into_iter().take(MOST_LAST_LINES) {
        let Ok(end) = api::tail(&command, LAST_LINE_BYTES).await else { return };
        let line = last_line(&end, LAST_LINE_CHARACTERS);
        store.change(|world| world.put_last_line(&command, line));
    }
}
