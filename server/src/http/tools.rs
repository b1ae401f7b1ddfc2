//! `/v1/tools` and `…/tools/{name}`: what a model calls.

use std::pin::pin;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use glassbox_shared::error::{ErrorBody, ErrorCode};
use glassbox_shared::tools::{self, Format, ToolAnswer};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::App;
use super::error::ApiError;
use super::extract::{AnyJson, OfTool, Parameters};
use super::principal::{self, Allowed};
use super::sessions::find;
use crate::tools::Reader;

/// In whose form.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    /// `anthropic` unless given, or `openai`.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// The tools' schemas, as a list that goes to a model's API as it is.
#[utoipa::path(get, path = "/v1/tools", tag = "tools", params(How), responses(
    (status = 200, description = "A list in the form that was asked for", body = Vec<Object>),
    (status = "default", body = ErrorBody)))]
pub(super) async fn schemas(
    _: Allowed<principal::Watch>,
    Parameters(How { format }): Parameters<How>,
) -> Json<Vec<Value>> {
    Json(tools::schemas(format))
}

/// Who reads.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Reading {
    /// Tells several users of one key apart: each name has output of its own that it was not given yet.
    reader: Option<String>,
    /// What the agent is called, on its commands and in the page; the key's name unless given.
    agent: Option<String>,
}

/// Calls a tool. The body is the tool's input as the model wrote it; `text` is what the model reads. What goes wrong with
/// the call itself is a text that begins with `ERROR:` too, so every call has something to give back to the model.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/tools/{name}", tag = "tools",
    params(("session_id" = String, Path), ("name" = String, Path, description = "`shell_exec`, …"), Reading),
    request_body(content = Object, description = "The tool's input"), responses(
    (status = 200, body = ToolAnswer),
    (status = 404, description = "No such session", body = ErrorBody),
    (status = "default", body = ErrorBody)))]
pub(super) async fn call(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    OfTool(session, name): OfTool,
    Parameters(Reading { reader, agent }): Parameters<Reading>,
    AnyJson(input): AnyJson,
) -> Result<Json<ToolAnswer>, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let reader = Reader::new(allowed.principal(), reader.as_deref())?;
    let who = allowed.principal().called_as(agent.as_deref())?;
    let answer = app.state.tools.dispatch(&who, &session, &reader, &name, &input);
    let mut answer = pin!(answer);
    // It may wait for an hour; a key that is revoked meanwhile gets nothing more.
    let mut revocations = app.state.access.revocations();
    loop {
        tokio::select! {
            answer = &mut answer => return Ok(Json(answer)),
            Ok(()) = revocations.changed() => {
                if !app.state.access.still_valid(&allowed.caller.credential).await? {
                    return Err(ApiError::new(ErrorCode::Unauthorized, "the key is not valid any more: it was revoked"));
                }
            }
        }
    }
}
