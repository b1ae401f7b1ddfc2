//! Ends all processes of a command: TERM, grace, KILL, and looks until nothing is left.
//!
//! ```text
//! Terminating ── nothing left ──────────────────────────────► over, signal TERM
//!      │ grace is over (at once when there is none)
//!      ▼
//!   Killing ──── nothing left in two looks in a row ────────► over, signal KILL
//!      └──────── still something after KILL_DEADLINE ───────► over, with survivors
//! ```
//!
//! A [`Kill`] is stepped by its owner's loop, which goes on relaying output meanwhile. It sends signals and reads the
//! process table; it knows nothing of frames and pipes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use glassbox_shared::command::Survivor;
use glassbox_shared::helper::{EndCause, MARK, MAX_SURVIVORS};
use glassbox_shared::id::CommandId;

use crate::process;
use crate::sys::{self, Pid, signal};
use crate::tree::{self, Found};

/// After KILL: how long processes may take to vanish before they are called survivors. KILL needs microseconds; only a
/// process that hangs in the kernel, or a fork bomb faster than we are, needs longer.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Looks in a row that must find nothing: a fork may be in progress during the first.
const QUIET_LOOKS: u32 = 2;

/// How a survivor is called that no look at the table catches.
const UNSEEN: &str = "a process that keeps replacing itself";

/// How long one attempt may take to stop everything that still forks. The owner's loop stands still meanwhile.
const FREEZE_DEADLINE: Duration = Duration::from_millis(300);

/// How long one attempt may take to end processes that replace each other faster than the table can be read, and how
/// long it must have been quiet to be over. The owner's loop stands still meanwhile.
const CHASE_DEADLINE: Duration = Duration::from_millis(50);
/// See [`CHASE_DEADLINE`].
const CHASE_QUIET: Duration = Duration::from_millis(2);

/// Pauses between looks: short at first, for most commands end at once, then doubling. A look reads all of `/proc`.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// A pause is at least this many times as long as the look before it: under gVisor a look at a hundred processes takes
/// tens of milliseconds, and those who are cleaning up after TERM need the CPU too.
const PAUSE_PER_LOOK: u32 = 3;

/// Where the processes of a command are looked for.
#[derive(Debug)]
pub struct Prey {
    /// Their ancestors, who are spared.
    pub roots: Vec<Pid>,
    mark: Vec<u8>,
}

impl Prey {
    /// The descendants of `roots`, and all that carry the command's mark.
    pub fn new(roots: Vec<Pid>, command: &CommandId) -> Self {
        Self { roots, mark: format!("{MARK}={command}").into_bytes() }
    }

    fn find(&self) -> Found {
        tree::find(&process::list(), &self.roots, |pid| process::is_marked(pid, &self.mark))
    }
}

/// How a kill went.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The last signal that was needed.
    pub signal: i32,
    /// From the first signal to the verified end.
    pub took: Duration,
    /// Who is still there, at most [`MAX_SURVIVORS`].
    pub survivors: Vec<Survivor>,
}

/// A kill at work.
#[derive(Debug)]
pub struct Kill {
    /// Why.
    pub cause: EndCause,
    began: Instant,
    /// When TERM has had its time.
    grace_ends: Instant,
    killing_since: Option<Instant>,
    /// Who got this stage's signal already.
    signalled: HashSet<(Pid, u64)>,
    quiet_looks: u32,
    next_look: Instant,
    pause: Duration,
}

impl Kill {
    /// Begins one; the first signals go out at the first [`step`](Self::step).
    pub fn new(cause: EndCause, grace: Duration, now: Instant) -> Self {
        Self {
            cause,
            began: now,
            grace_ends: now + grace,
            killing_since: None,
            signalled: HashSet::new(),
            quiet_looks: 0,
            next_look: now,
            pause: FIRST_PAUSE,
        }
    }

    /// Someone is less patient: the grace ends this long from now, unless it ends sooner anyway.
    pub fn shorten(&mut self, grace: Duration, now: Instant) {
        self.grace_ends = self.grace_ends.min(now + grace);
        if self.killing_since.is_none() {
            self.next_look = self.next_look.min(self.grace_ends);
        }
    }

    /// When [`step`](Self::step) should be called next.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// It looks as if all were over: look now.
    pub fn hurry(&mut self, now: Instant) {
        self.next_look = self.next_look.min(now);
    }

