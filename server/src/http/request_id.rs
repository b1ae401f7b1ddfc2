//! The outermost layer: every request gets an id, one log line, and an answer of the one error shape.
//!
//! Query strings and header values are never logged; a path that holds a key is not either.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use glassbox_shared::error::ErrorCode;

use super::client::Client;
use super::error::{ApiError, Failure, render};
use super::guard;
use crate::ids;

/// The answer's header.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Random characters of an id: 60 bits, enough to find one line in a log.
const CHARACTERS: usize = 12;
/// Longest path in a log line, so that a hostile one cannot fill the log.
const MAX_LOGGED_PATH: usize = 200;

/// Runs the request and frames its answer.
pub(super) async fn frame(request: Request, next: Next) -> Response {
    let id = format!("req_{}", ids::random_characters(CHARACTERS));
    let method = request.method().clone();
    let path = loggable_path(request.uri().path());
    let client = request.extensions().get::<Client>().and_then(|client| client.address);
    let client = client.map_or_else(String::new, |address| address.to_string());
    let begun = Instant::now();

    // A bug in a handler is that request's failure, not the end of the connection.
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        ApiError::new(ErrorCode::Internal, "something broke here; the server's log has the request id").into_response()
    });

    let failure = response.extensions_mut().remove::<Failure>();
    if let Some(Failure(failure)) = &failure {
        let mut dressing = std::mem::take(response.headers_mut());
        dressing.remove(header::CONTENT_LENGTH);
        response = render(failure, &id);
        // What was put on the answer besides (security headers, the allowed methods) stays.
        for (name, value) in &dressing {
            if !response.headers().contains_key(name) {
                response.headers_mut().insert(name.clone(), value.clone());
            }
        }
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    log(&id, &client, method.as_str(), &path, response.status(), begun, failure.as_ref());
    response
}

fn log(
    id: &str,
    client: &str,
    method: &str,
    path: &str,
    status: StatusCode,
    begun: Instant,
    failure: Option<&Failure>,
) {
    let ms = begun.elapsed().as_millis() as u64;
    let status = status.as_u16();
    let Some(Failure(failure)) = failure else {
        tracing::debug!(request_id = id, client, method, path, status, ms, "answered");
        return;
    };
    let code = failure.code;
    if status >= 500 && code != ErrorCode::NotImplemented {
        let cause = failure.cause.as_deref().map(chain).unwrap_or_default();
        tracing::error!(request_id = id, client, method, path, status, ms, ?code, cause, "failed: {}", failure.detail);
    } else {
        tracing::info!(request_id = id, client, method, path, status, ms, ?code, "refused: {}", failure.detail);
    }
}

/// An error and all that is behind it, in one line.
fn chain(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(cause) = behind {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        behind = cause.source();
    }
    text
}

/// The path as it may stand in a log.
fn loggable_path(path: &str) -> String {
    if guard::looks_like_a_key(&guard::percent_decoded(path)) {
        return "(a path with a key in it)".to_owned();
    }
    path.chars().filter(|c| !c.is_control()).take(MAX_LOGGED_PATH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_path_is_never_logged() {
        for path in ["/v1/sessions/asb_abcdefghij_secret", "/v1/%61sb_abcdefghij_secret", "/v1/a%73b%5Fx"] {
            assert!(!loggable_path(path).contains("sb"), "{path}");
        }
        assert_eq!(loggable_path("/v1/sessions"), "/v1/sessions");
        assert_eq!(loggable_path(&"/x".repeat(500)).len(), MAX_LOGGED_PATH);
    }
}
