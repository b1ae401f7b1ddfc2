//! Looking at the engine behind the server's back, by Docker's own command line. Every call has a deadline.

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// The label that all objects of a server carry (`server/src/runtime/mod.rs`).
pub const INSTANCE: &str = "glassbox.instance";
/// The label that names the session.
pub const SESSION: &str = "glassbox.session";
/// The label that tells sandboxes, workspaces and the helper's volume apart.
pub const KIND: &str = "glassbox.kind";

/// Seconds for one call; removing a container after a fork bomb has been seen to take long.
const DEADLINE: &str = "150";

/// Runs `docker` with these arguments; `Err` is what it said.
pub fn try_run(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("timeout")
        .args(["--kill-after=5", DEADLINE, "docker"])
        .args(arguments)
        .output()
        .map_err(|error| format!("`timeout docker` could not be run: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(if said.is_empty() { format!("docker {arguments:?} ended with {}", output.status) } else { said })
    }
}

/// Runs `docker`, which must succeed.
pub fn run(arguments: &[&str]) -> String {
    try_run(arguments).unwrap_or_else(|error| panic!("docker {arguments:?}: {error}"))
}

/// Fails with one sentence unless Docker answers and has gVisor.
pub fn require() {
    static PROBLEM: OnceLock<Option<String>> = OnceLock::new();
    let problem = PROBLEM.get_or_init(|| match try_run(&["info", "--format", "{{json .Runtimes}}"]) {
        Err(error) => Some(format!("the Docker engine does not answer ({error})")),
        Ok(runtimes) if !runtimes.contains("\"runsc\"") => Some("Docker has no runtime named runsc".to_owned()),
        Ok(_) => None,
    });
    if let Some(problem) = problem {
        panic!("these tests need Docker with gVisor, and {problem}; run `make setup`.");
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Names of all containers of an instance, running or not.
pub fn containers(instance: &str) -> Vec<String> {
    lines(&run(&["ps", "--all", "--format", "{{.Names}}", "--filter", &format!("label={INSTANCE}={instance}")]))
}

/// Names of all workspace volumes of an instance. The helper's volume is shared by all servers and is not one.
pub fn workspaces(instance: &str) -> Vec<String> {
    let (ours, kind) = (format!("label={INSTANCE}={instance}"), format!("label={KIND}=workspace"));
    lines(&run(&["volume", "ls", "--quiet", "--filter", &ours, "--filter", &kind]))
}

/// The containers of one session.
pub fn containers_of(session: &str) -> Vec<String> {
    lines(&run(&["ps", "--all", "--format", "{{.Names}}", "--filter", &format!("label={SESSION}={session}")]))
}

/// The one container of a session.
pub fn container_of(session: &str) -> String {
    let mut found = containers_of(session);
    assert_eq!(found.len(), 1, "containers of {session}: {found:?}");
    found.remove(0)
}

/// All that the engine knows of a container or volume.
pub fn inspect(name: &str) -> Value {
    let text = run(&["inspect", name]);
    let mut all: Vec<Value> = serde_json::from_str(&text).expect("docker inspect answers a JSON list");
    all.remove(0)
}

/// Processes on the host that gVisor or containerd run for containers: their command lines name the container's id.
pub fn host_processes_of(container_id: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let command_line = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| is_process(name))?;
        let bytes = std::fs::read(format!("/proc/{name}/cmdline")).ok()?;
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        text.contains(container_id).then(|| format!("{name}: {text}"))
    };
    entries.flatten().filter_map(command_line).collect()
}

/// Removes everything of an instance and says what there was.
pub fn remove_all(instance: &str) -> Vec<String> {
    let mut removed = Vec::new();
    for container in try_run(&["ps", "--all", "--quiet", "--filter", &format!("label={INSTANCE}={instance}")])
        .map(|t| lines(&t))
        .unwrap_or_default()
    {
        removed.push(format!("container {container}"));
        let _ = try_run(&["rm", "--force", "--volumes", &container]);
    }
    let (ours, kind) = (format!("label={INSTANCE}={instance}"), format!("label={KIND}=workspace"));
    for volume in try_run(&["volume", "ls", "--quiet", "--filter", &ours, "--filter", &kind])
        .map(|t| lines(&t))
        .unwrap_or_default()
    {
        removed.push(format!("volume {volume}"));
        let _ = try_run(&["volume", "rm", "--force", &volume]);
    }
    removed
}
