//! What was acknowledged survives the death of the server, and nothing that it started outlives it.

use std::time::Duration;

use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::session::SessionState;
use glassbox_tests::helper::Variant;
use glassbox_tests::{Command, Session, TestServer, docker, eventually, hardened, open};

/// "Nothing left without a live session after a minute."
const SWEPT: Duration = Duration::from_secs(90);

/// Commands that write, each of its own kind, and what of their output was seen.
async fn busy(session: &Session) -> Vec<Command> {
    let mut commands = Vec::new();
    for number in 1..=4 {
        let command = session.run(&format!("echo begun {number}; sleep 60{number}; echo never")).await;
        command.wrote("begun").await;
        commands.push(command);
    }
    let flood = session.run("seq 1 50000; echo all; trap '' TERM HUP INT; sleep 605 & wait").await;
    flood.wrote("all").await;
    commands.push(flood);
    commands
}

async fn assert_interrupted(command: &Command, before: &[u8]) {
    let finished = command.finish().await;
    assert_eq!(finished.view.state, CommandState::Interrupted(Interruption::ServerRestarted), "{finished:?}");
    assert!(finished.output.bytes.starts_with(before), "what was seen before is still there: {finished:?}");
    assert!(!finished.view.output_complete, "nobody can claim that this is all");
}

/// Only live sessions have something in the engine, and each has one of each.
async fn assert_nothing_is_left(server: &TestServer, sessions: usize) {
    let instance = server.instance();
    eventually("only live sessions have containers and workspaces", SWEPT, async || {
        let found = (docker::containers(&instance).len(), docker::workspaces(&instance).len());
        (found == (sessions, sessions)).then_some(())
    })
    .await;
}

// Case 31, with five commands; also the acceptance of the first milestone.
#[tokio::test]
async fn after_kill_9_with_five_commands_running_everything_seen_is_there_and_every_end_is_told_truthfully() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("echo kept > file; echo too > /etc/kept").await;
    session.sh("setsid nohup sleep 700 > /dev/null 2>&1 < /dev/null &").await;
    let done = session.finish("echo done before; exit 5").await;
    let background = session.run("sleep 606 & echo in the background").await;
    background.wrote("background\n").await;
    background.ended().await;
    let commands = busy(&session).await;
    let mut seen = Vec::new();
    for command in &commands {
        seen.push(agent.get(&command.path("/output")).await.success().expect("output").body);
    }
    let old_container = docker::container_of(session.id().as_str());
    let old_id = docker::inspect(&old_container)["Id"].as_str().expect("an id").to_owned();
    let (address, epoch) = (server.address(), server.viewer().await.now(|heard| heard.epoch.clone()));

    server.kill_hard();
    server.restart(&address).await;

    assert_ne!(server.viewer().await.now(|heard| heard.epoch.clone()), epoch, "viewers see that it is another process");
    for (command, before) in commands.iter().zip(&seen) {
        assert_interrupted(command, before).await;
    }
    let view = done.view.command_id.clone();
    let again = session.command(&view).finish().await;
    assert_eq!(
        (again.exit_code(), again.text()),
        (Some(5), "done before\n".to_owned()),
        "what had ended stays as it was"
    );
    let background = background.finish().await;
    assert_eq!(background.exit_code(), Some(0));
    assert_eq!(background.text(), "in the background\n");

    let after = session.ready().await;
    assert_eq!(after.commands_total, 9);
    assert!(after.restarts.is_empty(), "the sandbox went on: {:?}", after.restarts);
    assert_eq!(session.sh("cat file /etc/kept; pgrep -fx 'sleep 60.' | wc -l").await, "kept\ntoo\n0\n");
    assert_eq!(session.processes("sleep 700").await.len(), 1, "what runs in the background, held by nobody, goes on");
    assert_eq!(session.finish("echo works").await.exit_code(), Some(0));
    let numbers: Vec<u64> = session.commands().await.commands.iter().map(|command| command.number).collect();
    assert_eq!(numbers[0], numbers.len() as u64, "numbers go on: {numbers:?}");
    assert_nothing_is_left(&server, 1).await;
    assert_eq!(docker::container_of(session.id().as_str()), old_container);
    assert_eq!(docker::inspect(&old_container)["Id"], old_id, "the very same");
}

