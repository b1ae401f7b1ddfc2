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
//!
//! A name may be taken by a volume without our labels: it is not ours to touch, and must not keep every sandbox from
//! starting, so the next name is taken.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{
    ListVolumesOptionsBuilder, RemoveVolumeOptions, StartContainerOptions, UploadToContainerOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use rand::Rng as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use tracing::{debug, info, warn};

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

/// Names that are tried, one after the other. Each that is taken means that an engine died in the one moment that
/// matters, or that somebody made a volume under our name.
const MOST_NAMES: usize = 5;

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
}

impl Binary {
    /// Begins the names of its volumes.
    fn stem(&self) -> String {
        format!("glassbox-helper-{}", &self.checksum[..16])
    }

    /// The names that its volume may have, in the order of trying.
    fn names(&self) -> impl Iterator<Item = String> {
        let stem = self.stem();
        (1..=MOST_NAMES).map(move |number| if number == 1 { stem.clone() } else { format!("{stem}-{number}") })
    }
}

/// Ends the name of the volume that sandboxes mount.
const SEALED: &str = "-sealed";

/// Where the helper is.
#[derive(Debug, Clone)]
struct Place {
    /// The volume that was filled.
    volume: String,
    /// Its [`MADE`] label.
    made: String,
}

impl Place {
    /// The volume that sandboxes mount.
    fn sealed(&self) -> String {
        format!("{}{SEALED}", self.volume)
    }
}

