//! The link to a file service, with one in memory that misbehaves on request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::session::{DeathCause, Profile};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BRIEF, Files, LONG, Place, Said};
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
            image: "image".to_owned(),
            profile: Profile::Hardened,
            limits: spec::default_limits(Profile::Hardened),
            tenant: "acme".to_owned(),
            session: "sbx".to_owned(),
        };
        engine.start(&sandbox).await.expect("started");
        let tasks = TaskTracker::new();
        let files = Files::new(Arc::new(engine.clone()), tasks.clone(), CancellationToken::new());
        let place = Place { container: "box-1".to_owned(), workspace: "/workspace", confined: true };
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

fn write() -> Operation {
    Operation::Write { path: "a".to_owned(), expected: None, new: false, parents: false, limit: 1 << 30 }
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
    for misbehaviour in ["vanish", "nonsense", "hostile", "flood", "silent"] {
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
    call.end().await.ok();
    assert_eq!(call.answer().await.map_err(|error| error.code), Err(ErrorCode::FilesUnavailable));
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
    call.end().await.expect("it takes it");
    assert!(matches!(call.answer().await, Ok(Answer::Nothing)));
}

#[tokio::test(start_paused = true)]
async fn operations_take_turns_and_one_that_is_dropped_gives_its_turn_back() {
    let sandbox = Sandbox::new().await;
    let slow = || Operation::Version { path: "slow".to_owned() };
    let mut calls = Vec::new();
    for _ in 0..BRIEF {
        let mut call = sandbox.files.begin(&sandbox.place, slow()).await.expect("there is room");
        assert!(matches!(call.next().await, Ok(Said::Progress(_))));
        calls.push(call);
    }
    assert_eq!(sandbox.version("a").await, Err(ErrorCode::FileLimit));
    for _ in 0..LONG {
        calls.push(sandbox.files.begin(&sandbox.place, write()).await.expect("these have turns of their own"));
    }
    let refused = sandbox.files.begin(&sandbox.place, write()).await;
    assert_eq!(refused.map(drop).map_err(|error| error.code), Err(ErrorCode::FileLimit));
    calls.clear();
    assert_eq!(sandbox.version("a").await.as_deref(), Ok("v1"));
    assert_eq!(sandbox.engine.file_services(), 1);
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
