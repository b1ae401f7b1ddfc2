//! `/v1/sessions`: sandboxes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use glassbox_shared::error::ErrorBody;
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{CreateSession, SessionList, SessionView};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::error::ApiError;
use super::extract::{Body, InSession};
use super::principal::{self, Allowed, Permission};
use crate::session::Session;

/// The session of this id, as far as the caller may know it.
pub(super) fn find<P: Permission>(app: &App, allowed: &Allowed<P>, id: &SessionId) -> Result<Session, ApiError> {
    let session = app.state.sessions.get(allowed.tenant(), id)?;
    if allowed.caller.looking_is_use() {
        session.touch();
    }
    Ok(session)
}

/// Makes a sandbox. Answers when commands can run in it.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = CreateSession, responses(
    (status = 201, description = "It is ready", body = SessionView),
    (status = "default", description = "Nothing was started", body = ErrorBody),
))]
pub(super) async fn create(
    allowed: Allowed<principal::CreateSession>,
    State(app): State<Arc<App>>,
    Body(request): Body<CreateSession>,
) -> Result<(StatusCode, Json<SessionView>), ApiError> {
    let who = allowed.principal().called_as(request.agent.as_deref())?;
    Ok((StatusCode::CREATED, Json(app.state.sessions.create(&who, request).await?)))
}

/// The tenant's sessions, newest first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", responses(
    (status = 200, body = SessionList), (status = "default", body = ErrorBody),
))]
pub(super) async fn list(allowed: Allowed<principal::Watch>, State(app): State<Arc<App>>) -> Json<SessionList> {
    let sessions = app.state.sessions.list(allowed.tenant());
    Json(SessionList { tenant_id: allowed.tenant().to_owned(), sessions })
}

/// One session.
#[utoipa::path(get, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path)), responses(
    (status = 200, body = SessionView), (status = "default", body = ErrorBody),
))]
pub(super) async fn get(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(id): InSession,
) -> Result<Json<SessionView>, ApiError> {
    Ok(Json(find(&app, &allowed, &id)?.view()))
}

/// Answer to the deletion of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Terminated {
    /// Always `terminated`.
    status: &'static str,
}

/// Ends a session. Sandbox, files and secrets are gone when this answers.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path)), responses(
    (status = 200, body = Terminated), (status = "default", body = ErrorBody),
))]
pub(super) async fn delete(
    allowed: Allowed<principal::DeleteSession>,
    State(app): State<Arc<App>>,
    InSession(id): InSession,
) -> Result<Json<Terminated>, ApiError> {
    app.state.sessions.delete(allowed.principal(), &id).await?;
    Ok(Json(Terminated { status: "terminated" }))
}
