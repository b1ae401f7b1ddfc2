//! `…/fs/copy` and `DELETE …/fs/entry`: what may take long tells how far it is, and ends with its connection. `…/fs/jobs`
//! lists such work, and stops it.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use glassbox_shared::error::{ErrorBody, ErrorCode};
use glassbox_shared::files::frames::Operation;
use glassbox_shared::files::{JobError, JobLine, JobList, JobView, MoveEntry};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::App;
use super::super::error::ApiError;
use super::super::extract::{Body, InSession};
use super::super::principal::{self, Allowed};
use super::super::sessions::find;
use super::pump::{self, Piece, Pieces};
use super::{Asked, checked};
use crate::error::DomainError;
use crate::session::{Job, JobWord};

/// Copies a file, a link, or a folder with all that is in it. The copy appears when it is complete. What is refused at
/// once is an ordinary error; else lines tell how far it is. Closing the connection cancels.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/fs/copy", tag = "files", params(("session_id" = String, Path)),
    request_body = MoveEntry, responses(
        (status = 200, description = "One JSON object a line", body = JobLine, content_type = "application/x-ndjson"),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn copy(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Body(MoveEntry { from, to, replace }): Body<MoveEntry>,
) -> Result<Response, ApiError> {
    checked(&from)?;
    checked(&to)?;
    let session = find(&app, &allowed, &session)?;
    lines(&app, session.start_job(allowed.principal(), Operation::Copy { from, to, replace }).await?).await
}

/// How to delete.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct How {
    /// A folder with all that is in it; else only an empty one.
    #[serde(default)]
    recursive: bool,
}

/// Deletes a file, a link (never what it leads to), or a folder. What is refused at once is an ordinary error; else lines
/// tell how far it is. Closing the connection cancels; what was deleted by then is gone.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}/fs/entry", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"), How), responses(
        (status = 200, description = "One JSON object a line", body = JobLine, content_type = "application/x-ndjson"),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn delete(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, How { recursive }): Asked<How>,
) -> Result<Response, ApiError> {
    let session = find(&app, &allowed, &session)?;
    lines(&app, session.start_job(allowed.principal(), Operation::Delete { path, recursive }).await?).await
}

/// Copies and deletions that are under way, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/jobs", tag = "files", params(("session_id" = String, Path)),
    responses((status = 200, body = JobList), (status = "default", body = ErrorBody)))]
pub(in super::super) async fn list(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
) -> Result<Json<JobList>, ApiError> {
    Ok(Json(find(&app, &allowed, &session)?.jobs()))
}

/// Stops a copy or a deletion, and answers when it has stopped. As killing a command, this needs no control of the session. A
/// copy leaves nothing; what was deleted by then is gone.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}/fs/jobs/{job_id}", tag = "files",
    params(("session_id" = String, Path), ("job_id" = String, Path)), responses(
        (status = 200, description = "It has stopped, when so much was done", body = JobView),
        (status = 409, description = "It was done already", body = ErrorBody),
        (status = 503, description = "That it stopped could not be verified", body = ErrorBody),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn stop(
    allowed: Allowed<principal::Kill>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    ids: Path<(String, String)>,
) -> Result<Json<JobView>, ApiError> {
    let Path((_, job)) = ids;
    Ok(Json(find(&app, &allowed, &session)?.stop_job(allowed.principal(), &job).await?))
}

/// The first word decides about the status; the others are lines.
async fn lines(app: &Arc<App>, mut job: Job) -> Result<Response, ApiError> {
    let first = job.next().await;
    if let JobWord::Failed(error) = &first {
        return Err(ApiError(again(error)));
    }
    let body = pump::body(app, move |pieces| tell(job, first, pieces));
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], body).into_response())
}

async fn tell(mut job: Job, first: JobWord, pieces: Pieces) {
    let mut word = first;
    loop {
        let over = word.is_last();
        let Ok(mut text) = serde_json::to_vec(&line(word)) else { return };
        text.push(b'\n');
        if !pump::give(&pieces, Piece::Bytes(Bytes::from(text))).await {
            return;
        }
        if over {
            pump::give(&pieces, Piece::End).await;
            return;
        }
        word = tokio::select! {
            word = job.next() => word,
            () = pieces.closed() => return,
        };
    }
}

/// The same once more; its cause, which is for the log, stays where it is.
fn again(error: &DomainError) -> DomainError {
    let told = DomainError::new(error.code, error.detail.clone());
    DomainError { retry_after: error.retry_after, ..told }
}

fn line(word: JobWord) -> JobLine {
    match word {
        JobWord::Progress(progress) => JobLine::Progress(progress),
        JobWord::Done(done) => JobLine::Done(done),
        JobWord::Stopped { by, .. } => {
            let by = by.map(|by| format!(" by {}", by.name())).unwrap_or_default();
            JobLine::Error(JobError { code: ErrorCode::Conflict, detail: format!("this was stopped{by}") })
        }
        JobWord::Failed(error) => JobLine::Error(JobError { code: error.code, detail: error.detail.clone() }),
    }
}
