//! How the helper gets into sandboxes: a volume that holds it, named by its content, filled once, mounted read-only.
//!
//! A volume cannot be made and filled in one step, so being there proves nothing: a crash may lie between. Once in a
//! server's life, a throw-away sandbox looks inside: it takes over the binary that was put beside the place, unless the
//! right one is there already, and checks the outcome. Servers that do this at the same time do not disturb each other:
//! each brings a file of its own name, and the last step is a rename to the same content.
//!
//! Sandboxes do not mount that volume but a second one, which is a read-only bind of it. A read-only mount alone is not
//! enough: under gVisor 2024-07 root in a sandbox is told "Read-only file system" when it opens a file there for
//! writing, yet the truncation has already reached the host, and the helper of every sandbox would be empty. Through
//! the second volume the host's own kernel refuses.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{
    ListVolumesOptionsBuilder, RemoveVolumeOptions, StartContainerOptions, UploadToContainerOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use rand::Rng as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use tracing::{debug, info};

use super::body::create_body;
use super::client::{Deadline, Engine, Failure, if_there};
use super::{DockerConfig, containers};
use crate::runtime::spec::{ContainerSettings, RUNTIME, VolumeMount, helper_directory};
use crate::runtime::{RuntimeError, labels};

/// Names the helper where it lies somewhere unusual.
pub const HELPER_VARIABLE: &str = "GLASSBOX_HELPER";

/// A label with a random value for each volume that is made: who found that volume good knows it again by this. (The
/// engine's own time of creation is the folder's change time, and changes with it.)
const MADE: &str = "glassbox.made";

/// A volume is looked at in milliseconds.
const LOOK: Deadline = Deadline::ask("looking at the helper's volume", 15);
/// A volume is made in milliseconds.
const MAKE: Deadline = Deadline::make("making the helper's volume", 30);
/// Two megabytes, written by the engine itself.
const UPLOAD: Deadline = Deadline::make("bringing the helper to the engine", 30);
/// As any sandbox.
const START: Deadline = Deadline::make("starting the sandbox that fills the helper's volume", 60);
/// It computes a checksum of two megabytes.
const FINISH: Deadline = Deadline::make("filling the helper's volume", 60);
/// Old volumes: not urgent, tried again next time.
const TIDY: Deadline = Deadline::remove("removing helpers of other versions", 15);

/// A helper larger than this is not one: ours is below 2 MB.
const LARGEST_HELPER: u64 = 64 << 20;

/// Memory of the filling sandbox: gVisor needs about 30 MB at rest.
const FILL_MEMORY: u64 = 256 << 20;
/// Processes and sentry threads of the filling sandbox, as for any other.
const FILL_PIDS: u32 = 384;

/// The filling sandbox found that it is not under gVisor.
const EXIT_NOT_GVISOR: i64 = 9;

/// Runs in the filling sandbox: `$1` is the checksum, `$2` the name under which we brought the binary. A server that
/// does the same at this time may have removed our file: then its own has taken the place before.
const FILL: &str = r#"
good() { [ "$(sha256sum "$1" 2>/dev/null | cut -c1-64)" = "$2" ]; }
dmesg 2>/dev/null | grep -q gVisor || grep -q '^Linux version 4\.4\.0 ' /proc/version || exit 9
cd "$3" || exit 4
good glassbox-inside "$1" || { good "$2" "$1" && chmod 755 "$2" && mv -f "$2" glassbox-inside; }
rm -f new-*
good glassbox-inside "$1" && [ -x glassbox-inside ] || exit 3
"#;

/// Where the helper of this server lies: where [`HELPER_VARIABLE`] says, else in the build folder beside the executable,
/// beside the executable itself, or where packages put it.
pub fn find_helper() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(HELPER_VARIABLE) {
        return Some(PathBuf::from(path));
    }
    let executable = std::env::current_exe().ok()?;
    let folder = executable.parent()?;
    let name = "glassbox-inside";
    let places = [
        // target/debug/glassbox, then target/debug/deps/a-test. Before the executable's own folder: there cargo puts a
        // helper for the host's tests, which is not static.
        folder.join("../helper").join(name),
        folder.join("../../helper").join(name),
        folder.join(name),
        Path::new("/usr/lib/glassbox").join(name),
    ];
    places.into_iter().find(|place| place.is_file())
}

