//! MCP as the official clients speak it, on real sandboxes: over HTTP, and over stdio by `glassbox mcp`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use glassbox_shared::session::SessionList;
use glassbox_tests::{TestServer, eventually, process, program};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// For a whole way on a busy machine; the longest one waits for 45 s on purpose.
const LIMIT: Duration = Duration::from_secs(180);
/// For one answer of the program.
const ANSWER: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").to_owned()
}

/// Runs it to its end; what it wrote.
async fn run(mut command: Command, what: &str) -> String {
    let output = command.kill_on_drop(true).stdin(Stdio::null()).output();
    let output = tokio::time::timeout(LIMIT, output).await.unwrap_or_else(|_| panic!("{what} did not end in time"));
    let output = output.unwrap_or_else(|error| panic!("{what} cannot be run ({error}); run `make setup`"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The official client in Python.
async fn official(kind: &str, server: &TestServer, key: &str) {
    let client = root().join("target/tools/python-mcp");
    assert!(client.join("mcp").is_dir(), "the official MCP client is missing; run `make setup`");
    let mut command = Command::new("python3");
    command.arg(root().join("tests/mcp/client.py")).args([kind, &server.address(), key]);
    command.arg(process::glassbox().get_program()).env("PYTHONPATH", client);
    let said = run(command, &format!("tests/mcp/client.py {kind}")).await;
    assert_eq!(said.trim(), "all as it should be");
}

#[tokio::test]
async fn the_official_client_works_in_a_sandbox_over_http() {
    let (server, key) = server_and_key().await;
    official("http", &server, &key).await;
}

#[tokio::test]
async fn the_official_client_works_in_a_sandbox_over_stdio() {
    let (server, key) = server_and_key().await;
    official("stdio", &server, &key).await;
}

#[tokio::test]
async fn a_call_answers_before_clients_give_up_and_says_that_it_goes_on() {
    let (server, key) = server_and_key().await;
    official("long", &server, &key).await;
}

#[tokio::test]
async fn a_call_that_an_official_client_cancels_takes_nothing_away() {
    let (server, key) = server_and_key().await;
    official("cancel", &server, &key).await;
    official("cancel-stdio", &server, &key).await;
}

#[tokio::test]
async fn the_protocols_own_conformance_tests_pass() {
    let (server, key) = server_and_key().await;
    let scenarios = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"];
    let mut command = Command::new("node");
    command.arg(root().join("tests/mcp/conformance.mjs")).args([&server.address(), &key]).args(scenarios);
    let said = run(command, "tests/mcp/conformance.mjs").await;
    for scenario in scenarios {
        assert!(said.contains(&format!("{scenario}: passed")), "{said}");
    }
    assert!(
        said.contains("the server answered evil.example.com: 421 host_not_allowed"),
        "the hostile half reached our check: {said}"
    );
}

async fn server_and_key() -> (TestServer, String) {
    let (server, agent) = TestServer::with_agent().await;
    let key = agent.key().expect("agents have one").to_owned();
    (server, key)
}

/// `glassbox mcp`, spoken to by hand.
pub(super) struct Program {
    _child: Child,
    input: ChildStdin,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(super) fn start(url: &str, key: &str, more: &[&str]) -> Self {
        Self::start_in(url, &[("GLASSBOX_API_KEY", key)], more)
    }

    fn start_in(url: &str, environment: &[(&str, &str)], more: &[&str]) -> Self {
        let arguments: Vec<&str> = ["mcp", "--url", url].iter().chain(more).copied().collect();
        let mut child = program::command(&arguments, environment).stdin(Stdio::piped()).spawn().expect("it can be run");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { _child: child, input, output }
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.say(method, params).await;
        self.hear().await
    }

    async fn say(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.input.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(ANSWER, self.output.next_line()).await.expect("in time").expect("text");
        serde_json::from_str(&line.expect("it goes on")).expect("nothing but the protocol is on stdout")
    }

    pub(super) async fn initialize(&mut self) -> Value {
        let client = json!({"name": "by-hand", "version": "1"});
        self.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})).await
    }

    pub(super) async fn exec(&mut self, command: &str) -> String {
        let said = self.ask("tools/call", json!({"name": "shell_exec", "arguments": {"command": command}})).await;
        said["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {said}")).to_owned()
    }
}

