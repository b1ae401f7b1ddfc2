//! Ended sessions stay readable for a time, everything can be searched, and what is removed is gone to the last byte.

use std::path::Path;
use std::time::Duration;

use glassbox_shared::command::{CommandList, CommandView, output_headers};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::history::{
    FoundIn, Happening, HistoryList, HistoryView, Purged, SearchHit, SearchResult, Timeline,
};
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{EndReason, SessionState};
use glassbox_tests::output::contains;
use glassbox_tests::{Client, Command, TestServer, eventually, hardened, seq};
use reqwest::Method;

/// The index looks once a second; machines that run tests are busy.
const FOUND: Duration = Duration::from_secs(60);
/// Stands in a command or its output, and nowhere else.
const CANARY: &str = "Kanarienvogel4711";
/// Of a file that is written through the API, and nowhere else.
const PATH: &str = "Nachtigall4711";

fn path(session: &SessionId, rest: &str) -> String {
    format!("/v1/history/{session}{rest}")
}

async fn ended(client: &Client) -> Vec<HistoryView> {
    let list: HistoryList = client.get("/v1/history").await.ok().expect("the history can be listed");
    list.sessions
}

async fn search(client: &Client, text: &str) -> SearchResult {
    let request = client.request(Method::GET, "/v1/search").query(&[("q", text), ("limit", "100")]);
    client.send(request).await.ok().expect("a search is answered")
}

/// Searches until so many lines are found.
async fn found(client: &Client, text: &str, count: usize) -> Vec<SearchHit> {
    eventually(text, FOUND, async || {
        let hits = search(client, text).await.hits;
        (hits.len() >= count).then_some(hits)
    })
    .await
}

/// Reads all that the history has of a command's output, in small steps: bytes, and gaps from where to where.
async fn read(client: &Client, command: &Command, step: usize) -> (Vec<u8>, Vec<(u64, u64)>) {
    let (mut bytes, mut gaps, mut next) = (Vec::new(), Vec::new(), 0);
    loop {
        let rest = format!("/commands/{}/output?from={next}&limit={step}", command.id());
        let answer = client.get(&path(command.session_id(), &rest)).await.success().expect("output can be read");
        let number = |name| answer.header(name).parse::<u64>().expect("a number");
        let offset = number(output_headers::OFFSET);
        assert_eq!(offset, next + number(output_headers::GAP));
        if offset > next {
            gaps.push((next, offset));
        }
        bytes.extend_from_slice(&answer.body);
        next = number(output_headers::NEXT);
        if answer.header(output_headers::END) == "true" {
            return (bytes, gaps);
        }
        assert!(!answer.body.is_empty(), "an ended command's output comes to its end");
    }
}

/// Does this text stand in a name or a file of the folder? As it is, and as a search keeps it.
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).expect("a folder").flatten().any(|entry| {
        let path = entry.path();
        let in_file = || {
            // A file that vanished meanwhile holds nothing.
            let bytes = std::fs::read(&path).unwrap_or_default();
            contains(&bytes, text.as_bytes()) || contains(&bytes, text.to_lowercase().as_bytes())
        };
        entry.file_name().to_string_lossy().contains(text) || if path.is_dir() { holds(&path, text) } else { in_file() }
    })
}

