//! The viewer's half of one output stream: bytes in order, gaps announced, acknowledgements in time.
//!
//! Bytes themselves never come here; only their offsets do.

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{Cursor, GapReason, OutOfOrder, WatchFrom};

use super::words;

/// How much of the end of an output is shown at first: a few thousand lines, at once on any line.
pub const TAIL_BYTES: u64 = 512 * 1024;
/// Bytes after which an acknowledgement is due at once; an eighth of the credit.
pub const ACK_BYTES: u64 = 32 * 1024;
/// Milliseconds after which an acknowledgement is due anyway.
pub const ACK_MS: u32 = 100;
/// A stream that breaks the order this often without progress is given up.
const MOST_RETRIES: u32 = 3;

/// Where the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Asked for.
    #[default]
    Opening,
    /// Bytes come as they are written.
    Live,
    /// The connection is away; it goes on where it stopped.
    Away,
    /// No more will come.
    Ended {
        /// Does the log hold all that was written?
        complete: bool,
    },
    /// The server refused it, or it broke.
    Failed {
        /// The server's code, where it gave one.
        code: Option<ErrorCode>,
    },
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    cursor: Cursor,
    begun: bool,
    /// Bytes before the first one shown.
    pub hidden: u64,
    /// Bytes that gaps left out.
    pub missing: u64,
    /// Where it is.
    pub phase: Phase,
    from: Option<WatchFrom>,
    parsed: u64,
    acked: u64,
    retries: u32,
}

impl Stream {
    /// To begin at `from`.
    pub fn new(from: WatchFrom) -> Self {
        Self { from: Some(from), ..Self::default() }
    }

    /// Next byte expected.
    pub fn offset(&self) -> u64 {
        self.cursor.offset
    }

    /// From where to watch on a new connection; `None`: nothing more is wanted.
    pub fn resume(&self) -> Option<WatchFrom> {
        match self.phase {
            Phase::Ended { .. } | Phase::Failed { .. } => None,
            _ if self.begun => Some(WatchFrom::Offset(self.cursor.offset)),
            _ => self.from,
        }
    }

    /// The connection is lost.
    pub fn away(&mut self) {
        if self.resume().is_some() && self.begun {
            self.phase = Phase::Away;
        }
    }

    /// The server opened the stream; bytes follow from `offset`.
    pub fn opened(&mut self, offset: u64) -> Result<(), OutOfOrder> {
        if self.begun {
            if offset != self.cursor.offset {
                return Err(OutOfOrder { expected: self.cursor.offset, got: offset });
            }
        } else {
            self.begun = true;
            self.hidden = offset;
            self.cursor.offset = offset;
            self.parsed = offset;
        }
        // Acknowledgements count for this opening.
        self.acked = self.parsed;
        self.phase = Phase::Live;
        Ok(())
    }

    /// Bytes came.
    pub fn output(&mut self, offset: u64, length: usize) -> Result<(), OutOfOrder> {
        self.cursor.take(offset, length)?;
        self.retries = 0;
        Ok(())
    }

    /// Bytes are missing. The text for the rule in the output.
    pub fn gap(&mut self, from: u64, to: u64, reason: GapReason) -> Result<String, OutOfOrder> {
        self.cursor.gap(from, to)?;
        self.missing += to - from;
        Ok(gap_text(to - from, reason))
    }

    /// No more will come.
    pub fn end(&mut self, offset: u64, complete: bool) -> Result<(), OutOfOrder> {
        self.cursor.take(offset, 0)?;
        self.phase = Phase::Ended { complete };
        Ok(())
    }

    /// The server refused or broke it.
    pub fn failed(&mut self, code: Option<ErrorCode>) {
        self.phase = Phase::Failed { code };
    }

    /// Something came out of order: true to watch again from the offset reached, false to give up.
    pub fn retry(&mut self) -> bool {
        self.retries += 1;
        if self.retries > MOST_RETRIES {
            self.failed(None);
        }
        self.retries <= MOST_RETRIES
    }

    /// The terminal took in everything before `offset`. An acknowledgement that is due at once.
    pub fn parsed(&mut self, offset: u64) -> Option<u64> {
        self.parsed = self.parsed.max(offset);
        if self.parsed - self.acked >= ACK_BYTES { self.due() } else { None }
    }

