//! Killing: the whole tree, verified, truthfully told, never behind output, and only by those who may.

use std::time::{Duration, Instant};

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandState, CommandView, Interruption, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_tests::{Session, TestServer, hardened, open};

const TERM: i32 = 15;
const KILL: i32 = 9;
/// For what takes a moment: a busy machine needs a hundred times as long for an exec as an idle one.
const EFFECTIVE: Duration = Duration::from_secs(20);

fn killed_by(view: &CommandView) -> (i32, &Actor) {
    let CommandState::Killed { signal, by } = &view.state else { panic!("it was killed: {view:?}") };
    let report = view.kill.as_ref().expect("a kill has a report");
    assert_eq!((report.signal, &report.by), (*signal, by), "state and report say the same");
    (*signal, by)
}

async fn assert_gone(session: &Session, command_lines: &[&str]) {
    for line in command_lines {
        assert!(session.processes(line).await.is_empty(), "{line} is gone");
    }
}

// Case 11.
#[tokio::test]
async fn what_ignores_term_is_killed_after_the_grace_with_all_its_children() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, seconds) in [(open(), 311), (hardened(), 312)] {
        let session = agent.create_session(profile).await;
        let line = format!("sleep {seconds}");
        let command = session.run(&format!("trap '' TERM; {line} & echo ready; wait")).await;
        command.wrote("ready").await;
        let view = command.kill(1.0).await;
        let (signal, by) = killed_by(&view);
        assert_eq!(signal, KILL, "TERM was not enough");
        assert!(matches!(by, Actor::Agent { .. }));
        let report = view.kill.as_ref().expect("a report");
        assert!(report.survivors.is_empty(), "{report:?}");
        assert!(report.took_ms >= 900, "the grace was given: {report:?}");
        assert_gone(&session, &[&line]).await;
        assert_eq!(command.view().await.state, view.state, "it stays what it was told to be");
        assert_eq!(command.output().await.text(), "ready\n", "the output is closed");
    }
}

#[tokio::test]
async fn what_heeds_term_is_ended_by_it_without_waiting_for_the_grace() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let command = session.run("echo ready; sleep 313").await;
    command.wrote("ready").await;
    let begun = Instant::now();
    let view = command.kill(60.0).await;
    assert_eq!(killed_by(&view).0, TERM);
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "the grace is the longest, not the usual time: {:?}",
        begun.elapsed()
    );
    assert_gone(&session, &["sleep 313"]).await;

    // Its own clean-up runs, and what that prints is kept.
    let tidy = session.run("trap 'echo tidied; exit 4' TERM; echo ready; sleep 314 & wait").await;
    tidy.wrote("ready").await;
    let view = tidy.kill(30.0).await;
    killed_by(&view);
    assert_eq!(tidy.output().await.text(), "ready\ntidied\n");
    assert_gone(&session, &["sleep 314"]).await;
}

// Case 12.
#[tokio::test]
async fn daemons_that_left_the_commands_session_are_gone_too_or_named() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, at) in [(open(), 320), (hardened(), 330)] {
        let session = agent.create_session(profile).await;
        let lines: Vec<String> = (at..at + 4).map(|seconds| format!("sleep {seconds}")).collect();
        let command = session
            .run(&format!(
                "setsid nohup {} & env -i setsid {} & (setsid sh -c '{} & exec {}' &) ; echo ready; wait",
                lines[0], lines[1], lines[2], lines[3]
            ))
            .await;
        command.wrote("ready").await;
        glassbox_tests::eventually("all of them run", EFFECTIVE, async || {
            for line in &lines {
                if session.processes(line).await.is_empty() {
                    return None;
                }
            }
            Some(())
        })
        .await;
        let view = command.kill(0.5).await;
        killed_by(&view);
        let survivors = view.kill.clone().expect("a report").survivors;
        for line in &lines {
            for pid in session.processes(line).await {
                assert!(
                    survivors.iter().any(|survivor| survivor.pid == pid),
                    "{line} ({pid}) lives and is not named: {survivors:?}"
                );
            }
        }
    }
}

// A command that ends its own helper cannot hide from what comes after.
#[tokio::test]
async fn what_a_command_hides_by_killing_its_own_helper_is_gone_or_named() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, seconds) in [(open(), 336), (hardened(), 337)] {
        let session = agent.create_session(profile).await;
        let line = format!("sleep {seconds}");
        let script = format!("(env -i setsid {line} >/dev/null 2>&1 &); sleep 1; kill -9 $PPID; exec sleep 338");
        let command = session.run(&script).await;
        let view = command.ended().await;
        assert_eq!(view.state, CommandState::Interrupted(Interruption::HelperLost), "{view:?}");
        let survivors = view.kill.clone().map(|report| report.survivors).unwrap_or_default();
        for pid in session.processes(&line).await {
            assert!(
                survivors.iter().any(|survivor| survivor.pid == pid),
                "{line} ({pid}) lives and is not named: {survivors:?}"
            );
        }
        assert_gone(&session, &["sleep 338"]).await;
        assert_eq!(session.sh("echo still usable").await, "still usable\n");
    }
}