#[tokio::test]
async fn an_ended_session_stays_readable_to_the_byte_and_is_gone_for_everything_else() {
    let (mut server, agent) = TestServer::with_agent().await;
    let (operator, viewer, stranger) = (server.operator(), server.viewer_key().await, server.other_operator());
    let session = agent.create_session(hardened()).await;
    let bytes = session.run("printf 'a\\0\\377\\r\\n'; seq 1 3000; exit 4").await;
    bytes.finish().await;
    let killed = session.run("echo running; sleep 700").await;
    killed.wrote("running").await;
    // Live ones answer there as well, so that a link to a command is the same before and after.
    let live: HistoryView = viewer.get(&path(session.id(), "")).await.ok().expect("a live session");
    assert_eq!((live.session.state, live.kept_until), (SessionState::Ready, None));
    assert!(ended(&viewer).await.is_empty(), "but it is not in the list");
    assert_eq!(operator.delete(&path(session.id(), "")).await.refusal().code(), ErrorCode::Conflict);
    session.seen_by(&operator).delete().await.success().expect("an end");

    let expected = [b"a\0\xff\r\n".as_slice(), seq(1, 3000).as_bytes()].concat();
    let address = server.address();
    for restarted in [false, true] {
        if restarted {
            server.kill_hard();
            server.restart(&address).await;
        }
        for client in [&agent, &viewer, &operator] {
            for rest in ["", "/commands", &format!("/commands/{}/output", bytes.id())] {
                let refused = client.get(&session.path(rest)).await.refusal();
                assert_eq!((refused.status, refused.code()), (404, ErrorCode::NotFound), "{rest}");
            }
            let list = ended(client).await;
            assert_eq!(list.len(), 1);
            let view: HistoryView = client.get(&path(session.id(), "")).await.ok().expect("the session");
            assert_eq!(list[0], view);
            assert_eq!(view.session.state, SessionState::Ended { reason: EndReason::Deleted });
            assert!(view.ended_by.as_ref().is_some_and(glassbox_shared::actor::Actor::is_human), "{view:?}");
            assert_eq!((view.session.commands_total, view.commands_failed), (2, 2));
            assert_eq!(view.kept_until, view.session.ended_at.map(|at| at + 7.0 * 86_400.0));
            assert_eq!(read(client, &bytes, 1000).await, (expected.clone(), vec![]));
        }
        let rest = format!("/commands/{}", bytes.id());
        let view: CommandView = viewer.get(&path(session.id(), &rest)).await.ok().expect("the command");
        assert_eq!((view.number, view.output_bytes), (1, expected.len() as u64));
        let log = viewer.get(&path(session.id(), &format!("{rest}/log"))).await.success().expect("a download");
        assert_eq!(log.body, expected);
        let commands: CommandList = viewer.get(&path(session.id(), "/commands?limit=1")).await.ok().expect("commands");
        assert_eq!((commands.commands[0].command_id.clone(), commands.next), (killed.id().clone(), Some(2)));
        let beyond = viewer.get(&path(session.id(), &format!("{rest}/output?from=999999"))).await.refusal();
        assert_eq!(beyond.code(), ErrorCode::OffsetBeyondEnd);
        let line: Timeline = viewer.get(&path(session.id(), "/timeline")).await.ok().expect("a time line");
        assert!(matches!(line.entries.first().map(|first| &first.what), Some(Happening::Created { .. })), "{line:?}");
        assert!(
            matches!(line.entries.last().map(|last| &last.what), Some(Happening::Ended { by: Some(_), .. })),
            "{line:?}"
        );
        assert_eq!(line.entries.len(), 6, "{line:?}");
        // Another tenant: nothing of it exists.
        assert!(ended(&stranger).await.is_empty());
        for rest in ["", "/commands", "/timeline", &rest, &format!("{rest}/output"), &format!("{rest}/log")] {
            assert_eq!(stranger.get(&path(session.id(), rest)).await.refusal().code(), ErrorCode::NotFound, "{rest}");
        }
        assert_eq!(stranger.delete(&path(session.id(), "")).await.refusal().code(), ErrorCode::NotFound);
    }
    for client in [&agent, &viewer] {
        assert_eq!(client.delete(&path(session.id(), "")).await.refusal().code(), ErrorCode::Forbidden);
    }
}

