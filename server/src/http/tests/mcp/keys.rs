//! Keys given by configuration are keys like others: each has sandboxes and output of its own.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Client, post, sessions};
use crate::http::tests::domain::CONFIGURED;
use crate::http::tests::support::TestApp;

#[tokio::test]
async fn two_configured_keys_of_a_tenant_have_a_sandbox_each_in_a_workspace_of_the_same_name() {
    let app = TestApp::start().await;
    let [one, two] = CONFIGURED;
    let clients = [
        Client::begin(&app, one, "probe", "?workspace=w").await,
        Client::begin(&app, two, "probe", "?workspace=w").await,
    ];
    for client in &clients {
        // Nobody is told of another client: they are apart.
        assert_eq!(client.text("shell_exec", json!({"command": "print x"})).await, "exit=0\noutput:\nx\n");
    }
    let all = sessions(&app, one).await;
    assert_eq!(all.len(), 2);
    let key = |session: &Value| session["metadata"]["mcp_key"].as_str().expect("said").to_owned();
    assert_ne!(key(&all[0]), key(&all[1]));
    for session in &all {
        assert!(CONFIGURED.iter().all(|secret| !session.to_string().contains(secret)), "{session}");
    }
    let again = Client::begin(&app, one, "probe", "?workspace=w").await;
    again.text("shell_exec", json!({"command": "print x"})).await;
    assert_eq!(sessions(&app, one).await.len(), 2, "found again");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let stolen = post(&app, "/mcp?workspace=w", &list).key(two).header("mcp-session-id", &again.session);
    assert_eq!(stolen.send().await.status, StatusCode::NOT_FOUND, "nor is a session of the protocol");
}

#[tokio::test]
async fn two_configured_keys_of_a_tenant_do_not_take_each_others_output() {
    let app = TestApp::start().await;
    let [one, two] = CONFIGURED;
    let made = app.request(Method::POST, "/v1/sessions").key(one).json(&json!({"profile": "open"})).send().await.json();
    let session = made["session_id"].as_str().expect("an id").to_owned();
    let call = async |key: &str, tool: &str, input: Value| {
        let asking = app.request(Method::POST, &format!("/v1/sessions/{session}/tools/{tool}"));
        asking.key(key).json(&input).send().await.json()
    };
    let ran = call(one, "shell_exec", json!({"command": "print mine"})).await;
    assert_eq!(ran["text"], "exit=0\noutput:\nmine\n");
    let again = json!({"command_id": ran["command_id"]});
    assert_eq!(
        call(two, "shell_wait", again.clone()).await["text"],
        "exit=0\noutput:\nmine\n",
        "it was not given it yet"
    );
    assert_eq!(call(one, "shell_wait", again).await["text"], "exit=0\noutput:\n");
}