#[tokio::test]
async fn the_program_and_the_workspace_outlive_a_restart_of_the_server() {
    let (mut server, key) = server_and_key().await;
    let address = server.address();
    let mut program = Program::start(&server.address(), &key, &["--profile", "open"]);
    assert_eq!(program.initialize().await["result"]["serverInfo"]["name"], "glassbox");
    assert_eq!(program.exec("echo kept > file; cat file").await, "exit=0\noutput:\nkept\n");
    // A call that waits does not hold the stop up.
    program.say("tools/call", json!({"name": "shell_exec", "arguments": {"command": "sleep 600"}})).await;
    let operator = server.operator();
    eventually("the command runs", ANSWER, async || {
        let list: SessionList = operator.get("/v1/sessions").await.ok().expect("a list");
        (list.sessions[0].commands_running == 1).then_some(())
    })
    .await;
    server.stop();
    let stopped = program.hear().await.to_string();
    assert!(stopped.contains("shutting down") || stopped.contains("ended without an answer"), "{stopped}");
    let away = program.ask("tools/list", json!({})).await;
    assert!(away["error"]["message"].as_str().is_some_and(|why| why.contains("did not answer")), "{away}");
    server.restart(&address).await;
    let again = program.exec("cat file").await;
    assert!(again.ends_with("exit=0\noutput:\nkept\n"), "{again}");
    let sessions: SessionList = operator.get("/v1/sessions").await.ok().expect("a list");
    assert_eq!(sessions.sessions.len(), 1, "the same sandbox");
    assert_eq!(sessions.sessions[0].created_by.name(), "by-hand 1");
}

#[tokio::test]
async fn each_configured_key_has_its_sandbox_again_after_a_restart_of_the_server() {
    let mut server = TestServer::start().await;
    let address = server.address();
    let configured = server.serve_command().get_envs().find_map(|(name, value)| {
        (name == "GLASSBOX_API_KEYS").then(|| value.and_then(|keys| keys.to_str()).expect("text").to_owned())
    });
    let keys = ["one-more-configured-key", "another-configured-key"];
    let more = keys.map(|key| format!("acme:{key}")).join(",");
    server.set_env("GLASSBOX_API_KEYS", format!("{},{more}", configured.expect("keys of operators")));
    server.stop();
    server.restart(&address).await;
    let programs = || keys.map(|key| Program::start(&address, key, &["--workspace", "same"]));
    for (program, key) in programs().iter_mut().zip(keys) {
        program.initialize().await;
        assert_eq!(program.exec(&format!("echo {key} >> whose; cat whose")).await, format!("exit=0\noutput:\n{key}\n"));
    }
    server.stop();
    server.restart(&address).await;
    for (program, key) in programs().iter_mut().zip(keys) {
        program.initialize().await;
        let again = program.exec("cat whose").await;
        assert!(again.ends_with(&format!("exit=0\noutput:\n{key}\n")), "{again}");
    }
    let sessions: SessionList = server.operator().get("/v1/sessions").await.ok().expect("a list");
    assert_eq!(sessions.sessions.len(), 2, "found again");
}

#[tokio::test]
async fn three_programs_with_the_shipped_configuration_have_three_sandboxes() {
    let (server, key) = server_and_key().await;
    let file = root().join("examples/mcp/claude-desktop/claude_desktop_config.json");
    let config: Value = serde_json::from_slice(&std::fs::read(file).expect("it is shipped")).expect("JSON");
    let shipped = &config["mcpServers"]["glassbox"];
    assert_eq!(shipped["command"], "glassbox");
    assert!(shipped["env"]["GLASSBOX_API_KEY"].is_string() && shipped["env"]["GLASSBOX_URL"].is_string());
    let arguments: Vec<&str> =
        shipped["args"].as_array().expect("a list").iter().filter_map(Value::as_str).skip(1).collect();
    for name in ["one", "two", "three"] {
        let own: Vec<&str> = arguments.iter().map(|word| if *word == "claude-desktop" { name } else { word }).collect();
        let mut program = Program::start(&server.address(), &key, &own);
        program.initialize().await;
        assert_eq!(program.exec(&format!("echo {name} > name; cat name")).await, format!("exit=0\noutput:\n{name}\n"));
    }
    let sessions: SessionList = server.operator().get("/v1/sessions").await.ok().expect("a list");
    let mut names: Vec<&str> = sessions.sessions.iter().map(|session| session.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "three", "two"]);
}

#[tokio::test]
async fn the_program_says_what_is_wrong_in_the_protocol_and_on_stderr_before_it() {
    let (server, key) = server_and_key().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{key}\n")).expect("written");
    let mut right = Program::start_in(&server.address(), &[], &["--key-file", &file.display().to_string()]);
    assert_eq!(right.initialize().await["result"]["serverInfo"]["name"], "glassbox");
    let mut program = Program::start(&server.address(), "wrong", &[]);
    let refused = program.initialize().await;
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("key is not valid")), "{refused}");
    let absent = program::run(&["mcp", "--url", &server.address()], &[]).await;
    assert!(absent.refusal().contains("--key-file"), "{absent:?}");
    assert!(absent.stdout.is_empty());
    let address = program::run(&["mcp", "--url", "ftp://localhost:1"], &[("GLASSBOX_API_KEY", "x")]).await;
    assert!(address.refusal().contains("https://"), "{address:?}");
    let nothing = ["mcp", "--url", "https://localhost:1", "--ca-file", "/nowhere/ca.pem"];
    let missing = program::run(&nothing, &[("GLASSBOX_API_KEY", "x")]).await;
    assert!(missing.refusal().contains("/nowhere/ca.pem"), "{missing:?}");
}
