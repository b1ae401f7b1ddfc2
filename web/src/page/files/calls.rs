//! The REST calls about files. Paths go into addresses as they are: they are percent-encoded already.

use gloo_net::http::Request;
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, AbortSignal, Blob, ReadableStreamDefaultReader};

use glassbox_shared::files::{
    FileEntry, FolderPage, JobLine, JobView, MakeFolder, MoveEntry, SortBy, SortOrder, StartUpload, UploadProgress,
    UploadView, WatchAnswer,
};
use glassbox_shared::id::SessionId;

use crate::page::api::{Failure, answer, get, read, understand, with};
use crate::state::files::jobs;

/// A line of a job's answer is far shorter; beyond it something else is speaking.
const LONGEST_LINE: usize = 64 * 1024;

fn base(session: &SessionId) -> String {
    format!("/v1/sessions/{session}/fs")
}

/// The address of a file's content, or of a folder as an archive.
pub fn address(session: &SessionId, path: &str, folder: bool) -> String {
    format!("{}/{}?path={path}", base(session), if folder { "archive" } else { "content" })
}

/// What a page of a folder is asked by.
#[derive(Debug, Clone)]
pub struct Question {
    /// The folder.
    pub path: String,
    /// Sorted by.
    pub sort: SortBy,
    /// Which way.
    pub order: SortOrder,
    /// Names hold this.
    pub filter: String,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries.
    pub limit: usize,
}

/// A page of a folder.
pub async fn list(session: &SessionId, question: &Question) -> Result<FolderPage, Failure> {
    let sort = match question.sort {
        SortBy::Name => "name",
        SortBy::Size => "size",
        SortBy::Modified => "modified",
        SortBy::Type => "type",
    };
    let order = if question.order == SortOrder::Asc { "asc" } else { "desc" };
    let mut address =
        format!("{}/list?path={}&sort={sort}&order={order}&limit={}", base(session), question.path, question.limit);
    for (name, value) in [("filter", &question.filter), ("cursor", question.cursor.as_ref().unwrap_or(&String::new()))]
    {
        if !value.is_empty() {
            address = format!("{address}&{name}={}", String::from(js_sys::encode_uri_component(value)));
        }
    }
    get(&address).await
}

/// What a path leads to.
pub async fn stat(session: &SessionId, path: &str) -> Result<FileEntry, Failure> {
    get(&format!("{}/stat?path={path}&follow=true", base(session))).await
}

/// The first bytes of a file.
pub async fn head(session: &SessionId, path: &str, bytes: u64) -> Result<Vec<u8>, Failure> {
    let range = format!("bytes=0-{}", bytes.max(1) - 1);
    let request = Request::get(&address(session, path, false)).header("Range", &range);
    answer(request.build()).await?.binary().await.map_err(|_| Failure::unreachable())
}

/// When a file may be written.
#[derive(Debug, Clone)]
pub enum Only {
    /// When nothing is there.
    New,
    /// When it is this version still.
    Version(String),
    /// Always.
    Anyway,
}

/// Writes a file: text or a blob.
pub async fn write(session: &SessionId, path: &str, content: JsValue, only: Only) -> Result<FileEntry, Failure> {
    let request = Request::put(&address(session, path, false)).header("Content-Type", "application/octet-stream");
    let request = match only {
        Only::New => request.header("If-None-Match", "*"),
        Only::Version(version) => request.header("If-Match", &format!("\"{version}\"")),
        Only::Anyway => request,
    };
    read(request.body(content)).await
}

fn post(session: &SessionId, what: &str, body: &impl Serialize) -> Result<Request, gloo_net::Error> {
    with(Request::post(&format!("{}/{what}", base(session))), body)
}

/// Makes a folder.
pub async fn make_folder(session: &SessionId, path: String) -> Result<FileEntry, Failure> {
    read(post(session, "folders", &MakeFolder { path })).await
}

/// Gives something another path.
pub async fn rename(session: &SessionId, from: String, to: String) -> Result<FileEntry, Failure> {
    read(post(session, "rename", &MoveEntry { from, to, replace: false })).await
}

/// Starts a large upload.
pub async fn start_upload(session: &SessionId, path: &str, size: u64, replace: bool) -> Result<UploadView, Failure> {
    read(post(session, "uploads", &StartUpload { path: path.to_owned(), size, replace })).await
}

/// How far an upload is.
pub async fn upload(session: &SessionId, id: &str) -> Result<UploadView, Failure> {
    get(&format!("{}/uploads/{id}", base(session))).await
}

/// A piece of an upload.
pub async fn upload_piece(session: &SessionId, id: &str, offset: u64, piece: Blob) -> Result<UploadProgress, Failure> {
    let request = Request::patch(&format!("{}/uploads/{id}?offset={offset}", base(session)));
    read(request.header("Content-Type", "application/octet-stream").body(piece)).await
}

/// Gives an upload up.
pub async fn drop_upload(session: &SessionId, id: &str) -> Result<(), Failure> {
    answer(Request::delete(&format!("{}/uploads/{id}", base(session))).build()).await.map(drop)
}

/// Waits for a change of a folder or file, at most `wait` seconds.
pub async fn watch(session: &SessionId, path: &str, version: &str, wait: u32) -> Result<WatchAnswer, Failure> {
    let version = String::from(js_sys::encode_uri_component(version));
    get(&format!("{}/watch?path={path}&version={version}&wait={wait}", base(session))).await
}

/// Copies and deletions that are under way.
pub async fn jobs(session: &SessionId) -> Result<Vec<JobView>, Failure> {
    get::<Value>(&format!("{}/jobs", base(session))).await.map(jobs::read_all)
}

/// Stops one; the answer comes when it has stopped, and says how far it came.
pub async fn stop_job(session: &SessionId, id: &str) -> Result<JobView, Failure> {
    let answer: Value = read(Request::delete(&format!("{}/jobs/{id}", base(session))).build()).await?;
    jobs::read(answer).map_err(|_| Failure::unreachable())
}

/// A call that can be given up.
#[derive(Debug)]
pub struct Cancel(AbortController);

impl Cancel {
    /// For one call.
    pub fn new() -> Option<Self> {
        AbortController::new().ok().map(Self)
    }

    /// What the call gets.
    pub fn signal(&self) -> AbortSignal {
        self.0.signal()
    }

    /// Gives it up.
    pub fn now(&self) {
        self.0.abort();
    }
}

/// Deletes something and all that is in it. `progress` hears each line; the last one says how it ended.
pub async fn delete(
    session: &SessionId,
    path: &str,
    cancel: &AbortSignal,
    mut progress: impl FnMut(JobLine),
) -> Result<(), Failure> {
    let address = format!("{}/entry?path={path}&recursive=true", base(session));
    let response = answer(Request::delete(&address).abort_signal(Some(cancel)).build()).await?;
    let Some(body) = response.body() else { return Ok(()) };
    let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let piece = JsFuture::from(reader.read()).await.map_err(|_| Failure::unreachable())?;
        let value = js_sys::Reflect::get(&piece, &"value".into()).unwrap_or_default();
        if value.is_undefined() {
            return Ok(());
        }
        pending.extend(value.unchecked_into::<js_sys::Uint8Array>().to_vec());
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if let Some(line) = std::str::from_utf8(&line).ok().and_then(|line| understand(line).ok()) {
                progress(line);
            }
        }
        if pending.len() > LONGEST_LINE {
            return Err(Failure::unreachable());
        }
    }
}
