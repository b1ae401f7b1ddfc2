//! What operators decide for all sessions. Plain data; `server` fills it from the configuration.

use std::path::PathBuf;
use std::time::Duration;

use glassbox_shared::session::Profile;

use crate::command::log::LogSettings;
use crate::runtime::spec;

/// Settings of all sessions.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Names this data directory in labels, container and volume names.
    pub instance: String,
    /// The image unless a session asks for another.
    pub image: String,
    /// Images that sessions may ask for.
    pub templates: Vec<String>,
    /// Where the workspace of open sessions is. A server's is the profile's own; if it could be set there, sessions that are
    /// there would have to keep theirs.
    pub open_workspace_dir: String,
    /// Output logs: one folder a session, one below it a command.
    pub logs_dir: PathBuf,
    /// Sizes of output logs.
    pub log: LogSettings,
    /// Live sessions of one tenant.
    pub max_sessions: usize,
    /// Commands running at once in one session.
    pub max_commands: usize,
    /// A session ends when unused for this long.
    pub idle: Duration,
    /// A session ends at this age.
    pub lifetime: Duration,
    /// Longest run of a command.
    pub max_command: Duration,
    /// Memory of all sandboxes together, in bytes.
    pub memory_total: u64,
    /// Largest sandbox that can be asked for, in bytes.
    pub max_memory: u64,
    /// Most CPUs that can be asked for.
    pub max_cpus: f64,
    /// Largest file that can be written from outside, in bytes.
    pub max_file: u64,
    /// Highest process limit that can be asked for.
    pub max_pids: u32,
}

impl SessionSettings {
    /// Where a session of this profile has its workspace: mounted by the engine, begun in by commands, and what paths of
    /// files are relative to.
    pub fn workspace_dir(&self, profile: Profile) -> &str {
        match profile {
            Profile::Open => &self.open_workspace_dir,
            Profile::Hardened => spec::usual_workspace_dir(profile),
        }
    }
}
