//! Who did what to files is in the session's time line; and who may stop what takes long.

use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::{JobKind, JobLine, JobList, JobView};
use glassbox_shared::history::{FileAct, Happening, Timeline};
use glassbox_tests::files::name;
use glassbox_tests::{Client, Session, TestServer, eventually, hardened, open};
use serde_json::json;

/// Who did what to which, and where to, oldest first.
async fn told(client: &Client, session: &Session) -> Vec<(String, FileAct, String, Option<String>)> {
    let address = format!("/v1/history/{}/timeline?limit=200", session.id());
    let line: Timeline = client.get(&address).await.ok().expect("a time line");
    let files = line.entries.into_iter().filter_map(|entry| match entry.what {
        Happening::FileChanged { act, path, to, by, .. } => Some((by.name().to_owned(), act, path, to)),
        _ => None,
    });
    files.collect()
}

#[tokio::test]
async fn what_was_done_to_files_is_told_to_the_tenant_over_a_crash_and_after_the_end() {
    let (mut server, agent) = TestServer::with_agent().await;
    let (viewer, stranger) = (server.viewer_key().await, server.other_operator());
    let mut expected = Vec::new();
    let mut sessions = Vec::new();
    for (create, root) in [(hardened(), ""), (open(), "/root/")] {
        let session = agent.create_session(create).await;
        let files = session.files();
        let odd = name(b"a b\xff\n");
        files.write(&odd, "content").await;
        files.make_folder("folder").await.expect("made");
        files.rename(&odd, "folder/b", false).await.expect("renamed");
        files.copy("folder", "copy").await.expect("copied");
        let upload = files.start_upload("up", 6).await.expect("begun").upload_id;
        files.append(&upload, 0, "abc").await.expect("added");
        files.append(&upload, 3, "def").await.expect("added");
        files.delete("folder", true).await.expect("deleted");
        // Not done, or nothing that changes anything.
        files.rename("no such", "x", false).await.expect_err("it is not there");
        files.try_write("up", "x", &[("if-match", "\"other\"")]).await.expect_err("another version");
        files.delete("copy", false).await.expect_err("it is not empty");
        files.archive("copy").await.success().expect("packed");
        session.seen_by(&viewer).files().make_folder("x").await.expect_err("viewers only look");
        let by = name_of(&session).await;
        let path = |path: &str| format!("{root}{path}");
        let entry = |act, from: &str, to: Option<&str>| (by.clone(), act, path(from), to.map(path));
        let all = vec![
            entry(FileAct::Saved, &odd, None),
            entry(FileAct::FolderMade, "folder", None),
            entry(FileAct::Renamed, &odd, Some("folder/b")),
            entry(FileAct::Copied, "folder", Some("copy")),
            entry(FileAct::Uploaded, "up", None),
            entry(FileAct::Deleted, "folder", None),
        ];
        assert_eq!(told(&viewer, &session).await, all);
        expected.push(all);
        sessions.push(session);
    }
    let address = server.address();
    server.kill_hard();
    server.restart(&address).await;
    for (session, expected) in sessions.iter().zip(&expected) {
        assert_eq!(told(&viewer, session).await, *expected);
        session.delete().await.success().expect("an end");
        assert_eq!(told(&viewer, session).await, *expected, "also of one that has ended");
        let foreign = stranger.get(&format!("/v1/history/{}/timeline", session.id())).await.refusal();
        assert_eq!(foreign.code(), ErrorCode::NotFound);
    }
}

/// Whose the session is.
async fn name_of(session: &Session) -> String {
    session.view().await.created_by.name().to_owned()
}

/// Entries of [`large_tree`], with itself.
const LARGE: u64 = 1 + 40 + 40 * 500;

/// How many of them are left.
async fn left_of_it(session: &Session) -> u64 {
    session.sh("find tree | wc -l").await.trim().parse().expect("a number")
}

/// Who stopped a deletion, of what, and how much was gone by then, where the time line tells of one.
async fn stopped(client: &Client, session: &Session) -> Option<(String, String, u64)> {
    let address = format!("/v1/history/{}/timeline?limit=200", session.id());
    let line: Timeline = client.get(&address).await.ok().expect("a time line");
    line.entries.into_iter().find_map(|entry| match entry.what {
        Happening::FileChanged { act: FileAct::DeletionStopped, path, entries, by, .. } => {
            Some((by.name().to_owned(), path, entries.expect("how many")))
        }
        _ => None,
    })
}

/// A tree that takes seconds to delete.
async fn large_tree(session: &Session) {
    session.sh("mkdir tree && cd tree && for d in $(seq 1 40); do mkdir $d; (cd $d && touch $(seq 1 500)); done").await;
}

