//! What people can read of what a client was told: all of it, word for word.

use std::time::Duration;

use axum::body::to_bytes;
use serde_json::{Value, json};

use super::{Client, busy_session, cancel_while_it_runs, messages, sessions};
use crate::http::tests::support::TestApp;
use crate::store::tests::{stall, waiting};

/// Nothing here takes this long; only a broken test does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins what is told of a sandbox that was made again.
const AGAIN: &str = "[glassbox] the sandbox was started again: it ran out of memory; ";

/// What was told in a session, newest first: tool and text.
async fn kept(app: &TestApp, session: &str) -> Vec<(String, String)> {
    let path = format!("/v1/history/{session}/tool-calls");
    let list = app.get(&path).key(&app.agent).send().await.json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    list["calls"].as_array().expect("a list").iter().map(|call| (text(&call["tool"]), text(&call["text"]))).collect()
}

/// Waits until this is so.
async fn until(is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
}

/// The sandbox dies and is made again; answers once that is known.
async fn made_again(app: &TestApp) {
    app.kill_newest_sandbox();
    until(async || {
        let now = &sessions(app, &app.agent).await[0];
        now["state"] == "ready" && now["restarts"].as_array().is_some_and(|restarts| !restarts.is_empty())
    })
    .await;
}

/// Clients would not wait any longer, and the calls that wait now know it.
async fn time_passes() {
    let known = tokio::spawn(tokio::time::sleep(Duration::from_secs(45)));
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(46)).await;
    tokio::time::resume();
    known.await.expect("no panic");
    // Whoever was woken with it had a turn.
    tokio::task::yield_now().await;
}

async fn only_session(app: &TestApp) -> String {
    let all = sessions(app, &app.agent).await;
    assert_eq!(all.len(), 1);
    all[0]["session_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn every_tools_text_is_kept_as_the_client_got_it() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_list", json!({})).await;
    let session = only_session(&app).await;
    for (tool, input) in [
        ("sandbox_info", json!({})),
        ("activity", json!({"limit": 5})),
        ("run_command", json!({"command": "print one; error two"})),
        ("shell_exec", json!({"command": "print one"})),
        ("shell_wait", json!({})),
        ("shell_kill", json!({})),
        ("shell_list", json!({})),
        ("shell_output", json!({"command_id": "cmd_aaaaaaaaaaaaaaaaaaaa"})),
        ("write_file", json!({"path": "a", "content": "b"})),
        ("read_file", json!({"path": "a"})),
        ("list_files", json!({})),
        ("edit_file", json!({"path": "a", "old_string": "b", "new_string": "c"})),
        // Refused before anything is done.
        ("shell_exec", json!({})),
        ("run_command", json!({"command": "ls", "timeout_seconds": 61})),
        ("activity", json!({"limit": 0})),
        ("sandbox_info", json!({"x": 1})),
        ("import_repo", json!({"repo": "a/b"})),
        ("egress_log", json!({})),
        ("save_snapshot", json!({})),
        ("list_snapshots", json!({})),
        ("restore_snapshot", json!({"snapshot_id": "a"})),
        ("nonsense", json!({})),
    ] {
        let (text, _) = client.call(tool, input).await;
        assert_eq!(kept(&app, &session).await[0], (tool.to_owned(), text), "{tool}");
    }
}

#[tokio::test]
async fn a_reset_is_kept_with_the_sandbox_that_it_ended() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_list", json!({})).await;
    let ended = only_session(&app).await;
    let told = client.text("reset_sandbox", json!({})).await;
    assert!(told.starts_with("the sandbox is deleted"), "{told}");
    assert!(sessions(&app, &app.agent).await.is_empty());
    assert_eq!(kept(&app, &ended).await[0], ("reset_sandbox".to_owned(), told));
    let first = client.text("sandbox_info", json!({})).await;
    assert!(first.starts_with("there is no sandbox yet"), "{first}");
    assert_eq!(kept(&app, &ended).await.len(), 2, "what is told without a sandbox is in none");
    let told = client.text("shell_list", json!({})).await;
    assert!(told.starts_with("[glassbox] this is a new, empty sandbox"), "{told}");
    assert_eq!(kept(&app, &only_session(&app).await).await, [("shell_list".to_owned(), told)]);
}

#[tokio::test]
async fn what_there_is_to_say_of_a_sandbox_comes_once_with_the_next_answer_whichever_tool_that_is_of() {
    let app = TestApp::start().await;
    let probe = Client::begin(&app, &app.agent, "probe", "").await;
    probe.text("shell_list", json!({})).await;
    let session = only_session(&app).await;
    made_again(&app).await;
    for (nth, (tool, input)) in [
        ("sandbox_info", json!({})),
        ("activity", json!({})),
        ("run_command", json!({"command": "print x"})),
        ("shell_list", json!({})),
        ("list_files", json!({})),
        ("write_file", json!({"path": "a", "content": "b"})),
        ("shell_exec", json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        // Each name is a reader of its own.
        let client = Client::begin(&app, &app.agent, &format!("probe-{nth}"), "").await;
        let first = client.text(tool, input.clone()).await;
        let (notes, text) = first.split_once("\n\n").unwrap_or_else(|| panic!("{tool}: {first}"));
        assert!(notes.lines().all(|line| line.starts_with("[glassbox] ")), "{tool}: {first}");
        assert_eq!(notes.lines().filter(|line| line.starts_with(AGAIN)).count(), 1, "{tool}: {first}");
        assert!(!text.contains("[glassbox]"), "{tool}: {first}");
        assert_eq!(kept(&app, &session).await[0], (tool.to_owned(), first), "{tool}");
        let second = client.text(tool, input).await;
        assert!(!second.contains("[glassbox]"), "{tool}, once: {second}");
    }
    let reset = probe.text("reset_sandbox", json!({})).await;
    assert!(reset.contains(AGAIN) && reset.contains("\n\nthe sandbox is deleted"), "{reset}");
    assert_eq!(kept(&app, &session).await[0].1, reset);
}

#[tokio::test]
async fn of_calls_at_once_one_says_what_there_is_to_say() {
    let app = TestApp::start().await;
    let (one, two) =
        (Client::begin(&app, &app.agent, "one", "").await, Client::begin(&app, &app.agent, "two", "").await);
    let at_once = async |client: &Client<'_>, note: &str| {
        let list = || client.text("shell_list", json!({}));
        let all: [String; 4] = tokio::join!(list(), list(), list(), list()).into();
        assert_eq!(all.iter().filter(|text| text.starts_with(note)).count(), 1, "{note}: {all:?}");
        assert_eq!(all.iter().filter(|text| text.contains("[glassbox]")).count(), 1, "{note}: {all:?}");
    };
    one.text("shell_list", json!({})).await;
    at_once(&two, "[glassbox] another client (one 1.0)").await;
    at_once(&one, "[glassbox] another client (two 1.0)").await;
    one.text("reset_sandbox", json!({})).await;
    at_once(&one, "[glassbox] this is a new, empty sandbox").await;
    at_once(&two, "[glassbox] the sandbox of this workspace is another one").await;
}

