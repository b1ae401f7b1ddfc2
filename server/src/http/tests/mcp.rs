//! `/mcp`, spoken by hand: what an official client does is tested with the real ones (`tests/tests/it/mcp.rs`).

mod keys;
mod told;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Method, StatusCode};
use glassbox_shared::error::ErrorCode;
use serde_json::{Value, json};

use super::support::{Answer, Asking, TestApp};

const VERSION: &str = "2025-06-18";

/// A client with a session.
struct Client<'a> {
    app: &'a TestApp,
    key: &'a str,
    path: String,
    session: String,
    /// Of the next request: each has one of its own.
    next: AtomicU64,
}

fn post(app: &TestApp, path: &str, message: &Value) -> Asking {
    app.request(Method::POST, path).header("accept", "application/json, text/event-stream").json(message)
}

fn initialize(name: &str) -> Value {
    let client = json!({"name": name, "version": "1.0"});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}})
}

/// The messages of a stream of events.
fn messages(answer: &Answer) -> Vec<Value> {
    let text = std::str::from_utf8(&answer.body).expect("text");
    let data =
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

impl<'a> Client<'a> {
    async fn begin(app: &'a TestApp, key: &'a str, name: &str, query: &str) -> Self {
        let path = format!("/mcp{query}");
        let answer = post(app, &path, &initialize(name)).key(key).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let session = answer.header("mcp-session-id").to_owned();
        assert!(!session.is_empty());
        let client = Self { app, key, path, session, next: AtomicU64::new(1) };
        let said = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&said).send().await.status, StatusCode::ACCEPTED);
        client
    }

    fn post(&self, message: &Value) -> Asking {
        let asking = post(self.app, &self.path, message).key(self.key);
        asking.header("mcp-session-id", &self.session).header("mcp-protocol-version", VERSION)
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        messages(&answer).pop().expect("an answer")["result"].clone()
    }

    async fn call(&self, tool: &str, arguments: Value) -> (String, bool) {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {result}")).to_owned();
        (text, result["isError"].as_bool().expect("said"))
    }

    async fn text(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.0
    }
}

