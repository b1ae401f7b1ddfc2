//! `kill -9` of the server at any moment, again and again, against a truth that is written inside the sandbox.

use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, Interruption, RunCommand};
use glassbox_tests::{Command, TestServer, eventually, open, random_name, repeats};

/// Runs; a tenth in CI.
const RUNS: usize = 50;
/// At the same time: finite ones, endless ones, and ones that write all the time.
const COMMANDS: usize = 20;
/// The longest time between the start of the commands and the kill, in milliseconds.
const LATEST: u64 = 2_500;
/// Sessions are usable this soon after the server was started again; the machine is busy with twenty commands.
const USABLE: Duration = Duration::from_secs(10);
/// Until leftovers are swept.
const SWEPT: Duration = Duration::from_secs(90);

/// Writes each line to the truth first, and then to its output. `LAST` is in the truth before the command exits.
fn text(number: usize) -> String {
    let truth = format!("/root/truth-{number}");
    match number % 4 {
        0 => format!("for i in $(seq 1 30); do echo $i >> {truth}; echo $i; done; echo LAST >> {truth}; exit {number}"),
        1 => format!("echo 1 >> {truth}; echo 1; sleep 600"),
        2 => format!("i=0; while true; do i=$((i+1)); echo $i >> {truth}; echo $i; sleep 0.02; done"),
        _ => format!(
            "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i >> {truth}; echo $i; sleep 0.02; done; echo LAST >> {truth}; exit {number}"
        ),
    }
}

// Case 31.
#[tokio::test]
async fn after_a_kill_at_any_moment_no_acknowledged_byte_is_missing_and_every_end_is_true() {
    let mut server = TestServer::configure().env("GLASSBOX_MAX_COMMANDS", 2 * COMMANDS).start().await;
    let agent = server.agent().await;
    for run in 0..repeats(RUNS) {
        let session = agent.create_session(open()).await;
        let started = Instant::now();
        let texts = (0..COMMANDS).map(|number| RunCommand { command: text(number), ..RunCommand::default() });
        let mut commands: Vec<Command> = Vec::new();
        for request in texts {
            commands.push(session.run_with(request).await);
        }
        // A random moment, spent with reading: what was read is acknowledged.
        let moment = Duration::from_millis(u64::from_str_radix(&random_name()[..8], 16).unwrap_or(7) % LATEST);
        let mut seen = vec![Vec::new(); COMMANDS];
        let mut finals = vec![None; COMMANDS];
        loop {
            for (number, command) in commands.iter().enumerate() {
                seen[number] = agent.get(&command.path("/output")).await.success().expect("output").body;
                let state = command.view().await.state;
                if state.is_final() {
                    finals[number] = Some(state);
                }
            }
            if started.elapsed() >= moment {
                break;
            }
        }
        let address = server.address();
        server.kill_hard();
        let restarted = Instant::now();
        server.restart(&address).await;
        session.ready().await;
        let usable = session.sh("echo usable").await;
        assert_eq!(usable, "usable\n");
        let took = restarted.elapsed();
        assert!(took < USABLE, "run {run}: usable after {took:?}");

        for (number, command) in commands.iter().enumerate() {
            let finished = command.finish().await;
            let truth = session.sh(&format!("cat /root/truth-{number} 2>/dev/null || true")).await;
            let ended_itself = truth.ends_with("LAST\n");
            let truth = truth.trim_end_matches("LAST\n").as_bytes();
            let log = &finished.output.bytes;
            let about = format!("run {run}, command {number}: {:?}", finished.view);
            assert!(log.starts_with(&seen[number]), "what was acknowledged is there: {about}");
            assert!(truth.starts_with(log), "nothing that was never written: {about}");
            match finished.view.state {
                CommandState::Exited { code } => {
                    assert!(ended_itself && usize::try_from(code) == Ok(number), "it did end like that: {about}");
                    assert_eq!(truth, log, "all of its output came before its end: {about}");
                }
                CommandState::Interrupted(Interruption::ServerRestarted) => {
                    assert!(!finished.view.output_complete, "{about}");
                }
                other => panic!("{other:?} never happened: {about}"),
            }
            if let Some(before) = &finals[number] {
                assert_eq!(*before, finished.view.state, "an end is told once: {about}");
            }
        }
        // Nothing of the old commands runs; only the sandbox's own first process sleeps.
        assert_eq!(session.processes("sleep 600").await, Vec::<i32>::new());
        session.delete().await.success().expect("ended");
    }
    let instance = server.instance();
    eventually("nothing is left", SWEPT, async || {
        let left = (glassbox_tests::docker::containers(&instance), glassbox_tests::docker::workspaces(&instance));
        (left.0.is_empty() && left.1.is_empty()).then_some(())
    })
    .await;
}
