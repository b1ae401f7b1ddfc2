//! The contract as a property: whatever readers do at once, each is given every byte once.

use glassbox_shared::id::CommandId;
use glassbox_shared::tools::ToolAnswer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use super::{STILL, Stage};

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
    /// A wait whose client goes away before it is answered.
    GoneWait,
    Twice,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        3 => (0_u8..4, any::<bool>()).prop_map(|(lines, hang)| Step::Exec { lines, hang }),
        4 => (0_u8..4).prop_map(|millis| Step::Wait { millis }),
        2 => Just(Step::Kill),
        1 => Just(Step::GoneWait),
        1 => Just(Step::Twice),
    ];
    prop::collection::vec((0_usize..2, step), 1..24)
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
            let note = |told: &mut Vec<(CommandId, String)>, answer: &ToolAnswer| {
                let Some(id) = answer.command_id.clone().filter(|_| answer.offset.is_some()) else { return };
                let output = output_in(&answer.text);
                match told.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, all)) => all.push_str(output),
                    None => told.push((id, output.to_owned())),
                }
            };
            for (nth, (who, step)) in steps.iter().enumerate() {
                let name = ["a", "b"][*who];
                match step {
                    Step::Exec { lines, hang } => {
                        let text = (0..*lines).fold(String::new(), |text, line| text + &format!("{name}{nth}.{line}\n"));
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
                    Step::GoneWait => {
                        let wait = stage.call_as(name, "shell_wait", json!({"timeout": 30}));
                        // Given up at its first wait: nothing was answered, so nothing may be taken away.
                        tokio::select! { biased; answer = wait => note(&mut told[*who], &answer), () = tokio::task::yield_now() => {} }
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
                        note(&mut told[who], &stage.call_as(name, "shell_kill", json!({"command_id": id.as_str()})).await);
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
