//! The tools of agents over REST, on real sandboxes.

use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::RunCommand;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::tools::{ToolAnswer, ToolCallList};
use glassbox_tests::{Session, TestServer, eventually, hardened, open, seq};
use serde_json::{Value, json};

/// Processes of the tree that is killed.
const TREE: usize = 50;
/// Fifty processes in a sandbox, on a busy machine.
const GROWN: Duration = Duration::from_mins(1);
/// For what takes a moment: a busy machine needs a hundred times as long for an exec as an idle one.
const EFFECTIVE: Duration = Duration::from_secs(20);

async fn call(session: &Session, tool: &str, input: Value) -> ToolAnswer {
    session.client().post(&session.path(&format!("/tools/{tool}")), &input).await.ok().expect("every call is answered")
}

async fn text(session: &Session, tool: &str, input: Value) -> String {
    call(session, tool, input).await.text
}

#[tokio::test]
async fn three_lines_give_a_model_its_sandbox() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    for (format, name) in [("anthropic", "/0/name"), ("openai", "/0/function/name")] {
        let tools: Value = agent.get(&format!("/v1/tools?format={format}")).await.ok().expect("schemas");
        assert_eq!(tools.pointer(name), Some(&json!("shell_exec")));
    }
    assert_eq!(
        text(&session, "shell_exec", json!({"command": "echo out; echo err >&2; exit 3"})).await,
        "exit=3\noutput:\nout\nerr\n"
    );
    let first = text(&session, "shell_exec", json!({"command": "echo begun; sleep 5; echo done", "timeout": 2})).await;
    assert!(
        first.starts_with("still running after 2s; produced 6 new characters of output\noutput so far:\nbegun\n\n"),
        "{first}"
    );
    assert_eq!(text(&session, "shell_wait", json!({"timeout": 60})).await, "exit=0\noutput:\ndone\n");
    assert_eq!(
        text(&session, "shell_exec", json!({"command": "cat; kill -SEGV $$"})).await,
        "exit=139\n[terminated by SIGSEGV]\noutput:\n"
    );
    let unknown = call(&session, "shell_run", json!({})).await;
    assert!(unknown.is_error && unknown.text.starts_with("ERROR: there is no tool \"shell_run\""), "{unknown:?}");
}

#[tokio::test]
async fn files_are_written_read_listed_and_edited_in_both_profiles() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, workspace) in [(open(), "/root"), (hardened(), "/workspace")] {
        let session = agent.create_session(profile).await;
        let wrote = text(&session, "write_file", json!({"path": "src/a b.py", "content": "one\ntwo\nthree\n"})).await;
        assert!(wrote.starts_with("wrote 14 bytes to ") && wrote.ends_with("src/a b.py"), "{wrote}");
        let path = format!("{workspace}/src/a b.py");
        assert_eq!(text(&session, "read_file", json!({"path": path})).await, "one\ntwo\nthree\n");
        assert_eq!(text(&session, "read_file", json!({"path": path, "offset": 2, "limit": 1})).await, "two\n");
        let edit = json!({"path": "src/a b.py", "old_string": "two", "new_string": "2"});
        let edited = text(&session, "edit_file", edit.clone()).await;
        assert!(edited.starts_with("replaced 1 place in ") && edited.ends_with(" (line 2)"), "{edited}");
        assert_eq!(
            text(&session, "edit_file", edit).await,
            "ERROR: `old_string` does not stand in the file; read the file and copy it exactly"
        );
        assert_eq!(
            text(
                &session,
                "shell_exec",
                json!({"command": "cat 'src/a b.py'; ln -s src link; head -c 9 /dev/zero >bin"})
            )
            .await,
            "exit=0\noutput:\none\n2\nthree\n"
        );
        let list = text(&session, "list_files", json!({})).await;
        for line in ["bin  9", "link -> src", "src/", "src/a b.py  12"] {
            assert!(list.lines().any(|known| known == line), "{line} in {list}");
        }
        let binary = text(&session, "read_file", json!({"path": "bin"})).await;
        assert!(binary.starts_with("ERROR: ") && binary.contains("is no text (9 bytes)"), "{binary}");
        let missing = call(&session, "read_file", json!({"path": "nothing"})).await;
        assert!(missing.is_error && missing.text.starts_with("ERROR: "), "{missing:?}");
    }
    let session = agent.create_session(hardened()).await;
    let outside = text(&session, "read_file", json!({"path": "/etc/passwd"})).await;
    assert!(outside.starts_with("ERROR: ") && outside.contains("workspace"), "{outside}");
}