#[tokio::test]
async fn a_gap_in_the_output_is_the_same_gap_in_the_history() {
    let server = TestServer::configure().env("GLASSBOX_LOG_HEAD", "64k").env("GLASSBOX_LOG_TAIL", "64k").start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let command = session.run("seq 1 100000").await;
    let live = command.finish().await.output;
    assert_eq!(live.next, seq(1, 100_000).len() as u64);
    session.delete().await.success().expect("an end");
    let (bytes, gaps) = read(&agent, &command, 50_000).await;
    let whole = seq(1, 100_000);
    let (from, to) = gaps[0];
    assert_eq!(gaps.len(), 1, "the first and the latest part are held");
    let (head, tail) = (&whole.as_bytes()[..from as usize], &whole.as_bytes()[to as usize..]);
    assert_eq!(bytes, [head, tail].concat());
    // What is held can be searched, and the answer says that it is not all.
    let hits = found(&agent, "100000", 2).await;
    assert!(hits.iter().any(|hit| hit.found_in == FoundIn::Output && hit.partly_indexed), "{hits:?}");
    assert_eq!(search(&agent, "100000").await.partly_indexed, 1);
}

#[tokio::test]
async fn a_search_finds_words_in_commands_and_output_at_their_offset_and_stays_in_its_tenant() {
    let (server, agent) = TestServer::with_agent().await;
    let (viewer, stranger) = (server.viewer_key().await, server.other_operator());
    let old = agent.create_session(hardened()).await;
    // The word lies across the border of two reads and of two pieces of the log.
    let old_command =
        old.run("head -c 65530 /dev/zero | tr '\\0' .; echo ' Grüße-4711 \"quoted\" AND NOT'; echo end").await;
    let output = old_command.finish().await.text();
    old.delete().await.success().expect("an end");
    let live = agent.create_session(hardened()).await;
    let live_command = live.run("echo -e '\\033[31mGrüße\\033[0m 4711'; sleep 700").await;
    let hits = found(&viewer, "grüß 4711", 3).await;
    assert_eq!(hits.len(), 3, "in what both wrote, and in the command that has it as a word: {hits:?}");
    assert_eq!(hits[0].session_id, *live.id(), "the newest session first");
    let hit = hits.iter().find(|hit| hit.session_ended && hit.found_in == FoundIn::Output).expect("the old output");
    assert_eq!((hit.offset, hit.line), (output.find("Grüße").expect("written") as u64, Some(1)));
    let rest = format!("/commands/{}/output?from={}&limit=7", hit.command_id, hit.offset);
    assert_eq!(viewer.get(&path(&hit.session_id, &rest)).await.text(), "Grüße");
    let hit = hits.iter().find(|hit| !hit.session_ended && hit.found_in == FoundIn::Output).expect("the live output");
    assert_eq!((&hit.command_id, hit.offset), (live_command.id(), 5), "after the colour");
    let parts: Vec<_> = hit.snippet.iter().map(|part| (part.text.as_str(), part.found)).collect();
    assert_eq!(parts, [("Grüße", true), (" ", false), ("4711", true)]);
    // Nothing that is typed means anything but itself.
    assert_eq!(search(&viewer, "\"quoted\" AND NOT").await.hits.len(), 2);
    for nothing in ["Grüße OR nowhere", "\"4711 Grüße\"", "text:Grüße", "NEAR(Grüße quoted)", "'; DROP TABLE words; --"]
    {
        assert!(search(&viewer, nothing).await.hits.is_empty(), "{nothing}");
    }
    for wrong in ["", "*", "\"\"", "()"] {
        let request = viewer.request(Method::GET, "/v1/search").query(&[("q", wrong)]);
        assert_eq!(viewer.send(request).await.refusal().code(), ErrorCode::Invalid, "{wrong:?}");
    }
    assert!(search(&stranger, "4711").await.hits.is_empty());
    live_command.kill(0.5).await;
}

