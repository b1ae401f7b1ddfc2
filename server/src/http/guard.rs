//! What is checked before anyone asks who is there: Host, Origin, and that no key stands in the address.
//!
//! - Host keeps pages of other names, resolved to this machine (DNS rebinding), from talking to us.
//! - Origin keeps pages of other sites from acting with the cookie of someone who is signed in. `SameSite=Strict` does
//!   most of that, but counts every port of a host as the same site; this does not.
//! - A key in an address ends up in histories and logs, so it is refused before it becomes a habit.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use glassbox_shared::error::ErrorCode;

use super::App;
use super::client::Client;
use super::error::ApiError;
use super::principal;

/// Names that always mean this machine, with any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Query parameters that are refused, whatever is in them.
const KEY_PARAMETERS: [&str; 10] =
    ["key", "api_key", "api-key", "apikey", "x-api-key", "token", "access_token", "auth", "authorization", "secret"];
/// What the keys that we make begin with.
const KEY_PREFIX: &str = "asb_";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// An origin: scheme, host in lower case, port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

/// Whom we answer to.
#[derive(Debug)]
pub(super) struct Guard {
    hosts: Vec<String>,
    public: Vec<Origin>,
}

impl Guard {
    pub(super) fn new(public_urls: &[String]) -> Self {
        let public: Vec<Origin> = public_urls.iter().filter_map(|url| Origin::of_url(url)).collect();
        let hosts =
            LOOPBACK.iter().map(|host| (*host).to_owned()).chain(public.iter().map(|o| o.host.clone())).collect();
        Self { hosts, public }
    }

    /// Was the server asked under a name that people reach by HTTPS, whatever a proxy says of that or leaves out? (Under a
    /// loopback name of the same server it was not, or nobody could sign in there.) `forwarded_host` is what a trusted
    /// proxy was asked for.
    pub(super) fn is_https(&self, headers: &HeaderMap, forwarded_host: Option<&str>) -> bool {
        let named = forwarded_host.or_else(|| single(headers, &header::HOST).ok().flatten());
        let Some(asked) = named.and_then(|host| host.parse::<Authority>().ok()) else { return false };
        let host = plain_host(asked.host());
        let named: Vec<&Origin> = self.public.iter().filter(|origin| origin.host == host).collect();
        // Two addresses of one name are told apart by their ports; proxies often leave the port out, or write their own.
        let is_exact =
            |origin: &&&Origin| asked.port_u16().or_else(|| default_port(&origin.scheme)) == Some(origin.port);
        let exact: Vec<&Origin> = named.iter().filter(is_exact).copied().collect();
        let which = if exact.is_empty() { named } else { exact };
        which.iter().any(|origin| origin.scheme == "https")
    }

    /// All checks, in their order.
    fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        forwarded_host: Option<&str>,
    ) -> Result<(), ApiError> {
        let asked = self.check_host(uri, headers, forwarded_host)?;
        self.check_origin(method, uri, headers, &asked)?;
        check_address(uri)
    }

    /// The host that was asked, which is one of ours: the one that a trusted proxy was asked for, where it says so.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap, forwarded_host: Option<&str>) -> Result<Authority, ApiError> {
        let refused = || {
            ApiError::new(
                ErrorCode::HostNotAllowed,
                "this server does not answer to that host name; use localhost or 127.0.0.1, or name the address in GLASSBOX_PUBLIC_URL",
            )
        };
        let named = single(headers, &header::HOST).ok().flatten().ok_or_else(refused)?;
        let asked: Authority = named.parse().map_err(|_| refused())?;
        let forwarded = forwarded_host.map(|host| host.parse::<Authority>().map_err(|_| refused())).transpose()?;
        // An absolute address in the request line says the host a second time, and a proxy once more.
        let also = uri.authority().into_iter().chain(&forwarded);
        for authority in std::iter::once(&asked).chain(also) {
            let host = plain_host(authority.host());
            if authority.as_str().contains('@') || !self.hosts.contains(&host) {
                return Err(refused());
            }
        }
        Ok(forwarded.unwrap_or(asked))
    }

    fn check_origin(&self, method: &Method, uri: &Uri, headers: &HeaderMap, asked: &Authority) -> Result<(), ApiError> {
        let refused = |detail: &str| Err(ApiError::new(ErrorCode::OriginNotAllowed, detail));
        let Ok(sent) = single(headers, &header::ORIGIN) else {
            return refused("the Origin header cannot be read");
        };
        if let Some(origin) = sent {
            let known =
                Origin::of_header(origin).is_some_and(|origin| origin.is_asked(asked) || self.public.contains(&origin));
            return if known { Ok(()) } else { refused("pages of another origin may not use this server") };
        }
        if !principal::is_cookie_alone(headers) {
            return Ok(());
        }
        let safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if !safe || headers.contains_key(header::UPGRADE) {
            return refused("with the sign-in cookie an Origin header is required; programs use a key instead");
        }
        let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        // Following a link from elsewhere opens the page, which is the same for everyone; data is asked for by the page.
        let opens_the_page = headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate") && !is_api(uri.path());
        match site {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) if opens_the_page => Ok(()),
            Some(_) => refused("pages of another origin may not use this server"),
        }
    }
}

