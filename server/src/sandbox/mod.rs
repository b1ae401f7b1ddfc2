//! One sandbox without a server: for Rust programs, and for `glassbox run`.
//!
//! A sandbox lives on a thread of its own with a small async runtime, so that it can be removed when nothing else of the
//! program runs any more. What is asked of it is a task there. Nothing listens, and nothing is shared between several
//! sandboxes of a program. Its data is in a folder of its own ([`places`]), whose lock ends with the program however that
//! ends: a sandbox whose program was killed goes at the next start of any other one of the same user.

mod life;
mod places;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use glassbox_shared::session::{Profile, SessionState};
use glassbox_shared::tools::{DEFAULT_TIMEOUT, Format, MAX_TIMEOUT, Tool, ToolAnswer, schemas_waiting};
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::control::Principal;
use crate::runtime::names::check_workspace_dir;
use crate::runtime::spec::usual_workspace_dir;
use crate::server::config::DEFAULT_IMAGE;
use crate::session::Session;
use life::Inside;

/// How long a drop waits: removing a sandbox takes a tenth of a second, and some seconds on a busy machine. What takes
/// longer goes at the next start of a sandbox.
const DROP_DEADLINE: Duration = Duration::from_secs(30);

/// What a sandbox shall be.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxConfig {
    /// The image: with `bash`, and with whatever the commands need, as the sandbox has no network.
    pub image: String,
    /// Which settings it has: root and a writable system, or hardened.
    pub profile: Profile,
    /// Memory, for example `"512m"`; the profile's own (`2g` where it is open) unless given.
    pub memory: Option<String>,
    /// Processors; the profile's own (2 where it is open) unless given.
    pub cpus: Option<f64>,
    /// Processes and threads, gVisor's own (about 35) included; the profile's own (512 where it is open) unless given.
    pub pids_limit: Option<u32>,
    /// How long `shell_exec` and `shell_wait` wait unless a call says otherwise: 60 s, at most an hour. A command that takes
    /// longer goes on. [`Sandbox::tools`] tells models.
    pub exec_timeout: Duration,
    /// Where the workspace of an open sandbox is, an absolute path such as `/work`; `/root` unless given. Every command
    /// starts there, files are given relative to it, and what is in it outlives the sandbox's death. It begins with what the
    /// image has there. Not in folders of the system (`/etc`, `/proc` and others). The home folder stays `/root`.
    pub workspace: Option<String>,
    /// Where the folders are in which sandboxes keep output while they live; the user's own unless given:
    /// `$XDG_DATA_HOME/glassbox-sandboxes`, or `~/.local/share/glassbox-sandboxes`. A start also removes the sandboxes of
    /// killed programs that used this one.
    pub folder: Option<PathBuf>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            image: DEFAULT_IMAGE.to_owned(),
            profile: Profile::Open,
            memory: None,
            cpus: None,
            pids_limit: None,
            exec_timeout: Duration::from_secs_f64(DEFAULT_TIMEOUT),
            workspace: None,
            folder: None,
        }
    }
}

impl SandboxConfig {
    /// The schemas of all tools of such a sandbox, which need not be there yet.
    pub fn tools(&self, format: Format) -> Vec<Value> {
        schemas_waiting(format, self.exec_timeout.as_secs_f64())
    }
}

/// What can go wrong with a sandbox as such. What goes wrong in it is a text for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// It is not there, and nothing of it is left.
    #[error("the sandbox could not be started: {0}")]
    Start(String),
    /// Something of it may be left.
    #[error("the sandbox could not be removed, and the next start of one tries it again: {0}")]
    Removal(String),
}

/// A sandbox with an agent's shell tools: one container under gVisor, without network.
///
/// Files, installed packages and background processes persist between calls. Every answer is the text that a model reads;
/// what goes wrong begins with `ERROR:`. Calls may come from several tasks at once, and one that is given up (its future
/// dropped) takes no output away from the next.
///
/// ```no_run
/// use glassbox::{Sandbox, SandboxConfig};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), glassbox::SandboxError> {
/// let sandbox = Sandbox::start(SandboxConfig::default()).await?;
/// println!("{}", sandbox.shell_exec("python3 -m venv venv", None).await);
/// sandbox.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// It needs what `glassbox serve` needs: Docker with `runsc`, the image, and the helper `glassbox-inside`, which is looked
/// for beside the program, in `/usr/lib/glassbox`, or where `GLASSBOX_HELPER` says. `cargo run -p glassbox --example
/// quickstart` runs the above in a checkout that `make build` has been through; `--example tool_loop` shows a model that
/// calls its tools.
///
/// # Its end
///
/// [`stop`](Self::stop) removes container and files, and answers when they are gone. Dropping the sandbox does the same,
/// and **blocks the thread** for that time, 30 seconds at most; it needs no async runtime and works while the program's own
/// ends. A program that ends without either, by a signal or by [`std::process::exit`], leaves its sandbox to the next
/// start of any sandbox of the same user (`glassbox run` is one).
#[derive(Debug)]
pub struct Sandbox {
    // First, so that it is dropped first: then everything else is only handles to what is gone.
    thread: Thread,
    inside: Inside,
    exec_timeout: f64,
}

