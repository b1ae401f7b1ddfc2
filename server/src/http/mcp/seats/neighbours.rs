//! Who else is in a workspace: what a client is told of the others and of its sandbox, and what people see.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use glassbox_shared::id::SessionId;

use super::{Seat, Seats};
use crate::session::Session;

/// What a client is to be told. Whoever has this tells it, and no other of its calls; unless it was told in the end, it is
/// to be told again.
#[derive(Debug)]
pub(in crate::http::mcp) struct News<'a> {
    seat: &'a Seat,
    /// Its sandbox is another one than the one that it knows.
    pub another: bool,
    /// Clients that use the same workspace now.
    pub others: Vec<String>,
    /// `None`: it is in another one already, and this is about one that it had before.
    sandbox: Option<SessionId>,
    /// The one that it knew before.
    known: Option<SessionId>,
    numbers: Vec<u64>,
    was_told: bool,
}

impl News<'_> {
    /// The answer with it is made.
    pub(in crate::http::mcp) fn told(mut self) {
        self.was_told = true;
    }
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        if self.was_told {
            return;
        }
        let mut state = self.seat.state();
        for number in &self.numbers {
            state.told_of.remove(number);
        }
        if self.sandbox.is_some() && state.known == self.sandbox {
            state.known = self.known.take();
        }
    }
}

impl Seats {
    /// The clients that are present in this sandbox.
    pub(super) fn labels_in(&self, sandbox: &SessionId) -> Vec<String> {
        let all = self.all();
        let there = all.iter().filter(|seat| {
            let state = seat.state();
            state.is_present() && state.sandbox.as_ref() == Some(sandbox)
        });
        let mut labels: Vec<String> = there.filter_map(|seat| Some(seat.client.get()?.label.clone())).collect();
        labels.sort();
        labels
    }
}

impl Seat {
    /// Tells those of one name that are present in one workspace apart, from 1. It is given when something is called: a
    /// session that was begun, but whose client never heard of it, takes none.
    pub(in crate::http::mcp) fn nth(&self) -> usize {
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

    /// Other seats in the same workspace.
    fn neighbours(&self) -> Vec<Arc<Seat>> {
        self.seats.all().into_iter().filter(|seat| seat.number != self.number && seat.place == self.place).collect()
    }

    /// It is given this sandbox, and shown with it as long as it lives; with the one before no more.
    pub(in crate::http::mcp) fn enters(&self, session: &Session) {
        let mut state = self.state();
        state.sandbox = Some(session.id().clone());
        let before = state.shown_in.replace(session.clone()).filter(|before| before.id() != session.id());
        drop(state);
        for session in before.iter().chain([session]) {
            session.used_by(self.seats.labels_in(session.id()));
        }
    }

    /// What it is to be told in this sandbox.
    pub(in crate::http::mcp) fn news(&self, sandbox: &SessionId) -> News<'_> {
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
        if state.sandbox.as_ref() != Some(sandbox) {
            // Said here it would not be true, and what it knows of the one that it is in now stays as it is.
            let (others, numbers) = (Vec::new(), Vec::new());
            return News { seat: self, another: false, others, sandbox: None, known: None, numbers, was_told: false };
        }
        // Those who left come back under another number; those who pause do not.
        state.told_of.retain(|number| neighbours.iter().any(|seat| seat.number == *number));
        let new = present.into_iter().filter(|(number, _)| !state.told_of.contains(number));
        let (numbers, others): (Vec<u64>, Vec<String>) = new.unzip();
        state.told_of.extend(&numbers);
        let known = state.known.replace(sandbox.clone());
        let another = known.as_ref().is_some_and(|known| known != sandbox);
        News { seat: self, another, others, sandbox: Some(sandbox.clone()), known, numbers, was_told: false }
    }

    /// It gave its sandbox up itself.
    pub(in crate::http::mcp) fn gave_up(&self) {
        let mut state = self.state();
        state.sandbox = None;
        state.known = None;
    }
}
