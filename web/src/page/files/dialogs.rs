//! Making folders, renaming, deleting: each says what it will do, and what really happened.

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::Input;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::files::{FileEntry, JobLine};

use super::calls::{self, Cancel};
use super::hub::{Dialog, use_files};
use crate::page::parts::modal::Modal;
use crate::page::parts::toasts::use_toasts;
use crate::state::files::{child, name_problem, parent, shown};
use crate::state::words;

/// Whichever is open.
#[component]
pub fn Dialogs() -> impl IntoView {
    let files = use_files();
    let open = RwSignal::new(false);
    effect(move || {
        if files.dialog.with(Option::is_some) {
            open.set(true);
        }
    });
    effect(move || {
        if !open.get() && files.dialog.with_untracked(Option::is_some) {
            files.dialog.set(None);
        }
    });
    view! {
        <Modal open label="Files" class="sheet form">
            {part(move || match files.dialog.get_untracked() {
                Some(Dialog::NewFolder(folder)) => view! { <Naming folder from=None open /> }.into_any(),
                Some(Dialog::Rename(entry)) => {
                    let folder = parent(&entry.path).unwrap_or_default().to_owned();
                    view! { <Naming folder from=Some(entry) open /> }.into_any()
                }
                Some(Dialog::Delete(entry)) => view! { <Deleting entry open /> }.into_any(),
                None => ().into_any(),
            })}
        </Modal>
    }
}

/// A name for a new folder, or another one for what is there.
#[component]
fn Naming(folder: String, from: Option<FileEntry>, open: RwSignal<bool>) -> impl IntoView {
    let files = use_files();
    let title = if from.is_some() { "Rename" } else { "New folder" };
    let before = from.as_ref().map(|entry| entry.name.clone()).unwrap_or_default();
    let name = RwSignal::new(before.clone());
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    let place = shown(&folder);
    let submit = move |event: ev::SubmitEvent| {
        event.prevent_default();
        let name = name.get_untracked();
        problem.set(name_problem(&name).map(str::to_owned));
        if busy.get_untracked() || problem.with_untracked(Option::is_some) {
            return;
        }
        busy.set(true);
        let (session, folder, from) = (files.session(), folder.clone(), from.clone());
        spawn_local(async move {
            let path = child(&folder, &name);
            let answer = match &from {
                Some(entry) => files.act(&path, calls::rename(&session, entry.path.clone(), path.clone())).await,
                None => files.act(&path, calls::make_folder(&session, path.clone())).await,
            };
            match answer {
                Ok(_) => {
                    open.try_set(false);
                    if let Some(entry) = from {
                        files.renamed(&entry.path, &path);
                    }
                }
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                    busy.try_set(false);
                }
            }
        });
    };
    let field = NodeRef::<Input>::new();
    effect(move || {
        if let Some(field) = field.get() {
            let _ = field.focus();
            field.select();
        }
    });
    view! {
        <form on:submit=submit>
            <h2>{title}</h2>
            {(!before.is_empty()).then(|| view! { <p class="break"><bdi>{before.clone()}</bdi></p> })}
            <label>
                <span>"Name"</span>
                <input node_ref=field type="text" autocomplete="off" spellcheck="false" data-testid="file-name"
                    prop:value=attr(move || name.get()) on:input=move |event| name.set(event_target_value(&event)) />
            </label>
            <p class="small muted break">"In "<bdi>{if place.is_empty() { "the workspace".to_owned() } else { place }}</bdi></p>
            <p class="problem" role="alert">{part(move || problem.get())}</p>
            <div class="actions">
                <button type="button" on:click=move |_| open.set(false)>"Cancel"</button>
                <button type="submit" class="primary" disabled=attr(move || busy.get()) data-testid="file-name-submit">{title}</button>
            </div>
        </form>
    }
}

