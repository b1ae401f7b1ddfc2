//! `/v1/ws`: the live socket. What is said on it is documented in `glassbox_shared::live`.
//!
//! ```text
//! feed ────────▶ outbox (bounded, newer views replace older ones) ─┐
//! heartbeats ──▶   first                                           ├──▶ the socket, one message at a time
//! output logs ─▶ streams (an offset each, within its credit) ──────┘
//!                  after it, in turns
//! ```
//!
//! One task owns a socket with all that belongs to it ([`connection`]). It asks for the next message only when the socket
//! can take one, so nothing is queued for a slow viewer but its outbox, and a log never waits for anyone.

mod connection;
mod outbox;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{MAX_VIEWER_MESSAGE, SUBPROTOCOL};

use super::App;
use super::error::ApiError;
use super::principal::{self, Allowed};
use super::serve::BytesTaken;
use crate::error::DomainError;

/// Live sockets of one tenant: some tabs for each of some dozens of people. Then 429.
const MAX_TENANT_SOCKETS: usize = 200;
/// Live sockets altogether. They are not among `HttpSettings::max_connections`, so requests always find room. Then 429.
const MAX_SOCKETS: usize = 300;
/// Bytes read from a socket at a time: viewers say little.
const READ_BUFFER: usize = 4 * 1024;
/// Most bytes that may wait inside the socket. We give it one message at a time, so this only has to hold the largest
/// one: a command's view, whose text of 120 KiB may be six times as long in JSON.
const MAX_WRITE_BUFFER: usize = 1024 * 1024;

/// Opens the live socket.
#[utoipa::path(get, path = "/v1/ws", tag = "live", responses(
    (status = 101, description = "A WebSocket with the subprotocol `glassbox.v1`"),
    (status = "default", body = glassbox_shared::error::ErrorBody),
))]
pub(super) async fn upgrade(
    allowed: Allowed<principal::Watch>,
    State(app): State<Arc<App>>,
    taken: Option<Extension<BytesTaken>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade
        .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))?
        .protocols([SUBPROTOCOL]);
    if upgrade.selected_protocol().is_none() {
        return Err(ApiError::new(
            ErrorCode::BadRequest,
            format!("ask for the subprotocol {SUBPROTOCOL}; this server speaks no other"),
        ));
    }
    let place = app.sockets.enter(allowed.tenant())?;
    let running = app.tasks.token();
    let bytes_taken = taken.map(|Extension(taken)| taken).unwrap_or_default();
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        // Nothing is held back: each message goes to the kernel at once.
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
        .max_message_size(MAX_VIEWER_MESSAGE)
        .max_frame_size(MAX_VIEWER_MESSAGE)
        .on_upgrade(move |socket| async move {
            connection::run(socket, allowed.caller, app, bytes_taken).await;
            drop((place, running));
        }))
}

/// How many sockets are open, by tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct Sockets {
    open: Arc<Mutex<HashMap<String, usize>>>,
}

/// Given back when dropped.
#[derive(Debug)]
struct Place {
    sockets: Sockets,
    tenant: String,
}

impl Sockets {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, tenant: &str) -> Result<Place, DomainError> {
        let mut open = self.lock();
        let total: usize = open.values().sum();
        let own = open.get(tenant).copied().unwrap_or(0);
        if total >= MAX_SOCKETS || own >= MAX_TENANT_SOCKETS {
            return Err(DomainError::new(
                ErrorCode::RateLimited,
                "too many live connections are open; close some tabs",
            )
            .retry_after(10));
        }
        open.insert(tenant.to_owned(), own + 1);
        Ok(Place { sockets: self.clone(), tenant: tenant.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.sockets.lock();
        if let Some(own) = open.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_uses_up_its_sockets_leaves_room_for_others() {
        let sockets = Sockets::default();
        let mut places: Vec<Place> = (0..MAX_TENANT_SOCKETS).map(|_| sockets.enter("acme").expect("room")).collect();
        assert!(sockets.enter("acme").is_err());
        sockets.enter("other").expect("room for another tenant");
        places.pop();
        sockets.enter("acme").expect("a place was given back");
        drop(places);
        assert!(sockets.lock().is_empty());
    }
}
