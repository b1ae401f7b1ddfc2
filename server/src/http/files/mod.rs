//! `…/fs`: files of a sandbox.
//!
//! Paths are percent-encoded bytes (`glassbox_shared::files::path`). In a query they are taken from the address as they
//! stand there and decoded once, in the sandbox; a query library would make text of them and lose bytes.

pub(super) mod content;
pub(super) mod jobs;
mod pump;
pub(super) mod uploads;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use glassbox_shared::error::{ErrorBody, ErrorCode};
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::files::path::{self, display, last};
use glassbox_shared::files::{
    DEFAULT_PAGE, FileEntry, FolderPage, MAX_PAGE, MakeFolder, MoveEntry, SortBy, SortOrder, WatchAnswer,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::App;
use super::commands::wait_time;
use super::error::ApiError;
use super::extract::{Body, InSession};
use super::principal::{self, Allowed};
use super::sessions::find;
use crate::error::DomainError;

/// Longest filter: a name.
const MAX_FILTER: usize = 255;
/// Between two looks for a change, and how much of the time looking may take: a folder of a thousand files costs the
/// sandbox 40 ms.
const LEAST_PAUSE: Duration = Duration::from_millis(700);
const MOST_PAUSE: Duration = Duration::from_secs(10);
const PAUSE_PER_LOOK: u32 = 20;

/// The routes, below `/v1/sessions/{session_id}/fs`.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/list", get(list))
        .route("/stat", get(stat))
        .route("/watch", get(version_watch))
        .route("/content", get(content::read).put(content::write))
        .route("/archive", get(content::archive))
        .route("/uploads", post(uploads::start))
        .route("/uploads/{upload_id}", get(uploads::get).patch(uploads::append).delete(uploads::give_up))
        .route("/folders", post(make_folder))
        .route("/rename", post(rename))
        .route("/copy", post(jobs::copy))
        .route("/entry", delete(jobs::delete))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{job_id}", delete(jobs::stop))
        // Content has a limit of its own.
        .layer(DefaultBodyLimit::disable())
}

/// `?path=` as it stands in the address, and the rest of the query.
#[derive(Debug)]
pub(super) struct Asked<T>(pub String, pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let (paths, rest): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| pair.split('=').next() == Some("path"));
        let [path] = paths[..] else {
            return Err(ApiError::new(ErrorCode::Invalid, "path must be in the query, once"));
        };
        let path = path.split_once('=').map(|(_, path)| path).unwrap_or_default();
        let rest: Uri =
            format!("/?{}", rest.join("&")).parse().map_err(|_| DomainError::invalid("the query cannot be read"))?;
        Ok(Self(checked(path)?.to_owned(), Query::try_from_uri(&rest)?.0))
    }
}

/// Refuses at once what cannot be a path. What it leads to is decided in the sandbox.
fn checked(path: &str) -> Result<&str, ApiError> {
    path::parts(path).map_err(|error| ApiError::new(ErrorCode::BadName, error.to_string()))?;
    Ok(path)
}

/// An answer that our own code does not expect there.
fn unexpected() -> ApiError {
    ApiError::new(ErrorCode::FilesUnavailable, "the sandbox's file service answered something else; try again")
}

fn entry_of(answer: Answer) -> Result<Json<FileEntry>, ApiError> {
    match answer {
        Answer::Entry(entry) => Ok(Json(*entry)),
        _ => Err(unexpected()),
    }
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// By name unless given.
    #[serde(default)]
    #[param(inline)]
    sort: SortBy,
    /// Ascending unless given.
    #[serde(default)]
    #[param(inline)]
    order: SortOrder,
    /// Only names that hold this text, whatever the case of ASCII letters.
    #[serde(default)]
    filter: String,
    /// `next` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 200 unless given. A page may be shorter.
    limit: Option<u32>,
}

/// A page of a folder. An empty path is the workspace.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/list", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"), Page),
    responses((status = 200, body = FolderPage), (status = 403, description = "It leads out of the workspace", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(super) async fn list(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, page): Asked<Page>,
) -> Result<Json<FolderPage>, ApiError> {
    let limit = page.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(DomainError::invalid(format!("limit is from 1 to {MAX_PAGE}")).into());
    }
    if page.filter.len() > MAX_FILTER {
        return Err(DomainError::invalid(format!("filter has at most {MAX_FILTER} bytes")).into());
    }
    let cursor = page.cursor.as_deref().map(from_cursor).transpose()?;
    let operation = Operation::List { path, sort: page.sort, order: page.order, filter: page.filter, cursor, limit };
    match find(&app, &allowed, &session)?.look_at_files(operation).await? {
        Answer::Page { path, version, total, entries, next } => {
            let name = display(last(&path::decode(&path).unwrap_or_default()));
            let next = next.map(|next| URL_SAFE_NO_PAD.encode(next));
            Ok(Json(FolderPage { path, name, version, total, entries, next }))
        }
        _ => Err(unexpected()),
    }
}

