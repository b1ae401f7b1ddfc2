//! `glassbox doctor`, and an engine that has no gVisor: nothing is ever started without it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use glassbox_tests::program::run;
use glassbox_tests::{TestServer, docker, eventually, process};
use tempfile::TempDir;

/// A second engine needs some seconds to start, more on a busy machine.
const ENGINE_STARTS: Duration = Duration::from_mins(2);

/// A Docker engine of its own, with nothing registered but what it brings itself.
#[derive(Debug)]
struct BareEngine {
    folder: TempDir,
    daemon: Child,
}

impl BareEngine {
    async fn start() -> Self {
        docker::require();
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
        std::fs::write(at("daemon.json"), "{}").expect("its configuration");
        let log = std::fs::File::create(at("log")).expect("a log");
        let daemon = Command::new("dockerd")
            .args(["--config-file", &at("daemon.json"), "--data-root", &at("data"), "--exec-root", &at("exec")])
            .args(["--pidfile", &at("pid"), "--host", &format!("unix://{}", at("docker.sock"))])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("dockerd can be started");
        let mut engine = Self { folder, daemon };
        eventually("the second engine answers", ENGINE_STARTS, async || {
            let ended = engine.daemon.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "dockerd ended with {ended:?}: {}", engine.log());
            docker::try_run(&["--host", &engine.host(), "version"]).ok()
        })
        .await;
        engine
    }

    fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("docker.sock").display())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for BareEngine {
    fn drop(&mut self) {
        process::signal(self.daemon.id(), "TERM");
        let ended = glassbox_tests::wait::eventually_blocking(ENGINE_STARTS, || self.daemon.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
    }
}

fn path_of(folder: &Path) -> String {
    folder.to_str().expect("a plain path").to_owned()
}

#[tokio::test]
async fn doctor_finds_everything_where_the_tests_run_and_leaves_nothing() {
    docker::require();
    let folder = tempfile::tempdir().expect("a folder");
    let data = path_of(&folder.path().join("data"));
    let ran = run(&["doctor"], &[("GLASSBOX_DATA_DIR", &data)]).await;
    let said = ran.text();
    assert_eq!(ran.code, Some(0), "{said}{}", ran.stderr);
    for (what, line) in [
        ("engine", "Docker"),
        ("gVisor", "gVisor"),
        ("image", "sandbox-base"),
        ("helper", "glassbox-inside"),
        ("data", &data),
        ("disk", "free"),
        ("quotas", "quota"),
    ] {
        assert!(said.to_lowercase().contains(&line.to_lowercase()), "a line about the {what}: {said}");
    }
    assert!(!folder.path().join("data").exists(), "it looks and makes nothing");
    // Another test's may be there for a moment.
    eventually("its probe is removed", ENGINE_STARTS, async || {
        docker::run(&["ps", "--all", "--quiet", "--filter", "name=glassbox-doctor"]).trim().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn doctor_works_beside_a_running_server() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(glassbox_tests::hardened()).await;
    let data = path_of(&server.data_dir());
    let ran = run(&["doctor"], &[("GLASSBOX_DATA_DIR", &data)]).await;
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
    assert_eq!(session.sh("echo untouched").await, "untouched\n");
}

#[tokio::test]
async fn doctor_names_what_is_missing_and_what_to_do() {
    docker::require();
    for (environment, says) in [
        (vec![("GLASSBOX_IMAGE", "no-such-image:latest")], "no-such-image"),
        (vec![("GLASSBOX_HELPER", "/nowhere/glassbox-inside")], "/nowhere/glassbox-inside"),
        (vec![("GLASSBOX_DATA_DIR", "/proc/glassbox")], "/proc/glassbox"),
        (vec![("DOCKER_HOST", "unix:///nowhere/docker.sock")], "Docker"),
    ] {
        let ran = run(&["doctor"], &environment).await;
        let said = ran.text() + &ran.stderr;
        assert!(ran.code.is_some_and(|code| code != 0), "{environment:?}: {said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{environment:?}: {said}");
    }
}

#[tokio::test]
async fn an_engine_without_gvisor_is_refused_and_doctor_says_how_to_mend_it() {
    let engine = BareEngine::start().await;
    let host = engine.host();
    let doctor = run(&["doctor"], &[("DOCKER_HOST", &host)]).await;
    let said = doctor.text() + &doctor.stderr;
    assert!(doctor.code.is_some_and(|code| code != 0), "{said}");
    let line = said.lines().find(|line| line.contains("runsc")).unwrap_or_else(|| panic!("a line about runsc: {said}"));
    assert!(line.contains("make setup") || line.contains("daemon.json"), "it says what to do: {line}");

    let folder = tempfile::tempdir().expect("a folder");
    let data = path_of(&folder.path().join("data"));
    let served =
        run(&["serve"], &[("DOCKER_HOST", &host), ("GLASSBOX_DATA_DIR", &data), ("GLASSBOX_LISTEN", "127.0.0.1:0")])
            .await;
    assert!(served.refusal().contains("runsc"), "{served:?}");
    let ran = run(&["run", "--", "echo", "never"], &[("DOCKER_HOST", &host)]).await;
    assert!(ran.refusal().contains("runsc"), "{ran:?}");
    assert!(!ran.text().contains("never"));
    assert_eq!(docker::run(&["--host", &host, "ps", "--all", "--quiet"]), "", "nothing was ever made on it");
}
