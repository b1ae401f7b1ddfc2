//! Output from an offset on: exactly the bytes, or an explicit gap.

use std::time::Duration;

use glassbox_shared::command::{CommandState, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_tests::viewer::Closed;
use glassbox_tests::{TestServer, Viewer, hardened, hold, is_long, open, repeats, seq};

/// Commands that run at once in case 4; the server allows 16 in a session.
const AT_ONCE: usize = 6;
/// Makes each event of such a command too large for a stalled viewer's line.
const PADDING: usize = 20_000;

// Case 4. And somebody watches whose line takes next to nothing: it must slow nobody, and is told that it missed events.
#[tokio::test]
async fn output_and_code_are_right_every_time_whoever_watches() {
    let (server, agent) = TestServer::with_agent().await;
    let mut stalled = Viewer::connect_slow(&server.operator(), 1).await;
    let session = agent.create_session(open()).await;
    let padding = "#".repeat(PADDING);
    let runs = repeats(5_000);
    let next = std::cell::Cell::new(0);
    let work = async || {
        while next.get() < runs {
            let run = next.replace(next.get() + 1);
            let code = run % 256;
            let command = RunCommand {
                command: format!("printf x; exit {code} {padding}"),
                split: run.is_multiple_of(2),
                ..RunCommand::default()
            };
            let finished = session.run_with(command).await.finish().await;
            assert_eq!(finished.view.state, CommandState::Exited { code: code as i32 }, "run {run}: {finished:?}");
            assert_eq!(finished.output.bytes, b"x", "run {run}: {finished:?}");
            assert!(finished.view.output_complete, "run {run}");
        }
    };
    futures_util::future::join_all((0..AT_ONCE).map(|_| work())).await;
    assert_eq!(session.view().await.commands_total, runs as u64);

    stalled.set_pace(None);
    let told = stalled.now(|heard| heard.closed.is_some())
        || stalled
            .until("the stalled viewer is told", Duration::from_mins(1), |heard| {
                (!heard.reloads.is_empty() || heard.closed.is_some()).then_some(true)
            })
            .await;
    assert!(told);
    let closed = stalled.now(|heard| heard.closed);
    // In a long run it is let go; a line that is full may take no more the word that says so.
    let let_go = [Closed::Code(glassbox_shared::live::close::TOO_SLOW), Closed::Broken];
    assert!(closed.is_none_or(|closed| is_long() && let_go.contains(&closed)), "{closed:?}");
}

// Case 10.
#[tokio::test]
async fn reading_again_from_an_offset_gives_exactly_the_bytes_from_there_on_then_the_live_ones() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let command = session.run(&format!("seq 1 100000; {}; seq 100001 200000", hold("go"))).await;
    let first = seq(1, 100_000);
    command.wrote("\n100000\n").await;
    // Everything so far, from several places; the last one is where the live part begins.
    for offset in [0, 1, 65_536, 65_537, first.len() - 1, first.len()] {
        let path = command.path(&format!("/output?from={offset}"));
        let answer = agent.get(&path).await.success().expect("it can be read");
        assert_eq!(answer.body, first.as_bytes()[offset..], "from {offset}");
        assert_eq!(answer.header("glassbox-end"), "false");
        assert_eq!(answer.header("glassbox-command-state"), "running");
    }
    let resumed = tokio::spawn({
        let (command, offset) = (command.clone(), first.len() as u64 - 7);
        async move { command.output_from(offset).await }
    });
    session.release("go").await;
    let all = seq(1, 200_000);
    let resumed = resumed.await.expect("it was read");
    assert_eq!(resumed.bytes, all.as_bytes()[first.len() - 7..]);
    assert!(resumed.gaps.is_empty());
    assert_eq!(command.output().await.text(), all, "and again when it has ended");
}

// Case 10, where not all is held any more.
#[tokio::test]
async fn what_is_no_longer_held_is_an_explicit_gap() {
    let small = TestServer::configure()
        .env("GLASSBOX_LOG_RING", "64k")
        .env("GLASSBOX_LOG_HEAD", "64k")
        .env("GLASSBOX_LOG_TAIL", "64k");
    let server = small.start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let all = seq(1, 100_000);
    let command = session.run("seq 1 100000").await;
    let finished = command.finish().await;
    assert_eq!(finished.exit_code(), Some(0));
    let live = &finished.output;
    assert_eq!(live.bytes.len() as u64 + live.missing(), all.len() as u64, "read while it was written: {live:?}");
    // Whoever read while it was written may have got more than is held now.
    let held = &command.output().await;
    assert_eq!(finished.view.output_bytes, all.len() as u64, "offsets count every byte");
    assert_eq!(held.bytes.len() as u64 + held.missing(), all.len() as u64, "bytes and gaps add up");
    assert_eq!(held.gaps.len(), 1, "one gap, between the first and the latest part: {held:?}");
    assert_eq!(finished.view.output_missing_bytes, held.missing());
    assert!(!finished.view.output_complete, "the log does not hold all of it");
    let (from, to) = held.gaps[0];
    let (from, to) = (from as usize, to as usize);
    assert!(from >= 64 * 1024 && all.len() - to >= 32 * 1024, "both parts are about as large as was set: {held:?}");
    assert_eq!(held.bytes[..from], all.as_bytes()[..from]);
    assert_eq!(held.bytes[from..], all.as_bytes()[to..]);

    let inside = command.output_from(from as u64 + 1000).await;
    assert_eq!(inside.gaps, [(from as u64 + 1000, to as u64)], "whoever asks for missing bytes is told how many");
    assert_eq!(inside.bytes, all.as_bytes()[to..]);
    let after = command.output_from(to as u64 + 10).await;
    assert!(after.gaps.is_empty());
    assert_eq!(after.bytes, all.as_bytes()[to + 10..]);

    let file = agent.get(&command.path("/log")).await.success().expect("a download");
    assert!(file.text().contains(&format!("{} bytes are missing here", to - from)), "a download tells of the gap");
    assert!(file.body.starts_with(&all.as_bytes()[..from]) && file.body.ends_with(&all.as_bytes()[to..]));
    assert!(file.header("content-disposition").contains("attachment"));
}

#[tokio::test]
async fn an_offset_beyond_the_end_is_refused_and_one_at_the_end_waits() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run(&format!("printf abc; {}; printf def", hold("go"))).await;
    command.wrote("abc").await;
    let beyond = agent.get(&command.path("/output?from=4")).await.refusal();
    assert_eq!(beyond.code(), ErrorCode::OffsetBeyondEnd);
    for wrong in ["from=-1", "from=x", "wait=61", "wait=-1", "limit=0", "limit=1048577", "offset=0"] {
        let refused = agent.get(&command.path(&format!("/output?{wrong}"))).await.refusal();
        assert_eq!(refused.code(), ErrorCode::Invalid, "{wrong}");
    }
    let waiting = tokio::spawn({
        let (agent, path) = (agent.clone(), command.path("/output?from=3&wait=60"));
        async move { agent.get(&path).await }
    });
    session.release("go").await;
    assert_eq!(waiting.await.expect("it answers").text(), "def");
    assert_eq!(command.finish().await.text(), "abcdef");
    let end = agent.get(&command.path("/output?from=6&wait=60")).await.success().expect("the end");
    assert_eq!((end.body.len(), end.header("glassbox-end")), (0, "true"), "an ended log does not wait");
}
