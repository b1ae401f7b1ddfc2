//! Case 9: a command that never stops writing costs neither memory nor anybody else.

use std::time::{Duration, Instant};

use glassbox_shared::command::CommandView;
use glassbox_shared::live::WatchFrom;
use glassbox_tests::stream::{Keep, Stream};
use glassbox_tests::{Command, TestServer, Viewer, is_long, is_yes, open};

/// Growth of the server's memory that counts as flat: buffers of the log, of sockets and of the allocator.
const FLAT: u64 = 64 << 20;
/// What a slow viewer takes.
const SLOW: u64 = 1_000;
/// For what is left to read once nothing is written any more.
const REST: Duration = Duration::from_mins(2);

/// The flood's length.
fn length() -> Duration {
    Duration::from_secs(if is_long() { 60 } else { 6 })
}

/// The paced writer's pattern: lines of 99 letters.
fn is_paced(offset: u64, byte: u8) -> bool {
    byte == if offset % 100 == 99 { b'\n' } else { b'x' }
}

/// Watches the server's memory for a time; the most that it had. (The one place where a test lets time pass: it measures.)
async fn peak_memory(server: &TestServer, time: Duration) -> u64 {
    let begun = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let mut peak = 0;
    while begun.elapsed() < time {
        tick.tick().await;
        peak = peak.max(server.process().resident_bytes());
    }
    peak
}

fn assert_flat(what: &str, before: u64, peak: u64) {
    let growth = peak.saturating_sub(before);
    println!("{what}: the server's memory grew by {} KiB from {} MiB", growth >> 10, before >> 20);
    assert!(growth <= FLAT, "{what}: the server's memory grew by {} MiB", growth >> 20);
}

/// Bytes and gaps together are the log.
fn assert_adds_up(who: &str, seen: &Stream, log: &CommandView) {
    let end = seen.end.unwrap_or_else(|| panic!("{who} was told the end: {:?}", seen.error));
    println!("{who}: {} MiB in bytes, {} gaps of {} MiB", seen.received >> 20, seen.gaps.len(), seen.missing() >> 20);
    assert_eq!(end.offset, log.output_bytes, "{who}: the end is the log's");
    assert_eq!(seen.received + seen.missing(), end.offset, "{who}: bytes and gaps add up");
}

async fn end(flood: &Command) -> CommandView {
    let view = flood.kill(5.0).await;
    assert!(view.kill.as_ref().is_some_and(|report| report.survivors.is_empty()), "{view:?}");
    let finished = flood.finish().await;
    assert_eq!(finished.output.bytes.len() as u64 + finished.output.missing(), finished.view.output_bytes);
    finished.view
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_nobody_watches_leaves_the_servers_memory_flat() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("true").await;
    let before = server.process().resident_bytes();
    let flood = session.run("yes").await;
    flood.wrote("y\ny\n").await;
    let peak = peak_memory(&server, length()).await;
    let view = flood.kill(5.0).await;
    assert_flat("nobody", before, peak);
    assert!(view.output_bytes > 1 << 20, "it was a flood: {view:?}");
    end_of_log(&flood).await;
}

/// What is held at the end is what was written there.
async fn end_of_log(flood: &Command) {
    let finished = flood.finish().await;
    let output = &finished.output;
    assert_eq!(
        output.bytes.len() as u64 + output.missing(),
        finished.view.output_bytes,
        "bytes and gaps add up: {output:?}"
    );
    let mut offset = 0;
    let mut rest = output.bytes.as_slice();
    let ends = output.gaps.iter().copied().chain([(output.next, output.next)]);
    for (from, to) in ends {
        let (held, after) = rest.split_at((from - offset) as usize);
        assert!(held.iter().zip(offset..).all(|(byte, at)| is_yes(at, *byte)), "each byte is at its place");
        (offset, rest) = (to, after);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_with_a_slow_and_a_fast_viewer_leaves_memory_flat_and_adds_up_for_both() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("true").await;
    let mut fast = server.viewer().await;
    let mut slow = Viewer::connect_slow(&server.operator(), SLOW).await;
    let before = server.process().resident_bytes();
    let flood = session.run("yes").await;
    let fast_stream = fast.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_yes));
    let slow_stream = slow.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_yes));
    let peak = peak_memory(&server, length()).await;
    let view = end(&flood).await;
    assert_flat("one slow and one fast viewer", before, peak);
    let seen = fast.read_to_end(fast_stream, REST).await;
    assert_adds_up("the fast viewer", &seen, &view);
    slow.set_pace(None);
    let seen = slow.read_to_end(slow_stream, REST).await;
    assert_adds_up("the slow viewer", &seen, &view);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_five_megabytes_a_second_a_fast_viewer_has_no_gap_beside_a_slow_one() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let mut fast = server.viewer().await;
    let mut slow = Viewer::connect_slow(&server.operator(), SLOW).await;
    // A tenth of a second's worth at a time; on a busy machine it comes to somewhat less than 5 MB/s.
    let line = "line=$(printf 'x%.0s' $(seq 1 99)); block=$(yes $line | head -n 5000)";
    let flood = session.run(&format!("{line}; while :; do printf '%s\\n' \"$block\"; sleep 0.1; done")).await;
    let fast_stream = fast.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_paced));
    let slow_stream = slow.watch_with(&flood, WatchFrom::Offset(0), Keep::Check(is_paced));
    let wanted = length().as_secs() * 5_000_000 / 2;
    fast.until("enough has come", REST, |heard| (heard.streams[&fast_stream].received >= wanted).then_some(())).await;
    let view = end(&flood).await;
    let seen = fast.read_to_end(fast_stream, REST).await;
    assert_adds_up("the fast viewer", &seen, &view);
    assert_eq!(seen.gaps, [], "the fast one has no gap");
    slow.set_pace(None);
    assert_adds_up("the slow viewer", &slow.read_to_end(slow_stream, REST).await, &view);
}
