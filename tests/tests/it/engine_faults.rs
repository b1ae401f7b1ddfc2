//! The engine freezes, stops, and is killed, under a server that goes on: an engine of the test's own.

use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::WatchFrom;
use glassbox_tests::engine::{Engine, Gvisor};
use glassbox_tests::server::Setup;
use glassbox_tests::{Session, TestServer, eventually, hardened, hold};

/// Whoever needs the engine is told that it does not answer within two seconds; one more, as this machine is busy.
const TOLD: Duration = Duration::from_secs(3);
/// Until everything works again, once the engine is there: sandboxes are removed and made anew.
const RECOVERED: Duration = Duration::from_mins(2);

fn on(engine: &Engine) -> Setup {
    TestServer::configure().env("DOCKER_HOST", engine.host())
}

fn command(text: &str) -> RunCommand {
    serde_json::from_value(serde_json::json!({ "command": text })).expect("a request")
}

/// Nothing new can be started, and that is said soon and clearly.
async fn assert_refused(session: &Session, agent: &glassbox_tests::Client) {
    let asked = Instant::now();
    let refusal = agent.try_create_session(&hardened()).await.expect_err("nothing can be made");
    assert!(asked.elapsed() < TOLD, "told after {:?}: {refusal:?}", asked.elapsed());
    assert_eq!((refusal.status, refusal.code()), (503, ErrorCode::EngineUnavailable), "{refusal:?}");
    let asked = Instant::now();
    let refusal = session.try_run(&command("echo never")).await.expect_err("nothing can be started");
    assert!(asked.elapsed() < TOLD, "told after {:?}: {refusal:?}", asked.elapsed());
    assert_eq!((refusal.status, refusal.code()), (503, ErrorCode::EngineUnavailable), "{refusal:?}");
    assert!(refusal.body.detail.contains("does not answer"), "{refusal:?}");
    // What needs no engine goes on.
    assert!(agent.sessions().await.iter().any(|known| known.session_id == *session.id()));
}

async fn works_again(session: &Session) {
    eventually("commands run again", RECOVERED, async || {
        let command = session.try_run(&command("echo works")).await.ok()?;
        (command.finish().await.text() == "works\n").then_some(())
    })
    .await;
}

// Case 32, hanging.
#[tokio::test]
async fn while_the_engine_hangs_everybody_is_told_soon_and_afterwards_all_goes_on() {
    let engine = Engine::start(Gvisor::Registered).await;
    let server = on(&engine).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let running = session.run(&format!("echo before; {}; echo after", hold("go"))).await;
    running.wrote("before\n").await;
    let doomed = session.run("echo doomed; sleep 600").await;
    doomed.wrote("doomed\n").await;
    let mut viewer = server.viewer().await;
    viewer.watch(&running, WatchFrom::Offset(0));

    engine.freeze();
    let asked = Instant::now();
    let refusal = agent.try_create_session(&hardened()).await.expect_err("nothing can be made");
    let told = asked.elapsed();
    assert_eq!((refusal.status, refusal.code()), (503, ErrorCode::EngineUnavailable), "{refusal:?}");
    assert!(told < TOLD, "the first to ask was told after {told:?}");
    viewer.until("the page is told", TOLD, |heard| heard.engine_trouble.clone()).await;
    assert_refused(&session, &agent).await;
    let mut late = server.viewer().await;
    late.until("whoever comes now is told too", TOLD, |heard| heard.engine_trouble.clone()).await;
    let refusal = doomed.try_kill(Some(1.0)).await.expect_err("it cannot be verified");
    assert_eq!((refusal.status, refusal.code()), (503, ErrorCode::EngineUnavailable), "{refusal:?}");

    engine.thaw();
    viewer.until("the page is told", RECOVERED, |heard| heard.engine_trouble.is_none().then_some(())).await;
    works_again(&session).await;
    // The kill was asked for, and done as soon as it could be.
    let killed = doomed.ended().await;
    assert!(matches!(killed.state, CommandState::Killed { .. }), "{killed:?}");
    session.release("go").await;
    let finished = running.finish().await;
    assert_eq!((finished.exit_code(), finished.text()), (Some(0), "before\nafter\n".to_owned()), "it ran all the time");
    let instance = server.instance();
    eventually("nothing is kept of what was begun", RECOVERED, async || {
        let label = format!("label={}={instance}", glassbox_tests::docker::INSTANCE);
        let containers = engine.docker(&["ps", "--all", "--quiet", "--filter", &label]).lines().count();
        (containers == 1 && agent.sessions().await.len() == 1).then_some(())
    })
    .await;
    session.delete().await.success().expect("ended");
    drop(server);
}

/// The engine goes away and comes back; every command's end is told truthfully, and the workspace is there.
async fn comes_back(stop: impl FnOnce(&mut Engine)) {
    let mut engine = Engine::start(Gvisor::Registered).await;
    let server = on(&engine).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("echo kept > file").await;
    let done = session.finish("echo done; exit 3").await;
    let running = session.run("echo begun; sleep 600; echo never").await;
    running.wrote("begun\n").await;

    stop(&mut engine);
    assert_refused(&session, &agent).await;

    engine.start_again().await;
    works_again(&session).await;
    assert_eq!(session.sh("cat file").await, "kept\n");
    let ended = running.finish().await;
    assert!(matches!(ended.view.state, CommandState::Interrupted(_)), "nobody saw it end: {ended:?}");
    assert_eq!(ended.text(), "begun\n");
    assert_eq!(session.command(&done.view.command_id).view().await.state, done.view.state);
    let instance = server.instance();
    let label = format!("label={}={instance}", glassbox_tests::docker::INSTANCE);
    eventually("one container is left", RECOVERED, async || {
        (engine.docker(&["ps", "--all", "--quiet", "--filter", &label]).lines().count() == 1).then_some(())
    })
    .await;
    session.delete().await.success().expect("ended");
    drop(server);
    assert_eq!(engine.docker(&["ps", "--all", "--quiet"]), "", "nothing is left");
}

#[tokio::test]
async fn an_engine_that_is_stopped_and_started_again_is_used_again() {
    comes_back(Engine::stop).await;
}

#[tokio::test]
async fn an_engine_that_is_killed_and_started_again_is_used_again() {
    comes_back(Engine::kill).await;
}
