//! `…/output` and `…/log`: the bytes that a command wrote, from an offset on or all of them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use glassbox_shared::command::{CommandState, output_headers};
use glassbox_shared::error::ErrorBody;
use glassbox_shared::id::CommandId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::commands::wait_time;
use super::error::ApiError;
use super::extract::{InCommand, Parameters};
use super::principal::{self, Allowed};
use super::sessions::find;
use crate::command::Command;
use crate::command::log::{Chunk, Log, LogError, LogState};
use crate::error::DomainError;

/// Most bytes of one answer: what a client can be expected to hold at once. The rest is asked for with the next offset.
const MAX_BYTES: usize = 1024 * 1024;
/// Bytes read at a time for a download: all that one download holds in memory.
const DOWNLOAD_CHUNK: usize = 64 * 1024;

/// Which bytes, and how long to wait for them.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    /// Offset of the first byte; 0 unless given.
    #[serde(default)]
    from: u64,
    /// Seconds, 0 to 60, to wait when there is nothing yet.
    wait: Option<f64>,
    /// Most bytes, 1 to 1048576; as many unless given.
    limit: Option<usize>,
}

/// Output from an offset on. `glassbox-next-offset` is where to go on, `glassbox-end: true` says that nothing comes after
/// it, `glassbox-gap-bytes` how many bytes before the body are no longer held.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/commands/{command_id}/output", tag = "commands",
    params(("session_id" = String, Path), ("command_id" = String, Path), Range), responses(
    (status = 200, description = "Bytes as the command wrote them", body = Vec<u8>, content_type = "application/octet-stream", headers(
        ("glassbox-offset" = u64, description = "Offset of the first byte of the body"),
        ("glassbox-next-offset" = u64, description = "Ask with this next"),
        ("glassbox-gap-bytes" = u64, description = "Bytes missing directly before the body"),
        ("glassbox-end" = bool, description = "No more output will come"),
        ("glassbox-command-state" = String, description = "The command's state word"),
    )),
    (status = 416, description = "The offset does not exist yet", body = ErrorBody),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn read(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, command): InCommand,
    Parameters(range): Parameters<Range>,
) -> Result<Response, ApiError> {
    part(&app, range, async { Ok(find(&app, &allowed, &session)?.command(&command).await?) }).await
}

/// Bytes of a command that is looked for once it is known that the question makes sense.
pub(super) async fn part(
    app: &App,
    Range { from, wait, limit }: Range,
    found: impl Future<Output = Result<Command, ApiError>>,
) -> Result<Response, ApiError> {
    let wait = wait_time(wait)?;
    let limit = limit.unwrap_or(MAX_BYTES);
    if !(1..=MAX_BYTES).contains(&limit) {
        return Err(DomainError::invalid(format!("limit is from 1 to {MAX_BYTES}")).into());
    }
    let command = found.await?;
    let log = command.log().await?;
    tokio::select! {
        () = more_than(&log, from, wait) => {}
        () = app.state.shutdown.cancelled() => {}
    }
    // The state is taken before the bytes: a log that grows in between is then not called ended too early.
    let state = log.state();
    let chunk = read_full(&log, from, limit).await?;
    Ok(answer(chunk, from, state, &command.view().state))
}

/// Waits until there is something after the offset, or never will be, at most this long.
async fn more_than(log: &Log, from: u64, wait: Duration) {
    let mut watch = log.watch();
    // A passed time and a vanished writer both mean: answer with what is there. An offset beyond the end does not wait.
    let _ = tokio::time::timeout(wait, watch.wait_for(|state| state.end != from || state.closed)).await;
}

/// The log reads in pieces of its own size; an answer joins them up to `limit` or to the next gap.
async fn read_full(log: &Log, from: u64, limit: usize) -> Result<Chunk, LogError> {
    let first = log.read(from, limit).await?;
    if first.bytes.is_empty() || first.bytes.len() >= limit {
        return Ok(first);
    }
    let mut bytes = Vec::from(first.bytes);
    while bytes.len() < limit {
        let more = log.read(first.offset + bytes.len() as u64, limit - bytes.len()).await?;
        if more.gap.is_some() || more.bytes.is_empty() {
            break;
        }
        bytes.extend_from_slice(&more.bytes);
    }
    Ok(Chunk { bytes: bytes.into(), ..first })
}

