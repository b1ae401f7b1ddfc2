//! Limits are told clearly, use up nothing, and hold nobody else up.

use std::time::Duration;

use glassbox_shared::command::{CommandState, MAX_COMMAND_BYTES, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::session::CreateSession;
use glassbox_tests::session::megabytes;
use glassbox_tests::{TestServer, docker, eventually, hardened, open};
use serde_json::{Value, json};

#[tokio::test]
async fn the_session_limit_is_the_tenants_own_and_a_place_is_free_again_after_an_end() {
    let server = TestServer::configure().env("GLASSBOX_MAX_SESSIONS", 2).start().await;
    let agent = server.agent().await;
    let first = agent.create_session(hardened()).await;
    agent.create_session(hardened()).await;
    let refused = agent.try_create_session(&hardened()).await.expect_err("two are the limit");
    assert_eq!((refused.status, refused.code()), (429, ErrorCode::SessionLimit));
    assert_eq!(refused.retry_after, None, "waiting does not help");
    server.other_operator().create_session(hardened()).await;
    first.delete().await.success().expect("ended");
    assert_eq!(first.delete().await.refusal().status, 404, "an ended session does not exist");
    agent.create_session(hardened()).await;
}

#[tokio::test]
async fn memory_that_is_used_up_is_503_with_nothing_started() {
    let server = TestServer::configure().env("GLASSBOX_MEMORY_TOTAL", "640m").start().await;
    let agent = server.agent().await;
    let large = agent.create_session(CreateSession { memory: Some(megabytes(512)), ..open() }).await;
    let refused = agent.try_create_session(&hardened()).await.expect_err("256 MiB are not free");
    assert_eq!((refused.status, refused.code()), (503, ErrorCode::NoCapacity));
    assert!(refused.retry_after.is_some());
    agent.create_session(CreateSession { memory: Some(megabytes(128)), ..hardened() }).await;
    assert_eq!(docker::containers(&server.instance()).len(), 2, "nothing was started for the refused one");
    large.delete().await.success().expect("ended");
    agent.create_session(hardened()).await;
}

#[tokio::test]
async fn the_command_limit_is_the_sessions_own_and_a_place_is_free_again_after_an_end() {
    let server = TestServer::configure().env("GLASSBOX_MAX_COMMANDS", 2).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let first = session.run("sleep 800").await;
    session.run("sleep 801").await;
    let refused = session
        .try_run(&RunCommand { command: "true".into(), ..RunCommand::default() })
        .await
        .expect_err("two are the limit");
    assert_eq!((refused.status, refused.code()), (429, ErrorCode::CommandLimit));
    agent.create_session(hardened()).await.sh("true").await;
    first.kill(0.5).await;
    session.sh("true").await;
    assert_eq!(session.view().await.commands_total, 3, "a refused command is none");
}

#[tokio::test]
async fn the_rate_is_the_tenants_own_and_wrong_keys_use_up_nothing() {
    let server = TestServer::configure().env("GLASSBOX_REQUESTS_PER_MINUTE", 20).start().await;
    let operator = server.operator();
    for _ in 0..50 {
        assert_eq!(operator.with_key("acme-wrong-key-0123456789").get("/v1/me").await.status, 401);
    }
    let mut refused = None;
    for _ in 0..60 {
        let answer = operator.get("/v1/me").await;
        if answer.status != 200 {
            refused = Some(answer.refusal());
            break;
        }
    }
    let refused = refused.expect("the rate is used up");
    assert_eq!((refused.status, refused.code()), (429, ErrorCode::RateLimited));
    let seconds: u64 = refused.retry_after.expect("when to come back").parse().expect("whole seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(server.other_operator().get("/v1/me").await.status, 200);
    assert_eq!(operator.get("/healthz").await.status, 200);
    eventually("it comes back by itself", Duration::from_mins(1), async || {
        (operator.get("/v1/me").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_body_of_the_wrong_shape_is_422_and_says_what_is_wrong() {
    let (_server, agent) = TestServer::with_agent().await;
    for (wrong, says) in [
        (json!({"persistent": true, "memroy": "1g"}), "memroy"),
        (json!({"persistent": true, "memory": "much"}), "memory"),
        (json!({"persistent": true, "memory": "1m"}), "memory"),
        (json!({"persistent": true, "memory": "9999g"}), "memory"),
        (json!({"persistent": true, "cpus": 0}), "cpus"),
        (json!({"persistent": true, "cpus": 1e9}), "cpus"),
        (json!({"persistent": true, "pids_limit": 1}), "pids_limit"),
        (json!({"persistent": true, "name": "x".repeat(81)}), "name"),
        (json!({"profile": "open", "persistent": false}), "persistent"),
        (json!({"profile": "wide open"}), "wide open"),
        (json!("text"), ""),
    ] {
        let refused = agent.post("/v1/sessions", &wrong).await.refusal();
        assert_eq!((refused.status, refused.code()), (422, ErrorCode::Invalid), "{wrong}: {refused}");
        assert!(refused.body.detail.contains(says), "{wrong}: {refused}");
    }
    let refused =
        agent.post("/v1/sessions", &json!({"persistent": true, "template": "busybox:latest"})).await.refusal();
    assert_eq!((refused.status, refused.code()), (400, ErrorCode::TemplateNotAllowed));
    for later in [
        json!({}),
        json!({"persistent": true, "egress": ["pypi"]}),
        json!({"persistent": true, "secrets": {"A": "12345678"}}),
        json!({"persistent": true, "snapshot_id": "x"}),
    ] {
        assert_eq!(agent.post("/v1/sessions", &later).await.refusal().code(), ErrorCode::NotImplemented, "{later}");
    }
    assert!(agent.sessions().await.is_empty(), "nothing was made of any of them");

    let session = agent.create_session(hardened()).await;
    for (wrong, says) in [
        (json!({}), "command"),
        (json!({"command": " \n"}), "empty"),
        (json!({"command": "a\u{0}b"}), "NUL"),
        (json!({"command": "true", "timeout_seconds": 0}), "timeout_seconds"),
        (json!({"command": "true", "timeout_seconds": 1e12}), "timeout_seconds"),
        (json!({"command": "true", "cwd": ""}), "cwd"),
        (json!({"command": "true", "env": {"A=B": "c"}}), "env"),
        (json!({"command": "true", "env": {"": "c"}}), "env"),
        (json!({"command": "true", "user": "root"}), "user"),
        (json!({"command": 7}), ""),
    ] {
        let refused = agent.post(&session.path("/commands"), &wrong).await.refusal();
        assert_eq!((refused.status, refused.code()), (422, ErrorCode::Invalid), "{wrong}: {refused}");
        assert!(refused.body.detail.contains(says), "{wrong}: {refused}");
    }
    assert_eq!(
        agent.post(&session.path("/commands"), &json!({"command": "top", "tty": true})).await.refusal().code(),
        ErrorCode::NotImplemented
    );
    assert_eq!(session.view().await.commands_total, 0);
}

#[tokio::test]
async fn what_is_too_large_is_413_and_the_largest_that_is_allowed_works() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let of_size = |bytes: usize| format!("echo {}", "x".repeat(bytes - 5));
    let largest = session.finish(&of_size(MAX_COMMAND_BYTES)).await;
    assert_eq!(largest.output.bytes.len(), MAX_COMMAND_BYTES - 5 + 1);
    for bytes in [MAX_COMMAND_BYTES + 1, 4 << 20] {
        let refused = agent.post(&session.path("/commands"), &json!({"command": of_size(bytes)})).await.refusal();
        assert_eq!((refused.status, refused.code()), (413, ErrorCode::TooLarge), "{bytes}");
    }
    let refused = agent
        .post("/v1/sessions", &json!({"persistent": true, "metadata": {"a": "x".repeat(4 << 20)}}))
        .await
        .refusal();
    assert_eq!(refused.status, 413);
}

#[tokio::test]
async fn unknown_routes_methods_and_ids_have_the_one_error_shape() {
    let (_server, agent) = TestServer::with_agent().await;
    for path in ["/v1", "/v1/nothing", "/v1/sessions/nonsense", "/v1/sessions/sbx_aaaaaaaaaaaaaaaaaaaa"] {
        assert_eq!(agent.get(path).await.refusal().status, 404, "{path}");
    }
    assert_eq!(
        agent.send(agent.request(reqwest::Method::PUT, "/v1/sessions")).await.refusal().code(),
        ErrorCode::MethodNotAllowed
    );
    let not_json = agent.request(reqwest::Method::POST, "/v1/sessions").body("persistent=true");
    assert_eq!(agent.send(not_json).await.refusal().code(), ErrorCode::Invalid);
}

#[tokio::test]
async fn an_unused_session_ends_by_itself_and_a_running_command_is_use() {
    let server = TestServer::configure().env("GLASSBOX_IDLE_SECONDS", 4).start().await;
    let agent = server.agent().await;
    let used = agent.create_session(hardened()).await;
    let command = used.run("sleep 20; echo still here").await;
    let unused = agent.create_session(hardened()).await;
    // Watching is not use, so only the list of all is looked at.
    let viewer = server.viewer_key().await;
    eventually("the unused one ends", Duration::from_mins(1), async || {
        (!viewer.sessions().await.iter().any(|session| session.session_id == *unused.id())).then_some(())
    })
    .await;
    assert_eq!(unused.seen_by(&viewer).delete().await.refusal().status, 403);
    assert_eq!(docker::containers_of(unused.id().as_str()), Vec::<String>::new(), "its sandbox is gone");
    let view: Vec<Value> =
        agent.get("/v1/sessions").await.json::<Value>()["sessions"].as_array().cloned().expect("a list");
    assert_eq!(view.len(), 1, "the used one lives");
    assert_eq!(command.finish().await.text(), "still here\n");
    eventually("then it ends as well", Duration::from_mins(1), async || {
        viewer.sessions().await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_command_has_a_longest_run_time() {
    let server = TestServer::configure().env("GLASSBOX_MAX_COMMAND_SECONDS", 2).start().await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let ended = session.run("sleep 802").await.ended().await;
    assert_eq!(ended.state, CommandState::TimedOut);
    assert!(session.processes("sleep 802").await.is_empty());
}
