//! Starts the real helper on this machine and speaks frames with it.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use glassbox_shared::helper::{
    Channel, EndCause, Ended, ExitStatus, FrameBuffer, FromHelper, MAX_OUTPUT, Start, ToHelper,
};

/// For whatever should happen at once, on a machine that is busy with something else.
pub const DEADLINE: Duration = Duration::from_mins(1);

pub const KILL: i32 = 9;
pub const TERM: i32 = 15;
pub const STOP: i32 = 19;
pub const CONT: i32 = 18;

/// A helper that runs, or ran, and what it has said so far.
pub struct Helper {
    pub id: String,
    tag: u64,
    process: Child,
    stdin: Option<ChildStdin>,
    /// Taken by the thread that reads frames, unless the test wants it to be left unread.
    stdout: Option<ChildStdout>,
    frames: Option<Receiver<Said>>,
    pub output: Vec<(Channel, Vec<u8>)>,
    /// Without `ran_ms`, which is another one each time.
    pub ended: Option<Ended>,
    pub ran_ms: Option<u64>,
    pub is_output_closed: bool,
    pub pid: i32,
}

enum Said {
    Frame(FromHelper),
    /// Its stdout is at its end.
    Nothing,
}

/// What `bash -c` gets, with everything else as most tests want it.
pub fn script(text: &str) -> Start {
    Start {
        tag: random(),
        argv: vec!["bash".to_owned(), "-c".to_owned(), text.to_owned()],
        cwd: None,
        env: BTreeMap::new(),
        split: false,
        limit_ms: 3_600_000,
        grace_ms: 1_000,
        stdin: false,
        terminal: None,
    }
}

/// Starts a script and waits until it runs.
pub fn run(text: &str) -> Helper {
    let mut helper = Helper::begin(&script(text));
    helper.listen();
    helper.expect_started();
    helper
}

/// Runs a script to the end of its output.
pub fn run_to_end(text: &str) -> Helper {
    let mut helper = run(text);
    helper.wait_for_close();
    helper
}

impl Helper {
    /// The helper alone; nothing is said to it yet.
    pub fn spawn() -> Self {
        let id = command_id();
        let mut process = Command::new(env!("CARGO_BIN_EXE_glassbox-inside"))
            .args(["run", &id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the helper was built");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        Self {
            id,
            tag: 0,
            process,
            stdin,
            stdout,
            frames: None,
            output: Vec::new(),
            ended: None,
            ran_ms: None,
            is_output_closed: false,
            pid: 0,
        }
    }

    /// The helper alone, knowing with which tag it will answer.
    pub fn spawn_for(start: &Start) -> Self {
        let mut helper = Self::spawn();
        helper.tag = start.tag;
        helper
    }

    /// Starts a command, without reading what the helper says.
    pub fn begin(start: &Start) -> Self {
        let mut helper = Self::spawn_for(start);
        helper.say(&ToHelper::Start(Box::new(start.clone())));
        helper
    }

    /// Begins to read what it says.
    pub fn listen(&mut self) {
        let Some(mut stdout) = self.stdout.take() else {
            return;
        };
        let tag = self.tag;
        // Bounded, so that a command that writes without end waits for the test.
        let (sender, receiver) = sync_channel(1024);
        self.frames = Some(receiver);
        thread::spawn(move || {
            let mut buffer = FrameBuffer::default();
            let mut chunk = vec![0; 64 * 1024];
            loop {
                let length = stdout.read(&mut chunk).expect("a pipe can be read");
                if length == 0 {
                    assert!(!buffer.is_mid_frame(), "the helper left in the middle of a frame");
                    let _ = sender.send(Said::Nothing);
                    return;
                }
                buffer.push(&chunk[..length]);
                while let Some((kind, body)) = buffer.next_frame().expect("whole frames") {
                    let frame = FromHelper::decode(tag, kind, body).expect("frames of the protocol");
                    if sender.send(Said::Frame(frame)).is_err() {
                        return;
                    }
                }
            }
        });
    }

    pub fn say(&mut self, message: &ToHelper) {
        self.say_bytes(&message.encode());
    }

    pub fn say_bytes(&mut self, bytes: &[u8]) {
        self.try_say_bytes(bytes).expect("the helper listens");
    }

    /// For a helper that may have left.
    pub fn try_say_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stdin.as_mut().expect("stdin is open").write_all(bytes)
    }

    pub fn kill_after(&mut self, grace: Duration) {
        self.say(&ToHelper::Kill { grace_ms: grace.as_millis() as u64 });
    }

