//! The live protocol: one WebSocket a tab at `/v1/ws`, subprotocol [`SUBPROTOCOL`].
//!
//! Text messages are JSON: [`FromViewer`] one way, [`FromServer`] the other. Binary messages are output, see [`Output`].
//!
//! # Events
//! The server sends [`FromServer::Hello`] first, then [`FromServer::Event`]s of the tenant as they happen. Sequences only
//! grow; numbers are left out where a newer view of the same thing follows at once. [`FromServer::Reload`] is the only
//! sign of loss: the viewer was too slow and loads its lists again. `epoch` names the server process: after a restart
//! sequences begin anew.
//!
//! # Output
//! [`FromViewer::Watch`] opens a stream under an id that the viewer chooses. Each binary message carries stream id and
//! byte offset. The offset of a message is always where the last one ended, except directly after a
//! [`FromServer::Gap`], which says from where to where bytes are missing and why. [`FromServer::StreamEnd`] is explicit.
//! After a lost connection a viewer watches again from the offset that it reached: it gets exactly the bytes it missed.
//!
//! # Pressure
//! A stream may have [`CREDIT`] bytes sent and not acknowledged ([`FromViewer::Ack`], by offset). A viewer that is
//! further behind than the log holds gets a gap. A viewer acknowledges at the latest when half of the credit is used up: the
//! server keeps messages whole, and may wait for room for the largest. Nothing is ever queued for a viewer beyond its credit.
//!
//! # Heartbeat
//! The server sends [`FromServer::Heartbeat`] each [`HEARTBEAT_SECONDS`]; browser code can see it, unlike a ping. A
//! viewer that saw nothing for [`SILENCE_SECONDS`] counts the connection as lost. The viewer answers with
//! [`FromViewer::Heartbeat`].

use serde::{Deserialize, Serialize};

use crate::command::CommandView;
use crate::error::ErrorCode;
use crate::id::{CommandId, SessionId};
use crate::session::SessionView;

/// The versioned subprotocol; the server refuses others.
pub const SUBPROTOCOL: &str = "glassbox.v1";
/// Bytes of a stream that may be sent and not yet acknowledged: enough for a fast viewer over a slow line, little
/// enough that a tab is never more than a blink behind what it shows.
pub const CREDIT: u64 = 256 * 1024;
/// Most output bytes in one binary message.
pub const MAX_OUTPUT_MESSAGE: usize = 64 * 1024;
/// Most streams of one socket; a page shows one or a few.
pub const MAX_STREAMS: usize = 32;
/// Largest message that a viewer may send.
pub const MAX_VIEWER_MESSAGE: usize = 64 * 1024;
/// Between heartbeats.
pub const HEARTBEAT_SECONDS: u64 = 10;
/// Without any message for this long a viewer counts the connection as lost.
pub const SILENCE_SECONDS: u64 = 25;

/// Close codes of our own.
pub mod close {
    /// The server is shutting down; connect again soon.
    pub const SHUTDOWN: u16 = 1001;
    /// The viewer broke the protocol.
    pub const PROTOCOL: u16 = 4400;
    /// The key was revoked or the sign-in ended.
    pub const SIGNED_OUT: u16 = 4401;
    /// The viewer did not take anything for too long.
    pub const TOO_SLOW: u16 = 4408;
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchFrom {
    /// At this offset; what is no longer held becomes a gap.
    Offset(u64),
    /// This many bytes before the end, or at the beginning when there are fewer.
    Tail(u64),
}

/// What a viewer says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromViewer {
    /// Open a stream of a command's output.
    Watch {
        /// The viewer's choice, unused so far on this socket.
        stream: u32,
        /// Its session.
        session_id: SessionId,
        /// The command.
        command_id: CommandId,
        /// Where to begin.
        from: WatchFrom,
    },
    /// Close a stream. Messages already on their way may still come.
    Unwatch {
        /// Which.
        stream: u32,
    },
    /// Everything before this offset was taken in.
    Ack {
        /// Which.
        stream: u32,
        /// Next byte expected.
        offset: u64,
    },
    /// I am here.
    Heartbeat,
}

