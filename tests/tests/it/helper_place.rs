//! The helper's volume when something is wrong in the engine.

use std::path::Path;

use glassbox_tests::engine::{Engine, Gvisor};
use glassbox_tests::helper::Variant;
use glassbox_tests::{TestServer, docker, hardened};

// An engine that is killed while it makes a volume comes back with one that has the name, and no labels.
#[tokio::test]
async fn a_volume_that_has_the_helpers_name_and_is_not_ours_is_left_alone_and_stops_nobody() {
    let variant = Variant::new();
    docker::run(&["volume", "create", variant.stem()]);
    let server = TestServer::configure().env("GLASSBOX_HELPER", variant.path().display()).start().await;
    let session = server.agent().await.create_session(hardened()).await;
    assert_eq!(session.sh("echo works").await, "works\n");
    let container = docker::inspect(&docker::container_of(session.id().as_str()));
    let mounts = container["Mounts"].to_string();
    assert!(mounts.contains(&format!("{}-2-sealed", variant.stem())), "{mounts}");
    let log = server.process().log();
    assert!(log.contains("another name is taken") && log.contains(variant.stem()), "an operator is told: {log}");
    let foreign = docker::inspect(variant.stem());
    assert!(foreign["Labels"].is_null(), "still not ours: {foreign}");
    let folder = Path::new(foreign["Mountpoint"].as_str().expect("a folder"));
    assert_eq!(std::fs::read_dir(folder).expect("listed").count(), 0, "nothing was put there");
    session.delete().await.success().expect("ended");
    drop(server);
}

// Somebody tidied up by hand while sandboxes ran.
#[tokio::test]
async fn a_helpers_volume_that_was_removed_and_came_back_empty_is_noticed() {
    let variant = Variant::new();
    let server = TestServer::configure().env("GLASSBOX_HELPER", variant.path().display()).start().await;
    let agent = server.agent().await;
    let first = agent.create_session(hardened()).await;
    assert_eq!(first.sh("echo works").await, "works\n");
    // The engine keeps what a sandbox uses, and does not know that it stands on the other.
    docker::run(&["volume", "rm", variant.stem()]);
    docker::run(&["volume", "create", variant.stem()]);
    let second = agent.create_session(hardened()).await;
    assert_eq!(second.sh("echo works").await, "works\n");
    first.delete().await.success().expect("ended");
    second.delete().await.success().expect("ended");
    drop(server);
}

// An engine that was started anew answers to making a volume that is there as if it had no labels, until it is asked
// about it.
#[tokio::test]
async fn an_engine_that_was_started_anew_has_the_helper_where_it_was() {
    let mut engine = Engine::start(Gvisor::Registered).await;
    let names = async |engine: &Engine| {
        let server = TestServer::configure().env("DOCKER_HOST", engine.host()).start().await;
        let session = server.agent().await.create_session(hardened()).await;
        assert_eq!(session.sh("echo works").await, "works\n");
        session.delete().await.success().expect("ended");
        let log = server.process().log();
        assert!(!log.contains("another name is taken"), "{log}");
        engine.docker(&["volume", "ls", "--quiet", "--filter", "label=glassbox.kind=helper"])
    };
    let before = names(&engine).await;
    engine.kill();
    engine.start_again().await;
    assert_eq!(names(&engine).await, before);
    engine.stop();
    engine.start_again().await;
    assert_eq!(names(&engine).await, before);
}
