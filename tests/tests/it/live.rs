//! The live socket: events, output, and coming back after the line was lost. (Rules that viewers break: `live_rules`.)

use std::time::Duration;

use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::live::{Event, WatchFrom, close};
use glassbox_shared::session::{EndReason, SessionState};
use glassbox_tests::viewer::{Closed, Heard};
use glassbox_tests::{Command, TestServer, hardened, hold, open, seq};

/// For what takes a moment.
const SOON: Duration = Duration::from_mins(1);

/// The newest view of a command that was told.
fn newest<'a>(heard: &'a Heard, command: &Command) -> Option<&'a CommandView> {
    heard.events.iter().rev().find_map(|(_, event)| match event {
        Event::Command { command: view } if view.command_id == *command.id() => Some(&**view),
        _ => None,
    })
}

#[tokio::test]
async fn what_happens_is_told_in_order_and_the_last_word_is_what_is_true() {
    let (server, agent) = TestServer::with_agent().await;
    let (mut first, mut second) = (server.viewer().await, server.viewer().await);
    assert_eq!(first.now(|heard| heard.epoch.clone()), second.now(|heard| heard.epoch.clone()));
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo 'the last line'; sleep 1; exit 7").await;
    let finished = command.finish().await;
    session.delete().await.success().expect("ended");
    for viewer in [&mut first, &mut second] {
        viewer
            .until("the end of the session", SOON, |heard| {
                let state = heard.events.iter().rev().find_map(|(_, event)| match event {
                    Event::Session { session: view } => Some(view.state),
                    _ => None,
                });
                (state == Some(SessionState::Ended { reason: EndReason::Deleted })).then_some(())
            })
            .await;
        viewer.now(|heard| {
            assert_eq!(newest(heard, &command), Some(&finished.view), "the view is the one that REST gives");
            let states: Vec<&CommandState> = heard
                .events
                .iter()
                .filter_map(|(_, event)| match event {
                    Event::Command { command } => Some(&command.state),
                    _ => None,
                })
                .collect();
            let order = |state: &CommandState| match state {
                CommandState::Starting => 0,
                CommandState::Running => 1,
                _ => 2,
            };
            assert!(states.is_sorted_by_key(|state| order(state)), "{states:?}");
            let line = heard.events.iter().find_map(|(_, event)| match event {
                Event::Progress { last_line, output_bytes, .. } => Some((last_line.clone(), *output_bytes)),
                _ => None,
            });
            assert_eq!(line, Some(("the last line".to_owned(), 14)), "progress tells the last line");
            assert!(heard.reloads.is_empty(), "nobody was slow");
        });
    }
}

#[tokio::test]
async fn two_viewers_see_the_same_bytes_and_one_that_comes_late_sees_them_all() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let mut early = server.viewer().await;
    let command = session.run(&format!("seq 1 100000; {}; seq 100001 150000; exit 3", hold("go"))).await;
    let streams = [early.watch(&command, WatchFrom::Offset(0)), early.watch(&command, WatchFrom::Offset(0))];
    command.wrote("\n100000\n").await;
    let mut late = server.viewer().await;
    let (whole, tail) = (late.watch(&command, WatchFrom::Offset(0)), late.watch(&command, WatchFrom::Tail(100)));
    late.until("the tail", SOON, |heard| (heard.streams[&tail].received == 100).then_some(())).await;
    session.release("go").await;

    let all = seq(1, 150_000);
    for stream in streams {
        let seen = early.read_to_end(stream, SOON).await;
        assert!(seen.gaps.is_empty() && seen.bytes == all.as_bytes());
        assert!(seen.end.expect("an end").complete);
    }
    let seen = late.read_to_end(whole, SOON).await;
    assert!(seen.gaps.is_empty() && seen.bytes == all.as_bytes());
    let seen = late.read_to_end(tail, SOON).await;
    let began = seen.began.expect("it began") as usize;
    assert_eq!(began, (1..=100_000).map(|n: u32| n.to_string().len() + 1).sum::<usize>() - 100);
    assert_eq!(seen.bytes, all.as_bytes()[began..]);
    // And when all is over, again.
    let after = late.watch(&command, WatchFrom::Offset(all.len() as u64 - 3));
    assert_eq!(late.read_to_end(after, SOON).await.bytes, all.as_bytes()[all.len() - 3..]);
    let more_than_all = late.watch(&command, WatchFrom::Tail(u64::MAX));
    assert_eq!(late.read_to_end(more_than_all, SOON).await.began, Some(0));
}

