//! The server's data disk fills up under it: new work is refused, nothing is lost or corrupt, and it recovers by itself.

use std::time::Duration;

use glassbox_shared::command::{CommandState, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_tests::{TestServer, eventually, hardened, hold};

/// Room for the database and some output.
const MEGABYTES: u32 = 24;
/// Until what failed for want of room is done.
const RECOVERED: Duration = Duration::from_mins(1);

fn command(text: &str) -> RunCommand {
    RunCommand { command: text.to_owned(), ..RunCommand::default() }
}

// Case 33.
#[tokio::test]
async fn on_a_full_disk_new_work_is_refused_and_everything_goes_on_once_there_is_room() {
    let server = TestServer::configure().small_disk(MEGABYTES).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let done = session.finish("seq 1 1000; exit 4").await;
    let quiet = session.run(&format!("echo before; {}; exit 6", hold("go"))).await;
    quiet.wrote("before\n").await;

    server.disk().fill();
    let refused = eventually("a command is refused", RECOVERED, async || {
        // Pages that the database has already may take the first.
        session.try_run(&command("true")).await.err()
    })
    .await;
    assert_eq!((refused.status, refused.code()), (507, ErrorCode::StorageFull), "{refused}");
    assert!(refused.body.detail.contains("disk is full"), "it says what to do: {refused}");
    let refused = agent.try_create_session(&hardened()).await.expect_err("no room");
    assert_eq!((refused.status, refused.code()), (507, ErrorCode::StorageFull), "{refused}");
    // Reading goes on.
    assert_eq!(done.output.bytes, session.command(&done.view.command_id).output().await.bytes);
    assert_eq!(quiet.view().await.state, CommandState::Running);

    server.disk().free();
    eventually("commands are taken again", RECOVERED, async || {
        let command = session.try_run(&command("touch go; echo works")).await.ok()?;
        (command.finish().await.text() == "works\n").then_some(())
    })
    .await;
    let finished = quiet.finish().await;
    assert_eq!((finished.exit_code(), finished.text()), (Some(6), "before\n".to_owned()));
    let again = agent.create_session(hardened()).await;
    assert_eq!(again.sh("echo new").await, "new\n");
    assert_eq!(session.command(&done.view.command_id).view().await.state, CommandState::Exited { code: 4 });
}

#[tokio::test]
async fn a_command_that_floods_a_full_disk_ends_truthfully_and_says_that_its_output_is_not_all_there() {
    let server = TestServer::configure().small_disk(MEGABYTES).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let flood = session.run(&format!("{}; seq 1 200000; exit 3", hold("go"))).await;
    flood.running().await;
    server.disk().fill();
    // Nothing new is taken, so it is let go by what runs already.
    let deadline = session.try_run(&command("touch go")).await;
    if deadline.is_err() {
        server.disk().free();
        session.release("go").await;
        server.disk().fill();
    }
    let seen = eventually("it writes no more, or ended", RECOVERED, async || {
        let before = flood.view().await;
        (before.state.is_final() || before.output_bytes > 0).then_some(before)
    })
    .await;
    server.disk().free();
    let finished = flood.finish().await;
    println!("while full: {:?}; at the end: {:?}", seen.state, finished.view);
    let whole = glassbox_tests::seq(1, 200_000).into_bytes();
    let output = &finished.output;
    let is_held = |at: u64| !output.gaps.iter().any(|(from, to)| (*from..*to).contains(&at));
    let held: Vec<u8> = whole
        .iter()
        .enumerate()
        .filter(|(at, _)| (*at as u64) < output.next && is_held(*at as u64))
        .map(|(_, byte)| *byte)
        .collect();
    assert!(output.bytes == held, "each byte is at its place, and the gaps say what is missing: {output:?}");
    match finished.view.state {
        CommandState::Exited { code: 3 } | CommandState::Interrupted(_) => {}
        other => panic!("an end that did not happen: {other:?}"),
    }
    let is_whole = output.bytes == whole;
    assert!(is_whole || !finished.view.output_complete, "complete is said only where it is: {finished:?}");
    assert_eq!(session.sh("echo works").await, "works\n");
}
