//! Files: content into a sandbox, whole or not at all.

use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::JobLine;
use glassbox_tests::files::lines;
use glassbox_tests::{Session, TestServer, eventually, hardened, open};
use reqwest::Method;

/// What is left of writing that did not come to its end.
async fn half_written(session: &Session) -> String {
    session.sh("find . /dev/shm -name '.glassbox-tmp-*' 2>/dev/null; true").await
}

#[tokio::test]
async fn a_file_is_written_whole_and_only_over_the_version_that_was_read() {
    let (_server, agent) = TestServer::with_agent().await;
    for create in [hardened(), open()] {
        let session = agent.create_session(create).await;
        let files = session.files();
        let made = files.write("file", "one").await;
        assert_eq!((made.size, made.mode.as_str()), (3, "0644"));
        session.sh("chmod 750 file").await;
        let version = files.stat("file").await.version;
        let tag = format!("\"{version}\"");
        let saved = files.try_write("file", "two", &[("if-match", &tag)]).await.expect("nobody changed it");
        assert_eq!(saved.mode, "0750", "permissions stay");
        assert_ne!(saved.version, version);
        let conflict = files.try_write("file", "three", &[("if-match", &tag)]).await.expect_err("it was changed");
        assert_eq!((conflict.status, conflict.code()), (412, ErrorCode::Changed));
        session.sh("echo agent > file").await;
        let tag = format!("\"{}\"", saved.version);
        let conflict = files.try_write("file", "three", &[("if-match", &tag)]).await.expect_err("the agent did");
        assert_eq!(conflict.code(), ErrorCode::Changed);
        assert_eq!(session.sh("cat file").await, "agent\n");
        let there = files.try_write("file", "x", &[("if-none-match", "*")]).await.expect_err("it is there");
        assert_eq!(there.code(), ErrorCode::Changed);
        files.try_write("new", "x", &[("if-none-match", "*")]).await.expect("it is not");
        let missing = files.try_write("no/such/folder", "x", &[]).await.expect_err("no folder");
        assert_eq!(missing.code(), ErrorCode::NotFound);
        let address = files.address("content", "a/b/c", "&parents=true");
        agent.send(agent.request(Method::PUT, &address).body("deep")).await.success().expect("with parents");
        assert_eq!(session.sh("cat a/b/c").await, "deep");
        assert_eq!(half_written(&session).await, "");
    }
}

/// Case 25, the names.
#[tokio::test]
async fn an_upload_whose_name_leads_up_is_refused() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let files = session.files();
    for path in ["../escaped", "a/../../escaped", "%2e%2e/escaped", "..%2Fescaped", "%2E%2E%2fescaped", ".."] {
        for refusal in [
            files.try_write(path, "x", &[]).await.map(drop).expect_err(path),
            files.start_upload(path, 1).await.map(drop).expect_err(path),
            files.make_folder(path).await.map(drop).expect_err(path),
        ] {
            assert_eq!((refusal.status, refusal.code()), (422, ErrorCode::BadName), "{path}");
        }
    }
    assert_eq!(files.list("", "").await.total, 0);
    let long = "n".repeat(256);
    assert_eq!(files.try_write(&long, "x", &[]).await.expect_err("too long").code(), ErrorCode::BadName);
}

/// Case 25, the disk. `/dev/shm` of an open sandbox is a small file system of its own.
#[tokio::test]
async fn writing_to_a_full_disk_is_refused_and_leaves_nothing_half_written() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let files = session.files();
    let small = "/dev/shm";
    session.sh("echo before > /dev/shm/file; dd if=/dev/zero of=/dev/shm/filler bs=1M 2>/dev/null; true").await;
    // Until the last byte: dd gives up at a block that does not fit.
    session.sh("cat /dev/zero > /dev/shm/rest 2>/dev/null; true").await;
    let content = vec![b'x'; 3 << 20];
    let full = files.try_write(&format!("{small}/file"), content.clone(), &[]).await.expect_err("it is full");
    assert_eq!((full.status, full.code()), (507, ErrorCode::WorkspaceFull));
    assert_eq!(session.sh("cat /dev/shm/file").await, "before\n", "what was there stays");
    let copied = files.copy(&format!("{small}/filler"), &format!("{small}/copy")).await.expect_err("it is full");
    assert_eq!(copied.code(), ErrorCode::WorkspaceFull);
    assert_eq!(half_written(&session).await, "");
    assert_eq!(session.sh("ls /dev/shm | sort | xargs").await, "file filler rest\n");
    files.delete(&format!("{small}/filler"), false).await.expect("room is made");
    files.write(&format!("{small}/file"), content).await;
    assert_eq!(session.sh("stat -c %s /dev/shm/file").await, "3145728\n");
}

