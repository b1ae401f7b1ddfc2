//! Files of a session, as the REST API gives them.

use glassbox_shared::error::ErrorBody;
use glassbox_shared::files::path::encode;
use glassbox_shared::files::{
    FileEntry, FolderPage, JobDone, JobError, JobLine, StartUpload, UploadProgress, UploadView, WatchAnswer,
};
use reqwest::Method;
use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::client::Client;
use crate::session::Session;

/// A session's files, seen by a client.
#[derive(Debug, Clone)]
pub struct Files {
    client: Client,
    session: Session,
}

impl Files {
    pub(crate) fn new(client: Client, session: Session) -> Self {
        Self { client, session }
    }

    /// The address of a route with a path that is encoded already, and more of the query.
    pub fn address(&self, route: &str, path: &str, more: &str) -> String {
        self.session.path(&format!("/fs/{route}?path={path}{more}"))
    }

    /// A page of a folder; `more` is further query, such as `&sort=size`.
    pub async fn try_list(&self, path: &str, more: &str) -> Result<FolderPage, Refusal> {
        self.client.get(&self.address("list", path, more)).await.ok()
    }

    /// A page of a folder, which must be there.
    pub async fn list(&self, path: &str, more: &str) -> FolderPage {
        self.try_list(path, more).await.expect("the folder can be listed")
    }

    /// Names on the first page, as encoded bytes.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let page = self.list(path, "&limit=1000").await;
        page.entries.iter().map(|entry| entry.path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }

    /// One entry.
    pub async fn try_stat(&self, path: &str) -> Result<FileEntry, Refusal> {
        self.client.get(&self.address("stat", path, "")).await.ok()
    }

    /// One entry, which must be there.
    pub async fn stat(&self, path: &str) -> FileEntry {
        self.try_stat(path).await.expect("it is there")
    }

    /// Content, or why there is none.
    pub async fn read(&self, path: &str) -> Answer {
        self.client.get(&self.address("content", path, "")).await
    }

    /// Content as it comes.
    pub async fn stream(&self, path: &str) -> reqwest::Response {
        let request = self.client.request(Method::GET, &self.address("content", path, ""));
        request.send().await.expect("the server answers")
    }

    /// Content with a header.
    pub async fn read_with(&self, method: Method, path: &str, header: (&str, &str)) -> Answer {
        let request = self.client.request(method, &self.address("content", path, ""));
        self.client.send(request.header(header.0, header.1)).await
    }

    /// Writes; `headers` are conditions.
    pub async fn try_write(
        &self,
        path: &str,
        content: impl Into<Vec<u8>>,
        headers: &[(&str, &str)],
    ) -> Result<FileEntry, Refusal> {
        let mut request = self.client.request(Method::PUT, &self.address("content", path, "")).body(content.into());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client.send(request).await.ok()
    }

    /// Writes, which must work.
    pub async fn write(&self, path: &str, content: impl Into<Vec<u8>>) -> FileEntry {
        self.try_write(path, content, &[]).await.expect("it can be written")
    }

    /// Gives another name.
    pub async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<FileEntry, Refusal> {
        let body = json!({"from": from, "to": to, "replace": replace});
        self.client.post(&self.session.path("/fs/rename"), &body).await.ok()
    }

    /// Makes a folder.
    pub async fn make_folder(&self, path: &str) -> Result<FileEntry, Refusal> {
        self.client.post(&self.session.path("/fs/folders"), &json!({"path": path})).await.ok()
    }

    /// Copies.
    pub async fn copy(&self, from: &str, to: &str) -> Result<JobDone, Refusal> {
        let body = json!({"from": from, "to": to});
        done(&self.client.post(&self.session.path("/fs/copy"), &body).await.success()?)
    }

    /// Deletes.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<JobDone, Refusal> {
        let address = self.address("entry", path, &format!("&recursive={recursive}"));
        done(&self.client.delete(&address).await.success()?)
    }

    /// The version now, or after a change from `version`.
    pub async fn watch(&self, path: &str, version: Option<&str>, wait: f64) -> WatchAnswer {
        let known = version.map(|version| format!("&version={version}")).unwrap_or_default();
        self.client
            .get(&self.address("watch", path, &format!("{known}&wait={wait}")))
            .await
            .ok()
            .expect("it can be watched")
    }

    /// Begins an upload.
    pub async fn start_upload(&self, path: &str, size: u64) -> Result<UploadView, Refusal> {
        let start = StartUpload { path: path.to_owned(), size, replace: false };
        self.client.post(&self.session.path("/fs/uploads"), &start).await.ok()
    }

    /// How far an upload is.
    pub async fn upload(&self, id: &str) -> Result<UploadView, Refusal> {
        self.client.get(&self.session.path(&format!("/fs/uploads/{id}"))).await.ok()
    }

    /// Adds to an upload.
    pub async fn append(&self, id: &str, offset: u64, content: impl Into<Vec<u8>>) -> Result<UploadProgress, Refusal> {
        let address = self.session.path(&format!("/fs/uploads/{id}?offset={offset}"));
        self.client.send(self.client.request(Method::PATCH, &address).body(content.into())).await.ok()
    }

    /// Gives an upload up.
    pub async fn give_up(&self, id: &str) -> Answer {
        self.client.delete(&self.session.path(&format!("/fs/uploads/{id}"))).await
    }

    /// A folder, packed.
    pub async fn archive(&self, path: &str) -> Answer {
        self.client.get(&self.address("archive", path, "")).await
    }
}

/// Bytes of a name as they stand in a path.
pub fn name(bytes: &[u8]) -> String {
    encode(bytes)
}

/// Lines of a job's answer; only the last one may be anything but progress.
pub fn lines(answer: &Answer) -> Vec<JobLine> {
    assert_eq!(answer.header("content-type"), "application/x-ndjson", "{}", answer.asked);
    let text = answer.text();
    let lines: Vec<JobLine> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect();
    let (_, before) = lines.split_last().expect("at least one line");
    assert!(before.iter().all(|line| matches!(line, JobLine::Progress(_))), "{lines:?}");
    lines
}

/// What a job came to: it may be refused before its first line, or fail in its last.
fn done(answer: &Answer) -> Result<JobDone, Refusal> {
    match lines(answer).pop() {
        Some(JobLine::Done(done)) => Ok(done),
        Some(JobLine::Error(JobError { code, detail })) => Err(Refusal {
            asked: answer.asked.clone(),
            status: answer.status,
            body: ErrorBody { detail, code, request_id: answer.header("x-request-id").to_owned() },
            retry_after: None,
        }),
        other => panic!("{}: expected an end, got {other:?}", answer.asked),
    }
}
