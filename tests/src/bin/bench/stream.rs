//! (f) Much output to one viewer over the live socket, against the raw stream of an exec.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::StreamExt as _;
use glassbox_shared::live::WatchFrom;
use glassbox_tests::stream::Keep;
use glassbox_tests::{Session, TestServer, docker};

/// 256 MiB.
pub const BYTES: u64 = 256 << 20;
/// Of each kind, alternating.
pub const ROUNDS: usize = 5;
/// Everything takes seconds.
const LIMIT: Duration = Duration::from_mins(5);

/// What was measured.
#[derive(Debug, Default)]
pub struct Times {
    /// Until the viewer had every byte.
    pub viewer: Vec<Duration>,
    /// Until the exec's stream had ended.
    pub raw: Vec<Duration>,
    /// Bytes that the viewer was not shown.
    pub missing: u64,
}

/// Measures both, alternating. The server's log must hold all of it.
pub async fn measure(server: &TestServer, session: &Session) -> Times {
    session.sh(&format!("yes | head -c {BYTES} > big")).await;
    let docker = Docker::connect_with_defaults()
        .expect("the engine's address")
        .negotiate_version()
        .await
        .expect("the engine answers");
    let container = docker::container_of(session.id().as_str());
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        times.raw.push(raw(&docker, &container).await);
        let mut viewer = server.operator().viewer().await;
        let begun = Instant::now();
        let command = session.run("cat big").await;
        let stream = viewer.watch_with(&command, WatchFrom::Offset(0), Keep::Repeats(&glassbox_tests::YES));
        let seen = viewer.read_to_end(stream, LIMIT).await;
        times.viewer.push(begun.elapsed());
        assert_eq!(seen.end.map(|end| end.offset), Some(BYTES), "{seen:?}");
        times.missing += BYTES - seen.received;
    }
    times
}

async fn raw(docker: &Docker, container: &str) -> Duration {
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(["cat", "/root/big"].map(str::to_owned).to_vec()),
        ..ExecConfig::default()
    };
    let begun = Instant::now();
    let created = docker.create_exec(container, config).await.expect("an exec can be made");
    let started = docker.start_exec(&created.id, None).await.expect("an exec can be started");
    let StartExecResults::Attached { mut output, .. } = started else { panic!("it is attached") };
    let mut bytes = 0;
    while let Some(part) = output.next().await {
        bytes += part.expect("its output can be read").into_bytes().len() as u64;
    }
    assert_eq!(bytes, BYTES);
    begun.elapsed()
}
