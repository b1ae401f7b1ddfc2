//! Reading output by long polling. Every answer must begin where the last one ended, or say how much is missing.

use std::time::Instant;

use glassbox_shared::command::output_headers;

use crate::command::{Command, END_LIMIT};

/// Seconds of one long poll.
const POLL: u64 = 20;

/// What was read.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// The bytes, gaps left out.
    pub bytes: Vec<u8>,
    /// Gaps: from, to.
    pub gaps: Vec<(u64, u64)>,
    /// The next offset.
    pub next: u64,
    /// Is it the end?
    pub end: bool,
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(400)];
        f.debug_struct("Read")
            .field("bytes", &format_args!("{} {:?}", self.bytes.len(), String::from_utf8_lossy(shown)))
            .field("gaps", &self.gaps)
            .field("next", &self.next)
            .field("end", &self.end)
            .finish()
    }
}

impl Read {
    /// Bytes missing.
    pub fn missing(&self) -> u64 {
        self.gaps.iter().map(|(from, to)| to - from).sum()
    }

    /// As text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// One more answer.
    async fn more(&mut self, command: &Command) {
        let path = command.path(&format!("/output?from={}&wait={POLL}", self.next));
        let answer = command.client().get(&path).await.success().expect("output can be read");
        let number = |name: &str| {
            answer
                .header(name)
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{name}: a number, not {:?}", answer.header(name)))
        };
        let (offset, next, gap) =
            (number(output_headers::OFFSET), number(output_headers::NEXT), number(output_headers::GAP));
        assert_eq!(offset, self.next + gap, "bytes follow the last ones, or the gap says what is missing");
        assert_eq!(next, offset + answer.body.len() as u64, "the next offset counts the body");
        assert_eq!(answer.header("content-type"), "application/octet-stream", "output is bytes, not text");
        if gap > 0 {
            self.gaps.push((self.next, offset));
        }
        self.bytes.extend_from_slice(&answer.body);
        self.next = next;
        self.end = answer.header(output_headers::END) == "true";
    }
}

/// Reads from an offset to the end.
pub async fn read_to_end(command: &Command, from: u64) -> Read {
    let mut read = Read { next: from, ..Read::default() };
    let begun = Instant::now();
    while !read.end {
        read.more(command).await;
        assert!(begun.elapsed() < END_LIMIT, "no end of the output within {END_LIMIT:?}: {read:?}");
    }
    read
}

/// Reads until `text` is among what was read.
pub async fn read_until(command: &Command, text: &[u8]) -> Read {
    let mut read = Read::default();
    let begun = Instant::now();
    while !contains(&read.bytes, text) {
        let shown = String::from_utf8_lossy(text);
        assert!(!read.end, "the output ended without {shown:?}: {read:?}");
        assert!(begun.elapsed() < END_LIMIT, "no {shown:?} within {END_LIMIT:?}: {read:?}");
        read.more(command).await;
    }
    read
}

/// Does `text` stand somewhere in `bytes`?
pub fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
