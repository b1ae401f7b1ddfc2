//! The link to a file service, with one in memory that misbehaves on request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, MAX_DATA, Operation, Range, WINDOW};
use glassbox_shared::session::{DeathCause, Profile};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BRIEF, CHANGES, Files, Place, READS, Said};
use crate::runtime::fake::FakeRuntime;
use crate::runtime::{ContainerRuntime as _, SandboxSpec, spec};

struct Sandbox {
    engine: FakeRuntime,
    files: Files,
    place: Place,
    tasks: TaskTracker,
}

impl Sandbox {
    async fn new() -> Self {
        let engine = FakeRuntime::new();
        engine.create_workspace("ws", "acme", "sbx").await.expect("made");
        let sandbox = SandboxSpec {
            container: "box-1".to_owned(),
            workspace: "ws".to_owned(),
            workspace_dir: "/workspace".to_owned(),
            image: "image".to_owned(),
            profile: Profile::Hardened,
            limits: spec::default_limits(Profile::Hardened),
            tenant: "acme".to_owned(),
            session: "sbx".to_owned(),
        };
        engine.start(&sandbox).await.expect("started");
        let tasks = TaskTracker::new();
        let files = Files::new(Arc::new(engine.clone()), tasks.clone(), CancellationToken::new());
        let place = Place { container: "box-1".to_owned(), workspace: "/workspace".to_owned(), confined: true };
        Self { engine, files, place, tasks }
    }

    async fn version(&self, path: &str) -> Result<String, ErrorCode> {
        let operation = Operation::Version { path: path.to_owned() };
        match self.files.ask(&self.place, operation).await {
            Ok(Answer::Version(version)) => Ok(version),
            Ok(other) => panic!("not a version: {other:?}"),
            Err(error) => Err(error.code),
        }
    }
}

fn write_to(path: &str) -> Operation {
    Operation::Write { path: path.to_owned(), expected: None, new: false, parents: false, limit: 1 << 30 }
}

fn write() -> Operation {
    write_to("a")
}

fn read() -> Operation {
    Operation::Read { path: "a".to_owned(), range: Range::All }
}

fn delete(path: &str) -> Operation {
    Operation::Delete { path: path.to_owned(), recursive: true }
}

