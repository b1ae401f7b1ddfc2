//! What every answer carries, so that a browser does nothing with it that we did not mean.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use super::client::Client;
use super::guard::{is_api, is_loopback};

const ALWAYS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];
/// For everything that is not the page: bytes of a sandbox, opened in a tab, must not run.
const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// A year without plain HTTP, for browsers that came by HTTPS. Not for loopback names: it would hold for everything else
/// that is developed on that machine.
const ONLY_HTTPS: &str = "max-age=31536000";

/// The layer. What a handler set itself stays.
pub(super) async fn secure(request: Request, next: Next) -> Response {
    let api = is_api(request.uri().path());
    let only_https = request
        .extensions()
        .get::<Client>()
        .is_some_and(|client| client.https && !is_asked_by_loopback(client, &request));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
    if api {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    if only_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_HTTPS));
    }
    response
}

fn is_asked_by_loopback(client: &Client, request: &Request) -> bool {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    client.host.as_deref().or(named).is_none_or(is_loopback)
}
