//! Case 25: a workspace that is full to its last byte, on a disk of its own.

use std::path::Path;

use glassbox_shared::command::CommandState;
use glassbox_shared::error::ErrorCode;
use glassbox_tests::small_disk::SmallDisk;
use glassbox_tests::{Session, TestServer, docker, hardened};

/// Room for some files.
const MEGABYTES: u32 = 24;
/// The owner of a hardened sandbox's workspace (`server/src/runtime/spec.rs`).
const OWNER: u32 = 1000;

/// Puts the session's workspace on the disk: the sandbox is made again while the disk lies over the volume.
async fn move_to(disk: &SmallDisk, session: &Session, server: &TestServer) {
    let volume = docker::workspaces(&server.instance()).pop().expect("a workspace");
    let folder = docker::run(&["volume", "inspect", "--format", "{{.Mountpoint}}", &volume]);
    let over = disk.lie_over(Path::new(folder.trim()));
    docker::run(&["kill", &docker::container_of(session.id().as_str())]);
    session.restarted(1).await;
    drop(over);
    session.sh("touch moved").await;
    assert!(disk.place().join("moved").exists(), "the workspace is on the small disk");
}

async fn half_written(session: &Session) -> String {
    session.sh("find . -name '.glassbox-tmp-*'").await
}

#[tokio::test]
async fn a_full_workspace_refuses_what_needs_room_and_works_again_once_there_is_some() {
    let (server, agent) = TestServer::with_agent().await;
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount_file(&folder.path().join("disk"), MEGABYTES, OWNER);
    let session = agent.create_session(hardened()).await;
    move_to(&disk, &session, &server).await;
    let files = session.files();
    session.sh("echo before > file; mkdir folder; echo deep > folder/deep").await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = files.start_upload("large", content.len() as u64).await.expect("there is room yet").upload_id;
    let kept = files.append(&upload, 0, &content[..1_000_000]).await.expect("a piece").offset;

    // The sandbox fills it, and what it could not use, another.
    let filler = session.finish("cat /dev/zero > filler; echo ended with $?").await;
    let said = filler.text();
    assert!(said.contains("No space left on device") && said.ends_with("ended with 1\n"), "{said}");
    disk.fill();

    let listed = files.names("").await;
    for refusal in [
        files.try_write("file", content.clone(), &[]).await.map(drop).expect_err("over what is there"),
        files.try_write("new", content.clone(), &[]).await.map(drop).expect_err("a new one"),
        files.try_write("folder/small", "x".repeat(5000), &[]).await.map(drop).expect_err("a small one"),
        files.append(&upload, kept, &content[kept as usize..]).await.map(drop).expect_err("the rest of one"),
        files.start_upload("huge", 1 << 30).await.map(drop).expect_err("one that never fits"),
        files.copy("filler", "copy").await.map(drop).expect_err("a copy"),
    ] {
        assert_eq!(refusal.code(), ErrorCode::WorkspaceFull, "{refusal}");
        assert!(refusal.status == 507 || refusal.status == 200, "a job has begun when it is refused: {refusal}");
        assert!(refusal.body.detail.contains("full"), "it says so: {refusal}");
    }
    // Nothing came of any of it, and what was there is there.
    assert_eq!(files.names("").await, listed);
    assert_eq!(files.read("file").await.text(), "before\n");
    assert_eq!(files.names("folder").await, ["deep"]);
    assert_eq!(half_written(&session).await.lines().count(), 1, "the upload that goes on, and nothing else");
    files.archive("folder").await.success().expect("reading needs no room");
    // Commands run, and are told the truth.
    let refused = session.finish("echo after > file2 || echo refused; seq 1 1000; exit 5").await;
    assert_eq!(refused.view.state, CommandState::Exited { code: 5 });
    let said = refused.text();
    assert!(said.contains("No space left on device") && said.contains("refused\n"), "{said}");
    assert!(said.ends_with("\n999\n1000\n") && refused.view.output_complete, "its output is elsewhere");

    files.delete("filler", false).await.expect("deleting needs no room");
    disk.free();
    let written = files.write("file", content.clone()).await;
    assert_eq!(written.size, content.len() as u64);
    let at = files.upload(&upload).await.expect("it goes on").offset;
    assert!(at >= kept, "what had arrived is there: {at}");
    let last = files.append(&upload, at, &content[at as usize..]).await.expect("the rest");
    assert_eq!(last.entry.expect("it is whole").size, content.len() as u64);
    for path in ["file", "large"] {
        assert!(files.read(path).await.body == content, "{path}: every byte is its own");
    }
    files.copy("file", "copy").await.expect("a copy");
    assert_eq!(session.sh("cmp file copy && cmp file large && echo after > file2 && cat file2").await, "after\n");
    assert_eq!(half_written(&session).await, "");
}
