//! Waiting for a condition.

use std::time::{Duration, Instant};

/// First pause between two looks; it doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause: a test that waits long need not look often.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Looks again and again until there is something to see, and fails naming `what` when there is nothing within `limit`.
pub async fn eventually<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same where nothing is asynchronous; `None`: not within the limit.
pub fn eventually_blocking<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if begun.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
