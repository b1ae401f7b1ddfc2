//! Between a body and an operation: bytes go on at the pace of the slower one, and nothing waits without end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::Answer;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::super::App;
use super::super::error::ApiError;
use crate::error::DomainError;
use crate::files::{Call, Said};
use crate::session::{Change, Session};

/// Pieces that wait for a client, each at most 128 KiB.
const PIECES: usize = 2;
/// A client that takes or sends nothing for this long is gone: it holds one of few places.
const STALL: Duration = Duration::from_secs(60);
/// A service that is waited for must bring [`LEAST`] within this, however many pieces it comes in: a download holds one of
/// few turns, and a hostile service could drip for ever.
const LEAST_WITHIN: Duration = Duration::from_secs(60);
/// The slowest that is honest, by far: an archive of folders in which hardly anything can be packed.
const LEAST: usize = 16 * 1024;
/// A body that is refused is read on and thrown away up to here, so that a client that is still sending hears why.
const MOST_THROWN_AWAY: usize = 16 * 1024 * 1024;
/// And for at most this long.
const THROWING: Duration = Duration::from_secs(30);

/// Part of a body.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// It breaks off here, for this reason.
    Broken(String),
    /// That was all of it.
    End,
}

/// Where a body's pieces go. Without [`Piece::End`] the connection breaks, so that the client knows that it did not get
/// everything.
pub(super) type Pieces = mpsc::Sender<Piece>;

/// A body, filled by a task.
pub(super) fn body<W>(app: &Arc<App>, work: impl FnOnce(Pieces) -> W) -> Body
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(PIECES);
    let (work, shutdown) = (work(sender), app.state.shutdown.clone());
    app.tasks.spawn(async move {
        tokio::select! {
            () = work => {}
            () = shutdown.cancelled() => {}
        }
    });
    Body::from_stream(stream(receiver))
}

/// Ends well only by an end that was said; whoever fills it may be cut off anywhere.
fn stream(receiver: mpsc::Receiver<Piece>) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        let why = match receiver.recv().await {
            Some(Piece::Bytes(bytes)) => return Some((Ok(bytes), Some(receiver))),
            Some(Piece::End) => return None,
            Some(Piece::Broken(why)) => why,
            None => "it was cut off".to_owned(),
        };
        Some((Err(std::io::Error::other(why)), None))
    })
}

/// Gives a piece to the client; `false`: it is gone.
pub(super) async fn give(pieces: &Pieces, piece: Piece) -> bool {
    matches!(timeout(STALL, pieces.send(piece)).await, Ok(Ok(())))
}

/// Does content come on? Only waiting for the service counts, not for the client.
#[derive(Debug, Default)]
struct Progress {
    waited: Duration,
    came: usize,
}

impl Progress {
    /// How long may be waited yet.
    fn patience(&self) -> Duration {
        LEAST_WITHIN.saturating_sub(self.waited)
    }

    fn came(&mut self, bytes: usize, after: Duration) {
        self.waited += after;
        self.came += bytes;
        if self.came >= LEAST {
            *self = Self::default();
        }
    }
}

/// Content out of an operation. `using`: the session that is used by that, for as long as it lasts.
pub(super) async fn out(mut call: Call, pieces: Pieces, using: Option<Session>) {
    let mut progress = Progress::default();
    loop {
        let asked = Instant::now();
        let said = tokio::select! {
            said = timeout(progress.patience(), call.next()) => said.unwrap_or_else(|_| Err(too_slow())),
            () = pieces.closed() => return,
        };
        match said {
            Ok(Said::Data(bytes)) => {
                progress.came(bytes.len(), asked.elapsed());
                if let Some(session) = &using {
                    session.touch();
                }
                if !give(&pieces, Piece::Bytes(bytes)).await {
                    return;
                }
            }
            Ok(Said::Done(_)) => {
                give(&pieces, Piece::End).await;
                return;
            }
            Ok(Said::Head(_) | Said::Progress(_)) => progress.came(0, asked.elapsed()),
            Err(error) => {
                tracing::debug!(%error, "content broke off");
                give(&pieces, Piece::Broken(error.detail)).await;
                return;
            }
        }
    }
}

fn too_slow() -> DomainError {
    DomainError::new(ErrorCode::FilesUnavailable, "the sandbox's file service sends too slowly")
}

/// A body into a change, which is use of the session for as long as it lasts, and that change's end.
pub(super) async fn into(session: &Session, mut change: Change, body: Body) -> Result<Answer, ApiError> {
    let mut pieces = body.into_data_stream();
    let mut sent = Ok(());
    loop {
        let piece = match timeout(STALL, pieces.next()).await {
            Ok(None) => break,
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => return Err(ApiError::new(ErrorCode::BadRequest, "the body broke off")),
            Err(_) => return Err(ApiError::new(ErrorCode::BadRequest, "the body came too slowly")),
        };
        session.touch();
        sent = change.send(piece).await;
        if sent.is_err() {
            throw_away(pieces).await;
            break;
        }
    }
    sent?;
    Ok(change.finish().await?)
}

/// A body that is not wanted.
pub(super) async fn refuse(body: Body, error: DomainError) -> ApiError {
    throw_away(body.into_data_stream()).await;
    ApiError(error)
}

async fn throw_away(mut pieces: axum::body::BodyDataStream) {
    let throwing = async {
        let mut length = 0;
        while let Some(Ok(piece)) = pieces.next().await {
            length += piece.len();
            if length > MOST_THROWN_AWAY {
                break;
            }
        }
    };
    // However far it came: the answer follows.
    let _ = timeout(THROWING, throwing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client gets of these pieces; `None`: it broke off.
    async fn got(pieces: Vec<Piece>) -> Option<Vec<u8>> {
        let (sender, receiver) = mpsc::channel(PIECES);
        for piece in pieces {
            sender.try_send(piece).expect("there is room");
        }
        drop(sender);
        axum::body::to_bytes(Body::from_stream(stream(receiver)), 100).await.ok().map(|bytes| bytes.to_vec())
    }

    #[test]
    fn a_drip_has_an_end_and_a_slow_service_or_client_has_none() {
        let second = Duration::from_secs(1);
        let mut drip = Progress::default();
        let mut lasted = Duration::ZERO;
        while !drip.patience().is_zero() {
            drip.came(1, second);
            lasted += second;
        }
        assert_eq!(lasted, LEAST_WITHIN);
        let mut slow = Progress::default();
        for _ in 0..1000 {
            slow.came(1024, second);
            assert!(!slow.patience().is_zero(), "{slow:?}");
        }
        let mut quick = Progress::default();
        for _ in 0..1_000_000 {
            quick.came(1, Duration::ZERO);
        }
        assert_eq!(quick.patience(), LEAST_WITHIN);
    }

    #[tokio::test]
    async fn a_body_that_was_cut_off_does_not_look_whole() {
        let content = || Piece::Bytes(Bytes::from_static(b"content"));
        assert_eq!(got(vec![content(), Piece::End]).await.as_deref(), Some(b"content".as_slice()));
        assert_eq!(got(vec![Piece::End]).await.as_deref(), Some(b"".as_slice()));
        assert_eq!(got(vec![content()]).await, None);
        assert_eq!(got(vec![content(), Piece::Broken("the sandbox died".to_owned())]).await, None);
        assert_eq!(got(vec![content(), Piece::Bytes(Bytes::new())]).await, None, "nothing is no end");
        assert_eq!(got(Vec::new()).await, None);
    }
}
