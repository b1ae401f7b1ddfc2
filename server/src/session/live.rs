//! What of a session changes often: its running commands, and when it was last used.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use glassbox_shared::id::CommandId;

use super::view::Now;
use crate::clock;
use crate::command::Command;

/// Shared between a session's owner and its handles; every section is short and none waits.
#[derive(Debug)]
pub struct Live {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Commands whose driver is at work, by number: running ones, and ended ones whose output is still open.
    driven: BTreeMap<u64, (CommandId, Command)>,
    newest: Option<Command>,
    last_used_at: f64,
}

impl Live {
    /// Begins; `newest` is the newest command so far.
    pub fn new(last_used_at: f64, newest: Option<Command>) -> Self {
        Self { state: Mutex::new(State { driven: BTreeMap::new(), newest, last_used_at }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Used now.
    pub fn touch(&self) {
        self.lock().last_used_at = clock::now();
    }

    /// What a view needs.
    pub fn now(&self) -> Now {
        let state = self.lock();
        let running = state.driven.values().filter(|(_, command)| !command.is_final()).count() as u64;
        // A running command is use.
        let last_used_at = if running > 0 { clock::now() } else { state.last_used_at };
        Now { last_used_at, running }
    }

    /// A driver has begun.
    pub fn add(&self, number: u64, id: CommandId, command: Command) {
        let mut state = self.lock();
        state.newest = Some(command.clone());
        state.driven.insert(number, (id, command));
        state.last_used_at = clock::now();
    }

    /// A driver has ended.
    pub fn remove(&self, number: u64) {
        let mut state = self.lock();
        state.driven.remove(&number);
        state.last_used_at = clock::now();
    }

    /// A command whose driver is at work.
    pub fn get(&self, id: &CommandId) -> Option<Command> {
        self.lock().driven.values().find(|(known, _)| known == id).map(|(_, command)| command.clone())
    }

    /// Every command whose driver is at work.
    pub fn driven(&self) -> Vec<Command> {
        self.lock().driven.values().map(|(_, command)| command.clone()).collect()
    }

    /// The newest running command, else the newest one.
    pub fn latest(&self) -> Option<Command> {
        let state = self.lock();
        let running = state.driven.values().rev().map(|(_, command)| command).find(|command| !command.is_final());
        running.or(state.newest.as_ref()).cloned()
    }
}