/// Owns the helper's volumes.
pub(super) struct Helper {
    path: PathBuf,
    binary: OnceCell<Binary>,
    /// The place that was found good.
    verified: Mutex<Option<Place>>,
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
        if let Some(sealed) = self.good(engine).await? {
            return Ok(sealed);
        }
        let _turn = self.turn.acquire().await.expect("our semaphore is never closed");
        // Whoever had the turn before may have done it.
        if let Some(sealed) = self.good(engine).await? {
            return Ok(sealed);
        }
        for name in binary.names() {
            match put_in_place(engine, config, binary, &name).await? {
                Ok(place) => {
                    let sealed = place.sealed();
                    info!(volume = sealed, "the helper is in place");
                    *self.lock() = Some(place);
                    tidy(engine, config, &binary.stem()).await;
                    return Ok(sealed);
                }
                Err(Taken(name)) => {
                    warn!(
                        name,
                        "a volume has the helper's name and is not ours, so another name is taken; see `docker volume inspect`"
                    );
                }
            }
        }
        let stem = binary.stem();
        Err(RuntimeError::NoHelper(format!(
            "all of its {MOST_NAMES} names are taken by volumes that are not ours; remove them (`docker volume ls --filter name={stem}`)"
        )))
    }

    /// The volume that sandboxes mount, if it was found good and is still there.
    async fn good(&self, engine: &Engine) -> Result<Option<String>, RuntimeError> {
        let Some(place) = self.lock().clone() else { return Ok(None) };
        for name in [&place.volume, &place.sealed()] {
            let found = if_there(engine.call(LOOK, |docker| async move { docker.inspect_volume(name).await }).await)?;
            if found.is_none_or(|volume| volume.labels.get(MADE) != Some(&place.made)) {
                return Ok(None);
            }
        }
        Ok(Some(place.sealed()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Place>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A volume of this name is there and cannot be ours.
struct Taken(String);

/// Makes, fills and seals the volume of this name, as far as that is not done yet.
async fn put_in_place(
    engine: &Engine,
    config: &DockerConfig,
    binary: &Binary,
    name: &str,
) -> Result<Result<Place, Taken>, RuntimeError> {
    let request = request(config, name.to_owned(), format!("{:016x}", rand::rng().random::<u64>()));
    let mut volume = engine.make_volume(MAKE, request).await?;
    let Some(made) = volume.labels.remove(MADE) else { return Ok(Err(Taken(name.to_owned()))) };
    let place = Place { volume: name.to_owned(), made };
    fill(engine, config, binary, &place).await?;
    Ok(seal(engine, config, &place, &volume.mountpoint).await?.map(|()| place))
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
    Ok(Binary { bytes, checksum })
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

/// Makes the volume that sandboxes mount, or finds it: a read-only bind of the filled one, which the engine keeps in
/// `folder`. One of an earlier filling is replaced, unless a sandbox still uses it: then the name is taken.
async fn seal(
    engine: &Engine,
    config: &DockerConfig,
    place: &Place,
    folder: &str,
) -> Result<Result<(), Taken>, RuntimeError> {
    let name = &place.sealed();
    let options = [("type", "none"), ("o", "bind,ro"), ("device", folder)];
    let options: HashMap<String, String> =
        options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let is_right = |volume: &Volume| volume.labels.get(MADE) == Some(&place.made) && volume.options == options;
    let found = if_there(engine.call(LOOK, |docker| async move { docker.inspect_volume(name).await }).await)?;
    if let Some(found) = found {
        if is_right(&found) {
            return Ok(Ok(()));
        }
        if found.labels.get(labels::KIND).is_none_or(|kind| kind != "helper") {
            return Ok(Err(Taken(name.clone())));
        }
        let removed = engine
            .call(TIDY, |docker| async move { docker.remove_volume(name, None::<RemoveVolumeOptions>).await })
            .await;
        match removed {
            Ok(()) => {}
            Err(failure) if failure.is_missing() => {}
            Err(failure) if failure.status() == Some(409) => return Ok(Err(Taken(name.clone()))),
            Err(failure) => return Err(failure.into()),
        }
    }
    let request = VolumeCreateRequest {
        driver: Some("local".to_owned()),
        driver_opts: Some(options.clone()),
        ..request(config, name.clone(), place.made.clone())
    };
    let volume = engine.make_volume(MAKE, request).await?;
    // Two servers may do this at once: the engine then gives the second one what the first one made.
    Ok(if is_right(&volume) { Ok(()) } else { Err(Taken(name.clone())) })
}

/// Puts the binary into the volume, unless it is there, and verifies it.
async fn fill(engine: &Engine, config: &DockerConfig, binary: &Binary, place: &Place) -> Result<(), RuntimeError> {
    // One for each instance: what a crash left behind is found under this name, and replaced.
    let container = format!("glassbox-helper-fill-{}", config.instance);
    let brought = format!("new-{:016x}", rand::rng().random::<u64>());
    let body = create_body(&settings(config, binary, place, &brought));
    containers::create(engine, &config.instance, &container, &config.helper_image, body).await?;
    let filled = fill_in(engine, &container, binary, &brought).await;
    containers::discard(engine, &config.instance, &container).await;
    filled
}

async fn fill_in(engine: &Engine, container: &str, binary: &Binary, brought: &str) -> Result<(), RuntimeError> {
    let archive = bollard::body_full(archive(brought, &binary.bytes));
    let place = UploadToContainerOptionsBuilder::default().path(helper_directory()).build();
    let brought_it = engine
        .call(UPLOAD, |docker| async move { docker.upload_to_container(container, Some(place), archive).await })
        .await;
    if let Err(failure) = &brought_it {
        // Another server that fills the volume at this moment may have removed our file while it was being written.
        debug!(?failure, "the helper could not be brought; perhaps somebody else has brought it");
    }
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
        _ if brought_it.is_err() => brought_it.map_err(RuntimeError::from),
        EXIT_NOT_GVISOR => Err(RuntimeError::NoGvisor),
        _ => Err(RuntimeError::NoHelper(format!("its volume could not be filled (exit code {code})"))),
    }
}

/// The filling sandbox: as closed as the hardened profile, and root, as the volume is root's.
fn settings(config: &DockerConfig, binary: &Binary, place: &Place, brought: &str) -> ContainerSettings {
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
            volume: place.volume.clone(),
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
        if base.starts_with(keep) {
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