/// The key's live sessions.
async fn sessions(app: &TestApp, key: &str) -> Vec<Value> {
    app.get("/v1/sessions").key(key).send().await.json()["sessions"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn every_request_needs_a_key_and_the_cookie_is_none() {
    let app = TestApp::start().await;
    let code = |answer: Answer| answer.json()["code"].clone();
    let unauthorized = json!(ErrorCode::Unauthorized);
    assert_eq!(code(post(&app, "/mcp", &initialize("x")).send().await), unauthorized);
    assert_eq!(code(post(&app, "/mcp", &initialize("x")).key("wrong").send().await), unauthorized);
    assert_eq!(code(app.get("/mcp").send().await), unauthorized);
    assert_eq!(code(app.request(Method::DELETE, "/mcp").send().await), unauthorized);
    let cookie = app.sign_in().await;
    let signed_in =
        post(&app, "/mcp", &initialize("x")).header("cookie", &cookie).header("origin", "http://localhost:7070");
    assert_eq!(code(signed_in.send().await), unauthorized);
    let bearer = post(&app, "/mcp", &initialize("x")).header("authorization", &format!("Bearer {}", app.agent));
    assert_eq!(bearer.send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_before_the_protocol_begins() {
    let app = TestApp::start().await;
    let asking = || post(&app, "/mcp", &initialize("x")).key(&app.agent);
    let origin = asking().header("origin", "http://evil.example").send().await;
    assert_eq!(origin.json()["code"], json!(ErrorCode::OriginNotAllowed));
    let same = asking().header("origin", "http://localhost:7070").send().await;
    assert_eq!(same.status, StatusCode::OK);
    let host = app.request(Method::POST, "http://evil.example/mcp").key(&app.agent).json(&initialize("x")).send().await;
    assert_eq!(host.json()["code"], json!(ErrorCode::HostNotAllowed));
}

#[tokio::test]
async fn an_address_that_makes_no_sense_is_refused() {
    let app = TestApp::start().await;
    for (query, status) in
        [("?workspace=a/b", 400), ("?workspace=", 400), ("?profile=root", 400), ("?egress=pypi", 501)]
    {
        let answer = post(&app, &format!("/mcp{query}"), &initialize("x")).key(&app.agent).send().await;
        assert_eq!(answer.status.as_u16(), status, "{query}");
    }
    let get = app.get("/mcp").key(&app.agent).send().await;
    assert_eq!(get.status, StatusCode::METHOD_NOT_ALLOWED, "this server never speaks first");
}

#[tokio::test]
async fn a_session_is_its_keys_alone_and_ends_when_it_is_deleted() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let status = |asking: Asking| async { asking.send().await.status };
    let other = app.another_key("acme").await;
    for key in [&other, &app.viewer] {
        let stolen = post(&app, "/mcp", &list).key(key).header("mcp-session-id", &client.session);
        assert_eq!(status(stolen).await, StatusCode::NOT_FOUND);
    }
    let end = |key: &str| app.request(Method::DELETE, "/mcp").key(key).header("mcp-session-id", &client.session);
    assert_eq!(status(end(&other)).await, StatusCode::NOT_FOUND);
    assert_eq!(status(client.post(&list)).await, StatusCode::OK, "nobody else could end it");
    assert!(status(end(&app.agent)).await.is_success());
    assert_eq!(status(client.post(&list)).await, StatusCode::NOT_FOUND);
    let unknown = post(&app, "/mcp", &list).key(&app.agent).header("mcp-session-id", "nonsense");
    assert_eq!(status(unknown).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn all_tools_are_listed_with_what_they_do_and_a_model_is_told_how_to_use_them() {
    let app = TestApp::start().await;
    let answer = post(&app, "/mcp", &initialize("probe")).key(&app.agent).send().await;
    let said = messages(&answer).pop().expect("an answer");
    let instructions = said["result"]["instructions"].as_str().expect("a text");
    assert!(instructions.contains("shell_wait"));
    assert!(instructions.contains("[glassbox] …, up to its first empty line"), "no other such line is ours");
    assert_eq!(said["result"]["serverInfo"]["name"], "glassbox");
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let tools = client.ask("tools/list", json!({})).await["tools"].as_array().expect("a list").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in ["shell_exec", "shell_wait", "shell_kill", "edit_file", "run_command", "restore_snapshot"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for tool in &tools {
        let hints = &tool["annotations"];
        assert!(
            tool["title"].is_string() && hints["readOnlyHint"].is_boolean() && hints["destructiveHint"].is_boolean()
        );
        assert_eq!(hints["openWorldHint"], false, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
    }
    assert!(sessions(&app, &app.agent).await.is_empty(), "nothing of it needs a sandbox");
}

#[tokio::test]
async fn the_first_call_makes_a_sandbox_and_the_client_is_named_on_all_it_does() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "?profile=open").await;
    assert_eq!(client.text("shell_exec", json!({"command": "print hello"})).await, "exit=0\noutput:\nhello\n");
    let all = sessions(&app, &app.agent).await;
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0]["profile"], &all[0]["name"]), (&json!("open"), &json!("probe 1.0")));
    assert_eq!(all[0]["created_by"]["name"], "probe 1.0");
    assert_eq!(all[0]["latest_command"]["actor"]["name"], "probe 1.0");
    assert_eq!(all[0]["metadata"]["mcp_workspace"], "default");
    let again = Client::begin(&app, &app.agent, "probe", "?profile=open").await;
    again.text("shell_exec", json!({"command": "print again"})).await;
    assert_eq!(sessions(&app, &app.agent).await.len(), 1, "found again");
    let named = Client::begin(&app, &app.agent, "probe", "?profile=open&workspace=other").await;
    named.text("shell_exec", json!({"command": "print other"})).await;
    let hardened = Client::begin(&app, &app.agent, "probe", "").await;
    hardened.text("shell_exec", json!({"command": "print other"})).await;
    let key = app.another_key("acme").await;
    Client::begin(&app, &key, "probe", "?profile=open")
        .await
        .text("shell_exec", json!({"command": "print other"}))
        .await;
    assert_eq!(sessions(&app, &app.agent).await.len(), 4, "another name, another profile, another key");
}

#[tokio::test]
async fn calls_at_once_make_one_sandbox() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let call = || client.call("shell_exec", json!({"command": "print hello", "background": true}));
    let (one, two, three) = tokio::join!(call(), call(), call());
    for (text, is_error) in [one, two, three] {
        assert!(!is_error && text.starts_with("started in the background"), "{text}");
    }
    assert_eq!(sessions(&app, &app.agent).await.len(), 1);
}

#[tokio::test]
async fn what_goes_wrong_is_a_text_for_the_model() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    for (tool, arguments, why) in [
        ("shell", json!({}), "ERROR: there is no tool \"shell\"; the tools are shell_exec, "),
        ("shell_exec", json!({}), "ERROR: shell_exec needs the argument `command`"),
        ("run_command", json!({"command": " "}), "ERROR: `command` is empty"),
        ("import_repo", json!({"repo": "a/b"}), "ERROR: import_repo is not enabled on this server"),
        ("egress_log", json!({}), "ERROR: egress_log is not enabled on this server"),
    ] {
        let (text, is_error) = client.call(tool, arguments).await;
        assert!(is_error && text.starts_with(why), "{text}");
    }
    assert!(sessions(&app, &app.agent).await.is_empty(), "no sandbox is made for nonsense");
    let (text, is_error) = client.call("shell_wait", json!({})).await;
    assert!(is_error && text.contains("no command is currently running"), "{text}");
    let viewer = Client::begin(&app, &app.viewer, "probe", "").await;
    let (text, is_error) = viewer.call("shell_exec", json!({"command": "print x"})).await;
    assert!(is_error && text.contains("viewers only watch"), "{text}");
}

