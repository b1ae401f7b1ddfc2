//! (a) The round trip of a small command, three ways.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::StreamExt as _;
use glassbox_shared::command::{CommandState, CommandView};
use glassbox_tests::{Session, docker};

/// Of each kind.
const ROUNDS: usize = 50;
/// Of each kind before measuring: connections are made, files are in memory.
const WARM_UP: usize = 3;
/// What is run.
const COMMAND: &str = "true";

/// What was measured.
#[derive(Debug, Default)]
pub struct Times {
    /// Through REST.
    pub glassbox: Vec<Duration>,
    /// A plain exec over the engine's API.
    pub engine: Vec<Duration>,
    /// A container of its own by the command line.
    pub docker_run: Vec<Duration>,
}

/// Measures all of them, alternating.
pub async fn measure(session: &Session) -> Times {
    let docker = Docker::connect_with_defaults()
        .expect("the engine's address")
        .negotiate_version()
        .await
        .expect("the engine answers");
    let container = docker::container_of(session.id().as_str());
    let mut times = Times::default();
    for round in 0..WARM_UP + ROUNDS {
        // Whoever comes after `docker run` meets what that leaves the engine to do, so they take turns.
        let (glassbox, engine) = if round % 2 == 0 {
            let glassbox = through_rest(session).await;
            (glassbox, through_engine(&docker, &container).await)
        } else {
            let engine = through_engine(&docker, &container).await;
            (through_rest(session).await, engine)
        };
        let run = by_docker_run().await;
        if round >= WARM_UP {
            times.glassbox.push(glassbox);
            times.engine.push(engine);
            times.docker_run.push(run);
        }
    }
    times
}

/// A command and a wait, by REST.
pub async fn through_rest(session: &Session) -> Duration {
    let begun = Instant::now();
    let command = session.run(COMMAND).await;
    let view: CommandView = command.client().get(&command.path("?wait=30")).await.ok().expect("it ends");
    let took = begun.elapsed();
    assert_eq!(view.state, CommandState::Exited { code: 0 });
    took
}

async fn through_engine(docker: &Docker, container: &str) -> Duration {
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(["bash", "-c", COMMAND].map(str::to_owned).to_vec()),
        ..ExecConfig::default()
    };
    let begun = Instant::now();
    let created = docker.create_exec(container, config).await.expect("an exec can be made");
    let started = docker.start_exec(&created.id, None).await.expect("an exec can be started");
    let StartExecResults::Attached { mut output, .. } = started else { panic!("it is attached") };
    while let Some(part) = output.next().await {
        part.expect("its output can be read");
    }
    begun.elapsed()
}

/// The settings of the hardened profile (`server/src/runtime/golden/hardened.json`), as `docker run` takes them.
pub const HARDENED: [[&str; 2]; 13] = [
    ["--runtime", "runsc"],
    ["--network", "none"],
    ["--user", "1000:1000"],
    ["--cap-drop", "ALL"],
    ["--security-opt", "no-new-privileges:true"],
    ["--memory", "256m"],
    ["--memory-swap", "256m"],
    ["--cpus", "1"],
    ["--pids-limit", "384"],
    ["--ulimit", "nproc=64"],
    ["--ipc", "private"],
    ["--log-driver", "none"],
    ["--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=64m,mode=1777"],
];

async fn by_docker_run() -> Duration {
    let run = || {
        let begun = Instant::now();
        let status = Command::new("docker")
            .args(["run", "--rm", "--init", "--read-only"])
            .args(HARDENED.iter().flatten())
            .args(["sandbox-base:latest", "bash", "-c", COMMAND])
            .stdin(Stdio::null())
            .status()
            .expect("docker can be run");
        assert!(status.success(), "docker run: {status}");
        begun.elapsed()
    };
    tokio::task::spawn_blocking(run).await.expect("it does not panic")
}
