//! The two golden container settings, as plain data: what a sandbox may see and use, whatever the engine is called.
//!
//! Each profile is written down once, here; `golden/*.json` is what a reviewer reads, and a test keeps both the same.
//! Nothing of a caller can widen them: a caller chooses a profile, an image and sizes, and that is all.

use std::collections::BTreeMap;

use glassbox_shared::helper::HELPER_PATH;
use glassbox_shared::session::{Limits, Profile};
use serde::Serialize;

use super::{SandboxSpec, labels};

/// The only runtime that is ever used: gVisor.
pub const RUNTIME: &str = "runsc";

/// Seconds without end, as PID 1 under an init that reaps orphans: the sandbox lives until it is removed.
const SLEEP: [&str; 2] = ["sleep", "infinity"];

/// The user of the hardened profile: not root, and the owner of `/workspace` in the image.
const HARDENED_USER: &str = "1000:1000";

/// `/tmp` of the hardened profile, promised by the airlock contract. It is memory, and counts as such: 64 MB of 256 MB.
/// Programs may be run from it (gVisor's `noexec` is no boundary anyway: the loader runs what it is given).
const HARDENED_TMP: &str = "rw,exec,nosuid,nodev,size=64m,mode=1777";

/// `/dev/shm`. Memory as well, and nobody can see it filling up: a small one.
const SHARED_MEMORY_BYTES: u64 = 64 << 20;

/// What installing packages as root needs, and nothing that reaches beyond the sandbox.
const OPEN_CAPABILITIES: [&str; 7] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL"];

/// Where a sandbox's workspace is unless its owner wants it elsewhere.
pub fn usual_workspace_dir(profile: Profile) -> &'static str {
    match profile {
        Profile::Open => "/root",
        Profile::Hardened => "/workspace",
    }
}

/// Threads of the sentry and its gofer that a pids limit counts beside the sandbox's own: 35 at rest (measured), more
/// when busy. Hitting the pids limit kills the whole sandbox (measured: 230 idle processes at a limit of 512); so it
/// stands well behind the limit that only refuses a fork.
const SENTRY_PIDS: u32 = 128;

/// Host threads allowed for ten processes of a hardened sandbox: twice what is needed (see below), as its limits are
/// tight and whoever lives there may well try.
const HARDENED_PIDS_PER_TEN_PROCESSES: u32 = 40;

/// The same for the open profile, where builds need every process they can have. Measured: an idle process takes 2.1
/// host threads, a thread of a process that exists at most 0.6; the limit counts both alike.
const OPEN_PIDS_PER_TEN_PROCESSES: u32 = 21;

/// Fewer processes than this, and an ordinary `make` or a pipeline fails.
const LEAST_PROCESSES: u32 = 16;

/// A volume of ours inside the sandbox. Nothing else is ever mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeMount {
    /// The volume's name; it must exist.
    pub volume: String,
    /// Where.
    pub target: String,
    /// Not writable.
    pub read_only: bool,
    /// While the volume is empty, it takes over what the image has at that place, owner included.
    pub copy_from_image: bool,
}

/// A resource limit of every process, soft and hard alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessLimit {
    /// As `setrlimit` calls it, in lower case.
    pub name: String,
    /// The value.
    pub value: u64,
}

/// Everything that an engine must be told about a container of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerSettings {
    /// Always [`RUNTIME`].
    pub runtime: String,
    /// Image.
    pub image: String,
    /// Program and arguments; the image's own are not used.
    pub argv: Vec<String>,
    /// A small init as PID 1 that reaps orphans.
    pub init: bool,
    /// User and group, by number.
    pub user: String,
    /// Where commands start.
    pub working_dir: String,
    /// Added to the image's environment.
    pub env: BTreeMap<String, String>,
    /// Host name inside.
    pub hostname: String,
    /// Network: none, always.
    pub network: String,
    /// IPC namespace.
    pub ipc: String,
    /// `none`: whoever writes to PID 1's stdout must not fill the host's disk.
    pub log_driver: String,
    /// The root file system cannot be written.
    pub read_only_root: bool,
    /// Memory file systems: place and options.
    pub tmpfs: BTreeMap<String, String>,
    /// Volumes.
    pub mounts: Vec<VolumeMount>,
    /// Capabilities taken away, then those given.
    pub capabilities_dropped: Vec<String>,
    /// Capabilities given back.
    pub capabilities_added: Vec<String>,
    /// Security options.
    pub security_options: Vec<String>,
    /// Memory; there is no swap beyond it.
    pub memory_bytes: u64,
    /// `/dev/shm`.
    pub shared_memory_bytes: u64,
    /// Billionths of a CPU.
    pub nano_cpus: u64,
    /// The engine's process limit; a backstop, as hitting it ends the whole sandbox.
    pub pids_limit: u32,
    /// Limits of each process.
    pub process_limits: Vec<ProcessLimit>,
    /// Our labels.
    pub labels: BTreeMap<String, String>,
}

/// What a profile may use unless asked otherwise.
pub fn default_limits(profile: Profile) -> Limits {
    match profile {
        Profile::Open => Limits { memory_bytes: 2 << 30, cpus: 2.0, pids_limit: 512 },
        Profile::Hardened => Limits { memory_bytes: 256 << 20, cpus: 1.0, pids_limit: 384 },
    }
}

