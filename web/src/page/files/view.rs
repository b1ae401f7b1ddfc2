//! One file: text that can be edited, a picture, or the numbers of its first bytes. Never more of it than one can look at.

use crate::page::parts::part::{attr, effect, part};
use leptos::ev;
use leptos::html::{Pre, Textarea};
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::files::{FileEntry, FileType};

use super::calls::{self, Only};
use super::hub::{Files, use_files};
use crate::page::api::Failure;
use crate::page::interop::browser;
use crate::page::interop::paint;
use crate::page::parts::copy::Copy;
use crate::page::parts::icons::{Icon, Name};
use crate::page::parts::time::Ago;
use crate::page::parts::toasts::use_toasts;
use crate::page::route::{Go, use_route};
use crate::state::content::{self, HEAD_BYTES, HEX_BYTES, PICTURE_BYTES, TEXT_BYTES};
use crate::state::diff::{self, Line};
use crate::state::files::{Fate, shown, shown_name};
use crate::state::words;

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    Text {
        text: String,
        whole: bool,
    },
    Picture {
        address: String,
    },
    Hex {
        text: String,
    },
    /// Nothing that can be shown; the words say why.
    Other(&'static str),
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq)]
struct Opened {
    entry: FileEntry,
    content: Content,
}

async fn read(files: Files, path: &str) -> Result<Opened, Failure> {
    let session = files.session();
    let entry = calls::stat(&session, path).await?;
    if entry.kind != FileType::File {
        let what = match entry.kind {
            FileType::Folder => "This is a folder.",
            FileType::Link => "This link leads nowhere, or out of what may be seen.",
            _ => "This is a pipe, a socket or a device: it has no content that can be shown.",
        };
        return Ok(Opened { entry, content: Content::Other(what) });
    }
    if entry.size == 0 {
        return Ok(Opened { entry, content: Content::Text { text: String::new(), whole: true } });
    }
    let mut bytes = calls::head(&session, path, HEAD_BYTES).await?;
    let picture = content::picture(&bytes).filter(|_| entry.size <= PICTURE_BYTES);
    let textual = content::text(&bytes, entry.size <= HEAD_BYTES).is_some();
    let whole = entry.size <= TEXT_BYTES || picture.is_some();
    if (picture.is_some() || textual) && whole && entry.size > HEAD_BYTES {
        bytes = calls::head(&session, path, entry.size).await?;
    }
    let content = match (picture, content::text(&bytes, whole)) {
        (Some(kind), _) => match browser::blob_address(&bytes, kind) {
            Some(address) => Content::Picture { address },
            None => Content::Other("The browser refused to draw it."),
        },
        (None, Some(text)) => Content::Text { text: text.to_owned(), whole },
        (None, None) => Content::Hex { text: content::hex(&bytes[..bytes.len().min(HEX_BYTES)]) },
    };
    Ok(Opened { entry, content })
}

/// Nobody looks at it any more: frees a picture's bytes.
fn let_go(opened: Option<&Result<Opened, String>>) {
    if let Some(Ok(Opened { content: Content::Picture { address }, .. })) = opened {
        browser::let_go(address);
    }
}

