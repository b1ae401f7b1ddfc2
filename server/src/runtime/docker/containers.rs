//! Making and removing containers, safely: names that are taken, creations that fail half-way, removals that take long.

use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::client::{Deadline, Engine, Failure};
use super::inspect;
use crate::runtime::{RuntimeError, labels};

/// Makes a file system and copies an image's folder into a new volume: a second, many on a busy disk.
const CREATE: Deadline = Deadline::make("creating a sandbox", 60);
/// Half a second of CPU; up to ten at a time on two CPUs.
const START: Deadline = Deadline::make("starting a sandbox", 60);
/// One try at killing and removing. The engine goes on when we stop waiting.
const REMOVE: Deadline = Deadline::remove("removing a sandbox", 30);

/// Until a removal is given up. After a fork bomb the engine takes about 100 s.
const REMOVED_WITHIN: Duration = Duration::from_mins(2);
/// Between looks at what is being removed, at first and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long a failed start waits for its own tidying up; what is left then is found by its label later.
const DISCARD: Duration = Duration::from_secs(20);

/// Creates a container and makes sure that it will run under gVisor. A container of ours that has the name is removed.
pub(super) async fn create(
    engine: &Engine,
    instance: &str,
    name: &str,
    image: &str,
    body: ContainerCreateBody,
) -> Result<(), RuntimeError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let body = body.clone();
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created =
            engine.call(CREATE, |docker| async move { docker.create_container(Some(options), body).await }).await;
        match created {
            Ok(created) => {
                for warning in created.warnings {
                    debug!(name, warning, "the engine warns");
                }
                break;
            }
            Err(failure) if failure.status() == Some(409) && tries == 1 => remove(engine, instance, name).await?,
            Err(failure @ Failure::Late(_)) => {
                // It may come yet.
                discard(engine, instance, name).await;
                return Err(failure.into());
            }
            Err(failure) => {
                return Err(match RuntimeError::from(failure) {
                    RuntimeError::NoImage(_) => RuntimeError::NoImage(image.to_owned()),
                    other => other,
                });
            }
        }
    }
    // `runsc` or nothing, and before anything runs: what was asked for is not always what an engine does.
    let under_gvisor = match inspect::container(engine, name).await {
        Ok(Some(found)) if inspect::is_under_gvisor(&found) => Ok(()),
        Ok(Some(_)) => Err(RuntimeError::NoGvisor),
        Ok(None) => Err(RuntimeError::Gone(format!("the sandbox {name} vanished as soon as it was made"))),
        Err(error) => Err(error),
    };
    if under_gvisor.is_err() {
        discard(engine, instance, name).await;
    }
    under_gvisor
}

/// Starts a container that was created; removes it when that fails.
pub(super) async fn start(engine: &Engine, instance: &str, name: &str) -> Result<(), RuntimeError> {
    let started = engine
        .call(START, |docker| async move { docker.start_container(name, None::<StartContainerOptions>).await })
        .await;
    if let Err(failure) = started {
        discard(engine, instance, name).await;
        return Err(failure.into());
    }
    Ok(())
}

/// Removes what a failed start left behind, as far as that is quickly possible.
pub(super) async fn discard(engine: &Engine, instance: &str, name: &str) {
    match timeout(DISCARD, remove(engine, instance, name)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(name, %error, "could not remove what a failed start left"),
        Err(_) => warn!(name, "removing what a failed start left takes long; going on without waiting"),
    }
}

/// Kills and removes a container, and returns once it is gone.
pub(super) async fn remove(engine: &Engine, instance: &str, name: &str) -> Result<(), RuntimeError> {
    let give_up = Instant::now() + REMOVED_WITHIN;
    let mut pause = SHORTEST_PAUSE;
    let mut refusal = None;
    let mut in_progress = false;
    loop {
        match inspect::container(engine, name).await {
            Ok(None) => return Ok(()),
            Ok(Some(found)) if !inspect::is_ours(&found, instance) => {
                return Err(RuntimeError::Engine(format!(
                    "the container {name} does not carry the label {}={instance}",
                    labels::INSTANCE
                )));
            }
            Ok(Some(_)) => {
                if !in_progress {
                    // With its anonymous volumes, which an image may declare and which carry no label of ours. Named
                    // ones stay.
                    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
                    let removed = engine
                        .call(REMOVE, |docker| async move { docker.remove_container(name, Some(options)).await })
                        .await;
                    match removed {
                        Ok(()) => continue,
                        Err(failure) if failure.is_missing() => return Ok(()),
                        // "removal … is already in progress"
                        Err(failure) if failure.status() == Some(409) => in_progress = true,
                        Err(failure) => refusal = Some(RuntimeError::from(failure)),
                    }
                }
            }
            Err(error) => refusal = Some(error),
        }
        if Instant::now() + pause >= give_up {
            return Err(refusal.unwrap_or(RuntimeError::Timeout { what: REMOVE.what, limit: REMOVED_WITHIN }));
        }
        sleep(pause).await;
        // A removal in progress may fail: ask again now and then.
        in_progress &= pause < LONGEST_PAUSE;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
