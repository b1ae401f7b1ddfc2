//! Copies and deletions that are under way, whoever began them; and the way to stop one.

use leptos::html::Button;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::files::JobView;

use super::calls;
use super::hub::use_files;
use crate::page::app::use_account;
use crate::page::clock::use_clock;
use crate::page::parts::part::{attr, effect, part};
use crate::page::parts::toasts::use_toasts;
use crate::state::files::jobs::{may_stop, question, so_far, stopped, what};

/// The list of them, while there are some. As with killing a command, the button becomes a question.
#[component]
pub fn JobList() -> impl IntoView {
    let (files, account, clock, toasts) = (use_files(), use_account(), use_clock(), use_toasts());
    // As one text: each type of a signal is paid for in the download. Rows are made anew only when it changes.
    let ids = Memo::new(move |_| {
        files.jobs.with(|jobs| jobs.iter().map(|job| job.job_id.as_str()).collect::<Vec<_>>().join(" "))
    });
    let why_not = Memo::new(move |_| {
        let some = !ids.get().is_empty();
        account.me().filter(|_| some).and_then(|me| may_stop(me.role).err())
    });
    // By their ids, so that neither is lost when another one comes or ends. One is stopped at a time.
    let (asked, stopping) = (RwSignal::new(None::<String>), RwSignal::new(None::<String>));
    let stop = move |id: String| {
        asked.set(None);
        stopping.set(Some(id.clone()));
        let session = files.session();
        spawn_local(async move {
            match calls::stop_job(&session, &id).await {
                Ok(job) => {
                    toasts.say(stopped(&job));
                    files.jobs.try_update(|jobs| jobs.retain(|job| job.job_id != id));
                }
                // The next look shows whether it is still there.
                Err(failure) => toasts.say(format!("Not stopped: {}", failure.detail)),
            }
            stopping.try_set(None);
        });
    };
    let confirm = NodeRef::<Button>::new();
    effect(move || {
        if let Some(button) = confirm.get() {
            let _ = button.focus();
        }
    });
    let row = move |(at, id): (usize, String)| {
        let read = move |what: fn(&JobView, f64) -> String| {
            part(move || files.jobs.with(|jobs| jobs.get(at).map(|job| what(job, clock.now()))))
        };
        let acts = move || {
            let is = |which: RwSignal<Option<String>>| which.with(|which| which.as_ref() == Some(&id));
            if why_not.with(Option::is_some) {
                return ().into_any();
            }
            if is(stopping) {
                return view! { <span class="ending" role="status">"stopping…"</span> }.into_any();
            }
            let own = id.clone();
            if !is(asked) {
                return view! {
                    <button type="button" class="danger" disabled=attr(move || stopping.with(Option::is_some)) on:click=move |_| asked.set(Some(own.clone())) data-testid="job-stop">"Stop"</button>
                }
                .into_any();
            }
            view! {
                <span class="question">{read(|job, _| question(job.kind).to_owned())}</span>
                <span class="pair">
                    <button type="button" class="danger full" node_ref=confirm on:click=move |_| stop(own.clone()) data-testid="job-stop-confirm">"Stop"</button>
                    <button type="button" on:click=move |_| asked.set(None) data-testid="job-stop-cancel">"Let it run"</button>
                </span>
            }
            .into_any()
        };
        view! {
            <li data-testid="file-job">
                <p class="what"><bdi>{read(|job, _| what(job))}</bdi></p>
                <p class="small muted figures">{read(so_far)}</p>
                <div class="stop" role="group" aria-label="Stop it">{part(acts)}</div>
            </li>
        }
    };
    let rows = move || {
        let ids = ids.get();
        ids.split_whitespace().map(str::to_owned).enumerate().map(row).collect_view()
    };
    view! {
        <ul class="jobs" aria-label="Copies and deletions under way" on:keydown=move |event| if event.key() == "Escape" { asked.set(None); }>{part(rows)}</ul>
        {part(move || why_not.get().map(|why| view! { <p class="files-note small muted" data-testid="jobs-note">{why}</p> }))}
    }
}