/// The helper's binary, read once.
struct Binary {
    bytes: Bytes,
    checksum: String,
    volume: String,
}

impl Binary {
    /// The volume that sandboxes mount.
    fn sealed(&self) -> String {
        format!("{}{SEALED}", self.volume)
    }
}

/// Ends the name of the volume that sandboxes mount.
const SEALED: &str = "-sealed";

/// Owns the helper's volumes.
pub(super) struct Helper {
    path: PathBuf,
    binary: OnceCell<Binary>,
    /// The [`MADE`] label of the volume that was found good.
    verified: Mutex<Option<String>>,
    /// One filling at a time.
    turn: Semaphore,
}

impl std::fmt::Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helper").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Helper {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, binary: OnceCell::new(), verified: Mutex::new(None), turn: Semaphore::new(1) }
    }

    /// The volume's name, once it is sure to hold the helper. When it was before, this costs one look (2 ms): somebody
    /// may have removed it meanwhile, and the engine would silently mount an empty one.
    pub(super) async fn volume(&self, engine: &Engine, config: &DockerConfig) -> Result<String, RuntimeError> {
        let binary = self.binary.get_or_try_init(|| read(&self.path)).await?;
        if self.is_good(engine, binary).await? {
            return Ok(binary.sealed());
        }
        let _turn = self.turn.acquire().await.expect("our semaphore is never closed");
        // Whoever had the turn before may have done it.
        if !self.is_good(engine, binary).await? {
            let (made, place) = make_volume(engine, config, binary).await?;
            fill(engine, config, binary).await?;
            seal(engine, config, binary, &made, &place).await?;
            info!(volume = binary.sealed(), "the helper is in place");
            *self.lock() = Some(made);
            tidy(engine, config, &binary.volume).await;
        }
        Ok(binary.sealed())
    }

    async fn is_good(&self, engine: &Engine, binary: &Binary) -> Result<bool, RuntimeError> {
        let Some(verified) = self.lock().clone() else { return Ok(false) };
        for name in [&binary.volume, &binary.sealed()] {
            let found = if_there(engine.call(LOOK, |docker| async move { docker.inspect_volume(name).await }).await)?;
            if found.is_none_or(|volume| volume.labels.get(MADE) != Some(&verified)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(path: &Path) -> Result<Binary, RuntimeError> {
    let say = |error: std::io::Error| {
        RuntimeError::NoHelper(format!("{}: {error}; run `make setup`, or set {HELPER_VARIABLE}", path.display()))
    };
    let size = tokio::fs::metadata(path).await.map_err(say)?.len();
    if size == 0 || size > LARGEST_HELPER {
        return Err(RuntimeError::NoHelper(format!("{} has {size} bytes, which no helper has", path.display())));
    }
    let bytes = Bytes::from(tokio::fs::read(path).await.map_err(say)?);
    let checksum: String =
        Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let volume = format!("glassbox-helper-{}", &checksum[..16]);
    Ok(Binary { bytes, checksum, volume })
}

fn request(config: &DockerConfig, name: String, made: String) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(name),
        labels: Some(HashMap::from([
            (labels::INSTANCE.to_owned(), config.instance.clone()),
            (labels::KIND.to_owned(), "helper".to_owned()),
            (MADE.to_owned(), made),
        ])),
        ..Default::default()
    }
}

fn not_ours(name: &str) -> RuntimeError {
    RuntimeError::NoHelper(format!("there is a volume {name} that is not ours; remove it (`docker volume rm {name}`)"))
}

/// Makes the volume, or finds it; says which one it is, and where the engine keeps it.
async fn make_volume(
    engine: &Engine,
    config: &DockerConfig,
    binary: &Binary,
) -> Result<(String, String), RuntimeError> {
    let request = request(config, binary.volume.clone(), format!("{:016x}", rand::rng().random::<u64>()));
    let mut volume = engine.call(MAKE, |docker| async move { docker.create_volume(request).await }).await?;
    // Without it, it was not made here: an engine makes a volume when a container names one that is not there.
    let made = volume.labels.remove(MADE).ok_or_else(|| not_ours(&binary.volume))?;
    Ok((made, volume.mountpoint))
}

/// Makes the volume that sandboxes mount, or finds it: a read-only bind of the filled one. One of an earlier filling is
/// replaced; where a sandbox still uses that, the engine refuses, and says so.
async fn seal(
    engine: &Engine,
    config: &DockerConfig,
    binary: &Binary,
    made: &str,
    place: &str,
) -> Result<(), RuntimeError> {
    let name = &binary.sealed();
    let options = HashMap::from([("type", "none"), ("o", "bind,ro"), ("device", place)]);
    let options: HashMap<String, String> =
        options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let found = if_there(engine.call(LOOK, |docker| async move { docker.inspect_volume(name).await }).await)?;
    if let Some(found) = found {
        let is_ours = found.labels.get(labels::KIND).is_some_and(|kind| kind == "helper");
        if !is_ours {
            return Err(not_ours(name));
        }
        if found.labels.get(MADE).map(String::as_str) == Some(made) && found.options == options {
            return Ok(());
        }
        engine
            .call(TIDY, |docker| async move { docker.remove_volume(name, None::<RemoveVolumeOptions>).await })
            .await?;
    }
    let request = VolumeCreateRequest {
        driver: Some("local".to_owned()),
        driver_opts: Some(options.clone()),
        ..request(config, name.clone(), made.to_owned())
    };
    let volume = engine.call(MAKE, |docker| async move { docker.create_volume(request).await }).await?;
    // Two servers may do this at once: the engine then gives the second one what the first one made.
    if volume.options == options { Ok(()) } else { Err(not_ours(name)) }
}

/// Puts the binary into the volume, unless it is there, and verifies it.
async fn fill(engine: &Engine, config: &DockerConfig, binary: &Binary) -> Result<(), RuntimeError> {
    // One for each instance: what a crash left behind is found under this name, and replaced.
    let container = format!("glassbox-helper-fill-{}", config.instance);
    let brought = format!("new-{:016x}", rand::rng().random::<u64>());
    let body = create_body(&settings(config, binary, &brought));
    containers::create(engine, &config.instance, &container, &config.helper_image, body).await?;
    let filled = fill_in(engine, &container, binary, &brought).await;
    containers::discard(engine, &config.instance, &container).await;
    filled
}

async fn fill_in(engine: &Engine, container: &str, binary: &Binary, brought: &str) -> Result<(), RuntimeError> {
    let archive = bollard::body_full(archive(brought, &binary.bytes));
    let place = UploadToContainerOptionsBuilder::default().path(helper_directory()).build();
    engine
        .call(UPLOAD, |docker| async move { docker.upload_to_container(container, Some(place), archive).await })
        .await?;
    engine
        .call(START, |docker| async move { docker.start_container(container, None::<StartContainerOptions>).await })
        .await?;
    let until = WaitContainerOptionsBuilder::default().condition("not-running").build();
    let waited = engine
        .call(FINISH, |docker| async move {
            Box::pin(docker.wait_container(container, Some(until))).next().await.transpose()
        })
        .await;
    let code = match waited {
        Ok(Some(answer)) => answer.status_code,
        Ok(None) => return Err(RuntimeError::NoHelper("the sandbox that fills its volume vanished".to_owned())),
        Err(Failure::Engine(bollard::errors::Error::DockerContainerWaitError { code, .. })) => code,
        Err(failure) => return Err(failure.into()),
    };
    debug!(code, "the filling sandbox ended");
    match code {
        0 => Ok(()),
        EXIT_NOT_GVISOR => Err(RuntimeError::NoGvisor),
        _ => Err(RuntimeError::NoHelper(format!("its volume could not be filled (exit code {code})"))),
    }
}

/// The filling sandbox: as closed as the hardened profile, and root, as the volume is root's.
fn settings(config: &DockerConfig, binary: &Binary, brought: &str) -> ContainerSettings {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    ContainerSettings {
        runtime: RUNTIME.to_owned(),
        image: config.helper_image.clone(),
        argv: text(&["sh", "-c", FILL, "fill", &binary.checksum, brought, helper_directory()]),
        init: false,
        user: "0:0".to_owned(),
        working_dir: "/".to_owned(),
        env: BTreeMap::new(),
        hostname: "sandbox".to_owned(),
        network: "none".to_owned(),
        ipc: "private".to_owned(),
        log_driver: "none".to_owned(),
        read_only_root: true,
        tmpfs: BTreeMap::new(),
        mounts: vec![VolumeMount {
            volume: binary.volume.clone(),
            target: helper_directory().to_owned(),
            read_only: false,
            copy_from_image: false,
        }],
        capabilities_dropped: text(&["ALL"]),
        capabilities_added: Vec::new(),
        security_options: text(&["no-new-privileges:true"]),
        memory_bytes: FILL_MEMORY,
        shared_memory_bytes: 1 << 20,
        nano_cpus: 1_000_000_000,
        pids_limit: FILL_PIDS,
        process_limits: Vec::new(),
        labels: BTreeMap::from([
            (labels::INSTANCE.to_owned(), config.instance.clone()),
            (labels::KIND.to_owned(), "helper".to_owned()),
        ]),
    }
}

/// A tar archive with one file (POSIX.1-1988 ustar; numbers in octal).
fn archive(name: &str, content: &[u8]) -> Bytes {
    const BLOCK: usize = 512;
    let mut header = [0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000755\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(136, b"00000000000\0");
    put(156, b"0");
    put(257, b"ustar\x0000");
    // The checksum is taken with its own field full of spaces.
    put(148, b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = Vec::with_capacity(content.len() + 4 * BLOCK);
    archive.extend_from_slice(&header);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    Bytes::from(archive)
}

/// Removes this instance's helpers of other versions. Those in use refuse, and stay: of each pair the one that sandboxes
/// mount goes first, because the engine does not know that it stands on the other.
async fn tidy(engine: &Engine, config: &DockerConfig, keep: &str) {
    let ours = vec![format!("{}={}", labels::INSTANCE, config.instance), format!("{}=helper", labels::KIND)];
    let filters = HashMap::from([("label", ours)]);
    let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
    let Ok(found) = engine.call(TIDY, |docker| async move { docker.list_volumes(Some(options)).await }).await else {
        return;
    };
    for volume in found.volumes.unwrap_or_default() {
        let base = volume.name.strip_suffix(SEALED).unwrap_or(&volume.name);
        if base == keep {
            continue;
        }
        for name in [&format!("{base}{SEALED}"), base] {
            let removed = engine
                .call(TIDY, |docker| async move { docker.remove_volume(name, None::<RemoveVolumeOptions>).await })
                .await;
            debug!(name, removed = removed.is_ok(), "a helper of another version");
            if if_there(removed).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use glassbox_shared::helper::HELPER_PATH;

    use super::*;

    #[test]
    fn the_archive_is_one_that_tar_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let content = vec![7_u8; 1_000];
        let path = folder.path().join("a.tar");
        std::fs::write(&path, archive("new-1", &content)).expect("written");
        let listed = std::process::Command::new("tar")
            .arg("-xf")
            .arg(&path)
            .arg("-C")
            .arg(folder.path())
            .status()
            .expect("tar runs");
        assert!(listed.success());
        assert_eq!(std::fs::read(folder.path().join("new-1")).expect("unpacked"), content);
    }

    #[tokio::test]
    async fn a_helper_that_is_not_there_is_told_with_its_path() {
        let error = read(Path::new("/nowhere/glassbox-inside")).await.err().expect("refused");
        assert!(matches!(error, RuntimeError::NoHelper(text) if text.contains("/nowhere/glassbox-inside")));
    }

    #[test]
    fn the_script_names_the_helper_as_sandboxes_will() {
        assert_eq!(HELPER_PATH, format!("{}/glassbox-inside", helper_directory()));
    }
}
