//! The outside world's requests into calls: REST, MCP, the live socket, the page. No rules of its own.
//!
//! Every request passes, in this order:
//!
//! ```text
//! client::settle      whose address, through which proxies, by HTTPS or not
//! request_id::frame   an id, a log line, the one error shape
//! headers             what every answer carries
//! guard::check        Host, Origin, no key in the address
//! Allowed<…>          key, role, rate (each handler's first argument, so before body and objects)
//! the handler         parses, calls the domain, translates
//! ```

mod assets;
mod client;
mod commands;
mod content_policy;
mod error;
mod extract;
mod files;
mod guard;
mod headers;
mod health;
mod history;
mod keys;
mod live;
mod mcp;
mod openapi;
mod output;
mod principal;
mod rate;
mod request_id;
mod serve;
mod sessions;
mod share;
mod sign_in;
#[cfg(test)]
mod tests;
pub mod tls;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Access;
use crate::error::DomainError;
use crate::feed::Feed;
use crate::history::History;
use crate::session::Sessions;
use crate::tools::Tools;

pub use openapi::document;
pub use serve::serve_http;

/// Largest body: a command of 120 KiB with its environment, escaped, fits several times. Files have
/// limits of their own.
const MAX_BODY: usize = 1024 * 1024;

/// What operators decide for this interface.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Addresses under which people reach the page, such as `https://glassbox.example.com`, besides the loopback ones.
    pub public_urls: Vec<String>,
    /// Proxies whose word counts about the client.
    pub trusted_proxies: Vec<IpNet>,
    /// HTTPS instead of HTTP.
    pub tls: Option<Arc<tls::Tls>>,
    /// Connections at once, without live sockets.
    pub max_connections: usize,
    /// Requests of a tenant's keys in a minute.
    pub requests_per_minute: u32,
    /// Requests of a tenant's pages in a minute.
    pub page_requests_per_minute: u32,
}

/// What handlers call.
#[derive(Debug, Clone)]
pub struct AppState {
    /// Sandboxes and their commands.
    pub sessions: Sessions,
    /// What models call.
    pub tools: Tools,
    /// What is left of ended ones, and the search.
    pub history: History,
    /// Keys and sign-ins.
    pub access: Access,
    /// What happens, for the page.
    pub feed: Feed,
    /// What operators decided.
    pub settings: Arc<HttpSettings>,
    /// Cancelled: answer what is waiting, close, end.
    pub shutdown: CancellationToken,
    /// Names this server process, see `glassbox_shared::live`.
    pub epoch: String,
}

/// The state with what only this interface needs.
#[derive(Debug)]
struct App {
    state: AppState,
    guard: guard::Guard,
    rates: rate::Rates,
    sockets: live::Sockets,
    mcp: mcp::Mcp,
    /// Connections at once.
    room: usize,
    /// Requests that are being answered, by the address behind a trusted proxy.
    behind_proxies: share::Shares,
    /// Live sockets and MCP sessions; they outlive their requests.
    tasks: TaskTracker,
}

impl App {
    fn new(state: AppState) -> Self {
        let settings = &state.settings;
        let tasks = TaskTracker::new();
        let room = serve::room_for_connections(settings.max_connections);
        Self {
            guard: guard::Guard::new(&settings.public_urls),
            rates: rate::Rates::new(settings.requests_per_minute, settings.page_requests_per_minute),
            sockets: live::Sockets::default(),
            room,
            behind_proxies: share::Shares::half_of(room),
            mcp: mcp::Mcp::new(&state, &tasks),
            tasks,
            state,
        }
    }
}

/// All routes, without a listener; for tests.
pub fn router(state: AppState) -> Router {
    router_of(Arc::new(App::new(state)))
}

fn router_of(app: Arc<App>) -> Router {
    let command = "/sessions/{session_id}/commands/{command_id}";
    let old_command = "/history/{session_id}/commands/{command_id}";
    let v1 = Router::new()
        .route("/sign-in", post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/me", get(sign_in::me))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route("/sessions/{session_id}", get(sessions::get).delete(sessions::delete))
        .route("/sessions/{session_id}/commands", get(commands::list).post(commands::run))
        .route(command, get(commands::get))
        .route(&format!("{command}/output"), get(output::read))
        .route(&format!("{command}/log"), get(output::download))
        .route(&format!("{command}/kill"), post(commands::kill))
        .route(&format!("{command}/signal"), post(commands::signal))
        .route("/tools", get(tools::schemas))
        .route("/sessions/{session_id}/tools/{name}", post(tools::call))
        .route("/history", get(history::list))
        .route("/history/{session_id}", get(history::get).delete(history::purge))
        .route("/history/{session_id}/timeline", get(history::timeline))
        .route("/history/{session_id}/tool-calls", get(history::tool_calls))
        .route("/history/{session_id}/commands", get(history::commands))
        .route(old_command, get(history::command))
        .route(&format!("{old_command}/output"), get(history::read))
        .route(&format!("{old_command}/log"), get(history::download))
        .route("/search", get(history::search))
        .nest("/sessions/{session_id}/fs", files::routes())
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{key_id}", delete(keys::revoke))
        .route("/ws", get(live::upgrade))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&app), stopping));

    Router::new()
        .nest("/v1", v1)
        .route("/mcp", post(mcp::serve).delete(mcp::serve).fallback(no_method))
        .route("/healthz", get(health::healthz))
        .route("/openapi.json", get(openapi::serve))
        .method_not_allowed_fallback(async || error::ApiError::method_not_allowed())
        .fallback_service(assets::router())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(Arc::clone(&app), guard::check))
        .layer(from_fn(headers::secure))
        .layer(from_fn(request_id::frame))
        .layer(from_fn_with_state(Arc::clone(&app), client::settle))
        .with_state(app)
}

/// While the server stops, sessions are put down one after the other. That one is not there any more then says nothing
/// about it, and a client must not take it for ended.
async fn stopping(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.status() == StatusCode::NOT_FOUND && app.state.shutdown.is_cancelled() {
        return error::ApiError(DomainError::shutting_down()).into_response();
    }
    response
}

/// `/v1/…` that does not exist. Asks for a key first, like everything there.
async fn no_route(_: principal::Allowed<principal::Anyone>) -> error::ApiError {
    error::ApiError::no_route()
}

/// A route of `/v1` with a method that it does not have.
async fn no_method(_: principal::Allowed<principal::Anyone>) -> error::ApiError {
    error::ApiError::method_not_allowed()
}
