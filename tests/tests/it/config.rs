//! Settings from a file, beside the environment and the command line.

use glassbox_shared::error::ErrorCode;
use glassbox_tests::program::run;
use glassbox_tests::{TestServer, hardened};

/// A file of settings in a folder that is removed with the test.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("glassbox.toml");
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a plain path").to_owned();
    (folder, path)
}

#[tokio::test]
async fn a_server_takes_its_settings_from_a_file_and_the_environment_counts_before_it() {
    let (_folder, path) = file("max_sessions = 1\nrequests_per_minute = 1\nlog = 'json'\n");
    // Tests set requests_per_minute in the environment.
    let server = TestServer::configure().env("GLASSBOX_CONFIG", &path).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let refusal = agent.try_create_session(&hardened()).await.expect_err("one is all");
    assert_eq!(refusal.code(), ErrorCode::SessionLimit);
    session.sh("true").await;
    let first = server.process().log().lines().next().expect("a log").to_owned();
    assert!(first.starts_with('{'), "the log is JSON: {first}");
}

#[tokio::test]
async fn a_file_that_makes_no_sense_stops_the_start_with_file_line_and_what_was_meant() {
    for (text, says) in [
        ("max_session = 3", "max_sessions?"),
        ("max_sessions = 0", "from 1 to 10000"),
        ("# fine so far\nlog_ring = 'much'", "from 64k to 64m"),
        ("max_sessions", "TOML"),
    ] {
        let (_folder, path) = file(text);
        let line = text.lines().count();
        let ran = run(&["serve", "--config", &path], &[]).await;
        let said = ran.refusal();
        assert!(said.contains(&format!("{path}:{line}:")) && said.contains(says), "{text}: {said}");
        let checked = run(&["config", "check", &path], &[]).await;
        assert!(checked.refusal().contains(says), "{checked:?}");
        assert!(checked.stdout.is_empty());
    }
    let ran = run(&["serve", "--config", "/nowhere/glassbox.toml"], &[]).await;
    assert!(ran.refusal().contains("/nowhere/glassbox.toml"), "{ran:?}");
}

#[tokio::test]
async fn a_check_shows_what_counts_where_it_comes_from_and_no_key() {
    let (_folder, path) = file("max_commands = 3\nmax_sessions = 3\napi_keys = ['acme:0123456789abcdef0123']\n");
    let arguments = ["config", "check", &path, "--idle-seconds", "60"];
    let ran = run(&arguments, &[("GLASSBOX_MAX_SESSIONS", "4")]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = ran.text();
    for line in [
        format!("max_commands = 3  # {path}:1"),
        "max_sessions = 4  # GLASSBOX_MAX_SESSIONS".to_owned(),
        "idle_seconds = 60  # --idle-seconds".to_owned(),
        format!("api_keys = \"(hidden)\"  # {path}:3"),
        "log = \"pretty\"  # default".to_owned(),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
    }
    assert!(!format!("{ran:?}").contains("0123456789"));
}

#[tokio::test]
async fn the_example_can_be_used_as_it_is() {
    let example = run(&["config", "example"], &[]).await;
    assert_eq!(example.code, Some(0), "{example:?}");
    let (_folder, path) = file(&example.text());
    let checked = run(&["config", "check", &path], &[]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let without = run(&["config", "check"], &[]).await;
    assert_eq!(checked.text(), without.text(), "it changes nothing");
}
