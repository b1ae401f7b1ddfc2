//! The frames between the server and `glassbox-inside`, over stdin and stdout of one `docker exec` without a TTY.
//!
//! A frame is a length (u32, little endian, of what follows), a kind (u8), in the helper's direction also the tag
//! (u64, little endian), and a payload: JSON for control, raw bytes for output and input.
//!
//! The tag is a secret that the server draws for each exec and gives in the first bytes of stdin. Frames without it are
//! nonsense: a process of the sandbox that gets hold of the helper's stdout cannot forge one. All that the helper says
//! is nevertheless treated as hostile: lengths are bounded, order is checked, and anything malformed is `helper_lost`.
//!
//! | subcommand | stdin | stdout |
//! | --- | --- | --- |
//! | `run COMMAND_ID` | [`ToHelper`] frames, first [`ToHelper::Start`] | [`FromHelper`] frames |
//! | `sweep COMMAND_ID` | the tag, 8 bytes | one [`FromHelper::Ended`] frame with what was left of that command |
//!
//! `COMMAND_ID` stands in the argument list so that a sweep finds the helper of that command in `/proc`. When stdin of
//! `run` ends, the server is gone: the helper ends the command, and whatever it left behind, and leaves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Survivor;

/// Largest payload of one frame; longer ones are nonsense. Output comes in pieces of at most 64 KiB, a command's text
/// with its environment needs at most about 200 KiB as JSON in ordinary use and up to six times that when escaped.
pub const MAX_FRAME: usize = 2 * 1024 * 1024;

/// Most output bytes in one frame.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// The environment variable that marks every process of a command, so that daemons can be found again.
pub const MARK: &str = "GLASSBOX_COMMAND";

/// Where the helper is mounted in every sandbox.
pub const HELPER_PATH: &str = "/.glassbox/glassbox-inside";

/// Grace between TERM and KILL where nobody says otherwise, in milliseconds.
pub const DEFAULT_GRACE_MS: u64 = 5_000;

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The secret that every frame of the helper must carry.
    pub tag: u64,
    /// Program and arguments; nothing is ever spliced into a shell string.
    pub argv: Vec<String>,
    /// Working directory; relative ones start at the helper's own.
    pub cwd: Option<String>,
    /// Added to the helper's own environment.
    pub env: BTreeMap<String, String>,
    /// stdout and stderr on pipes of their own, else on one.
    pub split: bool,
    /// Milliseconds after which the helper ends the command itself.
    pub limit_ms: u64,
    /// Grace between TERM and KILL at that limit.
    pub grace_ms: u64,
    /// Keep stdin open for [`ToHelper::Input`]; else it is at its end at once.
    pub stdin: bool,
    /// Run on a terminal of this size (not built yet).
    pub terminal: Option<TerminalSize>,
}

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq)]
pub enum ToHelper {
    /// First and once.
    Start(Box<Start>),
    /// Bytes for the command's stdin (not built yet).
    Input(Vec<u8>),
    /// Close the command's stdin (not built yet).
    EndOfInput,
    /// The terminal has a new size (not built yet).
    Resize(TerminalSize),
    /// Send a signal to the command's process group.
    Signal(i32),
    /// End the whole tree: TERM, grace, KILL, verified.
    Kill {
        /// Milliseconds between TERM and KILL.
        grace_ms: u64,
    },
}

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[repr(u8)]
pub enum Channel {
    /// stdout and stderr on one pipe.
    Merged = 0,
    /// Split: stdout.
    Stdout = 1,
    /// Split: stderr.
    Stderr = 2,
    /// A terminal.
    Terminal = 3,
}

impl Channel {
    /// From its number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Channel::Merged,
            1 => Channel::Stdout,
            2 => Channel::Stderr,
            3 => Channel::Terminal,
            _ => return None,
        })
    }
}

/// How the command's own process ended, as waitpid tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// Exit code.
    Code(i32),
    /// Signal number.
    Signal(i32),
    /// It was not seen to end: it survived, or (in a sweep) nobody waited for it.
    Unknown,
}

/// What brought the end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The process ended by itself (or by a signal from somewhere else).
    Own,
    /// A [`ToHelper::Kill`] was at work when it ended.
    Kill,
    /// Its limit was reached.
    Limit,
}

