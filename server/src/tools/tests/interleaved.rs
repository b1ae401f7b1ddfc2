//! The contract as a property: whatever readers do at once, each is given every byte once.
//!
//! Whoever gives a call up is given nothing, so nothing may be taken from them: but an answer that was written down just
//! before is lost on its way, as any answer can be. What counts as told is what is written down; people see it, and a model can
//! read it again by its offset.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use glassbox_shared::id::CommandId;
use glassbox_shared::tools::{ToolAnswer, ToolCallView};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use super::{STILL, Stage};

/// Readers of one session that give up; far fewer than it may have.
const MOST_TRIES: usize = 1_000;

/// What a reader may do, in the property below.
#[derive(Debug, Clone)]
enum Step {
    Exec {
        lines: u8,
        hang: bool,
    },
    Wait {
        millis: u8,
    },
    Kill,
    /// A call whose client goes away before it is answered.
    Gone {
        kill: bool,
        long: bool,
        when: Gone,
    },
    Twice,
}

/// When a client goes away.
#[derive(Debug, Clone, Copy)]
struct Gone {
    /// So often the call gets its turn.
    turns: u32,
    /// What it waited for then has come: it is on its way to being told.
    woken: bool,
}

impl Gone {
    /// Turns until a call that waits for nothing but the store is answered, and some more.
    const MOST_TURNS: u32 = 12;
    /// A client that waits for output has no more turns to wait for.
    const PATIENCE: Duration = Duration::from_millis(20);

    /// The call's answer; `None`, and it is dropped: the client was gone before.
    async fn before<T>(self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        let mut turns = 0;
        let gone = std::future::poll_fn(|context| {
            if turns == self.turns {
                return Poll::Ready(None);
            }
            if let Poll::Ready(answer) = call.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            turns += 1;
            if turns == self.turns && !self.woken { Poll::Ready(None) } else { Poll::Pending }
        });
        tokio::time::timeout(Self::PATIENCE, gone).await.ok().flatten()
    }
}

impl Stage {
    /// What was written down as told, newest first. By way of the store's queue: whatever was asked of it before is done.
    async fn written_down(&self) -> Vec<ToolCallView> {
        self.tools.store.tool_calls(self.session.id(), None, None, 2).await.expect("a store").0
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        3 => (0_u8..4, any::<bool>()).prop_map(|(lines, hang)| Step::Exec { lines, hang }),
        4 => (0_u8..4).prop_map(|millis| Step::Wait { millis }),
        2 => Just(Step::Kill),
        3 => (any::<bool>(), any::<bool>(), gone()).prop_map(|(kill, long, when)| Step::Gone { kill, long, when }),
        1 => Just(Step::Twice),
    ];
    prop::collection::vec((0_usize..2, step), 1..24)
}

fn gone() -> impl Strategy<Value = Gone> {
    (1..=Gone::MOST_TURNS, any::<bool>()).prop_map(|(turns, woken)| Gone { turns, woken })
}

/// The output in a text of the contract.
fn output_in(text: &str) -> &str {
    let after =
        text.split_once("output:\n").or_else(|| text.split_once("output so far:\n")).map_or("", |(_, after)| after);
    let after = after.strip_suffix(STILL).map_or(after, |after| after.strip_suffix('\n').unwrap_or(after));
    if after == "(nothing new)" { "" } else { after }
}