fn answer(chunk: Chunk, from: u64, state: LogState, command: &CommandState) -> Response {
    let next = chunk.offset + chunk.bytes.len() as u64;
    let end = state.closed && next >= state.end;
    let mut response = Body::from(chunk.bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    for (name, value) in [
        (output_headers::OFFSET, chunk.offset),
        (output_headers::NEXT, next),
        (output_headers::GAP, chunk.offset.saturating_sub(from)),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
    headers.insert(
        HeaderName::from_static(output_headers::END),
        HeaderValue::from_static(if end { "true" } else { "false" }),
    );
    headers.insert(HeaderName::from_static(output_headers::STATE), HeaderValue::from_static(word(command)));
    response
}

/// The state as one word, as in JSON.
fn word(state: &CommandState) -> &'static str {
    match state {
        CommandState::Starting => "starting",
        CommandState::Running => "running",
        CommandState::Exited { .. } => "exited",
        CommandState::Signaled { .. } => "signaled",
        CommandState::Killed { .. } => "killed",
        CommandState::TimedOut => "timed_out",
        CommandState::FailedToStart { .. } => "failed_to_start",
        CommandState::Interrupted(_) => "interrupted",
    }
}

/// All output that is held, as a file. What is written after the request began is not in it.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/commands/{command_id}/log", tag = "commands",
    params(("session_id" = String, Path), ("command_id" = String, Path)), responses(
    (status = 200, description = "Bytes as the command wrote them; a gap is told in a line of its own", body = Vec<u8>, content_type = "application/octet-stream"),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn download(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    InCommand(session, id): InCommand,
) -> Result<Response, ApiError> {
    let command = find(&app, &allowed, &session)?.command(&id).await?;
    Ok(whole(&id, command.log().await?))
}

/// All that is held now, as a file.
pub(super) fn whole(id: &CommandId, log: Log) -> Response {
    // A fixed end: a download of a command that never stops writing must end too.
    let end = log.state().end;
    let pieces = stream::unfold(Some(0), move |from| {
        let log = log.clone();
        async move {
            let from = from.filter(|from| *from < end)?;
            match piece(&log, from, end).await {
                Ok((bytes, next)) => Some((Ok(bytes), next)),
                // Breaks the connection off, so that nobody takes the part for the whole.
                Err(error) => Some((Err(std::io::Error::other(format!("reading the log: {error}"))), None)),
            }
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let name = format!("attachment; filename=\"{id}.log\"");
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_str(&name).expect("an id is made of letters, digits and _"),
    );
    response
}

/// One piece of a download, and where to go on; `None`: that was all.
async fn piece(log: &Log, from: u64, end: u64) -> Result<(Bytes, Option<u64>), LogError> {
    let chunk = log.read(from, DOWNLOAD_CHUNK).await?;
    let next = chunk.offset + chunk.bytes.len() as u64;
    let held = chunk.bytes.slice(..chunk.bytes.len().min(end.saturating_sub(chunk.offset) as usize));
    let missing = chunk.offset - from;
    let bytes = if missing == 0 { held } else { [gap_line(missing).as_bytes(), &held].concat().into() };
    Ok((bytes, (next > from).then_some(next)))
}

fn gap_line(missing: u64) -> String {
    format!("\n[glassbox: {missing} bytes are missing here]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, bytes: &'static [u8]) -> Chunk {
        Chunk { gap: None, offset, bytes: Bytes::from_static(bytes) }
    }

    fn header<'a>(response: &'a Response, name: &str) -> &'a str {
        response.headers()[name].to_str().expect("text")
    }

    #[test]
    fn an_answer_says_where_it_is_what_is_missing_and_whether_it_is_the_end() {
        let state = LogState { end: 105, closed: true, ..LogState::default() };
        let last = answer(chunk(100, b"hello"), 40, state, &CommandState::Exited { code: 0 });
        assert_eq!(header(&last, output_headers::OFFSET), "100");
        assert_eq!(header(&last, output_headers::NEXT), "105");
        assert_eq!(header(&last, output_headers::GAP), "60");
        assert_eq!(header(&last, output_headers::END), "true");
        assert_eq!(header(&last, output_headers::STATE), "exited");
        let middle = answer(chunk(0, b"hello"), 0, state, &CommandState::Running);
        assert_eq!(header(&middle, output_headers::END), "false");
        assert_eq!(header(&middle, output_headers::GAP), "0");
    }

    #[test]
    fn the_state_word_is_the_one_in_json() {
        for state in [
            CommandState::Starting,
            CommandState::TimedOut,
            CommandState::Exited { code: 1 },
            CommandState::Signaled { signal: 9 },
        ] {
            assert_eq!(serde_json::to_value(&state).expect("plain data")["state"], word(&state));
        }
    }
}
