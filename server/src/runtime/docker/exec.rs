//! Execs: a program's stdin and stdout on one connection to the engine.
//!
//! An engine may keep the connection of an exec open after its container died (seen: 60 s). So every exec knows whether
//! its container lives, and its output ends shortly after the death, whatever the engine does.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use glassbox_shared::helper::HELPER_PATH;
use tokio::io::AsyncWrite;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::client::{Deadline, Engine, broken, from_engine, from_exec_text};
use crate::runtime::{ExecSpec, ExecStream, RuntimeError};

/// Starting a process in a sandbox takes 60 to 120 ms, and many times that on a machine that is starting others.
const CREATE: Deadline = Deadline::ask("creating an exec", 15);

/// As above. The answer comes before the program is started.
const START: Deadline = Deadline::ask("starting an exec", 15);

/// An answer of the helper that takes this long is none; whoever asks may ask again.
const PROBE: Deadline = Deadline::ask("asking a sandbox whether it lives", 10);

/// What the engine still holds of a dead sandbox's output comes without a pause as long as this.
const QUIET_AFTER_DEATH: Duration = Duration::from_millis(500);

/// Bytes read from the connection at once; the engine sends pieces of 32 KiB, and the kernel holds some 200 KiB of them.
const READ_BUFFER: usize = 128 * 1024;

/// Which containers live, as far as events have told. Holds one entry a container that was started or used, until it
/// dies or is removed.
#[derive(Debug, Default)]
pub(super) struct Lives {
    tokens: Mutex<HashMap<String, CancellationToken>>,
}

impl Lives {
    /// Cancelled when the container dies.
    pub(super) fn of(&self, container: &str) -> CancellationToken {
        self.lock().entry(container.to_owned()).or_default().clone()
    }

    /// It died or was removed.
    pub(super) fn ended(&self, container: &str) {
        if let Some(token) = self.lock().remove(container) {
            token.cancel();
        }
    }

    /// Those believed to live.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, CancellationToken>> {
        // A map of handles is whole whatever a panicking holder did.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `exec` in `container`. Two calls and no more: agents wait for every one of their commands.
pub(super) async fn exec(
    engine: &Engine,
    lives: &Lives,
    container: &str,
    exec: &ExecSpec,
) -> Result<ExecStream, RuntimeError> {
    // Before asking, so that a death from now on is not missed.
    let life = lives.of(container);
    let config = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(false),
        tty: Some(false),
        cmd: Some(exec.argv.clone()),
        ..Default::default()
    };
    let created = engine.call(CREATE, |docker| async move { docker.create_exec(container, config).await }).await;
    let created = match created {
        Ok(created) => created,
        Err(failure) => {
            let error = RuntimeError::from(failure);
            if matches!(error, RuntimeError::Gone(_)) {
                lives.ended(container);
            }
            return Err(error);
        }
    };
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(READ_BUFFER) };
    let started =
        engine.call(START, |docker| async move { docker.start_exec(&created.id, Some(options)).await }).await?;
    let StartExecResults::Attached { output, input } = started else {
        return Err(RuntimeError::Engine("the engine detached an exec that was to be attached".to_owned()));
    };
    let output = stdout_only(Connection { output: output.boxed(), life });
    Ok(ExecStream { input: Box::pin(Input(input)), output })
}

/// Does the sandbox answer, whatever the engine says of it? Runs the helper, which says how it is called.
pub(super) async fn answers(engine: &Engine, lives: &Lives, container: &str) -> Result<bool, RuntimeError> {
    let spec = ExecSpec { argv: vec![HELPER_PATH.to_owned(), "--version".to_owned()] };
    let ask = async {
        let mut stream = exec(engine, lives, container, &spec).await?;
        let mut said = 0;
        while let Some(read) = stream.output.next().await {
            said += read?.len();
        }
        Ok(said > 0)
    };
    match tokio::time::timeout(PROBE.limit, ask).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(RuntimeError::Gone(_))) => Ok(false),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(PROBE.passed()),
    }
}

