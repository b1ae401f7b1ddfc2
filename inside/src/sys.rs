//! System calls that the standard library does not offer, each in a small wrapper that cannot be misused.
//!
//! The only module with `unsafe`. It knows nothing of commands, frames or kills.
#![expect(unsafe_code, reason = "posix_spawn, signalfd, poll, prctl and waitpid have no safe form in std")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use glassbox_shared::helper::ExitStatus;

/// A process id as this process sees it.
pub type Pid = libc::pid_t;

/// Signals that this program sends by itself.
pub mod signal {
    /// Ends at once; cannot be caught.
    pub const KILL: i32 = libc::SIGKILL;
    /// Asks to end.
    pub const TERM: i32 = libc::SIGTERM;
    /// Stops; cannot be caught.
    pub const STOP: i32 = libc::SIGSTOP;
    /// Goes on after a stop.
    pub const CONT: i32 = libc::SIGCONT;
    /// Largest signal number that Linux has.
    pub const LAST: i32 = 64;
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// For the calls that return the error number instead of setting `errno`.
fn check_number(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}

/// Become (or stop being) the process that orphaned descendants are given to.
pub fn set_subreaper(on: bool) -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer and touches no memory of ours.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on), 0, 0, 0) }).map(drop)
}

/// Keep other processes of the same user from our memory and our descriptors.
pub fn set_not_dumpable() -> io::Result<()> {
    // SAFETY: PR_SET_DUMPABLE takes one integer and touches no memory of ours.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// Blocks every signal that can be blocked, so that nothing but KILL and STOP acts upon this process, and returns a
/// non-blocking descriptor that becomes readable when a child ends.
pub fn block_signals_and_watch_children() -> io::Result<File> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut child = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are initialised by sigfillset and sigemptyset before they are used; signalfd returns a new
    // descriptor that nobody else owns.
    unsafe {
        check(libc::sigfillset(all.as_mut_ptr()))?;
        check(libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()))?;
        check(libc::sigemptyset(child.as_mut_ptr()))?;
        check(libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD))?;
        let descriptor = check(libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(File::from(OwnedFd::from_raw_fd(descriptor)))
    }
}

/// Makes reads and writes return at once.
pub fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: F_GETFL and F_SETFL take and return integers only.
    unsafe {
        let flags = check(libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)).map(drop)
    }
}

/// Keeps a descriptor (given by its number) from children. One that is closed already is left alone.
pub fn set_close_on_exec(descriptor: RawFd) {
    // SAFETY: F_SETFD takes an integer; a wrong descriptor is refused with EBADF.
    let _ = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Asks for a pipe that holds so many bytes.
pub fn set_pipe_size(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: F_SETPIPE_SZ takes an integer and touches no memory of ours.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) }).map(drop)
}

/// Bytes that can be read from a pipe now.
pub fn readable_bytes(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, which `count` is.
    check(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// One descriptor to wait for.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Watch(libc::pollfd);

impl Watch {
    /// Wait until there is something to read (or the end).
    pub fn read(descriptor: BorrowedFd<'_>) -> Self {
        Self::new(descriptor, libc::POLLIN)
    }

    /// Wait until something can be written (if `now`), or until nobody reads any more (always).
    pub fn write(descriptor: BorrowedFd<'_>, now: bool) -> Self {
        Self::new(descriptor, if now { libc::POLLOUT } else { 0 })
    }

    fn new(descriptor: BorrowedFd<'_>, events: libc::c_short) -> Self {
        Self(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 })
    }

    /// Did anything happen?
    pub fn is_ready(self) -> bool {
        self.0.revents != 0
    }

    /// Is the other side gone? (For one that is written to.)
    pub fn is_broken(self) -> bool {
        self.0.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
    }
}

/// Waits until one of them is ready or the time is up; `None` waits without end. A signal ends the wait early.
pub fn poll(watches: &mut [Watch], timeout: Option<Duration>) -> io::Result<()> {
    // Rounded up, so that a deadline has passed when the wait for it ends.
    let milliseconds = timeout.map_or(-1, |timeout| {
        libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
    });
    // SAFETY: `Watch` is a transparent pollfd, and the slice is as long as we say.
    let result =
        unsafe { libc::poll(watches.as_mut_ptr().cast::<libc::pollfd>(), watches.len() as libc::nfds_t, milliseconds) };
    match check(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for watch in watches {
                watch.0.revents = 0;
            }
            Ok(())
        }
        other => other.map(drop),
    }
}

/// What waiting for children found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This one has ended, and is gone from the process table.
    Process(Pid, ExitStatus),
    /// There are children, and none of them has ended.
    NoneYet,
    /// There are no children. For a subreaper that means: no descendants at all.
    Childless,
}

