//! The engine's side of a session: names, making and taking down.

use glassbox_shared::session::{DeathCause, RestartView, SessionState};

use super::settings::SessionSettings;
use crate::clock;
use crate::runtime::{Runtime, RuntimeError, SandboxSpec};
use crate::store::SessionRecord;

/// A container's name: instance, session and generation, so that a new one never meets an old one.
pub fn container_name(instance: &str, session: &str, generation: u64) -> String {
    format!("glassbox-{instance}-{session}-{generation}")
}

/// A workspace's volume name.
pub fn workspace_name(instance: &str, session: &str) -> String {
    format!("glassbox-{instance}-{session}")
}

/// The session's id within a container's name of ours.
pub fn session_of(container: &str, instance: &str) -> Option<String> {
    let rest = container.strip_prefix("glassbox-")?.strip_prefix(instance)?.strip_prefix('-')?;
    rest.rsplit_once('-').map(|(session, _)| session.to_owned())
}

/// What to start for a session as it stands.
pub fn spec(record: &SessionRecord, container: &str, settings: &SessionSettings) -> SandboxSpec {
    SandboxSpec {
        container: container.to_owned(),
        workspace: record.workspace.clone(),
        workspace_dir: settings.workspace_dir(record.profile).to_owned(),
        image: record.template.clone(),
        profile: record.profile,
        limits: record.limits,
        tenant: record.tenant.clone(),
        session: record.id.to_string(),
    }
}

/// Most restarts of a sandbox that are remembered: the last ones tell all that matters.
const MAX_RESTARTS: usize = 20;

/// Its sandbox is gone and will be made again. Each is later than the one before, whatever the clock says: readers are told
/// of those that are later than the last that they know.
pub fn begin_restart(record: &mut SessionRecord, cause: Option<DeathCause>) {
    let latest = record.restarts.last().map_or(0.0, |last| last.at.next_up());
    record.restarts.push(RestartView {
        at: clock::now().max(latest),
        cause,
        kept: "all files in the workspace".into(),
        lost: "running commands, background processes, and files outside the workspace".into(),
    });
    let surplus = record.restarts.len().saturating_sub(MAX_RESTARTS);
    record.restarts.drain(..surplus);
    record.state = SessionState::Restarting;
}

/// Makes workspace and sandbox. A failure leaves what was made so far; the caller takes it down.
pub async fn make(runtime: &Runtime, spec: &SandboxSpec) -> Result<(), RuntimeError> {
    runtime.prepare_helper().await?;
    runtime.create_workspace(&spec.workspace, &spec.tenant, &spec.session).await?;
    runtime.start(spec).await
}

/// Starts the next container on the workspace that is there. `Ok(false)`: the workspace is gone.
pub async fn remake(runtime: &Runtime, spec: &SandboxSpec) -> Result<bool, RuntimeError> {
    if !runtime.has_workspace(&spec.workspace).await? {
        return Ok(false);
    }
    runtime.prepare_helper().await?;
    runtime.start(spec).await?;
    Ok(true)
}

/// Removes container and workspace, verified.
pub async fn take_down(runtime: &Runtime, container: Option<&str>, workspace: &str) -> Result<(), RuntimeError> {
    if let Some(container) = container {
        runtime.remove(container).await?;
    }
    runtime.remove_workspace(workspace).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_name_tells_its_session() {
        let name = container_name("inst", "sbx_aaaaaaaaaaaaaaaaaaaa", 3);
        assert_eq!(session_of(&name, "inst").as_deref(), Some("sbx_aaaaaaaaaaaaaaaaaaaa"));
        assert_eq!(session_of(&name, "other"), None);
    }

    #[test]
    fn restarts_are_told_apart_by_their_time_also_when_the_clock_was_set_back() {
        let mut record = crate::store::tests::session();
        record.restarts.clear();
        begin_restart(&mut record, Some(DeathCause::Unknown));
        record.restarts[0].at += 3_600.0;
        for _ in 0..2 * MAX_RESTARTS {
            begin_restart(&mut record, None);
        }
        assert!(record.restarts.is_sorted_by(|one, next| one.at < next.at), "{:?}", record.restarts);
        assert_eq!((record.restarts.len(), record.state), (MAX_RESTARTS, SessionState::Restarting));
    }
}
