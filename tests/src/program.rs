//! The program's other commands, run to their end.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::process::glassbox;

/// For what starts a sandbox and removes it, on a busy machine.
const LIMIT: Duration = Duration::from_mins(2);

/// A call that has ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code; `None`: ended by a signal.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Ran {
    /// stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Refuses in words, with a code, without a panic: the one way in which the program may fail. What it said.
    pub fn refusal(&self) -> &str {
        let said = self.stderr.trim();
        assert!(self.code.is_some_and(|code| code != 0), "a refusal has an exit code: {self:?}");
        assert!(!said.is_empty(), "a refusal says why: {self:?}");
        for broken in ["panicked", "RUST_BACKTRACE", "Error {", "os error 2)\n\nCaused by"] {
            assert!(!said.contains(broken), "not for people: {said}");
        }
        said
    }
}

/// `glassbox ARGUMENTS…` with these variables, to be started.
pub fn command(arguments: &[&str], environment: &[(&str, &str)]) -> tokio::process::Command {
    let mut command = glassbox();
    command.args(arguments).envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    command
}

/// Runs it to its end.
pub async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let output = command(arguments, environment).output();
    let output = tokio::time::timeout(LIMIT, output).await;
    let output = output
        .unwrap_or_else(|_| panic!("glassbox {arguments:?} did not end within {LIMIT:?}"))
        .expect("it can be run");
    Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Where, in the folder that `XDG_DATA_HOME` names, sandboxes without a server have theirs.
pub const SANDBOXES: &str = "glassbox-sandboxes";

/// The instances of the sandboxes without a server that have their folders in this one.
pub fn one_off_instances(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let instance = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("instance")).ok();
    entries.flatten().filter_map(instance).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}