/// The file that the address names, in place of the output.
#[component]
pub fn FilePane(path: String) -> impl IntoView {
    let files = use_files();
    let toasts = use_toasts();
    let opened = RwSignal::new(None::<Result<Opened, String>>);
    let name = shown_name(&path);
    let path = StoredValue::new(path);
    // What was on the screen before it was loaded again, for "what changed".
    let before = RwSignal::new(None::<String>);
    let load = move || {
        spawn_local(async move {
            let Some(path) = path.try_get_value() else { return };
            let answer = read(files, &path).await;
            let seen = opened.try_with_untracked(|opened| matches!(opened, Some(Ok(_))));
            match answer {
                // What was seen stays.
                Err(failure) if seen == Some(true) && failure.status == 404 => files.gone(&path),
                Err(failure) if seen == Some(true) => toasts.say(format!("Not loaded: {}", failure.detail)),
                answer => {
                    let version = answer.as_ref().ok().map(|opened| opened.entry.version.clone());
                    opened.try_with_untracked(|before| let_go(before.as_ref()));
                    if let Some(unseen) = opened.try_set(Some(answer.map_err(|failure| failure.detail))) {
                        // The file was closed meanwhile.
                        let_go(unseen.as_ref());
                    } else if let Some(version) = version {
                        files.editing.try_set(false);
                        files.knows(path, version);
                    }
                }
            }
        });
    };
    load();
    on_cleanup(move || {
        opened.try_with_untracked(|opened| let_go(opened.as_ref()));
        files.loaded.try_set(None);
        files.fate.try_set(None);
        files.editing.try_set(false);
    });
    // There to be downloaded, changed, linked to; as long as nothing else is known.
    let there = Memo::new(move |_| {
        let is_file = opened.with(|opened| match opened {
            None => true,
            Some(Ok(opened)) => opened.entry.kind == FileType::File,
            Some(Err(_)) => false,
        });
        is_file && !files.is_gone()
    });
    let seen = move || opened.with(|opened| matches!(opened, Some(Ok(_))));
    let again = move |_| {
        before.set(text_of(opened.get_untracked().as_ref()));
        load();
    };
    let route = use_route();
    let close = move |_| route.go(&format!("/sessions/{}", files.session()), Go::There);
    let place = shown(&path.get_value());
    let href = calls::address(&files.session(), &path.get_value(), false);
    let link = format!("{}{}", browser::origin(), files.address(&path.get_value()));
    let facts = move || {
        opened.get().and_then(Result::ok).map(|Opened { entry, .. }| {
            view! { <span class="figures">{words::bytes(entry.size)}</span>" · "{entry.mode}" · changed "<Ago at=entry.modified /> }
        })
    };
    let changes = move || {
        let (old, new) = (before.get()?, text_of(opened.get().as_ref())?);
        Some(view! { <Changes old new close=before /> })
    };
    view! {
        <div class="file-view" data-testid="file-view">
            <header class="command-head">
                <div class="what">
                    <h2 class="text break" title=place.clone()><bdi>{name.clone()}</bdi></h2>
                    <p class="facts small muted" data-testid="file-facts">{part(facts)}</p>
                </div>
                <div class="how">
                    <Show when=move || there.get()>
                        <Copy text=link.clone() what="a link to this file" />
                        <a class="button quiet icon-only" href=href.clone() download="" title="Download" aria-label="Download this file" data-testid="view-download"><Icon name=Name::Download /></a>
                    </Show>
                    <button type="button" class="quiet icon-only" title="Back to the output" aria-label="Close the file" on:click=close data-testid="view-close"><Icon name=Name::Close /></button>
                </div>
            </header>
            <div class="notes">
                {part(move || match files.fate.get() {
                    _ if !seen() => None,
                    _ if files.session_ended() => Some(view! {
                        <p class="note" role="status" data-testid="file-gone">"The session has ended, and its files are gone. This is how the file was."</p>
                    }.into_any()),
                    Some(Fate::Gone { at }) => Some(view! {
                        <p class="note" role="status" data-testid="file-gone">
                            <span>"Deleted, or given another name (noticed "<Ago at />"). This is how it was."</span>
                        </p>
                    }.into_any()),
                    Some(Fate::Changed { .. }) => Some(view! {
                        <p class="note" role="status" data-testid="file-changed">
                            <span>"This file has changed since it was opened."</span>
                            {part(move || if files.editing.get() {
                                view! { <span>"Saving will show what is different."</span> }.into_any()
                            } else {
                                view! { <button type="button" class="link" on:click=again data-testid="file-reload">"Load it and show what changed"</button> }.into_any()
                            })}
                        </p>
                    }.into_any()),
                    None => None,
                })}
                {part(changes)}
            </div>
            {part(move || match opened.get() {
                None => view! { <div class="skeleton" aria-busy="true" aria-label="Opening the file"><i></i><i></i><i></i><i></i></div> }.into_any(),
                Some(Err(why)) => view! { <div class="none"><p role="alert">{why}</p></div> }.into_any(),
                Some(Ok(opened_file)) => match opened_file.content {
                    Content::Text { text, whole } => view! { <Text path there entry=opened_file.entry text whole reload=StoredValue::new_local(Box::new(load)) before /> }.into_any(),
                    Content::Picture { address } => view! { <div class="picture"><img src=address alt=name.clone() data-testid="file-picture" /></div> }.into_any(),
                    Content::Hex { text } => view! {
                        <p class="note" data-testid="hex-note">{format!("{}, not a text. Its first bytes:", words::bytes(opened_file.entry.size))}</p>
                        <pre class="content" tabindex="0" data-testid="file-hex">{text}</pre>
                    }.into_any(),
                    Content::Other(what) => view! { <div class="none"><p>{what}</p></div> }.into_any(),
                },
            })}
        </div>
    }
}

fn text_of(opened: Option<&Result<Opened, String>>) -> Option<String> {
    match opened {
        Some(Ok(Opened { content: Content::Text { text, .. }, .. })) => Some(text.clone()),
        _ => None,
    }
}

