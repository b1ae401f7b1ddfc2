//! The program's commands beside a server, and what `serve` refuses: one clear sentence, a code, no panic.

use std::path::Path;

use glassbox_tests::program::{Ran, run};
use glassbox_tests::{TestServer, docker, hardened};
use serde_json::json;

fn path_of(folder: &Path) -> String {
    folder.to_str().expect("a plain path").to_owned()
}

/// `glassbox serve` with a data directory of its own, which must end by itself.
async fn refused_serve(environment: &[(&str, &str)]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let data = path_of(&folder.path().join("data"));
    let mut all = vec![("GLASSBOX_DATA_DIR", data.as_str()), ("GLASSBOX_LISTEN", "127.0.0.1:0")];
    all.retain(|(name, _)| !environment.iter().any(|(given, _)| given == name));
    all.extend_from_slice(environment);
    run(&["serve"], &all).await
}

/// All of it in one line (a refused argument of the command line has a hint below it).
fn assert_one_sentence(ran: &Ran, says: &str) {
    let said = ran.refusal();
    assert!(said.contains(says), "it should say {says:?}: {said}");
    let lines = said.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 3, "one sentence: {said}");
}

#[tokio::test]
async fn wrong_settings_are_refused_by_name() {
    for (name, value) in [
        ("GLASSBOX_LISTEN", "everywhere"),
        ("GLASSBOX_LISTEN", "0.0.0.0:0"),
        ("GLASSBOX_API_KEYS", ""),
        ("GLASSBOX_API_KEYS", "acme"),
        ("GLASSBOX_API_KEYS", "acme:short"),
        ("GLASSBOX_API_KEYS", "Acme Inc:0123456789abcdef0123"),
        ("GLASSBOX_API_KEYS", "a:0123456789abcdef0123,b:0123456789abcdef0123"),
        ("GLASSBOX_API_KEYS", "a:0123456789abcdef0123,"),
        ("GLASSBOX_PUBLIC_URL", "glassbox"),
        ("GLASSBOX_PUBLIC_URL", "ftp://example.com"),
        ("GLASSBOX_LOG", "loud"),
        ("GLASSBOX_MEMORY_TOTAL", "much"),
        ("GLASSBOX_MEMORY_TOTAL", "1m"),
        ("GLASSBOX_MAX_SESSIONS", "0"),
        ("GLASSBOX_MAX_SESSIONS", "-1"),
        ("GLASSBOX_IDLE_SECONDS", "soon"),
        ("GLASSBOX_LOG_HEAD", "1"),
    ] {
        let ran = refused_serve(&[(name, value)]).await;
        let said = ran.refusal();
        let flag = name.trim_start_matches("GLASSBOX_").to_ascii_lowercase().replace('_', "-");
        assert!(said.contains(name) || said.contains(&format!("--{flag}")), "{name}={value:?} is named: {said}");
        assert!(!said.contains("0123456789abcdef0123"), "no key is repeated: {said}");
    }
}

#[tokio::test]
async fn a_missing_engine_image_or_helper_is_one_sentence() {
    docker::require();
    let no_engine = refused_serve(&[("DOCKER_HOST", "unix:///nowhere/docker.sock")]).await;
    assert_one_sentence(&no_engine, "Docker");
    let no_image = refused_serve(&[("GLASSBOX_IMAGE", "no-such-image:latest")]).await;
    assert_one_sentence(&no_image, "no-such-image:latest");
    let no_helper = refused_serve(&[("GLASSBOX_HELPER", "/nowhere/glassbox-inside")]).await;
    assert_one_sentence(&no_helper, "/nowhere/glassbox-inside");
    for command in [vec!["run", "--", "true"], vec!["doctor"]] {
        let ran = run(&command, &[("DOCKER_HOST", "unix:///nowhere/docker.sock")]).await;
        assert_ne!(ran.code, Some(0), "{command:?}: {ran:?}");
        let said = ran.text() + &ran.stderr;
        assert!(said.contains("Docker") && !said.contains("panicked"), "{command:?}: {said}");
    }
}

