//! The way to the server: HTTP, the key, the MCP session.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use glassbox_shared::error::ErrorBody;
use glassbox_shared::session::Profile;
use reqwest::{Response, StatusCode, header};
use serde_json::Value;
use tokio::sync::mpsc;

use super::events::{Events, TooLong};

/// Making a connection to a server nearby.
const CONNECT: Duration = Duration::from_secs(5);
/// Any answer: calls take at most 45 s.
const ANSWER: Duration = Duration::from_secs(90);
/// Most bytes of an answer that is no stream.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
const SESSION_ID: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// Where a message of a version without sessions says which one.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// To one server, with one key.
pub(super) struct Way {
    http: reqwest::Client,
    server: String,
    address: String,
    key: String,
    session: Mutex<Session>,
    /// Only one begins a session anew at a time.
    beginning: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
    /// The message that began it.
    began_with: Option<Value>,
}

impl Way {
    pub(super) fn new(url: &str, key: String, workspace: Option<&str>, profile: Profile) -> anyhow::Result<Self> {
        let server = url.trim_end_matches('/').to_owned();
        let mut address =
            reqwest::Url::parse(&format!("{server}/mcp")).with_context(|| format!("{url} is no address"))?;
        if address.scheme() != "http" {
            bail!(
                "this command speaks to http:// addresses only; for HTTPS give the client the address of /mcp itself, or go through a local proxy"
            );
        }
        address.query_pairs_mut().append_pair("profile", profile.as_str());
        if let Some(workspace) = workspace {
            address.query_pairs_mut().append_pair("workspace", workspace);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .no_proxy()
            .build()
            .context("the HTTP client could not be made")?;
        let (session, beginning) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { http, server, address: address.into(), key, session, beginning })
    }

    fn session(&self) -> Session {
        // The sections cannot panic half-way.
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Asks for something; what the server says goes to `lines`, the answer last.
    pub(super) async fn ask(&self, message: &Value, id: &Value, lines: &mpsc::Sender<String>) -> anyhow::Result<()> {
        if message["method"] == "initialize" {
            let answer = self.initialize(message).await?;
            return said(lines, &answer).await;
        }
        let mut answer = self.post(message).await?;
        if answer.status() == StatusCode::NOT_FOUND && self.begin_anew().await? {
            answer = self.post(message).await?;
        }
        let status = answer.status();
        if !status.is_success() {
            let body = whole(answer).await?;
            // Clients look at the protocol's own codes, for instance to find out which version is spoken.
            return match in_protocol(&body) {
                Some(mut refusal) => {
                    refusal["id"] = id.clone();
                    said(lines, &refusal).await
                }
                None => Err(refused(status, &body)),
            };
        }
        let mut messages = Messages::of(answer);
        while let Some(message) = messages.next().await? {
            said(lines, &message).await?;
            if message.get("method").is_none() && message.get("id") == Some(id) {
                return Ok(());
            }
        }
        bail!("the server ended without an answer; it may be stopping, then try again in a moment")
    }

    /// Says something that has no answer.
    pub(super) async fn tell(&self, message: &Value) -> anyhow::Result<()> {
        checked(self.post(message).await?).await.map(drop)
    }

    /// Ends the session, if there is one.
    pub(super) async fn leave(&self) {
        let session = self.session();
        if let Some(id) = &session.id {
            let request = self.http.delete(&self.address).header("x-api-key", &self.key).header(SESSION_ID, id);
            // It ends by itself otherwise.
            let _ = request.send().await;
        }
    }

    /// Begins a session with this message, and answers what the server said to it.
    async fn initialize(&self, message: &Value) -> anyhow::Result<Value> {
        self.remember(Session::default());
        let answer = checked(self.post(message).await?).await?;
        let id = answer.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let said = Messages::of(answer).next().await?.context("the server said nothing")?;
        let version = said["result"]["protocolVersion"].as_str().map(str::to_owned);
        if version.is_some() {
            self.remember(Session { id, version, began_with: Some(message.clone()) });
        }
        Ok(said)
    }

    /// The server does not know the session any more, because it was restarted for example: begins another one that the
    /// client need not know of. `false`: there was none.
    async fn begin_anew(&self) -> anyhow::Result<bool> {
        let lost = self.session();
        let _beginning = self.beginning.lock().await;
        let Some(message) = lost.began_with else { return Ok(false) };
        if self.session().id == lost.id {
            self.initialize(&message).await?;
            self.tell(&serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        }
        Ok(true)
    }

    async fn post(&self, message: &Value) -> anyhow::Result<Response> {
        let mut request = self
            .http
            .post(&self.address)
            .header("x-api-key", &self.key)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .json(message);
        let session = self.session();
        let own_version = message["params"]["_meta"][VERSION_IN_META].as_str();
        if let Some(version) = own_version {
            // Without sessions, the head says what the message says.
            request = request.header(VERSION, version);
            if let Some(method) = message["method"].as_str() {
                request = request.header("mcp-method", method);
            }
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        } else {
            for (name, value) in [(SESSION_ID, session.id), (VERSION, session.version)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
        }
        let server = &self.server;
        request
            .send()
            .await
            .with_context(|| format!("the server at {server} did not answer; is `glassbox serve` running there?"))
    }
}

async fn said(lines: &mpsc::Sender<String>, message: &Value) -> anyhow::Result<()> {
    lines.send(message.to_string()).await.context("stdout is closed")
}

/// Refusals become errors with what the server says of them.
async fn checked(answer: Response) -> anyhow::Result<Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body = whole(answer).await?;
    Err(match in_protocol(&body) {
        Some(refusal) => {
            anyhow::anyhow!("the server refused: {}", refusal["error"]["message"].as_str().unwrap_or_default())
        }
        None => refused(status, &body),
    })
}

/// An error of the protocol itself.
fn in_protocol(body: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(body).ok().filter(|message| message["error"].is_object())
}

fn refused(status: StatusCode, body: &[u8]) -> anyhow::Error {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) => anyhow::anyhow!("the server refused: {}", error.detail),
        Err(_) => anyhow::anyhow!("the server refused with status {status}"),
    }
}

/// A body of bounded length.
async fn whole(answer: Response) -> anyhow::Result<Vec<u8>> {
    all(&mut answer.bytes_stream().boxed()).await
}

async fn all(pieces: &mut Pieces) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.context("the answer broke off")?);
        anyhow::ensure!(body.len() <= MAX_ANSWER, "the answer is too long");
    }
    Ok(body)
}

/// The messages of an answer, whichever form it has.
struct Messages {
    pieces: Pieces,
    is_stream: bool,
    events: Events,
    /// Not given out yet.
    waiting: VecDeque<Vec<u8>>,
}

type Pieces = BoxStream<'static, reqwest::Result<Bytes>>;

impl Messages {
    fn of(answer: Response) -> Self {
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        let pieces = answer.bytes_stream().boxed();
        Self { pieces, is_stream, events: Events::default(), waiting: VecDeque::new() }
    }

    /// The next one; `None`: that was all.
    async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        if !self.is_stream {
            let body = all(&mut self.pieces).await?;
            let message = || serde_json::from_slice(&body).context("the answer is no JSON");
            return (!body.is_empty()).then(message).transpose();
        }
        loop {
            if let Some(data) = self.waiting.pop_front() {
                return serde_json::from_slice(&data).context("the answer is no JSON").map(Some);
            }
            let Some(piece) = self.pieces.next().await else { return Ok(None) };
            let piece = piece.context("the answer broke off")?;
            self.waiting.extend(self.events.take(&piece).map_err(|TooLong| anyhow::anyhow!("the answer is too long"))?);
        }
    }
}
