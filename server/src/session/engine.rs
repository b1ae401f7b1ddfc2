//! While the engine does not answer: new work is refused at once, and nobody waits for what cannot come.

use std::future::Future;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::EngineTrouble;
use tokio::sync::watch;

use crate::error::DomainError;

/// Seconds after which asking again makes sense: an engine that is started again needs some.
const RETRY_AFTER: u64 = 2;

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

    /// Waits for an answer, at most until the engine stops answering. `meanwhile` says what becomes of the work.
    pub(super) async fn or_trouble<T>(
        &self,
        meanwhile: &str,
        work: impl Future<Output = Result<T, DomainError>>,
    ) -> Result<T, DomainError> {
        let mut trouble = self.0.clone();
        let lost = async {
            let known = trouble.wait_for(Option::is_some).await.map(|trouble| trouble.clone());
            match known {
                Ok(trouble) => trouble,
                // Nobody watches the engine any more: the server is stopping, and the work says so itself.
                Err(_) => std::future::pending().await,
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
