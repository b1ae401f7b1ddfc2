//! Files: what a sandbox does to lead a file operation out of its workspace, or to make it wait.

use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::FileType;
use glassbox_tests::{TestServer, hardened, open};

/// The case's bar; what is measured is one round trip.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Case 23, hardened.
#[tokio::test]
async fn what_leads_out_of_a_workspace_or_has_no_content_is_an_error_at_once() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session
        .sh("echo inside > file && mkdir d && ln -s ../file d/in && ln -s /workspace/file own && \
             ln -s /etc/passwd out && ln -s ../../etc/passwd winding && ln -s / root && ln -s d/../../etc up && \
             ln -s loop2 loop1 && ln -s loop1 loop2 && ln -s nothing dangling && mkfifo pipe && ln -s /dev/zero zero && \
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'")
        .await;
    let files = session.files();
    for (path, code) in [
        ("out", ErrorCode::OutsideWorkspace),
        ("winding", ErrorCode::OutsideWorkspace),
        ("root/etc/passwd", ErrorCode::OutsideWorkspace),
        ("up/passwd", ErrorCode::OutsideWorkspace),
        ("zero", ErrorCode::OutsideWorkspace),
        ("/etc/passwd", ErrorCode::OutsideWorkspace),
        ("/proc/1/environ", ErrorCode::OutsideWorkspace),
        ("loop1", ErrorCode::LinkLoop),
        ("dangling", ErrorCode::NotFound),
        ("pipe", ErrorCode::NotAFile),
        ("socket", ErrorCode::NotAFile),
        ("d", ErrorCode::NotAFile),
        ("file/x", ErrorCode::NotAFolder),
        ("../etc/passwd", ErrorCode::BadName),
        ("d/%2e%2e/%2e%2e/etc/passwd", ErrorCode::BadName),
        ("a%00b", ErrorCode::BadName),
    ] {
        let begun = Instant::now();
        assert_eq!(files.read(path).await.refusal().code(), code, "{path}");
        assert!(begun.elapsed() < AT_ONCE, "{path}: {:?}", begun.elapsed());
        if code != ErrorCode::NotFound {
            let refusal = files.try_write(path, "x", &[]).await.expect_err(path);
            assert_eq!(refusal.code(), code, "writing {path}");
        }
    }
    assert_eq!(files.try_list("root", "").await.expect_err("out").code(), ErrorCode::OutsideWorkspace);
    assert_eq!(files.archive("up").await.refusal().code(), ErrorCode::OutsideWorkspace);
    assert_eq!(files.copy("file", "root/tmp/copy").await.expect_err("out").code(), ErrorCode::OutsideWorkspace);
    assert_eq!(
        files.rename("file", "root/tmp/moved", false).await.expect_err("out").code(),
        ErrorCode::OutsideWorkspace
    );
    for inside in ["d/in", "own", "/workspace/file"] {
        assert_eq!(files.read(inside).await.success().expect(inside).text(), "inside\n");
    }
    // The links themselves are told of, with where they lead.
    let out = files.stat("out").await;
    let target = out.target.expect("a link's target");
    assert_eq!((out.kind, target.path.as_str(), target.kind), (FileType::Link, "/etc/passwd", None));
    let into = files.stat("d/in").await.target.expect("a link's target");
    assert_eq!((into.path.as_str(), into.kind), ("../file", Some(FileType::File)));
    // Writing through a link inside writes its target.
    files.write("d/in", "through").await;
    assert_eq!(session.sh("cat file && readlink d/in").await, "through../file\n");
    // Deleting a link, or a folder with links in it, never follows them.
    files.delete("root", true).await.expect("a link goes");
    session.sh("mkdir t && ln -s ../d t/d && ln -s /tmp t/tmp && touch /tmp/stays").await;
    files.delete("t", true).await.expect("a folder with links goes");
    assert_eq!(session.sh("ls d /tmp/stays").await, "/tmp/stays\n\nd:\nin\n");
}

/// Case 23, open.
#[tokio::test]
async fn in_an_open_sandbox_any_regular_file_is_read_and_nothing_that_never_ends() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("mkfifo pipe; ln -s /dev/zero zero; ln -s /etc/hostname name; echo mine > mine").await;
    let files = session.files();
    assert_eq!(files.list("", "").await.path, "/root", "it begins at the workspace");
    assert_eq!(files.stat("mine").await.path, "/root/mine");
    assert!(files.read("/etc/passwd").await.success().expect("a regular file").text().starts_with("root:"));
    assert_eq!(files.read("/root/name").await.text(), session.sh("cat /etc/hostname").await);
    assert!(files.read("/proc/self/status").await.success().expect("made up by the kernel").text().contains("Pid:"));
    assert!(files.names("/").await.contains(&"etc".to_owned()));
    for (path, code) in [
        ("/dev/zero", ErrorCode::NotAFile),
        ("zero", ErrorCode::NotAFile),
        ("pipe", ErrorCode::NotAFile),
        ("/etc", ErrorCode::NotAFile),
    ] {
        let begun = Instant::now();
        assert_eq!(files.read(path).await.refusal().code(), code, "{path}");
        assert!(begun.elapsed() < AT_ONCE, "{path}: {:?}", begun.elapsed());
    }
    // The sandbox's own root is what `/` is, never the host's.
    session.sh("echo sandbox > /only-in-here").await;
    assert_eq!(files.read("/only-in-here").await.text(), "sandbox\n");
    assert_eq!(files.delete("/", true).await.expect_err("never").code(), ErrorCode::Conflict);
    assert_eq!(files.delete("", true).await.expect_err("never").code(), ErrorCode::Conflict);
}