    /// An acknowledgement that is due after [`ACK_MS`], if one is.
    pub fn due(&mut self) -> Option<u64> {
        let due = self.parsed > self.acked && self.phase == Phase::Live;
        due.then(|| {
            self.acked = self.parsed;
            self.parsed
        })
    }

    /// The first words of the status line: is what one sees what there is? `written`: the output's length as last told.
    pub fn status(&self, written: u64) -> String {
        match self.phase {
            Phase::Opening => "opening".to_owned(),
            Phase::Live if written > self.parsed + ACK_BYTES => {
                format!("catching up, {} behind", words::bytes(written - self.parsed))
            }
            Phase::Live => "live".to_owned(),
            Phase::Away => "waiting for the connection".to_owned(),
            Phase::Ended { complete: true } => "complete".to_owned(),
            Phase::Ended { complete: false } => "ended, the log is not complete".to_owned(),
            Phase::Failed { .. } => "not shown".to_owned(),
        }
    }
}

/// The text of the rule in the output.
pub fn gap_text(missing: u64, reason: GapReason) -> String {
    let GapReason::LogFull = reason;
    format!("{} are not held any more: the log keeps the first and the latest part", words::bytes(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_stream_asks_for_exactly_the_next_byte() {
        let mut stream = Stream::new(WatchFrom::Tail(100));
        assert_eq!(stream.resume(), Some(WatchFrom::Tail(100)));
        stream.opened(50).expect("first");
        stream.output(50, 10).expect("in order");
        stream.away();
        assert_eq!((stream.phase, stream.hidden), (Phase::Away, 50));
        assert_eq!(stream.resume(), Some(WatchFrom::Offset(60)));
        assert!(stream.opened(61).is_err());
        stream.opened(60).expect("where it stopped");
        stream.end(60, true).expect("all of it");
        assert_eq!(stream.resume(), None);
    }

    #[test]
    fn duplicates_and_silent_gaps_are_refused_and_given_up_after_a_few_tries() {
        let mut stream = Stream::new(WatchFrom::Offset(0));
        stream.opened(0).expect("first");
        stream.output(0, 10).expect("in order");
        assert!(stream.output(0, 10).is_err());
        assert!(stream.output(11, 10).is_err());
        assert!(stream.end(9, true).is_err());
        assert!((0..3).all(|_| stream.retry()));
        assert!(!stream.retry());
        assert!(matches!(stream.phase, Phase::Failed { .. }));
    }

    #[test]
    fn an_announced_gap_is_counted_and_named() {
        let mut stream = Stream::new(WatchFrom::Offset(0));
        stream.opened(0).expect("first");
        let text = stream.gap(0, 2_100_000, GapReason::LogFull).expect("announced");
        assert_eq!(text, "2.1 MB are not held any more: the log keeps the first and the latest part");
        stream.output(2_100_000, 1).expect("after the gap");
        assert_eq!(stream.missing, 2_100_000);
    }

    #[test]
    fn acknowledgements_come_in_bulk_and_never_twice() {
        let mut stream = Stream::new(WatchFrom::Offset(0));
        stream.opened(0).expect("first");
        assert_eq!(stream.parsed(1000), None);
        assert_eq!(stream.due(), Some(1000));
        assert_eq!(stream.due(), None);
        assert_eq!(stream.parsed(1000 + ACK_BYTES), Some(1000 + ACK_BYTES));
        stream.parsed(40_000);
        stream.away();
        assert_eq!(stream.due(), None, "nobody to tell");
    }

    #[test]
    fn the_status_says_when_what_is_shown_is_old() {
        let mut stream = Stream::new(WatchFrom::Offset(0));
        assert_eq!(stream.status(0), "opening");
        stream.opened(0).expect("first");
        assert_eq!(stream.status(10), "live");
        assert_eq!(stream.status(2_000_000), "catching up, 2 MB behind");
        stream.end(0, false).expect("nothing came");
        assert_eq!(stream.status(0), "ended, the log is not complete");
    }
}
