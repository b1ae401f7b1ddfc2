//! `…/fs/content` and `…/fs/archive`: bytes out of and into a sandbox.
//!
//! What comes out is an attachment of no type that a browser would show, with a policy that lets nothing run: content of a
//! sandbox must never run in the page's origin.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use glassbox_shared::error::{ErrorBody, ErrorCode};
use glassbox_shared::files::FileEntry;
use glassbox_shared::files::frames::{Head, Operation, Range};
use glassbox_shared::files::path;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::App;
use super::super::error::ApiError;
use super::super::extract::InSession;
use super::super::principal::{self, Allowed};
use super::super::sessions::find;
use super::{Asked, entry_of, pump, unexpected};
use crate::error::DomainError;
use crate::files::{Call, Said};
use crate::session::Session;

/// Nothing that comes out of a sandbox runs, wherever it is opened.
const NOTHING_RUNS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
);

/// Nothing beside the path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Nothing {}

/// Content of a file, all of it or one range. Also with HEAD.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/content", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"),
        ("range" = Option<String>, Header, description = "One range of bytes")),
    responses(
        (status = 200, description = "All of it", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "It is the version of If-None-Match"),
        (status = 416, description = "No byte of the range is there", body = ErrorBody),
        (status = 422, description = "It is no file", body = ErrorBody),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn read(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, Nothing {}): Asked<Nothing>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let session = find(&app, &allowed, &session)?;
    // A range is a matter of GET (RFC 9110, 14.2).
    let mut range = asked_range(&headers).filter(|_| method == Method::GET);
    // The version that a range is wanted of; of any other, all is.
    let expected = headers.get(header::IF_RANGE).filter(|_| range.is_some());
    // In this order (RFC 9110, 13.2.2): who has this version needs nothing, not even to hear that a range is impossible.
    if headers.contains_key(header::IF_NONE_MATCH) || expected.is_some() {
        let (head, _) = open(&session, &path, Range::Nothing).await?;
        let etag = etag(&head.entry);
        if is_known(&headers, &etag) {
            return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
        }
        range = range.filter(|_| expected.is_none_or(|expected| *expected == etag));
    }
    let wanted = if method == Method::HEAD { Range::Nothing } else { range.unwrap_or(Range::All) };
    let (mut head, mut call) = match open(&session, &path, wanted).await {
        Err(ApiError(error)) if range.is_some() && error.code == ErrorCode::OffsetBeyondEnd => {
            let (head, _) = open(&session, &path, Range::Nothing).await?;
            let size = (header::CONTENT_RANGE, format!("bytes */{}", head.entry.size));
            return Ok(([size], ApiError(error)).into_response());
        }
        opened => opened?,
    };
    if range.is_some() && expected.is_some_and(|expected| *expected != etag(&head.entry)) {
        // It changed in this very moment.
        range = None;
        drop(call);
        (head, call) = open(&session, &path, Range::All).await?;
    }
    let etag = etag(&head.entry);
    let size = head.entry.size;
    let using = allowed.caller.looking_is_use().then_some(session);
    let length = if method == Method::HEAD { size } else { head.length.ok_or_else(unexpected)? };
    let body =
        if method == Method::HEAD { Body::empty() } else { pump::body(&app, |pieces| pump::out(call, pieces, using)) };
    let mut response = body.into_response();
    dress(response.headers_mut(), &attachment(&head.entry, ""));
    let set = response.headers_mut();
    set.insert(header::ETAG, etag);
    set.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if range.is_some() && method != Method::HEAD {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = (head.start + length).saturating_sub(1);
        let text = format!("bytes {}-{last}/{size}", head.start);
        response.headers_mut().insert(header::CONTENT_RANGE, HeaderValue::try_from(text).map_err(|_| unexpected())?);
    }
    Ok(response)
}

/// A folder as `.tar.gz`, made while it is sent. What could not be packed is named in `glassbox-skipped.txt` in it.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/fs/archive", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes")),
    responses((status = 200, body = Vec<u8>, content_type = "application/gzip"), (status = "default", body = ErrorBody)))]