/// The command's own process has ended, and after a kill or the limit its whole tree was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Why.
    pub cause: EndCause,
    /// The last signal that a kill needed; 0 without a kill.
    pub signal: i32,
    /// Milliseconds from the first signal of a kill to its verified end.
    pub took_ms: u64,
    /// Milliseconds from the start of the command's own process to its end, by a clock that nobody sets; `None`: it was not
    /// seen to end.
    pub ran_ms: Option<u64>,
    /// Processes that outlived the kill, at most [`MAX_SURVIVORS`].
    pub survivors: Vec<Survivor>,
}

/// Most survivors that are named.
pub const MAX_SURVIVORS: usize = 64;

/// What the helper says. Order: [`Started`](FromHelper::Started) or [`FailedToStart`](FromHelper::FailedToStart); then
/// [`Output`](FromHelper::Output)s; [`Ended`](FromHelper::Ended) once, after every byte that the command's own process
/// wrote; more output of what it left behind; [`OutputClosed`](FromHelper::OutputClosed) once, last.
#[derive(Debug, Clone, PartialEq)]
pub enum FromHelper {
    /// The process lives.
    Started {
        /// Its PID inside the sandbox.
        pid: i32,
    },
    /// It could not be started; nothing comes after.
    FailedToStart {
        /// Why, for people: what was tried and what the system said.
        message: String,
    },
    /// Bytes as written.
    Output {
        /// Which output.
        channel: Channel,
        /// The bytes, at most [`MAX_OUTPUT`].
        bytes: Vec<u8>,
    },
    /// The command's own process ended.
    Ended(Ended),
    /// Every pipe is at its end (or was given up after a kill).
    OutputClosed,
}

/// A frame that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// An unknown kind, a wrong tag, or a payload that cannot be read.
    #[error("a frame that cannot be read: {0}")]
    Malformed(&'static str),
}

const START: u8 = 1;
const INPUT: u8 = 2;
const END_OF_INPUT: u8 = 3;
const RESIZE: u8 = 4;
const SIGNAL: u8 = 5;
const KILL: u8 = 6;
const STARTED: u8 = 101;
const FAILED_TO_START: u8 = 102;
const OUTPUT: u8 = 103;
const ENDED: u8 = 104;
const OUTPUT_CLOSED: u8 = 105;

/// Splits a byte stream into frames; holds at most one frame and what came with it, and as much again.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    read: usize,
}

impl FrameBuffer {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        // What is not read yet is moved only when there is less of it than of what was read: each byte once at most.
        if self.bytes.len() - self.read <= self.read {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame's kind and body (for the helper's frames the body begins with the tag).
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, FrameError> {
        let rest = &self.bytes[self.read..];
        let Some((length, _)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLong(length));
        }
        if length == 0 {
            return Err(FrameError::Malformed("empty"));
        }
        if rest.len() < 4 + length {
            return Ok(None);
        }
        let start = self.read + 4;
        self.read = start + length;
        Ok(Some((self.bytes[start], &self.bytes[start + 1..start + length])))
    }

    /// Is a frame begun but not whole?
    pub fn is_mid_frame(&self) -> bool {
        self.read < self.bytes.len()
    }
}

pub(crate) fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(4 + length);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.push(kind);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

pub(crate) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data without maps of odd keys always serialises")
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, FrameError> {
    serde_json::from_slice(body).map_err(|_| FrameError::Malformed("payload"))
}

/// Bytes before the payload of an output frame: length, kind, tag, channel.
pub const OUTPUT_HEADER: usize = 4 + 1 + 8 + 1;

/// The beginning of a frame of `length` bytes of output (at most [`MAX_OUTPUT`]), which follow it.
pub fn output_header(tag: u64, channel: Channel, length: usize) -> [u8; OUTPUT_HEADER] {
    let mut header = [0; OUTPUT_HEADER];
    header[..4].copy_from_slice(&((OUTPUT_HEADER - 4 + length) as u32).to_le_bytes());
    header[4] = OUTPUT;
    header[5..13].copy_from_slice(&tag.to_le_bytes());
    header[13] = channel as u8;
    header
}