/// Is it a name of this machine for itself, with any port?
pub(super) fn is_loopback(host: &str) -> bool {
    host.parse::<Authority>().is_ok_and(|asked| LOOPBACK.contains(&plain_host(asked.host()).as_str()))
}

/// Does the path belong to the API, and not to the page?
pub(super) fn is_api(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/") || path == "/mcp" || path == "/openapi.json" || path == "/healthz"
}

/// The header's text; `Err` when it is there twice or not text.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(());
    }
    first.to_str().map(Some).map_err(|_| ())
}

fn plain_host(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl Origin {
    /// Exactly `scheme://host[:port]`, as browsers send it.
    fn of_header(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let default = default_port(scheme)?;
        let authority: Authority = authority.parse().ok().filter(|a: &Authority| !a.as_str().contains('@'))?;
        Some(Self {
            scheme: scheme.to_owned(),
            host: authority.host().to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(default),
        })
    }

    /// The origin of a URL that may have a path.
    fn of_url(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        Self::of_header(&format!("{}://{}", uri.scheme_str()?, uri.authority()?))
    }

    /// Is it what the Host header says? Whether TLS ended before us cannot be known, so both schemes fit.
    fn is_asked(&self, asked: &Authority) -> bool {
        let port = asked.port_u16().or_else(|| default_port(&self.scheme));
        self.host == asked.host().to_ascii_lowercase() && Some(self.port) == port
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Refuses addresses with a key in them.
fn check_address(uri: &Uri) -> Result<(), ApiError> {
    let refused = || {
        ApiError::new(
            ErrorCode::KeyInUrl,
            "never put a key into an address: addresses end up in logs. Send it in the X-API-Key header, and make a new one if this was real",
        )
    };
    if looks_like_a_key(&percent_decoded(uri.path())) {
        return Err(refused());
    }
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)?;
    let bad = |(name, value): &(String, String)| {
        let name = name.to_ascii_lowercase();
        KEY_PARAMETERS.contains(&name.as_str()) || looks_like_a_key(&name) || looks_like_a_key(value)
    };
    if pairs.iter().any(bad) { Err(refused()) } else { Ok(()) }
}

/// Does a key of ours stand in this text?
pub(super) fn looks_like_a_key(text: &str) -> bool {
    text.to_ascii_lowercase().contains(KEY_PREFIX)
}

/// `%61` becomes `a`; what is not such a triple stays.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|d| std::str::from_utf8(d).ok());
        if let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            out.push(byte);
            rest = &after[2..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The layer.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Result<Response, ApiError> {
    let forwarded_host = request.extensions().get::<Client>().and_then(|client| client.host.as_deref());
    app.guard.check(request.method(), request.uri(), request.headers(), forwarded_host)?;
    Ok(next.run(request).await)
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