    /// As when the server dies.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// As when the engine dies.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
        self.frames = None;
    }

    pub fn expect_started(&mut self) {
        match self.next(DEADLINE) {
            Some(FromHelper::Started { pid }) => self.pid = pid,
            other => panic!("expected Started, got {other:?}"),
        }
    }

    /// The next frame; `None` when it has left. Checks the order that the protocol promises.
    pub fn next(&mut self, deadline: Duration) -> Option<FromHelper> {
        match self.frames.as_ref().expect("listening").recv_timeout(deadline) {
            Ok(Said::Frame(frame)) => {
                assert!(!self.is_output_closed, "nothing comes after OutputClosed, but {frame:?} did");
                match &frame {
                    FromHelper::Output { channel, bytes } => {
                        assert!(!bytes.is_empty() && bytes.len() <= MAX_OUTPUT);
                        self.output.push((*channel, bytes.clone()));
                    }
                    FromHelper::Ended(ended) => {
                        let told = Ended { ran_ms: None, ..ended.clone() };
                        assert!(self.ended.replace(told).is_none(), "Ended comes once");
                        self.ran_ms = ended.ran_ms;
                    }
                    FromHelper::OutputClosed => {
                        assert!(self.ended.is_some(), "OutputClosed comes after Ended");
                        self.is_output_closed = true;
                    }
                    FromHelper::Started { .. } | FromHelper::FailedToStart { .. } => {}
                }
                Some(frame)
            }
            Ok(Said::Nothing) | Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the helper said nothing for {deadline:?}"),
        }
    }

    /// Takes in frames until this holds.
    pub fn wait_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < DEADLINE, "waited in vain until {what}");
            assert!(
                self.next(DEADLINE).is_some(),
                "the helper left; waited until {what}; output {:?}",
                String::from_utf8_lossy(&self.text())
            );
        }
    }

    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_until(&format!("the output holds {text:?}"), |helper| {
            helper.text().windows(text.len()).any(|part| part == text.as_bytes())
        });
    }

    pub fn wait_for_end(&mut self) -> Ended {
        self.wait_until("the command ended", |helper| helper.ended.is_some());
        self.ended.clone().expect("waited for")
    }

    /// Waits for all that comes, and until the helper has left with success.
    pub fn wait_for_close(&mut self) -> Ended {
        self.wait_until("the output is closed", |helper| helper.is_output_closed);
        assert_eq!(self.next(DEADLINE), None);
        assert_eq!(self.wait_for_leave(), Some(0));
        self.ended.clone().expect("comes before")
    }

    /// Waits until the helper is gone; its exit code.
    pub fn wait_for_leave(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the helper leaves", || {
            status = self.process.try_wait().expect("our child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    pub fn text(&self) -> Vec<u8> {
        self.output.iter().flat_map(|(_, bytes)| bytes).copied().collect()
    }

    pub fn text_of(&self, wanted: Channel) -> Vec<u8> {
        self.output.iter().filter(|(channel, _)| *channel == wanted).flat_map(|(_, bytes)| bytes).copied().collect()
    }

    /// The PIDs that a script printed, one a line, after a word.
    pub fn pids_after(&self, word: &str) -> Vec<i32> {
        String::from_utf8_lossy(&self.text())
            .lines()
            .filter_map(|line| line.strip_prefix(word)?.trim().parse().ok())
            .collect()
    }

    /// Has the command's own process a child that runs this program?
    pub fn has_child_named(&self, name: &str) -> bool {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
        children
            .split_whitespace()
            .any(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name))
    }

    pub fn helper_pid(&self) -> i32 {
        self.process.id() as i32
    }
}

impl Drop for Helper {
    /// A failed test leaves nothing behind.
    fn drop(&mut self) {
        self.stdin = None;
        if thread::panicking() {
            let _ = sweep(&self.id);
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// What an `Ended` by itself looks like.
pub fn own_end(status: ExitStatus) -> Ended {
    Ended { status, cause: EndCause::Own, signal: 0, took_ms: 0, ran_ms: None, survivors: Vec::new() }
}

/// Runs `sweep` to its end.
pub fn sweep(id: &str) -> Ended {
    let tag = random();
    let mut process = Command::new(env!("CARGO_BIN_EXE_glassbox-inside"))
        .args(["sweep", id])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the helper was built");
    process.stdin.take().expect("piped").write_all(&tag.to_le_bytes()).expect("it listens");
    let answer = process.wait_with_output().expect("it ends");
    assert!(answer.status.success());
    let mut buffer = FrameBuffer::default();
    buffer.push(&answer.stdout);
    let (kind, body) = buffer.next_frame().expect("a frame").expect("a whole one");
    let FromHelper::Ended(ended) = FromHelper::decode(tag, kind, body).expect("ours") else { panic!("not Ended") };
    assert!(!buffer.is_mid_frame(), "one frame only");
    ended
}

pub fn random() -> u64 {
    RandomState::new().hash_one(0)
}

pub fn command_id() -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut low, mut high) = (random(), random());
    let mut id = "cmd_".to_owned();
    for _ in 0..10 {
        id.push(char::from(letters[(low % 32) as usize]));
        id.push(char::from(letters[(high % 32) as usize]));
        low /= 32;
        high /= 32;
    }
    id
}

/// A number of seconds that no other test sleeps for: processes can be found again by it, whatever they do to their
/// environment, parents and sessions.
pub fn unique_sleep() -> String {
    format!("3{:09}", random() % 1_000_000_000)
}

/// Living processes that have this word in their command line.
pub fn processes_with(word: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.windows(word.len()).any(|part| part == word.as_bytes()) && is_alive(pid) {
            pids.push(pid);
        }
    }
    pids
}

/// Asserts that no living process has this word in its command line.
#[track_caller]
pub fn assert_none_left(word: &str) {
    let left = processes_with(word);
    assert!(left.is_empty(), "still there: {left:?}");
}

/// The state letter of `/proc/PID/stat`.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// How often it gave the processor away, or had it taken.
pub fn turns(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches:"));
    counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

pub fn is_alive(pid: i32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

pub fn signal(pid: i32, number: i32) {
    let status = Command::new("kill").args([format!("-{number}"), pid.to_string()]).status().expect("kill(1)");
    assert!(status.success());
}

/// Polls until this holds.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
