//! Calls as a model makes them, on the engine in memory.

mod interleaved;
mod kept;
mod restarts;

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{KillCommand, RunCommand};
use glassbox_shared::id::CommandId;
use glassbox_shared::session::{CreateSession, Profile};
use glassbox_shared::tools::ToolAnswer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Reader, Tools};
use crate::command::log::LogSettings;
use crate::control::Principal;
use crate::feed::Feed;
use crate::runtime::fake::FakeRuntime;
use crate::session::settings::SessionSettings;
use crate::session::{Session, Sessions};
use crate::store::Store;

/// Nothing here takes this long; only a broken test does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session, and a model that has it.
struct Stage {
    engine: FakeRuntime,
    sessions: Sessions,
    session: Session,
    tools: Tools,
    shutdown: CancellationToken,
    _folder: TempDir,
}

impl Stage {
    async fn new() -> Self {
        Self::with_log(LogSettings::default()).await
    }

    async fn with_log(log: LogSettings) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = SessionSettings {
            instance: "test".into(),
            image: "sandbox-base:latest".into(),
            templates: Vec::new(),
            open_workspace_dir: "/root".into(),
            logs_dir: folder.path().join("logs"),
            log,
            max_sessions: 10,
            max_commands: 64,
            idle: Duration::from_secs(1800),
            lifetime: Duration::from_secs(86_400),
            max_command: Duration::from_secs(86_400),
            memory_total: 4 << 30,
            max_memory: 4 << 30,
            max_cpus: 4.0,
            max_file: 1 << 30,
            max_pids: 4096,
        };
        let store = Store::open(&folder.path().join("glassbox.db")).expect("a database");
        let shutdown = CancellationToken::new();
        let engine = FakeRuntime::new();
        let sessions =
            Sessions::start(Arc::new(engine.clone()), store.clone(), Feed::default(), settings, shutdown.clone())
                .await
                .expect("a start");
        let open = CreateSession { profile: Some(Profile::Open), ..CreateSession::default() };
        let id = sessions.create(&agent(), open).await.expect("a session").session_id;
        let session = sessions.get("acme", &id).expect("the session");
        let tools = Tools::new(store, shutdown.clone());
        Self { engine, sessions, session, tools, shutdown, _folder: folder }
    }

    async fn call_as(&self, reader: &str, name: &str, input: Value) -> ToolAnswer {
        let reader = Reader::new(&agent(), Some(reader)).expect("a reader");
        self.tools.dispatch(&agent(), &self.session, &reader, name, &input).await
    }

    async fn call(&self, name: &str, input: Value) -> ToolAnswer {
        self.call_as("", name, input).await
    }

    async fn text(&self, name: &str, input: Value) -> String {
        self.call(name, input).await.text
    }

    /// Waits until the command has written so many bytes.
    async fn wrote(&self, id: &CommandId, bytes: u64) {
        let log = self.session.command(id).await.expect("the command").log().await.expect("its log");
        let mut state = log.watch();
        let wrote = state.wait_for(|state| state.end >= bytes);
        tokio::time::timeout(PATIENCE, wrote).await.expect("in time").expect("a writer");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn agent() -> Principal {
    Principal { tenant: "acme".into(), role: Role::Agent, actor: Actor::Agent { name: "agent-7".into() }, key_id: None }
}

fn operator() -> Principal {
    Principal { tenant: "acme".into(), role: Role::Operator, actor: Actor::Human { name: "Ann".into() }, key_id: None }
}

const STILL: &str = "It is still running: call shell_wait to go on waiting for it, or shell_kill to end it.";

#[tokio::test]
async fn a_command_that_ends_in_time_is_told_whole() {
    let stage = Stage::new().await;
    let answer = stage.call("shell_exec", json!({"command": "print hello; exit 7"})).await;
    assert_eq!(answer.text, "exit=7\noutput:\nhello\n");
    assert_eq!((answer.is_error, answer.exit_code, answer.truncated), (false, Some(7), false));
    assert_eq!((answer.offset, answer.next_offset, answer.state.as_deref()), (Some(0), Some(6), Some("exited")));
    assert_eq!(
        stage.text("shell_wait", json!({})).await,
        "ERROR: no command is currently running; start one with shell_exec"
    );
    assert_eq!(
        stage.text("shell_kill", json!({})).await,
        "ERROR: no command is currently running; start one with shell_exec"
    );
}

#[tokio::test]
async fn a_slow_command_goes_on_and_each_piece_of_output_comes_once() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "print one; hang", "timeout": 0})).await;
    let id = begun.command_id.clone().expect("an id");
    assert!(begun.text.starts_with("still running after 0s; "), "{}", begun.text);
    stage.wrote(&id, 4).await;
    let next = stage.text("shell_wait", json!({"timeout": 0})).await;
    let told = format!("{}{next}", begun.text);
    assert_eq!(told.matches("one\n").count(), 1, "{told}");
    let silent = stage.text("shell_wait", json!({"timeout": 0})).await;
    assert!(silent.contains("; no new output for 0s\noutput so far:\n(nothing new)\n"), "{silent}");
    assert!(silent.ends_with(STILL), "{silent}");
    let busy = stage.call("shell_exec", json!({"command": "print two"})).await;
    assert!(busy.is_error && busy.text.starts_with("ERROR: a command has been running for 0s; call shell_wait"));
    let killed = stage.call("shell_kill", json!({})).await;
    assert_eq!(killed.text, "killed (exit=143)\n[SIGTERM after 0s]\noutput:\n");
    assert_eq!(stage.text("shell_exec", json!({"command": "print two"})).await, "exit=0\noutput:\ntwo\n");
}

