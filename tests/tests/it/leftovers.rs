//! What sessions cost comes back when they end.

use std::time::Duration;

use glassbox_tests::{TestServer, docker, eventually, hardened, open, repeats};

/// Sessions made and ended; a tenth in CI.
const SESSIONS: usize = 300;
/// Made at the same time.
const AT_ONCE: usize = 2;
/// Files and sockets that a server may keep: idle connections to the engine and to this client, log files closing.
const SLACK: usize = 16;
/// Until everything is back.
const LIMIT: Duration = Duration::from_secs(90);

/// Open files of a process.
fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn sessions_made_and_ended_leave_nothing() {
    let (server, agent) = TestServer::with_agent().await;
    // One first, so that what is made once and kept is there.
    let first = agent.create_session(hardened()).await;
    first.sh("true").await;
    first.delete().await.success().expect("ended");
    let (pid, instance) = (server.process().pid(), server.instance());
    let (files, memory) = (open_files(pid), server.process().resident_bytes());

    let mut containers = Vec::new();
    for round in 0..repeats(SESSIONS) / AT_ONCE {
        let made = (0..AT_ONCE).map(|number| {
            let request = if (round + number) % 2 == 0 { open() } else { hardened() };
            agent.create_session(request)
        });
        for session in futures_util::future::join_all(made).await {
            let id =
                docker::inspect(&docker::container_of(session.id().as_str()))["Id"].as_str().expect("an id").to_owned();
            assert!(
                !docker::host_processes_of(&id).is_empty(),
                "its processes can be seen, so their absence means something"
            );
            containers.push(id);
            session.run("sleep 970 & seq 1 100000; sleep 971").await.wrote("\n100000\n").await;
            session.delete().await.success().expect("ended");
            assert_eq!(
                docker::containers_of(session.id().as_str()),
                Vec::<String>::new(),
                "gone when the answer comes"
            );
            assert_eq!(agent.get(&session.path("")).await.status, 404);
        }
    }
    assert_eq!(docker::workspaces(&instance), Vec::<String>::new(), "no workspace is left");
    assert_eq!(docker::containers(&instance), Vec::<String>::new(), "no container is left");
    eventually("no process of theirs is left on the host", LIMIT, async || {
        containers.iter().all(|id| docker::host_processes_of(id).is_empty()).then_some(())
    })
    .await;
    eventually("the server's open files are back at the start level", LIMIT, async || {
        (open_files(pid) <= files + SLACK).then_some(())
    })
    .await;
    println!(
        "open files: {files} before, {} after; memory: {} and {} MiB",
        open_files(pid),
        memory >> 20,
        server.process().resident_bytes() >> 20
    );
    let health: serde_json::Value = agent.get("/healthz").await.ok().expect("healthy");
    assert_eq!(health["active_sessions"], 0);
}
