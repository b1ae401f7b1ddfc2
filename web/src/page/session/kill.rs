//! Kill: a button, a question in its place, the progress, and what really happened.

use crate::page::parts::part::{effect, part};
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::command::{CommandView, signal_name};
use glassbox_shared::id::CommandId;

use super::here::use_here;
use crate::page::api;
use crate::page::app::use_account;
use crate::page::clock::use_clock;
use crate::page::shortcuts::use_wishes;
use crate::page::store::use_store;
use crate::state::keys::Wish;
use crate::state::kill::{GRACE_SECONDS, KillStep, outcome};
use crate::state::look;
use crate::state::session::may_act;
use crate::state::words;

/// The control, in the line under the output.
#[component]
pub fn Kill(command: Memo<Option<CommandView>>, id: CommandId) -> impl IntoView {
    let here = use_here();
    let (store, clock, account) = (use_store(), use_clock(), use_account());
    let step = RwSignal::from(here.kill_step(&id));
    let runs =
        Memo::new(move |_| command.with(|command| command.as_ref().is_some_and(|command| !command.state.is_final())));
    let may = Memo::new(move |_| account.me().is_some_and(|me| may_act(me.role)));
    // Something alive after a kill: one may try again though the command has ended.
    let done = Memo::new(move |_| command.with(|command| command.as_ref().and_then(outcome)));
    let bad = move || command.with(|command| command.as_ref().is_some_and(look::survived));

    let id = StoredValue::new(id);
    let send = move || {
        if !step.try_update(|step| step.confirm(clock.exact())).unwrap_or(false) {
            return;
        }
        let (session, id) = (here.id(), id.get_value());
        let step = here.kill_step(&id);
        spawn_local(async move {
            match api::kill(&session, &id, GRACE_SECONDS).await {
                Ok(view) => {
                    store.change(|world| world.put_command(view));
                    step.set(KillStep::Ready);
                }
                Err(failure) => step.update(|step| step.refused(failure.code, &failure.detail)),
            }
        });
    };
    use_wishes().hear(Wish::Kill, move || {
        if runs.get_untracked() && may.get_untracked() {
            step.update(KillStep::ask);
        }
    });
    let confirm = NodeRef::<leptos::html::Button>::new();
    let asking = Memo::new(move |_| step.get() == KillStep::Asking && runs.get());
    effect(move || {
        if let (true, Some(button)) = (asking.get(), confirm.get()) {
            let _ = button.focus();
        }
    });
    let question = format!("Kill? {}, then {} after {}", short(15), short(9), words::duration(GRACE_SECONDS));
    view! {
        <div class="kill" role="group" aria-label="Kill" on:keydown=move |event| if event.key() == "Escape" { step.update(KillStep::cancel); }>
            <span class="result" class:bad=bad role="status" data-testid="kill-result">{part(move || done.get().filter(|_| !matches!(step.get(), KillStep::Ending { .. })))}</span>
            {part(move || match step.get() {
                KillStep::Refused { message } => Some(view! { <span class="result bad" role="alert">{message}</span> }.into_any()),
                KillStep::Ending { since } => Some(view! {
                    <span class="ending figures" role="status" data-testid="kill-progress">
                        "ending… "{part(move || words::duration(clock.now().max(since) - since))}
                    </span>
                }.into_any()),
                _ => None,
            })}
            {part(move || match (runs.get() && may.get(), step.get()) {
                (true, KillStep::Ready | KillStep::Refused { .. }) => Some(view! {
                    <button type="button" class="danger" on:click=move |_| step.update(KillStep::ask) title="Kill the command (Shift X)" data-testid="kill">"Kill"</button>
                }.into_any()),
                (true, KillStep::Asking) => Some(view! {
                    <span class="question">{question.clone()}</span>
                    <button type="button" class="danger full" node_ref=confirm on:click=move |_| send() data-testid="kill-confirm">"Kill"</button>
                    <button type="button" on:click=move |_| step.update(KillStep::cancel) data-testid="kill-cancel">"Cancel"</button>
                }.into_any()),
                _ => None,
            })}
        </div>
    }
}

/// `TERM` for 15.
fn short(signal: i32) -> String {
    signal_name(signal).trim_start_matches("SIG").to_owned()
}
