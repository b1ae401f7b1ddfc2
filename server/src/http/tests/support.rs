//! A whole interface for tests, with a small client and a viewer that speaks WebSocket by hand (so that it can be as
//! slow and as rude as a test needs). Commands are scripts of the fake engine.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, request};
use axum::response::Response;
use bytes::Bytes;
use glassbox_shared::actor::Role;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::{Event, FromServer, FromViewer, Output};
use glassbox_shared::session::DeathCause;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::domain::{self, Domain};
use crate::http::{App, AppState, HttpSettings, router_of, serve_http};
use crate::session::Session;
use crate::store::Store;
use crate::tools::Reader;

pub(super) struct TestApp {
    pub agent: String,
    pub viewer: String,
    pub shutdown: CancellationToken,
    operator: String,
    domain: Domain,
    state: AppState,
    app: Arc<App>,
    router: Router,
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
}

impl TestApp {
    pub(super) async fn start() -> Self {
        Self::with_rate(10_000).await
    }

    pub(super) async fn with_rate(requests_per_minute: u32) -> Self {
        let shutdown = CancellationToken::new();
        let domain = domain::start(shutdown.clone()).await;
        let settings = HttpSettings {
            public_urls: Vec::new(),
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a network")],
            tls: None,
            max_connections: 400,
            requests_per_minute,
            page_requests_per_minute: 10_000,
        };
        let state = AppState {
            sessions: domain.sessions.clone(),
            tools: domain.tools.clone(),
            history: domain.history.clone(),
            access: domain.access.clone(),
            feed: domain.feed.clone(),
            settings: Arc::new(settings),
            shutdown: shutdown.clone(),
            epoch: "epoch".to_owned(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let serving = serve_http(listener, state.clone(), shutdown.clone());
        let server = tokio::spawn(async move { serving.await.expect("serves") });
        let app = Arc::new(App::new(state.clone()));
        Self {
            agent: domain.key(Role::Agent).await,
            viewer: domain.key(Role::Viewer).await,
            operator: domain.key(Role::Operator).await,
            shutdown,
            router: router_of(Arc::clone(&app)),
            app,
            state,
            domain,
            address,
            server: Some(server),
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> Asking {
        let request = Request::builder().method(method).uri(path).header("host", "localhost:7070");
        Asking { router: self.router.clone(), request, body: Body::empty() }
    }

    /// One more agent's key, of any tenant.
    pub(super) async fn another_key(&self, tenant: &str) -> String {
        self.state.access.create_key(tenant, "another", Role::Agent).await.expect("a key").1
    }

    pub(super) fn get(&self, path: &str) -> Asking {
        self.request(Method::GET, path)
    }

    /// A command in a session of its own.
    pub(super) async fn run(&self, script: &str) -> Running {
        let body = serde_json::json!({"profile": "open"});
        let session = self.request(Method::POST, "/v1/sessions").key(&self.agent).json(&body).send().await;
        assert_eq!(session.status, StatusCode::CREATED, "{session:?}");
        let session = session.json()["session_id"].as_str().expect("an id").to_owned();
        let body = serde_json::json!({"command": script});
        let command = self
            .request(Method::POST, &format!("/v1/sessions/{session}/commands"))
            .key(&self.agent)
            .json(&body)
            .send()
            .await;
        assert_eq!(command.status, StatusCode::CREATED, "{command:?}");
        let command = command.json()["command_id"].as_str().expect("an id").to_owned();
        Running { session: session.parse().expect("an id"), command: command.parse().expect("an id") }
    }

    /// Waits until the command wrote so many bytes.
    pub(super) async fn written(&self, running: &Running, bytes: u64) {
        // A range that begins one byte before is there when that byte is.
        let path = format!("{}/output?wait=30&limit=1&from={}", running.path(), bytes - 1);
        loop {
            let answer = self.get(&path).key(&self.agent).send().await;
            if answer.status == StatusCode::OK && !answer.body.is_empty() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Kills the command; its output is closed then.
    pub(super) async fn kill(&self, running: &Running) {
        let answer = self.request(Method::POST, &format!("{}/kill", running.path())).key(&self.agent).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    }

    /// Signs a human in; the cookie as a browser would send it.
    pub(super) async fn sign_in(&self) -> String {
        let body = serde_json::json!({"key": self.operator, "name": "Ann"});
        let answer = self.request(Method::POST, "/v1/sign-in").json(&body).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let cookie = answer.header("set-cookie");
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().expect("a first part").to_owned()
    }

    pub(super) fn publish_progress(&self, running: &Running, output_bytes: u64) {
        let (session_id, command_id) = (running.session.clone(), running.command.clone());
        let event =
            Event::Progress { session_id, command_id, output_bytes, last_output_at: 0.0, last_line: String::new() };
        self.state.feed.publish("acme", event);
    }

    /// File services that were started.
    pub(super) fn file_services(&self) -> usize {
        self.domain.engine.file_services()
    }

    /// The newest sandbox runs out of memory and dies; its session makes it again.
    pub(super) fn kill_newest_sandbox(&self) {
        let container = self.domain.engine.containers().pop().expect("a sandbox");
        self.domain.engine.kill_container(&container, DeathCause::Oom);
    }

    pub(super) async fn revoke_agent_key(&self) {
        self.domain.revoke(&self.agent).await;
    }

    /// Waits until the server has ended.
    pub(super) async fn served(&mut self) {
        self.server.take().expect("waited for once").await.expect("no panic");
    }

    /// Waits until nobody answers MCP clients any more; after a stop.
    pub(super) async fn handled(&self) {
        self.app.tasks.close();
        self.app.tasks.wait().await;
    }

    /// Where what models are told is written down.
    pub(super) fn store(&self) -> &Store {
        &self.domain.store
    }

    /// A session; whoever has it can use it also after a stop.
    pub(super) fn session(&self, id: &str) -> Session {
        self.domain.sessions.get("acme", &id.parse().expect("an id")).expect("the session")
    }

    /// What a reader of the agent's key is told by `shell_list`, also after a stop.
    pub(super) async fn list(&self, session: &Session, reader: &str) -> String {
        let who = self.domain.agent(&self.agent);
        let reader = Reader::new(&who, Some(reader)).expect("a reader");
        self.domain.tools.dispatch(&who, session, &reader, "shell_list", &serde_json::json!({})).await.text
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    /// Asks for a live socket; `Err`: the answer's status.
    pub(super) async fn handshake(&self, headers: &[(&str, &str)]) -> Result<Viewer, StatusCode> {
        let mut stream = self.connect().await;
        let mut head = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            self.address
        );
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        let status =
            String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        if status == StatusCode::SWITCHING_PROTOCOLS { Ok(Viewer { stream }) } else { Err(status) }
    }

    /// A live socket of the agent's key.
    pub(super) async fn viewer_socket(&self) -> Viewer {
        let headers = [("x-api-key", self.agent.as_str()), ("sec-websocket-protocol", "glassbox.v1")];
        self.handshake(&headers).await.expect("let in")
    }
}

/// A command.
pub(super) struct Running {
    pub session: SessionId,
    pub command: CommandId,
}

impl Running {
    pub(super) fn path(&self) -> String {
        format!("/v1/sessions/{}/commands/{}", self.session, self.command)
    }
}

/// A request in the making.
pub(super) struct Asking {
    router: Router,
    request: request::Builder,
    body: Body,
}

impl Asking {
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value.as_bytes());
        self
    }

    pub(super) fn key(self, key: &str) -> Self {
        self.header("x-api-key", key)
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        self.body = Body::from(body.to_owned());
        self
    }

    pub(super) fn json(self, body: &impl Serialize) -> Self {
        let text = serde_json::to_string(body).expect("plain data");
        self.header("content-type", "application/json").body(&text)
    }

    /// Sends it and waits for the head of the answer.
    pub(super) fn begin(self) -> impl Future<Output = Response> + Send + 'static {
        let request = self.request.body(self.body).expect("a request");
        async move { self.router.oneshot(request).await.expect("routers do not fail") }
    }

    pub(super) fn send(self) -> impl Future<Output = Answer> + Send + 'static {
        let begun = self.begin();
        async move {
            let (parts, body) = begun.await.into_parts();
            let body = to_bytes(body, usize::MAX).await.expect("the whole body");
            Answer { status: parts.status, headers: parts.headers, body }
        }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// What a viewer hears.
#[derive(Debug)]
pub(super) enum Heard {
    Said(FromServer),
    Output { stream: u32, offset: u64, bytes: Vec<u8> },
    Closed(u16),
}

/// The other end of a live socket.
pub(super) struct Viewer {
    stream: TcpStream,
}

impl Viewer {
    pub(super) async fn say(&mut self, message: &FromViewer) {
        self.say_text(&serde_json::to_string(message).expect("plain data")).await;
    }

    pub(super) async fn say_text(&mut self, text: &str) {
        assert!(text.len() < 1 << 16);
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(length) if length < 126 => frame.push(0x80 | length),
            _ => {
                frame.push(0xfe);
                frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
            }
        }
        // Masked with zeros, which is allowed and changes nothing.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.stream.write_all(&frame).await.expect("sent");
    }

    pub(super) async fn hear(&mut self) -> Heard {
        let kind = self.stream.read_u8().await.expect("a frame") & 0x0f;
        let length = match self.stream.read_u8().await.expect("a length") {
            126 => u64::from(self.stream.read_u16().await.expect("a length")),
            127 => self.stream.read_u64().await.expect("a length"),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("fits")];
        self.stream.read_exact(&mut payload).await.expect("a payload");
        match kind {
            1 => Heard::Said(serde_json::from_slice(&payload).expect("the protocol")),
            2 => {
                let Output { stream, offset, bytes } = Output::decode(&payload).expect("the protocol");
                Heard::Output { stream, offset, bytes: bytes.to_vec() }
            }
            8 => Heard::Closed(u16::from_be_bytes([payload[0], payload[1]])),
            other => panic!("a frame of kind {other}"),
        }
    }

    /// Takes bytes, whatever they are; `false`: the connection has ended.
    pub(super) async fn pass_over(&mut self, bytes: usize) -> bool {
        self.stream.read_exact(&mut vec![0; bytes]).await.is_ok()
    }

    /// The next JSON message; output is passed over.
    pub(super) async fn said(&mut self) -> FromServer {
        loop {
            match self.hear().await {
                Heard::Said(said) => return said,
                Heard::Output { .. } => {}
                Heard::Closed(code) => panic!("closed: {code}"),
            }
        }
    }

    /// The code with which the server closes.
    pub(super) async fn closed(&mut self) -> u16 {
        loop {
            if let Heard::Closed(code) = self.hear().await {
                return code;
            }
        }
    }
}
