//! Who asks, and may they: the key header or the sign-in cookie becomes an [`Allowed`], which every handler behind a key
//! takes first. So the order is always the same: key, role, rate; then body and objects.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use glassbox_shared::actor::Role;
use glassbox_shared::error::ErrorCode;

use super::App;
use super::error::ApiError;
use super::rate::{Kind, whole_seconds};
use crate::access::{Access, Credential, Identity};
use crate::control::{self, Act, Principal};
use crate::error::DomainError;

/// The cookie of a signed-in page.
pub(super) const COOKIE: &str = "glassbox_session";
/// The header with the key.
pub(super) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who asks, and by what.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Tenant, role and name.
    pub principal: Principal,
    /// What it showed; open connections show it again now and then.
    pub credential: Credential,
    kind: Kind,
}

impl Caller {
    /// Does merely looking count as use of a session? A program that asks for its sandbox uses it; a human who watches,
    /// and a viewer's program, must not keep it alive.
    pub(super) fn looking_is_use(&self) -> bool {
        self.kind == Kind::Api && matches!(self.principal.role, Role::Agent | Role::Operator)
    }
}

/// What a route asks for; `None`: any valid key.
pub(super) trait Permission: Send + Sync {
    /// Checked against the role before anything else of the request is read.
    const ACT: Option<Act>;
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident = $act:expr),+ $(,)?) => {
        $($(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $name;

        impl Permission for $name {
            const ACT: Option<Act> = $act;
        })+
    };
}

permissions! {
    /// Any valid key, an admin's too.
    Anyone = None,
    /// See sessions, commands and output.
    Watch = Some(Act::Watch),
    /// Make a session.
    CreateSession = Some(Act::CreateSession),
    /// End a session.
    DeleteSession = Some(Act::DeleteSession),
    /// Run a command.
    Run = Some(Act::Run),
    /// Kill or signal a command, stop a copy or a deletion.
    Kill = Some(Act::Kill),
    /// Remove an ended session for good.
    Purge = Some(Act::Purge),
    /// Keys of the tenant.
    ManageKeys = Some(Act::ManageKeys),
}

/// A caller whose key, role and rate were checked, in this order.
#[derive(Debug)]
pub(super) struct Allowed<P: Permission> {
    pub caller: Caller,
    asked: PhantomData<P>,
}

impl<P: Permission> Allowed<P> {
    /// Who is written down.
    pub(super) fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    /// Whose objects can be seen.
    pub(super) fn tenant(&self) -> &str {
        &self.caller.principal.tenant
    }
}

impl<P: Permission> FromRequestParts<Arc<App>> for Allowed<P> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let caller = recognise(&app.state.access, &parts.headers).await?;
        if let Some(act) = P::ACT {
            control::may(&caller.principal, act)?;
        }
        app.rates.take(&caller.principal.tenant, caller.kind, Instant::now()).map_err(|wait| {
            let seconds = whole_seconds(wait);
            DomainError::new(ErrorCode::RateLimited, format!("too many requests; try again in {seconds} s"))
                .retry_after(seconds)
        })?;
        Ok(Self { caller, asked: PhantomData })
    }
}

/// Whose key or cookie it is.
async fn recognise(access: &Access, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let refused = |detail: &str| ApiError::new(ErrorCode::Unauthorized, detail);
    let wrong = || refused("the key is not valid: it may be mistyped or revoked");
    let (identity, kind) = match key_of(headers) {
        Shown::Key(key) => (access.authenticate_key(key).await?.ok_or_else(wrong)?, Kind::Api),
        Shown::Unreadable => return Err(wrong()),
        Shown::Nothing => {
            let cookie = cookie_of(headers)
                .ok_or_else(|| refused("a key is needed: send it in the X-API-Key header, or sign in"))?;
            let ended = || refused("this sign-in has ended; sign in again");
            (access.authenticate_cookie(cookie).await?.ok_or_else(ended)?, Kind::Page)
        }
    };
    let Identity { principal, credential } = identity;
    Ok(Caller { principal, credential, kind })
}

/// What the key headers say.
#[derive(Debug, PartialEq, Eq)]
enum Shown<'a> {
    Key(&'a str),
    /// Not text, sent twice, or empty: never a valid key, and never a reason to look at the cookie instead.
    Unreadable,
    Nothing,
}

fn key_of(headers: &HeaderMap) -> Shown<'_> {
    let mut keys = headers.get_all(X_API_KEY).iter();
    if let Some(key) = keys.next() {
        return match key.to_str() {
            Ok(key) if !key.is_empty() && keys.next().is_none() => Shown::Key(key),
            _ => Shown::Unreadable,
        };
    }
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let Some(authorization) = authorizations.next() else { return Shown::Nothing };
    let bearer = authorization
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match bearer {
        Some((_, key)) if !key.trim().is_empty() && authorizations.next().is_none() => Shown::Key(key.trim()),
        _ => Shown::Unreadable,
    }
}

/// The sign-in cookie, if one was sent.
pub(super) fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// Would this request be let in by its cookie? Then another site's page may be behind it.
pub(super) fn is_cookie_alone(headers: &HeaderMap) -> bool {
    key_of(headers) == Shown::Nothing && cookie_of(headers).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value).expect("a header value"));
        }
        map
    }

    #[test]
    fn the_key_is_in_either_header_and_counts_before_the_cookie() {
        assert_eq!(key_of(&headers(&[("x-api-key", b"k")])), Shown::Key("k"));
        assert_eq!(key_of(&headers(&[("authorization", b"bearer k")])), Shown::Key("k"));
        assert_eq!(key_of(&headers(&[("authorization", b"Bearer a"), ("x-api-key", b"b")])), Shown::Key("b"));
        assert!(!is_cookie_alone(&headers(&[("x-api-key", b"k"), ("cookie", b"glassbox_session=c")])));
        assert!(is_cookie_alone(&headers(&[("cookie", b"a=b; glassbox_session=c")])));
    }

    #[test]
    fn a_key_that_is_no_text_is_a_wrong_key_and_not_an_absent_one() {
        for wrong in [
            &[("x-api-key", "schlüssel".as_bytes())][..],
            &[("x-api-key", b"")],
            &[("authorization", b"Basic abc")],
            &[("x-api-key", b"a"), ("x-api-key", b"b")],
        ] {
            assert_eq!(key_of(&headers(wrong)), Shown::Unreadable, "{wrong:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others_and_in_several_headers() {
        assert_eq!(cookie_of(&headers(&[("cookie", b"x=1"), ("cookie", b"y=2; glassbox_session=abc")])), Some("abc"));
        assert_eq!(cookie_of(&headers(&[("cookie", b"xglassbox_session=abc")])), None);
    }
}
