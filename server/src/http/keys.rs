//! `/v1/keys`: the tenant's own keys, for operators.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use glassbox_shared::actor::Role;
use glassbox_shared::error::ErrorBody;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::error::ApiError;
use super::extract::{OfKey, OptionalBody};
use super::principal::{self, Allowed};
use crate::access::KeyView;

/// All keys of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    /// Whose.
    tenant_id: String,
    /// Active ones first.
    keys: Vec<KeyView>,
}

/// What a new key shall be.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CreateKey {
    /// A name for people; the role's word unless given.
    name: Option<String>,
    /// `agent` unless given.
    role: Option<Role>,
}

/// A new key, with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NewKey {
    #[serde(flatten)]
    key: KeyView,
    /// The secret, shown this once.
    api_key: String,
    /// That it is shown only once.
    note: &'static str,
}

/// The tenant's keys.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", responses((status = 200, body = KeyList), (status = "default", body = ErrorBody)))]
pub(super) async fn list(
    allowed: Allowed<principal::ManageKeys>,
    State(app): State<Arc<App>>,
) -> Result<Json<KeyList>, ApiError> {
    let keys = app.state.access.list_keys(allowed.tenant()).await?;
    Ok(Json(KeyList { tenant_id: allowed.tenant().to_owned(), keys }))
}

/// Makes a key.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = CreateKey, responses(
    (status = 201, body = NewKey), (status = "default", body = ErrorBody),
))]
pub(super) async fn create(
    allowed: Allowed<principal::ManageKeys>,
    State(app): State<Arc<App>>,
    OptionalBody(asked): OptionalBody<CreateKey>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let role = asked.role.unwrap_or(Role::Agent);
    let name = asked.name.unwrap_or_else(|| role.as_str().to_owned());
    let (key, api_key) = app.state.access.create_key(allowed.tenant(), &name, role).await?;
    let note = "keep it now: it is shown only this once, and only its hash is stored";
    Ok((StatusCode::CREATED, Json(NewKey { key, api_key, note })))
}

/// Revokes a key, at once and on open connections too.
#[utoipa::path(delete, path = "/v1/keys/{key_id}", tag = "keys", params(("key_id" = String, Path)), responses(
    (status = 200, body = KeyView), (status = "default", body = ErrorBody),
))]
pub(super) async fn revoke(
    allowed: Allowed<principal::ManageKeys>,
    State(app): State<Arc<App>>,
    OfKey(id): OfKey,
) -> Result<Json<KeyView>, ApiError> {
    Ok(Json(app.state.access.revoke_key(allowed.tenant(), &id).await?))
}
