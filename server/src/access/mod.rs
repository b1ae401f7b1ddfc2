//! Who is there: API keys, sign-in links and signed-in browsers, each turned into a [`Principal`].
//!
//! [`Access`] owns what makes a secret valid. Nothing is cached: every request looks its secret up, so a key revoked by
//! another process (`glassbox keys revoke`) stops working with the next request, and on open sockets with the next
//! [`Access::still_valid`]. Only SHA-256 hashes of secrets are stored; a random secret of 256 bits needs no slower hash.
//!
//! What a principal may do is decided in `crate::control`; cookies, headers and rates are HTTP's business.

mod keys;
mod sign_in;

use std::sync::Arc;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::id::KeyId;
use glassbox_shared::text::plain;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use crate::clock;
use crate::control::Principal;
use crate::error::DomainError;
use crate::ids;
use crate::store::{KeyRecord, SecretHash, Store};

pub use self::keys::{KeyView, MOST_ACTIVE_KEYS, has_key_form, random_key};
pub use self::sign_in::{LINK_SECONDS, SIGN_IN_SECONDS, SignIn, link_url};

/// Longest name of a key or a human, in characters: fits beside every command in the page.
pub const LONGEST_NAME: usize = 60;

/// Longest tenant name, in bytes: that of a DNS label, so that it can become part of a host name.
const LONGEST_TENANT: usize = 63;

/// The name that is recorded for what is done with a key given by configuration.
const STATIC_KEY_NAME: &str = "operator";

/// A key given by configuration: an operator's, not revocable here. The key itself is not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct StaticKey {
    /// Whose it is.
    pub tenant: String,
    hash: SecretHash,
}

impl StaticKey {
    /// Remembers the key's hash.
    pub fn new(tenant: impl Into<String>, key: &str) -> Self {
        Self { tenant: tenant.into(), hash: hash(key) }
    }

    /// Is it the same key, whoever's?
    pub fn is_same_key(&self, other: &Self) -> bool {
        same(&self.hash, &other.hash)
    }
}

impl std::fmt::Debug for StaticKey {
    /// Without the hash: a key that a human chose may be guessed from it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticKey").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// What somebody proved who they are with: kept by an open socket to ask again whether it still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// Hash of an API key.
    Key(SecretHash),
    /// Hash of a sign-in's cookie.
    Cookie(SecretHash),
}

/// Somebody who is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who, and what they may do.
    pub principal: Principal,
    /// What they proved it with.
    pub credential: Credential,
}

/// Keys and sign-ins; clones share everything.
#[derive(Debug, Clone)]
pub struct Access {
    store: Store,
    static_keys: Arc<[StaticKey]>,
    /// Goes into the ids of configured keys.
    secret: Arc<str>,
    revocations: watch::Sender<u64>,
}

impl Access {
    /// Puts the stored keys and those given by configuration together.
    pub fn new(store: Store, static_keys: Vec<StaticKey>) -> Self {
        Self { store, static_keys: static_keys.into(), secret: Arc::default(), revocations: watch::Sender::new(0) }
    }

    /// With something that only this server knows, and still knows after a restart. Ids of configured keys are made with
    /// it: whoever sees one cannot try keys against it.
    #[must_use]
    pub fn with_secret(self, secret: &str) -> Self {
        Self { secret: secret.into(), ..self }
    }

    /// Who has this key? `None`: nobody, or not any more.
    pub async fn authenticate_key(&self, key: &str) -> Result<Option<Identity>, DomainError> {
        self.principal_of_key(hash(key), has_key_form(key)).await
    }

    /// Whose browser has this cookie? `None`: nobody's, or not any more.
    pub async fn authenticate_cookie(&self, cookie: &str) -> Result<Option<Identity>, DomainError> {
        self.principal_of_cookie(hash(cookie)).await
    }

    /// Does what somebody came in with still count? To be asked with each heartbeat of an open socket, and whenever
    /// [`Access::revocations`] changes. An error says only that it cannot be known now.
    pub async fn still_valid(&self, credential: &Credential) -> Result<bool, DomainError> {
        let identity = match credential {
            Credential::Key(hash) => self.principal_of_key(*hash, true).await?,
            Credential::Cookie(hash) => self.principal_of_cookie(*hash).await?,
        };
        Ok(identity.is_some())
    }

    /// Changes whenever a key was revoked or a sign-in ended in this process. (What other processes do is seen by
    /// [`Access::still_valid`] only.)
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    /// Forgets what has expired; to be called now and then.
    pub async fn prune(&self) -> Result<(), DomainError> {
        Ok(self.store.prune(clock::now()).await?)
    }

