//! What is told of files in the time line, and who stops a copy or a deletion.

use bytes::Bytes;
use futures_util::FutureExt as _;
use glassbox_shared::files::JobKind;
use glassbox_shared::files::frames::Operation;

use super::*;
use crate::session::{JobWord, Session};

fn viewer(tenant: &str) -> Principal {
    Principal { role: Role::Viewer, ..operator(tenant) }
}

fn write(path: &str) -> Operation {
    Operation::Write { path: path.into(), expected: None, new: false, parents: false, limit: 1 << 20 }
}

fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename { from: from.into(), to: to.into(), replace: false }
}

fn delete(path: &str) -> Operation {
    Operation::Delete { path: path.into(), recursive: true }
}

impl World {
    fn get(&self, session: &SessionId) -> Session {
        self.sessions.get("acme", session).expect("a session")
    }

    /// What the time line tells of files: who did what to which, where to, bytes, entries.
    async fn told(&self, session: &SessionId) -> Vec<String> {
        let line = self.history.timeline("acme", session, None, 100).await.expect("a time line");
        let told = line.entries.into_iter().filter_map(|entry| match entry.what {
            Happening::FileChanged { act, path, to, bytes, entries, by, .. } => {
                let act = serde_json::to_value(act).expect("a word");
                let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
                let words = [by.name(), act.as_str().expect("a word"), &path, to.as_deref().unwrap_or("-")];
                Some(format!("{} {} {}", words.join(" "), number(bytes), number(entries)))
            }
            Happening::FileChangesLeftOut { .. } => Some("left out".to_owned()),
            _ => None,
        });
        told.collect()
    }

    /// Looks until the time line tells so much of files.
    async fn tells(&self, session: &SessionId, count: usize) -> Vec<String> {
        let looking = async {
            let mut look = tokio::time::interval(Duration::from_millis(5));
            loop {
                look.tick().await;
                let told = self.told(session).await;
                if told.len() >= count {
                    return told;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never {count} of files"))
    }
}

/// The last word of a job.
async fn last(job: &mut crate::session::Job) -> JobWord {
    loop {
        let word = job.next().await;
        if word.is_last() {
            return word;
        }
    }
}

#[tokio::test]
async fn every_change_of_files_is_in_the_time_line_with_who_made_it_and_no_other_is() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    let mut saved = handle.write_files(&agent("acme"), write("src//a%20b")).await.expect("begun");
    saved.send(Bytes::from_static(b"content")).await.expect("it takes it");
    saved.finish().await.expect("written");
    let id = "upload".to_owned();
    let start = Operation::StartUpload { id: id.clone(), path: "/workspace/up".into(), size: 4711, replace: false };
    handle.change_files(&agent("acme"), start).await.expect("begun");
    let append = handle.write_files(&agent("acme"), Operation::Append { id, offset: 0 }).await.expect("begun");
    append.finish().await.expect("uploaded");
    handle.change_files(&agent("acme"), Operation::MakeFolder { path: "f%FF".into() }).await.expect("made");
    handle.change_files(&agent("acme"), rename("a", "b")).await.expect("renamed");
    let copy = Operation::Copy { from: "b".into(), to: "c".into(), replace: false };
    assert!(matches!(last(&mut handle.start_job(&agent("acme"), copy).await.expect("begun")).await, JobWord::Done(_)));
    let mut job = handle.start_job(&agent("acme"), delete("b")).await.expect("begun");
    assert!(matches!(last(&mut job).await, JobWord::Done(_)));

    // Refused, failed, given up, or only looked at.
    assert_eq!(code(handle.change_files(&operator("acme"), rename("a", "b")).await), ErrorCode::NotInControl);
    assert_eq!(code(handle.change_files(&agent("acme"), rename("a", "refused")).await), ErrorCode::Exists);
    let mut given_up = handle.write_files(&agent("acme"), write("given-up")).await.expect("begun");
    given_up.send(Bytes::from_static(b"content")).await.expect("it takes it");
    drop(given_up);
    handle.look_at_files(Operation::Version { path: "a".into() }).await.expect("a look");
    let expected = [
        "agent-7 saved src/a%20b - 7 -",
        "agent-7 uploaded up - 4711 -",
        "agent-7 folder_made f%FF - - -",
        "agent-7 renamed a b - -",
        "agent-7 copied b c 0 1",
        "agent-7 deleted b - - 1",
    ];
    assert_eq!(world.told(&session).await, expected);
    // As after `kill -9`: what was answered is there.
    let world = world.restarted().await;
    assert_eq!(world.told(&session).await, expected);

    let request = CreateSession { persistent: Some(true), ..CreateSession::default() };
    let humans = world.sessions.create(&operator("acme"), request).await.expect("a session").session_id;
    world.get(&humans).change_files(&operator("acme"), rename("x", "y")).await.expect("renamed");
    assert_eq!(world.told(&humans).await, ["Ann renamed x y - -"]);
}

#[tokio::test]
async fn who_leaves_before_the_answer_is_in_the_time_line_all_the_same() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    let change = handle.write_files(&agent("acme"), rename("a", "b")).await.expect("begun");
    // Asked once, as by a connection that breaks off then.
    assert!(change.finish().now_or_never().is_none(), "it cannot be done yet");
    assert_eq!(world.tells(&session, 1).await, ["agent-7 renamed a b - -"]);
}

#[tokio::test]
async fn an_operator_stops_an_agents_deletion_without_control_and_a_viewer_does_not() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    let mut job = handle.start_job(&agent("acme"), delete("slow")).await.expect("begun");
    assert!(matches!(job.next().await, JobWord::Progress(_)));
    let listed = handle.jobs().jobs;
    let [view] = &listed[..] else { panic!("one: {listed:?}") };
    assert_eq!((view.kind, view.path.as_str(), view.by.name(), view.done), (JobKind::Delete, "slow", "agent-7", 1));
    let id = view.job_id.clone();

