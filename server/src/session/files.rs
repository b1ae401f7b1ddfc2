//! A session's files: who may reach them, and where they are.

use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::session::Profile;

use super::Session;
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::files::{Call, Place};

/// Where a profile's workspace is (`runtime/spec.rs`).
fn workspace(profile: Profile) -> &'static str {
    match profile {
        Profile::Open => "/root",
        Profile::Hardened => "/workspace",
    }
}

impl Session {
    /// Begins an operation that changes nothing. That the caller may watch was checked before.
    pub async fn read_files(&self, operation: Operation) -> Result<Call, DomainError> {
        let place = self.files_place().await?;
        self.inner.files.begin(&place, operation).await
    }

    /// Begins one that changes something, which needs what running a command needs.
    pub async fn write_files(&self, who: &Principal, operation: Operation) -> Result<Call, DomainError> {
        control::may_act_in(who, Act::Run, &self.inner.record.borrow().control)?;
        self.touch();
        let place = self.files_place().await?;
        self.inner.files.begin(&place, operation).await
    }

    /// Looks at something.
    pub async fn look_at_files(&self, operation: Operation) -> Result<Answer, DomainError> {
        let mut call = self.read_files(operation).await?;
        self.inner.engine.or_trouble("nothing was done", call.answer()).await
    }

    /// Changes something at once.
    pub async fn change_files(&self, who: &Principal, operation: Operation) -> Result<Answer, DomainError> {
        let mut call = self.write_files(who, operation).await?;
        self.inner.engine.or_trouble("it may have been done or not", call.answer()).await
    }

    /// Largest file that may be written from outside, in bytes.
    pub fn largest_file(&self) -> u64 {
        self.inner.settings.max_file
    }

    /// A place among those who wait for changes of files.
    pub fn watch_files(&self) -> Result<impl Send + use<>, DomainError> {
        self.inner.files.watch()
    }

    /// The sandbox that is there now. Waits for one that is being made again.
    async fn files_place(&self) -> Result<Place, DomainError> {
        self.inner.engine.check("nothing was done")?;
        self.inner.engine.or_trouble("nothing was done", self.ready()).await?;
        let record = self.inner.record.borrow();
        Ok(Place {
            container: record.container.clone().unwrap_or_default(),
            workspace: workspace(record.profile),
            confined: record.profile == Profile::Hardened,
        })
    }
}
