//! Reads `/proc`: which processes there are, who their parents are, and which command they are marked with.
//!
//! What stands there was partly written by hostile programs (names, arguments, environments). Nothing here fails: a
//! process that vanishes or may not be read while we look is left out.

use std::fs::{self, File};
use std::io::Read;

use glassbox_shared::helper::MARK;
use glassbox_shared::id::CommandId;
use glassbox_shared::text;

use crate::sys::Pid;

/// Longest name that a survivor is reported with, in characters.
const LONGEST_NAME: usize = 64;

/// How much of an environment is searched for the mark. The kernel allows 2 MiB and more, but ours is at most a few
/// hundred KiB, and a process that hides from the mark behind a larger one is still found as a descendant.
const LONGEST_ENVIRONMENT: u64 = 1024 * 1024;

/// One process as it was when `/proc` was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its parent's; 0: none in this PID namespace.
    pub parent: Pid,
    /// Its process group.
    pub group: Pid,
    /// When it started, in clock ticks: tells it from a later process with the same id.
    pub started: u64,
    /// Stopped by a signal?
    pub is_stopped: bool,
    /// Ended, and only waiting to be reaped? A process whose first thread ended before the others looks like a zombie
    /// and is none.
    pub is_zombie: bool,
}

impl Process {
    /// What tells this process from all others, even after its id was used again.
    pub fn identity(self) -> (Pid, u64) {
        (self.pid, self.started)
    }
}

/// Parses `/proc/PID/stat`; see proc(5). The name, in parentheses, may hold anything, parentheses and spaces included.
fn parse_stat(text: &str) -> Option<Process> {
    let (pid, _) = text.split_once(' ')?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The state, the first after the name, is field 3 of the manual page.
    let field = |number: usize| fields.get(number - 3).copied();
    let state = field(3)?;
    let threads: u64 = field(20)?.parse().ok()?;
    Some(Process {
        pid: pid.parse().ok()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
        is_stopped: matches!(state, "T" | "t"),
        is_zombie: matches!(state, "Z" | "X") && threads <= 1,
    })
}

fn read(pid: Pid) -> Option<Process> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

/// Every process that there is, zombies included.
pub fn list() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(read).collect()
}

/// The children of a process, without reading the whole table; empty where the kernel does not tell.
pub fn children(pid: Pid) -> Vec<Pid> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Does the environment that this process was started with say that it belongs to a command? `mark` is `NAME=value`.
pub fn is_marked(pid: Pid, mark: &[u8]) -> bool {
    has_variable(pid, |variable| variable == mark)
}

/// Does it say that this process belongs to any command?
pub fn is_anyones(pid: Pid) -> bool {
    has_variable(pid, |variable| variable.strip_prefix(MARK.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

fn has_variable(pid: Pid, is_it: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let mut environment = Vec::new();
    // What was read before an error is searched all the same.
    let _ = file.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment);
    environment.split(|byte| *byte == 0).any(is_it)
}

/// Is this the helper of that command? Anyone can call itself so; it is then ended with the command.
pub fn is_helper_of(pid: Pid, command: &CommandId) -> bool {
    let Ok(bytes) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let mut words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    program.rsplit(|byte| *byte == b'/').next() == Some(env!("CARGO_PKG_NAME").as_bytes())
        && words.next() == Some(b"run")
        && words.next() == Some(command.as_str().as_bytes())
        && words.next().is_none()
}

/// Its name, made printable and short.
pub fn name(pid: Pid) -> String {
    let bytes = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    text::plain(String::from_utf8_lossy(&bytes).trim_end_matches('\n')).chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = "4242 (a) R 1 (b c) T 77 4000 3999 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1 2\n";
        let expected =
            Process { pid: 4242, parent: 77, group: 4000, started: 987_654, is_stopped: true, is_zombie: false };
        assert_eq!(parse_stat(line), Some(expected));
    }

    #[test]
    fn a_process_whose_first_thread_ended_is_no_zombie_while_others_run() {
        let line = |threads: u32| format!("9 (x) Z 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0");
        assert!(parse_stat(&line(1)).expect("a line").is_zombie);
        assert!(!parse_stat(&line(2)).expect("a line").is_zombie);
    }

    #[test]
    fn this_process_is_in_the_list_with_its_parent() {
        let me = std::process::id() as Pid;
        let parent = std::os::unix::process::parent_id() as Pid;
        assert!(list().iter().any(|process| process.pid == me && process.parent == parent && !process.is_zombie));
    }

    proptest! {
        #[test]
        fn nonsense_never_panics(line in "\\PC{0,80}") {
            let _ = parse_stat(&line);
        }

        #[test]
        fn any_name_is_skipped(name in "[^\0]{0,15}") {
            let process = parse_stat(&format!("5 ({name}) S 4 3 2 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 6 0"));
            prop_assert_eq!(process.map(|p| (p.pid, p.parent, p.group, p.started)), Some((5, 4, 3, 6)));
        }
    }
}
