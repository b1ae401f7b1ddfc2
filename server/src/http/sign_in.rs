//! `/v1/sign-in`, `/v1/sign-out`, `/v1/me`: the page's cookie.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::error::{ErrorBody, ErrorCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::client::Client;
use super::error::ApiError;
use super::extract::Body;
use super::principal::{self, Allowed, COOKIE, cookie_of};
use super::rate::{Kind, whole_seconds};
use crate::control::Principal;
use crate::error::DomainError;

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// Whose sessions can be seen.
    tenant_id: String,
    /// What may be done.
    role: Role,
    /// Who is written down.
    actor: Actor,
    /// The server's version.
    version: &'static str,
}

impl From<&Principal> for Me {
    fn from(principal: &Principal) -> Self {
        Self {
            tenant_id: principal.tenant.clone(),
            role: principal.role,
            actor: principal.actor.clone(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// A key, or the one-time token of a link; and a name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// A key.
    key: Option<String>,
    /// The part of a sign-in link after `#`.
    link: Option<String>,
    /// The human's name, shown and recorded with every act.
    name: String,
}

/// Signs a human in: the answer sets the cookie.
#[utoipa::path(post, path = "/v1/sign-in", tag = "sign-in", request_body = SignIn, security(()), responses(
    (status = 200, description = "Signed in; the cookie is set", body = Me),
    (status = 401, description = "The key is not valid, or the link was used or is too old", body = ErrorBody),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn sign_in(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Body(asked): Body<SignIn>,
) -> Result<Response, ApiError> {
    let access = &app.state.access;
    // Counted before it is known whether it fails, so that many at once are no way around; given back when it does not.
    let counted_as = client.counted_as();
    app.rates.take(&counted_as, Kind::SignIn, Instant::now()).map_err(|wait| {
        let seconds = whole_seconds(wait);
        DomainError::new(
            ErrorCode::RateLimited,
            format!("too many sign-ins failed from your address; try again in {seconds} s"),
        )
        .retry_after(seconds)
    })?;
    let signed_in = match (&asked.key, &asked.link) {
        (Some(key), None) => access.sign_in_with_key(key, &asked.name).await?,
        (None, Some(link)) => access.sign_in_with_link(link, &asked.name).await?,
        _ => return Err(DomainError::invalid("give either key or link").into()),
    };
    let cookie = set_cookie(&signed_in.cookie, signed_in.max_age_seconds, client.https)?;
    app.rates.give_back(&counted_as, Kind::SignIn);
    Ok(([(header::SET_COOKIE, cookie)], Json(Me::from(&signed_in.identity.principal))).into_response())
}

/// Signs out: the cookie is worth nothing any more, here and in other tabs. Works also when it was worth nothing before.
#[utoipa::path(post, path = "/v1/sign-out", tag = "sign-in", security(()), responses((status = 204, description = "Signed out")))]
pub(super) async fn sign_out(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(cookie) = cookie_of(&headers) {
        app.state.access.sign_out(cookie).await?;
    }
    let removed = set_cookie("", 0, client.https)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, removed)]).into_response())
}

/// Who am I?
#[utoipa::path(get, path = "/v1/me", tag = "sign-in", responses((status = 200, body = Me), (status = "default", body = ErrorBody)))]
pub(super) async fn me(allowed: Allowed<principal::Anyone>) -> Json<Me> {
    Json(Me::from(allowed.principal()))
}

/// Scripts cannot read it, other sites' pages cannot send it.
fn set_cookie(value: &str, max_age_seconds: u64, https: bool) -> Result<HeaderValue, ApiError> {
    let secure = if https { "; Secure" } else { "" };
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_seconds}{secure}");
    HeaderValue::try_from(text).map_err(|error| {
        ApiError(DomainError::new(ErrorCode::Internal, "the sign-in could not be written down").because(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_for_this_site_and_no_script() {
        let text = |secure| set_cookie("abc", 60, secure).expect("a header").to_str().expect("text").to_owned();
        assert_eq!(text(false), "glassbox_session=abc; Path=/; HttpOnly; SameSite=Strict; Max-Age=60");
        assert!(text(true).ends_with("; Secure"));
    }
}
