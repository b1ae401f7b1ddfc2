//! `glassbox serve` as a child process.
//!
//! What it writes goes to files, so that nothing that it says can block it and everything can be looked at later.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::wait::{eventually, eventually_blocking};

/// From start to the address being printed. It takes a second; a start after `kill -9` removes containers first.
const START_LIMIT: Duration = Duration::from_mins(1);
/// From SIGTERM to the end; the server cuts itself off after 10 s.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Lines of its log that a failed test shows.
const SHOWN_LINES: usize = 60;

/// The program that is tested: `GLASSBOX_BINARY`, else the one that `cargo build` makes.
pub fn binary() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/glassbox");
    let path = std::env::var_os("GLASSBOX_BINARY").map_or_else(built, PathBuf::from);
    assert!(
        path.is_file(),
        "the program to be tested, {}, is not there; run scripts/build.sh, or `make test`.",
        path.display()
    );
    path.canonicalize().expect("it was just found")
}

/// A call of the program with nothing of this environment that would change what it does.
pub fn glassbox() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    glassbox_at(BINARY.get_or_init(binary))
}

/// The same for another build of it.
pub fn glassbox_at(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("GLASSBOX_") || name_text == "RUST_LOG" {
            command.env_remove(&name);
        }
    }
    // Which helper to use is not a setting of the server's; without it, it looks beside itself.
    if let Some(helper) = std::env::var_os("GLASSBOX_HELPER") {
        command.env("GLASSBOX_HELPER", helper);
    }
    command.stdin(Stdio::null());
    command
}

/// A running server.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl ServerProcess {
    /// Starts `command` and waits until it says where it listens. Its output goes to files in `folder`.
    pub async fn start(mut command: Command, folder: &Path) -> Result<Self, String> {
        let _ = std::fs::remove_file(folder.join("stdout"));
        let append = |name: &str| {
            OpenOptions::new().create(true).append(true).open(folder.join(name)).expect("our own folder can be written")
        };
        let (out, log): (File, File) = (append("stdout"), append("stderr"));
        let child = command.stdout(out).stderr(log).spawn().expect("the program can be started");
        let mut server = Self { child, folder: folder.to_owned(), address: String::new() };
        let found = eventually("the server says where it listens", START_LIMIT, async || server.look()).await;
        server.address = found?;
        Ok(server)
    }

    /// The address once it is printed; an error once the process has ended.
    fn look(&mut self) -> Option<Result<String, String>> {
        let said = self.stdout();
        let address = said
            .lines()
            .find_map(|line| line.strip_prefix("glassbox is ready at "))
            .map(|base| base.trim_end_matches('/').to_owned());
        if let Some(address) = address {
            return Some(Ok(address));
        }
        let ended = self.child.try_wait().expect("a child can be asked");
        ended.map(|status| Err(format!("the server ended with {status} before it was ready.\n{}", self.shown_log())))
    }

    /// `http://HOST:PORT` as it said.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All that it wrote to stdout.
    pub fn stdout(&self) -> String {
        std::fs::read(self.folder.join("stdout"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Its log: all that it, and those before it in this folder, wrote to stderr.
    pub fn log(&self) -> String {
        std::fs::read(self.folder.join("stderr"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of its log, for messages.
    pub fn shown_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        format!(
            "--- the server's log, last lines ---\n{}\n---",
            lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
        )
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Is it still there?
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Bytes of memory that it has in use now.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }

    /// Ends it as a crash or the kernel would, without a word.
    pub fn kill_hard(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// Asks it to stop; `None`: it did not in time, and was killed.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        signal(self.pid(), "TERM");
        let ended = eventually_blocking(STOP_LIMIT, || self.child.try_wait().expect("a child can be asked"));
        if ended.is_none() {
            self.kill_hard();
        }
        ended
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing to do when it has ended; nobody is interested in why this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of memory of a process of ours.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says how much memory it has");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1024
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {pid}")]).status().expect("a shell runs");
    assert!(sent.success(), "SIG{name} could not be sent to {pid}");
}
