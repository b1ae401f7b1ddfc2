//! What can go wrong in the domain, as a caller may see it: a stable code and a text for people, with the cause beside
//! it for the log only.

use glassbox_shared::error::ErrorCode;

use crate::runtime::RuntimeError;
use crate::store::StoreError;

/// A refusal or a failure.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct DomainError {
    /// Stable, for programs.
    pub code: ErrorCode,
    /// For people: what went wrong and what to do.
    pub detail: String,
    /// For the log, never for the caller.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// Seconds after which trying again makes sense.
    pub retry_after: Option<u64>,
}

impl DomainError {
    /// Makes one without a cause.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), cause: None, retry_after: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The object does not exist, or is another tenant's.
    pub fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no such {what}"))
    }

    /// The request makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, detail)
    }

    /// A task of ours is gone, which happens only while shutting down.
    pub fn shutting_down() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the server is shutting down; try again in a moment")
    }
}

impl From<RuntimeError> for DomainError {
    fn from(error: RuntimeError) -> Self {
        let detail = format!("the container engine could not do it: {error}");
        Self::new(ErrorCode::EngineUnavailable, detail).because(error).retry_after(5)
    }
}

impl From<StoreError> for DomainError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::new(
                ErrorCode::StorageFull,
                "the server's data disk is full; nothing was changed; free some space and try again",
            )
            .because(error),
            other => Self::new(ErrorCode::Internal, "the server could not write down what happened").because(other),
        }
    }
}