pub(in super::super) async fn archive(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, Nothing {}): Asked<Nothing>,
    method: Method,
) -> Result<Response, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let (head, call) = begin(session.read_files(Operation::Archive { path }).await?).await?;
    let using = allowed.caller.looking_is_use().then_some(session);
    let body =
        if method == Method::HEAD { Body::empty() } else { pump::body(&app, |pieces| pump::out(call, pieces, using)) };
    let mut response = body.into_response();
    dress(response.headers_mut(), &attachment(&head.entry, ".tar.gz"));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/gzip"));
    Ok(response)
}

/// How to write.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct How {
    /// Make missing folders.
    #[serde(default)]
    parents: bool,
}

/// Replaces or makes a file. It becomes visible as a whole, when every byte is on the disk, or not at all. With
/// `If-Match: "VERSION"` only if that is its version, with `If-None-Match: *` only if there is none.
#[utoipa::path(put, path = "/v1/sessions/{session_id}/fs/content", tag = "files",
    params(("session_id" = String, Path), ("path" = String, Query, description = "Percent-encoded bytes"), How,
        ("if-match" = Option<String>, Header, description = "The version that it must have"),
        ("if-none-match" = Option<String>, Header, description = "`*`: it must not be there")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = FileEntry),
        (status = 412, description = "It has another version", body = ErrorBody),
        (status = 413, description = "It is too large", body = ErrorBody),
        (status = 507, description = "The sandbox's disk is full", body = ErrorBody),
        (status = "default", body = ErrorBody)))]
pub(in super::super) async fn write(
    allowed: Allowed<principal::Run>,
    State(app): State<Arc<App>>,
    InSession(session): InSession,
    Asked(path, How { parents }): Asked<How>,
    request: Request,
) -> Result<Json<FileEntry>, ApiError> {
    let session = find(&app, &allowed, &session)?;
    let (parts, body) = request.into_parts();
    let limit = session.largest_file();
    let begun = async {
        let (expected, new) = condition(&parts.headers)?;
        let length =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let operation = Operation::Write { path, expected, new, parents, limit };
        session.write_files(allowed.principal(), operation).await
    };
    let change = match begun.await {
        Ok(change) => change,
        Err(error) => return Err(pump::refuse(body, error).await),
    };
    entry_of(pump::into(&session, change, body).await?)
}

pub(super) fn too_large(limit: u64) -> DomainError {
    DomainError::new(ErrorCode::TooLarge, format!("files of more than {limit} bytes are not taken here"))
}

/// The version that is expected, and whether there must be none.
fn condition(headers: &HeaderMap) -> Result<(Option<String>, bool), DomainError> {
    let text = |name: HeaderName| headers.get(&name).map(|value| value.to_str().unwrap_or_default().trim().to_owned());
    let new = match text(header::IF_NONE_MATCH).as_deref() {
        None => false,
        Some("*") => true,
        Some(_) => return Err(DomainError::invalid("If-None-Match can only be *")),
    };
    let expected = text(header::IF_MATCH).map(|known| {
        let version = known.strip_prefix('"').and_then(|known| known.strip_suffix('"'));
        // Some clients leave the quotes out.
        let version = version.unwrap_or(&known).to_owned();
        let sense = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if sense { Ok(version) } else { Err(DomainError::invalid("If-Match must be one version in quotes")) }
    });
    Ok((expected.transpose()?, new))
}

/// Opens a file's content.
async fn open(session: &Session, path: &str, range: Range) -> Result<(Head, Call), ApiError> {
    begin(session.read_files(Operation::Read { path: path.to_owned(), range }).await?).await
}

/// Does the client have this version (`If-None-Match`, compared weakly: RFC 9110, 13.1.2)?
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    known
        .flat_map(|known| known.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == etag.as_bytes())
}

/// Waits for what comes before content.
async fn begin(mut call: Call) -> Result<(Head, Call), ApiError> {
    match call.next().await? {
        Said::Head(head) => Ok((*head, call)),
        _ => Err(unexpected()),
    }
}

