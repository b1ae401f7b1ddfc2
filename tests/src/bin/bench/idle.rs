//! (g) What sessions and live sockets cost the server in memory while nothing happens.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use glassbox_tests::{TestServer, Viewer};

/// Of each.
pub const COUNT: u64 = 200;
/// Heartbeats that each socket has taken before it counts as idle: everything that a first message needs was made.
const HEARTBEATS: u64 = 2;
/// Heartbeats come every ten seconds.
const HEARTBEATS_COME: Duration = Duration::from_mins(1);
/// Sockets before the measuring begins: what is made at the first use is there then.
const WARM_UP: usize = 3;

/// Memory before and after, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    before: u64,
    after: u64,
}

impl Growth {
    /// Of each, in KiB.
    pub fn each_kib(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / 1024.0 / COUNT as f64
    }

    /// For people.
    pub fn print(&self, what: &str) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{what:<52} before {:>6.1} MiB   after {:>6.1} MiB   each {:>6.1} KiB",
            mib(self.before),
            mib(self.after),
            self.each_kib()
        );
    }
}

/// Sessions that have run a command each, on the engine in memory: `idle-sessions`, which lies beside us.
pub async fn sessions() -> Growth {
    let mut command = Command::new(std::env::current_exe().expect("it runs").with_file_name("idle-sessions"));
    command.arg(COUNT.to_string());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
    let output = output.expect("the program can be run");
    assert!(output.status.success(), "idle-sessions: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [before, after] = numbers[..] else { panic!("idle-sessions: {said:?}") };
    Growth { before, after }
}

/// Live sockets that hear heartbeats and nothing else, at a server that does nothing else.
pub async fn sockets(binary: &Path) -> Growth {
    let server = TestServer::configure().env("RUST_LOG", "info").binary(binary).start().await;
    let mut warm = connect(&server, WARM_UP).await;
    settle(&mut warm).await;
    drop(warm);
    let before = server.process().resident_bytes();
    let mut viewers = connect(&server, COUNT as usize).await;
    settle(&mut viewers).await;
    Growth { before, after: server.process().resident_bytes() }
}

async fn connect(server: &TestServer, count: usize) -> Vec<Viewer> {
    let mut viewers = Vec::with_capacity(count);
    for _ in 0..count {
        viewers.push(server.viewer().await);
    }
    viewers
}

async fn settle(viewers: &mut [Viewer]) {
    for viewer in viewers {
        viewer.until("heartbeats come", HEARTBEATS_COME, |heard| (heard.heartbeats >= HEARTBEATS).then_some(())).await;
    }
}