#[tokio::test]
async fn a_broken_upload_leaves_nothing_and_one_in_pieces_goes_on_where_it_broke() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let files = session.files();
    // A client that vanishes in the middle.
    let begun = futures_util::stream::iter([Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])]);
    let body = reqwest::Body::wrap_stream(begun.chain(futures_util::stream::pending()));
    let request = agent.request(Method::PUT, &files.address("content", "vanished", "")).body(body);
    let sending = tokio::spawn(request.send());
    eventually("the upload has begun", Duration::from_secs(30), async || {
        (half_written(&session).await.lines().count() == 1).then_some(())
    })
    .await;
    sending.abort();
    eventually("it is cleared away", Duration::from_secs(30), async || {
        half_written(&session).await.is_empty().then_some(())
    })
    .await;
    assert_eq!(files.list("", "").await.total, 0);

    let content: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = files.start_upload("large", content.len() as u64).await.expect("it begins");
    let id = upload.upload_id;
    assert_eq!(upload.offset, 0);
    let first = files.append(&id, 0, &content[..2_000_000]).await.expect("a piece");
    assert_eq!((first.offset, first.entry.is_none()), (2_000_000, true));
    let wrong = files.append(&id, 0, &content[..10]).await.expect_err("that is there already");
    assert_eq!(wrong.code(), ErrorCode::Conflict);
    assert_eq!(files.try_stat("large").await.expect_err("not before its end").code(), ErrorCode::NotFound);
    assert_eq!(files.list("", "").await.total, 0, "what is under way is not listed");
    let at = files.upload(&id).await.expect("it is known").offset as usize;
    let last = files.append(&id, at as u64, &content[at..]).await.expect("the rest");
    assert_eq!(last.entry.expect("it is whole").size, content.len() as u64);
    assert_eq!(files.read("large").await.body, content);
    assert_eq!(files.upload(&id).await.expect_err("it is over").code(), ErrorCode::NotFound);

    let upload = files.start_upload("other", 10).await.expect("it begins").upload_id;
    let much = files.append(&upload, 0, "more than ten bytes").await.expect_err("too much");
    assert_eq!(much.code(), ErrorCode::TooLarge);
    assert_eq!(files.give_up(&upload).await.status, 204);
    assert_eq!(files.start_upload("large", 1).await.expect_err("it is there").code(), ErrorCode::Exists);
    let huge = files.start_upload("huge", 4 << 40).await.expect_err("beyond the limit");
    assert_eq!((huge.status, huge.code()), (413, ErrorCode::TooLarge));
    assert_eq!(half_written(&session).await, "");
}

#[tokio::test]
async fn copies_and_deletions_tell_how_far_they_are_and_end_with_their_connection() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let files = session.files();
    session.sh("mkdir -p tree/a/b && cd tree && echo x > a/b/file && ln -s a/b/file link && mkfifo pipe").await;
    session.sh("mkdir tree/many && cd tree/many && seq 1 20000 | xargs -n 2000 touch").await;
    // Another upload lies there for a while, which is not copied; what is only called like one is.
    let upload = files.start_upload("tree/upload", 10).await.expect("begun").upload_id;
    session.sh("touch tree/.glassbox-tmp-mine").await;
    let copied = files.copy("tree", "copy").await.expect("it is copied");
    assert_eq!((copied.skipped, copied.entry.expect("the copy").path.as_str()), (1, "copy"));
    assert_eq!(copied.done, 20_007);
    files.give_up(&upload).await.success().expect("given up");
    assert_eq!(
        session.sh("cat copy/a/b/file && readlink copy/link && ls copy/many | wc -l").await,
        "x\na/b/file\n20000\n"
    );
    assert_eq!(files.copy("tree", "copy").await.expect_err("it is there").code(), ErrorCode::Exists);
    assert_eq!(files.copy("tree", "tree/inside").await.expect_err("into itself").code(), ErrorCode::Conflict);
    assert_eq!(files.rename("tree", "tree/inside", false).await.expect_err("into itself").code(), ErrorCode::Conflict);
    assert_eq!(files.rename("tree/link", "copy/link", false).await.expect_err("it is there").code(), ErrorCode::Exists);
    files.rename("tree/link", "copy/link", true).await.expect("replaced");
    assert_eq!(files.delete("copy", false).await.expect_err("it is not empty").code(), ErrorCode::NotEmpty);
    let answer = agent.delete(&files.address("entry", "copy", "&recursive=true")).await.success().expect("it goes");
    let told = lines(&answer);
    assert!(matches!(told.last(), Some(JobLine::Done(done)) if done.done == 20_007), "{:?}", told.last());

    files.delete("tree", true).await.expect("with all that is in it");

    // Cancelled by closing the connection: the copy leaves nothing.
    session.sh("mkdir large && head -c 400000000 /dev/zero > large/a && cp large/a large/b").await;
    let body = serde_json::json!({"from": "large", "to": "cancelled"});
    let mut answer =
        agent.request(Method::POST, &session.path("/fs/copy")).json(&body).send().await.expect("it begins");
    let first = answer.chunk().await.expect("a line").expect("a line");
    assert!(first.starts_with(b"{\"progress\""), "{}", String::from_utf8_lossy(&first));
    drop(answer);
    eventually("the copy is cleared away", Duration::from_secs(60), async || {
        half_written(&session).await.is_empty().then_some(())
    })
    .await;
    assert_eq!(files.try_stat("cancelled").await.expect_err("it was cancelled").code(), ErrorCode::NotFound);
}
