//! The files of a session: a tree with columns beside the output, and one file in place of it.
//!
//! - [`hub`]: what the parts share, and the task that follows changes; [`calls`]: the REST calls
//! - [`table`]: the rows; [`dialogs`]: new folder, rename, delete; [`uploads`]; [`jobs`]: what others copy and delete
//! - [`view`]: a file: text, picture, numbers; editing; what changed
//!
//! Names and contents are hostile. Both are only ever text nodes (names isolated against text that runs the other way), and
//! pictures are drawn from bytes whose kind the page knows.

mod calls;
mod dialogs;
mod hub;
mod jobs;
mod table;
mod uploads;
mod view;

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::{Div, Input};
use leptos::prelude::*;

use glassbox_shared::files::FileEntry;

use super::parts::icons::{Icon, Name};
use crate::state::files::{crumbs, is_folder, shown};
use crate::state::words;
pub use dialogs::Dialogs as FileDialogs;
use hub::Dialog;
pub use hub::{Files, has_drafts, is_written_by, use_files};
use jobs::JobList;
use table::Table;
use uploads::{UploadList, Uploads, files_of};
pub use view::FilePane;

/// Left to the address bar while the name of the top has none.
const TOP: &str = "/";

/// The browser, in the right column.
#[component]
pub fn FilePanel() -> impl IntoView {
    let files = use_files();
    let uploads = Uploads::new(files);
    let may = Memo::new(move |_| files.may_write());
    let why_not = move || files.may.get().and_then(Result::err);
    let over = RwSignal::new(false);
    let root = Memo::new(move |_| files.tree.with(|tree| tree.root().to_owned()));
    let node = NodeRef::<Div>::new();
    // Hidden by the style sheet on a narrow screen or behind another tab: then nothing is asked for.
    let look = move || {
        if let Some(element) = node.get_untracked() {
            let visible = element.offset_parent().is_some();
            files.visible.set(visible);
        }
    };
    effect(move || {
        node.get();
        look();
    });
    on_cleanup(move || {
        files.visible.try_set(false);
    });
    let watch = gloo_timers::callback::Interval::new(1_000, look);
    let watch = StoredValue::new_local(Some(watch));
    on_cleanup(move || {
        watch.try_update_value(Option::take);
    });

    let entry = Memo::new(move |_| files.tree.with(|tree| tree.row(files.chosen.get()).and_then(|row| row.entry)));
    let act = move |make: fn(FileEntry) -> Dialog| {
        if let Some(entry) = entry.get_untracked() {
            files.dialog.set(Some(make(entry)));
        }
    };
    let drop = move |event: ev::DragEvent| {
        event.prevent_default();
        over.set(false);
        if may.get_untracked() {
            uploads.take(&root.get_untracked(), files_of(&event));
        }
    };
    let field = NodeRef::<Input>::new();
    let picked = move |event: ev::Event| {
        uploads.take(&root.get_untracked(), files_of(&event));
        if let Some(field) = field.get_untracked() {
            field.set_value("");
        }
    };
    let total = move || {
        files.tree.with(|tree| tree.folder(tree.root()).map(|folder| words::count(folder.total, "entry", "entries")))
    };
    let path = move |(at, (path, name)): (usize, (String, String))| {
        let name = match (name.as_str(), path.as_str()) {
            ("", "") => "workspace".to_owned(),
            ("", _) => TOP.to_owned(),
            _ => name,
        };
        view! {
            {(at > 0).then_some("›")}
            <button type="button" class="link" on:click=move |_| { files.change(|tree| tree.go(&path)); files.chosen.set(0); }><bdi>{name}</bdi></button>
        }
    };
    view! {
        <div class="files" class:over=attr(move || over.get()) node_ref=node data-testid="files"
            on:dragover=move |event: ev::DragEvent| { event.prevent_default(); over.set(may.get_untracked()); }
            on:dragleave=move |_| over.set(false) on:drop=drop>
            <nav class="crumbs small" aria-label="Folder">{part(move || crumbs(&root.get()).into_iter().enumerate().map(path).collect_view())}<span class="muted figures">{part(total)}</span></nav>
            <div class="file-tools">
                <input type="search" class="small" placeholder="Filter" aria-label="Filter this folder by name" autocomplete="off" spellcheck="false" data-testid="file-filter"
                    prop:value=attr(move || files.tree.with(|tree| tree.filter.clone()))
                    on:input=move |event| { let text = event_target_value(&event); files.change(|tree| tree.filter_by(&text)); } />
                <Show when=move || may.get()>
                    <button type="button" class="quiet icon-only" title="New folder" aria-label="New folder" data-testid="new-folder" on:click=move |_| files.dialog.set(Some(Dialog::NewFolder(root.get_untracked())))><Icon name=Name::FolderPlus /></button>
                    <button type="button" class="quiet icon-only" title="Upload (or drop files here)" aria-label="Upload" data-testid="upload-button" on:click=move |_| if let Some(field) = field.get_untracked() { field.click() }><Icon name=Name::Upload /></button>
                    <input node_ref=field type="file" multiple hidden data-testid="upload-field" on:change=picked />
                </Show>
            </div>
            <Table />
            <UploadList uploads />
            <JobList />
            {part(move || entry.get().map(|entry| {
                let folder = is_folder(&entry);
                let href = calls::address(&files.session(), &entry.path, folder);
                view! {
                    <div class="file-acts" role="group" aria-label="With the chosen entry">
                        <bdi class="name small" title=shown(&entry.path)>{entry.name.clone()}</bdi>
                        <a class="button quiet icon-only" href=href download="" title=if folder { "Download as .tar.gz" } else { "Download" } aria-label="Download" data-testid="file-download"><Icon name=Name::Download /></a>
                        <Show when=move || may.get()>
                            <button type="button" class="quiet icon-only" title="Rename (F2)" aria-label="Rename" data-testid="file-rename" on:click=move |_| act(Dialog::Rename)><Icon name=Name::Pencil /></button>
                            <button type="button" class="quiet icon-only" title="Delete (Del)" aria-label="Delete" data-testid="file-delete" on:click=move |_| act(Dialog::Delete)><Icon name=Name::Trash /></button>
                        </Show>
                    </div>
                }
            }))}
            {part(move || why_not().map(|why| view! { <p class="files-note small muted" data-testid="files-note">{why}</p> }))}
            <p class="drop-here" aria-hidden="true">"Drop to upload here"</p>
        </div>
    }
}