impl Sandbox {
    /// Starts one. Dropping the future removes what was made so far, and blocks for that as dropping the sandbox does.
    pub async fn start(config: SandboxConfig) -> Result<Self, SandboxError> {
        let exec_timeout = config.exec_timeout.as_secs_f64();
        if exec_timeout > MAX_TIMEOUT {
            return Err(SandboxError::Start(format!("exec_timeout is at most {MAX_TIMEOUT} seconds")));
        }
        check_workspace(&config)?;
        let (thread, made) = Thread::start(config)?;
        match made.await {
            Ok(inside) => Ok(Self { thread, inside: inside?, exec_timeout }),
            Err(_) => Err(SandboxError::Start("its thread ended without a word".to_owned())),
        }
    }

    /// The schemas of all tools, for a model's API. They say how long calls wait here. [`SandboxConfig::tools`] are the same.
    pub fn tools(&self, format: Format) -> Vec<Value> {
        schemas_waiting(format, self.exec_timeout)
    }

    /// Runs a command, and answers when it has ended or after `timeout` seconds ([`SandboxConfig::exec_timeout`] unless
    /// given); it then goes on.
    pub async fn shell_exec(&self, command: &str, timeout: Option<f64>) -> String {
        self.dispatch(Tool::ShellExec.name(), &json!({"command": command, "timeout": timeout})).await.text
    }

    /// Goes on waiting for the running command, at most `timeout` seconds. Answers with output that was not given yet.
    pub async fn shell_wait(&self, timeout: Option<f64>) -> String {
        self.dispatch(Tool::ShellWait.name(), &json!({"timeout": timeout})).await.text
    }

    /// Ends the running command with all that it started: SIGTERM, and SIGKILL after 5 s.
    pub async fn shell_kill(&self) -> String {
        self.dispatch(Tool::ShellKill.name(), &json!({})).await.text
    }

    /// Does a model's call of a tool, with the input as the model wrote it. Always answers: an unknown tool, a wrong
    /// argument and a sandbox that is gone are texts, too.
    pub async fn dispatch(&self, name: &str, input: &Value) -> ToolAnswer {
        if !self.is_running() {
            return not_running();
        }
        let (inside, name, input) = (self.inside.clone(), name.to_owned(), self.with_timeout(name, input));
        // It runs where the sandbox lives: the caller's runtime need not be tokio's.
        let call = self.inside.runtime.spawn(async move { inside.dispatch(&name, &input).await });
        match AbortOnDropHandle::new(call).await {
            // Refused because it ended meanwhile. What is about a command says itself what became of it.
            Ok(answer) if answer.is_error && answer.command_id.is_none() && !self.is_running() => not_running(),
            Ok(answer) => answer,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a tool call broke off");
                }
                not_running()
            }
        }
    }

    /// Removes the sandbox with its files, and answers when they are gone. To do it again does no harm.
    pub async fn stop(&self) -> Result<(), SandboxError> {
        self.thread.end.cancel();
        let mut removed = self.thread.removed.clone();
        let outcome = removed.wait_for(Option::is_some).await.ok().and_then(|outcome| (*outcome).clone());
        outcome.unwrap_or_else(|| Err(SandboxError::Removal("its thread ended without a word".to_owned())))
    }

    /// The session behind it, for whoever needs more than texts. Its calls may be awaited in any tokio runtime.
    pub(crate) fn session(&self) -> &Session {
        &self.inside.session
    }

    /// As whom it is used.
    pub(crate) fn who(&self) -> &Principal {
        &self.inside.who
    }

    fn is_running(&self) -> bool {
        !self.thread.end.is_cancelled() && !matches!(self.inside.session.view().state, SessionState::Ended { .. })
    }

    /// The input, with our own time where the tool waits and the call does not say how long.
    fn with_timeout(&self, name: &str, input: &Value) -> Value {
        if !matches!(Tool::named(name), Some(Tool::ShellExec | Tool::ShellWait)) {
            return input.clone();
        }
        let mut fields = match input {
            Value::Object(fields) => fields.clone(),
            Value::Null => Map::new(),
            // It is refused in words.
            _ => return input.clone(),
        };
        if fields.get("timeout").is_none_or(Value::is_null) {
            fields.insert("timeout".to_owned(), json!(self.exec_timeout));
        }
        Value::Object(fields)
    }
}

