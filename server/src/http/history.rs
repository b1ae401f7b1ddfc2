//! `/v1/history`: ended sessions, and links to commands of live ones too; `/v1/search`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use glassbox_shared::command::{CommandList, CommandView};
use glassbox_shared::error::ErrorBody;
use glassbox_shared::history::{HistoryList, HistoryView, Purged, SearchResult, Timeline};
use glassbox_shared::session::EndReason;
use glassbox_shared::tools::ToolCallList;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::error::ApiError;
use super::extract::{InCommand, InSession, Parameters};
use super::output::{self, Range};
use super::principal::{self, Allowed};
use crate::error::DomainError;
use crate::history::{MAX_HITS, MAX_PAGE, MAX_QUERY};
use crate::store::HistoryFilter;

/// Entries in a page unless asked otherwise: a screenful and a half.
const DEFAULT_PAGE: usize = 50;
/// Hits in a page unless asked otherwise: a screenful.
const DEFAULT_HITS: usize = 20;

fn page_size(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, ApiError> {
    let limit = asked.unwrap_or(usual);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(DomainError::invalid(format!("limit is from 1 to {most}")).into())
}

/// Which ended sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Ended {
    /// `next` of the page before.
    before: Option<String>,
    /// 1 to 200; 50 unless given.
    limit: Option<usize>,
    /// Part of the name, the id or a command's text.
    q: Option<String>,
    /// Name of who made it.
    agent: Option<String>,
    /// Why it ended.
    state: Option<EndReason>,
}

/// The tenant's ended sessions, newest end first.
#[utoipa::path(get, path = "/v1/history", tag = "history", params(Ended),
    responses((status = 200, body = HistoryList), (status = "default", body = ErrorBody)))]
pub(super) async fn list(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    Parameters(asked): Parameters<Ended>,
) -> Result<Json<HistoryList>, ApiError> {
    let limit = page_size(asked.limit, DEFAULT_PAGE, MAX_PAGE)?;
    if asked.q.as_ref().is_some_and(|text| text.len() > MAX_QUERY) {
        return Err(DomainError::invalid(format!("q has at most {MAX_QUERY} bytes")).into());
    }
    let text = asked.q.filter(|text| !text.is_empty());
    let filter = HistoryFilter { text, maker: asked.agent, reason: asked.state };
    Ok(Json(app.state.history.list(allowed.tenant(), &filter, asked.before.as_deref(), limit).await?))
}

/// One session, live or ended.
#[utoipa::path(get, path = "/v1/history/{session_id}", tag = "history", params(("session_id" = String, Path)),
    responses((status = 200, body = HistoryView), (status = "default", body = ErrorBody)))]
pub(super) async fn get(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
) -> Result<Json<HistoryView>, ApiError> {
    Ok(Json(app.state.history.session(allowed.tenant(), &session).await?))
}

/// Removes an ended session for good: when this answers, no byte of it is left.
#[utoipa::path(delete, path = "/v1/history/{session_id}", tag = "history", params(("session_id" = String, Path)),
    responses((status = 200, body = Purged), (status = 409, description = "It has not ended", body = ErrorBody), (status = "default", body = ErrorBody)))]
pub(super) async fn purge(
    allowed: Allowed<principal::Purge>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
) -> Result<Json<Purged>, ApiError> {
    Ok(Json(app.state.history.purge(allowed.principal(), &session).await?))
}

/// Which part of the commands.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Numbers {
    /// `next` of the page before.
    before: Option<u64>,
    /// 1 to 200; 50 unless given.
    limit: Option<usize>,
}

/// A session's commands, newest first.
#[utoipa::path(get, path = "/v1/history/{session_id}/commands", tag = "history", params(("session_id" = String, Path), Numbers),
    responses((status = 200, body = CommandList), (status = "default", body = ErrorBody)))]
pub(super) async fn commands(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Parameters(page): Parameters<Numbers>,
) -> Result<Json<CommandList>, ApiError> {
    let limit = page_size(page.limit, DEFAULT_PAGE, MAX_PAGE)?;
    Ok(Json(app.state.history.commands(allowed.tenant(), &session, page.before, limit).await?))
}

/// One command.
#[utoipa::path(get, path = "/v1/history/{session_id}/commands/{command_id}", tag = "history",
    params(("session_id" = String, Path), ("command_id" = String, Path)),
    responses((status = 200, body = CommandView), (status = "default", body = ErrorBody)))]
pub(super) async fn command(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
) -> Result<Json<CommandView>, ApiError> {
    Ok(Json(app.state.history.command(allowed.tenant(), &session, &command).await?.view()))
}

