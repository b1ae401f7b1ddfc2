//! `glassbox idle`, for `make bench`: what sessions that nobody uses cost this program in memory.
//!
//! It serves nobody. The domain is the real one, with its database and logs in a folder of its own; only the engine is
//! one in memory, as hundreds of real sandboxes would need a larger machine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::RunCommand;
use glassbox_shared::session::CreateSession;
use tokio_util::sync::CancellationToken;

use crate::control::Principal;
use crate::runtime::fake::FakeRuntime;
use crate::server::Server;
use crate::server::config::Config;
use crate::server::data::DataDir;

/// Sessions before the measuring begins: what is made at the first use is there then.
const WARM_UP: usize = 3;
/// A command of the engine in memory takes no time.
const COMMAND_ENDS: Duration = Duration::from_secs(30);
/// For all sandboxes; nothing of it is ever used.
const MEMORY: u64 = 1 << 50;

/// How many.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Sessions to make
    #[arg(long, default_value_t = 200)]
    sessions: usize,
}

/// Makes the sessions, each of which has run a command, and prints bytes of memory before and after.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("no folder can be made")?;
    let data = DataDir::open(&folder.path().join("data"))?;
    let max_sessions = WARM_UP + arguments.sessions;
    let config = Config { memory_total: MEMORY, max_sessions, ..Config::default() };
    let shutdown = CancellationToken::new();
    let server = Server::start(config, data, Arc::new(FakeRuntime::new()), shutdown.clone()).await?;
    let actor = Actor::Agent { name: "idle".to_owned() };
    let who = Principal { tenant: "idle".to_owned(), role: Role::Agent, actor, key_id: None };
    for _ in 0..WARM_UP {
        one(&server, &who).await?;
    }
    let before = resident_bytes()?;
    for _ in 0..arguments.sessions {
        one(&server, &who).await?;
    }
    let after = resident_bytes()?;
    println!("{before} {after}");
    shutdown.cancel();
    server.stop().await;
    Ok(())
}

/// A session that has run a command and has nothing to do any more.
async fn one(server: &Server, who: &Principal) -> anyhow::Result<()> {
    let request = CreateSession { persistent: Some(true), ..CreateSession::default() };
    let session = server.sessions().create(who, request).await?;
    let session = server.sessions().get(&who.tenant, &session.session_id)?;
    let request = RunCommand { command: "print hello".to_owned(), ..RunCommand::default() };
    let command = session.run(who, request).await?;
    let command = session.command(&command.command_id).await?.wait_closed(COMMAND_ENDS).await;
    anyhow::ensure!(command.state.is_final(), "a command of the engine in memory did not end");
    Ok(())
}

/// What this process has in memory, as the kernel counts it.
fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("the kernel does not say")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel does not say")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("the kernel does not say")?;
    Ok(kilobytes * 1024)
}