    /// Looks once, and sends what is due. `childless` is what waitpid said, for a subreaper that hunts its own
    /// descendants: as long as it has children there is something left, whatever the table says.
    pub fn step(&mut self, prey: &Prey, childless: Option<bool>) -> Option<Outcome> {
        let now = Instant::now();
        let found = prey.find();
        let look = now.elapsed();
        if !found.processes.is_empty() {
            self.quiet_looks = 0;
        } else if childless.unwrap_or(found.is_certain) {
            self.quiet_looks += 1;
            if self.quiet_looks >= QUIET_LOOKS {
                return Some(self.outcome(Vec::new()));
            }
            self.next_look = now + FIRST_PAUSE;
            return None;
        }
        if self.killing_since.is_none() && now >= self.grace_ends {
            self.killing_since = Some(now);
            self.signalled.clear();
            self.pause = FIRST_PAUSE;
        }
        match self.killing_since {
            None => self.terminate(&found),
            Some(since) if now.duration_since(since) > KILL_DEADLINE => {
                return Some(self.outcome(survivors(&found)));
            }
            Some(since) => self.kill(prey, found, since == now),
        }
        let now = Instant::now();
        self.next_look = now + self.pause.max(look * PAUSE_PER_LOOK);
        if self.killing_since.is_none() {
            self.next_look = self.next_look.min(self.grace_ends.max(now));
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        None
    }

    /// TERM to everyone, once: some programs take a second one for impatience. Parents get it first, so that a shell
    /// does not go on with its next line when its child has ended.
    fn terminate(&mut self, found: &Found) {
        let fresh: Vec<Pid> = found
            .processes
            .iter()
            .filter(|process| self.signalled.insert(process.identity()))
            .map(|process| process.pid)
            .collect();
        // Whoever vanished meanwhile needs no signal; whoever may not be signalled will be a survivor.
        for pid in &fresh {
            let _ = sys::send(*pid, signal::TERM);
        }
        for pid in &fresh {
            let _ = sys::send(*pid, signal::CONT);
        }
    }

    /// KILL to everyone. When new ones turn up although KILL went out before, they fork faster than we kill: stop them
    /// all first.
    fn kill(&mut self, prey: &Prey, mut found: Found, is_first: bool) {
        let fresh = found.processes.iter().filter(|process| self.signalled.insert(process.identity())).count();
        if fresh > 0 && !is_first {
            found = freeze(prey, found);
            self.signalled.extend(found.processes.iter().map(|process| process.identity()));
        }
        send_to_all(&found, signal::KILL);
        chase(&prey.roots);
    }

    fn outcome(&self, survivors: Vec<Survivor>) -> Outcome {
        Outcome {
            signal: if self.killing_since.is_some() { signal::KILL } else { signal::TERM },
            took: self.began.elapsed(),
            survivors,
        }
    }
}

/// Stops all until nobody is left who could fork. A stopped process keeps its place under the sandbox's process limit,
/// so even a fork bomb comes to rest.
fn freeze(prey: &Prey, mut found: Found) -> Found {
    let until = Instant::now() + FREEZE_DEADLINE;
    while found.processes.iter().any(|process| !process.is_stopped) && Instant::now() < until {
        send_to_all(&found, signal::STOP);
        found = prey.find();
    }
    found
}

/// Ends the children of the roots one by one as they appear. Whoever loses its parent becomes one, so a chain of
/// processes, each of which starts the next and ends, has to pass through here.
fn chase(roots: &[Pid]) {
    let began = Instant::now();
    let mut last_seen = began;
    // Ids are not used again meanwhile: whoever ends stays in the table until we reap it.
    let mut seen = HashSet::new();
    while last_seen.elapsed() < CHASE_QUIET && began.elapsed() < CHASE_DEADLINE {
        for pid in roots.iter().flat_map(|root| process::children(*root)) {
            if !roots.contains(&pid) && seen.insert(pid) {
                let _ = sys::send(pid, signal::KILL);
                last_seen = Instant::now();
            }
        }
    }
}

fn send_to_all(found: &Found, signal: i32) {
    for group in &found.groups {
        let _ = sys::send_to_group(*group, signal);
    }
    for process in &found.processes {
        let _ = sys::send(process.pid, signal);
    }
}

/// Who is left when time is up. There is somebody even if this look found nobody: it was not quiet.
fn survivors(found: &Found) -> Vec<Survivor> {
    if found.processes.is_empty() {
        return vec![Survivor { pid: 0, name: UNSEEN.to_owned() }];
    }
    found
        .processes
        .iter()
        .take(MAX_SURVIVORS)
        .map(|process| Survivor { pid: process.pid, name: process::name(process.pid) })
        .collect()
}
