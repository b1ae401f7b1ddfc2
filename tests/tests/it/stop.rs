//! A stop in order: within 10 s, and everybody is told.

use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::live::close;
use glassbox_tests::engine::{Engine, Gvisor};
use glassbox_tests::process::ServerProcess;
use glassbox_tests::viewer::Closed;
use glassbox_tests::{TestServer, docker, eventually, hardened, process};

/// What whoever asks for a stop may count on.
const STOP: Duration = Duration::from_secs(10);
/// Until the demo has a sandbox.
const STARTED: Duration = Duration::from_mins(1);
/// The end of a connection is in the kernel by then.
const HEARD: Duration = Duration::from_secs(5);

#[tokio::test]
async fn with_twenty_commands_and_fifty_sockets_it_takes_less_than_ten_seconds_and_tells_every_socket() {
    let (mut server, agent) = TestServer::with_agent().await;
    let mut commands = Vec::new();
    for _ in 0..2 {
        let session = agent.create_session(hardened()).await;
        for number in 0..10 {
            // Every second one does not want to go.
            let trap = if number % 2 == 0 { "trap '' TERM HUP INT; " } else { "" };
            commands.push(session.run(&format!("{trap}echo begun; while :; do sleep 1; done")).await);
        }
    }
    for command in &commands {
        command.wrote("begun").await;
    }
    let mut viewers = Vec::new();
    for number in 0..50 {
        let mut viewer = agent.viewer().await;
        let command = &commands[number % commands.len()];
        viewer.watch(command, glassbox_shared::live::WatchFrom::Offset(0));
        viewers.push(viewer);
    }
    let address = server.address();
    let begun = Instant::now();
    // Waited for on a thread of its own: the viewers' goodbyes need this one.
    let mut server = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    })
    .await
    .expect("it stopped");
    let took = begun.elapsed();
    println!("stopped within {took:?}");
    assert!(took < STOP, "{took:?}");
    for viewer in &mut viewers {
        assert_eq!(viewer.until_closed(HEARD).await, Closed::Code(close::SHUTDOWN));
    }
    server.restart(&address).await;
    for command in &commands {
        let state = command.finish().await.view.state;
        assert_eq!(state, CommandState::Interrupted(Interruption::ServerRestarted));
    }
}

#[tokio::test]
async fn a_server_that_plays_the_demo_removes_its_sandbox_when_it_is_stopped() {
    docker::require();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = process::glassbox();
    command
        .args(["serve", "--demo"])
        .env("GLASSBOX_DATA_DIR", folder.path().join("data"))
        .env("GLASSBOX_LISTEN", "127.0.0.1:0");
    let mut server = ServerProcess::start(command, folder.path()).await.expect("it starts");
    eventually("the demo is at work", STARTED, async || server.stdout().contains("demo: command 1").then_some(()))
        .await;
    let instance = std::fs::read_to_string(folder.path().join("data/instance")).expect("its label");
    assert_eq!(docker::containers(instance.trim()).len(), 1);
    let before = server.log().len();
    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.log());
    let left = docker::remove_all(instance.trim());
    assert!(left.is_empty(), "left behind: {left:?}\n{}", server.stdout());
    // That the sandbox of a command goes while its session is taken down is no news.
    assert!(!server.log()[before..].contains("WARN"), "{}", server.log());
}

#[tokio::test]
async fn a_demo_whose_engine_hangs_does_not_hold_up_the_stop() {
    let engine = Engine::start(Gvisor::Registered).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = process::glassbox();
    command
        .args(["serve", "--demo"])
        .env("GLASSBOX_DATA_DIR", folder.path().join("data"))
        .env("GLASSBOX_LISTEN", "127.0.0.1:0")
        .env("DOCKER_HOST", engine.host());
    let mut server = ServerProcess::start(command, folder.path()).await.expect("it starts");
    eventually("the demo is at work", STARTED, async || server.stdout().contains("demo: command 1").then_some(()))
        .await;
    engine.freeze();
    let begun = Instant::now();
    let stopped = server.stop();
    let took = begun.elapsed();
    engine.thaw();
    println!("stopped within {took:?}");
    assert!(stopped.is_some_and(|status| status.success()) && took < STOP, "{took:?}: {}", server.log());
}

#[tokio::test]
async fn a_server_whose_terminal_is_gone_stops_in_order_all_the_same() {
    use std::io::{BufRead as _, BufReader};

    docker::require();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = process::glassbox();
    command
        .arg("serve")
        .env("GLASSBOX_DATA_DIR", folder.path().join("data"))
        .env("GLASSBOX_LISTEN", "127.0.0.1:0")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut server = command.spawn().expect("it can be started");
    let (out, err) = (server.stdout.take().expect("a pipe"), server.stderr.take().expect("a pipe"));
    let ended = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(out).lines();
        let ready = lines.any(|line| line.expect("text").contains("sign in"));
        // Nobody reads any more: every further line fails.
        drop((lines, err));
        process::signal(server.id(), "TERM");
        (ready, glassbox_tests::wait::eventually_blocking(STOP, || server.try_wait().expect("a child can be asked")))
    });
    let (ready, ended) = ended.await.expect("no panic");
    assert!(ready, "it said that it is ready");
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