#[tokio::test]
async fn run_command_tells_the_channels_apart_and_ends_at_its_limit() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let run = |command: &str, seconds: u64| {
        client.call("run_command", json!({"command": command, "timeout_seconds": seconds}))
    };
    let both = run("print one; error two; exit 3", 10).await;
    assert_eq!(both, ("[STDOUT]:\none\n[STDERR]:\ntwo\n[EXIT CODE]: 3".to_owned(), false));
    assert_eq!(run("exit 0", 10).await.0, "[EXIT CODE]: 0");
    let (late, _) = run("print begun; hang", 1).await;
    assert_eq!(late, "[STDOUT]:\nbegun\n[TIMEOUT]: the command was ended after 1 seconds\n[EXIT CODE]: -1");
    let (long, _) = run("flood 100000", 10).await;
    assert!(long.contains(" characters truncated] ...\n") && long.ends_with("[EXIT CODE]: 0"), "{}", long.len());
    assert!(long.chars().count() < 20_000 + 400, "{}", long.chars().count());
    let activity = client.text("activity", json!({"limit": 2})).await;
    assert_eq!(activity.lines().count(), 2);
    assert!(activity.contains("probe 1.0") && activity.contains("flood 100000"), "{activity}");
}

#[tokio::test]
async fn a_sandbox_can_be_looked_at_and_begun_anew() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "?workspace=mine").await;
    assert!(client.text("sandbox_info", json!({})).await.starts_with("there is no sandbox yet"));
    client.text("shell_exec", json!({"command": "print x"})).await;
    let info = client.text("sandbox_info", json!({})).await;
    assert!(info.contains("workspace \"mine\", profile hardened") && info.contains("network: none"), "{info}");
    assert!(client.text("reset_sandbox", json!({})).await.starts_with("the sandbox is deleted"));
    assert!(sessions(&app, &app.agent).await.is_empty());
    let text = client.text("shell_exec", json!({"command": "print x"})).await;
    assert!(
        text.starts_with("[glassbox] this is a new, empty sandbox: the one before in workspace \"mine\" was deleted;"),
        "{text}"
    );
    assert!(text.ends_with("\n\nexit=0\noutput:\nx\n"), "{text}");
}

