//! The signals that ask a program to leave.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Each of them.
pub struct Signals {
    pub interrupt: Signal,
    pub terminate: Signal,
    pub hang_up: Signal,
}

impl Signals {
    /// Followed from here on, so that none of them ends this program in the middle of something.
    pub fn follow() -> anyhow::Result<Self> {
        let follow = |kind| signal(kind).context("signals cannot be followed");
        Ok(Self {
            interrupt: follow(SignalKind::interrupt())?,
            terminate: follow(SignalKind::terminate())?,
            hang_up: follow(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
