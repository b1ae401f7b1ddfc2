//! The task that does the history's work, one thing after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::indexer::Indexer;
use super::{Purge, Shared};
use crate::error::DomainError;

/// Longest time between two looks for sessions that are too old.
const LONGEST_SWEEP: Duration = Duration::from_secs(60);
/// Shortest such time, however short sessions are kept.
const SHORTEST_SWEEP: Duration = Duration::from_millis(500);
/// Between two looks for new output when there was none: how late a search may find a word.
const LOOK: Duration = Duration::from_secs(1);
/// After each piece of work the index rests this many times as long as that took: at most a fifth of one processor.
const REST: u32 = 4;
/// The rest after work that was too quick to be measured well.
const SHORTEST_REST: Duration = Duration::from_millis(5);
/// After a disk that was full, or another trouble.
const TROUBLE: Duration = Duration::from_secs(10);

pub(super) struct Worker {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Purge>,
    indexer: Indexer,
}

impl Worker {
    pub(super) async fn start(shared: Arc<Shared>, inbox: mpsc::Receiver<Purge>) -> Result<Self, DomainError> {
        shared.remove_orphans().await?;
        if let Err(error) = shared.remove_begun().await {
            // They are out of sight; that they are not gone yet must not keep the server from starting.
            tracing::warn!(%error, "removing old sessions could not be finished yet; trying again");
        }
        let indexer = Indexer::start(Arc::clone(&shared)).await?;
        Ok(Self { shared, inbox, indexer })
    }

    pub(super) async fn run(mut self) {
        let shutdown = self.shared.shutdown.clone();
        let sweep = (self.shared.settings.retention.shortest() / 4).clamp(SHORTEST_SWEEP, LONGEST_SWEEP);
        let (mut next_sweep, mut next_look) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(purge) = self.inbox.recv() => {
                    let result = self.shared.purge(&purge.tenant, &purge.id).await;
                    // Whoever asked may have stopped waiting.
                    let _ = purge.reply.send(result);
                }
                () = tokio::time::sleep_until(next_sweep) => {
                    let more = match self.shared.remove_expired().await {
                        Ok(more) => more,
                        Err(error) => {
                            tracing::warn!(%error, "old sessions could not be removed; trying again");
                            false
                        }
                    };
                    next_sweep = Instant::now() + if more { SHORTEST_SWEEP } else { sweep };
                }
                () = tokio::time::sleep_until(next_look) => {
                    let begun = Instant::now();
                    let pause = match self.indexer.step().await {
                        Ok(true) => (begun.elapsed() * REST).max(SHORTEST_REST),
                        Ok(false) => LOOK,
                        Err(error) => {
                            tracing::warn!(%error, "output could not be made searchable; trying again");
                            TROUBLE
                        }
                    };
                    next_look = Instant::now() + pause;
                }
            }
        }
    }
}