#[tokio::test]
async fn a_long_output_keeps_its_ends_and_its_middle_can_be_read_by_offset() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let answer = call(&session, "shell_exec", json!({"command": "seq 1 20000"})).await;
    let whole = seq(1, 20_000);
    let dropped = whole.len() - 30_000;
    let expected = format!(
        "exit=0\noutput:\n{}\n... [{dropped} characters truncated] ...\n{}",
        &whole[..15_000],
        &whole[whole.len() - 15_000..]
    );
    assert!(answer.truncated && answer.text.ends_with(&expected), "{}", &answer.text[..400]);
    let id = answer.command_id.expect("an id");
    let part = text(&session, "shell_output", json!({"command_id": id.as_str(), "offset": 15_000, "limit": 100})).await;
    assert!(part.ends_with(&format!("output:\n{}", &whole[15_000..15_100])), "{part}");
}

// Killing a tree of 50 with daemons, children that ignore TERM, and a fork in progress.
#[tokio::test]
async fn a_tree_of_fifty_is_gone_or_named_after_shell_kill() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let tree = format!(
        "for i in $(seq {}); do (trap '' TERM; sleep 771) & setsid -f sleep 772; done; \
         (while :; do sleep 0.01 & done) & echo ready; wait",
        TREE / 2
    );
    let begun = call(&session, "shell_exec", json!({"command": tree, "timeout": 0})).await;
    let id = begun.command_id.expect("an id");
    session.command(&id).wrote("ready").await;
    for line in ["sleep 771", "sleep 772"] {
        eventually("half of the tree runs", GROWN, async || {
            (session.processes(line).await.len() == TREE / 2).then_some(())
        })
        .await;
    }
    let killed = text(&session, "shell_kill", json!({})).await;
    assert!(
        killed.starts_with("killed (exit=137)\n[SIGKILL after ")
            || killed.starts_with("killed (exit=143)\n[SIGTERM after "),
        "{killed}"
    );
    let survivors = killed.lines().find(|line| line.starts_with("[survived: ")).unwrap_or_default();
    for line in ["sleep 771", "sleep 772", "sleep 0.01"] {
        for pid in session.processes(line).await {
            assert!(survivors.contains(&format!("(pid {pid})")), "{line}, {pid}, is left and not named: {killed}");
        }
    }
    assert_eq!(text(&session, "shell_exec", json!({"command": "echo usable"})).await, "exit=0\noutput:\nusable\n");
}

#[tokio::test]
async fn what_a_reader_was_told_survives_the_server() {
    let (mut server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let begun = call(&session, "shell_exec", json!({"command": "echo before; sleep 773", "timeout": 0})).await;
    session.command(&begun.command_id.expect("an id")).wrote("before").await;
    let told = text(&session, "shell_wait", json!({"timeout": 0})).await;
    let told = format!("{}{told}", begun.text);
    assert_eq!(told.matches("before\n").count(), 1, "{told}");
    let address = server.address();
    server.kill_hard();
    server.restart(&address).await;
    let lost = text(&session, "shell_wait", json!({})).await;
    assert_eq!(
        lost.lines().filter(|line| !line.starts_with("[glassbox]") && !line.is_empty()).collect::<Vec<_>>(),
        ["ERROR: the command was interrupted: the server was restarted", "output so far:"],
        "{lost}"
    );
}

#[tokio::test]
async fn another_tenants_sandbox_is_reached_by_no_tool_and_a_viewer_only_reads() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let begun = call(&session, "shell_exec", json!({"command": "echo secret", "timeout": 30})).await;
    let id = begun.command_id.expect("an id");
    let foreign = server.other_operator().with_role(Role::Agent).await.session(session.id());
    let tools: Vec<Value> = agent.get("/v1/tools").await.ok().expect("schemas");
    for tool in tools {
        let name = tool["name"].as_str().expect("a name");
        let input = json!({"command": "id", "path": "x", "command_id": id.as_str()});
        let refused = foreign.client().post(&foreign.path(&format!("/tools/{name}")), &input).await.refusal();
        assert_eq!(refused.code(), ErrorCode::OtherTenant, "{name}: {refused}");
    }
    let mine = server.other_operator().with_role(Role::Agent).await.create_session(open()).await;
    let stolen = text(&mine, "shell_wait", json!({"command_id": id.as_str()})).await;
    assert_eq!(stolen, "ERROR: there is no such command");
    let viewer = server.operator().with_role(Role::Viewer).await.session(session.id());
    assert_eq!(text(&viewer, "shell_wait", json!({"command_id": id.as_str()})).await, "exit=0\noutput:\nsecret\n");
    let refused = call(&viewer, "shell_exec", json!({"command": "id"})).await;
    assert_eq!(refused.text, "ERROR: viewers only watch; use an agent's or operator's key");
}