#[tokio::test]
async fn readers_have_output_and_a_foreground_of_their_own() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "print one; hang", "timeout": 0})).await;
    let id = begun.command_id.expect("an id");
    stage.wrote(&id, 4).await;
    for reader in ["a", "b"] {
        let answer = stage.call_as(reader, "shell_wait", json!({"command_id": id.as_str(), "timeout": 0})).await;
        assert!(answer.text.contains("produced 4 new characters of output\noutput so far:\none\n"), "{}", answer.text);
        let other = stage.call_as(reader, "shell_exec", json!({"command": "print mine"})).await;
        assert_eq!(other.text, "exit=0\noutput:\nmine\n");
    }
}

#[tokio::test]
async fn background_commands_are_started_listed_and_ended_by_their_ids() {
    let stage = Stage::new().await;
    let mut ids = Vec::new();
    for nth in 0..2 {
        let started =
            stage.call("shell_exec", json!({"command": format!("print up{nth}; hang"), "background": true})).await;
        let id = started.command_id.expect("an id");
        assert!(started.text.starts_with(&format!("started in the background\ncommand_id={}\n", id.as_str())));
        ids.push(id);
    }
    assert_eq!(stage.text("shell_exec", json!({"command": "print fine"})).await, "exit=0\noutput:\nfine\n");
    let list = stage.text("shell_list", json!({})).await;
    assert!(list.starts_with("2 commands are running:\n"), "{list}");
    assert!(list.contains("last ended: exit=0  5 bytes of output  print fine"), "{list}");
    stage.wrote(&ids[0], 4).await;
    let killed = stage.text("shell_kill", json!({"command_id": ids[0].as_str()})).await;
    assert_eq!(killed, "killed (exit=143)\n[SIGTERM after 0s]\noutput:\nup0\n");
    assert_eq!(
        stage.text("shell_kill", json!({"command_id": ids[0].as_str()})).await,
        "ERROR: this command has ended already"
    );
}

#[tokio::test]
async fn an_end_that_nobody_waited_for_is_told_with_the_next_command() {
    let stage = Stage::new().await;
    let begun = stage.call("shell_exec", json!({"command": "hang", "timeout": 0})).await;
    let id = begun.command_id.expect("an id");
    stage.session.kill(&operator(), &id, KillCommand::default()).await.expect("a kill by a human");
    let next = stage.text("shell_exec", json!({"command": "print next"})).await;
    assert_eq!(
        next,
        format!(
            "[glassbox] the command before this one has ended meanwhile (exit=143); shell_wait with command_id {} gives \
             its output\n\nexit=0\noutput:\nnext\n",
            id.as_str()
        )
    );
    assert_eq!(
        stage.text("shell_wait", json!({"command_id": id.as_str()})).await,
        "[glassbox] Ann, a human who watches this session, killed this command\n\n\
         killed (exit=143)\n[SIGTERM after 0s]\noutput:\n"
    );
}

