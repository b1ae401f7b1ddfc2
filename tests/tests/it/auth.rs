//! Who may do what, from where: keys, roles, tenants, Host, Origin, and keys that stand where they must not.

use glassbox_shared::actor::Role;
use glassbox_shared::command::RunCommand;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{WatchFrom, close};
use glassbox_tests::viewer::Closed;
use glassbox_tests::{Client, Refusal, TestServer, Viewer, hardened};
use reqwest::Method;
use serde_json::json;

/// Every route that needs a key, with a body that is nonsense: the key is looked at first.
const ROUTES: [(&str, &str); 19] = [
    ("GET", "/v1/me"),
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/nonsense"),
    ("DELETE", "/v1/sessions/nonsense"),
    ("GET", "/v1/sessions/nonsense/commands?limit=nonsense"),
    ("POST", "/v1/sessions/nonsense/commands"),
    ("GET", "/v1/sessions/nonsense/commands/nonsense?wait=nonsense"),
    ("GET", "/v1/sessions/nonsense/commands/nonsense/output?from=nonsense"),
    ("POST", "/v1/sessions/nonsense/commands/nonsense/kill"),
    ("POST", "/v1/sessions/nonsense/commands/nonsense/signal"),
    ("GET", "/v1/history?limit=nonsense"),
    ("GET", "/v1/history/nonsense"),
    ("DELETE", "/v1/history/nonsense"),
    ("GET", "/v1/history/nonsense/timeline?limit=nonsense"),
    ("GET", "/v1/history/nonsense/commands/nonsense/output?from=nonsense"),
    ("GET", "/v1/search?limit=nonsense"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/keys"),
];

async fn ask(client: &Client, method: &str, path: &str, key: Option<&[u8]>) -> Refusal {
    let mut request = client.request(method.parse::<Method>().expect("a method"), path);
    if let Some(key) = key {
        request = request.header("x-api-key", reqwest::header::HeaderValue::from_bytes(key).expect("a header's value"));
    }
    if method == "POST" {
        request = request.header("content-type", "application/json").body("nonsense");
    }
    client.send(request).await.refusal()
}

#[tokio::test]
async fn an_unknown_or_missing_key_is_401_before_anything_else_is_looked_at() {
    let server = TestServer::start().await;
    let nobody = server.operator().without_key();
    for (method, path) in ROUTES {
        let keys: [Option<&[u8]>; 4] = [
            None,
            Some(b"wrong"),
            Some("schl\u{fc}ssel".as_bytes()),
            Some(b"asb_abcdefghij_0123456789012345678901234567890123456789012"),
        ];
        for key in keys {
            let refused = ask(&nobody, method, path, key).await;
            assert_eq!(
                (refused.status, refused.code()),
                (401, ErrorCode::Unauthorized),
                "{method} {path} with {key:?}"
            );
        }
    }
    let health: serde_json::Value = nobody.get("/healthz").await.ok().expect("needs no key");
    assert_eq!((health["status"].as_str(), health["active_sessions"].as_u64()), (Some("healthy"), Some(0)));

    let key = server.operator().key().expect("a key").to_owned();
    let bearer = nobody.request(Method::GET, "/v1/me").header("authorization", format!("Bearer {key}"));
    nobody.send(bearer).await.success().expect("a bearer is a key as well");
}

#[tokio::test]
async fn roles_may_do_what_the_table_says_and_no_more() {
    let (server, agent) = TestServer::with_agent().await;
    let (operator, viewer) = (server.operator(), server.viewer_key().await);
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo seen; sleep 700").await;
    command.wrote("seen").await;

    // A viewer sees everything of the tenant,
    assert_eq!(viewer.sessions().await.len(), 1);
    assert_eq!(session.seen_by(&viewer).commands().await.commands.len(), 1);
    command.seen_by(&viewer).wrote("seen").await;
    let mut socket = viewer.viewer().await;
    let stream = socket.watch(&command, WatchFrom::Offset(0));
    socket
        .until("output", std::time::Duration::from_secs(30), |heard| {
            (heard.streams[&stream].bytes == b"seen\n").then_some(())
        })
        .await;
    // and changes nothing.
    for (method, path) in [
        ("POST", "/v1/sessions".to_owned()),
        ("DELETE", session.path("")),
        ("POST", session.path("/commands")),
        ("POST", command.path("/kill")),
        ("POST", command.path("/signal")),
        ("GET", "/v1/keys".to_owned()),
        ("POST", "/v1/keys".to_owned()),
    ] {
        let refused = ask(&viewer, method, &path, None).await;
        assert_eq!((refused.status, refused.code()), (403, ErrorCode::Forbidden), "{method} {path}");
    }
    // An agent manages no keys.
    for method in ["GET", "POST"] {
        assert_eq!(ask(&agent, method, "/v1/keys", None).await.code(), ErrorCode::Forbidden);
    }
    // An operator watches an agent's session and acts only in sessions of humans; an agent likewise.
    let run = RunCommand { command: "true".into(), ..RunCommand::default() };
    let refused = session.seen_by(&operator).try_run(&run).await.expect_err("the agent is in control");
    assert_eq!((refused.status, refused.code()), (403, ErrorCode::NotInControl));
    let humans = operator.create_session(hardened()).await;
    assert_eq!(humans.sh("echo human").await, "human\n");
    let refused = humans.seen_by(&agent).try_run(&run).await.expect_err("the human is in control");
    assert_eq!(refused.code(), ErrorCode::NotInControl);
    assert_eq!(humans.seen_by(&agent).delete().await.refusal().code(), ErrorCode::NotInControl);
    session.seen_by(&operator).delete().await.success().expect("an operator ends any session of the tenant");
    // Nobody makes an admin by asking.
    assert!(operator.post("/v1/keys", &json!({"role": "admin"})).await.status >= 400);
}

#[tokio::test]
async fn nothing_crosses_a_tenant() {
    let (server, agent) = TestServer::with_agent().await;
    let stranger = server.other_operator();
    let session = agent.create_session(hardened()).await;
    let command = session.run("echo secret; sleep 701").await;
    command.wrote("secret").await;
    assert!(stranger.sessions().await.is_empty());
    for (method, path) in [
        ("GET", session.path("")),
        ("DELETE", session.path("")),
        ("GET", session.path("/commands")),
        ("GET", command.path("")),
        ("GET", command.path("/output")),
        ("GET", command.path("/log")),
    ] {
        let refused = ask(&stranger, method, &path, None).await;
        assert_eq!((refused.status, refused.code()), (403, ErrorCode::OtherTenant), "{method} {path}");
    }
    for rest in ["/kill", "/signal"] {
        let refused = stranger.post(&command.path(rest), &json!({"signal": "INT"})).await.refusal();
        assert!(matches!(refused.status, 403 | 422), "{refused}");
    }
    // Its command under a session of one's own does not exist.
    let own = stranger.create_session(hardened()).await;
    assert_eq!(own.command(command.id()).try_kill(None).await.expect_err("not here").status, 404);
    // On the live socket neither events nor output come through.
    let mut socket = stranger.viewer().await;
    let stream = socket.watch(&command, WatchFrom::Offset(0));
    let seen = socket.read_to_end(stream, std::time::Duration::from_secs(30)).await;
    let (code, _) = seen.error.expect("refused");
    assert!(matches!(code, ErrorCode::OtherTenant | ErrorCode::NotFound), "{code:?}");
    assert!(seen.bytes.is_empty());
    command.kill(1.0).await;
    own.sh("true").await;
    socket
        .until("events of one's own", std::time::Duration::from_secs(30), |heard| {
            (!heard.events.is_empty()).then_some(())
        })
        .await;
    let foreign = socket.now(|heard| format!("{:?}", heard.events)).contains(session.id().as_str());
    assert!(!foreign, "no event of another tenant");
    // Keys.
    let key = server.operator().create_key(Role::Viewer, "acme's").await;
    assert_eq!(stranger.delete(&format!("/v1/keys/{}", key.key_id)).await.refusal().status, 404);
    assert!(!stranger.get("/v1/keys").await.text().contains(key.key_id.as_str()));
    assert_eq!(agent.with_key(&key.api_key).sessions().await.len(), 1, "it still works");
}

// Case 26.
#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_before_the_key_and_before_the_upgrade() {
    let server = TestServer::start().await;
    let operator = server.operator();
    let (base, key) = (operator.base().to_owned(), operator.key().expect("a key").to_owned());
    let port = base.rsplit(':').next().expect("a port");
    for host in ["evil.example", "127.0.0.1.nip.io", "localhost.evil.example", ""] {
        for path in ["/v1/sessions", "/healthz", "/"] {
            let refused =
                operator.send(operator.without_key().request(Method::GET, path).header("host", host)).await.refusal();
            assert_eq!((refused.status, refused.code()), (421, ErrorCode::HostNotAllowed), "{host:?} {path}");
        }
        let refused =
            Viewer::try_connect(&base, &[("x-api-key", &key), ("host", host)], None).await.expect_err("not upgraded");
        assert_eq!(refused.status, 421, "{host:?}: {refused:?}");
    }
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1",
        "http://localhost:1",
        &format!("https://127.0.0.1.evil.example:{port}"),
    ] {
        let refused =
            operator.send(operator.request(Method::GET, "/v1/sessions").header("origin", origin)).await.refusal();
        assert_eq!((refused.status, refused.code()), (403, ErrorCode::OriginNotAllowed), "{origin}");
        let refused = Viewer::try_connect(&base, &[("x-api-key", &key), ("origin", origin)], None)
            .await
            .expect_err("not upgraded");
        assert_eq!(refused.status, 403, "{origin}: {refused:?}");
    }
    let own = format!("http://127.0.0.1:{port}");
    operator
        .send(operator.request(Method::GET, "/v1/sessions").header("origin", &own))
        .await
        .success()
        .expect("its own page");
    drop(Viewer::try_connect(&base, &[("x-api-key", &key), ("origin", &own)], None).await.expect("its own page"));
    let missing = Viewer::try_connect(&base, &[], None).await.expect_err("no key");
    assert_eq!(missing.status, 401);
}

