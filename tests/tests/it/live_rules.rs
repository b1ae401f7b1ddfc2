//! The live protocol's rules: credit, streams that are refused, and viewers that break them.

use std::time::Duration;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{CREDIT, FromViewer, MAX_STREAMS, MAX_VIEWER_MESSAGE, SUBPROTOCOL, WatchFrom, close};
use glassbox_tests::stream::Keep;
use glassbox_tests::viewer::Closed;
use glassbox_tests::{Command, TestServer, Viewer, hardened, is_yes, open};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// For what takes a moment.
const SOON: Duration = Duration::from_mins(1);

/// Output comes in turns, so once another stream of the same socket was read to its end, every stream had its turn.
async fn everyone_had_a_turn(viewer: &mut Viewer, ended: &Command) {
    let stream = viewer.watch(ended, WatchFrom::Offset(0));
    viewer.read_to_end(stream, SOON).await;
}

#[tokio::test]
async fn nothing_is_sent_beyond_the_credit_and_an_acknowledgement_gives_it_back() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let ended = session.run("seq 1 10").await;
    ended.ended().await;
    let large = session.run("head -c 1000000 /dev/zero | tr '\\0' x").await;
    large.ended().await;
    let mut viewer = server.viewer().await;
    let stream = viewer.watch_with(&large, WatchFrom::Offset(0), Keep::Check(|_, byte| byte == b'x'));
    viewer.acknowledge(stream, false);
    viewer
        .until("the credit is used up", SOON, |heard| (heard.streams[&stream].received == CREDIT).then_some(()))
        .await;
    everyone_had_a_turn(&mut viewer, &ended).await;
    assert_eq!(viewer.now(|heard| heard.streams[&stream].received), CREDIT);
    // A part of it gives back a part.
    viewer.say(&FromViewer::Ack { stream, offset: 1000 });
    viewer
        .until("as much as was given back", SOON, |heard| {
            (heard.streams[&stream].received == CREDIT + 1000).then_some(())
        })
        .await;
    everyone_had_a_turn(&mut viewer, &ended).await;
    assert_eq!(viewer.now(|heard| heard.streams[&stream].received), CREDIT + 1000);
    viewer.acknowledge(stream, true);
    let seen = viewer.read_to_end(stream, SOON).await;
    assert_eq!((seen.received, seen.gaps.len()), (1_000_000, 0));
}

#[tokio::test]
async fn a_stream_that_is_closed_by_its_viewer_ends_without_disturbing_others() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let ended = session.run("seq 1 10").await;
    ended.ended().await;
    let flood = session.run("yes").await;
    let mut viewer = server.viewer().await;
    let (closed, open) = (
        viewer.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_yes)),
        viewer.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_yes)),
    );
    viewer
        .until("both flow", SOON, |heard| {
            (heard.streams[&closed].received.min(heard.streams[&open].received) > 1_000_000).then_some(())
        })
        .await;
    viewer.say(&FromViewer::Unwatch { stream: closed });
    everyone_had_a_turn(&mut viewer, &ended).await;
    let (quiet, before) = viewer.now(|heard| (heard.streams[&closed].received, heard.streams[&open].received));
    viewer
        .until("the other flows on", SOON, |heard| (heard.streams[&open].received > before + 5_000_000).then_some(()))
        .await;
    assert_eq!(viewer.now(|heard| heard.streams[&closed].received), quiet);
    flood.kill(2.0).await;
    viewer.read_to_end(open, SOON).await;
    assert!(viewer.now(|heard| heard.streams[&closed].end.is_none()));
}

