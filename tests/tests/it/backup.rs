//! A backup that is made while the server works, and what a server on the restored data shows.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use glassbox_shared::command::{CommandState, CommandView, Interruption};
use glassbox_shared::id::CommandId;
use glassbox_tests::process::{ServerProcess, glassbox};
use glassbox_tests::program::run;
use glassbox_tests::{Client, TestServer, docker, hardened};

fn path_of(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

/// A server on restored data.
async fn serve(data: &Path, folder: &Path) -> ServerProcess {
    let mut command = glassbox();
    command.arg("serve").env("GLASSBOX_DATA_DIR", data).env("GLASSBOX_LISTEN", "127.0.0.1:0").env("NO_COLOR", "1");
    ServerProcess::start(command, folder).await.expect("it starts on restored data")
}

#[tokio::test]
async fn a_copy_made_while_serving_has_keys_and_output_and_leaves_the_originals_sandboxes_alone() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let done = session.finish("echo done; exit 5").await;
    let writing = session.run("i=0; while :; do i=$((i+1)); echo line $i; done").await;
    writing.wrote("line 1000\n").await;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, data) = (folder.path().join("backup.tar.gz"), folder.path().join("restored"));
    let (from, to) = (path_of(&server.data_dir()), path_of(&data));

    let made = run(&["backup", &path_of(&file), "--data-dir", &from], &[]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    writing.running().await;
    let again = run(&["backup", &path_of(&file), "--data-dir", &from], &[]).await;
    assert!(again.refusal().contains("is there already"), "{again:?}");

    let restored = run(&["restore", &path_of(&file), "--data-dir", &to], &[]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert!(restored.stderr.contains(&server.instance()), "it says what the original's containers are labelled with");
    let over = run(&["restore", &path_of(&file), "--data-dir", &from], &[]).await;
    assert!(over.refusal().contains("is not empty"), "{over:?}");

    let mut copy = serve(&data, folder.path()).await;
    let copied = Client::new(copy.address(), agent.key());
    let me = copied.get("/v1/me").await.success().expect("the same key");
    assert!(me.text().contains("acme"), "{me:?}");
    assert!(copied.sessions().await.is_empty(), "its sandbox belongs to another server");
    assert_eq!(copied.get(&session.path("")).await.status, 404);
    let past = |id: &CommandId| format!("/v1/history/{}/commands/{id}", session.id());
    let ended: CommandView = copied.get(&past(&done.view.command_id)).await.ok().expect("its history");
    assert_eq!(ended.state, CommandState::Exited { code: 5 });
    let interrupted: CommandView = copied.get(&past(writing.id())).await.ok().expect("its history");
    assert_eq!(interrupted.state, CommandState::Interrupted(Interruption::ServerRestarted));
    assert!(interrupted.output_bytes > 0 && !interrupted.output_complete, "{interrupted:?}");
    let output = copied.get(&format!("{}/output", past(writing.id()))).await.success().expect("what it had written");
    assert!(output.text().starts_with("line 1\nline 2\n"));
    let instance = std::fs::read_to_string(data.join("instance")).expect("an instance").trim().to_owned();
    assert_ne!(instance, server.instance());

    // The copy swept as it started; the original's sandbox lives.
    let (container, log) = (docker::container_of(session.id().as_str()), data.join("logs").join(session.id().as_str()));
    let kept = std::fs::read_to_string(log.join(done.view.command_id.as_str()).join("00000000000000000000.bytes"));
    assert_eq!(kept.expect("the output of what had ended"), "done\n");
    assert!(docker::containers(&instance).is_empty() && docker::workspaces(&instance).is_empty());
    writing.running().await;
    assert_eq!(docker::container_of(session.id().as_str()), container);
    session.sh("echo still here").await;
    assert!(copy.stop().is_some_and(|status| status.success()), "{}", copy.shown_log());
    docker::remove_all(&instance);
}

#[tokio::test]
async fn what_takes_the_originals_place_goes_on_with_its_workspaces() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("echo kept > file").await;
    let running = session.run("echo begun; sleep 980").await;
    running.wrote("begun").await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = path_of(&folder.path().join("backup.tar.gz"));
    let data = path_of(&server.data_dir());
    let made = run(&["backup", &file, "--data-dir", &data], &[]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let address = server.address();
    server.stop();
    // The disk with the data is lost; the engine still has everything.
    std::fs::rename(server.data_dir(), folder.path().join("lost")).expect("moved away");
    let restored = run(&["restore", "--as-original", &file, "--data-dir", &data], &[]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    server.restart(&address).await;
    session.ready().await;
    assert_eq!(session.sh("cat file").await, "kept\n");
    let finished = running.finish().await;
    assert_eq!(finished.view.state, CommandState::Interrupted(Interruption::ServerRestarted));
    assert_eq!(finished.text(), "begun\n");
}
