//! Roles, and who did something.

use serde::{Deserialize, Serialize};

/// What a key may do in its tenant; the table is in `server/src/control.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Role {
    /// Uses sessions: creates them and runs commands.
    Agent,
    /// Watches.
    Viewer,
    /// Watches, kills, runs commands in sessions that humans made.
    Operator,
    /// Keys of all tenants; no sandboxes.
    Admin,
}

impl Role {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "agent" => Ok(Role::Agent),
            "viewer" => Ok(Role::Viewer),
            "operator" => Ok(Role::Operator),
            "admin" => Ok(Role::Admin),
            _ => Err(format!("unknown role {text:?}: use agent, viewer, operator or admin")),
        }
    }
}

/// Who did something, as recorded with every session, command and kill.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Actor {
    /// A program with an agent's key; the name is the key's.
    Agent {
        /// The key's name.
        name: String,
    },
    /// A person signed in to the page, or using an operator's key.
    Human {
        /// The name given at sign-in, or the operator key's name.
        name: String,
    },
    /// Glassbox itself, for example a limit.
    Server,
}

impl Actor {
    /// The name to show.
    pub fn name(&self) -> &str {
        match self {
            Actor::Agent { name } | Actor::Human { name } => name,
            Actor::Server => "glassbox",
        }
    }

    /// Is this a person?
    pub fn is_human(&self) -> bool {
        matches!(self, Actor::Human { .. })
    }
}
