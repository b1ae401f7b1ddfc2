//! `glassbox mcp`: MCP over stdin and stdout, for clients that start a program, against a server's `/mcp`.
//!
//! It passes messages on as they are, in both directions, and knows only what the way needs: which request an answer
//! belongs to, the session, and what to say when there is no answer. Nothing but the protocol is written to stdout.

mod events;
mod trust;
mod way;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use glassbox_shared::session::Profile;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::signals::Signals;
use way::Way;

/// Longest line, in bytes: what the server takes, which is 1 MiB.
const MAX_LINE: u64 = 1024 * 1024;
/// Lines that wait for a slow reader of stdout; then the server's answers wait.
const LINES: usize = 64;
/// Requests on their way at once. A client that asks for more waits.
const REQUESTS: usize = 64;
/// For ending the session at the server when the client leaves.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the examples for curl call the key; one that is set for them is good for this, too.
const OTHER_VARIABLE: &str = "GLASSBOX_KEY";

/// Serve MCP on stdin and stdout, for clients that start a program. All that is done in the sandbox goes to a server.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The server.
    #[arg(long, env = "GLASSBOX_URL", default_value = "http://127.0.0.1:7070")]
    url: String,
    /// A file with certificates in PEM that are trusted beside the system's, for a server with an https:// address.
    #[arg(long, env = "GLASSBOX_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// A key with the role `agent` (`glassbox keys create --role agent`).
    #[arg(long, env = "GLASSBOX_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A file with the key, instead of `--key`.
    #[arg(long, env = "GLASSBOX_KEY_FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
    /// Name of the workspace: each has a sandbox of its own.
    #[arg(long, env = "GLASSBOX_WORKSPACE")]
    workspace: Option<String>,
    /// `open` (root, writable system) or `hardened`.
    #[arg(long, default_value = "hardened", value_parser = super::run::profile)]
    profile: Profile,
}

impl Arguments {
    async fn key(&self) -> anyhow::Result<String> {
        let key = match (&self.key, &self.key_file, std::env::var(OTHER_VARIABLE)) {
            (Some(key), _, _) => key.clone(),
            (None, Some(file), _) => tokio::fs::read_to_string(file)
                .await
                .with_context(|| format!("cannot read the key in {}", file.display()))?,
            (None, None, Ok(key)) => key,
            (None, None, Err(_)) => {
                bail!("a key is needed: set GLASSBOX_API_KEY, or name a file with it by --key-file")
            }
        };
        let key = key.trim();
        anyhow::ensure!(!key.is_empty(), "the key is empty");
        Ok(key.to_owned())
    }
}

/// Serves until stdin ends or a signal comes.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut signals = Signals::follow()?;
    let key = arguments.key().await?;
    let trusted = match &arguments.ca_file {
        Some(file) => trust::read(file).await?,
        None => Vec::new(),
    };
    let way = Way::new(&arguments.url, key, arguments.workspace.as_deref(), arguments.profile, trusted)?;
    let (lines, mut written) = mpsc::channel::<String>(LINES);
    let bridge =
        Bridge { way: Arc::new(way), lines, under_way: Arc::default(), room: Arc::new(Semaphore::new(REQUESTS)) };
    let way = Arc::clone(&bridge.way);
    // Ends when the bridge, which has the other end, is gone.
    let writing = async move {
        let mut out = tokio::io::stdout();
        while let Some(line) = written.recv().await {
            out.write_all(format!("{line}\n").as_bytes()).await?;
            out.flush().await?;
        }
        std::io::Result::Ok(())
    };
    let serving = async move { bridge.serve(BufReader::new(tokio::io::stdin())).await };
    let outcome = tokio::select! {
        outcome = async { tokio::try_join!(async { writing.await.context("stdout is closed") }, serving) } => outcome.map(drop),
        () = signals.any() => Ok(()),
    };
    // A server that is gone, or slow, ends the session by itself later.
    let _ = tokio::time::timeout(GOODBYE, way.leave()).await;
    outcome
}

/// Requests that have no answer yet, by their ids as JSON.
type UnderWay = Arc<Mutex<HashMap<String, AbortHandle>>>;

struct Bridge {
    way: Arc<Way>,
    lines: mpsc::Sender<String>,
    under_way: UnderWay,
    room: Arc<Semaphore>,
}