    assert_eq!(code(handle.start_job(&operator("acme"), delete("x")).await), ErrorCode::NotInControl);
    assert_eq!(code(handle.stop_job(&viewer("acme"), &id).await), ErrorCode::Forbidden);
    assert_eq!(code(handle.stop_job(&operator("acme"), "job_x").await), ErrorCode::NotFound);
    assert_eq!(handle.jobs().jobs.len(), 1, "it goes on");
    let stopped = handle.stop_job(&operator("acme"), &id).await.expect("stopped");
    assert_eq!((stopped.job_id.as_str(), stopped.done), (id.as_str(), 2));
    let word = last(&mut job).await;
    assert!(matches!(&word, JobWord::Stopped { by: Some(by), .. } if by.name() == "Ann"), "{word:?}");
    assert!(handle.jobs().jobs.is_empty());
    assert_eq!(code(handle.stop_job(&operator("acme"), &id).await), ErrorCode::NotFound);
    assert_eq!(world.told(&session).await, ["Ann deletion_stopped slow - - 2"]);
}

#[tokio::test]
async fn a_job_ends_with_whoever_began_it_and_gives_its_turn_back() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    for _ in 0..10 {
        let mut job = handle.start_job(&agent("acme"), delete("slow")).await.expect("there is a turn");
        assert!(matches!(job.next().await, JobWord::Progress(_)));
        drop(job);
    }
    let gone = async {
        let mut look = tokio::time::interval(Duration::from_millis(5));
        while !handle.jobs().jobs.is_empty() {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("all have ended");
    // What was gone by then is gone.
    assert_eq!(world.told(&session).await, ["agent-7 deletion_stopped slow - - 2"; 10]);
}

#[tokio::test]
async fn what_a_deletion_that_fails_half_way_has_deleted_is_in_the_time_line() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    let mut job = handle.start_job(&agent("acme"), delete("broken")).await.expect("begun");
    // Whoever asks is refused, and not told of progress first.
    let word = job.next().await;
    assert!(matches!(&word, JobWord::Failed(error) if error.code == ErrorCode::PermissionDenied), "{word:?}");
    assert_eq!(world.told(&session).await, ["agent-7 deletion_stopped broken - - 3"]);
}

#[tokio::test]
async fn a_service_that_does_not_stop_is_ended_and_the_stop_is_not_called_verified() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    let mut job = handle.start_job(&agent("acme"), delete("stubborn")).await.expect("begun");
    assert!(matches!(job.next().await, JobWord::Progress(_)));
    let id = handle.jobs().jobs[0].job_id.clone();
    tokio::time::pause();
    let stopped = handle.stop_job(&agent("acme"), &id).await;
    tokio::time::resume();
    assert_eq!(code(stopped), ErrorCode::KillUnverified);
    assert!(matches!(last(&mut job).await, JobWord::Failed(_)));
    assert!(handle.jobs().jobs.is_empty());
    handle.change_files(&agent("acme"), rename("a", "b")).await.expect("another service");
    let told = ["agent-7 deletion_stopped stubborn - - 1", "agent-7 renamed a b - -"];
    assert_eq!(world.told(&session).await, told);
}

#[tokio::test]
async fn a_purge_leaves_no_byte_of_a_path() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let handle = world.get(&session);
    for number in 0..300 {
        let rename = rename(&format!("{CANARY}-{number}"), &format!("to-{CANARY}"));
        handle.change_files(&agent("acme"), rename).await.expect("renamed");
    }
    drop(handle);
    world.end("acme", &session).await;
    assert_eq!(world.history.timeline("acme", &session, None, 200).await.expect("a time line").entries.len(), 200);
    assert!(holds(world.folder.path(), CANARY));
    world.history.purge(&operator("acme"), &session).await.expect("a purge");
    assert!(!holds(world.folder.path(), CANARY), "no byte of it is left");
}