// Case 13.
#[tokio::test]
async fn killing_what_has_ended_and_what_never_was_are_told_apart_and_are_no_success() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let ended = session.run("true").await;
    let view = ended.ended().await;
    let refused = ended.try_kill(None).await.expect_err("it has ended");
    assert_eq!((refused.status, refused.code()), (409, ErrorCode::AlreadyEnded));
    assert_eq!(ended.signal("INT").await.refusal().code(), ErrorCode::AlreadyEnded);
    assert_eq!(ended.view().await.state, view.state, "nothing was changed");

    let never = "cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
    let refused = session.command(&never).try_kill(None).await.expect_err("it never was");
    assert_eq!((refused.status, refused.code()), (404, ErrorCode::NotFound));
    let nonsense = agent.post(&session.path("/commands/nonsense/kill"), &serde_json::json!({})).await.refusal();
    assert_eq!(nonsense.code(), ErrorCode::NotFound);

    // A command of another session is none of this one.
    let elsewhere = agent.create_session(hardened()).await;
    let running = elsewhere.run("sleep 341").await;
    assert_eq!(session.command(running.id()).try_kill(None).await.expect_err("not here").code(), ErrorCode::NotFound);
    running.running().await;
}

// Case 14, from the API: a flood of output is no obstacle.
#[tokio::test]
async fn a_kill_and_an_interrupt_are_effective_under_a_flood_of_output() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let flood = session.run("yes").await;
    flood.wrote("y\ny\n").await;
    let begun = Instant::now();
    let view = flood.kill(5.0).await;
    let took = begun.elapsed();
    println!(
        "kill under `yes`: {took:?}, of which inside {} ms",
        view.kill.as_ref().map_or(0, |report| report.took_ms)
    );
    assert_eq!(killed_by(&view).0, TERM);
    assert!(took < EFFECTIVE, "{took:?}");
    assert_gone(&session, &["yes"]).await;

    let flood = session.run("yes").await;
    flood.wrote("y\ny\n").await;
    let begun = Instant::now();
    flood.signal("SIGINT").await.success().expect("it is sent");
    let view = flood.ended().await;
    println!("SIGINT under `yes`: {:?}", begun.elapsed());
    assert!(begun.elapsed() < EFFECTIVE);
    assert!(
        matches!(view.state, CommandState::Signaled { signal: 2 } | CommandState::Exited { code: 130 }),
        "{view:?}"
    );
}

#[tokio::test]
async fn a_kill_right_after_the_start_is_as_true_as_any_other() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    for _ in 0..5 {
        let command = session.run("sleep 351").await;
        let view = command.kill(1.0).await;
        killed_by(&view);
        assert!(view.kill.expect("a report").survivors.is_empty());
        assert_gone(&session, &["sleep 351"]).await;
    }
}

#[tokio::test]
async fn of_two_kills_at_once_both_are_told_the_truth() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let command = session.run("trap '' TERM; echo ready; sleep 352 & wait").await;
    command.wrote("ready").await;
    let (patient, hasty) = tokio::join!(command.try_kill(Some(30.0)), command.try_kill(Some(0.5)));
    for answer in [patient, hasty] {
        match answer {
            Ok(view) => assert_eq!(killed_by(&view).0, KILL),
            Err(refusal) => assert_eq!(refusal.code(), ErrorCode::AlreadyEnded, "{refusal}"),
        }
    }
    killed_by(&command.view().await);
    assert_gone(&session, &["sleep 352"]).await;
}

#[tokio::test]
async fn an_operator_kills_in_an_agents_session_and_a_viewer_does_not() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("sleep 361").await;
    command.running().await;

    let viewer = server.viewer_key().await;
    let refused = command.seen_by(&viewer).try_kill(None).await.expect_err("viewers watch");
    assert_eq!((refused.status, refused.code()), (403, ErrorCode::Forbidden));
    assert_eq!(command.seen_by(&viewer).signal("KILL").await.refusal().code(), ErrorCode::Forbidden);
    assert_eq!(command.view().await.state, CommandState::Running);

    let operator = server.operator();
    let refused =
        session.seen_by(&operator).try_run(&RunCommand::default()).await.expect_err("the agent is in control");
    assert!(matches!(refused.code(), ErrorCode::NotInControl | ErrorCode::Invalid), "{refused}");
    let view = command.seen_by(&operator).kill(2.0).await;
    assert!(matches!(killed_by(&view).1, Actor::Human { .. }), "the human is written down: {view:?}");
    assert_gone(&session, &["sleep 361"]).await;

    // Another agent of the tenant may as well, and is written down by its own name.
    let other = operator.with_role(Role::Agent).await;
    let command = session.run("sleep 362").await;
    let view = command.seen_by(&other).kill(2.0).await;
    assert_ne!(killed_by(&view).1, &view.actor, "who killed is not who started");
}

#[tokio::test]
async fn a_kill_with_a_wrong_grace_or_signal_is_refused_and_does_nothing() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("sleep 371").await;
    command.running().await;
    for grace in [-1.0, 61.0, 1e300] {
        assert_eq!(command.try_kill(Some(grace)).await.expect_err("refused").code(), ErrorCode::Invalid, "{grace}");
    }
    for signal in ["", "BOGUS", "999", "SIGKILL; id"] {
        assert_eq!(command.signal(signal).await.refusal().code(), ErrorCode::Invalid, "{signal}");
    }
    assert_eq!(command.view().await.state, CommandState::Running);
    // Nothing but what was asked for: USR1 ends a sleep by its default action.
    command.signal("usr1").await.success().expect("a name in any form");
    assert!(matches!(command.ended().await.state, CommandState::Signaled { .. } | CommandState::Exited { .. }));
}