/// The helper's cursors hold encoded names; once more in letters, so that they survive any query library.
fn from_cursor(cursor: &str) -> Result<String, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| DomainError::invalid("cursor must be the `next` of a page before").into())
}

/// How to look.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Follow {
    /// Of a link, tell of what it leads to.
    #[serde(default)]
    follow: bool,
}

/// One file, folder or link.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/stat", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"), Follow),
    responses((status = 200, body = FileEntry), (status = "default", body = ErrorBody)))]
pub(super) async fn stat(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, Follow { follow }): Asked<Follow>,
) -> Result<Json<FileEntry>, ApiError> {
    entry_of(find(&app, &allowed, &session)?.look_at_files(Operation::Stat { path, follow }).await?)
}

/// What to wait for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Answers when the version is another one than this; at once without it.
    version: Option<String>,
    /// Seconds, 0 to 60, to wait for that.
    wait: Option<f64>,
}

/// Waits for a change of a folder (of what is in it: names, sizes, times; of more than 1,000 entries only names) or of a
/// file. Waiting is not use of the session.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/watch", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"), Change),
    responses((status = 200, body = WatchAnswer), (status = "default", body = ErrorBody)))]
pub(super) async fn version_watch(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, Change { version: known, wait }): Asked<Change>,
) -> Result<Json<WatchAnswer>, ApiError> {
    let until = Instant::now() + wait_time(wait)?;
    let session = app.state.sessions.get(allowed.tenant(), &session)?;
    let _place = session.watch_files()?;
    loop {
        let begun = Instant::now();
        let Answer::Version(version) = session.look_at_files(Operation::Version { path: path.clone() }).await? else {
            return Err(unexpected());
        };
        let changed = known.as_ref().is_some_and(|known| *known != version);
        let pause = (begun.elapsed() * PAUSE_PER_LOOK).clamp(LEAST_PAUSE, MOST_PAUSE);
        let left = until.saturating_duration_since(Instant::now());
        if changed || known.is_none() || left.is_zero() {
            return Ok(Json(WatchAnswer { version, changed }));
        }
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => {}
            () = app.state.shutdown.cancelled() => return Ok(Json(WatchAnswer { version, changed })),
        }
    }
}

/// Makes a folder, with its parents. One that is there is fine.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/fs/folders", tag = "files", params(("session_id" = String, Path)),
    request_body = MakeFolder, responses((status = 201, body = FileEntry), (status = "default", body = ErrorBody)))]
pub(super) async fn make_folder(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Body(MakeFolder { path }): Body<MakeFolder>,
) -> Result<(StatusCode, Json<FileEntry>), ApiError> {
    checked(&path)?;
    let session = find(&app, &allowed, &session)?;
    let made = session.change_files(allowed.principal(), Operation::MakeFolder { path }).await?;
    Ok((StatusCode::CREATED, entry_of(made)?))
}

/// Gives a file, folder or link another path.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/fs/rename", tag = "files", params(("session_id" = String, Path)),
    request_body = MoveEntry, responses((status = 200, body = FileEntry),
    (status = 409, description = "Something of that name is there already", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(super) async fn rename(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Body(MoveEntry { from, to, replace }): Body<MoveEntry>,
) -> Result<Json<FileEntry>, ApiError> {
    checked(&from)?;
    checked(&to)?;
    let session = find(&app, &allowed, &session)?;
    entry_of(session.change_files(allowed.principal(), Operation::Rename { from, to, replace }).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    async fn asked(address: &str) -> Result<(String, Follow), ErrorCode> {
        let (mut parts, ()) = Request::get(address).body(()).expect("a request").into_parts();
        let asked = Asked::<Follow>::from_request_parts(&mut parts, &()).await;
        asked.map(|Asked(path, rest)| (path, rest)).map_err(|error| error.0.code)
    }

    #[tokio::test]
    async fn a_path_is_taken_as_it_stands_in_the_address() {
        let (path, rest) = asked("/x?follow=true&path=a%20b%FF+c%26").await.expect("fine");
        assert_eq!((path.as_str(), rest.follow), ("a%20b%FF+c%26", true));
        assert!(!asked("/x?path=").await.expect("the workspace").1.follow);
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_is_refused_before_anything_is_asked() {
        assert_eq!(asked("/x?path=a/%2E%2e/b").await.expect_err("up"), ErrorCode::BadName);
        assert_eq!(asked("/x?path=a%00").await.expect_err("a byte 0"), ErrorCode::BadName);
        assert_eq!(asked("/x?path=a%4").await.expect_err("no escape"), ErrorCode::BadName);
        assert_eq!(asked("/x?path=a&path=b").await.expect_err("twice"), ErrorCode::Invalid);
        assert_eq!(asked("/x?follow=true").await.expect_err("none"), ErrorCode::Invalid);
        assert_eq!(asked("/x?path=a&other=1").await.expect_err("unknown"), ErrorCode::Invalid);
    }
}