#[tokio::test]
async fn an_operator_stops_an_agents_deletion_without_control_and_a_viewer_does_not() {
    let (server, agent) = TestServer::with_agent().await;
    let (operator, viewer) = (server.operator(), server.viewer_key().await);
    let session = agent.create_session(hardened()).await;
    large_tree(&session).await;
    let address = session.files().address("entry", "tree", "&recursive=true");
    let request = agent.request(reqwest::Method::DELETE, &address);
    let mut answer = request.send().await.expect("an answer").bytes_stream();
    let mut lines = answer.next().await.expect("a first line").expect("bytes").to_vec();
    let jobs = |client: &Client| {
        let (client, path) = (client.clone(), session.path("/fs/jobs"));
        async move { client.get(&path).await.ok::<JobList>().expect("a list").jobs }
    };
    let listed: Vec<JobView> = jobs(&viewer).await;
    let [job] = &listed[..] else { panic!("one: {listed:?}") };
    let own = name_of(&session).await;
    assert_eq!((job.kind, job.path.as_str(), job.by.name()), (JobKind::Delete, "tree", own.as_str()));
    let path = session.path(&format!("/fs/jobs/{}", job.job_id));
    assert_eq!(viewer.delete(&path).await.refusal().code(), ErrorCode::Forbidden);
    let foreign = server.other_operator().delete(&path).await.refusal();
    assert_eq!(foreign.code(), ErrorCode::OtherTenant);
    // Acting is another matter.
    let write = session.seen_by(&operator).files().make_folder("x").await.expect_err("the agent is in control");
    assert_eq!(write.code(), ErrorCode::NotInControl);
    let stopped_at: JobView = operator.delete(&path).await.ok().expect("stopped");
    assert_eq!(stopped_at.job_id, job.job_id);

    while let Some(more) = answer.next().await {
        lines.extend(more.expect("it ends like a whole one"));
    }
    let text = String::from_utf8(lines).expect("text");
    let last: JobLine = serde_json::from_str(text.lines().last().expect("a line")).expect("a word");
    let JobLine::Error(error) = &last else { panic!("{last:?}") };
    assert_eq!(error.code, ErrorCode::Conflict);
    assert!(error.detail.starts_with("this was stopped by "), "{error:?}");
    assert!(jobs(&viewer).await.is_empty());
    assert_eq!(operator.delete(&path).await.refusal().code(), ErrorCode::NotFound);
    // What was verified: nothing is deleted any more, and something is left.
    let left = left_of_it(&session).await;
    assert!(left > 1, "{left}");
    assert_eq!(left_of_it(&session).await, left);
    assert_eq!(told(&viewer, &session).await.len(), 1);
    let (by, path, gone) = stopped(&viewer, &session).await.expect("it is told");
    assert_ne!(by, own);
    assert_eq!((path.as_str(), gone), ("tree", LARGE - left));
    assert_eq!(gone, stopped_at.done, "whoever stopped it read the same");
}

#[tokio::test]
async fn a_deletion_whose_client_leaves_is_told_of_with_what_was_gone_by_then() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    large_tree(&session).await;
    let address = session.files().address("entry", "tree", "&recursive=true");
    let mut answer = agent.request(reqwest::Method::DELETE, &address).send().await.expect("an answer");
    assert!(answer.chunk().await.expect("bytes").is_some(), "it is under way");
    drop(answer);
    let viewer = server.viewer_key().await;
    let (by, path, gone) =
        eventually("it is told", Duration::from_secs(30), async || stopped(&viewer, &session).await).await;
    assert_eq!((by, path.as_str()), (name_of(&session).await, "tree"));
    let left = left_of_it(&session).await;
    assert!(left > 1, "{left}");
    assert_eq!(gone, LARGE - left);
}

#[tokio::test]
async fn a_client_that_leaves_with_its_change_is_told_of_all_the_same() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let files = session.files();
    for number in 0..20 {
        // However far it comes: what is there is told.
        let (address, body) = (session.path("/fs/folders"), json!({"path": format!("f{number}")}));
        let _ = tokio::time::timeout(Duration::from_millis(number), agent.post(&address, &body)).await;
    }
    files.make_folder("last").await.expect("made");
    eventually("all that is there is told", Duration::from_secs(30), async || {
        let there = files.names("").await;
        let told: Vec<String> = told(&agent, &session).await.into_iter().map(|(_, _, path, _)| path).collect();
        there.iter().all(|name| told.contains(name)).then_some(())
    })
    .await;
}
