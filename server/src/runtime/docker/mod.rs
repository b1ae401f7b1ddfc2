//! Docker: the one place that names bollard. Written against engines from 20.10 (API 1.41) on.
//!
//! | file | owns |
//! | --- | --- |
//! | `client.rs` | the connection, deadlines, the bound on calls at once, errors |
//! | `body.rs` | settings in the engine's words |
//! | `containers.rs` | making and removing containers |
//! | `exec.rs` | programs' streams, and their end when a container dies |
//! | `inspect.rs` | how a container is, and whose |
//! | `events.rs` | what the engine reports |
//! | `health.rs` | whether the engine answers |
//! | `helper.rs` | the volume with the helper |
//!
//! Deliberately not used: the archive API on running containers (it sees nothing of gVisor's files), `top` (it shows
//! the host's processes), exec exit codes, TTY execs, and resizing: all of that is the helper's.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions};
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::DeathCause;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::spec::settings;
use super::{
    ContainerRuntime, ContainerStatus, EVENT_QUEUE, EngineInfo, ExecSpec, ExecStream, Inventory, Owned, RuntimeError,
    RuntimeEvent, SandboxSpec, labels, names,
};

mod body;
mod client;
mod containers;
mod events;
mod exec;
mod health;
mod helper;
mod inspect;

use client::{Deadline, Engine, if_there};
pub use helper::{HELPER_VARIABLE, find_helper};

/// The engine looks at its own state, and at its storage driver.
const INFO: Deadline = Deadline::ask("asking the engine who it is", 15);
/// Milliseconds.
const LOOK_AT_IMAGE: Deadline = Deadline::ask("looking for an image", 15);
/// Milliseconds.
const LOOK_AT_VOLUME: Deadline = Deadline::ask("looking for a workspace", 15);
/// Milliseconds; more when the disk is busy.
const MAKE_VOLUME: Deadline = Deadline::make("making a workspace", 30);
/// Deletes every file of the workspace: a big one has hundreds of thousands.
const REMOVE_VOLUME: Deadline = Deadline::remove("removing a workspace", 60);
/// Hundreds of containers at most.
const LIST: Deadline = Deadline::ask("listing what is ours", 30);

/// A volume is in use for as long as its container's removal takes.
const VOLUME_REMOVED_WITHIN: Duration = Duration::from_mins(2);
/// Between tries.
const VOLUME_PAUSE: Duration = Duration::from_millis(500);

/// What a Docker runtime must know.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// The value of our instance label: which data directory owns what we make. Also part of a container's name.
    pub instance: String,
    /// The static helper binary; see [`find_helper`].
    pub helper_path: PathBuf,
    /// An image with a shell and coreutils, in which the helper's volume is filled; the default sandbox image.
    pub helper_image: String,
}

/// Sandboxes in Docker.
#[derive(Debug)]
pub struct DockerRuntime {
    config: DockerConfig,
    engine: Arc<Engine>,
    lives: Arc<exec::Lives>,
    helper: helper::Helper,
    listeners: broadcast::Sender<RuntimeEvent>,
    trouble: watch::Receiver<Option<EngineTrouble>>,
    /// Ends the tasks.
    _stop: DropGuard,
}

impl DockerRuntime {
    /// Takes the engine that `DOCKER_HOST` names, else the usual socket. Does not wait for it: an engine that is not
    /// there yet shows as [`RuntimeError::Unreachable`] in every call until it is. Must be called inside a tokio
    /// runtime.
    pub fn connect(config: DockerConfig) -> Result<Self, RuntimeError> {
        names::check_container(&format!("glassbox-helper-fill-{}", config.instance))?;
        names::check_image(&config.helper_image)?;
        let engine = Arc::new(Engine::new());
        let lives = Arc::<exec::Lives>::default();
        let (listeners, _) = broadcast::channel(EVENT_QUEUE);
        let stop = CancellationToken::new();
        let watch = events::Watch {
            engine: Arc::clone(&engine),
            lives: Arc::clone(&lives),
            instance: config.instance.clone(),
            listeners: listeners.clone(),
        };
        // Owned by the runtime: they end when `_stop` is dropped.
        tokio::spawn(watch.run(stop.clone()));
        let (trouble, known) = watch::channel(None);
        tokio::spawn(health::Pulse { engine: Arc::clone(&engine), trouble }.run(stop.clone()));
        let helper = helper::Helper::new(config.helper_path.clone());
        Ok(Self { config, engine, lives, helper, listeners, trouble: known, _stop: stop.drop_guard() })
    }

