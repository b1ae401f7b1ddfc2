//! One stream of a socket: a place in a command's output log, and how much of it the viewer has taken in.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use glassbox_shared::live::{CREDIT, GapReason};
use tokio::sync::watch;
use tokio_util::sync::ReusableBoxFuture;

use crate::command::log::{Chunk, Log, LogError, LogState};

/// Bytes in one message. Half of what the protocol allows, so that even a viewer that reads 1 kB/s gets a whole message
/// within the time after which it would count the connection as lost.
const CHUNK: usize = 16 * 1024;
/// A viewer this far behind a log that is still being written does not catch up by reading all of it: it is shown the
/// present again. At 5 MB/s this is more than a second of stuttering.
const TOO_FAR_BEHIND: u64 = 8 * 1024 * 1024;
/// What it is then shown of the past: some screens.
const CATCH_UP: u64 = 256 * 1024;
/// Gaps in what was sent and not yet acknowledged; a viewer that has so many must acknowledge first.
const MAX_GAPS: usize = 16;

/// Bytes that were sent and not acknowledged. Bytes in a gap were not sent, and use up no credit.
#[derive(Debug, Default)]
struct Flight {
    sent: u64,
    acknowledged: u64,
    gaps: VecDeque<(u64, u64)>,
}

impl Flight {
    fn from(offset: u64) -> Self {
        Self { sent: offset, acknowledged: offset, gaps: VecDeque::new() }
    }

    fn bytes(&self) -> u64 {
        let gaps: u64 = self.gaps.iter().map(|(from, to)| to - (*from).max(self.acknowledged)).sum();
        self.sent - self.acknowledged - gaps
    }

    fn room(&self) -> u64 {
        if self.gaps.len() >= MAX_GAPS { 0 } else { CREDIT.saturating_sub(self.bytes()) }
    }

    fn skip(&mut self, to: u64) {
        match self.gaps.back_mut() {
            // Directly after another gap, with no byte between them that could be acknowledged.
            Some((_, end)) if *end == self.sent => *end = to,
            _ => self.gaps.push_back((self.sent, to)),
        }
        self.sent = to;
    }

    /// `false`: acknowledged what was never sent.
    fn acknowledge(&mut self, offset: u64) -> bool {
        if offset > self.sent {
            return false;
        }
        self.acknowledged = self.acknowledged.max(offset);
        self.gaps.retain(|(_, to)| *to > self.acknowledged);
        true
    }
}

/// What a stream says next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Bytes, after a gap or directly.
    Output { gap: Option<(u64, u64, GapReason)>, offset: u64, bytes: bytes::Bytes },
    /// All of it was sent.
    End { offset: u64, complete: bool },
    /// Nothing after all.
    Nothing,
}

/// Resolves when the log has changed; gives the receiver back.
type Growth = ReusableBoxFuture<'static, Option<watch::Receiver<LogState>>>;

/// The stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// The viewer's name for it.
    pub id: u32,
    log: Log,
    flight: Flight,
    growth: Growth,
    /// The log's writer is gone; nothing will change any more.
    settled: bool,
    /// Output was still coming when it began. Who watches what is over asked for all of it.
    is_live: bool,
}

async fn grown(mut watch: watch::Receiver<LogState>) -> Option<watch::Receiver<LogState>> {
    watch.changed().await.ok().map(|()| watch)
}

impl Stream {
    /// Begins at an offset.
    pub(super) fn new(id: u32, log: Log, offset: u64) -> Self {
        let growth = ReusableBoxFuture::new(grown(log.watch()));
        let is_live = !log.state().closed;
        Self { id, log, flight: Flight::from(offset), growth, settled: false, is_live }
    }

    /// Is there something to say now?
    pub(super) fn has_next(&self) -> bool {
        let state = self.log.state();
        if self.flight.sent < state.end { self.flight.room() > 0 } else { state.closed }
    }

    /// Ready when there may be something to say that there was not at the last call. Only a stream that has said
    /// everything waits for its log: one that waits for its viewer must not wake up for every byte of a busy command.
    pub(super) fn poll_growth(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_next() {
            return Poll::Ready(());
        }
        if self.settled || self.flight.sent < self.log.state().end {
            return Poll::Pending;
        }
        self.growth.poll(context).map(|watch| match watch {
            Some(watch) => self.growth.set(grown(watch)),
            None => self.settled = true,
        })
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Result<Next, LogError> {
        let state = self.log.state();
        if self.flight.sent >= state.end {
            return Ok(if state.closed {
                Next::End { offset: state.end, complete: state.complete }
            } else {
                Next::Nothing
            });
        }
        let wanted = CHUNK.min(self.flight.room() as usize);
        if wanted == 0 {
            return Ok(Next::Nothing);
        }
        let from = self.flight.sent;
        let behind = self.is_live && state.end - from > TOO_FAR_BEHIND;
        let begin = if behind { state.end - CATCH_UP } else { from };
        let Chunk { offset, bytes, .. } = self.log.read(begin, wanted).await?;
        let reason = if behind { GapReason::ViewerBehind } else { GapReason::LogFull };
        let gap = (offset > from).then_some((from, offset, reason));
        if gap.is_some() {
            self.flight.skip(offset);
        }
        self.flight.sent = offset + bytes.len() as u64;
        Ok(if gap.is_none() && bytes.is_empty() { Next::Nothing } else { Next::Output { gap, offset, bytes } })
    }

    /// The viewer took in everything before this offset; `false`: it cannot have.
    pub(super) fn acknowledge(&mut self, offset: u64) -> bool {
        self.flight.acknowledge(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_used_up_by_bytes_and_given_back_by_acknowledging() {
        let mut flight = Flight::from(1000);
        assert_eq!(flight.room(), CREDIT);
        flight.sent += CREDIT;
        assert_eq!(flight.room(), 0);
        assert!(flight.acknowledge(1000 + CREDIT / 2));
        assert_eq!(flight.room(), CREDIT / 2);
        assert!(flight.acknowledge(1000), "an old acknowledgement is late, not wrong");
        assert_eq!(flight.room(), CREDIT / 2);
        assert!(!flight.acknowledge(1001 + CREDIT), "nobody can have taken in what was never sent");
    }

    #[test]
    fn a_gap_uses_up_no_credit_even_if_it_is_never_acknowledged() {
        let mut flight = Flight::from(0);
        flight.sent = 100;
        flight.skip(50_000_000);
        flight.sent += 200;
        assert_eq!(flight.bytes(), 300);
        assert!(flight.acknowledge(100));
        assert_eq!(flight.bytes(), 200);
        assert!(flight.acknowledge(25_000_000), "in the middle of the gap");
        assert_eq!(flight.bytes(), 200);
        assert!(flight.acknowledge(50_000_200));
        assert_eq!(flight.bytes(), 0);
        assert!(flight.gaps.is_empty());
    }

    #[test]
    fn gaps_without_a_byte_between_them_are_one() {
        let mut flight = Flight::from(0);
        for n in 1..=2 * MAX_GAPS as u64 {
            flight.skip(n * 1000);
        }
        assert_eq!((flight.gaps.len(), flight.bytes()), (1, 0));
        assert_eq!(flight.room(), CREDIT);
    }

    #[test]
    fn a_viewer_with_many_unacknowledged_gaps_waits() {
        let mut flight = Flight::from(0);
        for n in 1..=MAX_GAPS as u64 {
            flight.skip(n * 1000);
            flight.sent += 1;
        }
        assert_eq!(flight.room(), 0);
        assert!(flight.acknowledge(flight.sent));
        assert_eq!(flight.room(), CREDIT);
    }
}
