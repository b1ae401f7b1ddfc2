//! What Glassbox needs of a container engine: make, watch and remove sandboxes and their workspaces, and run the helper
//! in them. It knows nothing of sessions' rules, commands or frames.
//!
//! Every call has a deadline of its own and answers with [`RuntimeError::Timeout`] when it passes; what was asked for may
//! then still happen, so names are chosen (and stored) by the caller before it asks, and removing what is not there is
//! a success.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::{DeathCause, Limits, Profile};
use tokio::io::AsyncWrite;
use tokio::sync::{broadcast, watch};

pub mod docker;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod names;
pub mod spec;

/// Events that a subscriber may be behind before it is told that it missed some.
pub const EVENT_QUEUE: usize = 1024;

/// Labels that all our objects carry; nothing without the first one of this instance is ever touched.
pub mod labels {
    /// The instance (data directory) that owns the object.
    pub const INSTANCE: &str = "glassbox.instance";
    /// Whose session.
    pub const TENANT: &str = "glassbox.tenant";
    /// The session.
    pub const SESSION: &str = "glassbox.session";
    /// `sandbox`, `workspace` or `helper`.
    pub const KIND: &str = "glassbox.kind";
}

/// A shared engine.
pub type Runtime = Arc<dyn ContainerRuntime>;

/// A sandbox to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSpec {
    /// Container name, chosen by the caller.
    pub container: String,
    /// The workspace volume's name; it must exist.
    pub workspace: String,
    /// Where it is mounted, and where programs start.
    pub workspace_dir: String,
    /// Image.
    pub image: String,
    /// Which golden settings.
    pub profile: Profile,
    /// Sizes.
    pub limits: Limits,
    /// Whose.
    pub tenant: String,
    /// Which session.
    pub session: String,
}

/// A program to run in a sandbox with its stdin and stdout on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
}

/// A running exec. Dropping it closes the stream; the program sees the end of its stdin.
pub struct ExecStream {
    /// To the program's stdin.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// From the program's stdout (its stderr is dropped). Ends when the program's stdout ends or the sandbox dies.
    pub output: Pin<Box<dyn Stream<Item = Result<Bytes, RuntimeError>> + Send>>,
}

impl Debug for ExecStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecStream").finish_non_exhaustive()
    }
}

/// How a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerStatus {
    /// It runs.
    Running,
    /// It is there and does not run.
    Dead(DeathCause),
    /// It is not there.
    Missing,
}

/// Something that the engine reported about one of our containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container died.
    Died {
        /// Its name.
        container: String,
    },
    /// Something in a container ran out of memory (the container may live on).
    OutOfMemory {
        /// Its name.
        container: String,
    },
    /// The event stream was interrupted: look at everything again.
    Resumed,
}

/// An object with our instance's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Its name.
    pub name: String,
    /// All its labels.
    pub labels: BTreeMap<String, String>,
}

/// Everything with our instance's label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Containers, running or not.
    pub containers: Vec<Owned>,
    /// Workspace volumes (helper volumes are not listed).
    pub workspaces: Vec<Owned>,
    /// Containers that fill the helper's volume: at work, or left by a crash in that moment.
    pub filling: Vec<Owned>,
}

/// What the engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Version text.
    pub version: String,
    /// Names of its runtimes.
    pub runtimes: Vec<String>,
}

/// What can go wrong with the engine.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// No answer within the deadline.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// The deadline.
        limit: Duration,
    },
    /// It cannot be reached.
    #[error("the engine cannot be reached: {0}")]
    Unreachable(String),
    /// The sandbox (or image, or volume) is not there, or does not run.
    #[error("{0}")]
    Gone(String),
    /// `runsc` is not there; nothing is ever started without it.
    #[error("the engine has no runtime named runsc (gVisor); install runsc and register it, or run `make setup`")]
    NoGvisor,
    /// The image is not there.
    #[error("the image {0} is not there; run `make setup`, or pull it")]
    NoImage(String),
    /// This server's own helper is not there, or cannot be put into a sandbox.
    #[error("the helper glassbox-inside: {0}")]
    NoHelper(String),
    /// Anything else, in the engine's words.
    #[error("{0}")]
    Engine(String),
}

/// A container engine.
#[async_trait::async_trait]
pub trait ContainerRuntime: Debug + Send + Sync + 'static {
    /// Asks the engine who it is.
    async fn info(&self) -> Result<EngineInfo, RuntimeError>;

    /// Makes sure that the helper's volume is there and holds this server's helper.
    async fn prepare_helper(&self) -> Result<(), RuntimeError>;

    /// Is the image there?
    async fn has_image(&self, image: &str) -> Result<bool, RuntimeError>;

    /// Makes a workspace volume.
    async fn create_workspace(&self, name: &str, tenant: &str, session: &str) -> Result<(), RuntimeError>;

    /// Is the workspace volume there?
    async fn has_workspace(&self, name: &str) -> Result<bool, RuntimeError>;

    /// Removes a workspace volume; a missing one is a success. Verified.
    async fn remove_workspace(&self, name: &str) -> Result<(), RuntimeError>;

    /// Makes and starts a sandbox; refuses anything but gVisor.
    async fn start(&self, spec: &SandboxSpec) -> Result<(), RuntimeError>;

    /// Kills and removes a container; a missing one is a success. Verified.
    async fn remove(&self, container: &str) -> Result<(), RuntimeError>;

    /// How is a container?
    async fn status(&self, container: &str) -> Result<ContainerStatus, RuntimeError>;

    /// As [`ContainerRuntime::status`], and where the engine calls it running, the sandbox itself has to answer too.
    async fn probe(&self, container: &str) -> Result<ContainerStatus, RuntimeError>;

    /// Does this sandbox of an earlier life of the server run, under gVisor, with this server's helper, and answer?
    async fn can_adopt(&self, container: &str) -> Result<bool, RuntimeError>;

    /// Runs a program (the helper) in a sandbox, as the sandbox's user, in its workspace.
    async fn exec(&self, container: &str, exec: &ExecSpec) -> Result<ExecStream, RuntimeError>;

    /// Everything that carries our instance's label.
    async fn inventory(&self) -> Result<Inventory, RuntimeError>;

    /// Whether the engine answers, as far as is known at this moment.
    fn trouble(&self) -> watch::Receiver<Option<EngineTrouble>>;

    /// Events from now on.
    fn events(&self) -> broadcast::Receiver<RuntimeEvent>;
}
