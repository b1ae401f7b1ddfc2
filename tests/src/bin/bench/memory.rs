//! (b) What a flood of output costs the server in memory.

use std::time::{Duration, Instant};

use glassbox_shared::live::WatchFrom;
use glassbox_tests::stream::Keep;
use glassbox_tests::{Session, TestServer, Viewer};

/// How long the command writes.
pub const FLOOD: Duration = Duration::from_secs(20);
/// What the slow viewer takes.
const BYTES_PER_SECOND: u64 = 1_000;
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// What was seen.
#[derive(Debug)]
pub struct Growth {
    before: u64,
    peak: u64,
    /// Bytes that the command wrote.
    pub output: u64,
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Growth {
    /// Above what it was before.
    pub fn bytes(&self) -> u64 {
        self.peak.saturating_sub(self.before)
    }

    /// The same in MiB.
    pub fn mib(&self) -> f64 {
        mib(self.bytes())
    }

    /// What it was before, in MiB.
    pub fn before_mib(&self) -> f64 {
        mib(self.before)
    }
}

/// Lets a command flood its log, with so many slow viewers.
pub async fn measure(server: &TestServer, session: &Session, viewers: usize) -> Growth {
    let mut watching = Vec::new();
    for _ in 0..viewers {
        watching.push(Viewer::connect_slow(&server.operator(), BYTES_PER_SECOND).await);
    }
    let before = server.process().resident_bytes();
    let flood = session.run("yes").await;
    flood.wrote("y\n").await;
    for viewer in &mut watching {
        viewer.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(|_, _| true));
    }
    let begun = Instant::now();
    let mut tick = tokio::time::interval(INTERVAL);
    let mut peak = before;
    while begun.elapsed() < FLOOD {
        tick.tick().await;
        peak = peak.max(server.process().resident_bytes());
    }
    let view = flood.kill(5.0).await;
    Growth { before, peak, output: view.output_bytes }
}