// Case 27.
#[tokio::test]
async fn a_key_in_the_address_is_refused_and_never_in_a_log_or_a_file() {
    let server = TestServer::start().await;
    let operator = server.operator();
    let new = operator.create_key(Role::Operator, "leaky").await;
    let secret = new.api_key.as_str();
    let configured = operator.key().expect("a key");
    for key in [secret, configured] {
        for name in ["key", "api_key", "apikey", "token", "access_token", "X-Api-Key"] {
            for client in [operator.without_key(), operator.clone()] {
                let refused = client.get(&format!("/v1/sessions?{name}={key}")).await.refusal();
                assert_eq!((refused.status, refused.code()), (400, ErrorCode::KeyInUrl), "{name}");
                assert!(!refused.body.detail.contains(key), "an answer does not repeat it");
            }
        }
    }
    for path in [
        format!("/v1/sessions/{secret}"),
        format!("/v1/sessions?anything={secret}"),
        format!("/{secret}"),
        format!("/v1/ws?key={secret}"),
    ] {
        let refused = operator.without_key().get(&path).await.refusal();
        assert_eq!(refused.code(), ErrorCode::KeyInUrl, "{}", refused.asked.replace(secret, "KEY"));
    }
    // Used as it should be, it is in no log either.
    let agent = operator.with_key(secret);
    agent.create_session(hardened()).await.sh("true").await;
    drop(agent.viewer().await);
    operator.delete(&format!("/v1/keys/{}", new.key_id)).await.success().expect("revoked");
    assert_eq!(agent.get("/v1/me").await.status, 401);

    let said = server.process().log() + &server.process().stdout();
    assert!(said.contains("/v1/sessions"), "there is a log to look at");
    for key in [secret, configured] {
        assert!(!said.contains(key), "a key in the server's log");
        for file in files_in(&server.data_dir()) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            assert!(!glassbox_tests::output::contains(&bytes, key.as_bytes()), "a key in {}", file.display());
        }
    }
}

fn files_in(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the data directory can be read").flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files_in(&entry.path()) } else { vec![entry.path()] }).collect()
}

#[tokio::test]
async fn revoking_a_key_works_at_once_also_on_open_sockets() {
    let server = TestServer::start().await;
    let operator = server.operator();
    let key = operator.create_key(Role::Viewer, "short-lived").await;
    let watching = operator.with_key(&key.api_key);
    let mut socket = watching.viewer().await;
    let mut other = operator.viewer().await;
    operator.delete(&format!("/v1/keys/{}", key.key_id)).await.success().expect("revoked");
    let closed = socket.until("the socket is closed", std::time::Duration::from_secs(20), |heard| heard.closed).await;
    assert_eq!(closed, Closed::Code(close::SIGNED_OUT));
    assert_eq!(watching.get("/v1/sessions").await.refusal().code(), ErrorCode::Unauthorized);
    operator.create_session(hardened()).await;
    other
        .until("others go on", std::time::Duration::from_secs(30), |heard| (!heard.events.is_empty()).then_some(()))
        .await;
}
