//! One stream of a socket: a place in a command's output log, and how much of it the viewer has taken in.

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use glassbox_shared::live::{CREDIT, MAX_OUTPUT_MESSAGE};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;

use crate::command::log::{Chunk, Log, LogError, LogState};

/// Bytes in one message to a viewer that is not known to be fast: so few that even one that reads 1 kB/s gets a whole
/// message within the time after which it would count the connection as lost.
const SMALL: usize = 16 * 1024;
/// A viewer that acknowledges a message within this time is fast (it takes 160 kB/s at least), and is sent twice as much in
/// one, up to [`MAX_OUTPUT_MESSAGE`]: what a message costs, it costs however large it is.
const QUICK: Duration = Duration::from_millis(100);
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

/// How much goes into one message: what its viewer has shown to take in no time.
#[derive(Debug)]
struct Pace {
    size: usize,
    /// The end of a message that is on its way, and since when.
    timed: Option<(u64, Instant)>,
}

impl Pace {
    fn new() -> Self {
        Self { size: SMALL, timed: None }
    }

    /// Is this much room worth a message? To a slow viewer any is. A fast one gives back more in a moment, and whole
    /// messages stay whole.
    fn is_worth(&self, room: u64) -> bool {
        room >= self.size as u64 || (room > 0 && self.size == SMALL)
    }

    fn sent(&mut self, end: u64, now: Instant) {
        self.timed.get_or_insert((end, now));
    }

    fn acknowledged(&mut self, offset: u64, now: Instant) {
        if let Some((_, at)) = self.timed.take_if(|(end, _)| *end <= offset) {
            self.size = if now - at <= QUICK { (self.size * 2).min(MAX_OUTPUT_MESSAGE) } else { SMALL };
        }
    }
}

/// What a stream says next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Bytes, after a gap or directly.
    Output { gap: Option<(u64, u64)>, offset: u64, bytes: bytes::Bytes },
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
    pace: Pace,
    growth: Growth,
    /// The log's writer is gone; nothing will change any more.
    settled: bool,
}

async fn grown(mut watch: watch::Receiver<LogState>) -> Option<watch::Receiver<LogState>> {
    watch.changed().await.ok().map(|()| watch)
}

impl Stream {
    /// Begins at an offset.
    pub(super) fn new(id: u32, log: Log, offset: u64) -> Self {
        let growth = ReusableBoxFuture::new(grown(log.watch()));
        Self { id, log, flight: Flight::from(offset), pace: Pace::new(), growth, settled: false }
    }

    /// Is there something to say now?
    pub(super) fn has_next(&self) -> bool {
        let state = self.log.state();
        if self.flight.sent < state.end { self.pace.is_worth(self.flight.room()) } else { state.closed }
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
        let room = self.flight.room();
        if !self.pace.is_worth(room) {
            return Ok(Next::Nothing);
        }
        let from = self.flight.sent;
        let Chunk { offset, bytes, .. } = self.log.read(from, self.pace.size.min(room as usize)).await?;
        let gap = (offset > from).then_some((from, offset));
        if gap.is_some() {
            self.flight.skip(offset);
        }
        self.flight.sent = offset + bytes.len() as u64;
        self.pace.sent(self.flight.sent, Instant::now());
        Ok(if gap.is_none() && bytes.is_empty() { Next::Nothing } else { Next::Output { gap, offset, bytes } })
    }

    /// The viewer took in everything before this offset; `false`: it cannot have.
    pub(super) fn acknowledge(&mut self, offset: u64) -> bool {
        self.pace.acknowledged(offset, Instant::now());
        self.flight.acknowledge(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_grow_for_who_takes_them_at_once_and_are_small_again_for_who_does_not() {
        let begun = Instant::now();
        let mut pace = Pace::new();
        for (sent, size) in [(1, 32 * 1024), (2, MAX_OUTPUT_MESSAGE), (3, MAX_OUTPUT_MESSAGE)] {
            pace.sent(sent, begun);
            pace.sent(sent + 100, begun + QUICK);
            pace.acknowledged(sent - 1, begun + QUICK);
            pace.acknowledged(sent, begun + QUICK);
            assert_eq!(pace.size, size);
        }
        assert!(!pace.is_worth(MAX_OUTPUT_MESSAGE as u64 - 1), "a whole message is waited for");
        pace.sent(4, begun);
        pace.acknowledged(4, begun + 2 * QUICK);
        assert_eq!(pace.size, SMALL);
        assert!(pace.is_worth(1) && !pace.is_worth(0));
    }

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
