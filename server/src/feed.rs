//! What happened, for the page: one sequence of events for each tenant.
//!
//! Publishing never waits. A subscriber that falls more than [`QUEUE`] events behind loses the oldest and is told so by
//! its receiver (`Lagged`); it then loads its lists again. State is stored before it is published, so that nobody is
//! shown what a crash could take back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use glassbox_shared::live::Event;
use tokio::sync::broadcast;

/// Events that a subscriber may be behind: some seconds of a busy tenant, at most a few megabytes.
pub const QUEUE: usize = 1024;

/// An event with its place in the tenant's sequence.
#[derive(Debug, Clone)]
pub struct Published {
    /// Counts by one.
    pub sequence: u64,
    /// What happened.
    pub event: Arc<Event>,
}

#[derive(Debug)]
struct Channel {
    sequence: u64,
    sender: broadcast::Sender<Published>,
}

/// A cheap handle to all feeds.
#[derive(Debug, Clone, Default)]
pub struct Feed {
    channels: Arc<Mutex<HashMap<String, Channel>>>,
}

impl Feed {
    /// Tells everyone who follows the tenant.
    pub fn publish(&self, tenant: &str, event: Event) {
        self.with(tenant, |channel| {
            channel.sequence += 1;
            // Nobody following is fine.
            let _ = channel.sender.send(Published { sequence: channel.sequence, event: Arc::new(event) });
        });
    }

    /// Follows a tenant: the newest sequence so far, and everything after it.
    pub fn subscribe(&self, tenant: &str) -> (u64, broadcast::Receiver<Published>) {
        self.with(tenant, |channel| (channel.sequence, channel.sender.subscribe()))
    }

    /// The tenant's newest sequence.
    pub fn sequence(&self, tenant: &str) -> u64 {
        self.with(tenant, |channel| channel.sequence)
    }

    fn with<T>(&self, tenant: &str, act: impl FnOnce(&mut Channel) -> T) -> T {
        // The sections are short and cannot panic half-way, so a poisoned lock still guards good data.
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if !channels.contains_key(tenant) {
            channels.insert(tenant.to_owned(), Channel { sequence: 0, sender: broadcast::channel(QUEUE).0 });
        }
        act(channels.get_mut(tenant).expect("it was just made sure to be there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassbox_shared::id::{CommandId, SessionId};

    fn progress(bytes: u64) -> Event {
        let session_id: SessionId = "sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        let command_id: CommandId = "cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        Event::Progress { session_id, command_id, output_bytes: bytes, last_output_at: 0.0, last_line: String::new() }
    }

    #[tokio::test]
    async fn each_tenant_has_a_sequence_of_its_own_without_holes() {
        let feed = Feed::default();
        feed.publish("acme", progress(1));
        let (sequence, mut acme) = feed.subscribe("acme");
        assert_eq!(sequence, 1);
        feed.publish("other", progress(2));
        feed.publish("acme", progress(3));
        let next = acme.recv().await.expect("published");
        assert_eq!((next.sequence, &*next.event), (2, &progress(3)));
        assert!(acme.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_that_it_missed_events_and_slows_nobody() {
        let feed = Feed::default();
        let (_, mut slow) = feed.subscribe("acme");
        for n in 0..(QUEUE as u64 + 10) {
            feed.publish("acme", progress(n));
        }
        assert!(matches!(slow.recv().await, Err(broadcast::error::RecvError::Lagged(10))));
    }
}
