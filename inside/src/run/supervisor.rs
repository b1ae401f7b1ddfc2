//! Watches over one command: relays its output, ends it when told to, and says how it ended.
//!
//! ```text
//! Running ── its process ended ──► Settling ── all it wrote is sent ──► Lingering ── pipes at their end ──► Closed
//!    │                                │          (Ended: Own)              │            (OutputClosed)
//!    └───────── a kill is over ───────┴────────────────────────────────────┤
//!                                                                          ▼
//!                       LastBytes ── all they wrote is sent ──► Draining ── end, or enough ──► Closed
//!                                     (Ended, if not said)                (OutputClosed)
//! ```
//!
//! A kill (asked for, or because of the limit, or because the server is gone) works beside these phases and does not wait
//! for the reader of our output. One thread, one loop: nothing in it waits except the poll at its end.
//!
//! A server that lives but does not read is waited for without a deadline, as a pipe would: losing what it is owed would
//! be worse, and its stdin tells us when it is gone.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use glassbox_shared::helper::{EndCause, Ended, ExitStatus, FromHelper, MAX_OUTPUT, Start, ToHelper};
use glassbox_shared::id::CommandId;

use super::child::Child;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::output::Output;
use crate::kill::{Kill, Outcome, Prey};
use crate::sys::{self, Pid, Reaped, Watch, signal};

/// Grace when the server is gone: nobody is left to care how the command ends, but it may have files to close.
const GRACE_WITHOUT_SERVER: Duration = Duration::from_secs(2);

/// Longest grace that is honoured; the API allows less. Beyond it a frame is nonsense, and the sum with a time must not
/// overflow.
const LONGEST_GRACE: Duration = Duration::from_hours(24);

/// What survivors of a kill may still write before the output is given up.
const LAST_OUTPUT_BYTES: usize = 1024 * 1024;
/// For how long they may.
const LAST_OUTPUT_TIME: Duration = Duration::from_secs(1);

/// Ended children taken in at once, so that a storm of them does not keep us from the server.
const REAPED_AT_ONCE: u32 = 1024;

/// Where the command is; the picture is above.
#[derive(Debug)]
enum Phase {
    /// Its own process lives.
    Running,
    /// It ended by itself; this is to be said when all it wrote is sent.
    Settling(Ended),
    /// That was said; background children hold the output open.
    Lingering,
    /// A kill is over; this (unless said before) is to be said when all that was written before is sent.
    LastBytes(Option<Ended>),
    /// Survivors hold the output open; they get a little more time.
    Draining { bytes_left: usize, until: Instant },
    /// All is said. What is still unsent is on its way.
    Closed,
}

/// What the poll found.
#[derive(Debug, Default, Clone, Copy)]
struct Ready {
    children: bool,
    incoming: bool,
    output: bool,
}

/// One command and everything that belongs to it.
#[derive(Debug)]
pub struct Supervisor {
    phase: Phase,
    child: Pid,
    /// When its own process began.
    began: Instant,
    /// How that ended, once it has, …
    status: Option<ExitStatus>,
    /// … and after how many milliseconds.
    ran_ms: Option<u64>,
    /// Did waitpid say that no child is left? Then there are no descendants.
    is_childless: bool,
    /// May there be more ended children to take in?
    has_more_to_reap: bool,
    limit_at: Option<Instant>,
    limit_grace: Duration,
    kill: Option<Kill>,
    prey: Prey,
    is_server_gone: bool,
    incoming: Incoming,
    outgoing: Outgoing,
    output: Output,
    /// Becomes readable when a child ends.
    children: File,
}

impl Supervisor {
    /// For a command that was just started.
    pub fn new(
        command: &CommandId,
        start: &Start,
        child: Child,
        incoming: Incoming,
        outgoing: Outgoing,
        children: File,
    ) -> Self {
        Self {
            phase: Phase::Running,
            child: child.pid,
            began: child.began,
            status: None,
            ran_ms: None,
            is_childless: false,
            has_more_to_reap: false,
            // A limit beyond all times is none.
            limit_at: Instant::now().checked_add(Duration::from_millis(start.limit_ms)),
            limit_grace: grace(start.grace_ms),
            kill: None,
            prey: Prey::new(vec![std::process::id() as Pid], command),
            is_server_gone: false,
            incoming,
            outgoing,
            output: Output::new(child.pipes),
            children,
        }
    }

    /// Stays until all is said and sent, or until the server is gone and the command ended.
    pub fn supervise(mut self) -> io::Result<()> {
        let result = self.work();
        // Whoever is left goes to PID 1. A gVisor of 2024-07 was seen to end the whole sandbox with a subreaper that had
        // descendants (though not when tried again with 20240729).
        sys::set_subreaper(false).and(result)
    }

