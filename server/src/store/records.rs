//! The rows that only the server knows; what everyone may see (commands) is stored as its view.

use std::collections::BTreeMap;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::id::{KeyId, SessionId};
use glassbox_shared::session::{ControlView, Limits, Profile, RestartView, SessionState};

/// SHA-256 of a key, a link's token or a cookie. The secret itself is never stored.
pub type SecretHash = [u8; 32];

/// A session, with what is needed to find its container and workspace again. Times are Unix seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// The id.
    pub id: SessionId,
    /// Whose it is.
    pub tenant: String,
    /// The name for people.
    pub name: String,
    /// Container settings.
    pub profile: Profile,
    /// Image.
    pub template: String,
    /// What it may use.
    pub limits: Limits,
    /// Who made it.
    pub created_by: Actor,
    /// When.
    pub created_at: f64,
    /// Last use.
    pub last_used_at: f64,
    /// Where it is in its life. `Ended` is final: the store refuses to leave it.
    pub state: SessionState,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// Who ended it, if somebody did.
    pub ended_by: Option<Actor>,
    /// The current container's name, written down before the engine is asked to make it.
    pub container: Option<String>,
    /// The workspace volume's name.
    pub workspace: String,
    /// Counts its containers.
    pub generation: u64,
    /// Who may act.
    pub control: ControlView,
    /// Deaths of its containers.
    pub restarts: Vec<RestartView>,
    /// Free text pairs.
    pub metadata: BTreeMap<String, String>,
    /// Commands ever started.
    pub commands_total: u64,
}

/// An API key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    /// The public name.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: String,
    /// The name for people, recorded with what is done with the key.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The key's beginning, for recognising it in a list.
    pub prefix: String,
    /// Of the whole key.
    pub hash: SecretHash,
    /// When it was made.
    pub created_at: f64,
    /// When it stopped being valid.
    pub revoked_at: Option<f64>,
}

/// A one-time sign-in link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRecord {
    /// Of the link's token.
    pub hash: SecretHash,
    /// Whose sessions it shows.
    pub tenant: String,
    /// What the one who opens it may do.
    pub role: Role,
    /// Not valid from then on.
    pub expires_at: f64,
}

/// A browser that is signed in.
#[derive(Debug, Clone, PartialEq)]
pub struct SignInRecord {
    /// Of the cookie.
    pub hash: SecretHash,
    /// Whose sessions it shows.
    pub tenant: String,
    /// What the human may do.
    pub role: Role,
    /// The human's name, recorded with every act.
    pub name: String,
    /// The stored key that was used; `None` for a link or a key given by configuration.
    pub key_id: Option<KeyId>,
    /// Of the key that was used, stored or configured; `None` for a link. The sign-in is valid only as long as that key.
    pub key_hash: Option<SecretHash>,
    /// When.
    pub created_at: f64,
    /// Not valid from then on.
    pub expires_at: f64,
}

/// What came of revoking a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Revoked {
    /// It is revoked now, or was before (then with the earlier time).
    Done(KeyRecord),
    /// It is the tenant's last active operator key, and those were to be kept.
    LastOperator,
    /// The tenant has no such key.
    NotFound,
}
