use std::time::Duration;

use axum::http::StatusCode;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{CREDIT, Event, FromServer, FromViewer, WatchFrom, close};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::{Heard, Running, TestApp, Viewer};
use crate::command::log::LogSettings;

fn watch(running: &Running, stream: u32, from: WatchFrom) -> FromViewer {
    FromViewer::Watch { stream, session_id: running.session.clone(), command_id: running.command.clone(), from }
}

/// Takes output in until the stream ends: the bytes, and the gaps as they came.
async fn follow(viewer: &mut Viewer, stream: u32, mut at: u64) -> (Vec<u8>, Vec<(u64, u64)>, u64) {
    let (mut bytes, mut gaps) = (Vec::new(), Vec::new());
    loop {
        match viewer.hear().await {
            Heard::Output { stream: id, offset, bytes: more } if id == stream => {
                assert_eq!(offset, at, "no byte is lost or shown twice");
                at += more.len() as u64;
                bytes.extend_from_slice(&more);
                viewer.say(&FromViewer::Ack { stream, offset: at }).await;
            }
            Heard::Said(FromServer::Gap { from, to, .. }) => {
                assert_eq!(from, at);
                gaps.push((from, to));
                at = to;
            }
            Heard::Said(FromServer::StreamEnd { offset, .. }) => {
                assert_eq!(offset, at);
                return (bytes, gaps, at);
            }
            Heard::Said(_) => {}
            other => panic!("unexpected: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_socket_says_hello_first_and_then_what_happens() {
    let app = TestApp::start().await;
    let mut viewer = app.viewer_socket().await;
    let FromServer::Hello { epoch, .. } = viewer.said().await else { panic!("hello comes first") };
    assert_eq!(epoch, "epoch");
    let running = app.run("hang").await;
    app.publish_progress(&running, 5);
    loop {
        if let FromServer::Event { event: Event::Progress { output_bytes: 5, .. }, .. } = viewer.said().await {
            break;
        }
    }
}

#[tokio::test]
async fn without_the_subprotocol_or_with_a_foreign_origin_there_is_no_socket() {
    let app = TestApp::start().await;
    let key = ("x-api-key", app.agent.as_str());
    let protocol = ("sec-websocket-protocol", "glassbox.v1");
    assert_eq!(app.handshake(&[key]).await.err(), Some(StatusCode::BAD_REQUEST));
    assert_eq!(
        app.handshake(&[key, ("sec-websocket-protocol", "glassbox.v2")]).await.err(),
        Some(StatusCode::BAD_REQUEST)
    );
    assert_eq!(
        app.handshake(&[key, protocol, ("origin", "http://evil.example")]).await.err(),
        Some(StatusCode::FORBIDDEN)
    );
    assert_eq!(app.handshake(&[protocol]).await.err(), Some(StatusCode::UNAUTHORIZED));
    assert!(app.handshake(&[key, protocol]).await.is_ok());
}

#[tokio::test]
async fn a_viewer_gets_every_byte_and_an_explicit_end() {
    let app = TestApp::start().await;
    let running = app.run("print before; sleep 100; flood 3000000; sleep 1; print after").await;
    app.written(&running, 7).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 7, WatchFrom::Offset(0))).await;
    loop {
        if let FromServer::Watching { stream, offset } = viewer.said().await {
            assert_eq!((stream, offset), (7, 0));
            break;
        }
    }
    let (bytes, gaps, _) = follow(&mut viewer, 7, 0).await;
    assert!(gaps.is_empty());
    assert!(bytes.starts_with(b"before\n") && bytes.ends_with(b"after\n"));
    assert_eq!(bytes.len(), 7 + 3_000_000 + 6);
}

#[tokio::test]
async fn a_viewer_that_does_not_acknowledge_gets_its_credit_and_no_more() {
    let app = TestApp::start().await;
    let running = app.run(&format!("flood {}; hang", 2 * CREDIT)).await;
    app.written(&running, 2 * CREDIT).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(0))).await;
    let mut taken = 0;
    while let Ok(heard) = tokio::time::timeout(Duration::from_millis(500), viewer.hear()).await {
        if let Heard::Output { bytes, .. } = heard {
            taken += bytes.len() as u64;
        }
    }
    assert_eq!(taken, CREDIT);
    // Everything else still passes.
    app.publish_progress(&running, 9);
    while !matches!(viewer.said().await, FromServer::Event { event: Event::Progress { output_bytes: 9, .. }, .. }) {}
    viewer.say(&FromViewer::Ack { stream: 1, offset: 100 }).await;
    loop {
        if let Heard::Output { offset, bytes, .. } = viewer.hear().await {
            assert_eq!((offset, bytes.len()), (CREDIT, 100), "the credit came back");
            break;
        }
    }
}