    fn work(&mut self) -> io::Result<()> {
        let mut ready = Ready { children: true, ..Ready::default() };
        loop {
            if ready.children || self.has_more_to_reap || self.kill.is_some() {
                self.reap()?;
            }
            self.hear(ready.incoming)?;
            self.check_limit()?;
            self.step_kill();
            if ready.output {
                self.relay();
            }
            self.advance();
            self.send()?;
            if self.is_over() {
                return Ok(());
            }
            ready = self.wait()?;
        }
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Running | Phase::Settling(_) | Phase::Lingering => false,
            Phase::LastBytes(_) | Phase::Draining { .. } => self.is_server_gone,
            Phase::Closed => self.is_server_gone || self.outgoing.is_empty(),
        }
    }

    /// With too much unsent, the pipes are left alone, and the command waits for the reader. Without a reader they are
    /// emptied, so that nobody's last words block.
    fn takes_output(&self) -> bool {
        self.is_server_gone || self.outgoing.has_room()
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let mut watches = vec![Watch::read(self.children.as_fd())];
        if !self.is_server_gone {
            watches.extend([self.incoming.watch(), self.outgoing.watch()]);
        }
        let conversation = watches.len();
        if self.takes_output() {
            watches.extend(self.output.watches());
        }
        sys::poll(&mut watches, self.next_deadline().map(|at| at.saturating_duration_since(Instant::now())))?;
        let mut ready = Ready {
            children: watches[0].is_ready(),
            incoming: false,
            output: watches[conversation..].iter().any(|watch| watch.is_ready()),
        };
        if let [_, incoming, outgoing] = watches[..conversation] {
            ready.incoming = incoming.is_ready();
            if outgoing.is_ready() {
                self.outgoing.unblock();
            }
            if outgoing.is_broken() {
                self.lose_server()?;
            }
        }
        Ok(ready)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let limit = self.limit_at.filter(|_| self.is_limited());
        let look = self.kill.as_ref().map(Kill::next_look);
        let drained = if let Phase::Draining { until, .. } = self.phase { Some(until) } else { None };
        let now = self.has_more_to_reap.then(Instant::now);
        [limit, look, drained, now].into_iter().flatten().min()
    }

    /// Takes ended children out of the process table, orphaned descendants among them.
    fn reap(&mut self) -> io::Result<()> {
        // One read takes all that is pending: the signal is there once however many children ended.
        let mut pending = [0_u8; 128];
        while self.children.read(&mut pending).is_ok_and(|length| length > 0) {}
        self.has_more_to_reap = false;
        let was_childless = self.is_childless;
        for _ in 0..REAPED_AT_ONCE {
            match sys::reap()? {
                Reaped::Process(pid, status) if pid == self.child && self.status.is_none() => {
                    self.note_end(status);
                }
                Reaped::Process(..) => {}
                Reaped::NoneYet => return Ok(()),
                Reaped::Childless => {
                    self.is_childless = true;
                    if let Some(kill) = self.kill.as_mut().filter(|_| !was_childless) {
                        kill.hurry(Instant::now());
                    }
                    return Ok(());
                }
            }
        }
        self.has_more_to_reap = true;
        Ok(())
    }

    /// The command's own process ended. If a kill is at work, the end is said when the kill is over.
    fn note_end(&mut self, status: ExitStatus) {
        self.status = Some(status);
        self.ran_ms = Some(milliseconds(self.began.elapsed()));
        if self.kill.is_none() {
            self.output.mark();
            self.phase = Phase::Settling(Ended {
                status,
                cause: EndCause::Own,
                signal: 0,
                took_ms: 0,
                ran_ms: self.ran_ms,
                survivors: Vec::new(),
            });
        }
    }

    /// Does what the server says.
    fn hear(&mut self, is_ready: bool) -> io::Result<()> {
        if self.is_server_gone {
            return Ok(());
        }
        if is_ready && self.incoming.read().is_err() {
            return self.lose_server();
        }
        loop {
            match self.incoming.next() {
                Ok(None) => return Ok(()),
                Ok(Some(ToHelper::Kill { grace_ms })) => {
                    self.end_all(EndCause::Kill, grace(grace_ms))?;
                }
                Ok(Some(ToHelper::Signal(number))) => self.pass_signal(number),
                // Nobody can send these with effect yet: a start that asks for stdin or a terminal is refused.
                Ok(Some(ToHelper::Input(_) | ToHelper::EndOfInput | ToHelper::Resize(_))) => {}
                Ok(Some(ToHelper::Start(_))) | Err(_) => return self.lose_server(),
            }
        }
    }

    /// To the process group of the command, while its own process lives (so that the number is surely still its own).
    fn pass_signal(&self, number: i32) {
        if self.status.is_none() && (1..=signal::LAST).contains(&number) {
            // It may be gone by now; then its end is what the server hears.
            let _ = sys::send_to_group(self.child, number);
        }
    }

    /// The server is gone, or speaks nonsense: the command ends, and so does what it left behind.
    fn lose_server(&mut self) -> io::Result<()> {
        if self.is_server_gone {
            return Ok(());
        }
        self.is_server_gone = true;
        self.end_all(EndCause::Kill, GRACE_WITHOUT_SERVER)
    }

    /// The limit is for the command's own process; what it left behind lives as long as the session lets it.
    fn is_limited(&self) -> bool {
        matches!(self.phase, Phase::Running) && self.kill.is_none()
    }

    fn check_limit(&mut self) -> io::Result<()> {
        if self.is_limited() && self.limit_at.is_some_and(|at| at <= Instant::now()) {
            self.reap()?;
            if self.is_limited() {
                self.end_all(EndCause::Limit, self.limit_grace)?;
            }
        }
        Ok(())
    }

    /// Begins a kill, or makes the one that is at work less patient.
    fn end_all(&mut self, cause: EndCause, grace: Duration) -> io::Result<()> {
        // A process that has ended by now ended by itself.
        self.reap()?;
        let now = Instant::now();
        match (&self.phase, &mut self.kill) {
            (Phase::Running | Phase::Settling(_) | Phase::Lingering, kill @ None) => {
                *kill = Some(Kill::new(cause, grace, now));
            }
            (_, Some(kill)) => kill.shorten(grace, now),
            // A kill is over, or all is said.
            (_, None) => {}
        }
        Ok(())
    }

    fn step_kill(&mut self) {
        let Some(kill) = self.kill.as_mut().filter(|kill| kill.next_look() <= Instant::now()) else {
            return;
        };
        let Some(Outcome { signal, took, survivors }) = kill.step(&self.prey, Some(self.is_childless)) else {
            return;
        };
        let cause = kill.cause;
        self.kill = None;
        self.output.mark();
        self.phase = Phase::LastBytes(match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Running => Some(Ended {
                status: self.status.unwrap_or(ExitStatus::Unknown),
                cause,
                signal,
                took_ms: milliseconds(took),
                ran_ms: self.ran_ms,
                survivors,
            }),
            Phase::Settling(ended) => Some(ended),
            Phase::Lingering | Phase::LastBytes(_) | Phase::Draining { .. } | Phase::Closed => None,
        });
    }

    /// Reads what the command wrote, and passes it on.
    fn relay(&mut self) {
        if self.is_server_gone {
            let mut nowhere = vec![0; MAX_OUTPUT];
            self.output.read(|_, pipe| Some(pipe.read(&mut nowhere)));
            return;
        }
        let (outgoing, phase) = (&mut self.outgoing, &mut self.phase);
        // Until there is nothing more, or no room: then it is sent, and all else is looked at.
        while self.output.read(|channel, pipe| {
            let read = outgoing.has_room().then(|| outgoing.push_output(channel, |space| pipe.read(space)));
            if let (Phase::Draining { bytes_left, .. }, Some(Ok(length))) = (&mut *phase, &read) {
                *bytes_left = bytes_left.saturating_sub(*length);
            }
            read
        }) {}
    }

    /// Goes from phase to phase as far as it can, and says what is to be said there.
    fn advance(&mut self) {
        loop {
            self.phase = match &mut self.phase {
                Phase::Settling(ended) if self.output.is_past_mark() => {
                    self.outgoing.push(&FromHelper::Ended(ended.clone()));
                    Phase::Lingering
                }
                Phase::LastBytes(ended) if self.output.is_past_mark() => {
                    if let Some(ended) = ended.take() {
                        self.outgoing.push(&FromHelper::Ended(ended));
                    }
                    Phase::Draining { bytes_left: LAST_OUTPUT_BYTES, until: Instant::now() + LAST_OUTPUT_TIME }
                }
                Phase::Lingering if self.output.is_closed() && self.kill.is_none() => self.close(),
                Phase::Draining { bytes_left, until }
                    if self.output.is_closed() || *bytes_left == 0 || *until <= Instant::now() =>
                {
                    self.close()
                }
                _ => return,
            }
        }
    }

    fn close(&mut self) -> Phase {
        self.outgoing.push(&FromHelper::OutputClosed);
        Phase::Closed
    }

    fn send(&mut self) -> io::Result<()> {
        if !self.is_server_gone && self.outgoing.write().is_err() {
            return self.lose_server();
        }
        Ok(())
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A frame's grace as a time.
fn grace(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(LONGEST_GRACE)
}