#[tokio::test]
async fn a_sandbox_that_died_while_the_server_was_away_is_made_again_on_its_workspace() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("echo kept > file").await;
    let commands = busy(&session).await;
    let address = server.address();
    server.kill_hard();
    docker::run(&["kill", &docker::container_of(session.id().as_str())]);
    server.restart(&address).await;
    for command in &commands {
        assert_interrupted(command, b"").await;
    }
    let after = session.ready().await;
    let restart = after.restarts.last().expect("it is written down");
    assert_eq!(restart.cause, None, "nobody saw it: {restart:?}");
    assert_eq!(session.sh("cat file").await, "kept\n");
    assert_nothing_is_left(&server, 1).await;
}

// A server of another version brings another helper; an old sandbox's would not understand it.
#[tokio::test]
async fn a_sandbox_with_another_helper_is_made_again() {
    let variant = Variant::new();
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("echo kept > file").await;
    let (address, old) = (server.address(), docker::container_of(session.id().as_str()));
    server.stop();
    server.set_env("GLASSBOX_HELPER", variant.path().display());
    server.restart(&address).await;
    session.ready().await;
    assert_eq!(session.sh("cat file").await, "kept\n");
    assert_ne!(docker::container_of(session.id().as_str()), old);
    assert_nothing_is_left(&server, 1).await;
    session.delete().await.success().expect("ended");
    // Before its helper's volumes are removed.
    drop(server);
}

#[tokio::test]
async fn a_server_that_is_stopped_in_order_tells_the_same_afterwards() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.sh("echo kept > file").await;
    let commands = busy(&session).await;
    let address = server.address();
    server.stop();
    server.restart(&address).await;
    for command in &commands {
        assert_interrupted(command, b"").await;
    }
    session.ready().await;
    assert_eq!(session.sh("cat file").await, "kept\n");
    let sessions = agent.sessions().await;
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].state, SessionState::Ready);
}

#[tokio::test]
async fn what_was_being_made_or_ended_when_the_server_died_is_not_left_behind() {
    let (mut server, agent) = TestServer::with_agent().await;
    let kept = agent.create_session(hardened()).await;
    let ending = agent.create_session(hardened()).await;
    let address = server.address();
    // Neither answer will come.
    let making = tokio::spawn({
        let agent = agent.clone();
        async move { agent.try_send(agent.request(reqwest::Method::POST, "/v1/sessions").json(&hardened())).await.is_ok() }
    });
    let removing = tokio::spawn({
        let (agent, path) = (agent.clone(), ending.path(""));
        async move { agent.try_send(agent.request(reqwest::Method::DELETE, &path)).await.is_ok() }
    });
    let instance = server.instance();
    eventually("the engine has begun to make it", SWEPT, async || {
        (docker::workspaces(&instance).len() > 2 || docker::containers(&instance).len() > 2 || making.is_finished())
            .then_some(())
    })
    .await;
    server.kill_hard();
    let (was_made, was_removed) = (making.await.expect("a task"), removing.await.expect("a task"));
    server.restart(&address).await;
    kept.ready().await;
    let sessions = agent.sessions().await;
    println!("made: {was_made}, removed: {was_removed}, now {} sessions", sessions.len());
    assert!(
        !was_removed || !sessions.iter().any(|session| session.session_id == *ending.id()),
        "what was told gone is gone"
    );
    assert!(sessions.len() > usize::from(was_made), "what was told made is there");
    for session in &sessions {
        agent.session(&session.session_id).ready().await;
    }
    assert_nothing_is_left(&server, sessions.len()).await;
}

#[tokio::test]
async fn keys_and_sign_ins_survive_and_a_revoked_key_stays_revoked() {
    let (mut server, agent) = TestServer::with_agent().await;
    let operator = server.operator();
    let gone = operator.create_key(glassbox_shared::actor::Role::Agent, "gone").await;
    operator.delete(&format!("/v1/keys/{}", gone.key_id)).await.success().expect("revoked");
    let address = server.address();
    server.kill_hard();
    server.restart(&address).await;
    assert!(agent.sessions().await.is_empty());
    assert_eq!(agent.with_key(&gone.api_key).get("/v1/sessions").await.status, 401);
}