#[tokio::test]
async fn two_streams_take_turns() {
    let app = TestApp::start().await;
    let running = app.run(&format!("flood {CREDIT}; hang")).await;
    app.written(&running, CREDIT).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(0))).await;
    viewer.say(&watch(&running, 2, WatchFrom::Offset(0))).await;
    let mut taken = [0_u64; 2];
    while taken[0] < CREDIT || taken[1] < CREDIT {
        if let Heard::Output { stream, bytes, .. } = viewer.hear().await {
            taken[stream as usize - 1] += bytes.len() as u64;
        }
    }
}

#[tokio::test]
async fn a_viewer_far_behind_gets_every_byte_that_the_log_holds_while_the_command_runs_on() {
    let app = TestApp::start().await;
    let length = 24 << 20;
    let running = app.run(&format!("flood {length}; hang")).await;
    app.written(&running, length).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(0))).await;
    let mut next = 0;
    while next < length {
        match viewer.hear().await {
            Heard::Output { offset, bytes, .. } => {
                assert_eq!(offset, next, "no byte is left out");
                next += bytes.len() as u64;
                viewer.say(&FromViewer::Ack { stream: 1, offset: next }).await;
            }
            Heard::Said(FromServer::Gap { from, to, .. }) => panic!("a gap from {from} to {to}"),
            Heard::Said(_) => {}
            Heard::Closed(code) => panic!("closed with {code}"),
        }
    }
    app.kill(&running).await;
}

#[tokio::test]
async fn what_the_log_does_not_hold_any_more_is_an_explicit_gap() {
    let app = TestApp::start().await;
    let LogSettings { head, tail, .. } = LogSettings::default();
    let length = head + tail + (16 << 20);
    let running = app.run(&format!("flood {length}; hang")).await;
    app.written(&running, length).await;
    let mut viewer = app.viewer_socket().await;
    // So that little of the head has to be read first.
    let begin = head - CREDIT;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(begin))).await;
    let ((), (bytes, gaps, end)) = tokio::join!(app.kill(&running), follow(&mut viewer, 1, begin));
    let [(from, to)] = gaps[..] else { panic!("one gap, not {gaps:?}") };
    assert_eq!((from, end), (head, length), "the whole head is shown, and the end is the log's");
    assert!(to >= length - tail, "what lies between is not held");
    assert_eq!(bytes.len() as u64, end - begin - (to - from), "and all that is held is shown");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_and_the_socket_lives_on() {
    let app = TestApp::start().await;
    let running = app.run("print 1234; hang").await;
    app.written(&running, 5).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(6))).await;
    let nothing = FromViewer::Watch {
        stream: 2,
        session_id: running.session.clone(),
        command_id: "cmd_zzzzzzzzzzzzzzzzzzzz".parse().expect("an id"),
        from: WatchFrom::Tail(1),
    };
    viewer.say(&nothing).await;
    viewer.say(&watch(&running, 3, WatchFrom::Tail(2))).await;
    let mut refused = Vec::new();
    loop {
        match viewer.hear().await {
            Heard::Said(FromServer::StreamError { stream, code, .. }) => refused.push((stream, code)),
            Heard::Output { stream, offset, bytes } => {
                assert_eq!((stream, offset, &bytes[..]), (3, 3, &b"4\n"[..]));
                break;
            }
            Heard::Said(_) => {}
            Heard::Closed(code) => panic!("closed: {code}"),
        }
    }
    assert_eq!(refused, [(1, ErrorCode::OffsetBeyondEnd), (2, ErrorCode::NotFound)]);
}

