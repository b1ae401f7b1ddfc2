//! A sweep ends what is left of a command, whatever became of its helper, and touches nothing else.

mod common;

use common::{
    Helper, KILL, STOP, assert_none_left, eventually, is_alive, processes_with, run, signal, sweep, unique_sleep,
};
use glassbox_shared::helper::{EndCause, Ended, ExitStatus};

fn assert_clean(ended: &Ended) {
    assert_eq!((ended.status, ended.cause, ended.signal), (ExitStatus::Unknown, EndCause::Kill, KILL));
    assert!(ended.survivors.is_empty() && ended.ran_ms.is_none(), "{ended:?}");
}

/// A shell that ignores TERM, a daemon of it, and one that threw the mark away.
fn tree(seconds: &str) -> Helper {
    let mut helper = run(&format!(
        "trap '' TERM; setsid nohup sleep {seconds} >/dev/null 2>&1 & env -i setsid sleep {seconds} >/dev/null 2>&1 &
         echo armed; while :; do sleep 0.1; done"
    ));
    helper.wait_for_text("armed");
    eventually("the daemons run", || processes_with(&format!("sleep\0{seconds}")).len() == 2);
    helper
}

#[test]
fn nothing_there_is_a_success() {
    assert_clean(&sweep(&common::command_id()));
}

#[test]
fn a_helper_at_work_is_ended_with_its_tree() {
    let seconds = unique_sleep();
    let mut helper = tree(&seconds);
    assert_clean(&sweep(&helper.id));
    assert_none_left(&seconds);
    helper.wait_for_leave();
}

#[test]
fn a_stopped_helper_is_ended_with_its_tree() {
    let seconds = unique_sleep();
    let mut helper = tree(&seconds);
    signal(helper.helper_pid(), STOP);
    assert_clean(&sweep(&helper.id));
    assert_none_left(&seconds);
    assert_eq!(helper.wait_for_leave(), None, "it ended by a signal");
}

#[test]
fn the_tree_of_a_dead_helper_is_ended() {
    let seconds = unique_sleep();
    let mut helper = run(&format!(
        "setsid nohup sleep {seconds} >/dev/null 2>&1 & (trap '' TERM; echo armed; env -i sleep {seconds}) & wait"
    ));
    helper.wait_for_text("armed");
    eventually("all run", || processes_with(&format!("sleep\0{seconds}")).len() == 2);
    signal(helper.helper_pid(), KILL);
    helper.wait_for_leave();
    assert!(!processes_with(&seconds).is_empty());
    assert_clean(&sweep(&helper.id));
    assert_none_left(&seconds);
}

#[test]
fn another_command_is_not_touched() {
    let (seconds, others) = (unique_sleep(), unique_sleep());
    let helper = tree(&seconds);
    let mut other = tree(&others);
    assert_clean(&sweep(&helper.id));
    assert_none_left(&seconds);
    assert!(is_alive(other.helper_pid()) && is_alive(other.pid));
    assert_eq!(processes_with(&format!("sleep\0{others}")).len(), 2);
    other.kill_after(std::time::Duration::ZERO);
    other.wait_for_close();
}

#[test]
fn a_sweep_does_its_work_before_it_asks_for_the_tag_and_says_nothing_without_one() {
    let seconds = unique_sleep();
    let mut helper = tree(&seconds);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_glassbox-inside"))
        .args(["sweep", &helper.id])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it was built");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert_none_left(&seconds);
    helper.wait_for_leave();
}

#[test]
fn a_command_that_sweeps_itself_ends_itself_and_the_sweep_is_no_victim_of_its_own() {
    let program = env!("CARGO_BIN_EXE_glassbox-inside");
    let mut helper = run(&format!("{program} sweep $GLASSBOX_COMMAND < /dev/null; echo not reached"));
    helper.wait_for_leave();
    eventually("the sweep is over", || processes_with(&helper.id).is_empty());
    assert!(!is_alive(helper.pid));
}
