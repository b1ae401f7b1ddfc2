//! Our settings in the engine's words.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
    ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};

use crate::runtime::spec::ContainerSettings;

/// An engine's numbers are signed; none of ours comes near their end.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What to send for `settings`. Everything that an engine would take from the image or from its own defaults, and that
/// matters, is said outright.
pub(super) fn create_body(settings: &ContainerSettings) -> ContainerCreateBody {
    let mounts = settings.mounts.iter().map(|mount| Mount {
        typ: Some(MountType::VOLUME),
        source: Some(mount.volume.clone()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        volume_options: Some(MountVolumeOptions { no_copy: Some(!mount.copy_from_image), ..Default::default() }),
        ..Default::default()
    });
    let ulimits = settings.process_limits.iter().map(|limit| ResourcesUlimits {
        name: Some(limit.name.clone()),
        soft: Some(signed(limit.value)),
        hard: Some(signed(limit.value)),
    });
    let host_config = HostConfig {
        runtime: Some(settings.runtime.clone()),
        init: Some(settings.init),
        network_mode: Some(settings.network.clone()),
        ipc_mode: Some(settings.ipc.clone()),
        log_config: Some(HostConfigLogConfig { typ: Some(settings.log_driver.clone()), config: None }),
        readonly_rootfs: Some(settings.read_only_root),
        tmpfs: Some(settings.tmpfs.clone().into_iter().collect()),
        mounts: Some(mounts.collect()),
        cap_drop: Some(settings.capabilities_dropped.clone()),
        cap_add: Some(settings.capabilities_added.clone()),
        security_opt: Some(settings.security_options.clone()),
        privileged: Some(false),
        memory: Some(signed(settings.memory_bytes)),
        // Memory and swap together: no swap.
        memory_swap: Some(signed(settings.memory_bytes)),
        shm_size: Some(signed(settings.shared_memory_bytes)),
        nano_cpus: Some(signed(settings.nano_cpus)),
        pids_limit: Some(i64::from(settings.pids_limit)),
        ulimits: Some(ulimits.collect()),
        // A death must be seen and told, not papered over; and the dead container tells its cause.
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
        auto_remove: Some(false),
        ..Default::default()
    };
    ContainerCreateBody {
        image: Some(settings.image.clone()),
        // The argument list as entry point, so that an image's own is not put before it.
        entrypoint: Some(settings.argv.clone()),
        cmd: Some(Vec::new()),
        user: Some(settings.user.clone()),
        working_dir: Some(settings.working_dir.clone()),
        env: Some(settings.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        hostname: Some(settings.hostname.clone()),
        network_disabled: Some(true),
        // An image's health check would run commands that nobody asked for.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..Default::default() }),
        labels: Some(settings.labels.clone().into_iter().collect::<HashMap<_, _>>()),
        tty: Some(false),
        open_stdin: Some(false),
        host_config: Some(host_config),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use glassbox_shared::session::Profile;
    use serde_json::json;

    use super::*;
    use crate::runtime::spec::settings;
    use crate::runtime::spec::tests::example;

    #[test]
    fn the_engine_is_told_every_setting_of_the_hardened_profile() {
        let body = create_body(&settings(&example(Profile::Hardened), "instance-1", "helper"));
        let body = serde_json::to_value(body).expect("plain data");
        assert_eq!(
            body,
            json!({
                "Image": "sandbox-base:latest",
                "Entrypoint": ["sleep", "infinity"],
                "Cmd": [],
                "User": "1000:1000",
                "WorkingDir": "/workspace",
                "Env": ["HOME=/tmp", "PYTHONUSERBASE=/workspace/.local"],
                "Hostname": "sandbox",
                "NetworkDisabled": true,
                "Healthcheck": {"Test": ["NONE"]},
                "Tty": false,
                "OpenStdin": false,
                "Labels": {
                    "glassbox.instance": "instance-1",
                    "glassbox.kind": "sandbox",
                    "glassbox.session": "sbx_example",
                    "glassbox.tenant": "tenant-1",
                },
                "HostConfig": {
                    "Runtime": "runsc",
                    "Init": true,
                    "NetworkMode": "none",
                    "IpcMode": "private",
                    "LogConfig": {"Type": "none"},
                    "ReadonlyRootfs": true,
                    "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=64m,mode=1777"},
                    "Mounts": [
                        {
                            "Type": "volume",
                            "Source": "helper",
                            "Target": "/.glassbox",
                            "ReadOnly": true,
                            "VolumeOptions": {"NoCopy": true},
                        },
                        {
                            "Type": "volume",
                            "Source": "glassbox-ws-example",
                            "Target": "/workspace",
                            "ReadOnly": false,
                            "VolumeOptions": {"NoCopy": false},
                        },
                    ],
                    "CapDrop": ["ALL"],
                    "CapAdd": [],
                    "SecurityOpt": ["no-new-privileges:true"],
                    "Privileged": false,
                    "Memory": 268_435_456,
                    "MemorySwap": 268_435_456,
                    "ShmSize": 67_108_864,
                    "NanoCpus": 1_000_000_000,
                    "PidsLimit": 384,
                    "Ulimits": [{"Name": "nproc", "Soft": 64, "Hard": 64}],
                    "RestartPolicy": {"Name": "no"},
                    "AutoRemove": false,
                },
            })
        );
    }
}
