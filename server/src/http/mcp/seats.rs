//! MCP sessions as this server knows them: a seat each, of one key, in one workspace.
//!
//! rmcp knows a session by its id alone, and anybody who hears of an id could use it; a seat is found only with the key
//! that took it. There are only so many: when all of a tenant's are taken, the one that was not used for the longest time
//! makes room, because clients that vanish say nothing, and those that come back begin anew by themselves.

mod neighbours;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::SessionId;
use serde_json::Value;

use super::place::Place;
use crate::access::Credential;
use crate::error::DomainError;
use crate::http::principal::Caller;
use crate::session::Session;

pub(super) use self::neighbours::News;

/// A session that is not used for this long ends: a working day with its breaks.
pub(super) const SEAT_TIME: Duration = Duration::from_hours(12);
/// Sessions of one tenant: an agent for each person of a large team. Each is some tasks and some kilobytes.
const MAX_TENANT_SEATS: usize = 200;
/// Sessions altogether. Then 429 for a tenant that has none which could make room.
const MAX_SEATS: usize = 1000;
/// A client that has not called anything for this long counts as gone when another one comes or asks who else is there.
/// Those that vanish say nothing and come back in another session, where they must be who they were: a short time is
/// worth it that two clients of one name, one of them idle, may be taken for one.
const PRESENT: Duration = Duration::from_mins(1);

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seats {
    taken: Arc<Mutex<Taken>>,
    /// Only one client is given a number at a time.
    numbering: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    seats: HashMap<u64, Weak<Seat>>,
}

/// One session; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    number: u64,
    credential: Credential,
    tenant: String,
    place: Place,
    id: OnceLock<String>,
    client: OnceLock<Client>,
    state: Mutex<State>,
}

/// Who sits there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    /// Its name, under which it reads.
    pub name: String,
    /// Name and version, as people see them.
    pub label: String,
}

#[derive(Debug)]
struct State {
    used: Instant,
    /// Tells clients of one name in one workspace apart.
    nth: Option<usize>,
    /// Calls that are being answered.
    calls: usize,
    /// Ids of requests that have no answer yet, as JSON.
    asked: BTreeSet<String>,
    /// It makes room: it counts no more.
    leaves: bool,
    /// Clients in the same workspace that it was told of.
    told_of: BTreeSet<u64>,
    /// The sandbox that it was given last.
    sandbox: Option<SessionId>,
    /// The last one that it had an answer from.
    known: Option<SessionId>,
    /// Where it is shown.
    shown_in: Option<Session>,
}

impl State {
    fn is_present(&self) -> bool {
        self.calls > 0 || self.used.elapsed() < PRESENT
    }
}

/// A new seat, and the id of the session that made room for it.
#[derive(Debug)]
pub(super) struct NewSeat {
    pub seat: Arc<Seat>,
    pub instead_of: Option<Arc<str>>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that count. The handles are dropped without the lock, because the last one gives the seat back.
    fn all(&self) -> Vec<Arc<Seat>> {
        let all: Vec<Arc<Seat>> = self.lock().seats.values().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(|seat| !seat.state().leaves).collect()
    }

    /// Takes a seat for a session that begins.
    pub(super) fn take(&self, caller: &Caller, place: &Place) -> Result<NewSeat, DomainError> {
        self.take_for(caller.credential, &caller.principal.tenant, place)
    }

    fn take_for(&self, credential: Credential, tenant: &str, place: &Place) -> Result<NewSeat, DomainError> {
        let all = self.all();
        let own: Vec<&Arc<Seat>> = all.iter().filter(|seat| seat.tenant == tenant).collect();
        let mut instead_of = None;
        if own.len() >= MAX_TENANT_SEATS || all.len() >= MAX_SEATS {
            let idle = own.into_iter().filter(|seat| seat.id.get().is_some() && seat.state().calls == 0);
            let Some(left) = idle.min_by_key(|seat| seat.state().used) else {
                let detail = "too many MCP sessions are open; end some";
                return Err(DomainError::new(ErrorCode::RateLimited, detail).retry_after(10));
            };
            left.state().leaves = true;
            instead_of = left.id.get().map(|id| Arc::from(id.as_str()));
        }
        let mut taken = self.lock();
        taken.next += 1;
        let number = taken.next;
        let state = State {
            used: Instant::now(),
            nth: None,
            calls: 0,
            asked: BTreeSet::new(),
            leaves: false,
            told_of: BTreeSet::new(),
            sandbox: None,
            known: None,
            shown_in: None,
        };
        let seat = Arc::new(Seat {
            seats: self.clone(),
            number,
            credential,
            tenant: tenant.to_owned(),
            place: place.clone(),
            id: OnceLock::new(),
            client: OnceLock::new(),
            state: Mutex::new(state),
        });
        taken.seats.insert(number, Arc::downgrade(&seat));
        drop(taken);
        Ok(NewSeat { seat, instead_of })
    }

    /// The seat with this id, for whoever shows the key that took it.
    pub(super) fn find(&self, id: &str, credential: &Credential) -> Option<Arc<Seat>> {
        let seat = self.all().into_iter().find(|seat| seat.id.get().is_some_and(|own| own == id))?;
        (seat.credential == *credential).then_some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().seats.remove(&self.number);
        let shown_in = self.state().shown_in.take();
        if let Some(session) = shown_in {
            session.used_by(self.seats.labels_in(session.id()));
        }
    }
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session has an id now.
    pub(super) fn called(&self, id: &str) {
        // Ids are given once.
        let _ = self.id.set(id.to_owned());
    }

    /// The sandbox that its client means.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// This client sits here; told once, when the session begins.
    pub(super) fn sit(&self, name: &str, label: &str) {
        // The first one stays.
        let _ = self.client.set(Client { name: name.to_owned(), label: label.to_owned() });
    }

    /// Who sits here.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.get()
    }

    /// A request begins; it is over when the answer is dropped.
    pub(super) fn ask(self: &Arc<Self>, id: &Value) -> Result<Asking, DomainError> {
        let id = id.to_string();
        if !self.state().asked.insert(id.clone()) {
            let detail = "a request with this id has no answer yet; give each an id of its own";
            return Err(DomainError::new(ErrorCode::Conflict, detail));
        }
        Ok(Asking { seat: Arc::clone(self), id })
    }

    /// A call begins; it is over when the answer is dropped.
    pub(super) fn call(self: &Arc<Self>) -> Calling {
        let mut state = self.state();
        state.calls += 1;
        state.used = Instant::now();
        drop(state);
        Calling(Arc::clone(self))
    }
}

/// A call that is being answered.
#[derive(Debug)]
pub(super) struct Calling(Arc<Seat>);

impl Drop for Calling {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.calls -= 1;
        state.used = Instant::now();
    }
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Asking {
    seat: Arc<Seat>,
    id: String,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.seat.state().asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
