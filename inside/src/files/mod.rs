//! `files`: the file service of a sandbox, one process that serves many operations at once.
//!
//! | module | owns |
//! | --- | --- |
//! | [`root`] | from a path to what is there, by descriptors only |
//! | [`talk`] | an operation's side of the conversation |
//! | [`list`], [`entry`] | what is told of folders and files |
//! | [`read`], [`archive`] | content that goes out |
//! | [`mod@write`], [`upload`] | content that comes in; new folders and names |
//! | [`copy`], [`delete`] | what takes long, with progress |
//!
//! Each operation is a thread. When stdin ends, the server is gone: all are cancelled, and what was half written is
//! removed.

mod archive;
mod copy;
mod delete;
mod entry;
mod error;
mod list;
mod read;
mod root;
mod talk;
mod upload;
mod write;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, FromFiles, MAX_OPERATIONS, Open, Operation, ToFiles};
use glassbox_shared::helper::FrameBuffer;

use crate::sys;
use entry::Users;
use error::{Error, Result};
use root::Root;
use talk::{Inbox, Output, Talk};

/// Read at once.
const CHUNK: usize = 256 * 1024;
/// A thread's stack. Trees are walked by recursion of [`root::MAX_DEPTH`] small frames.
const STACK: usize = 1024 * 1024;
/// How long operations may take to leave when the server is gone.
const LEAVE: Duration = Duration::from_secs(5);

/// What all operations share.
#[derive(Debug)]
struct Service {
    root: Root,
    users: Users,
    kept: list::Kept,
    uploads: upload::Uploads,
    temporaries: write::Temporaries,
    operations: Mutex<HashMap<u32, Arc<Inbox>>>,
}

impl Service {
    fn operations(&self) -> MutexGuard<'_, HashMap<u32, Arc<Inbox>>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the subcommand.
pub fn serve() -> ExitCode {
    match try_serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::refuse(&error.to_string()),
    }
}

fn nonsense(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn try_serve() -> io::Result<()> {
    drop(sys::block_signals_and_watch_children()?);
    sys::set_not_dumpable()?;
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut frames = FrameBuffer::default();
    let mut chunk = vec![0; CHUNK];
    let mut serving: Option<(Arc<Service>, Arc<Output>)> = None;
    let ended = loop {
        let count = match stdin.read(&mut chunk) {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        };
        frames.push(&chunk[..count]);
        if let Err(error) = obey_all(&mut frames, &mut serving) {
            break Err(error);
        }
    };
    if let Some((service, _)) = serving {
        leave(&service);
    }
    ended
}

fn obey_all(frames: &mut FrameBuffer, serving: &mut Option<(Arc<Service>, Arc<Output>)>) -> io::Result<()> {
    while let Some((kind, body)) = frames.next_frame().map_err(nonsense)? {
        let (number, said) = ToFiles::decode(kind, body).map_err(nonsense)?;
        match (said, &serving) {
            (ToFiles::Open(open), None) => *serving = Some(begin(open)?),
            (_, None) | (ToFiles::Open(_), _) => return Err(nonsense("the first frame, and no other, opens")),
            (said, Some((service, output))) => obey(service, output, number, said)?,
        }
    }
    Ok(())
}

fn begin(open: Open) -> io::Result<(Arc<Service>, Arc<Output>)> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let root = Root::open(&open.workspace, open.confined).map_err(|error| nonsense(error.detail))?;
    let service = Service {
        root,
        users: Users::read(),
        kept: list::Kept::default(),
        uploads: upload::Uploads::default(),
        temporaries: write::Temporaries::new(),
        operations: Mutex::default(),
    };
    Ok((Arc::new(service), Arc::new(Output::new(stdout, open.tag))))
}

fn obey(service: &Arc<Service>, output: &Arc<Output>, number: u32, said: ToFiles) -> io::Result<()> {
    let ToFiles::Begin(operation) = said else {
        // What comes for one that is over has crossed its last word.
        let Some(inbox) = service.operations().get(&number).cloned() else { return Ok(()) };
        match said {
            ToFiles::Data(bytes) => {
                if !inbox.content(bytes) {
                    return Err(nonsense("more content than was agreed"));
                }
            }
            ToFiles::End => inbox.end(),
            ToFiles::Taken(frames) => inbox.taken(frames),
            ToFiles::Cancel => inbox.cancel(),
            ToFiles::Open(_) | ToFiles::Begin(_) => {}
        }
        return Ok(());
    };
    let refuse = |detail: &str| {
        let failure = Error::new(ErrorCode::FileLimit, detail).into();
        output.say(number, &FromFiles::Failed(failure));
    };
    let inbox = Arc::new(Inbox::new());
    {
        let mut operations = service.operations();
        if operations.len() >= MAX_OPERATIONS {
            refuse("too many file operations at once in this sandbox; try again in a moment");
            return Ok(());
        }
        operations.insert(number, Arc::clone(&inbox));
    }
    let mut talk = Talk::new(number, Arc::clone(output), inbox);
    let own = Arc::clone(service);
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let result = perform(&own, &mut talk, *operation);
        // First free, then told: whoever hears the last word may begin the next.
        own.operations().remove(&number);
        talk.say(&match result {
            Ok(answer) => FromFiles::Done(Box::new(answer)),
            Err(error) => FromFiles::Failed(error.into()),
        });
    });
    if thread.is_err() {
        service.operations().remove(&number);
        refuse("the sandbox has no process left for a file operation; end some and try again");
    }
    Ok(())
}

fn perform(service: &Service, talk: &mut Talk, operation: Operation) -> Result<Answer> {
    match operation {
        Operation::List { path, sort, order, filter, cursor, limit } => {
            list::page(service, talk, &list::Page { path, sort, order, filter, cursor, limit })
        }
        Operation::Stat { path, follow } => list::stat(service, &path, follow),
        Operation::Version { path } => list::version(service, talk, &path).map(Answer::Version),
        Operation::Read { path, range } => read::read(service, talk, &path, range),
        Operation::Write { path, expected, new, parents, limit } => {
            write::write(service, talk, &write::Write { path, expected, new, parents, limit })
        }
        Operation::Archive { path } => archive::archive(service, talk, &path),
        Operation::MakeFolder { path } => write::make_folder(service, &path),
        Operation::Rename { from, to, replace } => write::rename_entry(service, &from, &to, replace),
        Operation::Copy { from, to, replace } => copy::copy(service, talk, &from, &to, replace),
        Operation::Delete { path, recursive } => delete::delete(service, talk, &path, recursive),
        Operation::StartUpload { id, path, size, replace } => upload::start(service, talk, id, &path, size, replace),
        Operation::Upload { id } => upload::look(service, &id),
        Operation::Append { id, offset } => upload::append(service, talk, &id, offset),
        Operation::DropUpload { id } => upload::drop(service, &id),
    }
}

/// The server is gone.
fn leave(service: &Service) {
    let until = Instant::now() + LEAVE;
    loop {
        let inboxes: Vec<Arc<Inbox>> = service.operations().values().cloned().collect();
        if inboxes.is_empty() || Instant::now() > until {
            break;
        }
        for inbox in inboxes {
            inbox.cancel();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    service.uploads.clear();
}