#[tokio::test]
async fn every_call_has_a_text_whatever_is_wrong_with_it() {
    let stage = Stage::new().await;
    for (name, input, beginning) in [
        ("shell", json!({}), "ERROR: there is no tool \"shell\"; the tools are shell_exec"),
        ("shell_exec", json!({"command": []}), "ERROR: `command` must be a string"),
        ("shell_exec", json!({"command": "fail no bash"}), "ERROR: the command could not be started: "),
        ("shell_wait", json!({"command_id": "cmd_aaaaaaaaaaaaaaaaaaaa"}), "ERROR: there is no such command"),
        ("shell_output", json!({"command_id": "cmd_aaaaaaaaaaaaaaaaaaaa"}), "ERROR: there is no such command"),
    ] {
        let answer = stage.call(name, input).await;
        assert!(answer.is_error && answer.text.starts_with(beginning), "{}", answer.text);
    }
    let viewer = Principal { role: Role::Viewer, ..agent() };
    let reader = Reader::new(&viewer, None).expect("a reader");
    let refused =
        stage.tools.dispatch(&viewer, &stage.session, &reader, "shell_exec", &json!({"command": "print x"})).await;
    assert_eq!(refused.text, "ERROR: viewers only watch; use an agent's or operator's key");
}

#[tokio::test]
async fn a_flood_is_counted_exactly_though_the_log_forgets_its_middle() {
    let log = LogSettings { ring: 64 << 10, head: 256 << 10, tail: 256 << 10 };
    let stage = Stage::with_log(log).await;
    let answer = stage.call("shell_exec", json!({"command": "flood 8000000"})).await;
    assert!(answer.truncated);
    let id = answer.command_id.expect("an id");
    let view = stage.session.command(&id).await.expect("it").wait_closed(PATIENCE).await;
    assert!(view.output_missing_bytes > 0, "the log had to forget something for this to mean anything");
    let missing = answer.text.split_once(" bytes that are no longer held").map(|(before, _)| before.rsplit(' ').next());
    let dropped: u64 = answer
        .text
        .split_once("... [")
        .and_then(|(_, rest)| rest.split_once(" characters truncated"))
        .and_then(|(number, _)| number.parse().ok())
        .expect("the figure");
    let missing: u64 = missing.flatten().map_or(0, |number| number.parse().expect("a figure"));
    assert_eq!(dropped + missing + 30_000, 8_000_000);
    assert!(answer.text.starts_with(&format!(
        "[glassbox] the middle of this output was cut; all that is held of it can be read with shell_output (command_id {}, offset 0)\n",
        id.as_str()
    )));
    let part = stage.call("shell_output", json!({"command_id": id.as_str(), "offset": 7_999_990, "limit": 4})).await;
    assert!(part.text.contains("bytes 7999990 to 7999994 of 8000000\noutput:\n"), "{}", part.text);
    assert_eq!(part.next_offset, Some(7_999_994));
}

#[tokio::test]
async fn a_thousand_waiting_calls_ask_nobody_anything() {
    let stage = Arc::new(Stage::new().await);
    let begun = stage.call("shell_exec", json!({"command": "hang", "timeout": 0})).await;
    let id = begun.command_id.expect("an id");
    let waiting: Vec<_> = (0..1000)
        .map(|nth| {
            let (stage, id) = (Arc::clone(&stage), id.clone());
            tokio::spawn(async move {
                let input = json!({"command_id": id.as_str(), "timeout": 600});
                stage.call_as(&format!("reader {nth}"), "shell_wait", input).await.text
            })
        })
        .collect();
    stage.session.kill(&agent(), &id, KillCommand::default()).await.expect("a kill");
    for waiting in waiting {
        assert_eq!(waiting.await.expect("an answer"), "killed (exit=143)\n[SIGTERM after 0s]\noutput:\n");
    }
}

#[tokio::test]
async fn commands_that_were_begun_elsewhere_can_be_followed_too() {
    let stage = Stage::new().await;
    let request = RunCommand { command: "print by rest".into(), ..RunCommand::default() };
    let id = stage.session.run(&agent(), request).await.expect("a command").command_id;
    let text = stage.text("shell_wait", json!({"command_id": id.as_str()})).await;
    assert_eq!(text, "exit=0\noutput:\nby rest\n");
    assert_eq!(stage.sessions.list("acme").len(), 1);
}