impl Bridge {
    /// Passes messages on until the client leaves; requests that have no answer then are given up.
    async fn serve(self, mut input: impl AsyncBufRead + Unpin) -> anyhow::Result<()> {
        let mut requests = JoinSet::new();
        while let Some(line) = next_line(&mut input).await? {
            while requests.try_join_next().is_some() {}
            let message = match line {
                Line::Message(message) => message,
                Line::Nothing => continue,
                Line::Wrong(why) => {
                    self.say(&failure(&Value::Null, -32700, why)).await;
                    continue;
                }
            };
            match (message.get("method").and_then(Value::as_str), message.get("id").cloned()) {
                // Everything else waits until the session is there.
                (Some("initialize"), Some(id)) => self.request(&message, &id).await,
                (Some(_), Some(id)) => {
                    let Ok(place) = Arc::clone(&self.room).acquire_owned().await else { break };
                    let (bridge, name) = (self.handle(), id.to_string());
                    let begun = Arc::clone(&self.under_way);
                    let mut under_way = lock(&begun);
                    let task = requests.spawn(async move {
                        bridge.request(&message, &id).await;
                        lock(&bridge.under_way).remove(&id.to_string());
                        drop(place);
                    });
                    under_way.insert(name, task);
                }
                (method, None) => {
                    // First here: what the server still says of it is for nobody.
                    if method == Some("notifications/cancelled") {
                        self.give_up(&message["params"]["requestId"]);
                    }
                    self.notify(&message).await;
                }
                // An answer to a request that this server never makes.
                (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    fn handle(&self) -> Bridge {
        let Self { way, lines, under_way, room } = self;
        Self { way: Arc::clone(way), lines: lines.clone(), under_way: Arc::clone(under_way), room: Arc::clone(room) }
    }

    /// Asks, and says whatever comes back.
    async fn request(&self, message: &Value, id: &Value) {
        if let Err(error) = self.way.ask(message, id, &self.lines).await {
            self.say(&failure(id, -32000, &format!("{error:#}"))).await;
        }
    }

    async fn notify(&self, message: &Value) {
        // Nobody waits for an answer to it.
        if let Err(error) = self.way.tell(message).await {
            tracing::debug!(%error, "a notification could not be passed on");
        }
    }

    /// Nobody wants the answer any more: whatever comes of it is not said, and the server sees that nobody waits.
    fn give_up(&self, id: &Value) {
        if let Some(request) = lock(&self.under_way).remove(&id.to_string()) {
            request.abort();
        }
    }

    async fn say(&self, message: &Value) {
        // A closed stdout ends everything elsewhere.
        let _ = self.lines.send(message.to_string()).await;
    }
}

fn lock(under_way: &UnderWay) -> std::sync::MutexGuard<'_, HashMap<String, AbortHandle>> {
    // The sections cannot panic half-way.
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer of our own.
fn failure(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[derive(Debug, PartialEq)]
enum Line {
    Message(Value),
    Nothing,
    Wrong(&'static str),
}

/// The next line; `None`: the client has left.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    if (&mut *input).take(MAX_LINE + 1).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.len() as u64 > MAX_LINE {
        // The rest of it goes, in pieces.
        while line.last() != Some(&b'\n') {
            line.clear();
            if (&mut *input).take(MAX_LINE).read_until(b'\n', &mut line).await? == 0 {
                break;
            }
        }
        return Ok(Some(Line::Wrong("the message is longer than 1 MiB")));
    }
    if line.trim_ascii().is_empty() {
        return Ok(Some(Line::Nothing));
    }
    Ok(Some(match serde_json::from_slice(&line) {
        Ok(message @ Value::Object(_)) => Line::Message(message),
        Ok(_) => Line::Wrong("a message is a JSON object"),
        Err(_) => Line::Wrong("this line is no JSON"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_a_message_and_one_that_is_none_does_not_end_the_rest() {
        let long = format!("{{\"x\": \"{}\"}}", "x".repeat(3 << 20));
        let text = format!("{{\"id\": 1}}\n\nnonsense\n[]\n{long}\n{{\"id\": 2}}");
        let mut input = BufReader::new(text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).await.expect("memory can be read") {
            lines.push(line);
        }
        assert_eq!(
            lines,
            [
                Line::Message(json!({"id": 1})),
                Line::Nothing,
                Line::Wrong("this line is no JSON"),
                Line::Wrong("a message is a JSON object"),
                Line::Wrong("the message is longer than 1 MiB"),
                Line::Message(json!({"id": 2})),
            ]
        );
    }
}
