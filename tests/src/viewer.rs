//! The live socket, spoken as a browser's tab speaks it. Every offset and sequence is checked as it comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use glassbox_shared::live::{
    Event, FromServer, FromViewer, HEARTBEAT_SECONDS, OUTPUT_HEADER, Output, SUBPROTOCOL, WatchFrom,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::client::Client;
use crate::command::Command;
use crate::stream::{Keep, Stream};

/// For the upgrade, and for the first message.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Receive buffer of a slow reader, so that the line is slow and not only the program.
const SLOW_BUFFER: u32 = 16 * 1024;

/// How a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// By the server, with this code.
    Code(u16),
    /// Without a word.
    Broken,
}

/// Everything that was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// Names the server process.
    pub epoch: String,
    /// The newest event when the socket was opened.
    pub began_at: u64,
    /// Events, by sequence.
    pub events: Vec<(u64, Event)>,
    /// Times that the lists had to be loaded again.
    pub reloads: Vec<u64>,
    /// Heartbeats.
    pub heartbeats: u64,
    /// What was said last of the engine.
    pub engine_trouble: Option<glassbox_shared::live::EngineTrouble>,
    /// Streams by id.
    pub streams: BTreeMap<u32, Stream>,
    /// The end of the connection.
    pub closed: Option<Closed>,
    /// Streams whose bytes are taken and not acknowledged.
    pub silent: BTreeSet<u32>,
    /// A rule of the protocol that was broken.
    pub problem: Option<String>,
}

/// Refused instead of upgraded.
#[derive(Debug, Clone)]
pub struct NotUpgraded {
    /// Status.
    pub status: u16,
    /// Body.
    pub body: String,
}

/// One open socket. Dropping it breaks the line.
#[derive(Debug)]
pub struct Viewer {
    heard: Arc<Mutex<Heard>>,
    changed: watch::Receiver<u64>,
    say: mpsc::UnboundedSender<Message>,
    pace: watch::Sender<Option<u64>>,
    next_stream: u32,
    _tasks: JoinSet<()>,
}

impl Viewer {
    /// Opens the socket with a client's key.
    pub async fn connect(client: &Client) -> Self {
        let key = client.key().unwrap_or_default().to_owned();
        Self::try_connect(client.base(), &[("x-api-key", &key)], None).await.expect("the socket opens")
    }

    /// Opens the socket of someone who takes this many bytes a second, over a line with a small buffer.
    pub async fn connect_slow(client: &Client, bytes_per_second: u64) -> Self {
        let key = client.key().unwrap_or_default().to_owned();
        Self::try_connect(client.base(), &[("x-api-key", &key)], Some(bytes_per_second))
            .await
            .expect("the socket opens")
    }