/// A command's output from an offset on, as the live route has it.
#[utoipa::path(get, path = "/v1/history/{session_id}/commands/{command_id}/output", tag = "history",
    params(("session_id" = String, Path), ("command_id" = String, Path), Range), responses(
    (status = 200, description = "Bytes as the command wrote them", body = Vec<u8>, content_type = "application/octet-stream", headers(
        ("glassbox-offset" = u64, description = "Offset of the first byte of the body"),
        ("glassbox-next-offset" = u64, description = "Ask with this next"),
        ("glassbox-gap-bytes" = u64, description = "Bytes missing directly before the body"),
        ("glassbox-end" = bool, description = "No more output will come"),
        ("glassbox-command-state" = String, description = "The command's state word"),
    )),
    (status = 416, description = "The offset does not exist", body = ErrorBody),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn read(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
    Parameters(range): Parameters<Range>,
) -> Result<Response, ApiError> {
    output::part(&app, range, async { Ok(app.state.history.command(allowed.tenant(), &session, &command).await?) })
        .await
}

/// All output that is held, as a file.
#[utoipa::path(get, path = "/v1/history/{session_id}/commands/{command_id}/log", tag = "history",
    params(("session_id" = String, Path), ("command_id" = String, Path)), responses(
    (status = 200, description = "Bytes as the command wrote them; a gap is told in a line of its own", body = Vec<u8>, content_type = "application/octet-stream"),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn download(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, id): InCommand,
) -> Result<Response, ApiError> {
    let command = app.state.history.command(allowed.tenant(), &session, &id).await?;
    Ok(output::whole(&id, command.log().await?))
}

/// Which calls.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Calls {
    /// Only those about this command.
    command_id: Option<String>,
    /// `next` of the page before.
    before: Option<u64>,
    /// 1 to 200; 20 unless given. Each can have 30,000 characters.
    limit: Option<usize>,
}

/// What models were told in a session, newest first: each call of a tool, and the exact text that answered it.
#[utoipa::path(get, path = "/v1/history/{session_id}/tool-calls", tag = "history", params(("session_id" = String, Path), Calls),
    responses((status = 200, body = ToolCallList), (status = "default", body = ErrorBody)))]
pub(super) async fn tool_calls(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Parameters(Calls { command_id, before, limit }): Parameters<Calls>,
) -> Result<Json<ToolCallList>, ApiError> {
    let limit = page_size(limit, DEFAULT_HITS, MAX_PAGE)?;
    // What cannot be an id names nothing.
    let command = command_id.map(|id| id.parse().map_err(|_| DomainError::not_found("command"))).transpose()?;
    Ok(Json(app.state.history.tool_calls(allowed.tenant(), &session, command.as_ref(), before, limit).await?))
}

/// Which part of the time line.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Times {
    /// `next` of the page before.
    after: Option<String>,
    /// 1 to 200; 50 unless given.
    limit: Option<usize>,
}

/// What happened in a session, oldest first.
#[utoipa::path(get, path = "/v1/history/{session_id}/timeline", tag = "history", params(("session_id" = String, Path), Times),
    responses((status = 200, body = Timeline), (status = "default", body = ErrorBody)))]
pub(super) async fn timeline(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Parameters(page): Parameters<Times>,
) -> Result<Json<Timeline>, ApiError> {
    let limit = page_size(page.limit, DEFAULT_PAGE, MAX_PAGE)?;
    Ok(Json(app.state.history.timeline(allowed.tenant(), &session, page.after.as_deref(), limit).await?))
}

/// What to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Words, and "quoted words" in their order; all must occur near each other. The last four words with at least three
    /// letters stand for all words that begin with them, others for themselves. At most 16 words, in at most 256 bytes.
    q: String,
    /// `next` of the page before.
    before: Option<String>,
    /// 1 to 100; 20 unless given.
    limit: Option<usize>,
}

/// Searches in commands and their output, in all sessions of the tenant, live and ended.
#[utoipa::path(get, path = "/v1/search", tag = "history", params(Search),
    responses((status = 200, body = SearchResult), (status = "default", body = ErrorBody)))]
pub(super) async fn search(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    Parameters(asked): Parameters<Search>,
) -> Result<Json<SearchResult>, ApiError> {
    let limit = page_size(asked.limit, DEFAULT_HITS, MAX_HITS)?;
    Ok(Json(app.state.history.search(allowed.tenant(), &asked.q, asked.before.as_deref(), limit).await?))
}
