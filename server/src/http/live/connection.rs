//! The task that owns one live socket.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::{Sink as _, Stream as _, StreamExt as _};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{
    FromServer, FromViewer, GapReason, HEARTBEAT_SECONDS, MAX_STREAMS, Output, WatchFrom, close,
};
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::outbox::Outbox;
use super::stream::{Next, Stream};
use crate::clock;
use crate::command::log::{Log, LogError};
use crate::error::DomainError;
use crate::feed::Published;
use crate::http::App;
use crate::http::error::from_log;
use crate::http::principal::Caller;
use crate::http::serve::BytesTaken;

/// A viewer is dead when it has something to take, and for this long the kernel took no byte for it and nothing was
/// heard. Slow is not dead: on loopback a viewer that reads 1 kB/s opens its window by 64 kB at a time, once a minute.
const STALLED: Duration = Duration::from_secs(150);
/// A viewer that does not even answer heartbeats for this long is gone, although the kernel still takes bytes for it.
const SILENT: Duration = Duration::from_mins(5);
/// For saying goodbye, and for hearing it said back.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why a socket ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The viewer left, or the line broke.
    Gone,
    Shutdown,
    SignedOut,
    TooSlow,
    Protocol(&'static str),
}

impl End {
    fn close(&self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            End::Gone => return None,
            End::Shutdown => (close::SHUTDOWN, "the server is shutting down"),
            End::SignedOut => (close::SIGNED_OUT, "the key was revoked or the sign-in ended"),
            End::TooSlow => (close::TOO_SLOW, "nothing was taken for too long"),
            End::Protocol(what) => (close::PROTOCOL, *what),
        };
        Some(CloseFrame { code, reason: reason.into() })
    }
}

/// One thing that the socket did.
enum Step {
    /// It can take a message.
    CanTake,
    /// All that it took has left.
    Flushed,
    /// Something came.
    Heard(Message),
    /// It broke, or was closed.
    Over(End),
}

struct Connection {
    socket: WebSocket,
    caller: Caller,
    app: Arc<App>,
    outbox: Outbox,
    streams: Vec<Stream>,
    /// Whose turn it is.
    turn: usize,
    /// Goes out before anything else: the bytes that follow directly after a gap.
    next: Option<Message>,
    unflushed: bool,
    /// Alternates, so that neither reading nor writing starves the other.
    read_first: bool,
    bytes_taken: BytesTaken,
    bytes_taken_before: u64,
    last_progress: Instant,
    last_heard: Instant,
}

/// Serves the socket until it ends.
pub(super) async fn run(socket: WebSocket, caller: Caller, app: Arc<App>, bytes_taken: BytesTaken) {
    let now = Instant::now();
    let mut connection = Connection {
        socket,
        caller,
        app,
        outbox: Outbox::default(),
        streams: Vec::new(),
        turn: 0,
        next: None,
        unflushed: false,
        read_first: false,
        bytes_taken_before: bytes_taken.count(),
        bytes_taken,
        last_progress: now,
        last_heard: now,
    };
    let end = connection.serve().await;
    tracing::debug!(tenant = connection.caller.principal.tenant, ?end, "a live socket ended");
    connection.streams.clear();
    if let Some(frame) = end.close() {
        // A viewer that does not take it in time finds the connection gone, which says the same with less words.
        let _ = timeout(GOODBYE, connection.socket.send(Message::Close(Some(frame)))).await;
        // Closing with unread bytes would reset the connection, and the frame could be lost.
        let _ = timeout(GOODBYE, async { while let Some(Ok(_)) = connection.socket.next().await {} }).await;
    }
}

impl Connection {
    async fn serve(&mut self) -> End {
        let app = Arc::clone(&self.app);
        let tenant = self.caller.principal.tenant.clone();
        let (sequence, mut feed) = app.state.feed.subscribe(&tenant);
        let mut revocations = app.state.access.revocations();
        let mut engine = app.state.sessions.engine_trouble();
        let period = Duration::from_secs(HEARTBEAT_SECONDS);
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.outbox.push(FromServer::Hello { epoch: app.state.epoch.clone(), sequence, now: clock::now() });
        if engine.borrow_and_update().is_some() {
            engine.mark_changed();
        }

        loop {
            let room = self.outbox.has_room();
            let flow = tokio::select! {
                () = app.state.shutdown.cancelled() => ControlFlow::Break(End::Shutdown),
                Ok(()) = revocations.changed() => self.check_credential().await,
                _ = heartbeat.tick() => self.beat().await,
                Ok(()) = engine.changed(), if room => {
                    let trouble = engine.borrow_and_update().clone();
                    self.outbox.push(FromServer::Engine { trouble });
                    ControlFlow::Continue(())
                }
                event = feed.recv(), if room => self.take_event(event, &tenant, &mut feed),
                step = poll_fn(|context| self.poll(context)) => self.go_on(step).await,
            };
            if let ControlFlow::Break(end) = flow {
                return end;
            }
        }
    }

