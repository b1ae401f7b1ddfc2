//! Humans in browsers: a key or a one-time link becomes a cookie with a human's name.

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::error::ErrorCode;

use super::keys::refuse_admin;
use super::{Access, Credential, Identity, check_tenant, clean_name, hash, random_secret};
use crate::clock;
use crate::control::Principal;
use crate::error::DomainError;
use crate::store::{LinkRecord, SignInRecord};

/// How long a link waits to be opened: it stands in terminals and chats, so not long.
pub const LINK_SECONDS: u64 = 10 * 60;

/// How long a browser stays signed in: a month of work without asking, ended early by signing out or revoking the key.
pub const SIGN_IN_SECONDS: u64 = 30 * 24 * 60 * 60;

/// A browser that was signed in.
#[derive(Clone)]
pub struct SignIn {
    /// The cookie's value, handed out once.
    pub cookie: String,
    /// Who it is.
    pub identity: Identity,
    /// The cookie's `Max-Age`.
    pub max_age_seconds: u64,
}

impl std::fmt::Debug for SignIn {
    /// Without the cookie, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The address to open. The token is in the fragment, which browsers send to nobody; the page posts it. (Chat programs
/// that look at links before humans do therefore do not use it up.)
pub fn link_url(base: &str, token: &str) -> String {
    format!("{}/#link={token}", base.trim_end_matches('/'))
}

impl Access {
    /// Signs a human in who has a key; the sign-in has the key's tenant and role, and ends with the key.
    pub async fn sign_in_with_key(&self, key: &str, human_name: &str) -> Result<SignIn, DomainError> {
        let name = clean_name("your name", human_name)?;
        let Some(Identity { principal, credential: Credential::Key(key_hash) }) = self.authenticate_key(key).await?
        else {
            let detail = "this key is not valid: it may be mistyped or revoked; `glassbox keys create` makes another, \
                          `glassbox link` a sign-in link";
            return Err(DomainError::new(ErrorCode::Unauthorized, detail));
        };
        let cookie = random_secret();
        let Principal { tenant, role, key_id, .. } = principal;
        let sign_in = record(&cookie, tenant, role, name, clock::now());
        // A configured key is no row that could be named.
        let key_id = key_id.filter(|_| self.static_key(&key_hash).is_none());
        let sign_in = SignInRecord { key_id, key_hash: Some(key_hash), ..sign_in };
        self.store.insert_sign_in(&sign_in).await?;
        Ok(signed_in(cookie, sign_in))
    }

    /// Signs a human in who opened a link, which is used up by it. A name that is refused does not use it up.
    pub async fn sign_in_with_link(&self, token: &str, human_name: &str) -> Result<SignIn, DomainError> {
        let name = clean_name("your name", human_name)?;
        let (cookie, now) = (random_secret(), clock::now());
        let make = {
            let cookie = cookie.clone();
            move |link: &LinkRecord| record(&cookie, link.tenant.clone(), link.role, name.clone(), now)
        };
        match self.store.take_link(hash(token), now, make).await? {
            Some(sign_in) => Ok(signed_in(cookie, sign_in)),
            None => Err(DomainError::new(
                ErrorCode::LinkExpired,
                "this sign-in link was used already or is older than ten minutes; `glassbox link` makes another",
            )),
        }
    }

    /// Ends a sign-in; nothing happens when there is none.
    pub async fn sign_out(&self, cookie: &str) -> Result<(), DomainError> {
        self.store.delete_sign_in(hash(cookie)).await?;
        self.announce_revocation();
        Ok(())
    }

    /// Makes a link's token, valid once and for [`LINK_SECONDS`]. Whoever opens it gets this tenant and role.
    pub async fn make_link(&self, tenant: &str, role: Role) -> Result<String, DomainError> {
        check_tenant(tenant)?;
        refuse_admin(role)?;
        let token = random_secret();
        let expires_at = clock::now() + LINK_SECONDS as f64;
        self.store.insert_link(&LinkRecord { hash: hash(&token), tenant: tenant.to_owned(), role, expires_at }).await?;
        Ok(token)
    }
}

fn record(cookie: &str, tenant: String, role: Role, name: String, now: f64) -> SignInRecord {
    SignInRecord {
        hash: hash(cookie),
        tenant,
        role,
        name,
        key_id: None,
        key_hash: None,
        created_at: now,
        expires_at: now + SIGN_IN_SECONDS as f64,
    }
}

fn signed_in(cookie: String, record: SignInRecord) -> SignIn {
    let principal = Principal {
        tenant: record.tenant,
        role: record.role,
        actor: Actor::Human { name: record.name },
        key_id: record.key_id,
    };
    let identity = Identity { principal, credential: Credential::Cookie(record.hash) };
    SignIn { cookie, identity, max_age_seconds: SIGN_IN_SECONDS }
}
