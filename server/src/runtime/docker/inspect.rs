//! Looking at a container: does it live, and is it ours?

use bollard::models::{ContainerInspectResponse, ContainerState};
use bollard::query_parameters::InspectContainerOptions;
use glassbox_shared::session::DeathCause;

use super::client::{Deadline, Engine, if_there};
use crate::runtime::spec::RUNTIME;
use crate::runtime::{ContainerStatus, RuntimeError, labels};

/// A look takes 2 ms; an engine under load (a fork bomb's removal, ten starts) takes seconds.
const LOOK: Deadline = Deadline::ask("looking at a container", 15);

/// What the engine's own mark for "I lost track of it" looks like: it was restarted meanwhile.
const EXIT_LOST: i64 = 255;

/// The engine's whole description; `None`: there is no such container.
pub(super) async fn container(engine: &Engine, name: &str) -> Result<Option<ContainerInspectResponse>, RuntimeError> {
    if_there(
        engine
            .call(LOOK, |docker| async move { docker.inspect_container(name, None::<InspectContainerOptions>).await })
            .await,
    )
}

/// How a container is.
pub(super) async fn status(engine: &Engine, name: &str) -> Result<ContainerStatus, RuntimeError> {
    Ok(match container(engine, name).await? {
        None => ContainerStatus::Missing,
        Some(found) => found.state.as_ref().map_or(ContainerStatus::Dead(DeathCause::Unknown), from_state),
    })
}

/// Does it carry our instance's label?
pub(super) fn is_ours(found: &ContainerInspectResponse, instance: &str) -> bool {
    let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
    labels.and_then(|labels| labels.get(labels::INSTANCE)).is_some_and(|owner| owner == instance)
}

/// Does it run under gVisor?
pub(super) fn is_under_gvisor(found: &ContainerInspectResponse) -> bool {
    found.host_config.as_ref().and_then(|host| host.runtime.as_deref()) == Some(RUNTIME)
}

fn from_state(state: &ContainerState) -> ContainerStatus {
    if state.running == Some(true) {
        ContainerStatus::Running
    } else if state.oom_killed == Some(true) {
        ContainerStatus::Dead(DeathCause::Oom)
    } else if state.exit_code == Some(EXIT_LOST) {
        ContainerStatus::Dead(DeathCause::Unknown)
    } else {
        ContainerStatus::Dead(DeathCause::Exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(running: bool, oom: bool, exit: i64) -> ContainerStatus {
        from_state(&ContainerState {
            running: Some(running),
            oom_killed: Some(oom),
            exit_code: Some(exit),
            ..Default::default()
        })
    }

    #[test]
    fn a_death_has_the_cause_that_the_engine_knows() {
        assert_eq!(state(true, false, 0), ContainerStatus::Running);
        assert_eq!(state(false, true, 1), ContainerStatus::Dead(DeathCause::Oom));
        assert_eq!(state(false, false, 137), ContainerStatus::Dead(DeathCause::Exit));
        assert_eq!(state(false, false, 255), ContainerStatus::Dead(DeathCause::Unknown));
    }
}
