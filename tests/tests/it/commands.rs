//! Commands: what they write, how they end, and what of them lives on.

use std::collections::BTreeMap;
use std::time::Duration;

use glassbox_shared::command::{CommandState, RunCommand};
use glassbox_tests::{TestServer, eventually, hardened, hold, open, seq};

/// Long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_mins(1);

fn text(command: &str) -> RunCommand {
    RunCommand { command: command.to_owned(), ..RunCommand::default() }
}

// Case 1.
#[tokio::test]
async fn output_without_a_last_newline_arrives_whole_and_so_does_one_line_of_ten_megabytes() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    assert_eq!(session.finish("printf 'no newline'").await.output.bytes, b"no newline");

    let long = session.finish("head -c 10000000 /dev/zero | tr '\\0' x").await;
    assert_eq!(long.exit_code(), Some(0));
    assert_eq!(long.output.bytes.len(), 10_000_000);
    assert!(long.output.bytes.iter().all(|byte| *byte == b'x'));
    assert!(long.output.gaps.is_empty() && long.view.output_complete);
}

// Case 2.
#[tokio::test]
async fn progress_bars_and_blank_lines_are_delivered_as_written_when_written() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    for split in [false, true] {
        let go = format!("go-{split}");
        let command = format!("printf ' 10%%\\r 50%%\\r\\n\\n\\n'; {}; printf '100%%\\r'", hold(&go));
        let command = session.run_with(RunCommand { split, ..text(&command) }).await;
        let early = command.wrote(" 50%\r\n\n\n").await;
        assert_eq!(early.bytes, b" 10%\r 50%\r\n\n\n");
        assert_eq!(command.view().await.state, CommandState::Running, "it was delivered before the end");
        session.release(&go).await;
        assert_eq!(command.finish().await.output.bytes, b" 10%\r 50%\r\n\n\n100%\r");
    }
}

// Case 3.
#[tokio::test]
async fn a_character_that_is_written_in_two_pieces_is_not_lost_or_replaced_on_either_stream() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    for (number, (split, stream)) in [(false, 1), (false, 2), (true, 1), (true, 2)].into_iter().enumerate() {
        let go = format!("go-{number}");
        let command = format!("printf '\\xf0\\x9f' >&{stream}; {}; printf '\\x98\\x80' >&{stream}", hold(&go));
        let command = session.run_with(RunCommand { split, ..text(&command) }).await;
        let half = eventually("the first half arrives", SOON, async || {
            Some(command.view().await).filter(|view| view.output_bytes > 0)
        })
        .await;
        assert_eq!(half.output_bytes, 2, "split {split}, stream {stream}");
        session.release(&go).await;
        assert_eq!(command.finish().await.output.bytes, "😀".as_bytes(), "split {split}, stream {stream}");
    }
}

// Case 5.
#[tokio::test]
async fn the_end_is_announced_after_the_last_byte_that_the_command_wrote() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let expected = seq(1, 20_000);
    for run in 0..10 {
        let command = session.run_with(RunCommand { split: run % 2 == 1, ..text("seq 1 20000; exit 3") }).await;
        let ended = command.ended().await;
        assert_eq!(ended.state, CommandState::Exited { code: 3 });
        assert_eq!(ended.output_bytes, expected.len() as u64, "run {run}: all of it is there when the end is told");
        assert_eq!(command.output().await.text(), expected, "run {run}");
    }
}

// Case 6.
#[tokio::test]
async fn a_folder_that_is_not_there_is_a_failed_start_and_a_missing_program_is_bashs_127() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;

    let nowhere =
        session.run_with(RunCommand { cwd: Some("/no/such/folder".into()), ..text("echo never") }).await.finish().await;
    let CommandState::FailedToStart { message } = &nowhere.view.state else { panic!("{nowhere:?}") };
    assert!(message.contains("/no/such/folder"), "{message}");
    assert!(nowhere.output.bytes.is_empty(), "a reason is not output: {nowhere:?}");

    let missing = session.finish("no-such-program").await;
    assert_eq!(missing.exit_code(), Some(127));
    assert!(missing.text().contains("command not found"), "{missing:?}");
    let not_executable = session.finish("echo x > data; ./data").await;
    assert_eq!(not_executable.exit_code(), Some(126));

    // Last, as nothing runs in this session afterwards.
    session.sh("mv /bin/bash /bin/bash-moved-away").await;
    let no_shell = session.finish("echo never").await;
    let CommandState::FailedToStart { message } = &no_shell.view.state else { panic!("{no_shell:?}") };
    assert!(message.contains("/bin/bash"), "{message}");
    assert!(no_shell.output.bytes.is_empty(), "{no_shell:?}");
}

