//! Uploads: small files in one request, large ones in pieces that go on where they broke off.

use std::cell::Cell;
use std::rc::Rc;

use crate::page::parts::part::part;
use gloo_timers::future::TimeoutFuture;
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::JsCast;
use web_sys::{File, FileList};

use glassbox_shared::files::FileEntry;

use super::calls::{self, Only};
use super::hub::Files;
use crate::page::api::Failure;
use crate::page::parts::icons::{Icon, Name};
use crate::state::files::{child, name_problem};
use crate::state::{visible, words};

/// Up to this size a file goes in one request.
const SMALL_BYTES: u64 = 8 * 1024 * 1024;
/// Of a piece: seconds on a slow line, and progress one can see.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;
/// A piece that fails is tried again this often in a row, each time after a longer wait.
const MOST_TRIES: u32 = 6;
/// The first of these waits.
const TRY_MS: u32 = 1_000;
/// Files taken at a time; more is a mistake of the hand, or a case for an archive.
const MOST_FILES: u32 = 200;
/// Uploads that run at a time: a browser has six connections for a server.
const AT_A_TIME: usize = 2;

#[derive(Debug, Clone, PartialEq)]
enum How {
    Waits,
    Runs,
    Done,
    Failed(String),
    Exists,
}

#[derive(Clone)]
struct Upload {
    id: u32,
    name: String,
    folder: String,
    file: File,
    sent: ArcRwSignal<u64>,
    how: ArcRwSignal<How>,
    stop: Rc<Cell<bool>>,
    replace: Rc<Cell<bool>>,
}

/// The uploads of a session.
#[derive(Clone, Copy)]
pub struct Uploads {
    files: Files,
    all: RwSignal<Vec<Upload>, LocalStorage>,
    number: StoredValue<u32>,
}

impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Uploads")
    }
}

impl Uploads {
    /// None.
    pub fn new(files: Files) -> Self {
        Self { files, all: RwSignal::new_local(Vec::new()), number: StoredValue::new(0) }
    }

    /// Takes files that someone chose or dropped.
    pub fn take(self, folder: &str, list: Option<FileList>) {
        let Some(list) = list else { return };
        for at in 0..list.length().min(MOST_FILES) {
            let Some(file) = list.get(at) else { continue };
            let id = self.number.get_value();
            self.number.set_value(id + 1);
            let name = file.name();
            // A dropped folder comes as a file without content; its name is the only thing that one may trust.
            let how = name_problem(&name).map_or(How::Waits, |why| How::Failed(why.to_owned()));
            let upload = Upload {
                id,
                name,
                folder: folder.to_owned(),
                file,
                sent: ArcRwSignal::new(0),
                how: ArcRwSignal::new(how),
                stop: Rc::default(),
                replace: Rc::default(),
            };
            self.all.update(|all| all.push(upload));
        }
        self.next();
    }

    fn next(self) {
        loop {
            let next = self.all.try_with_untracked(|all| {
                let running = all.iter().filter(|upload| upload.how.get_untracked() == How::Runs).count();
                let next = all.iter().find(|upload| upload.how.get_untracked() == How::Waits).cloned();
                next.filter(|_| running < AT_A_TIME)
            });
            let Some(upload) = next.flatten() else { return };
            upload.how.set(How::Runs);
            spawn_local(async move {
                let answer = self.send(&upload).await;
                upload.how.set(match answer {
                    Ok(()) => How::Done,
                    Err(failure) if matches!(failure.status, 409 | 412) => How::Exists,
                    Err(failure) => How::Failed(failure.detail),
                });
                self.next();
            });
        }
    }

    async fn send(self, upload: &Upload) -> Result<(), Failure> {
        let session = self.files.session();
        let path = child(&upload.folder, &upload.name);
        let size = upload.file.size() as u64;
        if size <= SMALL_BYTES {
            let only = if upload.replace.get() { Only::Anyway } else { Only::New };
            return self
                .files
                .act(&path, calls::write(&session, &path, upload.file.clone().into(), only))
                .await
                .map(drop);
        }
        self.files.act(&path, self.send_in_pieces(upload, &path, size)).await.map(drop)
    }

