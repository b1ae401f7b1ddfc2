//! What waits to be said besides output: bounded, and with newer views in the place of older ones.
//!
//! A viewer that keeps up never sees the difference. One that does not is told how things are, not how they came to be:
//! of several events about the same thing only the newest is sent, so a slow line is not filled with progress reports.

use std::collections::VecDeque;
use std::sync::Arc;

use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::{Event, FromServer};
use serde::Serialize;

use crate::feed::Published;

/// Entries above which the feed is left alone and nothing more is read from the viewer. A viewer that is so far behind
/// loses events in the feed's own queue, and is told to load its lists again.
const ROOM: usize = 256;

#[derive(Debug)]
enum Entry {
    Message(FromServer),
    Event(Published),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
}

/// An event as it stands in the queue; the same JSON as [`FromServer::Event`], without a copy of the event.
#[derive(Serialize)]
struct EventMessage<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence: u64,
    event: &'a Event,
}

/// What an event is about. A newer one about the same replaces an older one.
#[derive(PartialEq)]
enum About<'a> {
    Session(&'a SessionId),
    Command(&'a CommandId),
    Progress(&'a CommandId),
}

fn about(event: &Event) -> About<'_> {
    match event {
        Event::Session { session } => About::Session(&session.session_id),
        Event::Command { command } => About::Command(&command.command_id),
        Event::Progress { command_id, .. } => About::Progress(command_id),
    }
}

impl Outbox {
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < ROOM
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds what must be said in order.
    pub(super) fn push(&mut self, message: FromServer) {
        self.entries.push_back(Entry::Message(message));
    }

    /// Adds a heartbeat, unless the last one has not even left.
    pub(super) fn heartbeat(&mut self, now: f64) {
        if !self.entries.iter().any(|entry| matches!(entry, Entry::Message(FromServer::Heartbeat { .. }))) {
            self.push(FromServer::Heartbeat { now });
        }
    }

    /// Adds an event.
    pub(super) fn event(&mut self, published: Published) {
        let newer = about(&published.event);
        self.entries.retain(|entry| !matches!(entry, Entry::Event(older) if about(&older.event) == newer));
        self.entries.push_back(Entry::Event(published));
    }

    /// Events were lost: those that wait say nothing that loading the lists would not.
    pub(super) fn reload(&mut self, sequence: u64) {
        self.entries.retain(|entry| !matches!(entry, Entry::Event(_) | Entry::Message(FromServer::Reload { .. })));
        self.push(FromServer::Reload { sequence });
    }

    /// The next message, as JSON.
    pub(super) fn pop(&mut self) -> Option<String> {
        let json = match self.entries.pop_front()? {
            Entry::Message(message) => serde_json::to_string(&message),
            Entry::Event(Published { sequence, event }) => {
                serde_json::to_string(&EventMessage { kind: "event", sequence, event: &Arc::clone(&event) })
            }
        };
        Some(json.expect("the protocol's messages are plain data with text keys"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(command: char, output_bytes: u64) -> Event {
        let command_id = CommandId::from_random(&command.to_string().repeat(20)).expect("an id");
        let session_id = SessionId::from_random(&"s".repeat(20)).expect("an id");
        Event::Progress { session_id, command_id, output_bytes, last_output_at: 0.0, last_line: String::new() }
    }

    fn published(sequence: u64, event: Event) -> Published {
        Published { sequence, event: Arc::new(event) }
    }

    fn drain(outbox: &mut Outbox) -> Vec<FromServer> {
        std::iter::from_fn(|| outbox.pop()).map(|json| serde_json::from_str(&json).expect("the protocol")).collect()
    }

    #[test]
    fn an_event_is_said_as_the_protocol_has_it() {
        let mut outbox = Outbox::default();
        outbox.event(published(7, progress('a', 1)));
        assert_eq!(drain(&mut outbox), [FromServer::Event { sequence: 7, event: progress('a', 1) }]);
    }

    #[test]
    fn of_progress_that_waits_only_the_newest_is_said() {
        let mut outbox = Outbox::default();
        outbox.event(published(1, progress('a', 1)));
        outbox.event(published(2, progress('b', 1)));
        outbox.event(published(3, progress('a', 2)));
        assert_eq!(
            drain(&mut outbox),
            [
                FromServer::Event { sequence: 2, event: progress('b', 1) },
                FromServer::Event { sequence: 3, event: progress('a', 2) }
            ]
        );
    }

    #[test]
    fn after_lost_events_the_waiting_ones_are_not_said_but_everything_else_is() {
        let mut outbox = Outbox::default();
        outbox.push(FromServer::Watching { stream: 1, offset: 0 });
        outbox.event(published(1, progress('a', 1)));
        outbox.reload(50);
        outbox.reload(90);
        assert_eq!(
            drain(&mut outbox),
            [FromServer::Watching { stream: 1, offset: 0 }, FromServer::Reload { sequence: 90 }]
        );
    }

    #[test]
    fn heartbeats_do_not_pile_up() {
        let mut outbox = Outbox::default();
        outbox.heartbeat(1.0);
        outbox.heartbeat(2.0);
        assert_eq!(drain(&mut outbox).len(), 1);
    }
}