#[component]
fn Deleting(entry: FileEntry, open: RwSignal<bool>) -> impl IntoView {
    let files = use_files();
    let toasts = use_toasts();
    let folder = entry.kind == glassbox_shared::files::FileType::Folder;
    let inside = RwSignal::new(None::<String>);
    let progress = RwSignal::new(None::<u64>);
    let problem = RwSignal::new(None::<String>);
    let cancel = StoredValue::new_local(Cancel::new());
    if folder {
        let (session, path) = (files.session(), entry.path.clone());
        spawn_local(async move {
            let question = calls::Question {
                path,
                sort: glassbox_shared::files::SortBy::Type,
                order: glassbox_shared::files::SortOrder::Asc,
                filter: String::new(),
                cursor: None,
                limit: 3,
            };
            if let Ok(page) = calls::list(&session, &question).await {
                let names: Vec<String> = page.entries.iter().map(|entry| entry.name.clone()).collect();
                let more = if page.total > names.len() as u64 { ", …" } else { "" };
                let text = match page.total {
                    0 => "It is empty.".to_owned(),
                    total => format!(
                        "{} in it, and all in these: {}{more}",
                        words::count(total, "entry", "entries"),
                        names.join(", ")
                    ),
                };
                inside.try_set(Some(text));
            }
        });
    }
    let doomed = entry.clone();
    let delete = move |_| {
        progress.set(Some(0));
        problem.set(None);
        let Some(signal) = cancel.with_value(|cancel| cancel.as_ref().map(Cancel::signal)) else { return };
        let (session, entry) = (files.session(), doomed.clone());
        spawn_local(async move {
            let mut done = None;
            let mut failed = None;
            let answer = calls::delete(&session, &entry.path, &signal, |line| match line {
                JobLine::Progress(at) => {
                    progress.try_set(Some(at.done));
                }
                JobLine::Done(all) => done = Some(all.done),
                JobLine::Error(error) => failed = Some(error.detail),
            })
            .await;
            let cut = "It broke off, or was cancelled; what was deleted so far is gone.".to_owned();
            match (answer, failed, done) {
                (Ok(()), None, Some(count)) => {
                    toasts.say(format!("{} deleted ({}).", entry.name, words::count(count, "entry", "entries")));
                    open.try_set(false);
                    files.gone(&entry.path);
                }
                (Err(failure), _, _) if failure.status != 0 => {
                    problem.try_set(Some(failure.detail));
                }
                (_, Some(why), _) => {
                    problem.try_set(Some(why));
                }
                _ => {
                    problem.try_set(Some(cut));
                }
            }
            progress.try_set(None);
            if let Some(folder) = parent(&entry.path) {
                files.reload(folder.to_owned()).await;
            }
        });
    };
    on_cleanup(move || {
        cancel.try_with_value(|cancel| cancel.as_ref().map(Cancel::now));
    });
    let busy = move || progress.get().is_some();
    view! {
        <h2 class="break">"Delete "<bdi>{entry.name.clone()}</bdi>"?"</h2>
        <p class="break">{if folder { "The folder " } else { "" }}<bdi class="mono">{shown(&entry.path)}</bdi>{if folder { " and everything in it.".to_owned() } else { format!(", {}.", words::bytes(entry.size)) }}</p>
        {part(move || inside.get().map(|text| view! { <p class="break muted"><bdi>{text}</bdi></p> }))}
        <p class="small muted">"There is no way back."</p>
        <p class="figures" role="status">{part(move || progress.get().map(|done| format!("Deleting… {} gone so far", words::count(done, "entry", "entries"))))}</p>
        <p class="problem" role="alert">{part(move || problem.get())}</p>
        <div class="actions">
            <button type="button" on:click=move |_| open.set(false) data-testid="file-delete-cancel">"Cancel"</button>
            <button type="button" class="danger full" disabled=busy on:click=delete data-testid="file-delete-confirm">
                {part(move || if busy() { "Deleting…" } else { "Delete" })}
            </button>
        </div>
    }
}
