//! What its users rely on.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use glassbox_shared::helper::{
    Channel, EndCause, Ended, ExitStatus, FrameBuffer, FromHelper, HELPER_PATH, Start, ToHelper,
};
use glassbox_shared::session::{DeathCause, Profile};
use tokio::io::AsyncWriteExt as _;

use super::super::spec::tests::example;
use super::super::{ContainerRuntime as _, ContainerStatus, ExecSpec, ExecStream, RuntimeError, RuntimeEvent};
use super::FakeRuntime;
use super::helper::PID;
use super::script::{KILL, own_end};

const TAG: u64 = 7;

async fn sandbox() -> FakeRuntime {
    let engine = FakeRuntime::new();
    let spec = example(Profile::Open);
    engine.create_workspace(&spec.workspace, "t", "s").await.expect("made");
    engine.start(&spec).await.expect("started");
    engine
}

fn container() -> String {
    example(Profile::Open).container
}

async fn exec(engine: &FakeRuntime, argv: &[&str]) -> ExecStream {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    engine.exec(&container(), &ExecSpec { argv }).await.expect("an exec")
}

async fn send(stream: &mut ExecStream, order: ToHelper) {
    stream.input.write_all(&order.encode()).await.expect("written");
}

async fn run(engine: &FakeRuntime, script: &str) -> ExecStream {
    let mut stream = exec(engine, &[HELPER_PATH, "run", "cmd_a"]).await;
    let start = Start {
        tag: TAG,
        argv: vec!["bash".to_owned(), "-c".to_owned(), script.to_owned()],
        cwd: None,
        env: BTreeMap::new(),
        split: true,
        limit_ms: 60_000,
        grace_ms: 10,
        stdin: false,
        terminal: None,
    };
    send(&mut stream, ToHelper::Start(Box::new(start))).await;
    stream
}

async fn rest(stream: &mut ExecStream) -> Vec<FromHelper> {
    let mut buffer = FrameBuffer::default();
    let mut frames = Vec::new();
    while let Some(bytes) = stream.output.next().await {
        buffer.push(&bytes.expect("no error"));
        while let Some((kind, body)) = buffer.next_frame().expect("frames") {
            frames.push(FromHelper::decode(TAG, kind, body).expect("frames"));
        }
    }
    frames
}

fn out(channel: Channel, text: &str) -> FromHelper {
    FromHelper::Output { channel, bytes: text.as_bytes().to_vec() }
}

fn ended(code: i32, ran_ms: u64) -> FromHelper {
    FromHelper::Ended(Ended { ran_ms: Some(ran_ms), ..own_end(ExitStatus::Code(code)) })
}

#[tokio::test(start_paused = true)]
async fn a_script_prints_and_exits() {
    let engine = sandbox().await;
    let mut stream = run(&engine, "print one; error two\nsleep 300; exit 3; print never").await;
    let expected = [
        FromHelper::Started { pid: PID },
        out(Channel::Stdout, "one\n"),
        out(Channel::Stderr, "two\n"),
        ended(3, 300),
        FromHelper::OutputClosed,
    ];
    assert_eq!(rest(&mut stream).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_left_writes_after_the_end() {
    let engine = sandbox().await;
    let mut stream = run(&engine, "leave 500 late").await;
    let expected =
        [FromHelper::Started { pid: PID }, ended(0, 0), out(Channel::Stdout, "late\n"), FromHelper::OutputClosed];
    assert_eq!(rest(&mut stream).await, expected);
}

#[tokio::test]
async fn a_kill_ends_a_hanging_command_and_a_flooding_one() {
    for script in ["hang", "flood 100000000000"] {
        let engine = sandbox().await;
        let mut stream = run(&engine, script).await;
        send(&mut stream, ToHelper::Kill { grace_ms: 1 }).await;
        let frames = rest(&mut stream).await;
        assert!(
            frames.iter().any(|frame| matches!(frame, FromHelper::Ended(Ended { cause: EndCause::Kill, .. }))),
            "{script}"
        );
        while !engine.running().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_a_stubborn_command_by_force_and_names_who_survives() {
    let engine = sandbox().await;
    let mut stream = run(&engine, "immortal").await;
    let frames = rest(&mut stream).await;
    let FromHelper::Ended(ended) = &frames[1] else { panic!("no end: {frames:?}") };
    assert_eq!((ended.cause, ended.signal, ended.survivors.len()), (EndCause::Limit, KILL, 1));
}

#[tokio::test]
async fn a_deaf_helper_is_ended_by_a_sweep() {
    let engine = sandbox().await;
    let mut stream = run(&engine, "deaf").await;
    send(&mut stream, ToHelper::Kill { grace_ms: 0 }).await;
    let mut sweep = exec(&engine, &[HELPER_PATH, "sweep", "cmd_a"]).await;
    sweep.input.write_all(&TAG.to_le_bytes()).await.expect("written");
    assert!(matches!(
        rest(&mut sweep).await.as_slice(),
        [FromHelper::Ended(Ended { status: ExitStatus::Unknown, .. })]
    ));
    assert_eq!(rest(&mut stream).await, [FromHelper::Started { pid: PID }]);
    assert_eq!(engine.sweeps(), 1);
}

#[tokio::test]
async fn a_death_ends_the_streams_and_is_reported() {
    let engine = sandbox().await;
    let mut events = engine.events();
    let mut stream = run(&engine, "die oom").await;
    assert_eq!(rest(&mut stream).await, [FromHelper::Started { pid: PID }]);
    assert!(matches!(events.recv().await, Ok(RuntimeEvent::OutOfMemory { .. })));
    assert!(matches!(events.recv().await, Ok(RuntimeEvent::Died { .. })));
    assert_eq!(engine.status(&container()).await.expect("up"), ContainerStatus::Dead(DeathCause::Oom));
    let exec = engine
        .exec(&container(), &ExecSpec { argv: vec![HELPER_PATH.to_owned(), "run".to_owned(), "x".to_owned()] })
        .await;
    assert!(matches!(exec, Err(RuntimeError::Gone(_))));
}

#[tokio::test]
async fn the_end_of_stdin_ends_the_command() {
    let engine = sandbox().await;
    let stream = run(&engine, "hang").await;
    assert_eq!(engine.running(), ["cmd_a"]);
    drop(stream);
    while !engine.running().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_engine_that_is_down_answers_nothing() {
    let engine = sandbox().await;
    engine.switch(|switches| switches.engine_down = true);
    assert!(matches!(engine.status(&container()).await, Err(RuntimeError::Unreachable(_))));
    engine.switch(|switches| switches.engine_down = false);
    assert_eq!(engine.status(&container()).await.expect("up"), ContainerStatus::Running);
}
