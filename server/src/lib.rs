//! Glassbox: see into, and step into, the sandboxes in which AI agents work.
//!
//! One folder a concern; each may use only those below it:
//!
//! ```text
//! cli      commands of the binary
//! sandbox  one sandbox without a server
//! server   configuration, data directory, and putting all of it together
//! http     the outside world's requests into calls
//! tools    what models call
//! history  sessions that have ended, and searching in all
//! session  sandboxes and their lives
//! files    a sandbox's files, through the helper inside it
//! command  runs of shell commands and their output logs
//! access   keys and sign-ins
//! feed     what happened, for the page
//! control  who may do what
//! error    what can go wrong
//! store    the only place that names SQL
//! runtime  the container engine; runtime/docker is the only place that names bollard
//! ids, clock
//! ```
//!
//! `tests/tests/it/architecture.rs` reads this list and keeps it true.
//!
//! For Rust programs that need a sandbox and no server there is [`Sandbox`].

pub mod access;
pub mod cli;
pub mod clock;
pub mod command;
pub mod control;
pub mod error;
pub mod feed;
pub mod files;
pub mod history;
pub mod http;
pub mod ids;
pub mod runtime;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod store;
pub mod tools;

pub use glassbox_shared::session::Profile;
pub use glassbox_shared::tools::{Format, ToolAnswer};
pub use sandbox::{Sandbox, SandboxConfig, SandboxError};
