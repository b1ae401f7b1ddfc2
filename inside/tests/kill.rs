//! A kill ends everything that belongs to the command, and says truly what was needed and what is left.

mod common;

use std::time::{Duration, Instant};

use common::{
    Helper, KILL, TERM, assert_none_left, eventually, is_alive, processes_with, run, script, signal, unique_sleep,
};
use glassbox_shared::helper::{EndCause, Ended, ExitStatus};

const GRACE: Duration = Duration::from_millis(500);

fn assert_killed(ended: &Ended, status: ExitStatus, last_signal: i32) {
    assert_eq!((ended.status, ended.cause, ended.signal), (status, EndCause::Kill, last_signal), "{ended:?}");
    assert!(ended.survivors.is_empty(), "{ended:?}");
}

#[test]
fn a_process_that_obeys_ends_by_term_without_waiting_for_the_grace() {
    let mut helper = run("echo ready; exec sleep 1000");
    helper.wait_for_text("ready");
    let began = Instant::now();
    helper.kill_after(common::DEADLINE);
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(TERM), TERM);
    assert!(began.elapsed() < common::DEADLINE / 2);
}

#[test]
fn last_words_after_term_arrive() {
    let mut helper = run("trap 'echo cleaning up; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
    helper.wait_for_text("ready");
    helper.kill_after(common::DEADLINE);
    assert_killed(&helper.wait_for_close(), ExitStatus::Code(5), TERM);
    assert!(helper.text().ends_with(b"cleaning up\n"));
}

#[test]
fn term_comes_once() {
    let mut helper = run("trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done");
    helper.wait_for_text("ready");
    helper.kill_after(Duration::from_secs(1));
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
    let text = String::from_utf8_lossy(&helper.text()).into_owned();
    assert_eq!(text.matches("term\n").count(), 1, "{text}");
}

#[test]
fn a_process_that_ignores_term_ends_by_kill_after_the_grace() {
    let mut helper = run("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    helper.wait_for_text("ready");
    helper.kill_after(GRACE);
    let ended = helper.wait_for_close();
    assert_killed(&ended, ExitStatus::Signal(KILL), KILL);
    assert!(ended.took_ms >= GRACE.as_millis() as u64);
    assert!(helper.ran_ms >= Some(GRACE.as_millis() as u64), "{:?}", helper.ran_ms);
}

#[test]
fn no_grace_means_kill_at_once() {
    let mut helper = run("trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done");
    helper.wait_for_text("ready");
    helper.kill_after(Duration::ZERO);
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
    assert_eq!(helper.text(), b"ready\n");
}

#[test]
fn a_second_kill_can_only_shorten_the_grace() {
    let mut helper = run("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    helper.wait_for_text("ready");
    helper.kill_after(common::DEADLINE * 10);
    helper.kill_after(Duration::from_millis(200));
    helper.kill_after(common::DEADLINE * 10);
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
}

#[test]
fn a_kill_that_comes_too_late_changes_nothing() {
    for _ in 0..50 {
        let mut helper = run("exit 3");
        eventually("it ended", || !is_alive(helper.pid));
        // It may have left already.
        let kill = glassbox_shared::helper::ToHelper::Kill { grace_ms: 0 }.encode();
        let _ = helper.try_say_bytes(&kill);
        assert_eq!(helper.wait_for_close(), common::own_end(ExitStatus::Code(3)));
    }
}

#[test]
fn a_stopped_process_can_be_killed() {
    let mut helper = run("echo ready; exec sleep 1000");
    helper.wait_for_text("ready");
    signal(helper.pid, common::STOP);
    eventually("it is stopped", || common::state(helper.pid) == Some('T'));
    helper.kill_after(common::DEADLINE);
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(TERM), TERM);
}

#[test]
fn nothing_escapes_by_sessions_environments_or_parents() {
    let seconds = unique_sleep();
    let mut helper = run(&format!(
        "setsid nohup sleep {seconds} >/dev/null 2>&1 &
         env -i setsid sleep {seconds} >/dev/null 2>&1 &
         (setsid bash -c '(sleep {seconds} >/dev/null 2>&1 &) &' &)
         (env -i setsid setsid bash -c 'exec -a disguise sleep {seconds} >/dev/null 2>&1' &)
         sh -c 'trap \"\" TERM HUP INT; sleep {seconds}' &
         sleep {seconds} | cat &
         while :; do sleep 0.1; done"
    ));
    // Six sleeps; one of them named differently. The scripts' own texts are in the command lines of the shells as well.
    let sleeps = || {
        processes_with(&seconds)
            .into_iter()
            .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n"))
            .count()
    };
    eventually("all six sleep", || sleeps() == 6);
    helper.kill_after(GRACE);
    let ended = helper.wait_for_close();
    assert_killed(&ended, ExitStatus::Signal(TERM), KILL);
    assert_none_left(&seconds);
}

#[test]
fn a_tree_of_50_processes_that_ignore_term_and_still_fork_is_ended() {
    let seconds = unique_sleep();
    let mut helper = run(&format!(
        "trap '' TERM
         tree() {{
           if [ $1 -gt 0 ]; then tree $(($1 - 1)) & tree $(($1 - 1)) & fi
           echo node
           while :; do sleep 0.0{seconds} & wait; done
         }}
         tree 5"
    ));
    helper
        .wait_until("the tree stands", |helper| String::from_utf8_lossy(&helper.text()).matches("node").count() == 63);
    helper.kill_after(GRACE);
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
    assert_none_left(&seconds);
}

/// Every process starts its successor in a session of its own and ends: no look at the table is ever up to date.
#[test]
fn a_chain_of_processes_that_replace_each_other_is_ended() {
    let word = format!("chain{}", common::random());
    let mut helper = run(&format!(
        "export STEP='trap \"\" TERM; echo step; sleep 0.01; setsid bash -c \"$STEP\" {word} & exit'
         bash -c \"$STEP\" {word}; sleep 1000"
    ));
    helper.wait_until("it runs away", |helper| helper.output.len() > 10);
    helper.kill_after(Duration::from_millis(200));
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(TERM), KILL);
    assert_none_left(&word);
}

#[test]
fn a_fork_bomb_within_limits_is_ended() {
    let word = format!("bomb{}", common::random());
    // Whenever there are fewer than 120, each makes another: the dead are replaced at once.
    let mut helper = run(&format!(
        "trap '' TERM
         bomb() {{ : {word}; echo boom; while :; do
             if [ $(ps -o pid= -s $$ | wc -l) -lt 120 ]; then bomb & fi; sleep 0.0$RANDOM
         done; }}
         bomb"
    ));
    helper.wait_until("it grew", |helper| String::from_utf8_lossy(&helper.text()).matches("boom").count() > 40);
    helper.kill_after(Duration::from_millis(100));
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
    assert_none_left(&word);
}

#[test]
fn a_process_that_hides_as_a_zombie_is_ended() {
    // Its first thread ends, another goes on: the process table says Z.
    let program = "import threading, time, ctypes
threading.Thread(target=lambda: time.sleep(1000)).start()
print('hidden', flush=True)
ctypes.CDLL(None).syscall(60, 0)";
    if !std::process::Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("no python3 here: not tried");
        return;
    }
    let mut helper = run(&format!("trap '' TERM\npython3 -c \"{program}\" & echo pid $!; wait"));
    helper.wait_for_text("hidden");
    helper.wait_for_text("pid ");
    let pid = helper.pids_after("pid ")[0];
    eventually("it looks like a zombie", || common::state(pid) == Some('Z'));
    helper.kill_after(Duration::from_millis(100));
    assert_killed(&helper.wait_for_close(), ExitStatus::Signal(KILL), KILL);
    assert!(!std::path::Path::new(&format!("/proc/{pid}/task")).read_dir().is_ok_and(|threads| threads.count() > 1));
}

