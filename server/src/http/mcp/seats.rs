//! MCP sessions as this server knows them: a seat each, of one key, in one workspace.
//!
//! rmcp knows a session by its id alone, and anybody who hears of an id could use it; a seat is found only with the key
//! that took it. There are only so many: when all of a tenant's are taken, the one that was not used for the longest time
//! makes room, because clients that vanish say nothing, and those that come back begin anew by themselves.

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

/// What a client is to be told. It was, once the answer with it is made ([`Seat::told`]).
#[derive(Debug)]
pub(super) struct News {
    /// Its sandbox is another one than the one that it knows.
    pub another: bool,
    /// Clients that use the same workspace now.
    pub others: Vec<String>,
    sandbox: SessionId,
    numbers: Vec<u64>,
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

    /// The clients that are present in this sandbox.
    fn labels_in(&self, sandbox: &SessionId) -> Vec<String> {
        let all = self.all();
        let there = all.iter().filter(|seat| {
            let state = seat.state();
            state.is_present() && state.sandbox.as_ref() == Some(sandbox)
        });
        let mut labels: Vec<String> = there.filter_map(|seat| Some(seat.client.get()?.label.clone())).collect();
        labels.sort();
        labels
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

    /// Tells those of one name that are present in one workspace apart, from 1. It is given when something is called: a
    /// session that was begun, but whose client never heard of it, takes none.
    pub(super) fn nth(&self) -> usize {
        let _numbering = self.seats.numbering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nth) = self.state().nth {
            return nth;
        }
        let name = self.client.get().map(|client| &client.name);
        let neighbours = self.neighbours();
        let same = neighbours.iter().filter(|seat| seat.client.get().map(|client| &client.name) == name);
        let taken: BTreeSet<usize> = same
            .filter_map(|seat| {
                let state = seat.state();
                state.nth.filter(|_| state.is_present())
            })
            .collect();
        // Of one more than are taken, one is free.
        let nth = (1..=taken.len() + 1).find(|nth| !taken.contains(nth)).unwrap_or_default();
        self.state().nth = Some(nth);
        nth
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

    /// Other seats in the same workspace.
    fn neighbours(&self) -> Vec<Arc<Seat>> {
        self.seats.all().into_iter().filter(|seat| seat.number != self.number && seat.place == self.place).collect()
    }

    /// It is given this sandbox: what it is to be told, until it was.
    pub(super) fn news(&self, sandbox: &SessionId) -> News {
        let neighbours = self.neighbours();
        let present: Vec<(u64, String)> = neighbours
            .iter()
            .filter(|seat| {
                let state = seat.state();
                // Who has not called anything yet does not use it.
                state.sandbox.is_some() && state.is_present()
            })
            .filter_map(|seat| seat.client.get().map(|client| (seat.number, client.label.clone())))
            .collect();
        let mut state = self.state();
        state.sandbox = Some(sandbox.clone());
        // Those who left come back under another number; those who pause do not.
        state.told_of.retain(|number| neighbours.iter().any(|seat| seat.number == *number));
        let new = present.into_iter().filter(|(number, _)| !state.told_of.contains(number));
        let (numbers, others) = new.unzip();
        let another = state.known.as_ref().is_some_and(|known| known != sandbox);
        News { another, others, sandbox: sandbox.clone(), numbers }
    }

    /// The answer with these news is made.
    pub(super) fn told(&self, news: News) {
        let mut state = self.state();
        state.told_of.extend(news.numbers);
        state.known = Some(news.sandbox);
    }

    /// It is shown with this sandbox as long as it lives, and in the one before no more.
    pub(super) fn shows_in(&self, session: &Session) {
        let before = self.state().shown_in.replace(session.clone()).filter(|before| before.id() != session.id());
        for session in before.iter().chain([session]) {
            session.used_by(self.seats.labels_in(session.id()));
        }
    }

    /// It gave its sandbox up itself.
    pub(super) fn gave_up(&self) {
        let mut state = self.state();
        state.sandbox = None;
        state.known = None;
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
mod tests {
    use glassbox_shared::session::Profile;

    use super::*;
    use crate::ids;

    const KEY: Credential = Credential::Key([1; 32]);
    const OTHER_KEY: Credential = Credential::Key([2; 32]);

    fn place(workspace: &str) -> Place {
        Place { tenant: "acme".into(), key: "key_1".into(), profile: Profile::Open, workspace: workspace.into() }
    }

    fn seat(seats: &Seats, tenant: &str, id: &str) -> Arc<Seat> {
        let seat = seats.take_for(KEY, tenant, &place("default")).expect("room").seat;
        seat.called(id);
        seat
    }

    #[test]
    fn a_seat_is_found_by_its_own_key_only_and_gone_when_it_is_given_back() {
        let seats = Seats::default();
        let one = seat(&seats, "acme", "one");
        assert!(seats.find("one", &KEY).is_some());
        assert!(seats.find("one", &OTHER_KEY).is_none());
        assert!(seats.find("two", &KEY).is_none());
        drop(one);
        assert!(seats.find("one", &KEY).is_none());
        assert!(seats.lock().seats.is_empty());
    }

    #[test]
    fn when_all_are_taken_the_one_that_was_idle_for_the_longest_time_makes_room() {
        let seats = Seats::default();
        let all: Vec<Arc<Seat>> = (0..MAX_TENANT_SEATS).map(|nth| seat(&seats, "acme", &nth.to_string())).collect();
        let stranger = seat(&seats, "beta", "stranger");
        let busy = all[0].call();
        drop(all[1].call());
        let new = seats.take_for(KEY, "acme", &place("default")).expect("room");
        assert_eq!(new.instead_of.as_deref(), Some("2"), "the first one is busy, the second was just used");
        assert!(seats.find("2", &KEY).is_none(), "it leaves");
        let calls: Vec<Calling> = all.iter().map(Seat::call).collect();
        let error = seats
            .take_for(KEY, "acme", &place("default"))
            .expect_err("everybody is busy but the new one, which has no id");
        assert_eq!(error.code, ErrorCode::RateLimited);
        assert!(seats.take_for(KEY, "beta", &place("default")).is_ok(), "another tenant");
        drop((busy, calls, stranger));
    }

    #[test]
    fn clients_of_one_name_in_one_workspace_are_told_apart() {
        let seats = Seats::default();
        let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
        let nth = |seat: &Seat| {
            seat.sit("claude", "claude 1");
            seat.nth()
        };
        assert_eq!(nth(&one), 1);
        assert_eq!(nth(&two), 2);
        let elsewhere = seats.take_for(KEY, "acme", &place("other")).expect("room").seat;
        assert_eq!(nth(&elsewhere), 1);
        drop(one);
        let unheard = seat(&seats, "acme", "unheard");
        unheard.sit("claude", "claude 1");
        assert_eq!(nth(&seat(&seats, "acme", "three")), 1, "free again; who calls nothing takes none");
        assert_eq!(nth(&two), 2, "as before");
    }

    /// It has called nothing for so long that it counts as gone.
    fn idle(seat: &Seat) {
        seat.state().used = Instant::now().checked_sub(PRESENT).expect("the machine has run for longer");
    }

    #[test]
    fn a_client_that_vanished_and_comes_back_is_the_same_and_alone() {
        let seats = Seats::default();
        let sandbox = ids::session();
        let vanished = seat(&seats, "acme", "one");
        vanished.sit("claude", "claude 1");
        assert_eq!(vanished.nth(), 1);
        vanished.told(vanished.news(&sandbox));
        idle(&vanished);
        let back = seat(&seats, "acme", "two");
        back.sit("claude", "claude 1");
        assert_eq!(back.nth(), 1, "it reads on where it was");
        let calling = back.call();
        assert!(back.news(&sandbox).others.is_empty(), "it is not told of itself");
        assert_eq!(seats.labels_in(&sandbox), ["claude 1"], "people see one");
        drop(calling);
        let second = seat(&seats, "acme", "three");
        second.sit("claude", "claude 1");
        assert_eq!(second.nth(), 2, "this one is there");
    }

    #[test]
    fn a_client_that_waits_for_a_long_call_is_present() {
        let seats = Seats::default();
        let sandbox = ids::session();
        let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
        one.sit("claude", "claude 1");
        assert_eq!(one.nth(), 1);
        one.told(one.news(&sandbox));
        let _waiting = one.call();
        idle(&one);
        two.sit("claude", "claude 2");
        assert_eq!(two.nth(), 2);
        assert_eq!(two.news(&sandbox).others, ["claude 1"]);
        assert_eq!(seats.labels_in(&sandbox), ["claude 1", "claude 2"]);
    }

    #[test]
    fn each_of_two_clients_is_told_of_the_other_once_and_only_when_that_one_does_something() {
        let seats = Seats::default();
        let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
        one.sit("a", "a 1");
        two.sit("b", "b 2");
        let sandbox = ids::session();
        let told = |seat: &Seat| {
            let news = seat.news(&sandbox);
            let others = news.others.clone();
            seat.told(news);
            others
        };
        assert!(told(&one).is_empty(), "the other one has not used it");
        assert_eq!(two.news(&sandbox).others, ["a 1"]);
        assert_eq!(told(&two), ["a 1"], "the answer before was never made");
        assert_eq!(told(&one), ["b 2"]);
        assert!(told(&one).is_empty() && told(&two).is_empty(), "once");
        idle(&two);
        assert!(told(&one).is_empty());
        drop(two.call());
        assert!(told(&one).is_empty(), "it only paused");
        drop(two);
        let three = seat(&seats, "acme", "three");
        three.sit("b", "b 2");
        told(&three);
        assert_eq!(told(&one), ["b 2"], "another one");
    }

    #[test]
    fn a_client_notices_that_its_sandbox_is_another_one() {
        let seats = Seats::default();
        let one = seat(&seats, "acme", "one");
        let (first, second) = (ids::session(), ids::session());
        let told = |sandbox: &SessionId| {
            let news = one.news(sandbox);
            let another = news.another;
            one.told(news);
            another
        };
        assert!(!told(&first) && !told(&first));
        assert!(one.news(&second).another);
        assert!(told(&second), "the answer before was never made");
        assert!(!told(&second), "once");
        one.gave_up();
        assert!(!told(&ids::session()));
    }
}
