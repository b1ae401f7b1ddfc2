//! Starts the command's own process.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use glassbox_shared::helper::{Channel, MARK, Start};
use glassbox_shared::id::CommandId;
use glassbox_shared::text;

use crate::sys::{self, Pid, Program};

/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest message about a start that failed, in characters: it may quote a path of any length.
const LONGEST_MESSAGE: usize = 500;

/// Bytes that a pipe of a command holds, four times what is usual: a command that writes much and this process then take
/// turns less often, and turns are what costs under gVisor. A command can be ahead of its reader by that much.
const PIPE: usize = 256 * 1024;

/// A process that was started, and the reading ends of its pipes.
#[derive(Debug)]
pub struct Child {
    /// Its id, which is also that of its session and its process group.
    pub pid: Pid,
    /// When it began.
    pub began: Instant,
    /// Its output, without waiting.
    pub pipes: Vec<(Channel, PipeReader)>,
}

/// Starts it, or says for people why not.
pub fn start(command: &CommandId, start: &Start) -> Result<Child, String> {
    try_start(command, start).map_err(|message| text::plain(&message).chars().take(LONGEST_MESSAGE).collect())
}

fn try_start(command: &CommandId, start: &Start) -> Result<Child, String> {
    if start.terminal.is_some() {
        return Err("terminals are not supported yet".to_owned());
    }
    if start.stdin {
        return Err("input for commands is not supported yet".to_owned());
    }
    let program = start.argv.first().ok_or("there is no program to run")?;
    if let Some(directory) = &start.cwd {
        check_directory(directory)?;
    }
    let environment = environment(command, &start.env)?;
    let path = find_program(program, &environment)?;
    let arguments =
        start.argv.iter().map(|word| c_string(word.as_bytes(), "an argument")).collect::<Result<Vec<_>, _>>()?;
    let variables = environment
        .iter()
        .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat(), "an environment variable"))
        .collect::<Result<Vec<_>, _>>()?;
    let directory =
        start.cwd.as_ref().map(|directory| c_string(directory.as_bytes(), "the working directory")).transpose()?;

    let nothing = File::open("/dev/null").map_err(|error| format!("/dev/null: {}", reason(&error)))?;
    let pipe = || output_pipe().map_err(|error| format!("no pipe for the output: {}", reason(&error)));
    let (stdout, to_stdout) = pipe()?;
    let split = if start.split { Some(pipe()?) } else { None };
    let to_stderr = split.as_ref().map_or(to_stdout.as_fd(), |(_, to_stderr)| to_stderr.as_fd());
    let began = Instant::now();
    let pid = sys::spawn(&Program {
        path: &path,
        arguments: &arguments,
        environment: &variables,
        directory: directory.as_deref(),
        streams: [nothing.as_fd(), to_stdout.as_fd(), to_stderr],
    })
    .map_err(|error| format!("{program}: {}", reason(&error)))?;
    // The writing ends are closed here, or the pipes would never come to their end.
    let pipes = match split {
        None => vec![(Channel::Merged, stdout)],
        Some((stderr, _)) => vec![(Channel::Stdout, stdout), (Channel::Stderr, stderr)],
    };
    Ok(Child { pid, began, pipes })
}

/// A pipe whose reading end does not wait. The writing end does, as programs expect of their stdout.
fn output_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    sys::set_nonblocking(reader.as_fd())?;
    // Where that is refused it works as well, only slower.
    let _ = sys::set_pipe_size(reader.as_fd(), PIPE);
    Ok((reader, writer))
}

/// The system's words without the number that std adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn c_string(bytes: &[u8], what: &str) -> Result<CString, String> {
    CString::new(bytes).map_err(|_| format!("{what} holds a NUL byte, which no program can be given"))
}

/// `posix_spawn` would say the same in one word for the program and the directory.
fn check_directory(directory: &str) -> Result<(), String> {
    // The dot asks for the right to enter it as well.
    let Err(error) = fs::metadata(Path::new(directory).join(".")) else {
        return Ok(());
    };
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("the working directory {directory} does not exist"),
        io::ErrorKind::NotADirectory => {
            format!("the working directory {directory} is not a directory")
        }
        io::ErrorKind::PermissionDenied => {
            format!("the working directory {directory} may not be entered")
        }
        _ => format!("the working directory {directory}: {}", reason(&error)),
    })
}

/// Our own environment, what the server adds, and the mark, which nothing overrides.
fn environment(
    command: &CommandId,
    additions: &BTreeMap<String, String>,
) -> Result<BTreeMap<OsString, OsString>, String> {
    let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in additions {
        if name.is_empty() || name.contains('=') {
            return Err(format!("{name:?} cannot be the name of an environment variable"));
        }
        environment.insert(name.into(), value.into());
    }
    environment.insert(MARK.into(), command.as_str().into());
    Ok(environment)
}

/// The program's file: as given when there is a slash in it, else from the child's PATH. Relative entries of PATH are
/// passed over, for they would mean another directory here than in the child.
fn find_program(program: &str, environment: &BTreeMap<OsString, OsString>) -> Result<CString, String> {
    if program.contains('/') {
        return c_string(program.as_bytes(), "the program");
    }
    let path = environment.get(OsString::from("PATH").as_os_str()).cloned().unwrap_or_else(|| DEFAULT_PATH.into());
    let is_program =
        |file: &Path| fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let file = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| !program.is_empty() && is_program(file))
        .ok_or_else(|| format!("{program}: No such file or directory"))?;
    c_string(&file.into_os_string().into_vec(), "the program")
}
