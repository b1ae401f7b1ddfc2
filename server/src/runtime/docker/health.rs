//! Does the engine answer? One task that asks all the time, so that nobody else has to wait to find out.

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::live::EngineTrouble;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::client::{Engine, from_engine};
use crate::clock;
use crate::runtime::RuntimeError;

/// Between two questions, each of which costs the engine half a millisecond.
const INTERVAL: Duration = Duration::from_millis(300);

/// A living engine answers in milliseconds, one on a machine that is at its limits in tenths of a second. With
/// [`INTERVAL`] this keeps the promise that whoever needs a hung engine is told within two seconds.
const ANSWER: Duration = Duration::from_millis(1_400);

/// What the task needs; deliberately not the runtime itself, whose end is the task's end.
pub(super) struct Pulse {
    pub(super) engine: Arc<Engine>,
    pub(super) trouble: watch::Sender<Option<EngineTrouble>>,
}

impl Pulse {
    /// Runs until told to stop.
    pub(super) async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                answer = self.ask() => self.note(answer),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(INTERVAL) => {}
            }
        }
    }

    /// Asks past the places for other calls: all of them may be taken by calls that only take long.
    async fn ask(&self) -> Result<(), RuntimeError> {
        let answer = async {
            self.engine.docker().await?.ping().await.map_err(|error| from_engine(&error))?;
            Ok(())
        };
        let late =
            || RuntimeError::Unreachable(format!("it accepts connections and does not answer within {ANSWER:?}"));
        timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(late()))
    }

    fn note(&self, answer: Result<(), RuntimeError>) {
        match answer {
            Ok(()) => {
                // Whoever follows is woken by a change only.
                self.trouble.send_if_modified(|trouble| {
                    let before = trouble.take();
                    if let Some(before) = &before {
                        info!(for_seconds = clock::now() - before.since, "the engine answers again");
                    }
                    before.is_some()
                });
            }
            Err(error) => {
                let detail = error.to_string();
                self.trouble.send_if_modified(|trouble| {
                    if trouble.is_some() {
                        return false;
                    }
                    warn!(detail, "the engine does not answer; new work is refused until it does");
                    *trouble = Some(EngineTrouble { since: clock::now(), detail });
                    true
                });
            }
        }
    }
}
