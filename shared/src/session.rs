//! Sessions as the API and the page see them. Times are Unix seconds as floats.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::command::CommandView;
use crate::id::SessionId;

/// The two golden container settings (`server/src/runtime/spec.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Profile {
    /// Root in a writable system, for agents that install things.
    Open,
    /// uid 1000, read-only system, no capabilities.
    #[default]
    Hardened,
}

impl Profile {
    /// The word used on the wire, in labels and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Open => "open",
            Profile::Hardened => "hardened",
        }
    }
}

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    /// Bytes.
    pub memory_bytes: u64,
    /// Whole or partial CPUs.
    pub cpus: f64,
    /// Processes and sentry threads together, as the engine counts them.
    pub pids_limit: u32,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EndReason {
    /// Someone deleted it.
    Deleted,
    /// It was idle for too long, or reached its maximum lifetime.
    Expired,
    /// Its sandbox could not be made.
    Failed,
    /// Its workspace is gone.
    Lost,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionState {
    /// Its first container is being made.
    Starting,
    /// Commands can run.
    Ready,
    /// Its container died; a new one is being made on the same workspace.
    Restarting,
    /// Over. The sandbox, its files and secrets are gone.
    Ended {
        /// Why.
        reason: EndReason,
    },
}

/// Who is in control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ControlView {
    /// Who may act.
    pub holder: Actor,
    /// Since when.
    pub since: f64,
}

/// Why a container died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeathCause {
    /// Out of memory.
    Oom,
    /// Its first process ended, or it was killed.
    Exit,
    /// The engine does not tell.
    Unknown,
}

/// A container's death and what came after, shown as a card in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestartView {
    /// When the death was seen.
    pub at: f64,
    /// Why it died; `None`: the server was restarted.
    pub cause: Option<DeathCause>,
    /// What is still there, for people.
    pub kept: String,
    /// What is gone, for people.
    pub lost: String,
}

/// POST `/v1/sessions`. Unknown fields are refused, so that a misspelt limit is not silently ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// A name for people, at most 80 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the agent that asks is called, 1 to 60 characters; the key's name unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `hardened` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// One container for the session's life. Implied by `profile: "open"`; without either the session is `fresh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
    /// A container image that operators allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Memory in bytes, or text such as `"512m"`, `"2g"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySize>,
    /// CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Process limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<u32>,
    /// Free text pairs, at most 32, shown in the page.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Hosts that may be reached; must be empty for now (501 otherwise).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// Environment secrets; must be empty for now (501 otherwise).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// A snapshot to begin with; not yet (501).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
}

/// An amount of memory as a request may give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum MemorySize {
    /// Bytes.
    Bytes(u64),
    /// A number and a unit: `k`, `m` or `g` (powers of 1024), with or without `b`.
    Text(String),
}

impl MemorySize {
    /// The amount in bytes; `None` when the text is not a number and a unit.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            MemorySize::Bytes(bytes) => Some(*bytes),
            MemorySize::Text(text) => {
                let lower = text.trim().to_ascii_lowercase();
                let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let factor: u64 = match lower[digits.len()..].trim_end_matches('b').trim_end_matches('i') {
                    "" => 1,
                    "k" => 1 << 10,
                    "m" => 1 << 20,
                    "g" => 1 << 30,
                    _ => return None,
                };
                digits.trim().parse::<u64>().ok()?.checked_mul(factor)
            }
        }
    }
}

/// A session as everyone who may see it sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionView {
    /// The id.
    pub session_id: SessionId,
    /// Whose it is.
    pub tenant_id: String,
    /// The name for people.
    pub name: String,
    /// Container settings.
    pub profile: Profile,
    /// Always true so far.
    pub persistent: bool,
    /// Image.
    pub template: String,
    /// Where it is in its life; `state` and, when ended, `reason`.
    #[serde(flatten)]
    pub state: SessionState,
    /// What it may use.
    pub limits: Limits,
    /// Disk quota of the workspace in MB; 0: none is enforced.
    pub disk_quota_mb: u64,
    /// Hosts that it may reach.
    pub egress: Vec<String>,
    /// Who made it.
    pub created_by: Actor,
    /// When.
    pub created_at: f64,
    /// Last use (a request, a running command; watching does not count).
    pub last_accessed_at: f64,
    /// When it will end if nothing happens; `None` while it is in use.
    pub expires_at: Option<f64>,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// Who may act.
    pub control: ControlView,
    /// Commands ever started.
    pub commands_total: u64,
    /// Commands running now.
    pub commands_running: u64,
    /// Deaths of its container, newest last, at most 20 kept.
    pub restarts: Vec<RestartView>,
    /// Free text pairs.
    pub metadata: BTreeMap<String, String>,
    /// MCP clients that are connected to it, by name and version: several share its files and processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// The newest running command, else the newest one.
    pub latest_command: Option<Box<CommandView>>,
}

/// GET `/v1/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// Whose they are.
    pub tenant_id: String,
    /// Newest first.
    pub sessions: Vec<SessionView>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bytes_or_a_number_with_a_unit() {
        let text = |t: &str| MemorySize::Text(t.to_owned()).bytes();
        assert_eq!(text("2g"), Some(2 << 30));
        assert_eq!(text("512M"), Some(512 << 20));
        assert_eq!(text("64MiB"), Some(64 << 20));
        assert_eq!(text("100"), Some(100));
        assert_eq!(text("2 parsecs"), None);
        assert_eq!(text("99999999999g"), None);
        assert_eq!(text("-1m"), None);
    }

    #[test]
    fn an_ended_session_carries_its_reason_beside_the_state() {
        let json = serde_json::to_value(SessionState::Ended { reason: EndReason::Deleted }).expect("plain data");
        assert_eq!(json, serde_json::json!({"state": "ended", "reason": "deleted"}));
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!(serde_json::from_str::<CreateSession>(r#"{"persistant": true}"#).is_err());
    }
}