#[tokio::test]
async fn a_purge_leaves_no_byte_in_the_data_directory() {
    let (server, agent) = TestServer::with_agent().await;
    let operator = server.operator();
    let kept = agent.create_session(hardened()).await;
    kept.sh("echo kept").await;
    kept.delete().await.success().expect("an end");
    let session = agent.create_session(hardened()).await;
    for _ in 0..3 {
        session.sh(&format!("echo {CANARY}; seq 1 20000; echo {CANARY}")).await;
    }
    session.files().write(PATH, "content").await;
    let told = format!("{PATH} as a model was told of it");
    let call = serde_json::json!({"path": told});
    agent.post(&session.path("/tools/read_file"), &call).await.success().expect("an answer");
    session.delete().await.success().expect("an end");
    found(&agent, CANARY, 9).await;
    assert!(holds(&server.data_dir(), &told));
    assert!(holds(&server.data_dir(), CANARY) && holds(&server.data_dir(), PATH));
    let purged: Purged = operator.delete(&path(session.id(), "")).await.ok().expect("a purge");
    assert_eq!(purged.commands, 3);
    assert!(!holds(&server.data_dir(), CANARY), "no byte of it is left");
    assert!(!holds(&server.data_dir(), PATH), "nor of a path that was written");
    assert!(!holds(&server.data_dir(), session.id().as_str()), "nor its name");
    assert_eq!(operator.get(&path(session.id(), "")).await.status, 404);
    assert!(search(&agent, CANARY).await.hits.is_empty());
    assert_eq!(ended(&agent).await.len(), 1);
    found(&agent, "kept", 2).await;
}

#[tokio::test]
async fn what_is_too_old_is_removed_by_itself_and_live_sessions_are_not() {
    let server = TestServer::configure().env("GLASSBOX_RETENTION", "2s,other=7d").start().await;
    let (agent, other) = (server.agent().await, server.other_operator());
    let live = agent.create_session(hardened()).await;
    live.sh("echo stays").await;
    let foreign = other.create_session(hardened()).await;
    foreign.sh("echo stays as well").await;
    foreign.delete().await.success().expect("an end");
    let session = agent.create_session(hardened()).await;
    session.sh(&format!("echo {CANARY}")).await;
    session.delete().await.success().expect("an end");
    eventually("it is gone to the last byte", FOUND, async || {
        let is_gone = agent.get(&path(session.id(), "")).await.status == 404 && !holds(&server.data_dir(), CANARY);
        is_gone.then_some(())
    })
    .await;
    assert_eq!(live.sh("echo still here").await, "still here\n");
    assert_eq!(ended(&other).await.len(), 1, "each tenant has its own time");
}

#[tokio::test]
async fn a_purge_that_kill_9_interrupts_ends_in_all_or_nothing_readable() {
    let (mut server, agent) = TestServer::with_agent().await;
    let address = server.address();
    let mut removed = 0;
    for round in 0..4 {
        let session = agent.create_session(hardened()).await;
        let command = session.run(&format!("echo {CANARY}; seq 1 20000")).await;
        let output = command.finish().await.output.bytes;
        session.delete().await.success().expect("an end");
        let purging = tokio::spawn({
            let (operator, path) = (server.operator(), path(session.id(), ""));
            async move { operator.try_send(operator.request(Method::DELETE, &path)).await }
        });
        // Each round somewhere else: at once, when its files are gone, when its words are gone, afterwards.
        let parts = [None, Some(format!("logs/{}", session.id())), Some(format!("search/{}.db", session.id()))];
        if let Some(part) = parts.get(round).cloned().unwrap_or(Some("nothing".to_owned())) {
            eventually("the purge has got there", FOUND, async || {
                let is_there = round < parts.len() && server.data_dir().join(&part).exists();
                (purging.is_finished() || !(is_there || round == parts.len())).then_some(())
            })
            .await;
        }
        server.kill_hard();
        let answered = purging.await.expect("a task").is_ok_and(|answer| answer.status == 200);
        server.restart(&address).await;
        let is_there = agent.get(&path(session.id(), "")).await.status == 200;
        assert!(!(answered && is_there), "what was told gone is gone");
        if is_there {
            assert_eq!(read(&agent, &command, 100_000).await, (output, vec![]), "all of it is there");
            let _: Purged = server.operator().delete(&path(session.id(), "")).await.ok().expect("a purge");
        } else {
            removed += 1;
        }
        assert!(!holds(&server.data_dir(), CANARY), "nothing of it is left");
        assert!(!holds(&server.data_dir(), session.id().as_str()));
    }
    println!("removed in {removed} of 4 rounds");
}