/// Why bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The log is full; these bytes are no longer held by anyone.
    LogFull,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromServer {
    /// First.
    Hello {
        /// Names the server process.
        epoch: String,
        /// The tenant's newest event; lists loaded from now on contain it.
        sequence: u64,
        /// The server's clock, Unix seconds.
        now: f64,
    },
    /// Something happened in the tenant.
    Event {
        /// Grows with every event.
        sequence: u64,
        /// What.
        event: Event,
    },
    /// Events were dropped because this viewer was too slow: load the lists again.
    Reload {
        /// The newest event.
        sequence: u64,
    },
    /// The stream is open; bytes follow from `offset`.
    Watching {
        /// Which.
        stream: u32,
        /// First byte.
        offset: u64,
    },
    /// Bytes are missing; the next ones follow from `to`.
    Gap {
        /// Which.
        stream: u32,
        /// First missing byte.
        from: u64,
        /// First byte after.
        to: u64,
        /// Why.
        reason: GapReason,
    },
    /// No more will come: the output is closed and all of it was sent.
    StreamEnd {
        /// Which.
        stream: u32,
        /// Total length.
        offset: u64,
        /// Does the log hold all that was written?
        complete: bool,
    },
    /// A stream was refused or broke off.
    StreamError {
        /// Which.
        stream: u32,
        /// Why, for programs.
        code: ErrorCode,
        /// Why, for people.
        detail: String,
    },
    /// Whether the container engine answers; said when it changes, and after [`FromServer::Hello`] when it does not.
    Engine {
        /// `None`: all is well.
        trouble: Option<EngineTrouble>,
    },
    /// I am here.
    Heartbeat {
        /// The server's clock, Unix seconds.
        now: f64,
    },
}

/// The container engine does not answer: nothing can be started, and kills wait for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineTrouble {
    /// Since when, Unix seconds.
    pub since: f64,
    /// What is known of it, for people.
    pub detail: String,
}

/// What can happen in a tenant. Views replace what the viewer had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A session is new or changed.
    Session {
        /// As it is now (without `latest_command`).
        session: Box<SessionView>,
    },
    /// A command is new or changed.
    Command {
        /// As it is now.
        command: Box<CommandView>,
    },
    /// A command's output grew; sent at most a few times a second for each command.
    Progress {
        /// Its session.
        session_id: SessionId,
        /// Which.
        command_id: CommandId,
        /// Length of its output.
        output_bytes: u64,
        /// When the last byte came.
        last_output_at: f64,
        /// Last line, made plain, at most 200 characters.
        last_line: String,
    },
}

/// A binary message: stream id (u32 LE), offset of the first byte (u64 LE), bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// Which stream.
    pub stream: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// As the command wrote them.
    pub bytes: &'a [u8],
}

/// Bytes before the payload of a binary message.
pub const OUTPUT_HEADER: usize = 12;

impl<'a> Output<'a> {
    /// As a binary message.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(OUTPUT_HEADER + self.bytes.len());
        message.extend_from_slice(&self.stream.to_le_bytes());
        message.extend_from_slice(&self.offset.to_le_bytes());
        message.extend_from_slice(self.bytes);
        message
    }

    /// From a binary message; `None` if it is too short to be one.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let (stream, rest) = message.split_first_chunk::<4>()?;
        let (offset, bytes) = rest.split_first_chunk::<8>()?;
        Some(Self { stream: u32::from_le_bytes(*stream), offset: u64::from_le_bytes(*offset), bytes })
    }
}

/// The viewer's half of the rule that no byte is lost or shown twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Next byte expected.
    pub offset: u64,
}

/// What came is not what comes next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected offset {expected}, got {got}")]
pub struct OutOfOrder {
    /// Next byte expected.
    pub expected: u64,
    /// What came.
    pub got: u64,
}

impl Cursor {
    /// Takes bytes in.
    pub fn take(&mut self, offset: u64, length: usize) -> Result<(), OutOfOrder> {
        if offset != self.offset {
            return Err(OutOfOrder { expected: self.offset, got: offset });
        }
        self.offset += length as u64;
        Ok(())
    }

    /// Takes an announced gap in.
    pub fn gap(&mut self, from: u64, to: u64) -> Result<(), OutOfOrder> {
        if from != self.offset || to < from {
            return Err(OutOfOrder { expected: self.offset, got: from });
        }
        self.offset = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_messages_round_trip() {
        let output = Output { stream: 7, offset: 1 << 40, bytes: b"\x00\xff" };
        assert_eq!(Output::decode(&output.encode()), Some(output));
        assert_eq!(Output::decode(&[0; 11]), None);
    }

    #[test]
    fn a_cursor_refuses_gaps_and_duplicates_that_were_not_announced() {
        let mut cursor = Cursor::default();
        cursor.take(0, 10).expect("in order");
        assert!(cursor.take(5, 5).is_err());
        assert!(cursor.take(11, 5).is_err());
        cursor.gap(10, 100).expect("announced");
        cursor.take(100, 1).expect("after the gap");
        assert!(cursor.gap(101, 100).is_err());
    }

    #[test]
    fn messages_are_tagged_json() {
        let watch = FromViewer::Watch {
            stream: 1,
            session_id: "sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id"),
            command_id: "cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id"),
            from: WatchFrom::Tail(65536),
        };
        let json = serde_json::to_value(watch).expect("plain data");
        assert_eq!(json["type"], "watch");
        assert_eq!(json["from"]["tail"], 65536);
    }
}
