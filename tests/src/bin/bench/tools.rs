//! (h) What the tools of agents cost: a call on top of a command by REST, calls that wait, and a very long output.

use std::process::Command;
use std::time::{Duration, Instant};

use glassbox_shared::id::CommandId;
use glassbox_shared::tools::ToolAnswer;
use glassbox_tests::{Session, TestServer, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::round_trip::through_rest;

/// Of each kind.
const ROUNDS: usize = 100;
/// Of each kind before measuring: connections are made, files are in memory.
const WARM_UP: usize = 3;
/// Calls that wait at the same time.
pub const WAITING: usize = 1_000;
/// How long it is watched what the waiting calls cost.
const WATCHED: Duration = Duration::from_secs(10);
/// Open files of this program: each waiting call has a connection.
const FILES: usize = 4_096;
/// MiB of output that go through one call.
pub const LONG_MIB: usize = 1_024;
/// Between two looks at the memory.
const INTERVAL: Duration = Duration::from_millis(100);
/// For what takes a moment.
const PATIENCE: Duration = Duration::from_mins(1);

async fn call(session: &Session, tool: &str, query: &str, input: Value) -> ToolAnswer {
    let path = session.path(&format!("/tools/{tool}{query}"));
    session.client().post(&path, &input).await.ok().expect("every call is answered")
}

/// `true` by `shell_exec`, and by a command and a wait, alternating.
pub async fn calls(session: &Session) -> (Vec<Duration>, Vec<Duration>) {
    let (mut by_tool, mut by_rest) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let by = async || {
            let begun = Instant::now();
            let answer = call(session, "shell_exec", "", json!({"command": "true"})).await;
            assert_eq!(answer.text, "exit=0\noutput:\n");
            begun.elapsed()
        };
        let (tool, rest) = if round % 2 == 0 {
            let tool = by().await;
            (tool, through_rest(session).await)
        } else {
            let rest = through_rest(session).await;
            (by().await, rest)
        };
        if round >= WARM_UP {
            by_tool.push(tool);
            by_rest.push(rest);
        }
    }
    (by_tool, by_rest)
}

/// What waiting calls cost.
#[derive(Debug)]
pub struct Waiting {
    /// Bytes of memory, of all together.
    pub bytes: u64,
    /// Share of one processor that the server takes while they wait, and while nobody does.
    pub processor: f64,
    pub processor_idle: f64,
}

/// Lets many calls wait for a command that says nothing.
pub async fn waiting(server: &TestServer, session: &Session) -> Waiting {
    let more = ["--pid", &std::process::id().to_string(), &format!("--nofile={FILES}")].map(str::to_owned);
    assert!(Command::new("prlimit").args(more).status().expect("it is part of Debian").success());
    let silent = session.run("sleep 1000").await;
    let id: CommandId = silent.view().await.command_id;
    // What a first call makes once is there afterwards.
    call(session, "shell_wait", "", json!({"command_id": id.as_str(), "timeout": 0})).await;
    let (before, processor_idle) = (server.process().resident_bytes(), processor(server).await);
    let mut calls = JoinSet::new();
    for number in 0..WAITING {
        let (session, input) = (session.clone(), json!({"command_id": id.as_str(), "timeout": 600}));
        calls.spawn(async move { call(&session, "shell_wait", &format!("?reader={number}"), input).await });
    }
    let pid = server.process().pid();
    eventually("all of them wait", PATIENCE, async || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
        (files > WAITING).then_some(())
    })
    .await;
    let busy = processor(server).await;
    let bytes = server.process().resident_bytes().saturating_sub(before);
    silent.kill(1.0).await;
    while let Some(answer) = calls.join_next().await {
        assert!(answer.expect("it was answered").text.starts_with("killed (exit="));
    }
    Waiting { bytes, processor: busy, processor_idle }
}

/// The share of a processor that the server takes for a while.
async fn processor(server: &TestServer) -> f64 {
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process().pid())).expect("it runs");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("its name").1.split_whitespace().collect();
        // utime and stime; a hundred ticks a second on every Linux that there is.
        [11, 12].iter().map(|at| fields[*at].parse::<f64>().expect("a number")).sum::<f64>() / 100.0
    };
    let (begun, before) = (Instant::now(), used());
    tokio::time::sleep(WATCHED).await;
    (used() - before) / begun.elapsed().as_secs_f64()
}

/// Bytes by which the server's memory grows while a very long output goes through one call.
pub async fn long(server: &TestServer, session: &Session) -> u64 {
    let before = server.process().resident_bytes();
    let input = json!({"command": format!("head -c {LONG_MIB}M /dev/zero | tr '\\0' x"), "timeout": 600});
    let answer = call(session, "shell_exec", "", input);
    tokio::pin!(answer);
    let mut tick = tokio::time::interval(INTERVAL);
    let mut peak = before;
    let answer = loop {
        tokio::select! {
            answer = &mut answer => break answer,
            _ = tick.tick() => peak = peak.max(server.process().resident_bytes()),
        }
    };
    let dropped = (LONG_MIB << 20) - 30_000;
    assert!(answer.text.contains(&format!("\n... [{dropped} characters truncated] ...\n")), "the figure is exact");
    peak - before
}
