//! `run COMMAND_ID`: one command from its start to the end of its output.
//!
//! [`incoming`] and [`outgoing`] are the two directions of the conversation with the server, [`child`] starts the
//! program, [`output`] reads its pipes, and the [`supervisor`] owns them all and decides.

mod child;
mod incoming;
mod outgoing;
mod output;
mod supervisor;

use std::fs;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use glassbox_shared::helper::FromHelper;
use glassbox_shared::id::CommandId;

use crate::sys;
use incoming::Incoming;
use outgoing::Outgoing;
use supervisor::Supervisor;

/// How long the server may take to say what to run.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How long the server may take to read why nothing could be started.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(30);

/// Runs the subcommand.
pub fn run(command: &CommandId) -> ExitCode {
    match try_run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::refuse(&error.to_string()),
    }
}

fn try_run(command: &CommandId) -> io::Result<()> {
    keep_descriptors_from_children();
    let children = sys::block_signals_and_watch_children()?;
    sys::set_not_dumpable()?;
    let mut incoming = Incoming::new(crate::own_stdin()?);
    let start = incoming.start(Instant::now() + START_DEADLINE)?;
    let mut outgoing = Outgoing::new(crate::own_stdout()?, start.tag);
    sys::set_subreaper(true)?;
    match child::start(command, &start) {
        Ok(child) => {
            outgoing.push(&FromHelper::Started { pid: child.pid });
            Supervisor::new(command, &start, child, incoming, outgoing, children).supervise()
        }
        Err(message) => {
            outgoing.push(&FromHelper::FailedToStart { message });
            outgoing.flush(Instant::now() + REFUSAL_DEADLINE)
        }
    }
}

/// The engine may have left descriptors open in us; our own are close-on-exec anyway.
fn keep_descriptors_from_children() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for descriptor in open.filter(|number| *number > 2) {
        sys::set_close_on_exec(descriptor);
    }
}
