//! Reading a command's output along while it runs, for an answer of bounded length.

use std::time::Duration;

use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::tools::cut::Cut;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::command::Command;
use crate::command::log::Log;
use crate::error::DomainError;

/// Bytes read at a time: all of the output, besides the text itself, that a waiting call holds.
const PIECE: usize = 64 * 1024;
/// Between two looks at output that keeps coming. The log's memory holds what a fast command writes meanwhile, and fifty
/// looks a second cost nothing.
const PAUSE: Duration = Duration::from_millis(20);
/// After a command's end its output is nearly always closed, too, but the word of that comes a moment later. Only what is
/// still open then is held open by another process.
const CLOSING: Duration = Duration::from_millis(250);

/// A command as it stood, and its output from an offset on up to that moment.
#[derive(Debug)]
pub(super) struct Followed {
    pub view: CommandView,
    pub output: Cut,
    /// Nothing comes after this output.
    pub closed: bool,
}

/// Follows a command to its end, or until a moment. Reading along, instead of at the end, is what makes the count of
/// characters exact: the log forgets the middle of a very long output.
pub(super) async fn follow(
    command: &Command,
    log: &Log,
    from: u64,
    until: Instant,
    shutdown: &CancellationToken,
) -> Result<Followed, DomainError> {
    let mut output = Cut::new(from);
    let mut changed = log.watch();
    let mut closing = true;
    loop {
        // In this order: once the command has ended, the log holds all that its own process wrote.
        let view = command.view();
        let state = log.state();
        let ended = view.state.is_final();
        // What was there at this moment, so it comes to an end however fast more is written.
        while output.end() < state.end {
            let chunk = log.read(output.end(), PIECE).await?;
            output.skip(chunk.offset.saturating_sub(output.end()));
            if chunk.bytes.is_empty() {
                break;
            }
            output.push(&chunk.bytes);
        }
        if state.closed && output.end() >= state.end {
            output.finish();
        }
        if ended && !state.closed && std::mem::take(&mut closing) {
            // Closed, or held open by another process, or without a writer: the next look tells.
            let _ = tokio::time::timeout(CLOSING, changed.wait_for(|now| now.closed)).await;
            continue;
        }
        if ended || Instant::now() >= until {
            return Ok(Followed { view, output, closed: state.closed });
        }
        let more = async {
            // A vanished writer says no more; then only the command's end is waited for.
            if state.closed || changed.wait_for(|now| now.end > state.end || now.closed).await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(PAUSE).await;
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Err(DomainError::shutting_down()),
            _ = command.wait_end(until.saturating_duration_since(Instant::now())) => {}
            () = sleep_until(until) => {}
            () = more => {}
        }
    }
}

/// A part of the output as text: at most so many characters from an offset on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset of the first byte of the text.
    pub from: u64,
    /// Offset behind the last one.
    pub to: u64,
    pub text: String,
}

/// Reads a part. A hole at its beginning is passed over; one further on ends the part.
pub(super) async fn part(log: &Log, from: u64, limit: usize) -> Result<Part, DomainError> {
    let closed = log.state().closed;
    let first = log.read(from, PIECE).await?;
    let mut bytes = first.bytes.to_vec();
    // No character has more than four bytes.
    while bytes.len() < limit.saturating_mul(4) {
        let more = log.read(first.offset + bytes.len() as u64, PIECE).await?;
        if more.gap.is_some() || more.bytes.is_empty() {
            break;
        }
        bytes.extend_from_slice(&more.bytes);
    }
    let (text, taken) = characters(&bytes, limit, closed);
    Ok(Part { from: first.offset, to: first.offset + taken as u64, text })
}

/// At most so many characters, and the bytes that they are made of. What could be the beginning of a character is left
/// for later, unless nothing follows.
fn characters(bytes: &[u8], limit: usize, all: bool) -> (String, usize) {
    let (mut text, mut taken, mut count) = (String::new(), 0, 0);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if count == limit {
                return (text, taken);
            }
            text.push(character);
            taken += character.len_utf8();
            count += 1;
        }
        let invalid = chunk.invalid();
        let unfinished = taken + invalid.len() == bytes.len()
            && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if invalid.is_empty() || count == limit || (unfinished && !all) {
            return (text, taken);
        }
        text.push('\u{FFFD}');
        taken += invalid.len();
        count += 1;
    }
    (text, taken)
}

/// A state as one word, as in JSON.
pub(super) fn word(state: &CommandState) -> Option<String> {
    serde_json::to_value(state).ok()?["state"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_at_a_character_and_counts_its_bytes() {
        assert_eq!(characters("aé😀b".as_bytes(), 3, true), ("aé😀".to_owned(), 7));
        assert_eq!(characters("aé😀b".as_bytes(), 9, true), ("aé😀b".to_owned(), 8));
        assert_eq!(characters(b"a\xFFb", 2, false), ("a\u{FFFD}".to_owned(), 2));
        assert_eq!(characters(b"a\xFFb", 1, false), ("a".to_owned(), 1));
    }

    #[test]
    fn an_unfinished_character_waits_unless_nothing_follows() {
        assert_eq!(characters(b"a\xF0\x9F", 9, false), ("a".to_owned(), 1));
        assert_eq!(characters(b"a\xF0\x9F", 9, true), ("a\u{FFFD}".to_owned(), 3));
        assert_eq!(characters(b"", 9, true), (String::new(), 0));
    }
}
