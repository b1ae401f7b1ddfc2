//! Connections: accepting them, bounding them, and ending them in time.
//!
//! `axum::serve` has no deadline for a request's head and does not wait for upgraded connections; this has and does.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer as _;

use super::client::{self, Peer};
use super::share::Shares;
use super::tls::Tls;
use super::{App, AppState};

/// Open files that are not for connections: live sockets (`live::MAX_SOCKETS`), log files, the database, the engine. Most
/// systems allow a process 1,024 in all unless it asks for more, as [`room_for_connections`] does; then 400 are left.
const OTHER_FILES: u64 = 624;
/// A request's head must have arrived after this long, and a connection without a request is closed after it. Whoever
/// sends slowly on purpose holds a place no longer than that.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// A TLS handshake must be done after this long: it is a round trip or two. Whoever begins one and does not finish it
/// holds a place no longer than that.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// For telling somebody who speaks plain HTTP to the HTTPS port.
const PLAIN_TIME: Duration = Duration::from_secs(2);
/// Between looks for a second byte, when the first one leaves open whether HTTP/1 is spoken. Hardly ever needed.
const SECOND_BYTE: Duration = Duration::from_millis(50);
/// Requests that are being answered at shutdown get this long; then their connections are dropped. Live sockets need up to
/// 4 s to say goodbye. With what the server's other parts get after it, a stop takes less than 10 s.
const DRAIN: Duration = Duration::from_secs(5);
/// After an accept that failed (no more files, for example): long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests until `shutdown`, and returns when all connections have ended, 5 s later at the latest. The state's
/// own token, which ends waiting requests and live sockets, must be cancelled with it.
pub async fn serve_http(listener: TcpListener, state: AppState, shutdown: CancellationToken) -> io::Result<()> {
    let tls = state.settings.tls.clone();
    let app = Arc::new(App::new(state));
    let sockets = app.tasks.clone();
    let trusted = app.state.settings.trusted_proxies.clone();
    let router = super::router_of(Arc::clone(&app));
    let room = Arc::new(Semaphore::new(app.room));
    let shares = Shares::half_of(app.room);
    let connections = TaskTracker::new();
    let give_up = CancellationToken::new();

    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let peer = Peer { address: peer, tls: tls.is_some() };
        // A proxy's connections are everybody's; what comes through them is counted where it is known from whom.
        let share = if client::is_trusted(peer, &trusted) { None } else { Some(shares.take(peer.counted_as())) };
        if matches!(share, Some(None)) {
            tracing::debug!(client = %peer.address.ip(), "closed a connection of an address that has its share of them");
            continue;
        }
        let conversation = converse(stream, peer, tls.clone(), router.clone(), shutdown.clone());
        let give_up = give_up.clone();
        connections.spawn(async move {
            tokio::select! {
                () = give_up.cancelled() => {}
                () = conversation => {}
            }
            drop((place, share));
        });
    }

    drop(listener);
    connections.close();
    sockets.close();
    let drained = async {
        connections.wait().await;
        sockets.wait().await;
    };
    if timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("some requests were not answered before the server ended");
        give_up.cancel();
    }
    Ok(())
}

/// Asks for as many open files as so many connections need, and tells how many fit. When all are in use, new ones wait in
/// the kernel until one closes.
pub(super) fn room_for_connections(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(most as u64 + OTHER_FILES);
    let mut allowed = limit.current.unwrap_or(u64::MAX);
    if allowed < wanted {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
            Ok(()) => allowed = wanted,
            Err(error) => tracing::debug!(%error, "the limit of open files stays as it is"),
        }
    }
    connections_in(allowed).min(most)
}

/// Connections that so many open files leave room for; a few, however few files there are.
fn connections_in(files: u64) -> usize {
    usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(64)
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    // Small messages are the rule here, and each is wanted at once. Where that cannot be had, they come a little later.
    let _ = stream.set_nodelay(true);
    Ok((stream, peer, place))
}

/// One connection's requests, one after the other.
async fn converse(stream: TcpStream, peer: Peer, tls: Option<Arc<Tls>>, router: Router, shutdown: CancellationToken) {
    let begins = tokio::select! {
        () = shutdown.cancelled() => return,
        begins = timeout(HEAD_TIME, first_bytes(&stream)) => begins.unwrap_or(Begins::Otherwise),
    };
    let taken = BytesTaken::default();
    let router = Extension(taken.clone()).layer(Extension(peer).layer(router));
    let counted = Counted { stream, taken };
    match (begins, tls) {
        (Begins::Request, None) => answer(counted, router, shutdown).await,
        (Begins::Handshake, Some(tls)) => {
            let handshake = TlsAcceptor::from(tls.config()).accept(counted);
            let shaken = tokio::select! {
                () = shutdown.cancelled() => return,
                shaken = timeout(HANDSHAKE_TIME, handshake) => shaken,
            };
            match shaken {
                Ok(Ok(stream)) => answer(stream, router, shutdown).await,
                // Scanners, and clients that do not know the certificate: the latter is worth knowing when looked for.
                Ok(Err(error)) => tracing::debug!(client = %peer.address.ip(), %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(client = %peer.address.ip(), "a TLS handshake was not finished in time"),
            }
        }
        (Begins::Request, Some(_)) => refuse_plain(counted.stream).await,
        (Begins::Handshake, None) | (Begins::Otherwise, _) => {}
    }
}

/// Answers on a connection that is ready for it.
async fn answer<S, R>(stream: S, service: R, shutdown: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    R: tower::Service<axum::http::Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    R::Future: Send + 'static,
{
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = pin!(connection.with_upgrades());
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = shutdown.cancelled() => {
            // Answers what it is at, and no more.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        // Clients that vanish are no news.
        tracing::trace!(%error, "a connection broke");
    }
}

/// Tells whoever speaks plain HTTP to the HTTPS port so.
async fn refuse_plain(mut stream: TcpStream) {
    const TEXT: &str = "This port speaks HTTPS; write https:// before the address.\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    let said = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection, and the answer could be lost.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(PLAIN_TIME, said).await; // a courtesy
}

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// Perhaps a request of HTTP/1.
    Request,
    /// A handshake of TLS.
    Handshake,
    /// Nothing that is understood here.
    Otherwise,
}

/// Waits for the first bytes, and tells what they can begin. `PR` is the preface of HTTP/2 (`PRI * …`), which is not
/// spoken here.
async fn first_bytes(stream: &TcpStream) -> Begins {
    /// The type of a record with a part of a handshake (RFC 8446, 5.1).
    const HANDSHAKE: u8 = 22;
    let mut first = [0; 2];
    loop {
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => return Begins::Otherwise,
            Ok(_) if first[0] == HANDSHAKE => return Begins::Handshake,
            Ok(1) if first[0] == b'P' => tokio::time::sleep(SECOND_BYTE).await,
            Ok(_) if first == *b"PR" => return Begins::Otherwise,
            Ok(_) => return Begins::Request,
        }
    }
}

/// How many bytes the kernel took from us for a connection; how the live socket tells a slow viewer from a dead one.
#[derive(Debug, Clone, Default)]
pub(super) struct BytesTaken(Arc<AtomicU64>);

impl BytesTaken {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that counts what was taken.
struct Counted {
    stream: TcpStream,
    taken: BytesTaken,
}

impl Counted {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.taken.0.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_what_other_files_leave() {
        assert_eq!(connections_in(1024), 400);
        assert_eq!(connections_in(100), 64);
        assert!(connections_in(u64::MAX) > 1_000_000);
        assert_eq!(room_for_connections(300), 300);
    }
}