/// Takes the next ended child out of the process table, without waiting.
pub fn reap() -> io::Result<Reaped> {
    let mut status: libc::c_int = 0;
    // SAFETY: waitpid writes one int, which `status` is.
    match check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
        Ok(0) => Ok(Reaped::NoneYet),
        Ok(pid) if libc::WIFSIGNALED(status) => Ok(Reaped::Process(pid, ExitStatus::Signal(libc::WTERMSIG(status)))),
        Ok(pid) => Ok(Reaped::Process(pid, ExitStatus::Code(libc::WEXITSTATUS(status)))),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(Reaped::Childless),
        Err(error) => Err(error),
    }
}

/// Sends a signal to one process. Ids that mean something else to kill(2) (0, negative ones) and PID 1 are refused.
pub fn send(pid: Pid, signal: i32) -> io::Result<()> {
    if pid <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Sends a signal to every process of a group. Refused for groups 0 and 1, which mean others.
pub fn send_to_group(group: Pid, signal: i32) -> io::Result<()> {
    if group <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: kill takes two integers; -1 ("everyone") is excluded above.
    check(unsafe { libc::kill(-group, signal) }).map(drop)
}

/// A program to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file.
    pub path: &'a CStr,
    /// Arguments, the name first.
    pub arguments: &'a [CString],
    /// The whole environment, `NAME=value` each.
    pub environment: &'a [CString],
    /// Working directory; relative ones start at ours.
    pub directory: Option<&'a CStr>,
    /// stdin, stdout, stderr.
    pub streams: [BorrowedFd<'a>; 3],
}

/// `posix_spawn`'s two parameter objects, destroyed when dropped.
struct SpawnParameters {
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
}

impl SpawnParameters {
    fn new() -> io::Result<Box<Self>> {
        let mut parameters = Box::<Self>::new_uninit();
        // SAFETY: each object is initialised by its own init call, in its final place; only then is the whole
        // assumed to be initialised. (Should the second call fail, the first object is leaked; glibc's cannot.)
        unsafe {
            let place = parameters.as_mut_ptr();
            check_number(libc::posix_spawn_file_actions_init(&raw mut (*place).actions))?;
            check_number(libc::posix_spawnattr_init(&raw mut (*place).attributes))?;
            Ok(parameters.assume_init())
        }
    }
}

impl Drop for SpawnParameters {
    fn drop(&mut self) {
        // SAFETY: both were initialised by `new`, and nobody uses them after this.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&raw mut self.actions);
            libc::posix_spawnattr_destroy(&raw mut self.attributes);
        }
    }
}

/// The pointers that execve wants; valid as long as `strings` are.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Starts a program in a session of its own, with every signal at its default and none blocked, and returns its PID.
///
/// By `posix_spawn`, which shares our memory until the exec: a fork costs 3 to 9 ms under gVisor.
pub fn spawn(program: &Program<'_>) -> io::Result<Pid> {
    let mut parameters = SpawnParameters::new()?;
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    let mut pid: Pid = 0;
    // SAFETY: the parameter objects are initialised; every pointer points to data that lives until after the call
    // (`program`, `arguments`, `environment`, the signal sets), and posix_spawn changes none of it.
    unsafe {
        let actions = &raw mut parameters.actions;
        for (number, stream) in (0..).zip(&program.streams) {
            check_number(libc::posix_spawn_file_actions_adddup2(actions, stream.as_raw_fd(), number))?;
        }
        if let Some(directory) = program.directory {
            check_number(libc::posix_spawn_file_actions_addchdir_np(actions, directory.as_ptr()))?;
        }
        let attributes = &raw mut parameters.attributes;
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // Every bit: sigfillset leaves out the two signals that glibc keeps to itself, and it would then have the child
        // ignore these, which another C library's programs do not expect.
        signals.as_mut_ptr().write_bytes(0xff, 1);
        check_number(libc::posix_spawnattr_setsigdefault(attributes, signals.as_ptr()))?;
        check(libc::sigemptyset(signals.as_mut_ptr()))?;
        check_number(libc::posix_spawnattr_setsigmask(attributes, signals.as_ptr()))?;
        let flags =
            libc::c_int::from(libc::POSIX_SPAWN_SETSID) | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        check_number(libc::posix_spawnattr_setflags(attributes, flags as libc::c_short))?;
        check_number(libc::posix_spawn(
            &raw mut pid,
            program.path.as_ptr(),
            actions,
            attributes,
            arguments.as_ptr(),
            environment.as_ptr(),
        ))?;
    }
    Ok(pid)
}
