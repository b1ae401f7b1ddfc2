//! `/mcp`: the tools for MCP clients, by Streamable HTTP.
//!
//! A request passes Host, Origin, key, role and rate like any other; what it says is then rmcp's business. Ours is:
//!
//! ```text
//! seats    MCP sessions: whose they are, how many, and who else is in a workspace
//! place    which sandbox a client means; it is made at the first call that needs one
//! handler  tools/list and tools/call: a call's progress, its cancellation
//! call     one call: its time, its sandbox, what there is to say besides; all of it written down
//! listed   what is listed, with annotations, and what the model is told of the sandbox
//! more     the tools that only MCP has: run_command, sandbox_info, reset_sandbox, activity
//! ```
//!
//! Only versions of the protocol with sessions are spoken, which end before 2026-07-28. There is no stream that a client opens by GET: this server never speaks first, and a connection that says nothing would be
//! taken from those that do.

mod call;
mod handler;
mod listed;
mod more;
mod place;
mod seats;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, header};
use axum::response::Response;
use glassbox_shared::error::{ErrorBody, ErrorCode};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::ApiError;
use super::principal::{self, Allowed, Caller, X_API_KEY};
use super::share::Held;
use super::{App, AppState, MAX_BODY, extract};
use crate::error::DomainError;
use handler::Handler;
use place::{Place, Places};
use seats::{SEAT_TIME, Seat, Seats};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// What `/mcp` needs of the server.
pub(super) struct Mcp {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    protocol: Arc<LocalSessionManager>,
    seats: Seats,
}

/// What calls need, whoever makes them.
#[derive(Debug)]
struct Shared {
    state: AppState,
    places: Places,
}

/// Who asks, beside the request on its way through rmcp.
#[derive(Debug, Clone)]
struct Visitor {
    caller: Caller,
    /// `None`: a request that begins none and needs none.
    seat: Option<Arc<Seat>>,
    /// Cancelled: nobody waits for the answer any more.
    gone: CancellationToken,
}

impl std::fmt::Debug for Mcp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // rmcp's service has none.
        formatter.debug_struct("Mcp").field("seats", &self.seats).finish_non_exhaustive()
    }
}

impl Mcp {
    /// Handlers count in `tasks` as long as they live.
    pub(super) fn new(state: &AppState, tasks: &TaskTracker) -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(SEAT_TIME);
        config.sse_retry = None;
        let mut protocol = LocalSessionManager::default();
        protocol.session_config = config;
        let protocol = Arc::new(protocol);
        // Host and Origin were checked before, by the server's own lists (`guard`); rmcp's knows no proxies.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            // Answers are not kept for clients that come back: a call that nobody waits for is given up (`Visitor::gone`).
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(state.shutdown.child_token());
        let shared = Arc::new(Shared { state: state.clone(), places: Places::default() });
        let tasks = tasks.clone();
        let handler = move || Ok(Handler::new(Arc::clone(&shared), tasks.token()));
        Self {
            service: StreamableHttpService::new(handler, Arc::clone(&protocol), config),
            protocol,
            seats: Seats::default(),
        }
    }

    /// The seat that a request sits in, or a new one if it begins a session.
    async fn seat(
        &self,
        caller: &Caller,
        place: &Place,
        parts: &Parts,
        message: &Message,
    ) -> Result<Option<Arc<Seat>>, ApiError> {
        let mut ids = parts.headers.get_all(SESSION_ID).iter();
        if let Some(id) = ids.next() {
            let only = ids.next().is_none();
            let seat = id.to_str().ok().filter(|_| only).and_then(|id| self.seats.find(id, &caller.credential));
            let missing = "there is no such MCP session (any more); begin a new one with initialize";
            return seat.map(Some).ok_or_else(|| ApiError::new(ErrorCode::NotFound, missing));
        }
        if parts.method != Method::POST || !message.begins() {
            return Ok(None);
        }
        let taken = self.seats.take(caller, place)?;
        if let Some(left) = taken.instead_of {
            // It is nobody's any more, whatever rmcp says to its end.
            if let Err(error) = self.protocol.close_session(&left).await {
                tracing::debug!(%error, "an MCP session that made room was gone already");
            }
        }
        Ok(Some(taken.seat))
    }
}

/// As much of a message as is looked at here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    method: Option<String>,
    id: Option<Value>,
}

impl Message {
    /// What is none is rmcp's to refuse.
    fn of(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Does it begin a session?
    fn begins(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }
}

/// A caller with a key. Pages have no business here, so the sign-in cookie counts for nothing.
#[derive(Debug)]
pub(super) struct ByKey(Allowed<principal::Watch>);

impl FromRequestParts<Arc<App>> for ByKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        parts.headers.remove(header::COOKIE);
        Ok(Self(Allowed::from_request_parts(parts, app).await?))
    }
}

/// Speaks MCP (Streamable HTTP). One sandbox for each key, profile and workspace, made at the first call of a tool that
/// needs one. `?workspace=` names it (`default` unless given), `?profile=open` makes it an open one. Errors of the
/// protocol itself have its form, with the statuses that it demands.
#[utoipa::path(post, path = "/mcp", tag = "mcp", params(place::Asked), request_body(content = Object, description = "A JSON-RPC message"),
    responses(
        (status = 200, description = "A JSON-RPC message, or a stream of server-sent events with several"),
        (status = 202, description = "Taken; there is nothing to answer"),
        (status = 404, description = "No such MCP session", body = ErrorBody),
        (status = "default", body = ErrorBody)))]
pub(super) async fn serve(
    ByKey(allowed): ByKey,
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = allowed.caller;
    let place = Place::asked(&caller.principal, request.uri())?;
    let (mut parts, body) = extract::in_pieces(request).await?;
    let message = Message::of(&body);
    let seat = match app.mcp.seat(&caller, &place, &parts, &message).await {
        // Sessions end before the server does. That one is gone then says nothing about it.
        Err(_) if app.state.shutdown.is_cancelled() => return Err(DomainError::shutting_down().into()),
        seat => seat?,
    };
    // What lies behind needs none of it, and might write it down.
    for secret in [X_API_KEY, header::AUTHORIZATION, header::COOKIE] {
        parts.headers.remove(secret);
    }
    let is_new = seat.is_some() && !parts.headers.contains_key(SESSION_ID);
    // Two of one id would get each other's answers, and one of them none.
    let asking = match (&seat, message) {
        (Some(seat), Message { method: Some(_), id: Some(id) }) => Some(seat.ask(&id)?),
        _ => None,
    };
    let gone = CancellationToken::new();
    let leaving = gone.clone().drop_guard();
    parts.extensions.insert(Visitor { caller, seat: seat.clone(), gone });
    let response = app.mcp.service.handle(Request::from_parts(parts, Body::from(body))).await;
    if let Some(seat) = seat.filter(|_| is_new)
        && let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok())
    {
        seat.called(id);
    }
    // Nobody waits any more once the body was sent, or dropped half-way.
    Ok(response.map(|body| Held::hold(Body::new(body), (leaving, asking))))
}