    /// Opens the socket with these headers beside the usual ones, or says why not.
    pub async fn try_connect(base: &str, headers: &[(&str, &str)], pace: Option<u64>) -> Result<Self, NotUpgraded> {
        let authority = base.trim_start_matches("http://");
        let mut request = format!("ws://{authority}/v1/ws").into_client_request().expect("an address");
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header's name");
            request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a header's value"));
        }
        let socket = TcpSocket::new_v4().expect("a socket can be had");
        if pace.is_some() {
            socket.set_recv_buffer_size(SLOW_BUFFER).expect("a buffer's size can be set");
        }
        let line =
            socket.connect(authority.parse().expect("host and port")).await.expect("the server takes connections");
        let upgraded =
            tokio::time::timeout(CONNECT_LIMIT, client_async(request, line)).await.expect("an answer to the upgrade");
        match upgraded {
            Ok((socket, response)) => {
                let chosen = response.headers().get("sec-websocket-protocol").and_then(|value| value.to_str().ok());
                assert_eq!(chosen, Some(SUBPROTOCOL), "the server names the subprotocol");
                let mut viewer = Self::begin(socket);
                viewer
                    .until("the server says hello", CONNECT_LIMIT, |heard| {
                        (!heard.epoch.is_empty() || heard.closed.is_some()).then_some(())
                    })
                    .await;
                viewer.set_pace(pace);
                Ok(viewer)
            }
            Err(Error::Http(response)) => {
                let body = response
                    .body()
                    .as_deref()
                    .map(|body| String::from_utf8_lossy(body).into_owned())
                    .unwrap_or_default();
                Err(NotUpgraded { status: response.status().as_u16(), body })
            }
            Err(error) => panic!("the upgrade failed: {error}"),
        }
    }

    fn begin(socket: WebSocketStream<TcpStream>) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (change, changed) = watch::channel(0);
        let (say, mut to_say) = mpsc::unbounded_channel::<Message>();
        let (pace, mut pacing) = watch::channel(None::<u64>);
        let (mut sink, mut source) = socket.split();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut heartbeat = tokio::time::interval(Duration::from_secs(HEARTBEAT_SECONDS));
            loop {
                let message = tokio::select! {
                    message = to_say.recv() => message,
                    _ = heartbeat.tick() => Some(text(&FromViewer::Heartbeat)),
                };
                let Some(message) = message else { break };
                if sink.send(message).await.is_err() {
                    break;
                }
            }
        });
        let (hearing, acks) = (heard.clone(), say.clone());
        tasks.spawn(async move {
            loop {
                let message = source.next().await;
                let size = message.as_ref().and_then(|message| message.as_ref().ok()).map_or(0, Message::len);
                pause(&mut pacing, size as u64).await;
                let ack = lock(&hearing).hear(message);
                if let Some(ack) = ack {
                    // The line may have broken; reading finds out.
                    let _ = acks.send(text(&ack));
                }
                change.send_modify(|count| *count += 1);
                if lock(&hearing).closed.is_some() {
                    break;
                }
            }
        });
        Self { heard, changed, say, pace, next_stream: 1, _tasks: tasks }
    }

    /// From now on this many bytes a second are taken; `None`: as they come.
    pub fn set_pace(&self, bytes_per_second: Option<u64>) {
        self.pace.send_replace(bytes_per_second);
    }

    /// Says something.
    pub fn say(&self, message: &FromViewer) {
        self.say_raw(text(message));
    }

    /// Says something that need not be of the protocol.
    pub fn say_raw(&self, message: Message) {
        // The line may have broken; reading finds out.
        let _ = self.say.send(message);
    }

    /// Opens a stream; its id.
    pub fn watch(&mut self, command: &Command, from: WatchFrom) -> u32 {
        self.watch_with(command, from, Keep::All)
    }

    /// Opens a stream of which the bytes are not kept.
    pub fn watch_with(&mut self, command: &Command, from: WatchFrom, keep: Keep) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 1;
        lock(&self.heard).streams.insert(stream, Stream::new(keep));
        let (session_id, command_id) = (command.session_id().clone(), command.id().clone());
        self.say(&FromViewer::Watch { stream, session_id, command_id, from });
        stream
    }

    /// From now on nothing of this stream is acknowledged, or everything again.
    pub fn acknowledge(&self, stream: u32, acknowledge: bool) {
        let mut heard = lock(&self.heard);
        if !acknowledge {
            heard.silent.insert(stream);
        } else if heard.silent.remove(&stream) {
            let offset = heard.streams.get(&stream).map_or(0, |stream| stream.cursor.offset);
            self.say(&FromViewer::Ack { stream, offset });
        }
    }

    /// Waits until something is true of what was heard.
    pub async fn until<T>(&mut self, what: &str, limit: Duration, mut look: impl FnMut(&Heard) -> Option<T>) -> T {
        let waited = tokio::time::timeout(limit, async {
            loop {
                self.changed.borrow_and_update();
                {
                    let heard = lock(&self.heard);
                    if let Some(problem) = &heard.problem {
                        panic!("the server broke the protocol: {problem}");
                    }
                    if let Some(found) = look(&heard) {
                        return found;
                    }
                    assert!(heard.closed.is_none(), "the connection ended ({:?}) before: {what}", heard.closed);
                }
                assert!(self.changed.changed().await.is_ok(), "the reader ended before: {what}");
            }
        });
        let Ok(found) = waited.await else {
            panic!("not within {limit:?}: {what}. Streams: {:?}", self.summary());
        };
        found
    }

    /// Waits for the end of the connection, whatever was heard before.
    pub async fn until_closed(&mut self, limit: Duration) -> Closed {
        let closed = async {
            loop {
                self.changed.borrow_and_update();
                if let Some(closed) = self.now(|heard| heard.closed) {
                    return closed;
                }
                if self.changed.changed().await.is_err() {
                    return Closed::Broken;
                }
            }
        };
        tokio::time::timeout(limit, closed).await.expect("the connection ends in time")
    }

    /// Waits for a stream's end, or its refusal; all that was seen of it.
    pub async fn read_to_end(&mut self, stream: u32, limit: Duration) -> Stream {
        self.until("the stream ends", limit, |heard| {
            heard.streams.get(&stream).filter(|stream| stream.is_over()).cloned()
        })
        .await
    }

    /// What is true of what was heard so far.
    pub fn now<T>(&self, look: impl FnOnce(&Heard) -> T) -> T {
        look(&lock(&self.heard))
    }

    fn summary(&self) -> Vec<(u32, Option<u64>, u64, usize)> {
        self.now(|heard| heard.streams.iter().map(|(id, s)| (*id, s.began, s.cursor.offset, s.gaps.len())).collect())
    }
}

