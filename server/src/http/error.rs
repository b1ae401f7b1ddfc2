//! The edge's one error: a [`DomainError`] on its way out.
//!
//! [`ApiError`] becomes a response that carries the failure beside it; `request_id::frame`, around everything, knows the
//! request's id, writes the body `{detail, code, request_id}` and logs the cause. So every answer that is not a success
//! has the one shape, also those that axum makes itself.

use std::sync::Arc;

use axum::extract::rejection::{BytesRejection, JsonRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use glassbox_shared::error::{ErrorBody, ErrorCode};

use crate::command::log::LogError;
use crate::error::DomainError;

/// A refusal or a failure, to be answered.
#[derive(Debug)]
pub struct ApiError(pub DomainError);

/// What travels beside the response to where the request's id is known.
#[derive(Debug, Clone)]
pub(super) struct Failure(pub Arc<DomainError>);

impl ApiError {
    pub(super) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(DomainError::new(code, detail))
    }

    pub(super) fn no_route() -> Self {
        Self::new(ErrorCode::NotFound, "there is no such route; GET /openapi.json lists them")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            ErrorCode::MethodNotAllowed,
            "this route exists, but not with this method; GET /openapi.json lists them",
        )
    }
}

impl From<DomainError> for ApiError {
    fn from(error: DomainError) -> Self {
        Self(error)
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        Self(from_log(error))
    }
}

/// Why output cannot be read, for whoever asked for it.
pub(super) fn from_log(error: LogError) -> DomainError {
    match error {
        LogError::BeyondEnd { from, end } => DomainError::new(
            ErrorCode::OffsetBeyondEnd,
            format!("offset {from} does not exist yet: the output ends at {end}; ask from there and with wait"),
        ),
        other => DomainError::new(ErrorCode::Internal, "the output could not be read").because(other),
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        match rejection {
            JsonRejection::BytesRejection(bytes) => bytes.into(),
            JsonRejection::MissingJsonContentType(_) => {
                Self::new(ErrorCode::Invalid, "send the body as JSON, with the header content-type: application/json")
            }
            other => Self::new(ErrorCode::Invalid, other.body_text()),
        }
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Self::new(ErrorCode::TooLarge, format!("the body is larger than {} bytes", super::MAX_BODY))
        } else {
            Self::new(ErrorCode::BadRequest, "the body could not be read")
        }
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(ErrorCode::Invalid, rejection.body_text())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(Failure(Arc::new(self.0)));
        response
    }
}

/// Writes the failure's body into its response.
pub(super) fn render(failure: &DomainError, request_id: &str) -> Response {
    let body = ErrorBody { detail: failure.detail.clone(), code: failure.code, request_id: request_id.to_owned() };
    let status = StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = failure.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
