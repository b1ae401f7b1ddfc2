//! Connections: accepting them, bounding them, and ending them in time.
//!
//! `axum::serve` has no deadline for a request's head and does not wait for upgraded connections; this has and does.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer as _;

use super::{App, AppState};

/// Open connections, without live sockets (`live::MAX_SOCKETS`, at most 300 more). Most systems allow a process 1,024
/// open files unless told otherwise; log files, the database and the engine's connections need theirs. When all are in
/// use, new ones wait in the kernel until one closes.
const MAX_CONNECTIONS: usize = 400;
/// A request's head must have arrived after this long, and a connection without a request is closed after it. Whoever
/// sends slowly on purpose holds one of [`MAX_CONNECTIONS`] no longer than that.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// Between looks for a second byte, when the first one leaves open whether HTTP/1 is spoken. Hardly ever needed.
const SECOND_BYTE: Duration = Duration::from_millis(50);
/// Requests that are being answered at shutdown get this long; then their connections are dropped.
const DRAIN: Duration = Duration::from_secs(8);
/// After an accept that failed (no more files, for example): long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests until `shutdown`, and returns when all connections have ended, 8 s later at the latest. The state's
/// own token, which ends waiting requests and live sockets, must be cancelled with it.
pub async fn serve_http(listener: TcpListener, state: AppState, shutdown: CancellationToken) -> io::Result<()> {
    let app = Arc::new(App::new(state));
    let sockets = app.tasks.clone();
    let router = super::router_of(app);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    let give_up = CancellationToken::new();

    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let conversation = converse(stream, router.clone(), shutdown.clone());
        let give_up = give_up.clone();
        connections.spawn(async move {
            tokio::select! {
                () = give_up.cancelled() => {}
                () = conversation => {}
            }
            drop(place);
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

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Small messages are the rule here, and each is wanted at once. Where that cannot be had, they come a little later.
    let _ = stream.set_nodelay(true);
    Ok((stream, place))
}

/// One connection's requests, one after the other.
async fn converse(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let speaks = tokio::select! {
        () = shutdown.cancelled() => false,
        speaks = timeout(HEAD_TIME, speaks_http1(&stream)) => speaks.unwrap_or(false),
    };
    if !speaks {
        return;
    }
    let taken = BytesTaken::default();
    let service = Extension(taken.clone()).layer(router);
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    let io = TokioIo::new(Counted { stream, taken });
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service)));
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
        tracing::trace!(error, "a connection broke");
    }
}

/// Waits for the first bytes, and tells whether they can begin a request of HTTP/1.
///
/// hyper-util looks for the preface of HTTP/2 (`PRI * …`) without a deadline before its own deadline for a head begins;
/// after this it has nothing to wait for.
async fn speaks_http1(stream: &TcpStream) -> bool {
    let mut first = [0; 2];
    loop {
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => return false,
            Ok(1) if first[0] == b'P' => tokio::time::sleep(SECOND_BYTE).await,
            Ok(_) => return first != *b"PR",
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
