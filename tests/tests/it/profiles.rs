//! The two golden settings, as the engine has them and as the sandbox feels them.

use glassbox_shared::session::{CreateSession, Profile};
use glassbox_tests::{Session, TestServer, docker, hardened, open};
use serde_json::{Value, json};

/// `null`, nothing, or an empty list or map.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn words(value: &Value) -> Vec<String> {
    let mut words: Vec<String> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(|word| word.trim_start_matches("CAP_").to_owned()))
        .collect();
    words.sort();
    words
}

/// Starts small programs until that is refused, at most 200; says how many.
const SPAWN: &str = "import os
pids = []
try:
    while len(pids) < 200: pids.append(os.posix_spawn(\"/bin/sleep\", [\"sleep\", \"60\"], {}))
except BlockingIOError: pass
for pid in pids: os.kill(pid, 9)
print(len(pids))";

/// What both profiles have in common, whatever was asked for.
fn assert_closed(container: &Value, server: &TestServer, session: &Session) {
    let host = &container["HostConfig"];
    assert_eq!(host["Runtime"], "runsc");
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["IpcMode"], "private");
    assert_eq!(host["LogConfig"]["Type"], "none");
    assert_eq!(host["Init"], true);
    assert_eq!(host["Privileged"], false);
    assert_eq!(words(&host["CapDrop"]), ["ALL"]);
    assert!(
        words(&host["SecurityOpt"])
            .iter()
            .any(|option| option.starts_with("no-new-privileges") && !option.ends_with("false"))
    );
    assert_eq!(host["MemorySwap"], host["Memory"], "no swap beyond the memory");
    for closed in [
        "Binds",
        "Devices",
        "DeviceRequests",
        "VolumesFrom",
        "Links",
        "PortBindings",
        "ExtraHosts",
        "GroupAdd",
        "DeviceCgroupRules",
    ] {
        assert!(is_empty(&host[closed]), "{closed}: {}", host[closed]);
    }
    for shared in ["PidMode", "UTSMode", "UsernsMode"] {
        assert_ne!(host[shared], "host", "{shared}");
    }
    assert_ne!(host["RestartPolicy"]["Name"], "always");
    assert!(container["NetworkSettings"]["Ports"].as_object().is_none_or(serde_json::Map::is_empty));
    assert_eq!(container["Config"]["Labels"][docker::INSTANCE], server.instance());
    assert_eq!(container["Config"]["Labels"][docker::SESSION], session.id().as_str());
    assert_eq!(container["Config"]["Labels"][docker::KIND], "sandbox");

    let mounts = container["Mounts"].as_array().expect("mounts");
    assert_eq!(mounts.len(), 2, "the helper and the workspace, nothing else: {mounts:?}");
    for mount in mounts {
        assert_eq!(mount["Type"], "volume", "never a path of the host: {mount}");
        let volume = docker::inspect(mount["Name"].as_str().expect("a name"));
        assert_eq!(volume["Driver"], "local");
        assert!(
            volume["Labels"][docker::KIND].is_string() && volume["Labels"][docker::INSTANCE].is_string(),
            "ours: {volume}"
        );
        if volume["Labels"][docker::KIND] == "workspace" {
            assert_eq!(volume["Labels"][docker::INSTANCE], server.instance());
            assert_eq!(volume["Labels"][docker::SESSION], session.id().as_str());
            assert_eq!(mount["RW"], true);
            assert!(is_empty(&volume["Options"]), "{volume}");
        } else {
            assert_eq!(volume["Labels"][docker::KIND], "helper");
            // The host's own kernel keeps it read-only: gVisor alone does not (see below).
            assert_eq!(volume["Options"]["o"], "bind,ro", "{volume}");
            let filled = docker::inspect(volume["Name"].as_str().expect("a name").trim_end_matches("-sealed"));
            assert_eq!(filled["Labels"][docker::KIND], "helper");
            assert_eq!(volume["Options"]["device"], filled["Mountpoint"], "of another volume of ours and nothing else");
            assert_eq!(mount["RW"], false, "the helper cannot be changed from inside");
        }
    }
}

/// What both feel like from inside.
async fn assert_feels_closed(session: &Session) {
    assert!(session.sh("dmesg").await.contains("gVisor"), "its kernel is gVisor");
    assert_eq!(
        session.sh("ls /sys/class/net 2>/dev/null | grep -v '^lo$' || true").await,
        "",
        "no network but the loopback"
    );
    let connect =
        "timeout 10 python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)' 2>/dev/null; echo $?";
    assert_ne!(session.sh(connect).await, "0\n");
    assert_ne!(session.sh("timeout 10 getent hosts example.com; echo $?").await, "0\n");
    assert_eq!(
        session.sh("ls /dev | grep -E '^(sd|vd|nvme|loop|kvm|mem|kmsg)' || true").await,
        "",
        "no devices of the host"
    );
    assert_eq!(session.sh("hostname").await, "sandbox\n");
}

#[tokio::test]
async fn a_hardened_sandbox_is_what_the_golden_file_says() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let container = docker::inspect(&docker::container_of(session.id().as_str()));
    assert_closed(&container, &server, &session);
    let host = &container["HostConfig"];
    assert_eq!(container["Config"]["User"], "1000:1000");
    assert_eq!(host["ReadonlyRootfs"], true);
    assert!(is_empty(&host["CapAdd"]), "no capability at all: {}", host["CapAdd"]);
    assert_eq!(host["Memory"], 256 << 20);
    assert_eq!(host["NanoCpus"], 1_000_000_000);
    assert_eq!(host["PidsLimit"], 384);
    let nproc = host["Ulimits"]
        .as_array()
        .expect("limits")
        .iter()
        .find(|limit| limit["Name"] == "nproc")
        .expect("a process limit");
    assert_eq!((&nproc["Soft"], &nproc["Hard"]), (&json!(64), &json!(64)));
    assert_eq!(host["Tmpfs"].as_object().expect("tmpfs").keys().collect::<Vec<_>>(), ["/tmp"]);

    assert_feels_closed(&session).await;
    assert_eq!(session.sh("id -u; id -g; pwd; echo $HOME").await, "1000\n1000\n/workspace\n/tmp\n");
    assert_eq!(
        session
            .sh("grep -h '^Cap\\(Eff\\|Prm\\|Bnd\\):' /proc/self/status | tr -d '\\t'")
            .await
            .matches("0000000000000000")
            .count(),
        3
    );
    for place in ["/x", "/usr/x", "/etc/x", "/root/x", "/.glassbox/x"] {
        assert_eq!(session.sh(&format!("touch {place} 2>/dev/null || echo refused")).await, "refused\n", "{place}");
    }
    assert_eq!(
        session.sh("echo written > file && cat file && echo also > /tmp/file && cat /tmp/file").await,
        "written\nalso\n"
    );
    let full = session
        .sh("head -c 80000000 /dev/zero > /tmp/big 2>/dev/null || echo full; stat -c %s /tmp/big; rm /tmp/big")
        .await;
    let size: u64 = full.lines().last().expect("a size").parse().expect("a number");
    assert!(full.starts_with("full\n") && size <= 64 << 20, "/tmp holds 64 MB and no more: {full}");
    let spawned = session.sh(&format!("python3 -c '{SPAWN}'")).await;
    let count: u32 = spawned.trim().parse().expect("a number");
    assert!((20..=64).contains(&count), "forks are refused from about 64 on: {count}");
    assert_eq!(session.sh("echo alive").await, "alive\n", "a refused fork ends no sandbox");
}

