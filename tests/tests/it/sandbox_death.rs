//! Case 7: the container dies in the middle. The cause is told, the workspace is intact, the next command works.

use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::live::WatchFrom;
use glassbox_shared::session::{CreateSession, DeathCause, SessionState};
use glassbox_tests::session::megabytes;
use glassbox_tests::{Command, Session, TestServer, docker, hardened, open};

/// The bar is 10 s from death to the next result; a busy machine gets three times that, and the time is printed.
const USABLE_AGAIN: Duration = Duration::from_secs(30);
/// The bar for every stream's end is 5 s.
const STREAMS_END: Duration = Duration::from_secs(20);

/// Holds on to more and more memory, each page of it touched. The kernel ends this process and mostly no other.
const EAT_MEMORY: &str = "python3 -c 'b = []\nwhile True: b.append(b\"x\" * 10**7)'";
/// Makes the sandbox's own kernel hold the memory, so that the whole sandbox is what the host's kernel ends.
const EAT_KERNEL_MEMORY: &str = "python3 -c 'import os\nb = b\"x\" * 65536\nwhile True: os.write(os.pipe()[1], b)'";

/// Kills the sandbox by `murder` while others run, and looks at everything that must be true afterwards.
async fn dies(server: &TestServer, session: &Session, murder: &str, cause: DeathCause) {
    session.sh("echo kept > file && mkdir -p folder && echo deep > folder/file").await;
    let first_container = docker::container_of(session.id().as_str());
    let bystander = session.run("echo before; sleep 500; echo never").await;
    bystander.wrote("before\n").await;
    let background = session.run("sleep 501 & echo started").await;
    background.wrote("started\n").await;
    background.ended().await;
    let mut viewer = server.viewer().await;
    let stream = viewer.watch(&bystander, WatchFrom::Offset(0));

    let begun = Instant::now();
    let murderer = session.run(murder).await;
    let told = died(&murderer, cause).await;
    died(&bystander, cause).await;
    let since_told = Instant::now();
    let seen = viewer.read_to_end(stream, STREAMS_END).await;
    println!("{cause:?}: every stream ended {:?} after the death was told", since_told.elapsed());
    assert_eq!(seen.bytes, b"before\n");
    assert!(!seen.end.expect("an end").complete, "nobody can claim that this is all");
    assert_eq!(bystander.finish().await.text(), "before\n");
    let background = background.finish().await;
    assert_eq!(background.exit_code(), Some(0), "what had ended before stays what it was");

    let again = glassbox_tests::eventually("the next command is taken", USABLE_AGAIN, async || {
        let request = glassbox_shared::command::RunCommand {
            command: "cat file folder/file; pgrep -fx 'sleep 50.' || echo nothing runs".into(),
            ..Default::default()
        };
        session.try_run(&request).await.ok()
    })
    .await
    .finish()
    .await;
    let took = begun.elapsed();
    println!("{cause:?}: from the start of the murder to the next result {took:?}");
    assert!(took < USABLE_AGAIN, "{took:?}");
    assert_eq!(again.text(), "kept\ndeep\nnothing runs\n", "the workspace is intact, and nothing else is left");

    let view = session.restarted(1).await;
    let restart = view.restarts.last().expect("it is written down");
    assert_eq!(restart.cause, Some(cause), "{restart:?}");
    assert!(!restart.kept.is_empty() && !restart.lost.is_empty(), "and in words: {restart:?}");
    assert!(restart.at >= told.created_at, "{restart:?}");
    assert_eq!(view.state, SessionState::Ready);
    let second_container = glassbox_tests::eventually("the dead container is removed", USABLE_AGAIN, async || {
        Some(docker::containers_of(session.id().as_str())).filter(|found| found.len() == 1)
    })
    .await;
    assert_ne!(second_container, [first_container]);
}

async fn died(command: &Command, cause: DeathCause) -> glassbox_shared::command::CommandView {
    let view = command.ended().await;
    assert_eq!(view.state, CommandState::Interrupted(Interruption::SandboxDied { cause }), "{view:?}");
    assert!(view.kill.is_none(), "nobody killed it: {view:?}");
    view
}

#[tokio::test]
async fn a_sandbox_that_runs_out_of_memory_says_so_and_goes_on_in_a_new_one() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(CreateSession { memory: Some(megabytes(192)), ..open() }).await;
    dies(&server, &session, EAT_KERNEL_MEMORY, DeathCause::Oom).await;
}

#[tokio::test]
async fn a_hardened_sandbox_that_runs_out_of_memory_says_so_too() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    dies(&server, &session, EAT_KERNEL_MEMORY, DeathCause::Oom).await;
}

#[tokio::test]
async fn a_process_that_is_ended_for_its_memory_is_told_apart_from_an_ordinary_failure() {
    let (_server, agent) = TestServer::with_agent().await;
    for request in [CreateSession { memory: Some(megabytes(192)), ..open() }, hardened()] {
        let session = agent.create_session(request).await;
        let ordinary = session.run("exit 1").await.ended().await;
        let eater = session.run(EAT_MEMORY).await;
        let ended = eater.ended().await;
        match &ended.state {
            // The kernel may choose to end the whole sandbox all the same.
            CommandState::Interrupted(Interruption::SandboxDied { cause }) => assert_eq!(*cause, DeathCause::Oom),
            CommandState::Exited { code } => assert_ne!(*code, 0, "{ended:?}"),
            CommandState::Signaled { .. } => {}
            other => panic!("{other:?}"),
        }
        glassbox_tests::eventually("the cause is told", STREAMS_END, async || {
            let view = eater.view().await;
            let died = matches!(view.state, CommandState::Interrupted(_));
            (view.out_of_memory || died).then_some(())
        })
        .await;
        assert!(!ordinary.out_of_memory);
        let again = glassbox_tests::eventually("the next command is taken", USABLE_AGAIN, async || {
            let request = glassbox_shared::command::RunCommand { command: "echo usable".into(), ..Default::default() };
            session.try_run(&request).await.ok()
        })
        .await;
        assert_eq!(again.finish().await.text(), "usable\n");
    }
}

#[tokio::test]
async fn a_sandbox_whose_first_process_is_killed_goes_on_in_a_new_one() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    dies(&server, &session, "kill -9 1; sleep 502", DeathCause::Exit).await;
}

#[tokio::test]
async fn a_container_that_somebody_removes_is_made_again() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("echo kept > file").await;
    let running = session.run("sleep 503").await;
    running.running().await;
    docker::run(&["rm", "--force", &docker::container_of(session.id().as_str())]);
    let ended = running.ended().await;
    assert!(matches!(ended.state, CommandState::Interrupted(Interruption::SandboxDied { .. })), "{ended:?}");
    session.restarted(1).await;
    assert_eq!(session.sh("cat file").await, "kept\n");
}

#[tokio::test]
async fn a_sandbox_that_dies_again_and_again_is_made_again_each_time() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    for times in 1..=3 {
        let murder = glassbox_tests::eventually("the command is taken", USABLE_AGAIN, async || {
            let request = glassbox_shared::command::RunCommand {
                command: format!("echo {times} >> file; kill -9 1; exec sleep 900"),
                ..Default::default()
            };
            session.try_run(&request).await.ok()
        })
        .await;
        let ended = murder.ended().await;
        assert!(matches!(ended.state, CommandState::Interrupted(Interruption::SandboxDied { .. })), "{ended:?}");
        session.restarted(times).await;
    }
    assert_eq!(session.sh("cat file").await, "1\n2\n3\n");
}