/// A slow reader's rest after so many bytes; ends early when the pace is changed.
async fn pause(pacing: &mut watch::Receiver<Option<u64>>, bytes: u64) {
    let pace = *pacing.borrow_and_update();
    if let Some(per_second) = pace {
        let rest = Duration::from_millis(bytes * 1000 / per_second.max(1));
        // Both outcomes mean: go on.
        let _ = tokio::time::timeout(rest, pacing.changed()).await;
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(message: &FromViewer) -> Message {
    Message::text(serde_json::to_string(message).expect("plain data"))
}

impl Heard {
    /// Takes a message in; what is to be acknowledged.
    fn hear(&mut self, message: Option<Result<Message, Error>>) -> Option<FromViewer> {
        let result = match message {
            Some(Ok(Message::Text(said))) => self.hear_text(said.as_str()).map(|()| None),
            Some(Ok(Message::Binary(bytes))) => self.hear_output(&bytes),
            Some(Ok(Message::Close(frame))) => {
                self.closed = Some(frame.map_or(Closed::Broken, |frame| Closed::Code(frame.code.into())));
                Ok(None)
            }
            Some(Ok(_)) => Ok(None),
            Some(Err(_)) | None => {
                self.closed.get_or_insert(Closed::Broken);
                Ok(None)
            }
        };
        result.unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            None
        })
    }

    fn hear_output(&mut self, message: &[u8]) -> Result<Option<FromViewer>, String> {
        let output = Output::decode(message).ok_or("a binary message that is none")?;
        if output.bytes.len() > glassbox_shared::live::MAX_OUTPUT_MESSAGE || message.len() == OUTPUT_HEADER {
            return Err(format!("a binary message of {} bytes", message.len()));
        }
        let stream = self.streams.get_mut(&output.stream).ok_or("output of a stream that nobody asked for")?;
        stream.take(output.offset, output.bytes).map_err(|problem| format!("stream {}: {problem}", output.stream))?;
        let ack = FromViewer::Ack { stream: output.stream, offset: stream.cursor.offset };
        Ok((!self.silent.contains(&output.stream)).then_some(ack))
    }

    fn hear_text(&mut self, said: &str) -> Result<(), String> {
        let said: FromServer = serde_json::from_str(said).map_err(|error| format!("{said:?}: {error}"))?;
        if self.epoch.is_empty() != matches!(said, FromServer::Hello { .. }) {
            return Err(format!("hello comes first and once, not {said:?}"));
        }
        match &said {
            FromServer::Hello { epoch, sequence, .. } => {
                self.epoch.clone_from(epoch);
                self.began_at = *sequence;
                if epoch.is_empty() { Err("an epoch without a name".to_owned()) } else { Ok(()) }
            }
            FromServer::Event { sequence, event } => {
                let newest = self.newest();
                self.events.push((*sequence, event.clone()));
                // A newer view may take the place of an older one that was not sent yet, so numbers may be left out; none
                // may come twice or late.
                if *sequence > newest { Ok(()) } else { Err(format!("event {sequence} after {newest}")) }
            }
            FromServer::Reload { sequence } => {
                self.reloads.push(*sequence);
                Ok(())
            }
            FromServer::Engine { trouble } => {
                if trouble.is_none() && self.engine_trouble.is_none() {
                    return Err("the engine answers again, and never did not".to_owned());
                }
                self.engine_trouble.clone_from(trouble);
                Ok(())
            }
            FromServer::Heartbeat { .. } => {
                self.heartbeats += 1;
                Ok(())
            }
            FromServer::Watching { stream, .. }
            | FromServer::Gap { stream, .. }
            | FromServer::StreamEnd { stream, .. }
            | FromServer::StreamError { stream, .. } => {
                let known = self.streams.get_mut(stream).ok_or(format!("stream {stream} was never asked for"))?;
                known.hear(&said).map_err(|problem| format!("stream {stream}: {problem}"))
            }
        }
    }

    /// The newest event that is known.
    pub fn newest(&self) -> u64 {
        let event = self.events.last().map_or(self.began_at, |(sequence, _)| *sequence);
        event.max(self.reloads.last().copied().unwrap_or(0))
    }
}