fn check_workspace(config: &SandboxConfig) -> Result<(), SandboxError> {
    let Some(place) = &config.workspace else { return Ok(()) };
    if config.profile != Profile::Open {
        let own = usual_workspace_dir(config.profile);
        let detail = format!("the workspace of a {} sandbox is always {own}", config.profile.as_str());
        return Err(SandboxError::Start(detail));
    }
    check_workspace_dir(place).map_err(|error| SandboxError::Start(error.to_string()))
}

fn not_running() -> ToolAnswer {
    ToolAnswer::refused("the sandbox is not running: it was stopped or has ended; nothing can be run in it any more")
}

/// The thread on which a sandbox lives. Dropping it ends the sandbox, and waits for that.
#[derive(Debug)]
struct Thread {
    /// Cancelled: it shall end.
    end: CancellationToken,
    /// What came of the end.
    removed: watch::Receiver<Option<Result<(), SandboxError>>>,
    /// Nothing is ever sent; the other side is gone when the thread is.
    alive: Mutex<mpsc::Receiver<Infallible>>,
}

impl Thread {
    fn start(config: SandboxConfig) -> Result<(Self, oneshot::Receiver<Result<Inside, SandboxError>>), SandboxError> {
        let end = CancellationToken::new();
        let (made, answer) = oneshot::channel();
        let (removing, removed) = watch::channel(None);
        let (lives, alive) = mpsc::channel();
        let ending = end.clone();
        let body = move || {
            life::live(config, &ending, made, &removing);
            drop(lives);
        };
        let started = std::thread::Builder::new().name("glassbox-sandbox".to_owned()).spawn(body);
        started.map_err(|error| SandboxError::Start(format!("it needs a thread of its own: {error}")))?;
        Ok((Self { end, removed, alive: Mutex::new(alive) }, answer))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end.cancel();
        let alive = self.alive.get_mut().unwrap_or_else(PoisonError::into_inner);
        if alive.recv_timeout(DROP_DEADLINE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "a sandbox was not removed within {DROP_DEADLINE:?}; if the program ends before it is, it goes at the next start of one"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_is_told_before_anything_is_made() {
        let long = SandboxConfig { exec_timeout: Duration::from_secs(3601), ..SandboxConfig::default() };
        let refusal = Sandbox::start(long).await.expect_err("too long").to_string();
        assert_eq!(refusal, "the sandbox could not be started: exec_timeout is at most 3600 seconds");
        let refusal = async |workspace: &str, profile| {
            let config = SandboxConfig { workspace: Some(workspace.to_owned()), profile, ..SandboxConfig::default() };
            Sandbox::start(config).await.expect_err("no place for a workspace").to_string()
        };
        for (place, why) in
            [("work", "it is not absolute"), ("/a/../b", "`..`"), ("/proc/1", "/proc belongs to the system")]
        {
            let refusal = refusal(place, Profile::Open).await;
            assert!(
                refusal.contains(&format!("{place:?} cannot be the workspace")) && refusal.contains(why),
                "{refusal}"
            );
        }
        let hardened = refusal("/work", Profile::Hardened).await;
        assert!(hardened.ends_with("the workspace of a hardened sandbox is always /workspace"), "{hardened}");
        // A folder that cannot be made.
        let nowhere = SandboxConfig { folder: Some("/proc/glassbox".into()), ..SandboxConfig::default() };
        let refusal = Sandbox::start(nowhere).await.expect_err("no folder").to_string();
        assert!(refusal.contains("/proc/glassbox"), "{refusal}");
    }

    #[test]
    fn a_sandbox_can_be_used_from_every_thread() {
        fn usable<T: Send + Sync + 'static>() {}
        usable::<Sandbox>();
    }
}
