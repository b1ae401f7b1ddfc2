//! `make bench`: what Glassbox costs on top of the engine, and what a flood of output costs the server.
//!
//! One table from one run. (a) The round trip of `bash -c true` through REST (start, then wait), against create, start and
//! drain of a plain exec over the engine's own API, and against `docker run --rm` with the hardened settings: alternating,
//! so that whatever else the machine does meets all of them. (b) Growth of the server's memory while a command runs
//! `yes`, with nobody watching and with one viewer that takes 1 kB/s. Ends with an error when a bar is not met.

mod machine;
mod memory;
mod round_trip;
mod table;

use std::path::Path;
use std::process::ExitCode;

use glassbox_tests::{TestServer, hardened};

/// The median of a round trip through Glassbox may be this many times that of the engine's own API.
const ROUND_TRIP_BAR: f64 = 1.35;
/// The server's memory may grow by this much under a flood.
const MEMORY_BAR: u64 = 32 << 20;

#[tokio::main]
async fn main() -> ExitCode {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/glassbox");
    if !binary.is_file() {
        eprintln!("bench: {} is not there; run `make bench`, which builds it.", binary.display());
        return ExitCode::FAILURE;
    }
    machine::print(&binary);
    // As a user has it: with the log level that is the default.
    let server = TestServer::configure().env("RUST_LOG", "info").binary(&binary).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;

    let times = round_trip::measure(&session).await;
    let ratio = table::print(&times);
    let mut bars =
        vec![(format!("(a) median at most {ROUND_TRIP_BAR} of the engine's API: {ratio:.2}"), ratio <= ROUND_TRIP_BAR)];

    println!("\n(b) memory of the server under `yes` for {} s", memory::FLOOD.as_secs());
    for (what, viewers) in [("nobody watches", 0), ("one viewer at 1 kB/s", 1)] {
        let growth = memory::measure(&server, &session, viewers).await;
        println!(
            "{what:<24} before {:>6.1} MiB   growth {:>6.1} MiB   output {:>7} MiB",
            growth.before_mib(),
            growth.mib(),
            growth.output >> 20
        );
        bars.push((
            format!("(b) at most {} MiB, {what}: {:.1}", MEMORY_BAR >> 20, growth.mib()),
            growth.bytes() <= MEMORY_BAR,
        ));
    }

    println!();
    for (bar, met) in &bars {
        println!("{}  {bar}", if *met { "PASS" } else { "FAIL" });
    }
    drop(server);
    if bars.iter().all(|(_, met)| *met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
