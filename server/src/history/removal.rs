//! Removing sessions for good: because somebody asked, because they are too old, or because nobody knows them.

use std::path::PathBuf;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::history::Purged;
use glassbox_shared::id::SessionId;

use super::{Shared, blocking, remove_whole};
use crate::clock;
use crate::error::DomainError;
use crate::store::{PurgeBegun, StoreError};

/// Sessions that one sweep removes: some seconds of work at most, between which purges and the search have their turn.
const REMOVED_AT_ONCE: usize = 20;

impl Shared {
    /// Removes an ended session of this tenant; answers when no byte of it is left.
    pub(super) async fn purge(&self, tenant: &str, id: &SessionId) -> Result<Purged, DomainError> {
        match self.store.begin_purge(tenant, id, clock::now()).await? {
            PurgeBegun::NotFound => Err(DomainError::not_found("session")),
            PurgeBegun::Lives => {
                Err(DomainError::new(ErrorCode::Conflict, "this session has not ended; end it first, then remove it"))
            }
            PurgeBegun::Begun(totals) => {
                self.remove_all(vec![id.clone()]).await.map_err(|error| {
                    let detail = "nobody sees the session any more, but not everything of it could be removed yet; the server goes on trying";
                    DomainError::new(ErrorCode::Internal, detail).because(error).retry_after(30)
                })?;
                tracing::info!(session = %id, tenant, "a session was removed for good");
                Ok(Purged { session_id: id.clone(), commands: totals.commands, output_bytes: totals.output_bytes })
            }
        }
    }

    /// Removes sessions that are too old, and what earlier attempts left. Answers whether there may be more.
    pub(super) async fn remove_expired(&self) -> Result<bool, StoreError> {
        let now = clock::now();
        let begun = self.store.begin_expired(&self.settings.retention.expiry(now), now, REMOVED_AT_ONCE).await?;
        self.remove_begun().await?;
        Ok(begun == REMOVED_AT_ONCE)
    }

    /// Goes on with every removal that has begun.
    pub(super) async fn remove_begun(&self) -> Result<(), StoreError> {
        let begun = self.store.purging().await?;
        if begun.is_empty() { Ok(()) } else { self.remove_all(begun).await }
    }

    /// One that cannot be removed does not hold up the others; what went wrong first is answered.
    async fn remove_all(&self, sessions: Vec<SessionId>) -> Result<(), StoreError> {
        let mut result = Ok(());
        let mut removed = Vec::with_capacity(sessions.len());
        for id in sessions {
            match self.remove_one(&id).await {
                Ok(()) => removed.push(id),
                Err(error) => {
                    tracing::debug!(session = %id, %error, "a session could not be removed");
                    result = result.and(Err(error));
                }
            }
        }
        // What was deleted is overwritten in the database, but still stands in what was written before that.
        self.store.empty_write_ahead_log().await?;
        for id in &removed {
            let ended = self.store.end_purge(id).await;
            result = result.and(ended);
        }
        self.store.empty_write_ahead_log().await?;
        result
    }

    async fn remove_one(&self, id: &SessionId) -> Result<(), StoreError> {
        self.store.purge_rows(id).await?;
        self.remove_files(id.clone()).await
    }

    /// Output logs and words, verified gone.
    async fn remove_files(&self, id: SessionId) -> Result<(), StoreError> {
        let words = self.search_file(&id);
        let mut journal = words.clone().into_os_string();
        journal.push("-journal");
        let paths = [self.sessions.logs_dir().join(id.as_str()), words, PathBuf::from(journal)];
        blocking(move || {
            for path in paths {
                remove_whole(&path)
                    .and_then(
                        |()| if path.try_exists()? { Err(std::io::Error::other("it is still there")) } else { Ok(()) },
                    )
                    .map_err(|error| {
                        StoreError::Corrupt(format!("{} could not be removed: {error}", path.display()))
                    })?;
            }
            Ok(())
        })
        .await
    }

    /// Removes files of sessions that the database does not know: a crash came between its row and its files, or the
    /// database is an older copy. What has not a session's name is left alone.
    pub(super) async fn remove_orphans(&self) -> Result<(), StoreError> {
        // First the files, then the database: a session has its row before it has files.
        let folders = [self.sessions.logs_dir(), self.settings.search_dir.clone()];
        let found = blocking(move || {
            let mut found = Vec::new();
            for folder in folders {
                // No folder, no orphans.
                let Ok(entries) = std::fs::read_dir(folder) else { continue };
                let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
                found.extend(names.filter_map(|name| name.split('.').next()?.parse::<SessionId>().ok()));
            }
            found.sort();
            found.dedup();
            Ok(found)
        })
        .await?;
        for id in self.store.unknown_sessions(found).await? {
            tracing::info!(session = %id, "removing files of a session that is not known");
            self.remove_files(id).await?;
        }
        Ok(())
    }
}
