//! What `examples/` holds runs as it stands.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use glassbox_tests::{Client, TestServer};
use serde_json::Value;
use tokio::process::Command;

/// Each makes a sandbox and runs a few seconds in it.
const LIMIT: Duration = Duration::from_mins(2);

/// Runs it to its end against the server; what it printed. Nothing of the environment counts but where programs are.
async fn run(name: &str, agent: &Client) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("GLASSBOX_URL", agent.base()).env("GLASSBOX_API_KEY", agent.key().expect("a key"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("it ends in time").expect("it can be run");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}, {}: {printed}{said}", output.status);
    assert_eq!(agent.sessions().await.len(), 0, "{name} ends its session");
    printed.into_owned()
}

#[tokio::test]
async fn three_calls_with_curl_are_a_sandbox() {
    let (_server, agent) = TestServer::with_agent().await;
    let printed = run("curl.sh", &agent).await;
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [schemas, answer] = &lines[..] else { panic!("two lines: {printed}") };
    assert_eq!(schemas[0]["name"], "shell_exec");
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("exit=0\noutput:\n") && text.contains("gVisor") && text.ends_with("/root\n"), "{text}");
}

#[tokio::test]
async fn loops_with_both_message_formats_come_to_an_answer() {
    let (_server, agent) = TestServer::with_agent().await;
    for name in ["anthropic_loop.py", "openai_loop.py"] {
        let printed = run(name, &agent).await;
        for piece in [
            "calls: shell_exec {",
            "reads: still running after 1s; produced 5 new characters of output\noutput so far:\n5050\n",
            "calls: shell_wait {",
            "reads: exit=0\noutput:\ndone\n",
            "model: The sum is 5050.\n",
        ] {
            assert!(printed.contains(piece), "{name}: {piece:?}:\n{printed}");
        }
    }
}