// Cases 10 and 18, as far as there are no terminals yet; a tab that slept does the same.
#[tokio::test]
async fn a_viewer_that_lost_its_line_gets_exactly_the_bytes_that_it_missed() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let command = session.run(&format!("for i in $(seq 1 200); do seq 1 2000; done; {}; seq 1 2000", hold("go"))).await;
    let mut bytes = Vec::new();
    for _ in 0..5 {
        let mut viewer = server.viewer().await;
        let stream = viewer.watch(&command, WatchFrom::Offset(bytes.len() as u64));
        // So that it gets its credit and no more, and there is something left for the next one.
        viewer.acknowledge(stream, false);
        let seen = viewer
            .until("some of it", SOON, |heard| {
                let seen = &heard.streams[&stream];
                (seen.received > 30_000).then(|| seen.clone())
            })
            .await;
        assert!(seen.gaps.is_empty());
        bytes.extend_from_slice(&seen.bytes);
        // The line breaks without a word.
        drop(viewer);
    }
    session.release("go").await;
    let mut last = server.viewer().await;
    let stream = last.watch(&command, WatchFrom::Offset(bytes.len() as u64));
    let rest = last.read_to_end(stream, SOON).await;
    assert!(rest.gaps.is_empty());
    bytes.extend_from_slice(&rest.bytes);
    let once = seq(1, 2000);
    assert!(bytes == once.repeat(201).as_bytes(), "nothing missing, nothing twice: {} bytes", bytes.len());
}

// Case 17, shortened: a tab that is hidden takes nothing for a while.
#[tokio::test]
async fn a_viewer_that_takes_nothing_slows_no_command_and_sees_the_present_on_return() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let mut hidden = server.viewer().await;
    let command = session.run(&format!("{}; seq 1 3000000; {}; echo the present", hold("hidden"), hold("go"))).await;
    let stream = hidden.watch(&command, WatchFrom::Offset(0));
    hidden.until("the stream is open", SOON, |heard| heard.streams[&stream].began).await;
    hidden.acknowledge(stream, false);
    session.release("hidden").await;
    let written: u64 = (1..=3_000_000_u64).map(|n| u64::from(n.ilog10()) + 2).sum();
    glassbox_tests::eventually("the command writes all of it", SOON * 2, async || {
        (command.view().await.output_bytes == written).then_some(())
    })
    .await;
    let seen = hidden.now(|heard| heard.streams[&stream].received);
    assert!(seen <= glassbox_shared::live::CREDIT, "nothing is sent beyond the credit: {seen}");
    hidden.acknowledge(stream, true);
    hidden.until("the present", SOON, |heard| (heard.streams[&stream].cursor.offset == written).then_some(())).await;
    session.release("go").await;
    let seen = hidden.read_to_end(stream, SOON).await;
    assert!(seen.bytes.ends_with(b"\n3000000\nthe present\n"));
    // However far behind it was, the log holds all of it.
    assert_eq!((seen.received, seen.missing()), (written + "the present\n".len() as u64, 0));
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_the_viewer_comes_back_to_the_same_bytes() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo before; sleep 900").await;
    let mut viewer = server.viewer().await;
    let stream = viewer.watch(&command, WatchFrom::Offset(0));
    viewer.until("output", SOON, |heard| (heard.streams[&stream].bytes == b"before\n").then_some(())).await;
    let address = server.address();
    server.stop();
    let closed = viewer.until("goodbye", SOON, |heard| heard.closed).await;
    assert_eq!(closed, Closed::Code(close::SHUTDOWN));
    server.restart(&address).await;
    let mut viewer = server.viewer().await;
    let stream = viewer.watch(&command, WatchFrom::Offset(7));
    let seen = viewer.read_to_end(stream, SOON).await;
    let end = seen.end.expect("an end");
    assert_eq!((seen.bytes.len(), end.offset, end.complete), (0, 7, false));
}

// Case 28 lasts ten minutes; what keeps such a line open is that the server says something on its own.
#[tokio::test]
async fn a_quiet_line_is_kept_alive_by_the_server() {
    let server = TestServer::start().await;
    let mut viewer = server.viewer().await;
    viewer.until("two heartbeats", SOON, |heard| (heard.heartbeats >= 2).then_some(())).await;
}
