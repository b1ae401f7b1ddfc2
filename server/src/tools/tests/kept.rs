//! What is written down: what a model is told, no more than that, and only so much of it.

use serde_json::json;

use super::{PATIENCE, Stage, agent};
use crate::store::tests::{stall, waiting};
use crate::store::{Cursor, MAX_READERS, RestartsTold, ToolCall, Wanted};
use crate::tools::Reader;

/// A call as it is kept.
fn told(stage: &Stage, reader: &str, tool: &str, text: &str) -> ToolCall {
    ToolCall {
        session: stage.session.id().clone(),
        reader: reader.into(),
        actor: agent().actor,
        tool: tool.into(),
        input: String::new(),
        command: None,
        at: 0.0,
        ended_at: 0.0,
        text: text.into(),
        offset: None,
        next_offset: None,
    }
}

#[tokio::test]
async fn an_answer_that_nobody_wants_any_more_takes_nothing() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "print one"})).await;
    let id = begun.command_id.expect("an id");
    let call = ToolCall {
        command: Some(id.clone()),
        offset: Some(0),
        next_offset: Some(4),
        ..told(&stage, "late", "shell_wait", "exit=0")
    };
    let to = Cursor { next: 4, ended: true };
    let left = Wanted::default();
    assert!(left.give_up());
    let store = &stage.tools.store;
    let restarts = RestartsTold::default();
    let told = async |by: &Wanted| {
        store.tell_output(call.clone(), &id, Cursor::default(), to, restarts, by).await.expect("a store")
    };
    assert!(!told(&left).await);
    assert!(!store.record_tool_call(call.clone(), restarts, &left).await.expect("a store"), "nor is it written down");
    assert_eq!(store.tool_cursor(stage.session.id(), "late", &id).await.expect("a store"), Cursor::default());
    assert!(told(&Wanted::default()).await);
    let late = Wanted::default();
    assert!(!told(&late).await, "the cursor is not there any more");
    assert!(late.give_up(), "it was not written down");
    assert_eq!(store.tool_cursor(stage.session.id(), "late", &id).await.expect("a store"), to);
}

/// The disk may stand still at any time: an answer is given up while it waits for its turn, and not while it is committed.
#[tokio::test]
async fn an_answer_that_is_being_written_down_cannot_be_given_up() {
    let stage = Stage::new().await;
    let store = &stage.tools.store;
    let record = |text: &str| {
        let (store, call, wanted) = (store.clone(), told(&stage, "r", "t", text), Wanted::default());
        let by = wanted.clone();
        let told = tokio::spawn(async move { store.record_tool_call(call, RestartsTold::default(), &by).await });
        (wanted, told)
    };
    let queued = async |jobs| {
        let all = async {
            while waiting(store) < jobs {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("in time");
    };
    let before = stall(store).await;
    let (left, not_told) = record("left");
    queued(1).await;
    let (wanted, told) = record("wanted");
    queued(2).await;
    assert!(left.give_up(), "the store has not begun");
    // All that waits stands in one transaction, and this comes last in it.
    let (commits, ()) = tokio::join!(stall(store), async {
        queued(3).await;
        before.go_on().await;
    });
    assert!(!wanted.give_up(), "it will be told");
    commits.go_on().await;
    assert!(told.await.expect("no panic").expect("a store"));
    assert!(!not_told.await.expect("no panic").expect("a store"));
    let (kept, _) = store.tool_calls(stage.session.id(), None, None, 9).await.expect("a store");
    assert_eq!(kept.iter().map(|call| call.text.as_str()).collect::<Vec<_>>(), ["wanted"]);
}

#[tokio::test]
async fn only_the_latest_calls_are_kept_and_only_so_many_bytes() {
    let stage = Stage::new().await;
    let long = "x".repeat(400_000);
    for nth in 0..120 {
        let call = told(&stage, "r", &format!("t{nth}"), &long);
        let by = Wanted::default();
        assert!(stage.tools.store.record_tool_call(call, RestartsTold::default(), &by).await.expect("a store"));
    }
    let (kept, _) = stage.tools.store.tool_calls(stage.session.id(), None, None, 200).await.expect("a store");
    let bytes: usize = kept.iter().map(|call| call.text.len()).sum();
    assert_eq!(kept.first().map(|call| call.tool.as_str()), Some("t119"), "the newest stay");
    assert!(!kept.is_empty() && bytes <= 32 << 20, "{} calls of {bytes} bytes", kept.len());
}

#[tokio::test]
async fn readers_of_a_session_are_so_many_and_no_more() {
    let stage = Stage::new().await;
    let id = stage.call("shell_exec", json!({"command": "print one"})).await.command_id.expect("an id");
    let input = json!({"command_id": id.as_str()});
    for nth in 1..MAX_READERS {
        let told = stage.call_as(&format!("r{nth}"), "shell_wait", input.clone()).await;
        assert_eq!(told.text, "exit=0\noutput:\none\n", "reader {nth}");
    }
    let refused = stage.call_as("one more", "shell_wait", input.clone()).await;
    assert!(refused.text.starts_with("ERROR: this session has had 2000 readers"), "{}", refused.text);
    assert_eq!(stage.call_as("r7", "shell_wait", input).await.text, "exit=0\noutput:\n", "those that are known go on");
}

#[tokio::test]
async fn a_call_with_a_last_moment_waits_no_longer_and_is_written_down_as_it_was_made() {
    let stage = Stage::new().await;
    let (who, reader) = (agent(), Reader::new(&agent(), None).expect("a reader"));
    let input = json!({"command": "hang", "timeout": 3600});
    let calling = stage.tools.calling(&who, &stage.session, &reader, "shell_exec", &input);
    let answer = tokio::time::timeout(PATIENCE, calling.within(tokio::time::Instant::now()).dispatch()).await;
    assert!(answer.expect("in time").text.starts_with("still running after "));
    let (told, _) = stage.tools.store.tool_calls(stage.session.id(), None, None, 1).await.expect("a store");
    assert_eq!(told[0].input, input.to_string());
}
