//! What of a session changes often: its running commands, and when it was last used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use glassbox_shared::id::CommandId;

use super::view::Now;
use crate::clock;
use crate::command::Command;

/// Commands that are remembered for what the engine says late: more than can end in the two seconds that this takes.
const REMEMBERED: usize = 32;

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
    /// The last ones whose driver has ended: the engine may have a word about them yet.
    closed: VecDeque<Command>,
    last_used_at: f64,
    /// MCP clients that are connected to it.
    clients: Vec<String>,
}

impl Live {
    /// Begins; `newest` is the newest command so far.
    pub fn new(last_used_at: f64, newest: Option<Command>) -> Self {
        let (driven, closed) = (BTreeMap::new(), VecDeque::new());
        Self { state: Mutex::new(State { driven, newest, closed, last_used_at, clients: Vec::new() }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Used now.
    pub fn touch(&self) {
        self.lock().last_used_at = clock::now();
    }

    /// These clients are connected to it now; were they others before?
    pub fn set_clients(&self, clients: Vec<String>) -> bool {
        let mut state = self.lock();
        let changed = state.clients != clients;
        state.clients = clients;
        changed
    }

    /// MCP clients that are connected to it.
    pub fn clients(&self) -> Vec<String> {
        self.lock().clients.clone()
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
        if let Some((_, command)) = state.driven.remove(&number) {
            state.closed.push_front(command);
            state.closed.truncate(REMEMBERED);
        }
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

    /// The last ones whose driver has ended.
    pub fn closed(&self) -> Vec<Command> {
        self.lock().closed.iter().cloned().collect()
    }

    /// More is known now of a command that has ended.
    pub fn correct(&self, command: &Command) {
        let mut state = self.lock();
        let id = command.view().command_id;
        let is_it = |other: &Command| other.view().command_id == id;
        state.closed.retain(|other| !is_it(other));
        if state.newest.as_ref().is_some_and(is_it) {
            state.newest = Some(command.clone());
        }
    }

    /// The newest running command, else the newest one.
    pub fn latest(&self) -> Option<Command> {
        let state = self.lock();
        let running = state.driven.values().rev().map(|(_, command)| command).find(|command| !command.is_final());
        running.or(state.newest.as_ref()).cloned()
    }
}
