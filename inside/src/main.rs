//! `glassbox-inside`: the parent of every command, inside the sandbox.
//!
//! The server runs it by one exec per command (and one for a session's files) and talks to it in frames; [`glassbox_shared::helper`] describes the
//! protocol. It runs where hostile code runs, as the same user, so it keeps its memory and descriptors to itself, lets no
//! signal but KILL and STOP act upon it, and never lets a child inherit its stdin or stdout.
//!
//! | module | owns |
//! | --- | --- |
//! | [`run`] | one command: start, output, end |
//! | [`files`] | the file service of a sandbox |
//! | [`sweep`] | ending what is left of a command without its helper |
//! | [`kill`] | TERM, grace, KILL, verified |
//! | [`tree`], [`process`] | who belongs to a command; reading `/proc` |
//! | [`sys`] | system calls; all `unsafe` |

mod files;
mod kill;
mod process;
mod run;
mod sweep;
mod sys;
mod tree;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use glassbox_shared::id::CommandId;

const USAGE: &str = "usage: glassbox-inside run COMMAND_ID | sweep COMMAND_ID | files | --version";

/// Used wrongly, or spoken to in nonsense.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--version"] => {
            println!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        ["files"] => files::serve(),
        [task @ ("run" | "sweep"), id] => match id.parse::<CommandId>() {
            Ok(command) if task == "run" => run::run(&command),
            Ok(command) => sweep::sweep(&command),
            Err(error) => refuse(&error.to_string()),
        },
        _ => refuse(USAGE),
    }
}

/// Says why on stderr, which the server does not read but a person trying this by hand does.
fn refuse(reason: &str) -> ExitCode {
    eprintln!("glassbox-inside: {reason}");
    ExitCode::from(REFUSED)
}

/// stdin as a file of our own: unbuffered, non-blocking, not inherited by children.
fn own_stdin() -> io::Result<File> {
    own(io::stdin().as_fd())
}

/// stdout, likewise.
fn own_stdout() -> io::Result<File> {
    own(io::stdout().as_fd())
}

fn own(stream: std::os::fd::BorrowedFd<'_>) -> io::Result<File> {
    let file = File::from(stream.try_clone_to_owned()?);
    sys::set_nonblocking(file.as_fd())?;
    Ok(file)
}