#[component]
fn Changes(old: String, new: String, close: RwSignal<Option<String>>) -> impl IntoView {
    let lines = diff::diff(&old, &new);
    let line = |line: Line| match line {
        Line::Same(text) => view! { <span>{format!("  {text}\n")}</span> }.into_any(),
        Line::Gone(text) => view! { <del>{format!("- {text}\n")}</del> }.into_any(),
        Line::New(text) => view! { <ins>{format!("+ {text}\n")}</ins> }.into_any(),
        Line::Skipped(count) => {
            view! { <i>{format!("  {}\n", words::count(count as u64, "line as before", "lines as before"))}</i> }
                .into_any()
        }
    };
    view! {
        <div class="changes" data-testid="file-changes">
            <p class="note"><span>"What changed since you last saw it"</span>
                <button type="button" class="quiet icon-only" aria-label="Close the comparison" on:click=move |_| close.set(None)><Icon name=Name::Close /></button>
            </p>
            {match lines {
                Some(lines) => view! { <pre tabindex="0">{lines.into_iter().map(line).collect_view()}</pre> }.into_any(),
                None => view! { <p class="note">"Too much is different to be shown line by line."</p> }.into_any(),
            }}
        </div>
    }
}

type Act = StoredValue<Box<dyn Fn()>, LocalStorage>;

