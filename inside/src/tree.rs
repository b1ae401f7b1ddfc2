//! Which processes belong to a command: a pure look at one snapshot of the process table.

use std::collections::{HashMap, HashSet};

use crate::process::Process;
use crate::sys::Pid;

/// What one look at the process table found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The living processes of the command, parents before their children.
    pub processes: Vec<Process>,
    /// Process groups that have members of the command only. They can be signalled as a whole, which also reaches what
    /// was forked since the look.
    pub groups: Vec<Pid>,
    /// False when the look came in the middle of a change: a parent ended while the table was being read, so that
    /// somebody's place in the tree is unknown.
    pub is_certain: bool,
}

/// Finds the living descendants of `roots` (who do not belong to it themselves), and those of whom `is_marked` says
/// that they belong to it, with their descendants. PID 1 never does.
pub fn find(table: &[Process], roots: &[Pid], mut is_marked: impl FnMut(Pid) -> bool) -> Found {
    let mut tree = Tree { children: HashMap::new(), members: Vec::new(), seen: HashSet::from([1]) };
    tree.seen.extend(roots);
    for process in table {
        tree.children.entry(process.parent).or_default().push(*process);
    }
    for root in roots {
        tree.add(tree.children_of(*root));
    }
    for process in table {
        // Descendants need no mark, and zombies have none.
        if !process.is_zombie && !tree.seen.contains(&process.pid) && is_marked(process.pid) {
            tree.add(vec![*process]);
        }
    }

    let members: HashSet<Pid> = tree.members.iter().map(|process| process.pid).collect();
    let strangers: HashSet<Pid> =
        table.iter().filter(|process| !members.contains(&process.pid)).map(|process| process.group).collect();
    let mut groups: Vec<Pid> = tree.members.iter().map(|process| process.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|group| *group > 1 && !strangers.contains(group));

    let pids: HashSet<Pid> = table.iter().map(|process| process.pid).collect();
    Found {
        processes: tree.members.into_iter().filter(|process| !process.is_zombie).collect(),
        groups,
        is_certain: table.iter().all(|process| process.parent == 0 || pids.contains(&process.parent)),
    }
}

struct Tree {
    children: HashMap<Pid, Vec<Process>>,
    members: Vec<Process>,
    seen: HashSet<Pid>,
}

impl Tree {
    fn children_of(&self, pid: Pid) -> Vec<Process> {
        self.children.get(&pid).cloned().unwrap_or_default()
    }

    /// Takes these in, and all that is below them, generation by generation.
    fn add(&mut self, mut generation: Vec<Process>) {
        while !generation.is_empty() {
            generation.retain(|process| self.seen.insert(process.pid));
            self.members.extend_from_slice(&generation);
            generation = generation.iter().flat_map(|process| self.children_of(process.pid)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(pid: Pid, parent: Pid, group: Pid) -> Process {
        Process { pid, parent, group, started: 1, is_stopped: false, is_zombie: false }
    }

    fn pids(found: &Found) -> Vec<Pid> {
        found.processes.iter().map(|process| process.pid).collect()
    }

    /// PID 1; a helper (10) with a command (11) that has a child (12) and a daemon (13) in a group of its own; another
    /// helper (20) with its command (21).
    fn two_commands() -> Vec<Process> {
        vec![
            process(1, 0, 1),
            process(10, 0, 10),
            process(11, 10, 11),
            process(12, 11, 11),
            process(13, 10, 13),
            process(20, 0, 20),
            process(21, 20, 21),
        ]
    }

    #[test]
    fn the_tree_is_all_descendants_and_nobody_else() {
        let found = find(&two_commands(), &[10], |_| false);
        assert_eq!(pids(&found), [11, 13, 12]);
        assert_eq!(found.groups, [11, 13]);
        assert!(found.is_certain);
    }

    #[test]
    fn a_marked_process_belongs_to_it_wherever_it_stands_and_so_do_its_children() {
        let mut table = two_commands();
        table.extend([process(30, 1, 30), process(31, 30, 30)]);
        let found = find(&table, &[10], |pid| pid == 30);
        assert_eq!(pids(&found), [11, 13, 12, 30, 31]);
    }

    #[test]
    fn pid_1_and_the_roots_never_belong_to_it_even_when_marked() {
        assert_eq!(pids(&find(&two_commands(), &[10], |pid| pid == 1 || pid == 10)), [11, 13, 12]);
    }

    #[test]
    fn a_group_with_a_stranger_in_it_is_not_signalled_as_a_whole() {
        let mut table = two_commands();
        table.push(process(22, 20, 13));
        assert_eq!(find(&table, &[10], |_| false).groups, [11]);
    }

    #[test]
    fn the_dead_are_not_counted_but_their_children_are() {
        let mut table = two_commands();
        table[2].is_zombie = true;
        assert_eq!(pids(&find(&table, &[10], |_| false)), [13, 12]);
    }

    #[test]
    fn a_parent_that_vanished_during_the_look_makes_it_uncertain() {
        let mut table = two_commands();
        table.push(process(40, 39, 39));
        assert!(!find(&table, &[10], |_| false).is_certain);
    }

    proptest! {
        /// Any table at all, loops and duplicates included: it ends, nobody is named twice, and everyone named can be
        /// traced to a root or a mark.
        #[test]
        fn any_table_gives_each_process_at_most_once_and_only_with_a_reason(
            rows in proptest::collection::vec((1..30_i32, 0..30_i32, 0..30_i32), 0..60),
            root in 1..30_i32,
            marked in 1..30_i32,
        ) {
            let table: Vec<Process> = rows.into_iter().map(|(pid, parent, group)| process(pid, parent, group)).collect();
            let found = find(&table, &[root], |pid| pid == marked);
            let named: HashSet<Pid> = found.processes.iter().map(|process| process.pid).collect();
            prop_assert_eq!(named.len(), found.processes.len());
            prop_assert!(!named.contains(&1) && !named.contains(&root));
            for process in &found.processes {
                prop_assert!(process.pid == marked || process.parent == root || named.contains(&process.parent));
            }
            for group in &found.groups {
                prop_assert!(table.iter().all(|process| process.group != *group || named.contains(&process.pid)));
            }
        }
    }
}