#[test]
fn the_limit_ends_a_command_like_a_kill() {
    let mut start = script("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    start.limit_ms = 300;
    start.grace_ms = 200;
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    let ended = helper.wait_for_close();
    assert_eq!((ended.status, ended.cause, ended.signal), (ExitStatus::Signal(KILL), EndCause::Limit, KILL));
    assert!(ended.survivors.is_empty() && ended.took_ms >= 200);
    assert!(helper.ran_ms >= Some(500), "the limit and the grace: {:?}", helper.ran_ms);
}

#[test]
fn the_limit_is_not_for_what_a_command_left_behind() {
    let mut start = script("(sleep 1.5; echo still here) &");
    start.limit_ms = 1_000;
    let mut helper = Helper::begin(&start);
    helper.listen();
    helper.expect_started();
    let ended = helper.wait_for_close();
    // On a machine so slow that the shell needs a second there is nothing to see.
    if ended.cause == EndCause::Own {
        assert_eq!(helper.text(), b"still here\n");
    }
}

#[test]
fn a_kill_does_not_wait_for_a_reader_that_is_stuck() {
    let word = format!("stuck{}", common::random());
    let mut helper = Helper::begin(&script(&format!("trap '' TERM; while :; do yes {word}; done")));
    // Nobody reads: 256 KiB in the helper, and what the pipes on both sides of it hold, then everything stands still.
    // One that waits for a moment only has had another turn at one of the next looks.
    let (mut before, mut as_before) = (Vec::new(), 0);
    let is_blocked = || {
        let pids = processes_with(&word);
        let asleep = pids.len() == 2 && pids.iter().all(|pid| common::state(*pid) == Some('S'));
        let turns: Vec<_> = pids.iter().map(|pid| common::turns(*pid)).collect();
        as_before = if asleep && turns == before { as_before + 1 } else { 0 };
        before = turns;
        as_before == 20
    };
    eventually("the command waits for its reader", is_blocked);
    helper.kill_after(GRACE);
    eventually("all is ended although nobody read a byte", || processes_with(&word).is_empty());
    helper.listen();
    helper.expect_started();
    let ended = helper.wait_for_close();
    assert_killed(&ended, ExitStatus::Signal(KILL), KILL);
    assert!(ended.took_ms < 30_000);
    // Not more: how much the pipes hold is the system's to say. A user who has many gets small ones.
    assert!(helper.text().len() > 256 * 1024);
}

#[test]
fn a_kill_spares_the_helper_of_another_command_and_its_processes() {
    let mut other = run("echo ready; sleep 1000");
    other.wait_for_text("ready");
    let mut helper = run("echo ready; sleep 1000");
    helper.wait_for_text("ready");
    helper.kill_after(GRACE);
    helper.wait_for_close();
    assert!(is_alive(other.helper_pid()) && is_alive(other.pid));
    other.kill_after(GRACE);
    assert_killed(&other.wait_for_close(), ExitStatus::Signal(TERM), TERM);
}

#[test]
fn signals_from_the_sandbox_do_not_end_the_helper() {
    let mut helper =
        run("for s in HUP INT QUIT TERM USR1 PIPE ALRM CHLD TSTP; do kill -$s $PPID; done; sleep 0.2; echo alive");
    assert_eq!(helper.wait_for_close(), common::own_end(ExitStatus::Code(0)));
    assert_eq!(helper.text(), b"alive\n");
}
