//! Made-up sessions and commands for tests.

use std::collections::BTreeMap;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{ControlView, DeathCause, Limits, Profile, RestartView, SessionState, SessionView};

fn twenty(number: u64) -> String {
    format!("{number:0>20}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

pub fn session_id(number: u64) -> SessionId {
    SessionId::from_random(&twenty(number)).expect("letters only")
}

pub fn command_id(number: u64) -> CommandId {
    CommandId::from_random(&twenty(number)).expect("letters only")
}

pub fn agent() -> Actor {
    Actor::Agent { name: "agent-7".to_owned() }
}

/// A running command of session 1, made at second `number`.
pub fn command(number: u64, text: &str) -> CommandView {
    CommandView {
        command_id: command_id(number),
        session_id: session_id(1),
        number,
        command: text.to_owned(),
        cwd: None,
        split: false,
        actor: agent(),
        state: CommandState::Running,
        created_at: number as f64,
        started_at: Some(number as f64),
        ended_at: None,
        pid: Some(7),
        limit_seconds: 86_400.0,
        output_bytes: 0,
        output_missing_bytes: 0,
        last_output_at: None,
        output_closed: false,
        output_complete: false,
        out_of_memory: false,
        kill: None,
    }
}

pub fn session(number: u64) -> SessionView {
    SessionView {
        session_id: session_id(number),
        tenant_id: "acme".to_owned(),
        name: format!("session-{number}"),
        profile: Profile::Open,
        persistent: true,
        template: "sandbox-base:latest".to_owned(),
        state: SessionState::Ready,
        limits: Limits { memory_bytes: 2 << 30, cpus: 2.0, pids_limit: 512 },
        disk_quota_mb: 0,
        egress: Vec::new(),
        created_by: agent(),
        created_at: number as f64,
        last_accessed_at: number as f64,
        expires_at: None,
        ended_at: None,
        control: ControlView { holder: agent(), since: number as f64 },
        commands_total: 0,
        commands_running: 0,
        restarts: Vec::new(),
        metadata: BTreeMap::new(),
        clients: Vec::new(),
        latest_command: None,
    }
}

pub fn restart(at: f64) -> RestartView {
    RestartView { at, cause: Some(DeathCause::Oom), kept: "the workspace".to_owned(), lost: "processes".to_owned() }
}