#[tokio::test]
async fn an_open_sandbox_is_what_the_golden_file_says() {
    let (server, agent) = TestServer::with_agent().await;
    let session =
        agent.create_session(CreateSession { profile: Some(Profile::Open), ..CreateSession::default() }).await;
    let container = docker::inspect(&docker::container_of(session.id().as_str()));
    assert_closed(&container, &server, &session);
    let host = &container["HostConfig"];
    assert_eq!(container["Config"]["User"], "0:0");
    assert_eq!(host["ReadonlyRootfs"], false);
    assert_eq!(words(&host["CapAdd"]), ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]);
    assert_eq!(host["Memory"], 2_u64 << 30);
    assert_eq!(host["NanoCpus"], 2_000_000_000_u64);
    assert_eq!(host["PidsLimit"], 512);
    assert!(is_empty(&host["Tmpfs"]));

    assert_feels_closed(&session).await;
    assert_eq!(session.sh("id -u; pwd; echo $HOME").await, "0\n/root\n/root\n");
    assert_eq!(session.sh("touch /x /usr/x && echo writable").await, "writable\n");
    // As installing packages does.
    assert_eq!(session.sh("touch f && chown 1000:1000 f && chmod 4755 f && stat -c '%u %a' f").await, "1000 4755\n");
    for beyond in
        ["mount -t tmpfs none /mnt", "mknod /tmp/d b 8 0; head -c 1 /tmp/d", "hostname other", "date -s 2001-01-01"]
    {
        assert_eq!(session.sh(&format!("{beyond} >/dev/null 2>&1 || echo refused")).await, "refused\n", "{beyond}");
    }
}

