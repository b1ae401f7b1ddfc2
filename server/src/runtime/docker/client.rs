//! The connection: one client, a deadline for every call, a bound on calls at once, and the engine's errors in our
//! words.

use std::future::Future;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{Volume, VolumeCreateRequest};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use crate::runtime::RuntimeError;

/// Longer than every deadline of ours: bollard's own (2 minutes) would otherwise cut in with an error of another kind.
const CLIENT_TIMEOUT: Duration = Duration::from_mins(10);

/// Calls that make things, at once. Starting a gVisor sandbox costs about half a second of CPU: more of them at the
/// same time only make each other (and everybody's commands) slower.
const MAKING_AT_ONCE: usize = 4;

/// Short calls at once: starting an exec, looking at something. One connection each.
const ASKING_AT_ONCE: usize = 32;

/// Removals at once. They have places of their own, as one after a fork bomb takes the engine 100 s.
const REMOVING_AT_ONCE: usize = 16;

/// Characters of an engine's error text that are passed on.
const ERROR_TEXT: usize = 500;

/// How long an answer may take, the wait for a place included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    /// What is done, for the error.
    pub(super) what: &'static str,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Which places it takes.
    pub(super) lane: Lane,
}

/// Kinds of calls that do not wait for each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    /// Makes a container or a volume.
    Make,
    /// Anything short.
    Ask,
    /// Kills and removes.
    Remove,
}

impl Deadline {
    /// For something that is made.
    pub(super) const fn make(what: &'static str, seconds: u64) -> Self {
        Self { what, limit: Duration::from_secs(seconds), lane: Lane::Make }
    }

    /// For a question.
    pub(super) const fn ask(what: &'static str, seconds: u64) -> Self {
        Self { what, limit: Duration::from_secs(seconds), lane: Lane::Ask }
    }

    /// For a removal.
    pub(super) const fn remove(what: &'static str, seconds: u64) -> Self {
        Self { what, limit: Duration::from_secs(seconds), lane: Lane::Remove }
    }

    /// The error when it has passed.
    pub(super) fn passed(self) -> RuntimeError {
        RuntimeError::Timeout { what: self.what, limit: self.limit }
    }
}

/// The handshake: a socket on this machine answers in milliseconds, unless the engine hangs.
const NEGOTIATE: Deadline = Deadline::ask("agreeing on the engine's API version", 10);

/// The engine, connected to at the first call: a server may start before its engine.
pub(super) struct Engine {
    docker: OnceCell<Docker>,
    make: Semaphore,
    ask: Semaphore,
    remove: Semaphore,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn new() -> Self {
        Self {
            docker: OnceCell::new(),
            make: Semaphore::new(MAKING_AT_ONCE),
            ask: Semaphore::new(ASKING_AT_ONCE),
            remove: Semaphore::new(REMOVING_AT_ONCE),
        }
    }

    /// The client, with the API version that both sides speak.
    pub(super) async fn docker(&self) -> Result<&Docker, Failure> {
        let connect = self.docker.get_or_try_init(|| async {
            Docker::connect_with_defaults()?.with_timeout(CLIENT_TIMEOUT).negotiate_version().await
        });
        timeout(NEGOTIATE.limit, connect).await.map_err(|_| Failure::Late(NEGOTIATE))?.map_err(Failure::Engine)
    }

    /// Asks the engine something, within `deadline`.
    pub(super) async fn call<T, F>(&self, deadline: Deadline, ask: impl FnOnce(Docker) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let places = match deadline.lane {
            Lane::Make => &self.make,
            Lane::Ask => &self.ask,
            Lane::Remove => &self.remove,
        };
        let answer = async {
            let _place = places.acquire().await.expect("our semaphores are never closed");
            let docker = self.docker().await?.clone();
            ask(docker).await.map_err(Failure::Engine)
        };
        timeout(deadline.limit, answer).await.unwrap_or(Err(Failure::Late(deadline)))
    }

    /// Makes a volume, or finds the one that has its name. What it is labelled with is asked, not taken from the answer:
    /// an engine that was started anew leaves the labels out there, for a volume that nobody has asked about yet.
    pub(super) async fn make_volume(
        &self,
        deadline: Deadline,
        request: VolumeCreateRequest,
    ) -> Result<Volume, Failure> {
        self.call(deadline, |docker| async move {
            let made = docker.create_volume(request).await?;
            docker.inspect_volume(&made.name).await
        })
        .await
    }
}

/// Why a call failed, while it still matters what the engine said.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer in time.
    Late(Deadline),
    /// An error of the engine, or of the way to it.
    Engine(Error),
}

impl Failure {
    /// The engine's status code.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Failure::Engine(Error::DockerResponseServerError { status_code, .. }) => Some(*status_code),
            _ => None,
        }
    }

    /// The engine knows no such thing.
    pub(super) fn is_missing(&self) -> bool {
        self.status() == Some(404)
    }
}

/// Passes a "there is no such thing" on as `None`.
pub(super) fn if_there<T>(answer: Result<T, Failure>) -> Result<Option<T>, RuntimeError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.is_missing() => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

impl From<Failure> for RuntimeError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Late(deadline) => deadline.passed(),
            Failure::Engine(error) => from_engine(&error),
        }
    }
}