#[tokio::test]
async fn a_call_that_waits_does_not_keep_what_there_is_to_say_from_the_next() {
    let app = TestApp::start().await;
    let (one, two) =
        (Client::begin(&app, &app.agent, "one", "").await, Client::begin(&app, &app.agent, "two", "").await);
    let begun = two.text("shell_exec", json!({"command": "hang", "timeout": 0})).await;
    assert!(begun.starts_with("still running"), "{begun}");
    one.text("shell_list", json!({})).await;
    let wait =
        json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": {"name": "shell_wait", "arguments": {}}});
    // The answer's head is there, and the call waits.
    let waiting = two.post(&wait).begin().await;
    let met = two.text("shell_list", json!({})).await;
    assert!(met.starts_with("[glassbox] another client (one 1.0)"), "{met}");
    two.text("shell_kill", json!({})).await;
    let answer = to_bytes(waiting.into_body(), usize::MAX).await.expect("the whole body");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("killed (exit=143)") && !answer.contains("[glassbox]"), "once: {answer}");
}

#[tokio::test]
async fn a_call_that_is_answered_before_it_is_done_is_kept_as_that() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_list", json!({})).await;
    let session = only_session(&app).await;
    // The file service never says that it is done.
    let write = json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call",
        "params": {"name": "write_file", "arguments": {"path": "late", "content": "x"}}});
    let waiting = tokio::spawn(client.post(&write).send());
    until(async || app.file_services() > 0).await;
    time_passes().await;
    let answer = waiting.await.expect("no panic");
    let result = messages(&answer).pop().expect("an answer")["result"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    assert!(text.starts_with("ERROR: this was not done within 45s, "), "{text}");
    assert_eq!(kept(&app, &session).await[0], ("write_file".to_owned(), text));
}

#[tokio::test]
async fn an_answer_that_is_being_written_down_when_its_time_is_over_is_still_given() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_list", json!({})).await;
    let session = only_session(&app).await;
    let before = stall(app.store()).await;
    let info = json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call",
        "params": {"name": "sandbox_info", "arguments": {}}});
    let waits = tokio::spawn(client.post(&info).send());
    until(async || waiting(app.store()) == 1).await;
    // The disk stands still while its answer is committed.
    let (commits, ()) = tokio::join!(stall(app.store()), async {
        until(async || waiting(app.store()) == 2).await;
        before.go_on().await;
    });
    time_passes().await;
    assert!(!waits.is_finished(), "it is worth waiting for");
    commits.go_on().await;
    let answer = waits.await.expect("no panic");
    let result = messages(&answer).pop().expect("an answer")["result"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    assert!(!text.starts_with("ERROR"), "{text}");
    let all = kept(&app, &session).await;
    assert_eq!((all.len(), &all[0]), (2, &("sandbox_info".to_owned(), text)));
}

#[tokio::test]
async fn a_call_that_the_stop_of_the_server_ends_has_told_nothing() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_list", json!({})).await;
    let session = only_session(&app).await;
    let sandbox = app.session(&session);
    made_again(&app).await;
    let params = json!({"name": "shell_exec", "arguments": {"command": "hang"}});
    let call = json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": params});
    // The answer's head is there, and the call waits; whether the client still does is not known before its end.
    let waits = client.post(&call).begin().await;
    busy_session(&app, &app.agent).await;
    app.shutdown.cancel();
    tokio::time::timeout(PATIENCE, app.handled()).await.expect("in time");
    let answer = to_bytes(waits.into_body(), usize::MAX).await.expect("the whole body");
    assert!(!String::from_utf8_lossy(&answer).contains("result"), "nothing is sent any more");
    assert_eq!(kept(&app, &session).await.len(), 1, "the list before");
    // As it comes back to the next server: under the name that it reads by.
    let told = app.list(&sandbox, "mcp probe").await;
    assert!(told.starts_with(AGAIN), "it was not told that before: {told}");
    assert!(!app.list(&sandbox, "mcp probe").await.contains("[glassbox]"), "once");
}

#[tokio::test]
async fn a_call_that_was_cancelled_told_nothing_and_nothing_of_it_is_kept() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    cancel_while_it_runs(&client).await;
    let session = busy_session(&app, &app.agent).await["session_id"].as_str().expect("an id").to_owned();
    let list = client.text("shell_list", json!({})).await;
    assert_eq!(kept(&app, &session).await, [("shell_list".to_owned(), list)]);
}
