//! `idle-sessions COUNT`, for part (g) of the benchmark: what sessions that nobody uses cost the server in memory.
//!
//! It serves nobody. The domain is the real one, with its database and logs in a folder of its own; only the engine is
//! one in memory, as hundreds of real sandboxes would need a larger machine. A process of its own, so that nothing else is
//! in what it measures.

use std::sync::Arc;
use std::time::Duration;

use glassbox::control::Principal;
use glassbox::runtime::fake::FakeRuntime;
use glassbox::server::Server;
use glassbox::server::config::Config;
use glassbox::server::data::DataDir;
use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::RunCommand;
use glassbox_shared::session::CreateSession;
use tokio_util::sync::CancellationToken;

/// Sessions before the measuring begins: what is made at the first use is there then.
const WARM_UP: usize = 3;
/// A command of the engine in memory takes no time.
const COMMAND_ENDS: Duration = Duration::from_secs(30);
/// For all sandboxes; nothing of it is ever used.
const MEMORY: u64 = 1 << 50;

/// Makes the sessions, each of which has run a command, and prints bytes of memory before and after.
#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).expect("how many: idle-sessions COUNT");
    let folder = tempfile::tempdir().expect("a folder");
    let data = DataDir::open(&folder.path().join("data")).expect("a data directory");
    let config = Config { memory_total: MEMORY, max_sessions: WARM_UP + count, ..Config::default() };
    let shutdown = CancellationToken::new();
    let server = Server::start(config, data, Arc::new(FakeRuntime::new()), shutdown.clone()).await.expect("a start");
    for _ in 0..WARM_UP {
        one(&server).await;
    }
    let before = resident_bytes();
    for _ in 0..count {
        one(&server).await;
    }
    let after = resident_bytes();
    println!("{before} {after}");
    shutdown.cancel();
    server.stop().await;
}

/// A session that has run a command and has nothing to do any more.
async fn one(server: &Server) {
    let actor = Actor::Agent { name: "idle".to_owned() };
    let who = Principal { tenant: "idle".to_owned(), role: Role::Agent, actor, key_id: None };
    let request = CreateSession { persistent: Some(true), ..CreateSession::default() };
    let session = server.sessions().create(&who, request).await.expect("a session");
    let session = server.sessions().get(&who.tenant, &session.session_id).expect("it is there");
    let request = RunCommand { command: "print hello".to_owned(), ..RunCommand::default() };
    let command = session.run(&who, request).await.expect("a command");
    let command = session.command(&command.command_id).await.expect("it is there").wait_closed(COMMAND_ENDS).await;
    assert!(command.state.is_final(), "a command of the engine in memory did not end: {command:?}");
}

/// What this process has in memory, as the kernel counts it.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1024
}