#[tokio::test]
async fn a_sandbox_that_is_gone_is_made_anew_and_each_client_is_told_once() {
    let app = TestApp::start().await;
    let (one, two) =
        (Client::begin(&app, &app.agent, "one", "").await, Client::begin(&app, &app.agent, "two", "").await);
    let exec = json!({"command": "print x"});
    let plain = "exit=0\noutput:\nx\n";
    assert_eq!(one.text("shell_exec", exec.clone()).await, plain);
    let met = two.text("shell_exec", exec.clone()).await;
    assert!(
        met.starts_with("[glassbox] another client (one 1.0) uses this same sandbox now") && met.ends_with(plain),
        "{met}"
    );
    let met = one.text("shell_exec", exec.clone()).await;
    assert!(met.starts_with("[glassbox] another client (two 1.0) uses this same sandbox now"), "{met}");
    assert_eq!(one.text("shell_exec", exec.clone()).await, plain, "once");
    assert_eq!(two.text("shell_exec", exec.clone()).await, plain, "once");
    assert_eq!(sessions(&app, &app.agent).await[0]["clients"], json!(["one 1.0", "two 1.0"]), "people see them both");

    let id = sessions(&app, &app.agent).await[0]["session_id"].as_str().expect("an id").to_owned();
    let ended = app.request(Method::DELETE, &format!("/v1/sessions/{id}")).key(&app.agent).send().await;
    assert_eq!(ended.status, StatusCode::OK, "{ended:?}");
    let new = one.text("shell_exec", exec.clone()).await;
    assert!(new.starts_with("[glassbox] this is a new, empty sandbox") && new.ends_with(plain), "{new}");
    let new = two.text("shell_exec", exec.clone()).await;
    assert!(new.starts_with("[glassbox] the sandbox of this workspace is another one than before"), "{new}");
    assert_eq!(one.text("shell_exec", exec.clone()).await, plain, "once");
    assert_eq!(two.text("shell_exec", exec).await, plain, "once");

    let end = app.request(Method::DELETE, "/mcp").key(&app.agent).header("mcp-session-id", &two.session).send().await;
    assert!(end.status.is_success(), "{end:?}");
    while sessions(&app, &app.agent).await[0]["clients"] != json!(["one 1.0"]) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_takes_nothing_away() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let start = client.text("shell_exec", json!({"command": "print first; hang", "timeout": 0})).await;
    assert!(start.starts_with("still running"), "{start}");
    let wait =
        json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": {"name": "shell_wait", "arguments": {}}});
    let waiting = tokio::spawn(client.post(&wait).send());
    // Known once the session counts the call: then it can be cancelled.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 700}});
    while !waiting.is_finished() {
        assert_eq!(client.post(&cancel).send().await.status, StatusCode::ACCEPTED);
        tokio::task::yield_now().await;
    }
    let answer = waiting.await.expect("no panic");
    assert!(messages(&answer).is_empty(), "a call that was cancelled has no answer: {answer:?}");
    let rest = client.text("shell_kill", json!({})).await;
    let all = format!("{start}{rest}");
    assert_eq!(all.matches("first").count(), 1, "{all}");
    assert!(rest.starts_with("killed (exit=143)"), "{rest}");
}

/// The session in which a command runs now.
async fn busy_session(app: &TestApp, key: &str) -> Value {
    loop {
        let busy = sessions(app, key).await.into_iter().find(|session| session["commands_running"] != 0);
        if let Some(session) = busy {
            return session;
        }
        tokio::task::yield_now().await;
    }
}

