//! `/healthz`: is anyone there? Needs no key and tells nothing but a number.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;

/// That the server answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `healthy`; a server that is not does not answer.
    status: &'static str,
    /// Live sessions of all tenants.
    active_sessions: usize,
}

/// Is the server there?
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, body = Health)), security(()))]
pub(super) async fn healthz(State(app): State<Arc<App>>) -> Json<Health> {
    Json(Health { status: "healthy", active_sessions: app.state.sessions.count() })
}
