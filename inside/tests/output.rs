//! Every byte that a command writes arrives, in order, on the right channel, before the news of its end.

mod common;

use std::time::Duration;

use common::{Helper, run, run_to_end, script};
use glassbox_shared::helper::{Channel, ExitStatus};

#[test]
fn output_without_a_last_newline_is_whole() {
    let helper = run_to_end("printf 'a\\nb'");
    assert_eq!(helper.text(), b"a\nb");
    assert_eq!(helper.ended.as_ref().map(|ended| ended.status), Some(ExitStatus::Code(0)));
}

#[test]
fn a_command_may_write_nothing() {
    let helper = run_to_end("true");
    assert!(helper.output.is_empty());
}

#[test]
fn one_line_of_10_mb_is_whole() {
    let helper = run_to_end("head -c 10000000 /dev/zero | tr '\\0' x");
    let text = helper.text();
    assert_eq!(text.len(), 10_000_000);
    assert!(text.iter().all(|byte| *byte == b'x'));
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let helper = run_to_end("printf '\\000\\377\\303\\050\\r\\033[31m\\x80'");
    assert_eq!(helper.text(), b"\x00\xff\xc3\x28\r\x1b[31m\x80");
}

#[test]
fn merged_output_keeps_the_order_of_the_writes() {
    let helper = run_to_end("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done");
    let lines: Vec<String> = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(helper.text(), lines.concat().as_bytes());
    assert!(helper.output.iter().all(|(channel, _)| *channel == Channel::Merged));
}

#[test]
fn split_output_keeps_the_channels_apart() {
    let mut start = script("for i in 1 2 3; do echo out $i; echo err $i >&2; done");
    start.split = true;
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    assert_eq!(helper.text_of(Channel::Stdout), b"out 1\nout 2\nout 3\n");
    assert_eq!(helper.text_of(Channel::Stderr), b"err 1\nerr 2\nerr 3\n");
    assert!(helper.text_of(Channel::Merged).is_empty());
}

#[test]
fn all_that_a_process_wrote_comes_before_the_news_of_its_end() {
    let runs = if std::env::var_os("GLASSBOX_TEST_LONG").is_some() { 5_000 } else { 500 };
    for i in 0..runs {
        let code = i % 256;
        let mut helper = run(&format!("printf x{i}; exit {code}"));
        let ended = helper.wait_for_end();
        assert_eq!(ended, common::own_end(ExitStatus::Code(code)));
        assert_eq!(helper.text(), format!("x{i}").as_bytes(), "run {i}");
        helper.wait_for_close();
        assert_eq!(helper.text(), format!("x{i}").as_bytes(), "run {i}");
    }
}

#[test]
fn a_full_pipe_at_the_end_is_read_before_the_news_of_the_end() {
    // Fits into the pipe, so that the process can end long before anything is read.
    let mut helper = Helper::begin(&script("head -c 65536 /dev/zero"));
    common::eventually("the command has ended", || common::processes_with(&helper.id).len() == 1);
    helper.listen();
    helper.expect_started();
    helper.wait_for_end();
    assert_eq!(helper.text().len(), 65536);
}

#[test]
fn a_child_that_writes_without_end_does_not_delay_the_news_of_the_end() {
    let mut helper = run("yes & echo started >&2");
    helper.wait_for_end();
    helper.kill_after(Duration::ZERO);
    let ended = helper.wait_for_close();
    assert_eq!(ended, common::own_end(ExitStatus::Code(0)));
}

#[test]
fn a_slow_reader_gets_everything() {
    let mut helper = Helper::begin(&script("head -c 5000000 /dev/zero; echo end"));
    // The helper holds 1 MiB, its stdout and the command's pipe 64 KiB each: the command waits for us.
    common::eventually("the command waits", || {
        let children = common::processes_with("head\0-c\x005000000");
        children.iter().any(|pid| common::state(*pid) == Some('S'))
    });
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    let text = helper.text();
    assert_eq!(text.len(), 5_000_004);
    assert!(text.ends_with(b"end\n"));
}

#[test]
fn a_command_sees_no_stdin_and_none_of_the_helpers_descriptors() {
    let helper = run_to_end(
        "cat; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; [ /proc/self/fd/1 -ef /proc/self/fd/2 ] && echo merged",
    );
    // ls itself has the folder open.
    assert_eq!(String::from_utf8_lossy(&helper.text()), "/dev/null\n4\nmerged\n");
}
