//! The commands of one session, newest first, page by page.

use std::collections::BTreeMap;

use glassbox_shared::command::{CommandList, CommandState, CommandView};
use glassbox_shared::id::CommandId;
use glassbox_shared::session::RestartView;

/// What is known of a session's commands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Book {
    by_number: BTreeMap<u64, CommandView>,
    numbers: BTreeMap<CommandId, u64>,
    /// Give it as `before` to get older ones; `None`: the oldest is here.
    pub next: Option<u64>,
}

/// An entry of the time line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A command.
    Command(CommandId),
    /// A restart, by its place in the session's list of restarts.
    Restart(usize),
}

/// How far a command is: starting, running, ended.
pub fn stage(state: &CommandState) -> u8 {
    match state {
        CommandState::Starting => 0,
        CommandState::Running => 1,
        _ => 2,
    }
}

/// What a new view of a known command changes.
fn merge(known: &mut CommandView, mut new: CommandView) {
    // An answer that was under way may be older than the event that overtook it. A command never goes back, and
    // output never shrinks.
    if stage(&new.state) < stage(&known.state) {
        return;
    }
    new.output_bytes = new.output_bytes.max(known.output_bytes);
    if known.last_output_at > new.last_output_at {
        new.last_output_at = known.last_output_at;
    }
    *known = new;
}

impl Book {
    /// Takes a view in. True: it is new.
    pub fn apply(&mut self, command: CommandView) -> bool {
        match self.by_number.get_mut(&command.number) {
            Some(known) if known.command_id == command.command_id => {
                merge(known, command);
                false
            }
            _ => {
                self.numbers.insert(command.command_id.clone(), command.number);
                self.by_number.insert(command.number, command);
                true
            }
        }
    }

    /// Takes the first page in, again or for the first time. A hole between it and what was known drops the older ones.
    pub fn first_page(&mut self, list: CommandList) {
        let oldest_new = list.commands.iter().map(|command| command.number).min();
        let newest_known = self.by_number.last_key_value().map(|(number, _)| *number);
        let hole = matches!((oldest_new, newest_known), (Some(new), Some(known)) if new > known + 1);
        if hole || self.by_number.is_empty() {
            *self = Self { next: list.next, ..Self::default() };
        }
        for command in list.commands {
            self.apply(command);
        }
    }

    /// Takes an older page in.
    pub fn older_page(&mut self, list: CommandList) {
        self.next = list.next;
        for command in list.commands {
            self.apply(command);
        }
    }

    /// Output grew.
    pub fn progress(&mut self, id: &CommandId, output_bytes: u64, last_output_at: f64) -> bool {
        let Some(command) = self.numbers.get(id).and_then(|number| self.by_number.get_mut(number)) else {
            return false;
        };
        command.output_bytes = command.output_bytes.max(output_bytes);
        command.last_output_at = Some(command.last_output_at.unwrap_or(0.0).max(last_output_at));
        true
    }

    /// One of them.
    pub fn get(&self, id: &CommandId) -> Option<&CommandView> {
        self.by_number.get(self.numbers.get(id)?)
    }

    /// The newest.
    pub fn newest(&self) -> Option<&CommandView> {
        self.by_number.last_key_value().map(|(_, command)| command)
    }

    /// Newest first.
    pub fn iter(&self) -> impl Iterator<Item = &CommandView> {
        self.by_number.values().rev()
    }

    /// Commands and restarts by time, newest first.
    pub fn time_line(&self, restarts: &[RestartView]) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.by_number.len() + restarts.len());
        let mut restarts = restarts.iter().enumerate().rev().peekable();
        for command in self.iter() {
            while let Some((index, _)) = restarts.next_if(|(_, restart)| restart.at >= command.created_at) {
                entries.push(Entry::Restart(index));
            }
            entries.push(Entry::Command(command.command_id.clone()));
        }
        // Restarts before the oldest command that is loaded belong to the pages that are not.
        if self.next.is_none() {
            entries.extend(restarts.map(|(index, _)| Entry::Restart(index)));
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;

    fn page(numbers: &[u64], next: Option<u64>) -> CommandList {
        CommandList { commands: numbers.iter().map(|number| samples::command(*number, "make")).collect(), next }
    }

    fn numbers(book: &Book) -> Vec<u64> {
        book.iter().map(|command| command.number).collect()
    }

    #[test]
    fn pages_join_newest_first() {
        let mut book = Book::default();
        book.first_page(page(&[5, 4], Some(4)));
        book.older_page(page(&[3, 2], Some(2)));
        assert_eq!((numbers(&book), book.next), (vec![5, 4, 3, 2], Some(2)));
        book.first_page(page(&[6, 5], Some(5)));
        assert_eq!((numbers(&book), book.next), (vec![6, 5, 4, 3, 2], Some(2)), "older pages stay");
    }

    #[test]
    fn a_hole_after_a_long_absence_is_not_papered_over() {
        let mut book = Book::default();
        book.first_page(page(&[5, 4], Some(4)));
        book.first_page(page(&[90, 89], Some(89)));
        assert_eq!((numbers(&book), book.next), (vec![90, 89], Some(89)));
    }

    #[test]
    fn an_end_is_never_taken_back_by_an_older_answer() {
        let mut book = Book::default();
        let mut ended = samples::command(1, "make");
        ended.state = CommandState::Exited { code: 2 };
        ended.output_bytes = 90;
        assert!(book.apply(ended.clone()));
        let running = CommandView { state: CommandState::Running, output_bytes: 10, ..ended.clone() };
        assert!(!book.apply(running));
        assert_eq!(book.newest(), Some(&ended));
    }

    #[test]
    fn a_command_that_runs_does_not_start_again_by_an_older_answer() {
        let mut book = Book::default();
        let mut command = samples::command(1, "make");
        command.state = CommandState::Running;
        book.apply(command.clone());
        book.apply(CommandView { state: CommandState::Starting, ..command.clone() });
        assert_eq!(book.newest(), Some(&command));
    }

    #[test]
    fn output_only_grows() {
        let mut book = Book::default();
        let command = samples::command(1, "make");
        book.apply(command.clone());
        assert!(book.progress(&command.command_id, 100, 7.0));
        book.apply(command.clone());
        assert_eq!(book.newest().map(|c| (c.output_bytes, c.last_output_at)), Some((100, Some(7.0))));
        assert!(!book.progress(&samples::command_id(9), 1, 1.0));
    }

    #[test]
    fn restarts_stand_where_they_happened() {
        let mut book = Book::default();
        book.first_page(page(&[3, 2], Some(2)));
        let restarts = [samples::restart(0.5), samples::restart(2.5)];
        let kinds: Vec<Entry> = book.time_line(&restarts);
        assert_eq!(
            kinds,
            [Entry::Command(samples::command_id(3)), Entry::Restart(1), Entry::Command(samples::command_id(2))]
        );
        book.older_page(page(&[1], None));
        assert_eq!(book.time_line(&restarts).last(), Some(&Entry::Restart(0)));
    }
}