// Case 8.
#[tokio::test]
async fn a_command_that_leaves_something_in_the_background_returns_at_once_and_that_lives_on() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;

    let quiet = session.run("sleep 60 & echo done").await;
    let view = quiet.ended().await;
    assert_eq!(view.state, CommandState::Exited { code: 0 });
    assert!(view.ended_at.expect("an end") - view.created_at < 45.0, "it did not wait for the sleep");
    assert!(!view.output_closed, "the sleep holds the output open");
    quiet.wrote("done\n").await;
    assert_eq!(session.processes("sleep 60").await.len(), 1, "it lives on");

    let chatty = session.run("(while :; do echo tick; sleep 0.1; done) & echo done").await;
    let ended = chatty.ended().await;
    assert_eq!(ended.state, CommandState::Exited { code: 0 });
    let at_end = ended.output_bytes;
    let later = eventually("what it left behind goes on writing", SOON, async || {
        Some(chatty.view().await).filter(|view| view.output_bytes > at_end + 20)
    })
    .await;
    assert!(!later.output_closed);
    assert_eq!(later.state, ended.state);
    assert_eq!(later.ended_at, ended.ended_at, "the end was told once");
    assert_eq!(session.view().await.commands_running, 0, "nothing counts as running");
}

#[tokio::test]
async fn a_command_that_reaches_its_limit_is_ended_with_all_that_it_started() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let command = RunCommand { timeout_seconds: Some(1.0), ..text("echo begun; sleep 307 & sleep 308") };
    let ended = session.run_with(command).await.finish().await;
    assert_eq!(ended.view.state, CommandState::TimedOut, "{ended:?}");
    assert_eq!(ended.text(), "begun\n");
    let report = ended.view.kill.expect("a limit reports what it did, as a kill does");
    assert!(report.survivors.is_empty(), "{report:?}");
    for left in ["sleep 307", "sleep 308"] {
        assert!(session.processes(left).await.is_empty(), "{left} is gone");
    }
}

#[tokio::test]
async fn ends_are_told_as_they_were() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    for (command, state) in [
        ("exit 0", CommandState::Exited { code: 0 }),
        ("exit 255", CommandState::Exited { code: 255 }),
        ("kill -9 $$", CommandState::Signaled { signal: 9 }),
        ("kill -SEGV $$", CommandState::Signaled { signal: 11 }),
        // stdin is at its end, so nothing waits for input that nobody can give.
        ("cat", CommandState::Exited { code: 0 }),
    ] {
        let ended = session.run(command).await.ended().await;
        assert_eq!(ended.state, state, "{command}");
        assert!(ended.kill.is_none(), "{command}: nobody here killed it");
        assert!(ended.started_at.is_some() && ended.pid.is_some(), "{command}");
    }
}

#[tokio::test]
async fn folder_and_environment_are_the_commands_own_and_its_text_is_never_spliced() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, workspace) in [(open(), "/root"), (hardened(), "/workspace")] {
        let session = agent.create_session(profile).await;
        session.sh("mkdir -p 'a folder'").await;
        assert_eq!(session.sh("pwd").await, format!("{workspace}\n"));
        let command = RunCommand {
            cwd: Some("a folder".into()),
            env: BTreeMap::from([("GREETING".to_owned(), "it's \"$HOME\" `id` \n é".to_owned())]),
            ..text("pwd; printf %s \"$GREETING\"")
        };
        let finished = session.run_with(command).await.finish().await;
        assert_eq!(finished.text(), format!("{workspace}/a folder\nit's \"$HOME\" `id` \n é"));
        let odd = "'\"$(echo no)\\` \u{1f600}\n--help";
        assert_eq!(session.sh(&format!("cat <<'END'\n{odd}\nEND")).await, format!("{odd}\n"));
    }
}

#[tokio::test]
async fn commands_are_listed_newest_first_a_page_at_a_time() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    for number in 1..=5 {
        session.sh(&format!("echo {number}")).await;
    }
    let mut numbers = Vec::new();
    let mut path = session.path("/commands?limit=2");
    loop {
        let page: glassbox_shared::command::CommandList = agent.get(&path).await.ok().expect("a page");
        numbers.extend(page.commands.iter().map(|command| command.number));
        let Some(next) = page.next else { break };
        path = session.path(&format!("/commands?limit=2&before={next}"));
    }
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    let view = session.view().await;
    assert_eq!((view.commands_total, view.commands_running), (5, 0));
    assert_eq!(view.latest_command.expect("the newest one").number, 5);
}