#[tokio::test]
async fn sizes_are_as_asked_for_and_nothing_else_can_be_asked_for() {
    let (server, agent) = TestServer::with_agent().await;
    let asked: CreateSession = serde_json::from_value(
        json!({"persistent": true, "memory": "300m", "cpus": 0.5, "pids_limit": 256, "name": "small"}),
    )
    .expect("a request");
    let session = agent.create_session(asked).await;
    let container = docker::inspect(&docker::container_of(session.id().as_str()));
    assert_closed(&container, &server, &session);
    let host = &container["HostConfig"];
    assert_eq!(
        (&host["Memory"], &host["NanoCpus"], &host["PidsLimit"]),
        (&json!(300 << 20), &json!(500_000_000), &json!(256))
    );
    let limits = session.view().await.limits;
    assert_eq!((limits.memory_bytes, limits.pids_limit), (300 << 20, 256));
    for wish in ["runtime", "user", "network", "mounts", "privileged", "image"] {
        let refused = agent.post("/v1/sessions", &json!({"persistent": true, wish: "x"})).await.refusal();
        assert_eq!(refused.status, 422, "{wish}");
    }
}

// Every sandbox of the machine runs the same helper. (gVisor has refused to write to it and emptied it all the same.)
#[tokio::test]
async fn the_helper_cannot_be_changed_from_inside_by_anyone_in_any_way() {
    let (_server, agent) = TestServer::with_agent().await;
    let bystander = agent.create_session(hardened()).await;
    let helper = "/.glassbox/glassbox-inside";
    let size = bystander.sh(&format!("stat -c %s {helper}")).await;
    for profile in [hardened(), open()] {
        let session = agent.create_session(profile).await;
        for attempt in [
            format!("(echo x > {helper})"),
            format!("(echo x >> {helper})"),
            format!("truncate -s 7 {helper}"),
            format!("printf x | dd of={helper} conv=notrunc"),
            format!("chmod 777 {helper}"),
            format!("chown 1000 {helper}"),
            format!("rm -f {helper}"),
            format!("mv {helper} /.glassbox/other"),
            format!("ln {helper} /.glassbox/other"),
            "touch /.glassbox/other".to_owned(),
            "mount -o remount,rw /.glassbox".to_owned(),
        ] {
            assert_eq!(session.sh(&format!("{attempt} 2>/dev/null || echo refused")).await, "refused\n", "{attempt}");
            assert_eq!(bystander.sh(&format!("stat -c %s {helper}")).await, size, "after {attempt}");
        }
    }
}

#[tokio::test]
async fn each_session_has_a_workspace_of_its_own() {
    let (_server, agent) = TestServer::with_agent().await;
    let (first, second) = (agent.create_session(open()).await, agent.create_session(open()).await);
    first.sh("echo secret > file").await;
    assert_eq!(second.sh("ls -A | grep -c '^file$' || true").await, "0\n");
    assert_eq!(first.sh("cat file").await, "secret\n");
}