#[component]
fn Text(
    path: StoredValue<String>,
    there: Memo<bool>,
    entry: FileEntry,
    text: String,
    whole: bool,
    reload: Act,
    before: RwSignal<Option<String>>,
) -> impl IntoView {
    let files = use_files();
    let toasts = use_toasts();
    let editing = files.editing;
    let busy = RwSignal::new(false);
    let problem = RwSignal::new(None::<String>);
    // What is there instead of what was edited.
    let conflict = RwSignal::new(None::<String>);
    let shown_text = StoredValue::new(text);
    // What the person at this page wrote before and did not save is there again.
    let draft = StoredValue::new(path.with_value(|path| files.draft(path)).filter(|_| whole));
    Effect::new(move |_| {
        if draft.with_value(Option::is_some) {
            editing.try_set(true);
        }
    });
    let name = StoredValue::new(entry.name.clone());
    let field = NodeRef::<Textarea>::new();
    let node = NodeRef::<Pre>::new();
    effect(move || {
        if let Some(pre) = node.get() {
            shown_text
                .with_value(|text| name.with_value(|name| paint::paint(&pre, text, &content::colours(name, text))));
        }
    });
    on_cleanup(paint::clear);
    effect(move || field.get().map(|field| field.focus()));

    let save = move |only: Only| {
        let Some(text) = field.get_untracked().map(|field| field.value()) else { return };
        busy.set(true);
        problem.set(None);
        spawn_local(async move {
            let (session, path) = (files.session(), path.get_value());
            match files.act(&path, calls::write(&session, &path, text.as_str().into(), only)).await {
                Ok(entry) => {
                    files.keep_draft(&path, None);
                    draft.try_set_value(None);
                    toasts.say(format!("{} saved.", entry.name));
                    // Else it was closed meanwhile.
                    if shown_text.try_set_value(text).is_none() {
                        files.knows(path, entry.version);
                        before.set(None);
                        editing.set(false);
                        reload.with_value(|reload| reload());
                    }
                }
                Err(failure) if matches!(failure.status, 409 | 412) => match read(files, &path).await {
                    Ok(opened) => {
                        let now = text_of(Some(&Ok(opened)));
                        conflict.try_set(Some(now.unwrap_or_default()));
                    }
                    Err(failure) if failure.status == 404 => {
                        files.gone(&path);
                        problem.try_set(Some("Not saved: nothing of this name is there any more.".to_owned()));
                    }
                    Err(failure) => {
                        problem.try_set(Some(format!("Not saved: {}", failure.detail)));
                    }
                },
                Err(failure) => {
                    problem.try_set(Some(failure.detail));
                }
            }
            busy.try_set(false);
        });
    };
    let gone = move || files.fate.with(|fate| matches!(fate, Some(Fate::Gone { .. })));
    // The version that is on the screen, and the one that the text was made from.
    let loaded = move || files.loaded.get_untracked().map(|(_, version)| version);
    let version = move || {
        let made_from = draft.with_value(|draft| draft.as_ref().map(|draft| draft.version.clone()));
        made_from.unwrap_or_else(loaded).filter(|_| !untrack(gone))
    };
    let may_save = move || !busy.get() && files.may_write();
    let save_this = StoredValue::new_local(move || {
        if untrack(may_save) {
            save(version().map_or(Only::New, Only::Version));
        }
    });
    let write = move |_| {
        let Some(text) = field.get_untracked().map(|field| field.value()) else { return };
        let made_from = draft.with_value(|draft| draft.as_ref().map(|draft| draft.version.clone()));
        path.with_value(|path| {
            files.keep_draft(path, Some((made_from.unwrap_or_else(loaded), text)));
            draft.set_value(files.draft(path));
        });
    };
    let forget = move || {
        draft.set_value(None);
        path.with_value(|path| files.keep_draft(path, None));
        editing.set(false);
    };
    let key = move |event: ev::KeyboardEvent| {
        if (event.ctrl_key() || event.meta_key()) && event.key() == "s" {
            event.prevent_default();
            save_this.with_value(|save| save());
        }
    };
    let stop = move |_| {
        forget();
        conflict.set(None);
        problem.set(None);
    };
    let edited = move || field.get_untracked().map(|field| field.value()).unwrap_or_default();
    view! {
        {(!whole).then(|| view! { <p class="note" data-testid="head-note">{format!("The first {} of {}. Download it to see the rest.", words::bytes(HEAD_BYTES), words::bytes(entry.size))}</p> })}
        {part(move || conflict.get().map(|now| view! {
            <div class="conflict" role="alert" data-testid="file-conflict">
                <p>"Someone else changed this file since you opened it. Nothing was saved."</p>
                <details open><summary class="small">"From what is there now to yours"</summary>
                    {match diff::diff(&now, &edited()) {
                        Some(lines) => view! { <pre tabindex="0">{lines.into_iter().map(|line| match line {
                            Line::Same(text) => format!("  {text}\n"),
                            Line::Gone(text) => format!("- {text}\n"),
                            Line::New(text) => format!("+ {text}\n"),
                            Line::Skipped(count) => format!("  {}\n", words::count(count as u64, "equal line", "equal lines")),
                        }).collect::<String>()}</pre> }.into_any(),
                        None => view! { <p class="small">"Too much is different to be shown line by line."</p> }.into_any(),
                    }}
                </details>
                <div class="actions">
                    <button type="button" on:click=move |_| { forget(); conflict.set(None); reload.with_value(|reload| reload()); } data-testid="conflict-reload">"Drop mine, load theirs"</button>
                    <button type="button" class="danger" on:click=move |_| { conflict.set(None); save(Only::Anyway); } data-testid="conflict-overwrite">"Overwrite with mine"</button>
                </div>
            </div>
        }))}
        {part(move || if editing.get() {
            view! { <textarea class="content" node_ref=field aria-label="Content of the file" spellcheck="false" autocapitalize="off" autocomplete="off" data-testid="file-editor"
                prop:value=draft.with_value(|draft| draft.as_ref().map(|draft| draft.text.clone())).unwrap_or_else(|| shown_text.get_value())
                prop:readOnly=attr(move || busy.get()) on:keydown=key on:input=write></textarea> }.into_any()
        } else if shown_text.with_value(String::is_empty) {
            view! { <div class="none"><p class="muted">"This file is empty."</p></div> }.into_any()
        } else {
            view! { <pre class="content" tabindex="0" node_ref=node data-testid="file-text"></pre> }.into_any()
        })}
        <footer class="status">
            <p class="words" data-testid="file-words">{part(move || match files.may.get() {
                Some(Err(why)) => why,
                _ if editing.get() && draft.with_value(Option::is_some) => "changes of yours that are not saved".to_owned(),
                _ if editing.get() && browser::matches("(pointer: coarse)") => "editing".to_owned(),
                _ if editing.get() => "editing · Ctrl S saves".to_owned(),
                _ => "read-only view".to_owned(),
            })}</p>
            <p class="problem small" role="alert">{part(move || problem.get())}</p>
            <div class="acts">
                {part(move || (whole && there.get() && files.may_write() && !editing.get()).then(|| view! { <button type="button" on:click=move |_| editing.set(true) data-testid="file-edit"><Icon name=Name::Pencil />"Edit"</button> }))}
                {part(move || editing.get().then(|| view! {
                    <button type="button" on:click=stop>"Cancel"</button>
                    <button type="button" class="primary" disabled=attr(move || !may_save()) on:click=move |_| save_this.with_value(|save| save()) data-testid="file-save">
                        {part(move || if busy.get() { "Saving…" } else if gone() { "Save as a new file" } else { "Save" })}
                    </button>
                }))}
            </div>
        </footer>
    }
}
