//! While the engine does not answer: new work is refused at once, and nobody waits for what cannot come.

use std::future::Future;
use std::time::Duration;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::EngineTrouble;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::error::DomainError;

/// Seconds after which asking again makes sense: an engine that is started again needs some.
const RETRY_AFTER: u64 = 2;

/// Whoever asks of an engine that hangs is told within this. What is under way for longer had begun before the hang, or
/// before the one question that a busy engine missed.
const TOLD: Duration = Duration::from_secs(2);
/// Until the next question is unanswered too (`runtime/docker/health.rs`), and a moment: then it is no accident.
const MISSED_TWICE: Duration = Duration::from_secs(2);

/// A handle to what is known of the engine.
#[derive(Debug, Clone)]
pub(super) struct EngineWatch(watch::Receiver<Option<EngineTrouble>>);

impl EngineWatch {
    pub(super) fn new(trouble: watch::Receiver<Option<EngineTrouble>>) -> Self {
        Self(trouble)
    }

    /// The raw watch, for whoever tells people.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<EngineTrouble>> {
        self.0.clone()
    }

    /// Refuses new work while the engine does not answer. `nothing_done` says what that means for the caller.
    pub(super) fn check(&self, nothing_done: &str) -> Result<(), DomainError> {
        self.0.borrow().as_ref().map_or(Ok(()), |trouble| Err(refusal(trouble, nothing_done)))
    }

    /// Waits for an answer, at most until the engine stops answering. `meanwhile` says what becomes of the work. One
    /// question that the engine misses ends nothing that was under way before it.
    pub(super) async fn or_trouble<T>(
        &self,
        meanwhile: &str,
        work: impl Future<Output = Result<T, DomainError>>,
    ) -> Result<T, DomainError> {
        let begun = Instant::now();
        let mut trouble = self.0.clone();
        let lost = async {
            loop {
                let known = trouble.wait_for(Option::is_some).await.map(|trouble| trouble.clone());
                let Ok(known) = known else {
                    // Nobody watches the engine any more: the server is stopping, and the work says so itself.
                    return std::future::pending().await;
                };
                if begun.elapsed() < TOLD {
                    return known;
                }
                // What comes of it is looked at after the watch was let go.
                let over = timeout(MISSED_TWICE, trouble.wait_for(Option::is_none)).await.map(|over| over.is_ok());
                match over {
                    Err(_) => return known,
                    Ok(false) => return std::future::pending().await,
                    Ok(true) => {}
                }
            }
        };
        tokio::select! {
            biased;
            result = work => result,
            Some(trouble) = lost => Err(refusal(&trouble, meanwhile)),
        }
    }
}

fn refusal(trouble: &EngineTrouble, what_now: &str) -> DomainError {
    let detail = format!("the container engine does not answer ({}); {what_now}", trouble.detail);
    DomainError::new(ErrorCode::EngineUnavailable, detail).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that takes so many seconds, with trouble from one second to another; when it came to its end, and how.
    async fn outcome(work: u64, from: u64, to: u64) -> (u64, bool) {
        let (sender, watch) = watch::channel(None);
        let begun = Instant::now();
        let engine = EngineWatch::new(watch);
        let happens = async {
            tokio::time::sleep(Duration::from_secs(from)).await;
            sender.send_replace(Some(EngineTrouble { since: 0.0, detail: "it hangs".to_owned() }));
            tokio::time::sleep(Duration::from_secs(to - from)).await;
            sender.send_replace(None);
            std::future::pending::<()>().await;
        };
        let work = engine.or_trouble("nothing was done", async {
            tokio::time::sleep(Duration::from_secs(work)).await;
            Ok(())
        });
        tokio::select! {
            outcome = work => (begun.elapsed().as_secs(), outcome.is_ok()),
            () = happens => unreachable!("it does not end"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_missed_question_ends_nothing_that_was_under_way() {
        assert_eq!(outcome(10, 5, 6).await, (10, true));
        assert_eq!(outcome(6, 5, 60).await, (6, true), "it came to its end meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_of_a_hanging_engine_is_told_at_once_and_what_was_under_way_soon() {
        assert_eq!(outcome(10, 1, 60).await, (1, false));
        assert_eq!(outcome(10, 5, 60).await, (7, false));
    }
}