#[tokio::test]
async fn a_taken_port_and_an_unusable_data_directory_are_one_sentence() {
    docker::require();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    assert_one_sentence(&refused_serve(&[("GLASSBOX_LISTEN", &address)]).await, &address);

    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("thesis.tex"), "years of work").expect("a file");
    let foreign = path_of(folder.path());
    assert_one_sentence(&refused_serve(&[("GLASSBOX_DATA_DIR", &foreign)]).await, &foreign);
    // Tests run as root, for whom every folder is writable, except those that are none.
    for unusable in
        [path_of(&folder.path().join("thesis.tex")), "/proc/glassbox".to_owned(), "/dev/null/glassbox".to_owned()]
    {
        assert_one_sentence(&refused_serve(&[("GLASSBOX_DATA_DIR", &unusable)]).await, &unusable);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was put beside other files");
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused_and_the_first_does_not_notice() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let running = session.run("sleep 960").await;
    running.running().await;
    let data = path_of(&server.data_dir());
    let second = refused_serve(&[("GLASSBOX_DATA_DIR", &data)]).await;
    assert_one_sentence(&second, &data);
    assert!(second.stderr.contains(&server.process().pid().to_string()), "it says who: {}", second.stderr);
    running.running().await;
    session.sh("true").await;
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_beside_a_running_server() {
    let server = TestServer::start().await;
    let data = path_of(&server.data_dir());
    let keys = async |arguments: &[&str]| {
        let mut all = vec!["keys"];
        all.extend_from_slice(arguments);
        all.extend_from_slice(&["--data-dir", &data]);
        run(&all, &[]).await
    };
    let made = keys(&["create", "--role", "agent", "--tenant", "acme", "--name", "builder"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let key = made.text().trim().to_owned();
    assert!(key.starts_with("asb_") && !key.contains(char::is_whitespace), "the key alone is on stdout");
    assert!(!made.stderr.contains(&key));
    let agent = server.operator().with_key(&key);
    agent.create_session(hardened()).await.sh("true").await;
    let mut socket = agent.viewer().await;

    let listed = keys(&["list", "--tenant", "acme"]).await.text();
    let line = listed.lines().find(|line| line.contains("builder")).expect("it is listed");
    assert!(line.contains("agent") && line.contains("active") && !listed.contains(&key), "{listed}");
    let id = line.split_whitespace().next().expect("an id");
    assert!(!keys(&["list", "--tenant", "other"]).await.text().contains(id), "another tenant's list");

    let revoked = keys(&["revoke", id, "--tenant", "acme"]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(agent.get("/v1/me").await.status, 401, "at once");
    // Another process revoked it: an open socket notices with its next heartbeat.
    socket.until("the socket is closed", std::time::Duration::from_mins(1), |heard| heard.closed).await;

    assert!(keys(&["revoke", "key_aaaaaaaaaaaaaaaaaaaa", "--tenant", "acme"]).await.refusal().contains("key"));
    assert!(keys(&["create", "--role", "root"]).await.refusal().contains("role"));
    let empty = tempfile::tempdir().expect("a folder");
    let nowhere = run(&["keys", "list", "--data-dir", &path_of(empty.path())], &[]).await;
    assert_one_sentence(&nowhere, "glassbox serve");
}

#[tokio::test]
async fn a_link_signs_in_at_the_address_that_it_names() {
    let server = TestServer::start().await;
    let data = path_of(&server.data_dir());
    let link = run(&["link", "--tenant", "acme", "--role", "viewer", "--data-dir", &data], &[]).await;
    assert_eq!(link.code, Some(0), "{link:?}");
    let text = link.text();
    let (address, token) = text.trim().split_once("#link=").unwrap_or_else(|| panic!("a link alone on stdout: {text}"));
    assert_eq!(address.trim_end_matches('/'), server.address(), "the server wrote down where it is found");
    let client = server.operator().without_key();
    let answer = client.post("/v1/sign-in", &json!({"link": token, "name": "Vic"})).await;
    let me: serde_json::Value = answer.ok().expect("signed in");
    assert!(me.to_string().contains("viewer") && me.to_string().contains("acme"), "{me}");
}

#[tokio::test]
async fn without_a_key_given_one_is_made_kept_privately_and_a_link_is_printed() {
    // As on a first start: no keys by configuration.
    let setup = TestServer::configure().without_env("GLASSBOX_API_KEYS");
    let mut server = setup.start().await;
    let said = server.process().stdout();
    assert!(said.contains("#link="), "{said}");
    let file = server.data_dir().join("operator.key");
    let key = std::fs::read_to_string(&file).expect("it is kept in a file").trim().to_owned();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("a file").permissions()) & 0o777;
    assert_eq!(mode, 0o600, "readable by its owner only");
    assert!(!said.contains(&key) && !server.process().log().contains(&key), "it is not printed");
    let operator = server.operator().with_key(&key);
    operator.create_session(hardened()).await.sh("true").await;
    let sessions = operator.sessions().await;
    operator.session(&sessions[0].session_id).delete().await.success().expect("ended");
    let address = server.address();
    server.stop();
    server.restart(&address).await;
    assert!(operator.sessions().await.is_empty(), "the same key works after a restart");
    assert_eq!(std::fs::read_to_string(&file).expect("a file").trim(), key);
}
