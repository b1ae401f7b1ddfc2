//! `…/fs/copy` and `DELETE …/fs/entry`: what may take long tells how far it is, and ends with its connection.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use glassbox_shared::error::ErrorBody;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::files::{JobDone, JobError, JobLine, JobProgress, MoveEntry};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::App;
use super::super::error::ApiError;
use super::super::extract::{Body, InSession};
use super::super::principal::{self, Allowed};
use super::super::sessions::find;
use super::pump::{self, Piece, Pieces};
use super::{Asked, checked, unexpected};
use crate::error::DomainError;
use crate::files::{Call, Said};

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
    lines(&app, session.write_files(allowed.principal(), Operation::Copy { from, to, replace }).await?).await
}

/// How to delete.
#[derive(Debug, Deserialize, IntoParams)]
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
    lines(&app, session.write_files(allowed.principal(), Operation::Delete { path, recursive }).await?).await
}

/// The first word decides about the status; the others are lines.
async fn lines(app: &Arc<App>, mut call: Call) -> Result<Response, ApiError> {
    let first = line(call.next().await?)?;
    let over = !matches!(first, JobLine::Progress(_));
    let body = pump::body(app, move |pieces| tell(call, first, over, pieces));
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], body).into_response())
}

async fn tell(mut call: Call, first: JobLine, mut over: bool, pieces: Pieces) {
    let mut next = first;
    loop {
        let Ok(mut text) = serde_json::to_vec(&next) else { return };
        text.push(b'\n');
        if !pump::give(&pieces, Piece::Bytes(Bytes::from(text))).await {
            return;
        }
        if over {
            pump::give(&pieces, Piece::End).await;
            return;
        }
        let said = tokio::select! {
            said = call.next() => said,
            () = pieces.closed() => return,
        };
        next = match said.map_err(ApiError).and_then(line) {
            Ok(line) => line,
            Err(ApiError(DomainError { code, detail, .. })) => JobLine::Error(JobError { code, detail }),
        };
        over = !matches!(next, JobLine::Progress(_));
    }
}

fn line(said: Said) -> Result<JobLine, ApiError> {
    Ok(match said {
        Said::Progress(progress) => {
            JobLine::Progress(JobProgress { done: progress.done, bytes: progress.bytes, path: progress.path })
        }
        Said::Done(answer) => match *answer {
            Answer::Job { done, bytes, skipped, entry } => {
                JobLine::Done(JobDone { done, bytes, skipped, entry: entry.map(|entry| *entry) })
            }
            _ => return Err(unexpected()),
        },
        Said::Head(_) | Said::Data(_) => return Err(unexpected()),
    })
}
