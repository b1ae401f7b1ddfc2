//! What a viewer has seen of one command's output.

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{Cursor, FromServer, GapReason};

/// What is done with the bytes that come.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// Kept, to be compared.
    All,
    /// Each is checked by its offset and let go: for floods.
    Check(fn(offset: u64, byte: u8) -> bool),
    /// They must be this text again and again from offset 0, which is seen much sooner than by looking at each.
    Repeats(&'static [u8]),
}

/// The first of `bytes`, which begin at `offset`, that is not in its place in `text` again and again.
fn first_wrong(text: &[u8], offset: u64, bytes: &[u8]) -> Option<usize> {
    let mut seen = 0;
    while seen < bytes.len() {
        let text = &text[((offset + seen as u64) % text.len() as u64) as usize..];
        let length = text.len().min(bytes.len() - seen);
        if bytes[seen..seen + length] != text[..length] {
            return (0..length).find(|at| bytes[seen + at] != text[*at]).map(|at| seen + at);
        }
        seen += length;
    }
    None
}

/// The end as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Total length.
    pub offset: u64,
    /// Does the log hold all of it?
    pub complete: bool,
}

/// A stream as this viewer knows it.
#[derive(Debug, Clone)]
pub struct Stream {
    keep: Keep,
    /// Where it began; `None`: not yet.
    pub began: Option<u64>,
    /// What comes next.
    pub cursor: Cursor,
    /// The bytes, when they are kept.
    pub bytes: Vec<u8>,
    /// How many came.
    pub received: u64,
    /// What was announced as missing: from, to, why.
    pub gaps: Vec<(u64, u64, GapReason)>,
    /// The end.
    pub end: Option<End>,
    /// Refused or broken off.
    pub error: Option<(ErrorCode, String)>,
}

impl Stream {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            keep,
            began: None,
            cursor: Cursor::default(),
            bytes: Vec::new(),
            received: 0,
            gaps: Vec::new(),
            end: None,
            error: None,
        }
    }

    /// Bytes announced as missing.
    pub fn missing(&self) -> u64 {
        self.gaps.iter().map(|(from, to, _)| to - from).sum()
    }

    /// Over, one way or the other.
    pub fn is_over(&self) -> bool {
        self.end.is_some() || self.error.is_some()
    }

    /// Takes bytes in; `Err` says which rule of the protocol they break.
    pub(crate) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.must_be_open("output")?;
        self.cursor.take(offset, bytes.len()).map_err(|error| error.to_string())?;
        self.received += bytes.len() as u64;
        match self.keep {
            Keep::All => self.bytes.extend_from_slice(bytes),
            Keep::Check(check) => {
                let wrong = bytes.iter().zip(offset..).find(|(byte, at)| !check(*at, **byte));
                if let Some((byte, at)) = wrong {
                    return Err(format!("byte {byte} at offset {at} is not what was written there"));
                }
            }
            Keep::Repeats(text) => {
                if let Some(wrong) = first_wrong(text, offset, bytes) {
                    let at = offset + wrong as u64;
                    return Err(format!("byte {} at offset {at} is not what was written there", bytes[wrong]));
                }
            }
        }
        Ok(())
    }

    /// Takes in what was said about it.
    pub(crate) fn hear(&mut self, said: &FromServer) -> Result<(), String> {
        match said {
            FromServer::Watching { offset, .. } => {
                if self.began.replace(*offset).is_some() {
                    return Err("a stream began twice".to_owned());
                }
                self.cursor = Cursor { offset: *offset };
                Ok(())
            }
            FromServer::Gap { from, to, reason, .. } => {
                self.must_be_open("a gap")?;
                self.gaps.push((*from, *to, *reason));
                self.cursor.gap(*from, *to).map_err(|error| format!("a gap from {from} to {to}: {error}"))
            }
            FromServer::StreamEnd { offset, complete, .. } => {
                self.must_be_open("an end")?;
                self.end = Some(End { offset: *offset, complete: *complete });
                let reached = self.cursor.offset;
                if reached == *offset {
                    Ok(())
                } else {
                    Err(format!("the end is said to be at {offset}, but {reached} was reached"))
                }
            }
            FromServer::StreamError { code, detail, .. } => {
                self.error = Some((*code, detail.clone()));
                Ok(())
            }
            other => Err(format!("not about a stream: {other:?}")),
        }
    }

    fn must_be_open(&self, what: &str) -> Result<(), String> {
        if self.began.is_none() {
            return Err(format!("{what} before the stream began"));
        }
        if self.is_over() { Err(format!("{what} after the stream's end")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_repeats_is_known_from_any_offset_and_a_wrong_byte_is_found() {
        let written: Vec<u8> = b"abc".iter().copied().cycle().take(20).collect();
        for from in 0..20 {
            assert_eq!(first_wrong(b"abc", from as u64, &written[from..]), None);
        }
        let mut wrong = written.clone();
        wrong[13] = b'x';
        assert_eq!(first_wrong(b"abc", 4, &wrong[4..]), Some(9));
        assert_eq!(first_wrong(b"abc", 14, &wrong[14..]), None);
    }
}
