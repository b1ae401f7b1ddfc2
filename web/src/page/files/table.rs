//! The rows: only those on the screen exist, however many there are.

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::Div;
use leptos::prelude::*;

use glassbox_shared::files::{FileEntry, FileType, SortBy, SortOrder};

use super::hub::{Dialog, use_files};
use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::parts::icons::{Icon, Name};
use crate::state::files::{Row, is_folder, parent};
use crate::state::words;

/// Height of a row, for a mouse and for a finger; the style sheet has the same.
const ROW_PIXELS: [f64; 2] = [28.0, 44.0];
/// Rows made above and below the screen, so that scrolling shows no holes.
const SPARE: usize = 10;
/// Rows that Page Up and Page Down move.
const PAGE_ROWS: usize = 20;

fn icon(entry: &FileEntry) -> Name {
    match entry.kind {
        _ if is_folder(entry) => Name::Folder,
        FileType::Link => Name::Link,
        _ => Name::File,
    }
}

fn size(entry: &FileEntry) -> String {
    match entry.kind {
        FileType::File => words::bytes(entry.size),
        FileType::Folder => String::new(),
        FileType::Link => "link".to_owned(),
        FileType::Fifo => "pipe".to_owned(),
        FileType::Socket => "socket".to_owned(),
        FileType::Device => "device".to_owned(),
    }
}

/// What a row says on hover.
fn facts(entry: &FileEntry) -> String {
    let owner = entry.owner.clone().unwrap_or_else(|| entry.uid.to_string());
    let target = entry.target.as_ref().map(|target| format!(" → {}", target.name)).unwrap_or_default();
    format!("{}{target} · {} · {owner} · {}", entry.name, entry.mode, browser::exact_time(entry.modified))
}

/// The table.
#[component]
pub fn Table() -> impl IntoView {
    let files = use_files();
    let height = ROW_PIXELS[usize::from(browser::matches("(pointer: coarse)"))];
    let node = NodeRef::<Div>::new();
    let top = RwSignal::new((0.0f64, 600.0f64));
    let measure = move || {
        if let Some(element) = node.get_untracked() {
            top.set((f64::from(element.scroll_top()), f64::from(element.client_height()).max(height)));
        }
    };
    let total = Memo::new(move |_| files.tree.with(crate::state::files::Tree::len));
    let range = Memo::new(move |_| {
        let (top, room) = top.get();
        let from = ((top / height) as usize).saturating_sub(SPARE);
        (from.min(total.get()), ((top + room) / height).ceil() as usize + SPARE)
    });
    effect(move || {
        let (from, to) = range.get();
        files.shows(from, to);
    });
    effect(move || {
        node.get();
        total.get();
        measure();
    });

    let open = StoredValue::new_local(files.opener());
    let open = move |entry: &FileEntry| {
        open.try_with_value(|open| open(entry));
    };
    let choose = move |at: usize| {
        let at = at.min(total.get_untracked().saturating_sub(1));
        files.chosen.set(at);
        let Some(element) = node.get_untracked() else { return };
        let (start, room) = (at as f64 * height, f64::from(element.client_height()));
        let scrolled = f64::from(element.scroll_top());
        if start < scrolled {
            element.set_scroll_top(start as i32);
        } else if start + height > scrolled + room {
            element.set_scroll_top((start + height - room) as i32);
        }
    };
    let key = move |event: ev::KeyboardEvent| {
        if event.ctrl_key() || event.meta_key() || event.alt_key() {
            return;
        }
        let at = files.chosen.get_untracked();
        let row = files.tree.with_untracked(|tree| tree.row(at));
        let entry = row.as_ref().and_then(|row| row.entry.clone());
        let folder = entry.as_ref().is_some_and(is_folder);
        let is_open = row.as_ref().is_some_and(|row| row.open);
        match (event.key().as_str(), entry) {
            ("ArrowUp" | "k", _) => choose(at.saturating_sub(1)),
            ("PageDown", _) => choose(at + PAGE_ROWS),
            ("PageUp", _) => choose(at.saturating_sub(PAGE_ROWS)),
            ("Home", _) => choose(0),
            ("End", _) => choose(usize::MAX),
            ("Enter" | " ", Some(entry)) => open(&entry),
            ("ArrowRight", Some(entry)) if folder && !is_open => open(&entry),
            ("ArrowDown" | "j" | "ArrowRight", _) => choose(at + 1),
            ("ArrowLeft", Some(entry)) if is_open => open(&entry),
            ("ArrowLeft", Some(entry)) => {
                let above =
                    parent(&entry.path).and_then(|above| files.tree.with_untracked(|tree| tree.position(above)));
                if let Some(above) = above {
                    choose(above);
                }
            }
            ("Backspace", _) => {
                let up = files.tree.with_untracked(|tree| parent(tree.root()).map(str::to_owned));
                if let Some(up) = up {
                    files.change(|tree| tree.go(&up));
                    choose(0);
                }
            }
            ("F2", Some(entry)) if untrack(|| files.may_write()) => files.dialog.set(Some(Dialog::Rename(entry))),
            ("Delete", Some(entry)) if untrack(|| files.may_write()) => files.dialog.set(Some(Dialog::Delete(entry))),
            _ => return,
        }
        event.prevent_default();
    };
    let head = move |sort: SortBy, name: &'static str, class: &'static str| {
        let order = move || {
            files.tree.with(|tree| {
                let is = tree.sort == sort || (sort == SortBy::Name && tree.sort == SortBy::Type);
                is.then_some(if tree.order == SortOrder::Asc { "ascending" } else { "descending" })
            })
        };
        view! {
            <span role="columnheader" class=class aria-sort=attr(move || order().unwrap_or("none"))>
                <button type="button" class="quiet" tabindex="-1" on:click=move |_| files.change(|tree| tree.sort_by(sort))>
                    {name}<span aria-hidden="true">{part(move || order().map(|order| if order == "ascending" { " ↑" } else { " ↓" }))}</span>
                </button>
            </span>
        }
    };
    let row = move |at: usize| view! { <Line at height open=StoredValue::new_local(Box::new(move |entry: &FileEntry| { choose(at); open(entry); })) /> };
    let problem =
        move || files.tree.with(|tree| tree.open_folders().iter().find_map(|path| tree.folder(path)?.problem.clone()));
    let empty = move || {
        files.tree.with(|tree| {
            let folder = tree.folder(tree.root())?;
            (tree.is_empty() && folder.problem.is_none()).then(|| match (folder.version.is_empty(), tree.filter.is_empty()) {
                (true, _) => view! { <div class="skeleton" aria-busy="true" aria-label="Loading the files"><i></i><i></i><i></i><i></i></div> }.into_any(),
                (false, true) => view! { <p class="muted small">"Nothing here yet. Files that the agent makes appear by themselves; drop some here to upload them."</p> }.into_any(),
                (false, false) => view! { <p class="muted small">"No name matches."</p> }.into_any(),
            })
        })
    };
    let again = move |_| {
        files.change(|tree| {
            let root = tree.root().to_owned();
            tree.go(&root);
        });
    };
    view! {
        <div class="file-table" role="treegrid" aria-label="Files" tabindex="0" data-testid="file-table" aria-rowcount=attr(move || (total.get() + 1).to_string())
            aria-activedescendant=attr(move || (total.get() > 0).then(|| format!("file-{}", files.chosen.get()))) on:keydown=key>
            <div role="row" class="file-head" aria-rowindex="1">
                {head(SortBy::Name, "Name", "name")}{head(SortBy::Size, "Size", "size")}{head(SortBy::Modified, "Modified", "modified")}
            </div>
            <div role="rowgroup" class="file-rows" node_ref=node on:scroll=move |_| measure()>
                <div role="presentation" style:height=attr(move || format!("{}px", total.get() as f64 * height))>
                    <For each=move || { let (from, to) = range.get(); from..to.min(total.get()) } key=|at| *at children=row />
                </div>
            </div>
        </div>
        {part(move || problem().map(|why| view! { <p class="problem small" role="alert">{why}" "<button type="button" class="link" on:click=again>"Try again"</button></p> }))}
        {part(empty)}
    }
}