#[tokio::test(start_paused = true)]
async fn one_service_serves_many_operations_and_ends_when_it_is_not_used() {
    let sandbox = Sandbox::new().await;
    for _ in 0..10 {
        assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    }
    assert_eq!(sandbox.engine.file_services(), 1);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    assert_eq!(sandbox.engine.file_services(), 1, "within its idle time");
    tokio::time::sleep(Duration::from_secs(90)).await;
    sandbox.tasks.close();
    sandbox.tasks.wait().await;
    sandbox.tasks.reopen();
    assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    assert_eq!(sandbox.engine.file_services(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_misbehaves_is_unavailable_and_the_next_use_starts_another() {
    let sandbox = Sandbox::new().await;
    let mut started = 0;
    for misbehaviour in ["vanish", "nonsense", "hostile", "flood", "silent", "long", "talk"] {
        assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"), "before {misbehaviour}");
        started += 1;
        assert_eq!(sandbox.engine.file_services(), started);
        assert_eq!(sandbox.version(misbehaviour).await, Err(ErrorCode::FilesUnavailable), "{misbehaviour}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_sandbox_fails_what_is_under_way() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, write()).await.expect("begun");
    call.send(Bytes::from_static(b"content")).await.expect("it takes it");
    sandbox.engine.kill_container("box-1", DeathCause::Oom);
    assert_eq!(call.finish().await.map_err(|error| error.code), Err(ErrorCode::FilesUnavailable));
    assert_eq!(sandbox.version("a").await, Err(ErrorCode::FilesUnavailable), "there is no sandbox");
}

#[tokio::test(start_paused = true)]
async fn content_goes_only_as_fast_as_it_is_taken() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, write()).await.expect("begun");
    // Many windows: each piece waits for room.
    for _ in 0..20 {
        call.send(Bytes::from(vec![b'x'; 1 << 20])).await.expect("it takes it");
    }
    assert!(matches!(call.finish().await, Ok(Answer::Entry(_))));
}

#[tokio::test(start_paused = true)]
async fn operations_take_turns_and_one_that_is_dropped_gives_its_turn_back() {
    let sandbox = Sandbox::new().await;
    let mut calls = Vec::new();
    for _ in 0..BRIEF {
        let version = Operation::Version { path: "silent".to_owned() };
        calls.push(sandbox.files.begin(&sandbox.place, version).await.expect("there is room"));
    }
    assert_eq!(sandbox.version("a").await, Err(ErrorCode::FileLimit));
    for _ in 0..READS {
        calls.push(sandbox.files.begin(&sandbox.place, read()).await.expect("these have turns of their own"));
    }
    // Whoever only reads keeps nobody from writing.
    for _ in 0..CHANGES {
        let mut call = sandbox.files.begin(&sandbox.place, delete("slow")).await.expect("and so have these");
        assert!(matches!(call.next().await, Ok(Said::Progress(_))));
        calls.push(call);
    }
    for too_many in [read(), write()] {
        let refused = sandbox.files.begin(&sandbox.place, too_many).await;
        assert_eq!(refused.map(drop).map_err(|error| error.code), Err(ErrorCode::FileLimit));
    }
    calls.clear();
    assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    assert_eq!(sandbox.engine.file_services(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_slowly_misses_progress_and_not_the_end() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, delete("a")).await.expect("begun");
    assert!(matches!(call.next().await, Ok(Said::Progress(_))));
    // All is said meanwhile, and far more than is kept.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut progress = 0;
    let last = loop {
        match call.next().await.expect("nothing is wrong") {
            Said::Progress(_) => progress += 1,
            last => break last,
        }
    };
    assert!(matches!(last, Said::Done(_)), "{last:?}");
    assert!(progress < 50, "{progress} words were kept");
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_content_comes_once() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, read()).await.expect("begun");
    assert!(matches!(call.next().await, Ok(Said::Head(_))));
    assert_eq!(call.next().await.map(drop).map_err(|error| error.code), Err(ErrorCode::FilesUnavailable));
}

#[tokio::test(start_paused = true)]
async fn no_more_is_taken_than_was_sent() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, write_to("generous")).await.expect("begun");
    call.send(Bytes::from_static(b"content")).await.expect("it is sent");
    assert_eq!(call.finish().await.map_err(|error| error.code), Err(ErrorCode::FilesUnavailable));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_put_off_again_and_again_is_not_waited_for() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, write_to("late")).await.expect("begun");
    call.send(Bytes::from(vec![b'x'; WINDOW as usize * MAX_DATA])).await.expect("it is sent");
    let begun = Instant::now();
    assert_eq!(call.finish().await.map_err(|error| error.code), Err(ErrorCode::FilesUnavailable));
    assert!(begun.elapsed() <= Duration::from_secs(121), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_upload_to_which_bytes_are_added_is_kept_and_one_that_rests_is_given_up() {
    let sandbox = Sandbox::new().await;
    let id = || "upload".to_owned();
    let start = Operation::StartUpload { id: id(), path: "a".to_owned(), size: 1 << 20, replace: false };
    sandbox.files.ask(&sandbox.place, start).await.expect("begun");
    let append = Operation::Append { id: id(), offset: 0 };
    let mut call = sandbox.files.begin(&sandbox.place, append).await.expect("begun");
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        call.send(Bytes::from_static(b"content")).await.expect("it takes it");
    }
    assert_eq!(sandbox.engine.dropped_uploads(), 0);
    drop(call);
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    assert_eq!(sandbox.engine.dropped_uploads(), 1);
}

#[test]
fn a_path_is_told_as_the_sandbox_tells_it() {
    let confined = Place { container: String::new(), workspace: "/workspace".to_owned(), confined: true };
    let open = Place { container: String::new(), workspace: "/root".to_owned(), confined: false };
    for (place, asked, told) in [
        (&confined, "src//./a%20b%FF/", "src/a%20b%FF"),
        (&confined, "/workspace/a+", "a%2B"),
        (&confined, "", ""),
        (&open, "a", "/root/a"),
        (&open, "/etc//passwd", "/etc/passwd"),
        (&open, "/", "/"),
    ] {
        assert_eq!(place.told(asked), told, "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_cancelled_says_so_and_one_that_does_not_ends_with_its_service() {
    let sandbox = Sandbox::new().await;
    let mut call = sandbox.files.begin(&sandbox.place, delete("slow")).await.expect("begun");
    assert!(matches!(call.next().await, Ok(Said::Progress(_))));
    call.cancel();
    assert!(matches!(call.next().await, Ok(Said::Progress(at)) if at.done == 2), "how far it came");
    assert_eq!(call.next().await.map(drop).map_err(|error| error.code), Err(ErrorCode::Conflict));
    assert_eq!(sandbox.engine.file_services(), 1);
    let mut call = sandbox.files.begin(&sandbox.place, delete("stubborn")).await.expect("begun");
    assert!(matches!(call.next().await, Ok(Said::Progress(_))));
    assert_eq!(call.give_up().code, ErrorCode::FilesUnavailable);
    assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    assert_eq!(sandbox.engine.file_services(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_the_end_of_the_session_nothing_is_begun() {
    let sandbox = Sandbox::new().await;
    assert!(sandbox.version("a").await.is_ok());
    sandbox.files.close();
    assert_eq!(sandbox.version("a").await, Err(ErrorCode::NotFound));
    sandbox.tasks.close();
    sandbox.tasks.wait().await;
}
