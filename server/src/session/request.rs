//! From what a client asked for to what will be done: every check that needs no state.

use std::collections::BTreeMap;
use std::time::Duration;

use glassbox_shared::command::{MAX_COMMAND_BYTES, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::session::{CreateSession, Limits, Profile};
use glassbox_shared::text::plain;

use super::settings::SessionSettings;
use crate::error::DomainError;
use crate::runtime::spec;

/// Longest name of a session, in characters: one line of the page.
const MAX_NAME: usize = 80;
/// Most metadata pairs, and longest key and value in bytes: notes for people, not storage.
const MAX_METADATA: (usize, usize, usize) = (32, 64, 1024);
/// Most variables of a command, and their bytes altogether: with the command's text they must fit one process start.
const MAX_ENV: (usize, usize) = (64, 64 * 1024);
/// Longest working directory: the system's own limit.
const MAX_CWD: usize = 4096;
/// The least that a sandbox starts with under gVisor.
const MIN_MEMORY: u64 = 64 << 20;
/// The sentry's own threads count against the limit (35 at rest); less would kill the sandbox at once.
const MIN_PIDS: u32 = 64;
/// The shortest run-time limit.
const MIN_TIMEOUT: f64 = 0.1;

/// A session that can be made.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidSession {
    pub name: Option<String>,
    pub profile: Profile,
    pub template: String,
    pub limits: Limits,
    pub metadata: BTreeMap<String, String>,
}

/// A command that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidCommand {
    pub command: String,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub split: bool,
    pub limit: Duration,
}

fn not_yet(what: &str) -> DomainError {
    DomainError::new(ErrorCode::NotImplemented, format!("{what} is not built yet"))
}

/// Checks a request for a session.
pub fn session(request: CreateSession, settings: &SessionSettings) -> Result<ValidSession, DomainError> {
    let profile = request.profile.unwrap_or_default();
    let persistent = request.persistent.unwrap_or(profile == Profile::Open);
    if profile == Profile::Open && request.persistent == Some(false) {
        return Err(DomainError::invalid("an open sandbox is always persistent; leave `persistent` out"));
    }
    if !persistent {
        return Err(not_yet("a session with a fresh container for each command (ask with \"persistent\": true)"));
    }
    if !request.egress.is_empty() {
        return Err(not_yet("network access (egress)"));
    }
    if !request.secrets.is_empty() {
        return Err(not_yet("secrets"));
    }
    if request.snapshot_id.is_some() {
        return Err(not_yet("starting from a snapshot"));
    }
    let template = request.template.unwrap_or_else(|| settings.image.clone());
    if template != settings.image && !settings.templates.contains(&template) {
        return Err(DomainError::new(ErrorCode::TemplateNotAllowed, "this image is not one that operators allow"));
    }
    let name = request.name.map(|name| plain(&name).trim().to_owned()).filter(|name| !name.is_empty());
    if name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
        return Err(DomainError::invalid(format!("a session's name has at most {MAX_NAME} characters")));
    }
    let (pairs, key_bytes, value_bytes) = MAX_METADATA;
    if request.metadata.len() > pairs
        || request.metadata.iter().any(|(key, value)| key.len() > key_bytes || value.len() > value_bytes)
    {
        return Err(DomainError::invalid(format!(
            "metadata has at most {pairs} pairs, keys of {key_bytes} and values of {value_bytes} bytes"
        )));
    }
    let defaults = spec::default_limits(profile);
    let memory_bytes = match &request.memory {
        None => defaults.memory_bytes,
        Some(size) => size
            .bytes()
            .ok_or_else(|| DomainError::invalid("memory is a number of bytes, or text such as \"512m\" or \"2g\""))?,
    };
    let cpus = request.cpus.unwrap_or(defaults.cpus);
    let pids_limit = request.pids_limit.unwrap_or(defaults.pids_limit);
    if !(MIN_MEMORY..=settings.max_memory).contains(&memory_bytes) {
        return Err(DomainError::invalid(format!(
            "memory is from {} to {} MiB here",
            MIN_MEMORY >> 20,
            settings.max_memory >> 20
        )));
    }
    if !(cpus.is_finite() && cpus >= 0.1 && cpus <= settings.max_cpus) {
        return Err(DomainError::invalid(format!("cpus is from 0.1 to {} here", settings.max_cpus)));
    }
    if !(MIN_PIDS..=settings.max_pids).contains(&pids_limit) {
        return Err(DomainError::invalid(format!("pids_limit is from {MIN_PIDS} to {} here", settings.max_pids)));
    }
    Ok(ValidSession {
        name,
        profile,
        template,
        limits: Limits { memory_bytes, cpus, pids_limit },
        metadata: request.metadata,
    })
}

/// Checks a request for a command.
pub fn command(request: RunCommand, settings: &SessionSettings) -> Result<ValidCommand, DomainError> {
    if request.tty {
        return Err(not_yet("running a command on a terminal"));
    }
    if request.command.trim().is_empty() {
        return Err(DomainError::invalid("the command is empty"));
    }
    if request.command.len() > MAX_COMMAND_BYTES {
        let detail = format!(
            "the command has {} bytes, at most {MAX_COMMAND_BYTES} are possible; write it to a file and run that",
            request.command.len()
        );
        return Err(DomainError::new(ErrorCode::TooLarge, detail));
    }
    let no_nul = |text: &str| !text.contains('\0');
    if !no_nul(&request.command) {
        return Err(DomainError::invalid("the command contains a NUL byte, which no process can be given"));
    }
    if request.cwd.as_ref().is_some_and(|cwd| cwd.is_empty() || cwd.len() > MAX_CWD || !no_nul(cwd)) {
        return Err(DomainError::invalid("cwd is a path of 1 to 4096 bytes without NUL"));
    }
    let (variables, bytes) = MAX_ENV;
    if request.env.len() > variables
        || request.env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > bytes
    {
        return Err(DomainError::invalid(format!("env has at most {variables} variables and {bytes} bytes")));
    }
    if request.env.iter().any(|(name, value)| name.is_empty() || name.contains('=') || !no_nul(name) || !no_nul(value))
    {
        return Err(DomainError::invalid("names in env are not empty and have no `=`; nothing in env has a NUL byte"));
    }
    let longest = settings.max_command.as_secs_f64();
    let seconds = request.timeout_seconds.unwrap_or(longest);
    if !(seconds.is_finite() && seconds >= MIN_TIMEOUT && seconds <= longest) {
        return Err(DomainError::invalid(format!("timeout_seconds is from {MIN_TIMEOUT} to {longest}")));
    }
    Ok(ValidCommand {
        command: request.command,
        cwd: request.cwd,
        env: request.env,
        split: request.split,
        limit: Duration::from_secs_f64(seconds),
    })
}
