//! `…/commands`: runs of shell commands.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use glassbox_shared::command::{CommandList, CommandView, KillCommand, RunCommand, SignalCommand, signal_number};
use glassbox_shared::error::ErrorBody;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::ApiError;
use super::extract::{Body, InCommand, InSession, OptionalBody, Parameters};
use super::principal::{self, Allowed};
use super::sessions::find;
use crate::error::DomainError;
use crate::session::MAX_PAGE;

/// Longest that one request may wait, in seconds: below the 60 s after which common proxies cut, with the answer's own
/// time inside; whoever wants to wait longer asks again.
pub(super) const MAX_WAIT: f64 = 60.0;
/// Commands in a page of the list unless asked otherwise: a screenful and a half.
const DEFAULT_PAGE: usize = 50;

/// The time that a request may wait.
pub(super) fn wait_time(seconds: Option<f64>) -> Result<Duration, ApiError> {
    let seconds = seconds.unwrap_or(0.0);
    if (0.0..=MAX_WAIT).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(DomainError::invalid(format!("wait is from 0 to {MAX_WAIT} seconds")).into())
}

/// Starts a command and answers at once.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/commands", tag = "commands", params(("session_id" = String, Path)),
    request_body = RunCommand, responses((status = 201, body = CommandView), (status = "default", body = ErrorBody)))]
pub(super) async fn run(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Body(request): Body<RunCommand>,
) -> Result<(StatusCode, Json<CommandView>), ApiError> {
    let session = find(&app, &allowed, &session)?;
    let who = allowed.principal().called_as(request.agent.as_deref())?;
    Ok((StatusCode::CREATED, Json(session.run(&who, request).await?)))
}

/// Which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// `next` of the page before.
    before: Option<u64>,
    /// 1 to 200; 50 unless given.
    limit: Option<usize>,
}

/// The session's commands, newest first.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/commands", tag = "commands", params(("session_id" = String, Path), Page),
    responses((status = 200, body = CommandList), (status = "default", body = ErrorBody)))]
pub(super) async fn list(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Parameters(page): Parameters<Page>,
) -> Result<Json<CommandList>, ApiError> {
    let limit = page.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(DomainError::invalid(format!("limit is from 1 to {MAX_PAGE}")).into());
    }
    Ok(Json(find(&app, &allowed, &session)?.commands(page.before, limit).await?))
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// Seconds, 0 to 60: answers when the command has ended, or after this time with its state then.
    wait: Option<f64>,
}

/// One command.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/commands/{command_id}", tag = "commands",
    params(("session_id" = String, Path), ("command_id" = String, Path), Wait),
    responses((status = 200, body = CommandView), (status = "default", body = ErrorBody)))]
pub(super) async fn get(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
    Parameters(Wait { wait }): Parameters<Wait>,
) -> Result<Json<CommandView>, ApiError> {
    let wait = wait_time(wait)?;
    let command = find(&app, &allowed, &session)?.command(&command).await?;
    let view = tokio::select! {
        view = command.wait_end(wait) => view,
        () = app.state.shutdown.cancelled() => command.view(),
    };
    Ok(Json(view))
}

/// Ends a command: TERM, a grace, KILL, for its whole tree. Answers when that was verified; `kill` in the answer says
/// what was needed and who survived.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/commands/{command_id}/kill", tag = "commands",
    params(("session_id" = String, Path), ("command_id" = String, Path)), request_body = KillCommand,
    responses((status = 200, body = CommandView), (status = 409, description = "It has ended already", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(super) async fn kill(
    allowed: Allowed<principal::Kill>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
    OptionalBody(request): OptionalBody<KillCommand>,
) -> Result<Json<CommandView>, ApiError> {
    let session = find(&app, &allowed, &session)?;
    Ok(Json(session.kill(allowed.principal(), &command, request).await?))
}

/// Sends a signal to the command's process group.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/commands/{command_id}/signal", tag = "commands",
    params(("session_id" = String, Path), ("command_id" = String, Path)), request_body = SignalCommand,
    responses((status = 200, body = CommandView), (status = 409, description = "It has ended already", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(super) async fn signal(
    allowed: Allowed<principal::Kill>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
    Body(SignalCommand { signal }): Body<SignalCommand>,
) -> Result<Json<CommandView>, ApiError> {
    let number =
        signal_number(&signal).ok_or_else(|| DomainError::invalid("unknown signal; use a name such as SIGINT"))?;
    let session = find(&app, &allowed, &session)?;
    Ok(Json(session.signal(allowed.principal(), &command, number).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_between_nothing_and_a_minute() {
        assert_eq!(wait_time(None).expect("none"), Duration::ZERO);
        assert_eq!(wait_time(Some(0.5)).expect("half"), Duration::from_millis(500));
        assert!(wait_time(Some(60.0)).is_ok());
        for wrong in [-1.0, 60.1, f64::NAN, f64::INFINITY] {
            assert!(wait_time(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