    fn announce_revocation(&self) {
        self.revocations.send_modify(|count| *count += 1);
    }

    async fn principal_of_key(&self, hash: SecretHash, may_be_stored: bool) -> Result<Option<Identity>, DomainError> {
        let credential = Credential::Key(hash);
        if let Some(key) = self.static_key(&hash) {
            let actor = Actor::Human { name: STATIC_KEY_NAME.to_owned() };
            let key_id = Some(self.configured_id(&hash));
            let principal = Principal { tenant: key.tenant.clone(), role: Role::Operator, actor, key_id };
            return Ok(Some(Identity { principal, credential }));
        }
        if !may_be_stored {
            return Ok(None);
        }
        Ok(self.active_key(hash).await?.map(|key| {
            let actor = match key.role {
                Role::Operator | Role::Admin => Actor::Human { name: key.name },
                Role::Agent | Role::Viewer => Actor::Agent { name: key.name },
            };
            let principal = Principal { tenant: key.tenant, role: key.role, actor, key_id: Some(key.id) };
            Identity { principal, credential }
        }))
    }

    async fn principal_of_cookie(&self, hash: SecretHash) -> Result<Option<Identity>, DomainError> {
        let Some(sign_in) = self.store.sign_in(hash).await? else { return Ok(None) };
        if !same(&sign_in.hash, &hash) || sign_in.expires_at <= clock::now() {
            return Ok(None);
        }
        // Revoking a key deletes its sign-ins, but one may be in the making just then; and a key that is not configured
        // any more is not revoked by anybody. So the key is asked for each time.
        if let Some(key) = sign_in.key_hash
            && self.static_key(&key).is_none()
            && self.active_key(key).await?.is_none()
        {
            return Ok(None);
        }
        let principal = Principal {
            tenant: sign_in.tenant,
            role: sign_in.role,
            actor: Actor::Human { name: sign_in.name },
            key_id: sign_in.key_id,
        };
        Ok(Some(Identity { principal, credential: Credential::Cookie(hash) }))
    }

    /// Looks at every key, so that the time taken tells nothing about any.
    fn static_key(&self, hash: &SecretHash) -> Option<&StaticKey> {
        self.static_keys.iter().fold(None, |found, key| if same(&key.hash, hash) { Some(key) } else { found })
    }

    /// What a configured key is called where keys are told apart. No row has it.
    fn configured_id(&self, hash: &SecretHash) -> KeyId {
        let digest = Sha256::new().chain_update(self.secret.as_bytes()).chain_update([0]).chain_update(hash).finalize();
        ids::key_of(&digest.into())
    }

    async fn active_key(&self, hash: SecretHash) -> Result<Option<KeyRecord>, DomainError> {
        let key = self.store.key_by_hash(hash).await?;
        Ok(key.filter(|key| key.revoked_at.is_none() && same(&key.hash, &hash)))
    }
}

fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

fn same(one: &SecretHash, other: &SecretHash) -> bool {
    one.ct_eq(other).into()
}

/// 256 random bits as 43 URL-safe characters.
fn random_secret() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// A name for people as it is kept: plain, trimmed, 1 to [`LONGEST_NAME`] characters, something of it visible.
fn clean_name(what: &str, name: &str) -> Result<String, DomainError> {
    let clean = plain(name).trim().to_owned();
    if clean.chars().count() > LONGEST_NAME {
        return Err(DomainError::invalid(format!("{what} is too long: use at most {LONGEST_NAME} characters")));
    }
    if !clean.chars().any(char::is_alphanumeric) {
        return Err(DomainError::invalid(format!("{what} is missing: give one with at least one letter or digit")));
    }
    Ok(clean)
}

/// Refuses what cannot be a tenant's name: 1 to 63 of `a-z0-9_-`, the first one a letter or digit.
pub fn check_tenant(tenant: &str) -> Result<(), DomainError> {
    let fits = (1..=LONGEST_TENANT).contains(&tenant.len())
        && tenant.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && !tenant.starts_with(['_', '-']);
    if fits {
        return Ok(());
    }
    Err(DomainError::invalid(format!(
        "{:?} is not a tenant name: use 1 to {LONGEST_TENANT} of a-z, 0-9, _ and -, beginning with a letter or digit",
        plain(tenant).chars().take(LONGEST_TENANT + 1).collect::<String>()
    )))
}

#[cfg(test)]
mod tests;
