//! The page: what `make web` built, inside the binary (debug builds read it from the disk at run time).

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rust_embed::{Embed, EmbeddedFile};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

use super::content_policy;
use super::error::ApiError;
use super::guard::is_api;

/// May be missing: the server is built and tested without the page.
#[derive(Embed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct Dist;

const INDEX: &str = "index.html";
/// Hexadecimal digits that trunk puts into the names of files that never change.
const HASH_DIGITS: usize = 16;
/// Bytes below which compressing costs more than it saves.
const WORTH_COMPRESSING: u64 = 1024;
const NOT_BUILT: &str =
    "The page is not built. Run `make run`, which builds and serves it, or `make web` and then reload.\n";

/// Everything that is no API. Only this is compressed: answers of the API may hold secrets beside what others chose.
pub(super) fn router() -> Router {
    Router::new()
        .fallback(serve)
        .layer(CompressionLayer::new().gzip(true).compress_when(SizeAbove::new(WORTH_COMPRESSING)))
}

async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    if is_api(path) {
        return ApiError::no_route().into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return ApiError::method_not_allowed().into_response();
    }
    let name = path.trim_start_matches('/');
    let headers = request.headers();
    if !name.is_empty() && name != INDEX {
        if let Some(file) = Dist::get(name) {
            return answer(name, file, headers);
        }
        if !accepts_html(headers) {
            return ApiError::no_route().into_response();
        }
    }
    // The page knows its own addresses.
    match Dist::get(INDEX) {
        Some(file) => answer(INDEX, file, headers),
        None => (StatusCode::SERVICE_UNAVAILABLE, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], NOT_BUILT)
            .into_response(),
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

fn answer(name: &str, file: EmbeddedFile, asked: &HeaderMap) -> Response {
    // Weak, because compression changes the bytes and not what they mean.
    let tag = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(file.metadata.sha256_hash()));
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let policy = (name == INDEX).then(|| content_policy::of_page(&String::from_utf8_lossy(&file.data)));

    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(file.data).into_response() };
    let headers = response.headers_mut();
    let caching = if never_changes(name) { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    let texts = [
        (header::CONTENT_TYPE, Some(file.metadata.mimetype().to_owned())),
        (header::ETAG, Some(tag)),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    for (header, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(header, value);
        }
    }
    response
}

/// Does the name carry the hash of the content, as in `web-0123456789abcdef_bg.wasm`?
fn never_changes(name: &str) -> bool {
    name.rsplit('/')
        .next()
        .unwrap_or(name)
        .split(['-', '_', '.'])
        .any(|part| part.len() == HASH_DIGITS && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        for name in
            ["web-0123456789abcdef.js", "web-0123456789abcdef_bg.wasm", "snippets/a/tokens-fedcba9876543210.css"]
        {
            assert!(never_changes(name), "{name}");
        }
        for name in ["index.html", "xterm.mjs", "favicon.svg", "0123456789abcdef0/x.js"] {
            assert!(!never_changes(name), "{name}");
        }
    }
}
