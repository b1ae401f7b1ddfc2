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
    address: String,
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
            let request = self.http.delete(&self.address).header("x-api-key", &self.key).header(SESSION_ID, id);
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
            .post(&self.address)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A server that says to attempts to begin a session what it was told to.
    #[derive(Default)]
    struct Fake {
        /// What comes of the next attempts; afterwards they succeed.
        refusals: Mutex<VecDeque<StatusCode>>,
        /// One that never gets an answer has come.
        hanging: tokio::sync::Notify,
        /// The session that it knows, by number; 0: none.
        session: Mutex<u64>,
        attempts: Mutex<u64>,
    }

    /// Stands for an attempt that never gets an answer.
    const HANGS: StatusCode = StatusCode::GATEWAY_TIMEOUT;

    impl Fake {
        async fn start() -> (Arc<Self>, Way) {
            let fake = Arc::new(Self::default());
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let url = format!("http://{}", listener.local_addr().expect("bound"));
            let serving = Arc::clone(&fake);
            // Ends with the test's runtime.
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&serving).serve(stream));
                }
            });
            (fake, Way::new(&url, "key".to_owned(), None, Profile::Open).expect("an address"))
        }

        /// One request, by hand.
        async fn serve(self: Arc<Self>, mut stream: TcpStream) {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8(head).expect("text");
            let named = |name: &str| {
                let fields = head.lines().filter_map(|line| line.split_once(": "));
                fields.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
            };
            let length = named("content-length").and_then(|length| length.parse().ok()).expect("a length");
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.expect("a body");
            let message = serde_json::from_slice(&body).expect("JSON");
            let (status, more, body) = self.answer(&message, named(SESSION_ID));
            if status == HANGS {
                self.hanging.notify_one();
                std::future::pending::<()>().await;
            }
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\n{more}content-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }

        /// Status, fields of the head, body.
        fn answer(&self, message: &Value, named: Option<&str>) -> (StatusCode, String, String) {
            let bare = |status| (status, String::new(), String::new());
            let id = &message["id"];
            if message["method"] != "initialize" {
                let Some(named) = named else { return bare(StatusCode::BAD_REQUEST) };
                let known = *self.session.lock().expect("no panic");
                if known == 0 || named != known.to_string() {
                    return bare(StatusCode::NOT_FOUND);
                }
                if id.is_null() {
                    return bare(StatusCode::ACCEPTED);
                }
                let said = json!({"jsonrpc": "2.0", "id": id, "result": known});
                return (StatusCode::OK, String::new(), said.to_string());
            }
            assert!(named.is_none(), "a new session is asked for in none");
            let mut attempts = self.attempts.lock().expect("no panic");
            *attempts += 1;
            if let Some(status) = self.refusals.lock().expect("no panic").pop_front() {
                return (status, "retry-after: 0\r\n".to_owned(), String::new());
            }
            *self.session.lock().expect("no panic") = *attempts;
            let said = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18"}});
            (StatusCode::OK, format!("{SESSION_ID}: {attempts}\r\n"), said.to_string())
        }

        fn refuse(&self, refusals: &[StatusCode]) {
            self.refusals.lock().expect("no panic").extend(refusals);
        }

        /// As a restart does.
        fn forget(&self) {
            *self.session.lock().expect("no panic") = 0;
        }

        fn attempts(&self) -> u64 {
            *self.attempts.lock().expect("no panic")
        }
    }

    async fn ask(way: &Way, method: &str) -> anyhow::Result<Value> {
        let (lines, mut said) = mpsc::channel(8);
        let id = json!(1);
        way.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method}), &id, &lines).await?;
        Ok(serde_json::from_str(&said.recv().await.expect("an answer")).expect("JSON"))
    }

    #[tokio::test]
    async fn an_attempt_to_begin_anew_that_fails_is_not_the_last_one() {
        let (fake, way) = Fake::start().await;
        ask(&way, "initialize").await.expect("a session");
        assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 1);
        fake.forget();
        fake.refuse(&[StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED]);
        for status in ["503", "401"] {
            let why = ask(&way, "tools/list").await.expect_err("refused").to_string();
            assert!(why.contains(status), "{why}");
        }
        assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 4);
        assert_eq!(fake.attempts(), 4);
    }

    #[tokio::test]
    async fn an_attempt_to_begin_anew_that_is_cancelled_is_not_the_last_one() {
        let (fake, way) = Fake::start().await;
        ask(&way, "initialize").await.expect("a session");
        fake.forget();
        fake.refuse(&[HANGS]);
        tokio::select! {
            answer = ask(&way, "tools/list") => panic!("{answer:?}"),
            () = fake.hanging.notified() => {}
        }
        assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 3);
    }

    #[tokio::test]
    async fn a_clients_own_attempt_that_fails_leaves_it_the_session_that_it_had() {
        let (fake, way) = Fake::start().await;
        ask(&way, "initialize").await.expect("a session");
        fake.refuse(&[StatusCode::SERVICE_UNAVAILABLE]);
        ask(&way, "initialize").await.expect_err("refused");
        assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 1);
    }

    #[tokio::test]
    async fn a_server_with_too_much_to_do_is_asked_again() {
        let (fake, way) = Fake::start().await;
        fake.refuse(&[StatusCode::TOO_MANY_REQUESTS]);
        ask(&way, "initialize").await.expect("a session");
        assert_eq!(fake.attempts(), 2);
    }

    #[tokio::test]
    async fn calls_at_once_begin_one_session_anew() {
        let (fake, way) = Fake::start().await;
        ask(&way, "initialize").await.expect("a session");
        fake.forget();
        let call = || ask(&way, "tools/list");
        let (one, two, three) = tokio::join!(call(), call(), call());
        for answer in [one, two, three] {
            assert_eq!(answer.expect("an answer")["result"], 2);
        }
        assert_eq!(fake.attempts(), 2);
    }
}
