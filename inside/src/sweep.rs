//! `sweep COMMAND_ID`: ends what is left of a command without asking its helper, which may be stuck, stopped or dead.
//!
//! KILL at once, no grace: a sweep comes after a kill that could not be verified.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use glassbox_shared::command::Survivor;
use glassbox_shared::helper::{EndCause, Ended, ExitStatus, FromHelper, MAX_SURVIVORS};
use glassbox_shared::id::CommandId;

use crate::kill::{Kill, Prey};
use crate::process;
use crate::sys::{self, Pid, signal};

/// How long the server may take to send the tag, once everything is ended.
const TAG_DEADLINE: Duration = Duration::from_secs(10);

/// How long helpers may take to stop, or to vanish after KILL.
const HELPER_DEADLINE: Duration = Duration::from_secs(2);

/// Pause between looks while waiting for that.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs the subcommand.
pub fn sweep(command: &CommandId) -> ExitCode {
    // Signals that the sandbox's processes send must not end us; nothing depends on these two succeeding.
    let _ = sys::block_signals_and_watch_children();
    let _ = sys::set_not_dumpable();
    let began = Instant::now();
    let survivors = end_everything(command);
    let took = began.elapsed();
    // Only now: under gVisor a process of the same user can read our stdin through /proc although we are not dumpable. A
    // command that steals the tag may say what it likes in our name, but it does so from the grave.
    let tag = match receive_tag() {
        Ok(tag) => tag,
        Err(error) => return crate::refuse(&format!("no tag came: {error}")),
    };
    let ended = FromHelper::Ended(Ended {
        status: ExitStatus::Unknown,
        cause: EndCause::Kill,
        signal: signal::KILL,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        // Whose child it was is not told when it began and ended.
        ran_ms: None,
        survivors,
    });
    let mut stdout = io::stdout().lock();
    match stdout.write_all(&ended.encode(tag)).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn receive_tag() -> io::Result<u64> {
    let deadline = Instant::now() + TAG_DEADLINE;
    let mut stdin = crate::own_stdin()?;
    let mut tag = [0_u8; 8];
    let mut length = 0;
    while length < tag.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        sys::poll(&mut [sys::Watch::read(stdin.as_fd())], Some(left))?;
        match io::Read::read(&mut stdin, &mut tag[length..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(u64::from_le_bytes(tag))
}

fn end_everything(command: &CommandId) -> Vec<Survivor> {
    let helpers = helpers_of(command);
    // A stopped helper starts nothing and answers nothing while its command is being ended. It outlives its descendants,
    // so that none of them gets lost from the tree, and because a gVisor of 2024-07 was seen to end the whole sandbox
    // with a subreaper that had descendants (though not when tried again with 20240729).
    for pid in &helpers {
        let _ = sys::send(*pid, signal::STOP);
    }
    wait_until(|| process::list().iter().all(|p| !helpers.contains(&p.pid) || p.is_stopped || p.is_zombie));
    // One that was dying has held nobody: what it had adopted may be init's by now.
    let is_held = {
        let table = process::list();
        !helpers.is_empty() && helpers.iter().all(|pid| table.iter().any(|p| p.pid == *pid && p.is_stopped))
    };
    let mut survivors = end_processes(command, &helpers);
    if !survivors.is_empty() {
        // The helper stays, for the reasons above: a survivor as well.
        survivors.extend(helpers.iter().map(|pid| Survivor { pid: *pid, name: process::name(*pid) }));
        survivors.truncate(MAX_SURVIVORS);
        return survivors;
    }
    if helpers.is_empty() {
        return strays();
    }
    for pid in &helpers {
        let _ = sys::send(*pid, signal::KILL);
    }
    let lives = |pid: Pid| process::list().iter().any(|process| process.pid == pid && !process.is_zombie);
    wait_until(|| !helpers.iter().any(|pid| lives(*pid)));
    let mut survivors = end_processes(command, &[]);
    let helpers = helpers.into_iter().filter(|pid| lives(*pid));
    survivors.extend(helpers.map(|pid| Survivor { pid, name: process::name(pid) }));
    if !is_held {
        survivors.extend(strays());
    }
    survivors.truncate(MAX_SURVIVORS);
    survivors
}

/// A command that ended its own helper has handed the helper's orphans to the sandbox's init, and one that also cleared
/// its environment has left nothing that tells whose they are. They may be another command's, so they are named and not
/// ended. Only where PID 1 is the engine's init, as in every sandbox.
fn strays() -> Vec<Survivor> {
    const INIT: Pid = 1;
    if process::name(INIT) != "docker-init" {
        return Vec::new();
    }
    let table = process::list();
    let orphans = || table.iter().filter(|process| process.parent == INIT && !process.is_zombie);
    // The sandbox's own main process is older than every command.
    let main = orphans().map(|process| process.started).min();
    orphans()
        .filter(|process| Some(process.started) != main && !process::is_anyones(process.pid))
        .map(|process| Survivor { pid: process.pid, name: process::name(process.pid) })
        .take(MAX_SURVIVORS)
        .collect()
}

fn helpers_of(command: &CommandId) -> Vec<Pid> {
    let me = std::process::id() as Pid;
    process::list()
        .iter()
        .filter(|process| process.pid > 1 && process.pid != me && !process.is_zombie)
        .map(|process| process.pid)
        .filter(|pid| process::is_helper_of(*pid, command))
        .collect()
}

/// Ends all that belongs to the command except its helpers.
fn end_processes(command: &CommandId, helpers: &[Pid]) -> Vec<Survivor> {
    // A command may run a sweep of itself; it would be marked then.
    let me = std::process::id() as Pid;
    let prey = Prey::new(helpers.iter().copied().chain([me]).collect(), command);
    let mut kill = Kill::new(EndCause::Kill, Duration::ZERO, Instant::now());
    loop {
        if let Some(outcome) = kill.step(&prey, None) {
            return outcome.survivors;
        }
        sleep(kill.next_look().saturating_duration_since(Instant::now()));
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + HELPER_DEADLINE;
    while !is_so() && Instant::now() < deadline {
        sleep(PAUSE);
    }
}
