//! What one address may take of what all share, so that nobody keeps everybody else out.
//!
//! Connections are counted by who is at their other end. What comes through a trusted proxy comes from one address; there
//! the requests are counted instead, by the address behind it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Counts by address.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    taken: Arc<Mutex<HashMap<String, usize>>>,
    most: usize,
}

/// One more of an address; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Shares,
    address: String,
}

impl Shares {
    /// Half of all for each address: connections, and requests of an address behind a trusted proxy. Agents and pages of
    /// a whole house behind one address need less; live sockets are not among them. A connection beyond it is closed at
    /// once, a request beyond it answered with 429.
    pub(super) fn half_of(all: usize) -> Self {
        Self { taken: Arc::default(), most: all / 2 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one more; `None`: this address has its share already.
    pub(super) fn take(&self, address: String) -> Option<Share> {
        let mut taken = self.lock();
        let count = taken.entry(address.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(Share { shares: self.clone(), address })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Entry::Occupied(mut taken) = self.shares.lock().entry(std::mem::take(&mut self.address)) {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

/// A body that holds a share, or something else, until it was sent or given up.
pub(super) struct Held<T> {
    body: Body,
    _held: T,
}

impl<T: Send + Unpin + 'static> Held<T> {
    pub(super) fn hold(body: Body, held: T) -> Body {
        Body::new(Self { body, _held: held })
    }
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_its_share_leaves_the_rest_to_others_and_gets_it_back() {
        let shares = Shares::half_of(20);
        let mut all: Vec<Share> = (0..10).map(|_| shares.take("192.0.2.1".into()).expect("its share")).collect();
        assert!(shares.take("192.0.2.1".into()).is_none());
        let other = shares.take("192.0.2.2".into()).expect("another address");
        all.pop();
        all.push(shares.take("192.0.2.1".into()).expect("one was given back"));
        drop((all, other));
        assert!(shares.lock().is_empty(), "nothing is remembered of who left");
    }

    #[tokio::test]
    async fn a_body_holds_its_share_until_it_was_sent() {
        let shares = Shares::half_of(20);
        let body = Held::hold(Body::from("content"), shares.take("a".into()).expect("a share"));
        assert_eq!(body.size_hint().exact(), Some(7));
        assert_eq!(shares.lock().get("a"), Some(&1));
        assert_eq!(axum::body::to_bytes(body, 100).await.expect("sent"), "content");
        assert!(shares.lock().is_empty());
    }
}