/// Runs something and cancels the call while it runs.
async fn cancel_while_it_runs(client: &Client<'_>) {
    let params = json!({"name": "shell_exec", "arguments": {"command": "hang"}});
    let call = json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": params});
    let waiting = tokio::spawn(client.post(&call).send());
    busy_session(client.app, client.key).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 700}});
    assert_eq!(client.post(&cancel).send().await.status, StatusCode::ACCEPTED);
    assert!(messages(&waiting.await.expect("no panic")).is_empty(), "it has no answer");
}

#[tokio::test]
async fn what_a_cancelled_call_had_to_say_is_said_by_the_next() {
    let app = TestApp::start().await;
    let (one, two) =
        (Client::begin(&app, &app.agent, "one", "").await, Client::begin(&app, &app.agent, "two", "").await);
    one.text("shell_list", json!({})).await;
    cancel_while_it_runs(&two).await;
    let met = two.text("shell_list", json!({})).await;
    assert!(met.starts_with("[glassbox] another client (one 1.0) uses this same sandbox now"), "{met}");

    let id = sessions(&app, &app.agent).await[0]["session_id"].as_str().expect("an id").to_owned();
    let ended = app.request(Method::DELETE, &format!("/v1/sessions/{id}")).key(&app.agent).send().await;
    assert_eq!(ended.status, StatusCode::OK, "{ended:?}");
    cancel_while_it_runs(&one).await;
    let new = one.text("shell_list", json!({})).await;
    assert!(new.starts_with("[glassbox] this is a new, empty sandbox: the one before"), "{new}");
    let new = two.text("shell_list", json!({})).await;
    assert!(new.starts_with("[glassbox] the sandbox of this workspace is another one than before"), "{new}");
    assert!(!two.text("shell_list", json!({})).await.contains("[glassbox]"), "once");
}

#[tokio::test]
async fn a_run_command_that_somebody_else_ended_says_who_and_why() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    let cookie = app.sign_in().await;
    let run = || client.call("run_command", json!({"command": "print begun; hang"}));
    let kill = async {
        let session = busy_session(&app, &app.agent).await;
        let text = |value: &Value| value.as_str().expect("an id").to_owned();
        let (id, command) = (text(&session["session_id"]), text(&session["latest_command"]["command_id"]));
        let kill = app.request(Method::POST, &format!("/v1/sessions/{id}/commands/{command}/kill"));
        let kill = kill.header("cookie", &cookie).header("origin", "http://localhost:7070").json(&json!({}));
        let answer = kill.send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    };
    let ((killed, _), ()) = tokio::join!(run(), kill);
    let said = "[WARNING]: Ann, a human who watches this session, killed this command\n[EXIT CODE]: 143";
    assert!(killed.ends_with(said), "{killed}");
    let end = async {
        let session = busy_session(&app, &app.agent).await;
        let path = format!("/v1/sessions/{}", session["session_id"].as_str().expect("an id"));
        let answer = app.request(Method::DELETE, &path).key(&app.agent).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    };
    let ((interrupted, is_error), ()) = tokio::join!(run(), end);
    let why = "ERROR: nobody can know how the command ended: the session ended";
    assert!(is_error && interrupted.starts_with(why), "{interrupted}");
}

#[tokio::test]
async fn a_client_that_goes_away_takes_nothing_with_it() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_exec", json!({"command": "sleep 300; print late", "timeout": 0})).await;
    let wait =
        json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": {"name": "shell_wait", "arguments": {}}});
    // The answer's head is there, its body is dropped.
    drop(client.post(&wait).begin().await);
    assert!(client.text("shell_wait", json!({})).await.contains("late"));
}

#[tokio::test]
async fn a_second_request_of_the_same_id_is_refused_instead_of_never_answered() {
    let app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_exec", json!({"command": "hang", "timeout": 0})).await;
    let wait =
        json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": {"name": "shell_wait", "arguments": {}}});
    let waiting = client.post(&wait).begin().await;
    assert_eq!(client.post(&wait).send().await.status, StatusCode::CONFLICT);
    drop(waiting);
    let list = json!({"jsonrpc": "2.0", "id": 700, "method": "tools/list"});
    assert_eq!(client.post(&list).send().await.status, StatusCode::OK, "it is free again");
}

