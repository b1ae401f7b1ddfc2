//! How commands start and end by themselves.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{DEADLINE, Helper, own_end, run, run_to_end, script};
use glassbox_shared::helper::{ExitStatus, FromHelper, Start, TerminalSize, ToHelper};

fn refusal(start: &Start) -> String {
    let mut helper = Helper::begin(start);
    helper.listen();
    let Some(FromHelper::FailedToStart { message }) = helper.next(DEADLINE) else { panic!("it started") };
    assert_eq!(helper.next(DEADLINE), None, "nothing comes after");
    assert_eq!(helper.wait_for_leave(), Some(0));
    message
}

#[test]
fn exit_codes_are_told_as_they_are() {
    for code in [0, 1, 7, 126, 127, 255] {
        assert_eq!(run_to_end(&format!("exit {code}")).ended, Some(own_end(ExitStatus::Code(code))));
    }
    assert_eq!(run_to_end("no-such-program").ended, Some(own_end(ExitStatus::Code(127))));
}

#[test]
fn how_long_a_command_ran_is_told_without_what_it_left_behind() {
    let began = Instant::now();
    let mut helper = run("sleep 1000 & sleep 0.3");
    helper.wait_for_end();
    let ran = Duration::from_millis(helper.ran_ms.expect("it was seen to end"));
    assert!(ran >= Duration::from_millis(300) && ran <= began.elapsed(), "{ran:?}");
    helper.kill_after(Duration::ZERO);
    helper.wait_for_close();
}

#[test]
fn a_signal_from_elsewhere_is_an_end_of_its_own() {
    for number in [1, 6, 9, 11, 15] {
        assert_eq!(run_to_end(&format!("kill -{number} $$")).ended, Some(own_end(ExitStatus::Signal(number))));
    }
}

#[test]
fn a_signal_from_the_server_reaches_the_process_group() {
    // The child gets it as well: without that the shell would wait a thousand seconds before it runs its trap.
    let mut helper = run("trap 'echo got it; exit 3' INT; echo ready; sleep 1000; echo not reached");
    helper.wait_for_text("ready");
    common::eventually("the child runs", || helper.has_child_named("sleep"));
    helper.say(&ToHelper::Signal(2));
    assert_eq!(helper.wait_for_close(), own_end(ExitStatus::Code(3)));
    assert_eq!(helper.text(), b"ready\ngot it\n");
}

#[test]
fn a_signal_that_does_not_exist_does_nothing() {
    let mut helper = run("sleep 1000");
    for number in [0, -1, 65, i32::MIN, i32::MAX] {
        helper.say(&ToHelper::Signal(number));
    }
    helper.say(&ToHelper::Signal(15));
    assert_eq!(helper.wait_for_close(), own_end(ExitStatus::Signal(15)));
}

#[test]
fn signals_are_at_their_defaults_and_none_is_blocked() {
    // cat catches no signals itself.
    let helper = run_to_end("exec cat /proc/self/status");
    let status = String::from_utf8_lossy(&helper.text()).replace('\t', " ");
    for set in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = status.lines().find(|line| line.starts_with(set));
        assert_eq!(line, Some(format!("{set}: 0000000000000000").as_str()));
    }
}

#[test]
fn a_command_leads_its_own_session() {
    let mut helper = run("ps -o pid=,pgid=,sid= -p $$");
    helper.wait_for_close();
    let text = String::from_utf8(helper.text()).expect("digits");
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), [helper.pid.to_string().as_str(); 3]);
}

#[test]
fn the_environment_is_the_helpers_and_the_servers_and_the_mark() {
    let mut start = script("echo \"$HOME|$COLOUR|$GLASSBOX_COMMAND\"");
    start.env.insert("COLOUR".to_owned(), "a\nb \"c\" $d".to_owned());
    start.env.insert("GLASSBOX_COMMAND".to_owned(), "another".to_owned());
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&helper.text()), format!("{home}|a\nb \"c\" $d|{}\n", helper.id));
}

#[test]
fn arguments_are_never_read_by_a_shell() {
    let mut start = script("");
    start.argv = ["printf", "%s|", "$HOME", "a b", "", "`id`", "'"].map(str::to_owned).to_vec();
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    assert_eq!(helper.text(), b"$HOME|a b||`id`|'|");
}

#[test]
fn a_working_directory_is_used_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("it is there");
    let mut start = script("pwd");
    start.cwd = Some(path.display().to_string());
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    assert_eq!(String::from_utf8_lossy(&helper.text()), format!("{}\n", path.display()));

    start.cwd = Some("/no/such/folder".to_owned());
    assert_eq!(refusal(&start), "the working directory /no/such/folder does not exist");
    start.cwd = Some("/etc/passwd".to_owned());
    assert_eq!(refusal(&start), "the working directory /etc/passwd is not a directory");
    start.cwd = Some("/a\0b".to_owned());
    assert!(refusal(&start).starts_with("the working directory"));
}

#[test]
fn what_cannot_be_started_is_named_with_the_reason() {
    let mut start = script("");
    start.argv[0] = "no-such-shell".to_owned();
    assert_eq!(refusal(&start), "no-such-shell: No such file or directory");
    start.argv[0] = "/no/such/shell".to_owned();
    assert_eq!(refusal(&start), "/no/such/shell: No such file or directory");
    start.argv[0] = "/etc".to_owned();
    assert_eq!(refusal(&start), "/etc: Permission denied");
    start.argv[0] = "\u{1b}[31mred".to_owned();
    assert_eq!(refusal(&start), "red: No such file or directory");
    start.argv[0] = String::new();
    assert_eq!(refusal(&start), ": No such file or directory");
    start.argv.clear();
    assert_eq!(refusal(&start), "there is no program to run");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("no-format");
    std::fs::write(&file, "just text").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("ours");
    start.argv = vec![file.display().to_string()];
    assert_eq!(refusal(&start), format!("{}: Exec format error", file.display()));

    let mut start = script("");
    start.argv[2] = "a\0b".to_owned();
    assert_eq!(refusal(&start), "an argument holds a NUL byte, which no program can be given");
    let mut start = script("");
    start.argv[2] = "x".repeat(200_000);
    assert_eq!(refusal(&start), "bash: Argument list too long");
    let mut start = script("");
    start.env.insert("A=B".to_owned(), String::new());
    assert_eq!(refusal(&start), "\"A=B\" cannot be the name of an environment variable");
}

#[test]
fn a_program_is_looked_for_in_the_path_that_the_command_gets() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("greet");
    std::fs::write(&file, "#!/bin/sh\necho hello\n").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let mut start = script("");
    start.argv = vec!["greet".to_owned()];
    start.env.insert("PATH".to_owned(), format!("/nowhere:relative:{}", folder.path().display()));
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    helper.wait_for_close();
    assert_eq!(helper.text(), b"hello\n");
}

#[test]
fn what_is_not_built_yet_is_refused_and_not_ignored() {
    let mut start = script("true");
    start.stdin = true;
    assert_eq!(refusal(&start), "input for commands is not supported yet");
    let mut start = script("true");
    start.terminal = Some(TerminalSize { rows: 24, columns: 80 });
    assert_eq!(refusal(&start), "terminals are not supported yet");
}
