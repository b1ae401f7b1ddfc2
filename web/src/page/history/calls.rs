//! The REST calls about what is over, and the search in all that was.

use gloo_net::http::Request;
use serde::Deserialize;

use glassbox_shared::history::{Purged, SearchResult};
use glassbox_shared::id::SessionId;

use super::Asked;
use crate::page::api::{Failure, get, read};
use crate::page::parts::paged::Page;
use crate::state::past::{Moment, Past};
use crate::state::search::SearchPage;

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

/// Words in commands and output, in all sessions.
pub async fn search(words: &str, before: Option<String>) -> Result<SearchPage, Failure> {
    let mut page = SearchPage::from(before);
    for _ in 0..MOST_EMPTY {
        let before = parameter("before", page.next.as_deref());
        let look: SearchResult = get(&format!("/v1/search?limit=20{}{before}", parameter("q", Some(words)))).await?;
        if page.take(look) {
            break;
        }
    }
    Ok(page)
}

/// Removes the record of an ended session for good.
pub async fn purge(id: &SessionId) -> Result<Purged, Failure> {
    read(Request::delete(&format!("/v1/history/{id}")).build()).await
}