impl ToHelper {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToHelper::Start(start) => frame(START, &[&json(start)]),
            ToHelper::Input(bytes) => frame(INPUT, &[bytes]),
            ToHelper::EndOfInput => frame(END_OF_INPUT, &[]),
            ToHelper::Resize(size) => frame(RESIZE, &[&json(size)]),
            ToHelper::Signal(number) => frame(SIGNAL, &[&json(number)]),
            ToHelper::Kill { grace_ms } => frame(KILL, &[&json(grace_ms)]),
        }
    }

    /// From a frame's kind and body.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        Ok(match kind {
            START => ToHelper::Start(parse(body)?),
            INPUT => ToHelper::Input(body.to_vec()),
            END_OF_INPUT => ToHelper::EndOfInput,
            RESIZE => ToHelper::Resize(parse(body)?),
            SIGNAL => ToHelper::Signal(parse(body)?),
            KILL => ToHelper::Kill { grace_ms: parse(body)? },
            _ => return Err(FrameError::Malformed("kind")),
        })
    }
}

impl FromHelper {
    /// As bytes, carrying `tag`.
    pub fn encode(&self, tag: u64) -> Vec<u8> {
        let tag = tag.to_le_bytes();
        match self {
            FromHelper::Started { pid } => frame(STARTED, &[&tag, &json(pid)]),
            FromHelper::FailedToStart { message } => frame(FAILED_TO_START, &[&tag, &json(message)]),
            FromHelper::Output { channel, bytes } => frame(OUTPUT, &[&tag, &[*channel as u8], bytes]),
            FromHelper::Ended(ended) => frame(ENDED, &[&tag, &json(ended)]),
            FromHelper::OutputClosed => frame(OUTPUT_CLOSED, &[&tag]),
        }
    }

    /// From a frame's kind and body; refuses a frame that does not carry `tag`.
    pub fn decode(tag: u64, kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let Some((carried, payload)) = body.split_first_chunk::<8>() else {
            return Err(FrameError::Malformed("no tag"));
        };
        if u64::from_le_bytes(*carried) != tag {
            return Err(FrameError::Malformed("tag"));
        }
        Ok(match kind {
            STARTED => FromHelper::Started { pid: parse(payload)? },
            FAILED_TO_START => FromHelper::FailedToStart { message: parse(payload)? },
            OUTPUT => {
                let (channel, bytes) = payload.split_first().ok_or(FrameError::Malformed("no channel"))?;
                let channel = Channel::from_number(*channel).ok_or(FrameError::Malformed("channel"))?;
                if bytes.len() > MAX_OUTPUT {
                    return Err(FrameError::TooLong(bytes.len()));
                }
                FromHelper::Output { channel, bytes: bytes.to_vec() }
            }
            ENDED => {
                let ended: Ended = parse(payload)?;
                if ended.survivors.len() > MAX_SURVIVORS {
                    return Err(FrameError::Malformed("survivors"));
                }
                FromHelper::Ended(ended)
            }
            OUTPUT_CLOSED if payload.is_empty() => FromHelper::OutputClosed,
            _ => return Err(FrameError::Malformed("kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(buffer: &mut FrameBuffer, tag: u64) -> Vec<FromHelper> {
        let mut frames = Vec::new();
        while let Some((kind, body)) = buffer.next_frame().expect("frames of ours") {
            frames.push(FromHelper::decode(tag, kind, body).expect("frames of ours"));
        }
        frames
    }

    #[test]
    fn a_frame_with_a_foreign_tag_is_nonsense() {
        let bytes = FromHelper::OutputClosed.encode(1);
        let mut buffer = FrameBuffer::default();
        buffer.push(&bytes);
        let (kind, body) = buffer.next_frame().expect("well formed").expect("whole");
        assert_eq!(FromHelper::decode(2, kind, body), Err(FrameError::Malformed("tag")));
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_anything_is_held() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_le_bytes());
        assert_eq!(buffer.next_frame().map(|_| ()), Err(FrameError::TooLong(u32::MAX as usize)));
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..8), cut in 1_usize..40) {
            let sent: Vec<FromHelper> = pieces.into_iter().map(|bytes| FromHelper::Output { channel: Channel::Stderr, bytes }).collect();
            let stream: Vec<u8> = sent.iter().flat_map(|f| f.encode(7)).collect();
            let mut buffer = FrameBuffer::default();
            let mut got = Vec::new();
            for part in stream.chunks(cut) {
                buffer.push(part);
                got.extend(all(&mut buffer, 7));
            }
            prop_assert_eq!(got, sent);
            prop_assert!(!buffer.is_mid_frame());
        }

        #[test]
        fn nonsense_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some((kind, body))) = buffer.next_frame() {
                let _ = FromHelper::decode(0, kind, body);
                let _ = ToHelper::decode(kind, body);
            }
        }
    }
}