    /// The socket's next step, or `None` when a log has grown.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Step>> {
        self.read_first = !self.read_first;
        if self.read_first
            && let Poll::Ready(step) = self.poll_read(context)
        {
            return Poll::Ready(Some(step));
        }
        let has_message = self.has_message();
        if let Poll::Ready(step) = self.poll_write(has_message, context) {
            return Poll::Ready(Some(step));
        }
        if !self.read_first
            && let Poll::Ready(step) = self.poll_read(context)
        {
            return Poll::Ready(Some(step));
        }
        if has_message {
            // The socket will wake this task when it can take it; until then growing logs are nobody's business.
            return Poll::Pending;
        }
        // Every stream is asked, so that each of them will wake this task.
        let grown =
            self.streams.iter_mut().filter_map(|stream| stream.poll_growth(context).is_ready().then_some(())).count();
        if grown > 0 { Poll::Ready(None) } else { Poll::Pending }
    }

    fn has_message(&self) -> bool {
        self.next.is_some() || !self.outbox.is_empty() || self.streams.iter().any(Stream::has_next)
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        // Answers to what a viewer says go to the outbox; while it is full, nothing more is heard.
        if !self.outbox.has_room() {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_next(context).map(|message| match message {
            Some(Ok(message)) => Step::Heard(message),
            Some(Err(_)) => Step::Over(End::Protocol("a message could not be read")),
            None => Step::Over(End::Gone),
        })
    }

    fn poll_write(&mut self, has_message: bool, context: &mut Context<'_>) -> Poll<Step> {
        let socket = Pin::new(&mut self.socket);
        let (polled, step) = if has_message {
            (socket.poll_ready(context), Step::CanTake)
        } else if self.unflushed {
            (socket.poll_flush(context), Step::Flushed)
        } else {
            return Poll::Pending;
        };
        polled.map(|result| if result.is_ok() { step } else { Step::Over(End::Gone) })
    }

    async fn go_on(&mut self, step: Option<Step>) -> ControlFlow<End> {
        match step {
            None => ControlFlow::Continue(()),
            Some(Step::Over(end)) => ControlFlow::Break(end),
            Some(Step::Flushed) => {
                self.unflushed = false;
                self.last_progress = Instant::now();
                ControlFlow::Continue(())
            }
            Some(Step::CanTake) => {
                self.last_progress = Instant::now();
                let Some(message) = self.next_message().await else { return ControlFlow::Continue(()) };
                self.unflushed = true;
                match Pin::new(&mut self.socket).start_send(message) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(End::Gone),
                }
            }
            Some(Step::Heard(message)) => {
                self.last_heard = Instant::now();
                match message {
                    Message::Text(text) => match serde_json::from_str(&text) {
                        Ok(said) => self.obey(said).await,
                        Err(_) => ControlFlow::Break(End::Protocol("a message is not of the protocol")),
                    },
                    Message::Binary(_) => ControlFlow::Break(End::Protocol("viewers send text only")),
                    // Pings are answered by the library.
                    Message::Ping(_) | Message::Pong(_) => ControlFlow::Continue(()),
                    Message::Close(_) => ControlFlow::Break(End::Gone),
                }
            }
        }
    }

    /// What to send now: everything else before output, and output in turns.
    async fn next_message(&mut self) -> Option<Message> {
        if let Some(message) = self.next.take() {
            return Some(message);
        }
        if let Some(json) = self.outbox.pop() {
            return Some(Message::Text(json.into()));
        }
        let count = self.streams.len();
        let index = (0..count).map(|step| (self.turn + step) % count).find(|index| self.streams[*index].has_next())?;
        self.turn = index + 1;
        let stream = &mut self.streams[index];
        let id = stream.id;
        match stream.next().await {
            Ok(Next::Nothing) => None,
            Ok(Next::Output { gap, offset, bytes }) => {
                let output = Message::Binary(Output { stream: id, offset, bytes: &bytes }.encode().into());
                let Some((from, to)) = gap else { return Some(output) };
                self.next = (!bytes.is_empty()).then_some(output);
                Some(text(&FromServer::Gap { stream: id, from, to, reason: GapReason::LogFull }))
            }
            Ok(Next::End { offset, complete }) => {
                self.streams.remove(index);
                Some(text(&FromServer::StreamEnd { stream: id, offset, complete }))
            }
            Err(error) => {
                self.streams.remove(index);
                tracing::warn!(%error, "a live stream broke off");
                let DomainError { code, detail, .. } = from_log(error);
                Some(text(&FromServer::StreamError { stream: id, code, detail }))
            }
        }
    }

    /// Does what the viewer asks for.
    async fn obey(&mut self, said: FromViewer) -> ControlFlow<End> {
        match said {
            FromViewer::Heartbeat => {}
            FromViewer::Unwatch { stream } => self.streams.retain(|known| known.id != stream),
            FromViewer::Ack { stream, offset } => {
                // Of a stream that has ended, acknowledgements still come.
                if let Some(known) = self.streams.iter_mut().find(|known| known.id == stream)
                    && !known.acknowledge(offset)
                {
                    return ControlFlow::Break(End::Protocol("acknowledged what was never sent"));
                }
            }
            FromViewer::Watch { stream, session_id, command_id, from } => {
                if self.streams.iter().any(|known| known.id == stream) {
                    return ControlFlow::Break(End::Protocol("this stream is open already"));
                }
                match self.open(&session_id, &command_id, from).await {
                    Ok((log, offset)) => {
                        self.outbox.push(FromServer::Watching { stream, offset });
                        self.streams.push(Stream::new(stream, log, offset));
                    }
                    // What is not there while the server stops may be there when it is back.
                    Err(_) if self.app.state.shutdown.is_cancelled() => return ControlFlow::Break(End::Shutdown),
                    Err(DomainError { code, detail, .. }) => {
                        self.outbox.push(FromServer::StreamError { stream, code, detail });
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Finds the log, and where in it to begin.
    async fn open(
        &mut self,
        session: &glassbox_shared::id::SessionId,
        command: &glassbox_shared::id::CommandId,
        from: WatchFrom,
    ) -> Result<(Log, u64), DomainError> {
        if self.streams.len() >= MAX_STREAMS {
            return Err(DomainError::new(
                ErrorCode::Conflict,
                format!("at most {MAX_STREAMS} streams on one connection; close one first"),
            ));
        }
        let session = self.app.state.sessions.get(&self.caller.principal.tenant, session)?;
        let log = session.command(command).await?.log().await?;
        let offset = match from {
            WatchFrom::Tail(bytes) => log.tail(bytes),
            WatchFrom::Offset(offset) => offset,
        };
        let end = log.state().end;
        if offset > end { Err(from_log(LogError::BeyondEnd { from: offset, end })) } else { Ok((log, offset)) }
    }

    fn take_event(
        &mut self,
        event: Result<Published, broadcast::error::RecvError>,
        tenant: &str,
        feed: &mut broadcast::Receiver<Published>,
    ) -> ControlFlow<End> {
        match event {
            Ok(published) => self.outbox.event(published),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let (sequence, fresh) = self.app.state.feed.subscribe(tenant);
                *feed = fresh;
                self.outbox.reload(sequence);
            }
            Err(broadcast::error::RecvError::Closed) => return ControlFlow::Break(End::Shutdown),
        }
        ControlFlow::Continue(())
    }

    /// Is the viewer still let in? When that cannot be known now, the next heartbeat asks again.
    async fn check_credential(&mut self) -> ControlFlow<End> {
        match self.app.state.access.still_valid(&self.caller.credential).await {
            Ok(false) => ControlFlow::Break(End::SignedOut),
            Ok(true) | Err(_) => ControlFlow::Continue(()),
        }
    }

    /// Says that we are here, and looks whether the viewer is.
    async fn beat(&mut self) -> ControlFlow<End> {
        let now = Instant::now();
        let taken = self.bytes_taken.count();
        if taken != self.bytes_taken_before {
            self.bytes_taken_before = taken;
            self.last_progress = now;
        }
        let waiting = self.unflushed || !self.outbox.is_empty();
        let alive = self.last_progress.max(self.last_heard);
        if (waiting && now - alive >= STALLED) || now - self.last_heard >= SILENT {
            return ControlFlow::Break(End::TooSlow);
        }
        self.outbox.heartbeat(clock::now());
        self.check_credential().await
    }
}

fn text(message: &FromServer) -> Message {
    Message::Text(serde_json::to_string(message).expect("the protocol's messages are plain data with text keys").into())
}