type Opener = StoredValue<Box<dyn Fn(&FileEntry)>, LocalStorage>;

#[component]
fn Line(at: usize, height: f64, open: Opener) -> impl IntoView {
    let files = use_files();
    let clock = use_clock();
    let row = Memo::new(move |_| files.tree.with(|tree| tree.row(at)));
    let read = move |what: fn(&FileEntry) -> String| {
        move || row.with(|row| row.as_ref().and_then(|row| row.entry.as_ref().map(what)))
    };
    let is = move |what: fn(&Row) -> bool| move || row.with(|row| row.as_ref().is_some_and(what));
    let folder = is(|row| row.entry.as_ref().is_some_and(is_folder));
    let is_open = is(|row| row.open);
    let depth = move || row.with(|row| row.as_ref().map_or(0, |row| row.depth));
    let when = move || {
        row.with(|row| {
            row.as_ref().and_then(|row| row.entry.as_ref()).map(|entry| words::ago(clock.now() - entry.modified))
        })
    };
    let glyph = move || row.with(|row| row.as_ref().and_then(|row| row.entry.as_ref()).map(icon));
    let shown = move || {
        files.file.with(|file| {
            row.with(|row| {
                row.as_ref().and_then(|row| row.entry.as_ref()).is_some_and(|entry| file.as_ref() == Some(&entry.path))
            })
        })
    };
    let click = move |_| {
        if let Some(entry) = row.get_untracked().and_then(|row| row.entry) {
            open.try_with_value(|open| open(&entry));
        }
    };
    view! {
        <div role="row" class="file-row" id=format!("file-{at}") data-testid="file-row" data-path=read(|entry| entry.path.clone()) title=read(facts)
            aria-rowindex=(at + 2).to_string() attr:aria-level=attr(move || (depth() + 1).to_string()) aria-expanded=attr(move || folder().then(|| is_open().to_string()))
            aria-selected=attr(move || (files.chosen.get() == at).to_string()) class:shown=shown style:top=format!("{}px", at as f64 * height) on:click=click>
            <span role="gridcell" class="name" style:padding-left=attr(move || format!("{}px", 8 + 14 * depth()))>
                <span class="caret" class:open=is_open aria-hidden="true">{part(move || folder().then(|| view! { <Icon name=Name::Caret /> }))}</span>
                {part(move || glyph().map(|name| view! { <Icon name /> }))}
                <bdi>{part(read(|entry| entry.name.clone()))}</bdi>
                {part(move || is(|row| row.fresh)().then(|| view! { <span class="fresh">"new"</span> }))}
            </span>
            <span role="gridcell" class="size figures">{part(read(size))}</span>
            <span role="gridcell" class="modified figures">{part(when)}</span>
        </div>
    }
}
