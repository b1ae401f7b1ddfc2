//! What the server says over the live socket.

use glassbox_shared::live::{Event, FromServer};

use super::fields::{Fields, unknown};

/// Reads a message.
pub fn read(text: &str) -> serde_json::Result<FromServer> {
    let mut from = Fields(serde_json::from_str(text)?);
    let kind: String = from.take("type")?;
    Ok(match kind.as_str() {
        "hello" => {
            FromServer::Hello { epoch: from.take("epoch")?, sequence: from.take("sequence")?, now: from.take("now")? }
        }
        "event" => FromServer::Event { sequence: from.take("sequence")?, event: event(Fields(from.take("event")?))? },
        "reload" => FromServer::Reload { sequence: from.take("sequence")? },
        "watching" => FromServer::Watching { stream: from.take("stream")?, offset: from.take("offset")? },
        "gap" => FromServer::Gap {
            stream: from.take("stream")?,
            from: from.take("from")?,
            to: from.take("to")?,
            reason: from.take("reason")?,
        },
        "stream_end" => FromServer::StreamEnd {
            stream: from.take("stream")?,
            offset: from.take("offset")?,
            complete: from.take("complete")?,
        },
        "stream_error" => FromServer::StreamError {
            stream: from.take("stream")?,
            code: from.take("code")?,
            detail: from.take("detail")?,
        },
        "engine" => FromServer::Engine { trouble: from.take("trouble")? },
        "heartbeat" => FromServer::Heartbeat { now: from.take("now")? },
        other => return unknown(other),
    })
}

fn event(mut from: Fields) -> serde_json::Result<Event> {
    let kind: String = from.take("kind")?;
    Ok(match kind.as_str() {
        "session" => Event::Session { session: from.take("session")? },
        "command" => Event::Command { command: from.take("command")? },
        "progress" => Event::Progress {
            session_id: from.take("session_id")?,
            command_id: from.take("command_id")?,
            output_bytes: from.take("output_bytes")?,
            last_output_at: from.take("last_output_at")?,
            last_line: from.take("last_line")?,
        },
        other => return unknown(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;
    use glassbox_shared::error::ErrorCode;
    use glassbox_shared::live::{EngineTrouble, GapReason};

    /// A new kind of message stops here until it is read above and written below.
    fn kind(message: &FromServer) -> usize {
        match message {
            FromServer::Hello { .. } => 0,
            FromServer::Event { event: Event::Session { .. }, .. } => 1,
            FromServer::Event { event: Event::Command { .. }, .. } => 2,
            FromServer::Event { event: Event::Progress { .. }, .. } => 3,
            FromServer::Reload { .. } => 4,
            FromServer::Watching { .. } => 5,
            FromServer::Gap { .. } => 6,
            FromServer::StreamEnd { .. } => 7,
            FromServer::StreamError { .. } => 8,
            FromServer::Engine { .. } => 9,
            FromServer::Heartbeat { .. } => 10,
        }
    }

    #[test]
    fn every_message_is_read_as_the_server_writes_it() {
        let event = |event| FromServer::Event { sequence: 7, event };
        let messages = [
            FromServer::Hello { epoch: "a".to_owned(), sequence: 6, now: 1.5 },
            event(Event::Session { session: Box::new(samples::session(1)) }),
            event(Event::Command { command: Box::new(samples::command(1, "make")) }),
            event(Event::Progress {
                session_id: samples::session_id(1),
                command_id: samples::command_id(2),
                output_bytes: 1 << 40,
                last_output_at: 2.5,
                last_line: "ok".to_owned(),
            }),
            FromServer::Reload { sequence: 9 },
            FromServer::Watching { stream: 1, offset: 2 },
            FromServer::Gap { stream: 1, from: 2, to: 3, reason: GapReason::LogFull },
            FromServer::StreamEnd { stream: 1, offset: 3, complete: true },
            FromServer::StreamError { stream: 1, code: ErrorCode::NotFound, detail: "no".to_owned() },
            FromServer::Engine { trouble: Some(EngineTrouble { since: 1.0, detail: "away".to_owned() }) },
            FromServer::Heartbeat { now: 3.0 },
        ];
        for (at, message) in messages.iter().enumerate() {
            assert_eq!(kind(message), at, "one of each");
            assert_eq!(read(&serde_json::to_string(message).expect("plain data")).as_ref().ok(), Some(message));
        }
        let well = FromServer::Engine { trouble: None };
        assert_eq!(read(&serde_json::to_string(&well).expect("plain data")).ok(), Some(well));
    }

    #[test]
    fn nonsense_and_what_is_newer_than_the_page_are_errors() {
        for text in ["", "{}", "[]", "\"hello\"", r#"{"type":"singing"}"#, r#"{"type":"reload"}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