/// An engine's error in our words.
pub(super) fn from_engine(error: &Error) -> RuntimeError {
    match error {
        Error::DockerResponseServerError { status_code, message } => from_answer(*status_code, message),
        Error::SocketNotFoundError(path) => RuntimeError::Unreachable(format!("there is no socket at {path}")),
        Error::RequestTimeoutError => RuntimeError::Timeout { what: "an answer of the engine", limit: CLIENT_TIMEOUT },
        Error::HyperLegacyError { .. } | Error::HyperResponseError { .. } | Error::IOError { .. } => {
            RuntimeError::Unreachable(with_causes(error))
        }
        other => RuntimeError::Engine(short(&with_causes(other))),
    }
}

/// A refusal in our words. The texts are those of moby 20.10 to 28.
fn from_answer(status: u16, message: &str) -> RuntimeError {
    let lower = message.to_ascii_lowercase();
    let no_runtime = lower.contains("unknown runtime specified")
        || lower.contains("unknown or invalid runtime name")
        || (lower.contains("runsc")
            && (lower.contains("executable file not found") || lower.contains("no such file or directory")));
    if no_runtime {
        return RuntimeError::NoGvisor;
    }
    if let Some(image) = message.strip_prefix("No such image: ") {
        return RuntimeError::NoImage(short(image));
    }
    let over = ["is not running", "is restarting", "is paused", "is removing", "is dead"];
    if status == 404 || (status == 409 && over.iter().any(|words| lower.contains(words))) {
        return RuntimeError::Gone(short(message));
    }
    RuntimeError::Engine(short(message))
}

/// How texts begin that tell of a sandbox's end.
const GONE: [&str; 4] = ["no such container", "cannot exec in a", "failed to start exec", "task "];

/// An engine wrote this text where a program's output should be: the exec could not be started. `None`: it is no such
/// text. (moby answers "101 UPGRADED" first and starts the program afterwards.)
pub(super) fn from_exec_text(output: &[u8]) -> Option<RuntimeError> {
    let text = std::str::from_utf8(output).ok()?.strip_suffix("\r\n")?;
    let lower = text.to_ascii_lowercase();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| lower.starts_with(beginning));
    // runsc's own word, while the engine may not know of it yet.
    let stopped = lower.contains("cannot execute in container") && lower.contains("in state stopped");
    if begins(&["container "]) && lower.ends_with("is not running") || begins(&GONE) || stopped {
        Some(RuntimeError::Gone(short(text)))
    } else if !begins(&["oci runtime exec failed", "failed to create shim"]) {
        None
    } else if lower.contains("try again") || lower.contains("resource temporarily unavailable") {
        let full = "the sandbox is at its process limit and nothing more can be started in it";
        Some(RuntimeError::Engine(format!("{full} ({})", short(text))))
    } else {
        Some(RuntimeError::Engine(short(text)))
    }
}

/// An exec's connection carries something that is neither output nor an engine's known text.
pub(super) fn broken(output: &[u8]) -> RuntimeError {
    RuntimeError::Engine(format!("the engine broke an exec's stream: {}", short(&String::from_utf8_lossy(output))))
}

fn short(text: &str) -> String {
    let mut characters = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(ERROR_TEXT).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    short(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_refusals_are_told_apart() {
        let says = |status, text: &str| from_answer(status, text);
        assert!(
            matches!(says(404, "No such image: nothing:latest"), RuntimeError::NoImage(image) if image == "nothing:latest")
        );
        assert!(matches!(says(404, "No such container: x"), RuntimeError::Gone(_)));
        assert!(matches!(says(409, "Container 12ab is not running"), RuntimeError::Gone(_)));
        assert!(matches!(says(409, "Conflict. The container name \"/x\" is already in use"), RuntimeError::Engine(_)));
        assert!(matches!(says(400, "Unknown runtime specified runsc"), RuntimeError::NoGvisor));
        assert!(matches!(says(400, "unknown or invalid runtime name: runsc"), RuntimeError::NoGvisor));
        let missing = "failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error: \
            exec: \"runsc\": executable file not found in $PATH";
        assert!(matches!(says(400, missing), RuntimeError::NoGvisor));
        assert!(matches!(says(500, "no space left on device"), RuntimeError::Engine(_)));
    }

    #[test]
    fn an_engines_text_in_place_of_output_is_recognised_and_a_frame_is_not() {
        assert!(matches!(
            from_exec_text(b"OCI runtime exec failed: exec failed: x\r\n"),
            Some(RuntimeError::Engine(_))
        ));
        assert!(matches!(from_exec_text(b"Container 12ab is not running\r\n"), Some(RuntimeError::Gone(_))));
        let stopped = b"OCI runtime exec failed: executing processes for container: cannot execute in container \"12ab\" in state stopped: unknown\r\n";
        assert!(matches!(from_exec_text(stopped), Some(RuntimeError::Gone(_))));
        let full = b"OCI runtime exec failed: executing command \"x\" in sandbox: try again: unknown\r\n";
        assert!(matches!(from_exec_text(full), Some(RuntimeError::Engine(text)) if text.contains("process limit")));
        assert!(from_exec_text(&[9, 0, 0, 0, 101, 1, 2, 3, 4, 5, 6, 7, 8]).is_none());
        assert!(from_exec_text(b"hello\r\n").is_none());
    }

    #[test]
    fn a_long_error_text_is_cut_and_has_no_control_characters() {
        let RuntimeError::Engine(text) = from_answer(500, &format!("a\u{1b}[31mb{}", "x".repeat(5_000))) else {
            panic!("another error")
        };
        assert!(text.chars().count() <= ERROR_TEXT + 1);
        assert!(!text.contains('\u{1b}'));
    }
}
