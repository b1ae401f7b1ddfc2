//! The end of a command and the end of its output are two events.

mod common;

use std::time::Duration;

use common::{eventually, is_alive, own_end, processes_with, run, run_to_end, unique_sleep};
use glassbox_shared::helper::{ExitStatus, ToHelper};

#[test]
fn a_background_child_holds_the_output_open_but_not_the_command() {
    let mut helper = run("sleep 1000 & echo done $!");
    assert_eq!(helper.wait_for_end(), own_end(ExitStatus::Code(0)));
    let child = helper.pids_after("done ")[0];
    assert!(is_alive(child) && !helper.is_output_closed);
    common::signal(child, common::KILL);
    helper.wait_for_close();
}

#[test]
fn what_a_background_child_writes_later_still_arrives() {
    let mut helper = run("(read -r _ < <(sleep 1); echo later) & echo now");
    helper.wait_for_end();
    assert_eq!(helper.text(), b"now\n");
    helper.wait_for_close();
    assert_eq!(helper.text(), b"now\nlater\n");
}

#[test]
fn a_background_child_that_closed_its_output_lives_on_after_the_helper_left() {
    let seconds = unique_sleep();
    let helper = run_to_end(&format!("setsid sleep {seconds} >/dev/null 2>&1 & echo done"));
    assert_eq!(helper.ended, Some(own_end(ExitStatus::Code(0))));
    eventually("the daemon runs", || processes_with(&seconds).len() == 1);
    let ended = common::sweep(&helper.id);
    assert!(ended.survivors.is_empty());
    assert!(processes_with(&seconds).is_empty());
}

#[test]
fn a_command_may_close_its_output_and_go_on() {
    let mut helper = run("echo closing; exec >/dev/null 2>&1; read -r _ < <(sleep 1); exit 4");
    assert_eq!(helper.wait_for_close(), own_end(ExitStatus::Code(4)));
    assert_eq!(helper.text(), b"closing\n");
}

#[test]
fn a_kill_after_the_end_ends_what_was_left_behind() {
    let seconds = unique_sleep();
    let mut helper = run(&format!(
        "setsid sleep {seconds} & sleep {seconds} & (trap '' TERM; echo armed; exec sleep {seconds}) & exit 0"
    ));
    helper.wait_for_text("armed");
    assert_eq!(helper.wait_for_end(), own_end(ExitStatus::Code(0)));
    helper.kill_after(Duration::from_millis(100));
    assert_eq!(helper.wait_for_close(), own_end(ExitStatus::Code(0)));
    assert!(processes_with(&seconds).is_empty());
}

#[test]
fn a_signal_after_the_end_goes_nowhere() {
    let mut helper = run("(trap 'echo hit' USR1; echo armed; while :; do sleep 0.05; done) & sleep 0.1");
    helper.wait_for_text("armed");
    helper.wait_for_end();
    helper.say(&ToHelper::Signal(10));
    helper.kill_after(Duration::ZERO);
    helper.wait_for_close();
    assert!(!String::from_utf8_lossy(&helper.text()).contains("hit"));
}
