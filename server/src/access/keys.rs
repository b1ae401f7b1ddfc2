//! API keys: made, listed, revoked.

use glassbox_shared::actor::Role;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::KeyId;
use serde::{Deserialize, Serialize};

use super::{Access, check_tenant, clean_name, hash, random_secret};
use crate::clock;
use crate::error::DomainError;
use crate::ids;
use crate::store::{KeyRecord, Revoked};

/// Active keys that a tenant may have (`airlock-api.md`): enough for rotation, few enough to be looked after.
pub const MOST_ACTIVE_KEYS: usize = 10;

/// What every key made here begins with, so that secret scanners can find lost ones.
const KEY_PREFIX: &str = "asb_";
/// Random characters that stay visible in lists.
const VISIBLE_CHARACTERS: usize = 10;
/// Random characters that do not: 256 bits in URL-safe base64.
const SECRET_CHARACTERS: usize = 43;

/// A key as those who manage keys see it. The key itself is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KeyView {
    /// The id.
    pub key_id: KeyId,
    /// Whose it is.
    pub tenant_id: String,
    /// The name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, in Unix seconds.
    pub created_at: f64,
    /// When it was revoked.
    pub revoked_at: Option<f64>,
    /// Does it work?
    pub active: bool,
    /// How the key begins.
    pub prefix: String,
}

impl From<KeyRecord> for KeyView {
    fn from(key: KeyRecord) -> Self {
        Self {
            key_id: key.id,
            tenant_id: key.tenant,
            name: key.name,
            role: key.role,
            created_at: key.created_at,
            revoked_at: key.revoked_at,
            active: key.revoked_at.is_none(),
            prefix: key.prefix,
        }
    }
}

/// A new key: `asb_`, 10 of `a-z2-7`, `_`, 43 URL-safe characters.
pub fn random_key() -> String {
    format!("{KEY_PREFIX}{}_{}", ids::random_characters(VISIBLE_CHARACTERS), random_secret())
}

/// Does this look like a key made here? Anything else need not be looked up.
pub fn has_key_form(key: &str) -> bool {
    let parts = key.strip_prefix(KEY_PREFIX).and_then(|rest| rest.split_at_checked(VISIBLE_CHARACTERS));
    let Some((visible, rest)) = parts else { return false };
    let Some(secret) = rest.strip_prefix('_') else { return false };
    visible.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
        && secret.len() == SECRET_CHARACTERS
        && secret.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl Access {
    /// Makes a key and hands it out, once. Conflict when the tenant has [`MOST_ACTIVE_KEYS`] already.
    pub async fn create_key(&self, tenant: &str, name: &str, role: Role) -> Result<(KeyView, String), DomainError> {
        check_tenant(tenant)?;
        let name = clean_name("the key's name", name)?;
        refuse_admin(role)?;
        let key = random_key();
        let record = record(tenant, name, role, &key);
        if !self.store.insert_key(&record, MOST_ACTIVE_KEYS).await? {
            let detail =
                format!("the tenant has {MOST_ACTIVE_KEYS} active keys, and that is the most; revoke one first");
            return Err(DomainError::new(ErrorCode::Conflict, detail));
        }
        tracing::info!(tenant, key_id = %record.id, role = role.as_str(), "key created");
        Ok((record.into(), key))
    }

    /// The tenant's keys, active ones first. Those given by configuration are not among them.
    pub async fn list_keys(&self, tenant: &str) -> Result<Vec<KeyView>, DomainError> {
        Ok(self.store.keys(tenant).await?.into_iter().map(KeyView::from).collect())
    }

    /// Revokes a key of this tenant: at once, with the sign-ins made with it. Revoking twice is no error. Conflict for
    /// the tenant's last active operator key (unless one is given by configuration): nobody could get in any more.
    pub async fn revoke_key(&self, tenant: &str, id: &KeyId) -> Result<KeyView, DomainError> {
        let has_static = self.static_keys.iter().any(|key| key.tenant == tenant);
        self.revoke(tenant, id, !has_static).await
    }

    /// Like [`Access::revoke_key`], also for the last one: for those who can make another without any key.
    pub async fn revoke_even_last_key(&self, tenant: &str, id: &KeyId) -> Result<KeyView, DomainError> {
        self.revoke(tenant, id, false).await
    }

    async fn revoke(&self, tenant: &str, id: &KeyId, keep_operator: bool) -> Result<KeyView, DomainError> {
        match self.store.revoke_key(tenant, id, clock::now(), keep_operator).await? {
            Revoked::Done(key) => {
                tracing::info!(tenant, key_id = %id, "key revoked");
                self.announce_revocation();
                Ok(key.into())
            }
            Revoked::LastOperator => Err(DomainError::new(
                ErrorCode::Conflict,
                "this is the tenant's last active operator key; make another one first",
            )),
            Revoked::NotFound => Err(DomainError::not_found("key")),
        }
    }

    /// Is there no key at all with which a human could get in and make others?
    pub async fn needs_first_key(&self) -> Result<bool, DomainError> {
        Ok(self.static_keys.is_empty() && !self.store.has_operator_key().await?)
    }

    /// Makes a key that was written down elsewhere before (so that a crash cannot lose it) an operator's. `false`: it is
    /// known already (perhaps revoked), or has not the form of a key; then nothing was changed.
    pub async fn adopt_operator_key(&self, tenant: &str, name: &str, key: &str) -> Result<bool, DomainError> {
        check_tenant(tenant)?;
        if !has_key_form(key) || self.store.key_by_hash(hash(key)).await?.is_some() {
            return Ok(false);
        }
        let record = record(tenant, clean_name("the key's name", name)?, Role::Operator, key);
        // Not counted: without an operator's key nobody could revoke one of the others to make room.
        Ok(self.store.insert_key(&record, usize::MAX).await?)
    }
}

/// Nothing asks for an admin yet, and nobody who is none should be able to make one.
pub(super) fn refuse_admin(role: Role) -> Result<(), DomainError> {
    if role != Role::Admin {
        return Ok(());
    }
    Err(DomainError::new(ErrorCode::NotImplemented, "admins do not exist yet; choose agent, viewer or operator"))
}

fn record(tenant: &str, name: String, role: Role, key: &str) -> KeyRecord {
    KeyRecord {
        id: ids::key(),
        tenant: tenant.to_owned(),
        name,
        role,
        prefix: key.chars().take(KEY_PREFIX.len() + VISIBLE_CHARACTERS).collect(),
        hash: hash(key),
        created_at: clock::now(),
        revoked_at: None,
    }
}
