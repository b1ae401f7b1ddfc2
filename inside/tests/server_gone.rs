//! Without its server, or spoken to in nonsense, the helper ends the command and leaves.

mod common;

use std::time::Duration;

use common::{DEADLINE, Helper, assert_none_left, eventually, processes_with, run, script, unique_sleep};
use glassbox_shared::helper::{FromHelper, ToHelper};

/// A tree with a daemon and someone who ignores TERM; waits until it stands.
fn stubborn_tree(seconds: &str) -> Helper {
    let mut helper = run(&format!(
        "setsid nohup sleep {seconds} >/dev/null 2>&1 & (trap '' TERM; echo armed; exec sleep {seconds}) & wait"
    ));
    helper.wait_for_text("armed");
    eventually("the daemon runs", || processes_with(seconds).len() >= 3);
    helper
}

fn assert_all_is_over(helper: &mut Helper, seconds: &str) {
    helper.wait_for_leave();
    assert_none_left(seconds);
}

#[test]
fn the_end_of_stdin_ends_everything() {
    let seconds = unique_sleep();
    let mut helper = stubborn_tree(&seconds);
    helper.close_stdin();
    assert_all_is_over(&mut helper, &seconds);
}

#[test]
fn the_end_of_stdin_ends_what_a_command_left_behind() {
    let seconds = unique_sleep();
    let mut helper = run(&format!("sleep {seconds} &"));
    helper.wait_for_end();
    helper.close_stdin();
    assert_all_is_over(&mut helper, &seconds);
}

#[test]
fn the_end_of_stdin_counts_even_when_nobody_reads() {
    let word = format!("unread{}", common::random());
    let mut helper = Helper::begin(&script(&format!("yes {word}")));
    eventually("it runs", || !processes_with(&word).is_empty());
    helper.close_stdin();
    assert_all_is_over(&mut helper, &word);
}

#[test]
fn a_reader_that_left_is_a_server_that_is_gone() {
    let word = format!("broken{}", common::random());
    let mut helper = Helper::begin(&script(&format!("yes {word}")));
    eventually("it runs", || !processes_with(&word).is_empty());
    helper.close_stdout();
    assert_all_is_over(&mut helper, &word);
}

#[test]
fn a_reader_that_left_is_noticed_even_when_nothing_is_written() {
    let seconds = unique_sleep();
    let mut helper = Helper::begin(&script(&format!("sleep {seconds}")));
    eventually("it runs", || !processes_with(&seconds).is_empty());
    helper.close_stdout();
    assert_all_is_over(&mut helper, &seconds);
}

#[test]
fn the_end_of_stdin_shortens_a_patient_kill() {
    let seconds = unique_sleep();
    let mut helper = stubborn_tree(&seconds);
    helper.kill_after(DEADLINE * 10);
    helper.close_stdin();
    assert_all_is_over(&mut helper, &seconds);
}

#[test]
fn nonsense_after_the_start_ends_everything() {
    let long = u32::MAX.to_le_bytes().to_vec();
    let unknown = [1, 0, 0, 0, 200].to_vec();
    let from_the_helper = FromHelper::OutputClosed.encode(1);
    let second_start = ToHelper::Start(Box::new(script("true"))).encode();
    for nonsense in [long, unknown, from_the_helper, second_start, vec![0; 4]] {
        let seconds = unique_sleep();
        let mut helper = stubborn_tree(&seconds);
        helper.say_bytes(&nonsense);
        assert_all_is_over(&mut helper, &seconds);
    }
}

#[test]
fn nonsense_instead_of_a_start_makes_the_helper_leave_without_a_word() {
    for nonsense in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), ToHelper::Kill { grace_ms: 0 }.encode(), vec![255; 64]] {
        let mut helper = Helper::spawn();
        helper.listen();
        helper.say_bytes(&nonsense);
        assert_eq!(helper.next(DEADLINE), None);
        assert_eq!(helper.wait_for_leave(), Some(2));
    }
}

#[test]
fn a_server_that_is_gone_before_the_start_leaves_nothing() {
    let mut helper = Helper::spawn();
    helper.listen();
    let start = ToHelper::Start(Box::new(script("true"))).encode();
    helper.say_bytes(&start[..start.len() / 2]);
    helper.close_stdin();
    assert_eq!(helper.next(DEADLINE), None);
    assert_eq!(helper.wait_for_leave(), Some(2));
}

#[test]
fn frames_may_come_in_any_pieces_and_all_at_once() {
    let start = script("trap '' TERM; echo armed; sleep 1000");
    let mut helper = Helper::spawn_for(&start);
    for byte in ToHelper::Start(Box::new(start)).encode() {
        helper.say_bytes(&[byte]);
    }
    helper.listen();
    helper.expect_started();
    helper.kill_after(Duration::ZERO);
    helper.wait_for_close();

    let start = script("sleep 1000");
    let mut helper = Helper::spawn_for(&start);
    let mut bytes = ToHelper::Start(Box::new(start)).encode();
    bytes.extend(ToHelper::Kill { grace_ms: 1_000 }.encode());
    helper.say_bytes(&bytes);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
}