/// A program's stdin. When it is dropped, the program sees the end of its stdin, while its output goes on: the
/// connection itself only closes with its other half.
struct Input(Pin<Box<dyn AsyncWrite + Send>>);

impl AsyncWrite for Input {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Half-closing a socket does not wait; and where it would, the connection's end does the same a little later.
        let _ = self.0.as_mut().poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

/// What comes from the engine, for as long as the container lives.
struct Connection {
    output: BoxStream<'static, Result<LogOutput, Error>>,
    life: CancellationToken,
}

impl Connection {
    async fn next(&mut self) -> Option<Result<LogOutput, Error>> {
        tokio::select! {
            biased;
            item = self.output.next() => return item,
            () = self.life.cancelled() => {}
        }
        timeout(QUIET_AFTER_DEATH, self.output.next()).await.ok().flatten()
    }
}

/// The bytes of stdout. Ends after the first error.
fn stdout_only(connection: Connection) -> BoxStream<'static, Result<Bytes, RuntimeError>> {
    unfold(Some((connection, true)), |state| async move {
        let (mut connection, first) = state?;
        loop {
            let item = match connection.next().await? {
                Ok(LogOutput::StdOut { message }) if message.is_empty() => continue,
                Ok(LogOutput::StdErr { .. } | LogOutput::StdIn { .. }) => continue,
                Ok(LogOutput::StdOut { message }) if first => from_exec_text(&message).map_or(Ok(message), Err),
                Ok(LogOutput::StdOut { message }) => Ok(message),
                // Without a header: the engine says something itself, in place of the program.
                Ok(LogOutput::Console { message }) => Err(from_exec_text(&message).unwrap_or_else(|| broken(&message))),
                Err(error) => Err(from_engine(&error)),
            };
            let rest = item.is_ok().then_some((connection, false));
            return Some((item, rest));
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::Stream;
    use futures_util::stream::{iter, pending};

    use super::*;

    fn from(
        items: impl Stream<Item = Result<LogOutput, Error>> + Send + 'static,
        life: &CancellationToken,
    ) -> Connection {
        Connection { output: items.boxed(), life: life.clone() }
    }

    fn stdout(text: &'static str) -> LogOutput {
        LogOutput::StdOut { message: Bytes::from_static(text.as_bytes()) }
    }

    #[tokio::test]
    async fn only_stdout_is_passed_on_and_an_error_is_the_last_thing() {
        let items = vec![
            Ok(stdout("one")),
            Ok(LogOutput::StdErr { message: Bytes::from_static(b"noise") }),
            Ok(stdout("two")),
            Err(Error::RequestTimeoutError),
            Ok(stdout("never")),
        ];
        let got: Vec<_> = stdout_only(from(iter(items), &CancellationToken::new())).collect().await;
        assert_eq!(got.len(), 3);
        assert!(matches!(&got[0], Ok(bytes) if bytes.as_ref() == b"one"));
        assert!(matches!(&got[1], Ok(bytes) if bytes.as_ref() == b"two"));
        assert!(got[2].is_err());
    }

    #[tokio::test]
    async fn an_exec_that_the_engine_could_not_start_is_an_error_and_not_output() {
        let text = iter(vec![Ok(stdout("OCI runtime exec failed: no such file\r\n"))]);
        let got: Vec<_> = stdout_only(from(text, &CancellationToken::new())).collect().await;
        assert!(matches!(got.as_slice(), [Err(RuntimeError::Engine(_))]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_death_ends_the_output_though_the_engine_keeps_the_connection() {
        let life = CancellationToken::new();
        let items = iter(vec![Ok(stdout("before"))]).chain(pending());
        let mut output = stdout_only(from(items, &life));
        assert!(output.next().await.is_some());
        life.cancel();
        assert!(output.next().await.is_none());
    }

    #[tokio::test]
    async fn everyone_in_a_container_learns_of_its_death() {
        let lives = Lives::default();
        let (one, other) = (lives.of("a"), lives.of("b"));
        lives.ended("a");
        assert!(one.is_cancelled());
        assert!(!other.is_cancelled());
        assert!(!lives.of("a").is_cancelled(), "a new container of that name lives");
    }
}