    async fn send_in_pieces(self, upload: &Upload, path: &str, size: u64) -> Result<FileEntry, Failure> {
        let session = self.files.session();
        let begun = calls::start_upload(&session, path, size, upload.replace.get()).await?;
        let mut offset = begun.offset;
        let mut tries = 0;
        loop {
            if upload.stop.get() {
                // What is left of it goes by itself after a while, should this fail.
                let _ = calls::drop_upload(&session, &begun.upload_id).await;
                return Err(Failure { status: 0, code: None, detail: "Cancelled.".to_owned() });
            }
            let end = (offset + PIECE_BYTES).min(size);
            let piece =
                upload.file.slice_with_f64_and_f64(offset as f64, end as f64).map_err(|_| Failure::unreachable())?;
            match calls::upload_piece(&session, &begun.upload_id, offset, piece).await {
                Ok(progress) => {
                    tries = 0;
                    offset = progress.offset;
                    upload.sent.set(offset);
                    if let Some(entry) = progress.entry {
                        return Ok(entry);
                    }
                }
                Err(failure)
                    if (failure.status == 0 || failure.status >= 500)
                        && failure.status != 507
                        && tries < MOST_TRIES =>
                {
                    TimeoutFuture::new(TRY_MS << tries).await;
                    tries += 1;
                    if let Ok(view) = calls::upload(&session, &begun.upload_id).await {
                        offset = view.offset;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The list of them, while there is something to say.
#[component]
pub fn UploadList(uploads: Uploads) -> impl IntoView {
    let row = move |upload: Upload| {
        let (id, size) = (upload.id, upload.file.size() as u64);
        let (how, sent) = (upload.how.clone(), upload.sent.clone());
        let (ending, stop) = (upload.how.clone(), Rc::clone(&upload.stop));
        let close = move |_| {
            stop.set(true);
            if ending.get_untracked() != How::Runs {
                uploads.all.update(|all| all.retain(|other| other.id != id));
            }
        };
        let (again, replace, sent_so_far) = (upload.how.clone(), upload.replace.clone(), upload.sent.clone());
        let again = StoredValue::new_local(move || {
            replace.set(true);
            again.set(How::Waits);
            uploads.next();
        });
        let (state, meter) = (how.clone(), how.clone());
        let text = move || match how.get() {
            How::Waits => "waits".to_owned(),
            How::Runs if size > SMALL_BYTES => format!("{} of {}", words::bytes(sent.get()), words::bytes(size)),
            How::Runs => words::bytes(size),
            How::Done => format!("{} uploaded", words::bytes(size)),
            How::Failed(why) => why,
            How::Exists => "There is a file of this name.".to_owned(),
        };
        let value = move || (size > SMALL_BYTES).then(|| sent_so_far.get().to_string());
        view! {
            <li data-testid="upload">
                <bdi class="name">{visible::visible_line(&upload.name)}</bdi>
                <span class="small muted figures">{part(text)}</span>
                {part(move || (state.get() == How::Exists).then(|| view! {
                    <button type="button" class="link small" on:click=move |_| again.with_value(|again| again())>"Replace it"</button>
                }))}
                <button type="button" class="quiet icon-only" aria-label="Cancel, or close this line" on:click=close><Icon name=Name::Close /></button>
                {part(move || (meter.get() == How::Runs).then(|| view! { <progress aria-label="Progress" max=size.to_string() value=value.clone()></progress> }))}
            </li>
        }
    };
    view! {
        <ul class="uploads" aria-label="Uploads" aria-live="polite">
            {part(move || uploads.all.get().into_iter().map(row).collect_view())}
        </ul>
    }
}

/// The files of a drop or of a field.
pub fn files_of(event: &web_sys::Event) -> Option<FileList> {
    match event.dyn_ref::<web_sys::DragEvent>() {
        Some(drop) => drop.data_transfer()?.files(),
        None => event.target()?.dyn_ref::<web_sys::HtmlInputElement>()?.files(),
    }
}
