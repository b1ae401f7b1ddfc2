//! `…/fs/uploads`: large files in pieces, so that a broken connection costs a piece and not the whole.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use glassbox_shared::error::ErrorBody;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::files::{StartUpload, UploadProgress, UploadView};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::App;
use super::super::error::ApiError;
use super::super::extract::{Body, InSession, Parameters};
use super::super::principal::{self, Allowed};
use super::super::sessions::find;
use super::{checked, content, pump, unexpected};
use crate::error::DomainError;
use crate::ids;

/// Random characters of an upload's id.
const ID: usize = 20;

/// What is not an id names nothing.
fn known(ids: Path<(String, String)>) -> Result<String, ApiError> {
    let Path((_, id)) = ids;
    let fits =
        id.len() == ID + 4 && id.starts_with("upl_") && id.bytes().skip(4).all(|byte| byte.is_ascii_alphanumeric());
    if fits { Ok(id) } else { Err(DomainError::not_found("upload").into()) }
}

fn view(id: String, answer: Answer) -> Result<Json<UploadView>, ApiError> {
    match answer {
        Answer::Upload { offset, size, .. } => Ok(Json(UploadView { upload_id: id, offset, size })),
        _ => Err(unexpected()),
    }
}

/// Begins an upload. The file appears when all of it has arrived. Given up when nothing is added for 15 minutes.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/fs/uploads", tag = "files", params(("session_id" = String, Path)),
    request_body = StartUpload, responses((status = 201, body = UploadView),
        (status = 507, description = "It would not fit on the sandbox's disk", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(in super::super) async fn start(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Body(StartUpload { path, size, replace }): Body<StartUpload>,
) -> Result<(StatusCode, Json<UploadView>), ApiError> {
    checked(&path)?;
    let session = find(&app, &allowed, &session)?;
    if size > session.largest_file() {
        return Err(content::too_large(session.largest_file()).into());
    }
    let id = format!("upl_{}", ids::random_characters(ID));
    let operation = Operation::StartUpload { id: id.clone(), path, size, replace };
    Ok((StatusCode::CREATED, view(id, session.change_files(allowed.principal(), operation).await?)?))
}

/// How far an upload is.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/uploads/{upload_id}", tag = "files",
    params(("session_id" = String, Path), ("upload_id" = String, Path)),
    responses((status = 200, body = UploadView), (status = "default", body = ErrorBody)))]
pub(in super::super) async fn get(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    ids: Path<(String, String)>,
) -> Result<Json<UploadView>, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let id = known(ids)?;
    view(id.clone(), session.change_files(allowed.principal(), Operation::Upload { id }).await?)
}

/// Where a piece belongs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct At {
    /// The upload's own offset.
    offset: u64,
}

/// Adds a piece. What has arrived when the connection breaks off stays: ask how far it is, and go on there.
#[utoipa::path(patch, path = "/v1/sessions/{session_id}/fs/uploads/{upload_id}", tag = "files",
    params(("session_id" = String, Path), ("upload_id" = String, Path), At),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = UploadProgress), (status = 409, description = "The upload is somewhere else", body = ErrorBody),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn append(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    ids: Path<(String, String)>,
    Parameters(At { offset }): Parameters<At>,
    request: Request,
) -> Result<Json<UploadProgress>, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let id = known(ids)?;
    let body = request.into_body();
    let change = match session.write_files(allowed.principal(), Operation::Append { id, offset }).await {
        Ok(change) => change,
        Err(error) => return Err(pump::refuse(body, error).await),
    };
    match pump::into(&session, change, body).await? {
        Answer::Upload { offset, entry, .. } => Ok(Json(UploadProgress { offset, entry: entry.map(|entry| *entry) })),
        _ => Err(unexpected()),
    }
}

/// Gives an upload up.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}/fs/uploads/{upload_id}", tag = "files",
    params(("session_id" = String, Path), ("upload_id" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = "default", body = ErrorBody)))]
pub(in super::super) async fn give_up(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    ids: Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let id = known(ids)?;
    session.change_files(allowed.principal(), Operation::DropUpload { id }).await?;
    Ok(StatusCode::NO_CONTENT)
}
