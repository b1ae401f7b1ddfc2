//! A sandbox that was started again: each reader is told once, with its next answer.

use glassbox_shared::session::{DeathCause, EndReason, SessionState};
use serde_json::{Value, json};

use super::{PATIENCE, Stage};

/// What such a note begins with.
const AGAIN: &str = "[glassbox] the sandbox was started again: it ran out of memory; kept: ";

impl Stage {
    /// The sandbox dies and is made again; answers once that is known.
    async fn made_again(&self) {
        self.dies(SessionState::Ready).await;
    }

    /// The sandbox dies; answers once that is known, and it is in this state.
    async fn dies(&self, state: SessionState) {
        let before = self.session.view().restarts.len();
        let container = self.engine.containers().pop().expect("a container");
        self.engine.kill_container(&container, DeathCause::Oom);
        let died = async {
            while self.session.view().restarts.len() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, died).await.expect("it is noticed");
        self.becomes(state).await;
    }

    async fn becomes(&self, state: SessionState) {
        let becomes = async {
            while self.session.view().state != state {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, becomes).await.expect("in time");
    }
}

#[tokio::test]
async fn a_sandbox_that_was_made_again_is_told_once_to_each_reader() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "print one; hang", "timeout": 0})).await;
    stage.wrote(&begun.command_id.expect("an id"), 4).await;
    let container = stage.engine.containers().pop().expect("a container");
    stage.engine.kill_container(&container, DeathCause::Oom);
    let lost = stage.call("shell_wait", json!({})).await;
    assert!(lost.is_error, "{lost:?}");
    assert!(
        lost.text
            .contains("ERROR: the command was interrupted: the sandbox ran out of memory and died\noutput so far:\n")
    );
    // Whichever answer came after the sandbox was made again has the block; those after it have it no more.
    let mut told =
        usize::from(lost.text.starts_with("[glassbox] the sandbox was started again: it ran out of memory; kept: "));
    for _ in 0..3 {
        let text = stage.text("shell_exec", json!({"command": "print again"})).await;
        told += text.matches("[glassbox] the sandbox was started again").count();
        assert!(text.ends_with("exit=0\noutput:\nagain\n"), "{text}");
    }
    assert_eq!(told, 1);
    let other = stage.call_as("other", "shell_exec", json!({"command": "print again"})).await;
    assert!(other.text.starts_with("[glassbox] the sandbox was started again"), "{}", other.text);
}

#[tokio::test]
async fn it_is_told_with_the_next_answer_whichever_tool_that_is_of() {
    let stage = Stage::new().await;
    let id = stage.call("shell_exec", json!({"command": "print one"})).await.command_id.expect("an id");
    stage.made_again().await;
    let calls: [(&str, Value, &str); 9] = [
        ("shell_exec", json!({"command": "print two"}), "exit=0\noutput:\ntwo\n"),
        ("shell_exec", json!({"command": "print two", "background": true}), "started in the background\n"),
        ("shell_wait", json!({"command_id": id.as_str()}), "exit=0\noutput:\none\n"),
        ("shell_list", json!({}), "no command is running\n"),
        ("shell_output", json!({"command_id": id.as_str()}), "bytes 0 to 4 of 4\noutput:\none\n"),
        ("write_file", json!({"path": "a", "content": "b"}), "wrote 1 bytes to "),
        ("list_files", json!({}), "(the folder is empty)"),
        ("edit_file", json!({"path": "a"}), "ERROR: "),
        ("nonsense", json!({}), "ERROR: there is no tool"),
    ];
    for (nth, (tool, input, text)) in calls.into_iter().enumerate() {
        let reader = format!("reader {nth}");
        let first = stage.call_as(&reader, tool, input.clone()).await.text;
        let (notes, rest) = first.split_once("\n\n").unwrap_or_else(|| panic!("{tool}: {first}"));
        assert!(notes.starts_with(AGAIN) && notes.lines().count() == 1, "{tool}: {first}");
        assert!(rest.starts_with(text), "{tool}: {first}");
        let (kept, _) = stage.tools.store.tool_calls(stage.session.id(), None, None, 1).await.expect("a store");
        assert_eq!((kept[0].tool.as_str(), kept[0].text.as_str()), (tool, first.as_str()), "people read the same");
        let second = stage.call_as(&reader, tool, input).await.text;
        assert!(!second.contains(AGAIN), "{tool}, once: {second}");
        stage.call_as(&reader, "shell_kill", json!({})).await;
    }
    stage.made_again().await;
    assert!(stage.call_as("reader 3", "shell_list", json!({})).await.text.starts_with(AGAIN), "the next one is news");
}

#[tokio::test]
async fn it_is_told_once_the_sandbox_is_there_again_and_not_before() {
    let stage = Stage::new().await;
    stage.engine.switch(|switches| switches.refuse_starts = true);
    stage.dies(SessionState::Restarting).await;
    for (tool, input) in [("shell_list", json!({})), ("shell_output", json!({})), ("nonsense", json!({}))] {
        let text = stage.text(tool, input).await;
        assert!(!text.contains("[glassbox]"), "{tool}, while it cannot be made: {text}");
    }
    stage.engine.switch(|switches| switches.refuse_starts = false);
    stage.becomes(SessionState::Ready).await;
    let text = stage.text("shell_list", json!({})).await;
    assert!(text.starts_with(AGAIN), "{text}");
    assert!(!stage.text("shell_list", json!({})).await.contains("[glassbox]"), "once");
}

#[tokio::test]
async fn a_sandbox_whose_workspace_is_gone_was_not_started_again() {
    let stage = Stage::new().await;
    let workspace = stage.engine.workspaces().pop().expect("a workspace");
    stage.engine.lose_workspace(&workspace);
    stage.dies(SessionState::Ended { reason: EndReason::Lost }).await;
    let text = stage.text("nonsense", json!({})).await;
    assert!(text.starts_with("ERROR: there is no tool"), "{text}");
}

#[tokio::test]
async fn two_calls_at_once_do_not_both_tell_it() {
    let stage = Stage::new().await;
    stage.made_again().await;
    let list = || stage.call("shell_list", json!({}));
    let answers: [_; 4] = tokio::join!(list(), list(), list(), list()).into();
    let told = answers.iter().filter(|answer| answer.text.starts_with(AGAIN)).count();
    assert_eq!(told, 1, "{answers:?}");
    let (kept, _) = stage.tools.store.tool_calls(stage.session.id(), None, None, 9).await.expect("a store");
    let mut kept: Vec<&str> = kept.iter().map(|call| call.text.as_str()).collect();
    let mut given: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
    kept.sort_unstable();
    given.sort_unstable();
    assert_eq!(kept, given, "people read what was told");
}

#[tokio::test]
async fn a_name_in_a_folder_is_never_taken_for_a_note() {
    let stage = Stage::new().await;
    let listed = stage.text("list_files", json!({"path": "[glassbox] forged"})).await;
    assert_eq!(listed, "\n[glassbox] forged  0");
    stage.made_again().await;
    let listed = stage.text("list_files", json!({"path": "[glassbox] forged"})).await;
    let (notes, rest) = listed.split_once("\n\n").expect("a note");
    assert!(notes.starts_with(AGAIN) && notes.lines().count() == 1, "{listed}");
    assert_eq!(rest, "\n[glassbox] forged  0");
}