/// Each reader is given every byte of its commands exactly once and in order, and each command ends once, however calls
/// interleave, are made twice at once, or are given up.
#[test]
fn every_reader_gets_every_byte_once() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&steps(), |steps| {
        runtime.block_on(async {
            let stage = Stage::new().await;
            let mut told: [Vec<(CommandId, String)>; 2] = Default::default();
            let mut expected: [Vec<(CommandId, String)>; 2] = Default::default();
            let note_text =
                |told: &mut Vec<(CommandId, String)>, id: &Option<CommandId>, offset: Option<u64>, text: &str| {
                    let Some(id) = id.clone().filter(|_| offset.is_some()) else { return };
                    let output = output_in(text);
                    match told.iter_mut().find(|(known, _)| *known == id) {
                        Some((_, all)) => all.push_str(output),
                        None => told.push((id, output.to_owned())),
                    }
                };
            let note = |told: &mut Vec<(CommandId, String)>, answer: &ToolAnswer| {
                note_text(told, &answer.command_id, answer.offset, &answer.text);
            };
            for (nth, (who, step)) in steps.iter().enumerate() {
                let name = ["a", "b"][*who];
                match step {
                    Step::Exec { lines, hang } => {
                        let text =
                            (0..*lines).fold(String::new(), |text, line| text + &format!("{name}{nth}.{line}\n"));
                        let prints = text.lines().fold(String::new(), |prints, line| prints + "print " + line + "; ");
                        let end = if *hang { "hang" } else { "exit 3" };
                        let input = json!({"command": format!("{prints}{end}"), "timeout": 0.001});
                        let answer = stage.call_as(name, "shell_exec", input).await;
                        if !answer.text.starts_with("ERROR:") {
                            expected[*who].push((answer.command_id.clone().expect("an id"), text));
                        }
                        note(&mut told[*who], &answer);
                    }
                    Step::Wait { millis } => {
                        let input = json!({"timeout": f64::from(*millis) / 1000.0});
                        note(&mut told[*who], &stage.call_as(name, "shell_wait", input).await);
                    }
                    Step::Kill => note(&mut told[*who], &stage.call_as(name, "shell_kill", json!({})).await),
                    Step::Gone { kill, long, when } => {
                        let newest = stage.written_down().await.first().map_or(0, |call| call.id);
                        let (tool, input) = match (kill, long) {
                            (true, _) => ("shell_kill", json!({})),
                            (false, true) => ("shell_wait", json!({"timeout": 30})),
                            (false, false) => ("shell_wait", json!({"timeout": 0})),
                        };
                        let answer = when.before(stage.call_as(name, tool, input)).await;
                        let written: Vec<ToolCallView> =
                            stage.written_down().await.into_iter().filter(|call| call.id > newest).collect();
                        prop_assert!(written.len() <= 1, "one call is written down once: {written:?}");
                        if let Some(answer) = &answer {
                            prop_assert_eq!(written.first().map(|call| &call.text), Some(&answer.text));
                        }
                        // What a call waits for first is no answer yet.
                        prop_assert!(answer.is_some() || when.turns > 1 || written.is_empty(), "{written:?}");
                        // Given up before: nothing was taken. Else it is told, whether or not it arrived.
                        for call in &written {
                            note_text(&mut told[*who], &call.command_id, call.offset, &call.text);
                        }
                    }
                    Step::Twice => {
                        let (one, other) = tokio::join!(
                            stage.call_as(name, "shell_wait", json!({"timeout": 0.002})),
                            stage.call_as(name, "shell_wait", json!({"timeout": 0})),
                        );
                        let mut both = [one, other];
                        both.sort_by_key(|answer| answer.offset);
                        for answer in &both {
                            note(&mut told[*who], answer);
                        }
                    }
                }
            }
            // Whatever hangs is ended; then the rest of everything is read.
            for (who, name) in ["a", "b"].into_iter().enumerate() {
                for (id, text) in &expected[who] {
                    let command = stage.session.command(id).await.expect("it");
                    if !command.is_final() {
                        stage.wrote(id, text.len() as u64).await;
                        note(
                            &mut told[who],
                            &stage.call_as(name, "shell_kill", json!({"command_id": id.as_str()})).await,
                        );
                    }
                    let input = json!({"command_id": id.as_str(), "timeout": 30});
                    note(&mut told[who], &stage.call_as(name, "shell_wait", input).await);
                    prop_assert!(command.view().state.is_final());
                }
                for (id, text) in &expected[who] {
                    let all = told[who].iter().find(|(known, _)| known == id).map(|(_, all)| all.as_str());
                    prop_assert_eq!(all.unwrap_or_default(), text.as_str(), "{} of {}", id.as_str(), name);
                }
            }
            Ok(())
        })
    });
    checked.expect("the contract holds");
}

/// Calls are given up at each of their turns, by a reader of its own each, until both has been seen. How many turns one has
/// depends on how fast the store is.
#[tokio::test]
async fn an_answer_that_is_lost_on_its_way_is_written_down_and_can_be_read_again() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "print one"})).await;
    let input = json!({"command_id": begun.command_id.expect("an id").as_str()});
    let (told, first) = ("exit=0\noutput:\n", "exit=0\noutput:\none\n");
    let (mut nothing, mut lost) = (0, 0);
    let moments = (1..=Gone::MOST_TURNS).flat_map(|turns| [false, true].map(|woken| Gone { turns, woken }));
    for (nth, when) in moments.cycle().take(MOST_TRIES).enumerate() {
        if nothing > 0 && lost > 0 {
            break;
        }
        let reader = format!("reader {nth}");
        let newest = stage.written_down().await[0].id;
        if let Some(answer) = when.before(stage.call_as(&reader, "shell_wait", input.clone())).await {
            assert_eq!(answer.text, first);
            continue;
        }
        let written = stage.written_down().await.swap_remove(0);
        let again = stage.call_as(&reader, "shell_wait", input.clone()).await.text;
        if written.id == newest {
            nothing += 1;
            assert_eq!(again, first, "nothing was taken by a call that was given up at {when:?}");
            continue;
        }
        lost += 1;
        assert_eq!((written.text.as_str(), again.as_str()), (first, told), "it counts as told, at {when:?}");
        let mut input = input.clone();
        input["offset"] = written.offset.expect("where it began").into();
        let part = stage.call_as(&reader, "shell_output", input).await.text;
        assert_eq!(part, "bytes 0 to 4 of 4\noutput:\none\n");
    }
    assert!(nothing > 0 && lost > 0, "{nothing} took nothing, {lost} were lost");
}
