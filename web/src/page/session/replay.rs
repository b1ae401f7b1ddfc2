//! The output of a session that is over: from the history, piece by piece, as the live socket would bring it.

use std::rc::{Rc, Weak};

use gloo_timers::future::TimeoutFuture;
use leptos::task::spawn_local;

use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::{GapReason, OutOfOrder, WatchFrom};

use super::feed::{Feed, FeedWatcher};
use crate::page::api::{self, Failure};
use crate::page::live::Watcher;

/// Of a piece.
const PIECE_BYTES: u64 = 256 * 1024;
/// Pieces that the terminal may have before it.
const MOST_BACKLOG: usize = 3;
/// Between two looks at whether the terminal came along.
const LOOK_MS: u32 = 20;

/// Starts it; it ends with the output, or when the feed is closed.
pub fn start(session: SessionId, command: CommandId, from: WatchFrom, feed: &Rc<Feed>) {
    let feed = Rc::downgrade(feed);
    spawn_local(async move {
        let answer = replay(session, command, from, &feed).await;
        if let (Err(failure), Some(feed)) = (answer, open(&feed)) {
            FeedWatcher(feed).failed(failure.code, &failure.detail);
        }
    });
}

fn open(feed: &Weak<Feed>) -> Option<Rc<Feed>> {
    feed.upgrade().filter(|feed| feed.is_open())
}

async fn replay(session: SessionId, id: CommandId, from: WatchFrom, feed: &Weak<Feed>) -> Result<(), Failure> {
    let command = api::command(&session, &id, false).await?;
    let mut offset = match from {
        WatchFrom::Offset(offset) => offset.min(command.output_bytes),
        WatchFrom::Tail(bytes) => command.output_bytes.saturating_sub(bytes),
    };
    let disorder = |error: OutOfOrder| Failure { status: 0, code: None, detail: error.to_string() };
    let Some(shown) = open(feed) else { return Ok(()) };
    FeedWatcher(shown).opened(offset).map_err(disorder)?;
    loop {
        let piece = api::past_output(&session, &id, offset, PIECE_BYTES).await?;
        let Some(shown) = open(feed) else { return Ok(()) };
        let watcher = FeedWatcher(shown);
        if piece.gap > 0 {
            watcher.gap(offset, offset + piece.gap, GapReason::LogFull).map_err(disorder)?;
        }
        let length = piece.bytes.length();
        offset = piece.offset + u64::from(length);
        if length > 0 {
            watcher.output(piece.offset, piece.bytes).map_err(disorder)?;
        }
        if piece.end || length == 0 {
            return watcher.end(offset, command.output_complete).map_err(disorder);
        }
        drop(watcher);
        while open(feed).is_some_and(|feed| feed.backlog() > MOST_BACKLOG) {
            TimeoutFuture::new(LOOK_MS).await;
        }
    }
}