/// Processes and threads that a user may have, with a given pids limit behind it: 64 of 384 hardened, 182 of 512 open.
/// A fork beyond it is refused and the sandbox lives on. (It binds root as well: ours has neither `SYS_ADMIN` nor
/// `SYS_RESOURCE`; measured.)
fn process_limit(profile: Profile, pids_limit: u32) -> u64 {
    let ten = match profile {
        Profile::Open => OPEN_PIDS_PER_TEN_PROCESSES,
        Profile::Hardened => HARDENED_PIDS_PER_TEN_PROCESSES,
    };
    u64::from((pids_limit.saturating_sub(SENTRY_PIDS).saturating_mul(10) / ten).max(LEAST_PROCESSES))
}

/// The settings of a sandbox of `instance`, with the helper's volume.
pub fn settings(spec: &SandboxSpec, instance: &str, helper_volume: &str) -> ContainerSettings {
    let hardened = spec.profile == Profile::Hardened;
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    ContainerSettings {
        runtime: RUNTIME.to_owned(),
        image: spec.image.clone(),
        argv: text(&SLEEP),
        init: true,
        user: if hardened { HARDENED_USER } else { "0:0" }.to_owned(),
        working_dir: spec.workspace_dir.clone(),
        env: if hardened {
            // pip, which cannot write to the system's folders, installs where files persist, as the airlock contract
            // says.
            pairs(&[("HOME", "/tmp"), ("PYTHONUSERBASE", "/workspace/.local")])
        } else {
            pairs(&[("HOME", "/root")])
        },
        hostname: "sandbox".to_owned(),
        network: "none".to_owned(),
        ipc: "private".to_owned(),
        log_driver: "none".to_owned(),
        read_only_root: hardened,
        tmpfs: if hardened { pairs(&[("/tmp", HARDENED_TMP)]) } else { BTreeMap::new() },
        mounts: vec![
            VolumeMount {
                volume: helper_volume.to_owned(),
                target: helper_directory().to_owned(),
                read_only: true,
                copy_from_image: false,
            },
            VolumeMount {
                volume: spec.workspace.clone(),
                target: spec.workspace_dir.clone(),
                read_only: false,
                copy_from_image: true,
            },
        ],
        capabilities_dropped: text(&["ALL"]),
        capabilities_added: if hardened { Vec::new() } else { text(&OPEN_CAPABILITIES) },
        security_options: text(&["no-new-privileges:true"]),
        memory_bytes: spec.limits.memory_bytes,
        shared_memory_bytes: SHARED_MEMORY_BYTES,
        nano_cpus: (spec.limits.cpus * 1e9).round().max(0.0) as u64,
        pids_limit: spec.limits.pids_limit,
        process_limits: vec![ProcessLimit {
            name: "nproc".to_owned(),
            value: process_limit(spec.profile, spec.limits.pids_limit),
        }],
        labels: pairs(&[
            (labels::INSTANCE, instance),
            (labels::KIND, "sandbox"),
            (labels::TENANT, &spec.tenant),
            (labels::SESSION, &spec.session),
        ]),
    }
}

/// The folder of [`HELPER_PATH`].
pub fn helper_directory() -> &'static str {
    HELPER_PATH.rsplit_once('/').map_or("/", |(directory, _)| directory)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sandbox as the golden files describe it.
    pub(crate) fn example(profile: Profile) -> SandboxSpec {
        SandboxSpec {
            container: "glassbox-sbx-example".to_owned(),
            workspace: "glassbox-ws-example".to_owned(),
            workspace_dir: usual_workspace_dir(profile).to_owned(),
            image: "sandbox-base:latest".to_owned(),
            profile,
            limits: default_limits(profile),
            tenant: "tenant-1".to_owned(),
            session: "sbx_example".to_owned(),
        }
    }

    fn assert_golden(profile: Profile, golden: &str) {
        let settings = settings(&example(profile), "instance-1", "glassbox-helper-0123456789abcdef");
        let json = serde_json::to_string_pretty(&settings).expect("plain data");
        assert_eq!(json, golden.trim_end(), "the profile differs from its golden file; is that wanted?");
    }

    #[test]
    fn the_open_profile_is_as_written_down() {
        assert_golden(Profile::Open, include_str!("golden/open.json"));
    }

    #[test]
    fn the_hardened_profile_is_as_written_down() {
        assert_golden(Profile::Hardened, include_str!("golden/hardened.json"));
    }

    #[test]
    fn a_refused_fork_always_comes_before_the_pids_limit() {
        assert_eq!(process_limit(Profile::Hardened, 384), 64);
        assert_eq!(process_limit(Profile::Open, 512), 182);
        for pids_limit in [192, 256, 384, 512, 1024, 65_536] {
            for profile in [Profile::Open, Profile::Hardened] {
                let worst = process_limit(profile, pids_limit) * 21 / 10 + 35;
                assert!(worst < u64::from(pids_limit), "{profile:?} {pids_limit}");
            }
        }
    }

    #[test]
    fn no_profile_has_a_network_a_privilege_or_another_runtime() {
        for profile in [Profile::Open, Profile::Hardened] {
            let settings = settings(&example(profile), "instance-1", "helper");
            assert_eq!(settings.runtime, "runsc");
            assert_eq!(settings.network, "none");
            assert_eq!(settings.log_driver, "none");
            assert_eq!(settings.capabilities_dropped, ["ALL"]);
            assert!(settings.mounts.iter().all(|mount| !mount.volume.starts_with('/')), "a host path");
            assert!(settings.mounts[0].read_only, "the helper must not be writable from inside");
        }
    }
}
