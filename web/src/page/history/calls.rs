//! The REST calls about what is over, and the search in all that was.

use gloo_net::http::Request;
use serde::Deserialize;

use glassbox_shared::history::{Purged, SearchHit, SearchResult};
use glassbox_shared::id::SessionId;

use super::Asked;
use crate::page::api::{Failure, get, read};
use crate::page::parts::paged::Page;
use crate::state::past::{Moment, Past};

/// Searches may answer with nothing and a place to go on; as many in a row are made without being asked (about two seconds each).
const MOST_EMPTY: usize = 5;
/// Entries of a time line that are asked for at a time: the most that there may be.
const TIMELINE_PAGE: usize = 200;

/// A page of ended sessions; `glassbox_shared::history::HistoryList` as this page reads it.
#[derive(Debug, Deserialize)]
struct Ended {
    retention_seconds: f64,
    sessions: Vec<Past>,
    next: Option<String>,
}

/// A page of a time line; `glassbox_shared::history::Timeline` as this page reads it.
#[derive(Debug, Deserialize)]
struct Timeline {
    entries: Vec<Moment>,
    next: Option<String>,
}

/// `&name=value`, or nothing.
fn parameter(name: &str, value: Option<&str>) -> String {
    value
        .filter(|value| !value.is_empty())
        .map_or_else(String::new, |value| format!("&{name}={}", String::from(js_sys::encode_uri_component(value))))
}

/// The address of the page for what was asked.
pub fn address(asked: &Asked) -> String {
    let query = format!(
        "{}{}{}",
        parameter("q", Some(&asked.words)),
        parameter("agent", Some(&asked.maker)),
        parameter("state", Some(&asked.reason))
    );
    if query.is_empty() { "/history".to_owned() } else { format!("/history?{}", &query[1..]) }
}

/// Ended sessions, the newest end first. `keeps` hears for how many seconds they are kept.
pub async fn ended(asked: &Asked, before: Option<String>, keeps: impl Fn(f64)) -> Page<Past> {
    let address = format!(
        "/v1/history?limit=50{}{}{}{}",
        parameter("q", Some(&asked.words)),
        parameter("agent", Some(&asked.maker)),
        parameter("state", Some(&asked.reason)),
        parameter("before", before.as_deref())
    );
    let list: Ended = get(&address).await?;
    keeps(list.retention_seconds);
    Ok((list.sessions, list.next))
}

/// One of them.
pub async fn session(id: &SessionId) -> Result<Past, Failure> {
    get(&format!("/v1/history/{id}")).await
}

/// What happened in a session, oldest first.
pub async fn timeline(id: &SessionId, after: Option<String>) -> Page<Moment> {
    let address = format!("/v1/history/{id}/timeline?limit={TIMELINE_PAGE}{}", parameter("after", after.as_deref()));
    let timeline: Timeline = get(&address).await?;
    Ok((timeline.entries, timeline.next))
}

/// Words in commands and output, in all sessions. `partly` hears of commands of which not everything was searched.
pub async fn search(words: &str, before: Option<String>, partly: impl Fn(u64)) -> Page<SearchHit> {
    let mut before = before;
    for _ in 1..MOST_EMPTY {
        let (hits, next) = look(words, before.as_deref(), &partly).await?;
        if !hits.is_empty() || next.is_none() {
            return Ok((hits, next));
        }
        before = next;
    }
    look(words, before.as_deref(), &partly).await
}

async fn look(words: &str, before: Option<&str>, partly: &impl Fn(u64)) -> Page<SearchHit> {
    let address = format!("/v1/search?limit=20{}{}", parameter("q", Some(words)), parameter("before", before));
    let result: SearchResult = get(&address).await?;
    partly(result.partly_indexed);
    Ok((result.hits, result.next))
}

/// Removes the record of an ended session for good.
pub async fn purge(id: &SessionId) -> Result<Purged, Failure> {
    read(Request::delete(&format!("/v1/history/{id}")).build()).await
}