#[tokio::test]
async fn a_viewer_that_breaks_the_protocol_is_told_so() {
    let app = TestApp::start().await;
    let running = app.run("print x; hang").await;
    app.written(&running, 2).await;
    let wrong: [&[FromViewer]; 2] = [
        &[watch(&running, 1, WatchFrom::Offset(0)), FromViewer::Ack { stream: 1, offset: 1000 }],
        &[watch(&running, 1, WatchFrom::Offset(0)), watch(&running, 1, WatchFrom::Offset(0))],
    ];
    for messages in wrong {
        let mut viewer = app.viewer_socket().await;
        for message in messages {
            viewer.say(message).await;
        }
        assert_eq!(viewer.closed().await, close::PROTOCOL);
    }
    let mut viewer = app.viewer_socket().await;
    viewer.say_text("{\"type\":\"nonsense\"}").await;
    assert_eq!(viewer.closed().await, close::PROTOCOL);
}

#[tokio::test]
async fn a_revoked_key_closes_open_sockets_at_once() {
    let app = TestApp::start().await;
    let mut viewer = app.viewer_socket().await;
    app.revoke_agent_key().await;
    assert_eq!(viewer.closed().await, close::SIGNED_OUT);
}

#[tokio::test]
async fn a_stopping_server_says_goodbye_and_ends_in_time() {
    let mut app = TestApp::start().await;
    let mut viewer = app.viewer_socket().await;
    app.shutdown.cancel();
    assert_eq!(viewer.closed().await, close::SHUTDOWN);
    drop(viewer);
    tokio::time::timeout(Duration::from_secs(10), app.served()).await.expect("in time");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let app = TestApp::start().await;
    let closed = async |beginning: &str| {
        let mut stream = app.connect().await;
        stream.write_all(beginning.as_bytes()).await.expect("sent");
        // Closed or reset: both are an end. The deadline itself is 15 s.
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(25), stream.read_to_end(&mut answer)).await.expect("in time");
    };
    tokio::join!(closed(""), closed("P"), closed("PRI * HTTP/2.0\r\n"), closed("GET / HTTP/1.1\r\nHo"));
}

#[tokio::test]
#[ignore = "takes four minutes: a viewer must be slow for longer than a dead one is waited for"]
async fn a_viewer_that_reads_one_kilobyte_a_second_is_not_taken_for_dead() {
    let app = TestApp::start().await;
    let running = app.run(&format!("flood {}; hang", 4 << 20)).await;
    let mut viewer = app.viewer_socket().await;
    viewer.say(&watch(&running, 1, WatchFrom::Offset(0))).await;
    for _ in 0..240 {
        // Neither acknowledges nor answers heartbeats; only reads.
        viewer.pass_over(1024).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
#[ignore = "takes three minutes: a dead viewer is waited for that long"]
async fn a_viewer_that_takes_nothing_is_let_go_and_slows_nobody() {
    let app = TestApp::start().await;
    let running = app.run(&format!("flood {}; hang", 64 << 20)).await;
    let mut dead = app.viewer_socket().await;
    for stream in 0..32 {
        dead.say(&watch(&running, stream, WatchFrom::Tail(CREDIT))).await;
    }
    // The command ran to its end with it there.
    app.written(&running, 64 << 20).await;
    tokio::time::sleep(Duration::from_secs(170)).await;
    let mut rest = 0;
    while dead.pass_over(1024).await {
        rest += 1024;
    }
    assert!(rest < 32 * CREDIT, "it was let go before it had all");
}