    /// The volume with this name, if it is there and ours.
    async fn workspace(&self, name: &str) -> Result<bool, RuntimeError> {
        names::check_container(name)?;
        let found = if_there(
            self.engine.call(LOOK_AT_VOLUME, |docker| async move { docker.inspect_volume(name).await }).await,
        )?;
        match found {
            None => Ok(false),
            Some(volume) => self.check_owner(name, &volume.labels).map(|()| true),
        }
    }

    fn check_owner(&self, name: &str, found: &HashMap<String, String>) -> Result<(), RuntimeError> {
        if found.get(labels::INSTANCE) == Some(&self.config.instance) {
            return Ok(());
        }
        Err(RuntimeError::Engine(format!(
            "the volume {name} does not carry the label {}={}",
            labels::INSTANCE,
            self.config.instance
        )))
    }

    fn our_label(&self) -> HashMap<&'static str, Vec<String>> {
        HashMap::from([("label", vec![format!("{}={}", labels::INSTANCE, self.config.instance)])])
    }
}

#[async_trait::async_trait]
impl ContainerRuntime for DockerRuntime {
    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        let info = self.engine.call(INFO, |docker| async move { docker.info().await }).await?;
        let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        Ok(EngineInfo { version: info.server_version.unwrap_or_default(), runtimes })
    }

    async fn prepare_helper(&self) -> Result<(), RuntimeError> {
        self.helper.volume(&self.engine, &self.config).await.map(|_| ())
    }

    async fn has_image(&self, image: &str) -> Result<bool, RuntimeError> {
        names::check_image(image)?;
        Ok(if_there(self.engine.call(LOOK_AT_IMAGE, |docker| async move { docker.inspect_image(image).await }).await)?
            .is_some())
    }

    async fn create_workspace(&self, name: &str, tenant: &str, session: &str) -> Result<(), RuntimeError> {
        names::check_container(name)?;
        names::check_label(tenant)?;
        names::check_label(session)?;
        let labels = [
            (labels::INSTANCE, self.config.instance.as_str()),
            (labels::KIND, "workspace"),
            (labels::TENANT, tenant),
            (labels::SESSION, session),
        ];
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(labels.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()),
            ..Default::default()
        };
        let volume = self.engine.make_volume(MAKE_VOLUME, request).await?;
        self.check_owner(name, &volume.labels)
    }

    async fn has_workspace(&self, name: &str) -> Result<bool, RuntimeError> {
        self.workspace(name).await
    }

    async fn remove_workspace(&self, name: &str) -> Result<(), RuntimeError> {
        let give_up = Instant::now() + VOLUME_REMOVED_WITHIN;
        loop {
            if !self.workspace(name).await? {
                return Ok(());
            }
            let removed =
                self.engine
                    .call(REMOVE_VOLUME, |docker| async move {
                        docker.remove_volume(name, None::<RemoveVolumeOptions>).await
                    })
                    .await;
            match removed {
                // Look again: only what is not there is removed.
                Ok(()) => {}
                Err(failure) if failure.is_missing() => return Ok(()),
                // In use: its container is still being removed.
                Err(failure) if failure.status() == Some(409) && Instant::now() < give_up => sleep(VOLUME_PAUSE).await,
                Err(failure) => return Err(failure.into()),
            }
            if Instant::now() >= give_up {
                return Err(RuntimeError::Timeout { what: REMOVE_VOLUME.what, limit: VOLUME_REMOVED_WITHIN });
            }
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), RuntimeError> {
        let name = spec.container.as_str();
        names::check_container(name)?;
        names::check_image(&spec.image)?;
        names::check_workspace_dir(&spec.workspace_dir)?;
        names::check_label(&spec.tenant)?;
        names::check_label(&spec.session)?;
        // An engine would make a missing volume, unlabelled and empty.
        let (helper_volume, there) =
            tokio::try_join!(self.helper.volume(&self.engine, &self.config), self.workspace(&spec.workspace))?;
        if !there {
            return Err(RuntimeError::Gone(format!("the workspace {} is gone", spec.workspace)));
        }
        let body = body::create_body(&settings(spec, &self.config.instance, &helper_volume));
        containers::create(&self.engine, &self.config.instance, name, &spec.image, body).await?;
        // Whatever had the name before is over.
        self.lives.ended(name);
        let _ = self.lives.of(name);
        let started = containers::start(&self.engine, &self.config.instance, name).await;
        if started.is_err() {
            self.lives.ended(name);
        }
        started
    }

    async fn remove(&self, container: &str) -> Result<(), RuntimeError> {
        names::check_container(container)?;
        let removed = containers::remove(&self.engine, &self.config.instance, container).await;
        if removed.is_ok() {
            self.lives.ended(container);
        }
        removed
    }

    async fn status(&self, container: &str) -> Result<ContainerStatus, RuntimeError> {
        names::check_container(container)?;
        let status = inspect::status(&self.engine, container).await?;
        if status != ContainerStatus::Running {
            self.lives.ended(container);
        }
        Ok(status)
    }

    async fn probe(&self, container: &str) -> Result<ContainerStatus, RuntimeError> {
        let status = self.status(container).await?;
        if status == ContainerStatus::Running && !exec::answers(&self.engine, &self.lives, container).await? {
            tracing::warn!(container, "the engine calls a sandbox running that has ended");
            self.lives.ended(container);
            return Ok(ContainerStatus::Dead(DeathCause::Unknown));
        }
        Ok(status)
    }

    async fn can_adopt(&self, container: &str) -> Result<bool, RuntimeError> {
        names::check_container(container)?;
        let Some(found) = inspect::container(&self.engine, container).await? else { return Ok(false) };
        // A server of another version speaks another language: its helper is in another volume.
        let helper = self.helper.volume(&self.engine, &self.config).await?;
        let is_right = inspect::is_ours(&found, &self.config.instance)
            && inspect::is_under_gvisor(&found)
            && found.mounts.is_some_and(|mounts| mounts.iter().any(|mount| mount.name.as_ref() == Some(&helper)));
        Ok(is_right && self.probe(container).await? == ContainerStatus::Running)
    }

    async fn exec(&self, container: &str, exec: &ExecSpec) -> Result<ExecStream, RuntimeError> {
        names::check_container(container)?;
        exec::exec(&self.engine, &self.lives, container, exec).await
    }

    async fn inventory(&self) -> Result<Inventory, RuntimeError> {
        let containers = ListContainersOptionsBuilder::default().all(true).filters(&self.our_label()).build();
        let volumes = ListVolumesOptionsBuilder::default().filters(&self.our_label()).build();
        let (containers, volumes) = tokio::try_join!(
            self.engine.call(LIST, |docker| async move { docker.list_containers(Some(containers)).await }),
            self.engine.call(LIST, |docker| async move { docker.list_volumes(Some(volumes)).await }),
        )?;
        let is_helper =
            |labels: &HashMap<String, String>| labels.get(labels::KIND).is_some_and(|kind| kind == "helper");
        let (mut sandboxes, mut filling) = (Vec::new(), Vec::new());
        for container in containers {
            let labels = container.labels.unwrap_or_default();
            let Some(name) = container.names.as_ref().and_then(|names| names.first()) else { continue };
            let kind = if is_helper(&labels) { &mut filling } else { &mut sandboxes };
            let name = name.trim_start_matches('/').to_owned();
            kind.push(Owned { name, labels: labels.into_iter().collect() });
        }
        let workspaces = volumes.volumes.unwrap_or_default().into_iter().filter_map(|volume| {
            (!is_helper(&volume.labels))
                .then(|| Owned { name: volume.name, labels: volume.labels.into_iter().collect() })
        });
        Ok(Inventory { containers: sandboxes, workspaces: workspaces.collect(), filling })
    }

    fn trouble(&self) -> watch::Receiver<Option<EngineTrouble>> {
        self.trouble.clone()
    }

    fn events(&self) -> broadcast::Receiver<RuntimeEvent> {
        self.listeners.subscribe()
    }
}
