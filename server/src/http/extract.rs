//! Extractors for bodies, queries and ids in paths, whose rejections have the one error shape.

use std::str::FromStr;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::{CommandId, KeyId, SessionId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::MAX_BODY;
use super::error::ApiError;
use crate::error::DomainError;

/// A body must have arrived after this long; one that drips in would hold a connection for ever.
const BODY_TIME: Duration = Duration::from_secs(30);

/// A body that is too large is thrown away up to here before it is refused; beyond, the connection is simply closed.
const MOST_THROWN_AWAY: usize = 16 * 1024 * 1024;

/// A JSON body.
#[derive(Debug)]
pub(super) struct Body<T>(pub T);

/// A JSON body that may be left out; then it is `T::default()`.
#[derive(Debug)]
pub(super) struct OptionalBody<T>(pub T);

/// Any JSON, or nothing, which is `null`: whoever gets it says what is wrong with it.
#[derive(Debug)]
pub(super) struct AnyJson(pub Value);

/// The query.
#[derive(Debug)]
pub(super) struct Parameters<T>(pub T);

/// `{session_id}` of the path.
#[derive(Debug)]
pub(super) struct InSession(pub SessionId);

/// `{session_id}` and `{command_id}` of the path.
#[derive(Debug)]
pub(super) struct InCommand(pub SessionId, pub CommandId);

/// `{session_id}` and `{name}` of the path.
#[derive(Debug)]
pub(super) struct OfTool(pub SessionId, pub String);

/// `{key_id}` of the path.
#[derive(Debug)]
pub(super) struct OfKey(pub KeyId);

async fn in_time<T>(arriving: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let late = |_| {
        ApiError::new(ErrorCode::BadRequest, format!("the body did not arrive within {} seconds", BODY_TIME.as_secs()))
    };
    tokio::time::timeout(BODY_TIME, arriving).await.map_err(late)?
}

/// The request with its body, for whoever reads it by other rules than ours.
pub(super) async fn in_pieces(request: Request) -> Result<(Parts, Bytes), ApiError> {
    in_time(read(request)).await
}

async fn whole(request: Request) -> Result<Request, ApiError> {
    let (parts, body) = read(request).await?;
    Ok(Request::from_parts(parts, axum::body::Body::from(body)))
}

/// Reads the body. One that is too large is read on for a while and thrown away: a client that is still sending would
/// otherwise find its connection broken and never read the answer.
async fn read(request: Request) -> Result<(Parts, Bytes), ApiError> {
    let (parts, body) = request.into_parts();
    let mut pieces = body.into_data_stream();
    let mut bytes = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ApiError::new(ErrorCode::BadRequest, "the body broke off"))?;
        length += piece.len();
        if length <= MAX_BODY {
            bytes.extend_from_slice(&piece);
        } else if length > MOST_THROWN_AWAY {
            break;
        }
    }
    if length > MAX_BODY {
        return Err(ApiError::new(ErrorCode::TooLarge, format!("the body is larger than {MAX_BODY} bytes")));
    }
    Ok((parts, bytes.freeze()))
}

/// From an object; a list, which serde would take as one, is none. What is wrong is told without repeating values: they
/// may be secrets, and the text is logged.
fn object<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    if !value.is_object() {
        return Err(ApiError::new(ErrorCode::Invalid, "the body must be a JSON object"));
    }
    serde_json::from_value(value).map_err(|error| {
        // Field names stand in backticks, texts that were given in double quotes.
        let error = error.to_string();
        let text = match (error.split_once('"'), error.rsplit_once('"')) {
            (Some((first, _)), Some((_, last))) => format!("{first}…{last}"),
            _ => error,
        };
        ApiError::new(ErrorCode::Invalid, format!("the body does not fit: {text}"))
    })
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        in_time(async {
            let Json(value) = Json::from_request(whole(request).await?, state).await?;
            Ok(Self(object(value)?))
        })
        .await
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        in_time(async {
            let bytes = Bytes::from_request(whole(request).await?, state).await?;
            if bytes.is_empty() { Ok(Self(T::default())) } else { Ok(Self(object(Json::from_bytes(&bytes)?.0)?)) }
        })
        .await
    }
}

impl<S: Send + Sync> FromRequest<S> for AnyJson {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        in_time(async {
            let bytes = Bytes::from_request(whole(request).await?, state).await?;
            if bytes.is_empty() { Ok(Self(Value::Null)) } else { Ok(Self(Json::from_bytes(&bytes)?.0)) }
        })
        .await
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(Query::try_from_uri(&parts.uri)?.0))
    }
}

/// What cannot be an id names nothing, so it is 404 like any other id that names nothing.
async fn id<T: FromStr, S: Send + Sync>(parts: &mut Parts, state: &S, name: &str, what: &str) -> Result<T, ApiError> {
    let missing = || DomainError::not_found(what);
    let all = RawPathParams::from_request_parts(parts, state).await.map_err(|_| missing())?;
    let text = all.iter().find(|(key, _)| *key == name).map(|(_, value)| value).ok_or_else(missing)?;
    Ok(text.parse().map_err(|_| missing())?)
}

impl<S: Send + Sync> FromRequestParts<S> for InSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(id(parts, state, "session_id", "session").await?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for InCommand {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(id(parts, state, "session_id", "session").await?, id(parts, state, "command_id", "command").await?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfTool {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(id(parts, state, "session_id", "session").await?, id(parts, state, "name", "tool").await?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(id(parts, state, "key_id", "key").await?))
    }
}
