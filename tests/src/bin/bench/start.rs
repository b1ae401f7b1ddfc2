//! (c) From nothing to the first byte of a first command: a session, against `docker run`.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glassbox_tests::{Client, hardened};

use crate::round_trip::HARDENED;

/// Of each kind.
const ROUNDS: usize = 15;
/// What is run: one byte, and then nothing for as long as it is looked at.
const COMMAND: &str = "printf x; exec sleep 60";

/// Times of a session and of `docker run`, alternating.
pub async fn measure(agent: &Client) -> (Vec<Duration>, Vec<Duration>) {
    let (mut sessions, mut containers) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (session, container) = if round % 2 == 0 {
            (by_session(agent).await, by_docker_run().await)
        } else {
            let container = by_docker_run().await;
            (by_session(agent).await, container)
        };
        // The first of each warms up.
        if round > 0 {
            sessions.push(session);
            containers.push(container);
        }
    }
    (sessions, containers)
}

async fn by_session(agent: &Client) -> Duration {
    let begun = Instant::now();
    let session = agent.create_session(hardened()).await;
    let command = session.run(COMMAND).await;
    let answer = agent.get(&command.path("/output?from=0&wait=30")).await.success().expect("output");
    let took = begun.elapsed();
    assert_eq!(answer.body, b"x");
    session.delete().await.success().expect("ended");
    took
}

async fn by_docker_run() -> Duration {
    let run = || {
        let begun = Instant::now();
        let mut child = Command::new("docker")
            .args(["run", "--rm", "--init", "--read-only", "--name", "glassbox-bench-start"])
            .args(HARDENED.iter().flatten())
            .args(["sandbox-base:latest", "bash", "-c", COMMAND])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("docker can be run");
        let mut byte = [0];
        child.stdout.take().expect("its output").read_exact(&mut byte).expect("a byte");
        let took = begun.elapsed();
        glassbox_tests::docker::run(&["rm", "--force", "glassbox-bench-start"]);
        let _ = child.wait();
        took
    };
    tokio::task::spawn_blocking(run).await.expect("it does not panic")
}