/// One range; several, and what is none, count as not asked for.
fn asked_range(headers: &HeaderMap) -> Option<Range> {
    let text = headers.get(header::RANGE)?.to_str().ok()?;
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (from.trim(), to.trim()) {
        ("", count) => count.parse().ok().map(Range::Last),
        (from, "") => from.parse().ok().map(|from| Range::FromTo(from, u64::MAX)),
        (from, to) => {
            let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then(|| Range::FromTo(from, to.saturating_add(1)))
        }
    }
}

fn etag(entry: &FileEntry) -> HeaderValue {
    // Versions were checked to be letters and digits.
    HeaderValue::try_from(format!("\"{}\"", entry.version)).unwrap_or(HeaderValue::from_static("\"\""))
}

fn dress(headers: &mut HeaderMap, disposition: &str) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, NOTHING_RUNS);
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
}

/// A name for whoever saves it: plain for old clients, exact by RFC 5987 for all others.
fn attachment(entry: &FileEntry, ending: &str) -> String {
    let bytes = path::decode(&entry.path).unwrap_or_default();
    let name = String::from_utf8_lossy(path::last(&bytes)).into_owned();
    let name = format!("{}{ending}", if name.is_empty() { "workspace" } else { &name });
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-._ ".contains(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", path::encode(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn one_range_is_understood_and_anything_else_is_not_asked_for() {
        let range = |text| asked_range(&headers(header::RANGE, text));
        assert_eq!(range("bytes=0-0"), Some(Range::FromTo(0, 1)));
        assert_eq!(range("bytes=5-"), Some(Range::FromTo(5, u64::MAX)));
        assert_eq!(range("bytes=-5"), Some(Range::Last(5)));
        for nothing in ["bytes=0-1,3-4", "bytes=3-2", "lines=1-2", "bytes=a-b", "bytes=-", "5-6"] {
            assert_eq!(range(nothing), None, "{nothing}");
        }
        assert_eq!(range("bytes=0-18446744073709551615"), Some(Range::FromTo(0, u64::MAX)));
    }

    #[test]
    fn a_version_is_known_among_others_weak_or_not_and_by_a_star() {
        let is = |known| is_known(&headers(header::IF_NONE_MATCH, known), &HeaderValue::from_static("\"abc\""));
        for known in ["\"abc\"", "W/\"abc\"", "\"x\", W/\"abc\"", "*"] {
            assert!(is(known), "{known}");
        }
        for other in ["abc", "\"ABC\"", "\"x\"", "", "w/\"abc\""] {
            assert!(!is(other), "{other}");
        }
        assert!(!is_known(&HeaderMap::new(), &HeaderValue::from_static("\"abc\"")));
    }

    #[test]
    fn a_condition_is_a_version_or_none_at_all() {
        assert_eq!(condition(&headers(header::IF_MATCH, "\"abc\"")).expect("fine"), (Some("abc".to_owned()), false));
        assert_eq!(condition(&headers(header::IF_MATCH, "abc")).expect("fine"), (Some("abc".to_owned()), false));
        assert_eq!(condition(&headers(header::IF_NONE_MATCH, "*")).expect("fine"), (None, true));
        for wrong in [headers(header::IF_MATCH, "*"), headers(header::IF_NONE_MATCH, "\"abc\"")] {
            assert!(condition(&wrong).is_err());
        }
    }

    #[test]
    fn hostile_names_cannot_leave_their_header() {
        let mut entry = FileEntry {
            path: "a/x%22%0D%0Ay%FF".to_owned(),
            name: String::new(),
            kind: glassbox_shared::files::FileType::File,
            size: 0,
            mode: String::new(),
            uid: 0,
            gid: 0,
            owner: None,
            modified: 0.0,
            version: "v".to_owned(),
            target: None,
        };
        assert_eq!(attachment(&entry, ""), "attachment; filename=\"x___y_\"; filename*=UTF-8''x%22%0D%0Ay%EF%BF%BD");
        entry.path = String::new();
        assert_eq!(
            attachment(&entry, ".tar.gz"),
            "attachment; filename=\"workspace.tar.gz\"; filename*=UTF-8''workspace.tar.gz"
        );
    }
}
