//! `glassbox doctor`, and an engine that has no gVisor: nothing is ever started without it.

use std::path::Path;
use std::time::Duration;

use glassbox_tests::engine::{Engine, Gvisor};
use glassbox_tests::program::run;
use glassbox_tests::{TestServer, docker, eventually};

/// Until a container that is on its way out is gone.
const REMOVED: Duration = Duration::from_mins(2);

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
    eventually("its probe is removed", REMOVED, async || {
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
    let engine = Engine::start(Gvisor::Missing).await;
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
