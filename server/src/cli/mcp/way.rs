//! The way to the server: HTTP, the key, the MCP session.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use glassbox_shared::error::ErrorBody;
use glassbox_shared::session::Profile;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Response, StatusCode, Url, header};
use serde_json::Value;
use tokio::sync::mpsc;

use super::events::{Events, TooLong};
use super::trust;

/// Making a connection to a server nearby.
const CONNECT: Duration = Duration::from_secs(5);
/// Any answer: calls take at most 45 s.
const ANSWER: Duration = Duration::from_secs(90);
/// Beginning a lost session anew, with the waiting for others who do: then there is time to say so before clients give up,
/// which is after 60 s.
const ANEW: Duration = Duration::from_secs(30);
/// A server that has too much to do says when to come again. All waiting for that together, for one message: a call takes
/// up to 45 s more.
const PATIENCE: Duration = Duration::from_secs(10);
/// Shortest of these waits, whatever the server says.
const PAUSE: Duration = Duration::from_millis(500);
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
    address: Url,
    key: String,
    session: Mutex<Session>,
    /// Only one begins a session anew at a time; the others wait and use that one.
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
    /// To the server at `url`. By HTTPS, `trusted` are trusted beside those whom this machine trusts.
    pub(super) fn new(
        url: &str,
        key: String,
        workspace: Option<&str>,
        profile: Profile,
        trusted: Vec<Certificate>,
    ) -> anyhow::Result<Self> {
        let server = url.trim_end_matches('/').to_owned();
        let mut address = Url::parse(&format!("{server}/mcp")).with_context(|| format!("{url} is no address"))?;
        address.query_pairs_mut().append_pair("profile", profile.as_str());
        if let Some(workspace) = workspace {
            address.query_pairs_mut().append_pair("workspace", workspace);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .no_proxy()
            // The key would go wherever an answer points to.
            .redirect(Policy::none());
        let client = match address.scheme() {
            "http" => trust::trusting_nobody(client),
            "https" => trust::trusting(client, trusted),
            _ => bail!("{url} is no address of a server; it begins with https:// or http://"),
        };
        let http = client.build().context("the HTTP client could not be made")?;
        let (session, beginning) = (Mutex::default(), tokio::sync::Mutex::default());
        let server = told(address.clone());
        Ok(Self { http, server, address, key, session, beginning })
    }

    fn session(&self) -> Session {
        // The sections cannot panic half-way.
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Only a session that stands: until then the one before is what another attempt begins with.
    fn remember(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Asks for something; what the server says goes to `lines`, the answer last.
    pub(super) async fn ask(&self, message: &Value, id: &Value, lines: &mpsc::Sender<String>) -> anyhow::Result<()> {
        if message["method"] == "initialize" {
            let (answer, session) = self.initialize(message).await?;
            if let Some(session) = session {
                self.remember(session);
            }
            return said(lines, &answer).await;
        }
        let session = self.session();
        let mut answer = self.post(message, Some(&session)).await?;
        if answer.status() == StatusCode::NOT_FOUND
            && let Some(session) = self.another(&session).await?
        {
            answer = self.post(message, Some(&session)).await?;
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
        checked(self.post(message, Some(&self.session())).await?).await.map(drop)
    }

    /// Ends the session, if there is one.
    pub(super) async fn leave(&self) {
        let session = self.session();
        if let Some(id) = &session.id {
            let request = self.http.delete(self.address.clone()).header("x-api-key", &self.key).header(SESSION_ID, id);
            // It ends by itself otherwise.
            let _ = request.send().await;
        }
    }

    /// Asks for a session with this message: what the server said to it, and the session if that is one.
    async fn initialize(&self, message: &Value) -> anyhow::Result<(Value, Option<Session>)> {
        let answer = checked(self.post(message, None).await?).await?;
        let id = answer.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let said = Messages::of(answer).next().await?.context("the server said nothing")?;
        let version = said["result"]["protocolVersion"].as_str().map(str::to_owned);
        let session = version.map(|version| Session { id, version: Some(version), began_with: Some(message.clone()) });
        Ok((said, session))
    }

    /// The server does not know the session any more, because it was restarted for example: another one, that the client
    /// need not know of. `None`: there was none.
    async fn another(&self, lost: &Session) -> anyhow::Result<Option<Session>> {
        let Some(message) = &lost.began_with else { return Ok(None) };
        let began = tokio::time::timeout(ANEW, async {
            let _beginning = self.beginning.lock().await;
            let now = self.session();
            if now.id != lost.id {
                return Ok(now);
            }
            let (said, session) = self.initialize(message).await?;
            let session = session.with_context(|| {
                format!("the server refused: {}", said["error"]["message"].as_str().unwrap_or_default())
            })?;
            let begun = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            checked(self.post(&begun, Some(&session)).await?).await?;
            self.remember(session.clone());
            Ok(session)
        });
        let began = began.await.context("the server did not begin another session in time; try again in a moment")?;
        began.map(Some)
    }

    /// Says a message, in this session if it has one. A server that has too much to do did nothing with it: it is said
    /// again when the server wants to hear it.
    async fn post(&self, message: &Value, session: Option<&Session>) -> anyhow::Result<Response> {
        let mut left = PATIENCE;
        loop {
            let answer = self.post_once(message, session).await?;
            let wait = asked_to_wait(&answer).map(|wait| wait.max(PAUSE)).filter(|wait| *wait <= left);
            let Some(wait) = wait else { return Ok(answer) };
            left -= wait;
            drop(answer);
            tokio::time::sleep(wait).await;
        }
    }

    async fn post_once(&self, message: &Value, session: Option<&Session>) -> anyhow::Result<Response> {
        let mut request = self
            .http
            .post(self.address.clone())
            .header("x-api-key", &self.key)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .json(message);
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
        } else if let Some(session) = session {
            for (name, value) in [(SESSION_ID, &session.id), (VERSION, &session.version)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
        }
        let answer = request.send().await.map_err(|error| self.no_answer(error))?;
        self.moved(&answer).map_or(Ok(answer), Err)
    }

    fn no_answer(&self, error: reqwest::Error) -> anyhow::Error {
        let server = &self.server;
        match trust::advice(&error, &self.address) {
            Some(advice) => anyhow::anyhow!("the server at {server} cannot be used: {advice}"),
            None => anyhow::Error::new(error)
                .context(format!("the server at {server} did not answer; is `glassbox serve` running there?")),
        }
    }

    /// What an answer says that only points to another address, as what stands before a server does to send those who
    /// speak plain HTTP on to HTTPS.
    fn moved(&self, answer: &Response) -> Option<anyhow::Error> {
        let place = answer.headers().get(header::LOCATION).filter(|_| answer.status().is_redirection())?;
        let (server, place) = (&self.server, told(self.address.join(place.to_str().ok()?).ok()?));
        Some(anyhow::anyhow!(
            "the server at {server} points to {place}; if that is the right one, give its address instead"
        ))
    }
}

/// The server's address as it is told, to models too: without a password that stands in it.
fn told(mut address: Url) -> String {
    address.set_query(None);
    // Only an address without a host has no place for them.
    let _ = address.set_username("").and_then(|()| address.set_password(None));
    address.as_str().trim_end_matches("/mcp").to_owned()
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

/// How long a server that has too much to do wants to be left alone.
fn asked_to_wait(answer: &Response) -> Option<Duration> {
    let after =
        answer.headers().get(header::RETRY_AFTER).filter(|_| answer.status() == StatusCode::TOO_MANY_REQUESTS)?;
    Some(Duration::from_secs(after.to_str().ok()?.trim().parse().ok()?))
}

/// An error of the protocol itself.
fn in_protocol(body: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(body).ok().filter(|message| message["error"].is_object())
}

fn refused(status: StatusCode, body: &[u8]) -> anyhow::Error {
    // Whatever speaks TLS says so in its own words to those who do not.
    let speaks_tls = || String::from_utf8_lossy(body).to_ascii_lowercase().contains("https");
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) => anyhow::anyhow!("the server refused: {}", error.detail),
        Err(_) if status == StatusCode::BAD_REQUEST && speaks_tls() => {
            anyhow::anyhow!("the server speaks HTTPS there; begin its address with https://")
        }
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