#[tokio::test]
async fn a_stream_that_cannot_be_is_refused_by_itself_and_the_socket_lives_on() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo hello; sleep 910").await;
    command.wrote("hello\n").await;
    let mut viewer = server.viewer().await;
    let unknown = session.command(&"cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id"));
    let nowhere = agent.session(&"sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id")).command(command.id());
    for (what, wrong, from, code) in [
        ("an unknown command", &unknown, WatchFrom::Offset(0), ErrorCode::NotFound),
        ("an unknown session", &nowhere, WatchFrom::Offset(0), ErrorCode::NotFound),
        ("an offset that does not exist yet", &command, WatchFrom::Offset(7), ErrorCode::OffsetBeyondEnd),
    ] {
        let stream = viewer.watch(wrong, from);
        let seen = viewer.read_to_end(stream, SOON).await;
        let (told, detail) = seen.error.unwrap_or_else(|| panic!("{what} is refused"));
        assert_eq!(told, code, "{what}: {detail}");
        assert!(!detail.is_empty());
    }
    let streams: Vec<u32> = (0..MAX_STREAMS).map(|_| viewer.watch(&command, WatchFrom::Offset(0))).collect();
    viewer
        .until("as many as are allowed", SOON, |heard| {
            streams.iter().all(|id| heard.streams[id].received == 6).then_some(())
        })
        .await;
    let one_more = viewer.watch(&command, WatchFrom::Offset(0));
    assert!(viewer.read_to_end(one_more, SOON).await.error.is_some());
    viewer.say(&FromViewer::Unwatch { stream: streams[0] });
    let fits = viewer.watch(&command, WatchFrom::Offset(0));
    viewer.until("a place was given back", SOON, |heard| (heard.streams[&fits].received == 6).then_some(())).await;
}

#[tokio::test]
async fn whoever_breaks_the_protocol_is_told_and_closed_and_nobody_else_is() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo hello; sleep 911").await;
    command.wrote("hello\n").await;
    let mut bystander = server.viewer().await;
    let watch = |stream: u32| {
        let (session_id, command_id) = (session.id().clone(), command.id().clone());
        let watch = FromViewer::Watch { stream, session_id, command_id, from: WatchFrom::Offset(0) };
        Message::text(serde_json::to_string(&watch).expect("plain data"))
    };
    let text = |value: Value| Message::text(value.to_string());
    let wrongs = [
        ("bytes", vec![Message::binary(vec![1, 2, 3])]),
        ("no JSON", vec![Message::text("hello")]),
        ("an unknown message", vec![text(json!({"type": "shutdown"}))]),
        ("a stream that is open already", vec![watch(1), watch(1)]),
        ("what was never sent", vec![watch(1), text(json!({"type": "ack", "stream": 1, "offset": 1_000_000}))]),
        ("too large", vec![Message::text("x".repeat(MAX_VIEWER_MESSAGE + 1))]),
    ];
    for (what, messages) in wrongs {
        let mut viewer = server.viewer().await;
        for message in messages {
            viewer.say_raw(message);
        }
        let closed = viewer.until_closed(SOON).await;
        println!("{what}: {closed:?}");
        assert!(
            closed == Closed::Code(close::PROTOCOL)
                || (what == "too large" && matches!(closed, Closed::Code(_) | Closed::Broken)),
            "{what}: {closed:?}"
        );
    }
    let stream = bystander.watch(&command, WatchFrom::Offset(0));
    bystander
        .until("the others' faults are not its own", SOON, |heard| (heard.streams[&stream].received == 6).then_some(()))
        .await;
    assert_eq!(agent.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_socket_of_another_protocol_is_refused() {
    let server = TestServer::start().await;
    let operator = server.operator();
    let upgrade = |protocol: Option<&'static str>| {
        let request = operator
            .request(reqwest::Method::GET, "/v1/ws")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        match protocol {
            Some(protocol) => request.header("sec-websocket-protocol", protocol),
            None => request,
        }
    };
    for protocol in [None, Some("glassbox.v0"), Some("chat")] {
        let refused = operator.send(upgrade(protocol)).await.refusal();
        assert_eq!(refused.code(), ErrorCode::BadRequest, "{protocol:?}");
        assert!(refused.body.detail.contains(SUBPROTOCOL), "{refused}");
    }
    let plain = operator.get("/v1/ws").await.refusal();
    assert_eq!(plain.code(), ErrorCode::BadRequest, "no upgrade at all");
}