#[tokio::test]
async fn only_keys_sessions_and_json_are_http_errors() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let path = session.path("/tools/shell_exec");
    let wrong = agent
        .send(agent.request(reqwest::Method::POST, &path).header("content-type", "application/json").body("{"))
        .await;
    assert_eq!(wrong.refusal().code(), ErrorCode::Invalid);
    assert_eq!(agent.without_key().post(&path, &json!({})).await.refusal().code(), ErrorCode::Unauthorized);
    let list = agent.post(&path, &json!(["ls"])).await;
    assert_eq!(list.ok::<ToolAnswer>().expect("a text").text, "ERROR: the input of shell_exec must be a JSON object");
    let none = agent.send(agent.request(reqwest::Method::POST, &session.path("/tools/shell_list"))).await;
    assert_eq!(none.ok::<ToolAnswer>().expect("a text").text, "no command is running");
    let mut asked = open();
    asked.agent = Some("codex 1.2".into());
    assert_eq!(agent.create_session(asked).await.view().await.created_by.name(), "codex 1.2");
    let asked = RunCommand { command: "true".into(), agent: Some("codex".into()), ..RunCommand::default() };
    assert_eq!(session.run_with(asked).await.view().await.actor.name(), "codex");
    let named = agent.post(&format!("{path}?agent=claude-code&reader=a"), &json!({"command": "echo named"})).await;
    let named: ToolAnswer = named.ok().expect("a text");
    let view = session.command(&named.command_id.expect("an id")).view().await;
    assert_eq!(view.actor.name(), "claude-code");
    assert!(
        tokio::time::timeout(EFFECTIVE, agent.get("/v1/tools?format=other")).await.expect("in time").refusal().status
            == 422
    );
}

#[tokio::test]
async fn a_human_reads_exactly_what_the_model_was_told_also_after_the_end() {
    let (server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    let ran = call(&session, "shell_exec", json!({"command": "printf 'a\\nb'"})).await;
    let id = ran.command_id.clone().expect("an id");
    let wrong = call(&session, "edit_file", json!({"path": "x"})).await;
    let seen = async |query: &str| -> ToolCallList {
        let path = format!("/v1/history/{}/tool-calls{query}", session.id());
        server.operator().get(&path).await.ok().expect("it can be read")
    };
    let all = seen("").await.calls;
    let told: Vec<(&str, &str)> = all.iter().map(|call| (call.tool.as_str(), call.text.as_str())).collect();
    assert_eq!(told, [("edit_file", wrong.text.as_str()), ("shell_exec", ran.text.as_str())]);
    session.delete().await.success().expect("ended");
    let of_it = seen(&format!("?command_id={}", id.as_str())).await.calls;
    assert_eq!(of_it.len(), 1);
    assert_eq!(
        (of_it[0].text.as_str(), of_it[0].input.as_str()),
        ("exit=0\noutput:\na\nb", r#"{"command":"printf 'a\\nb'"}"#)
    );
    assert!(matches!(of_it[0].actor, Actor::Agent { .. }));
    let foreign = server.other_operator();
    let path = format!("/v1/history/{}/tool-calls", session.id());
    assert_eq!(foreign.get(&path).await.refusal().status, 404);
}