#[tokio::test]
async fn two_tenants_with_the_same_workspace_see_nothing_of_each_other() {
    let app = TestApp::start().await;
    let stranger = app.another_key("beta").await;
    let own = Client::begin(&app, &app.agent, "probe", "?workspace=shared").await;
    let theirs = Client::begin(&app, &stranger, "probe", "?workspace=shared").await;
    let secret = own.text("shell_exec", json!({"command": "print secret", "background": true})).await;
    let id = secret.lines().find_map(|line| line.strip_prefix("command_id=")).expect("an id");
    assert!(theirs.text("sandbox_info", json!({})).await.starts_with("there is no sandbox yet"));
    assert!(theirs.text("activity", json!({})).await.starts_with("there is no sandbox yet"));
    for tool in ["shell_wait", "shell_kill", "shell_output"] {
        let (text, is_error) = theirs.call(tool, json!({"command_id": id})).await;
        assert!(is_error && !text.contains("secret"), "{tool}: {text}");
    }
    assert_eq!(theirs.text("shell_list", json!({})).await, "no command is running");
    theirs.text("reset_sandbox", json!({})).await;
    assert_eq!(sessions(&app, &app.agent).await.len(), 1, "only theirs is gone");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let stolen = post(&app, "/mcp", &list).key(&stranger).header("mcp-session-id", &own.session).send().await;
    assert_eq!(stolen.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_client_that_knows_later_versions_is_told_which_ones_are_spoken() {
    let app = TestApp::start().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "3"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let asking = post(&app, "/mcp", &discover).key(&app.agent).header("mcp-protocol-version", "2026-07-28");
    let answer = asking.header("mcp-method", "server/discover").send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
    let supported = answer.json()["error"]["data"]["supported"].as_array().expect("a list").clone();
    assert!(supported.contains(&json!("2025-11-25")) && !supported.contains(&json!("2026-07-28")), "{supported:?}");
    let mut newest = initialize("modern");
    newest["params"]["protocolVersion"] = json!("2026-07-28");
    let answer = post(&app, "/mcp", &newest).key(&app.agent).send().await;
    assert_eq!(messages(&answer).pop().expect("an answer")["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_stop_ends_calls_that_wait() {
    let mut app = TestApp::start().await;
    let client = Client::begin(&app, &app.agent, "probe", "").await;
    client.text("shell_exec", json!({"command": "hang", "timeout": 0})).await;
    let wait =
        json!({"jsonrpc": "2.0", "id": 700, "method": "tools/call", "params": {"name": "shell_wait", "arguments": {}}});
    let waiting = tokio::spawn(client.post(&wait).send());
    app.shutdown.cancel();
    // Whatever it still hears of the answer: it ends.
    waiting.await.expect("no panic");
    app.served().await;
}

#[tokio::test]
async fn forty_agents_with_the_shipped_configuration_get_forty_named_sandboxes() {
    let app = TestApp::start().await;
    let config: Value =
        serde_json::from_str(include_str!("../../../../examples/mcp/claude-code/.mcp.json")).expect("JSON");
    let server = &config["mcpServers"]["glassbox"];
    assert_eq!(server["headers"]["X-API-Key"], "${GLASSBOX_API_KEY}");
    let address = server["url"].as_str().expect("an address");
    let (_, path) = address.split_once("}/mcp").expect("the server's address is a variable");
    for nth in 0..40 {
        let query = path.replace("${GLASSBOX_WORKSPACE}", &format!("agent-{nth}"));
        let client = Client::begin(&app, &app.agent, "claude-code", &query).await;
        assert_eq!(client.text("shell_exec", json!({"command": "print x"})).await, "exit=0\noutput:\nx\n");
    }
    let names: BTreeSet<String> = sessions(&app, &app.agent)
        .await
        .iter()
        .filter_map(|session| session["name"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(names, (0..40).map(|nth| format!("agent-{nth}")).collect());
}
