//! Made-up sessions, commands and files for tests.

use std::collections::BTreeMap;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::files::{FileEntry, FileType, FolderPage, JobKind, JobView};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{ControlView, DeathCause, Limits, Profile, RestartView, SessionState, SessionView};

use super::files::{shown, shown_name};

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
        state: CommandState::Running,
        started_at: Some(number as f64),
        pid: Some(7),
        ..CommandView::starting(session_id(1), command_id(number), number, text, agent(), number as f64)
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

/// A file, or what else `kind` says.
pub fn entry(path: &str, kind: FileType, version: &str) -> FileEntry {
    FileEntry {
        path: path.to_owned(),
        name: shown_name(path),
        kind,
        size: 7,
        mode: "0644".to_owned(),
        uid: 0,
        gid: 0,
        owner: None,
        modified: 1.0,
        version: version.to_owned(),
        target: None,
    }
}

/// A page of a folder.
pub fn page(path: &str, total: u64, entries: Vec<FileEntry>, next: Option<&str>) -> FolderPage {
    let (path, next) = (path.to_owned(), next.map(str::to_owned));
    FolderPage { name: shown_name(&path), path, version: "v1".to_owned(), total, entries, next }
}

/// A deletion by the agent, begun at second 10.
pub fn deletion(path: &str, done: u64) -> JobView {
    JobView {
        job_id: "job_aaaaaaaaaaaaaaaaaaaa".to_owned(),
        kind: JobKind::Delete,
        path: path.to_owned(),
        name: shown(path),
        to: None,
        to_name: None,
        by: agent(),
        since: 10.0,
        done,
        bytes: 0,
    }
}
