//! A scripted agent that uses the public API like any agent, so that there is something to watch.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use glassbox_shared::command::{CommandState, CommandView, RunCommand};
use glassbox_shared::session::{CreateSession, Profile};
use tokio_util::sync::CancellationToken;

use super::client::Client;

/// Between commands, so that a human can follow.
const PAUSE: Duration = Duration::from_secs(2);
/// How long one request waits for a command's end.
const WAIT: Duration = Duration::from_secs(30);
/// How long the server may take to come up.
const SERVER_DEADLINE: Duration = Duration::from_secs(30);
/// How long the agent stays with the command that hangs before it gives up on people.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Play a scripted agent against a running server.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The server.
    #[arg(long, env = "GLASSBOX_URL", default_value = "http://127.0.0.1:7070")]
    url: String,
    /// A key with the role `agent` (`glassbox keys create --role agent`).
    #[arg(long, env = "GLASSBOX_API_KEY", hide_env_values = true)]
    key: String,
}

/// Commands of the demo, with what they show.
const SCRIPT: [(&str, &str); 7] = [
    ("look around", "echo \"Hello from $(uname -n)\"; dmesg | head -3; ls -la"),
    (
        "write a small project",
        "mkdir -p shop && cd shop && printf 'def total(prices):\\n    return sum(prices)\\n' > shop.py && \
         printf 'from shop import total\\n\\ndef test_total():\\n    assert total([1, 2, 3]) == 6\\n    print(\"total: ok\")\\n\\ntest_total()\\n' > test_shop.py && \
         head -20 *.py",
    ),
    ("run its test", "cd shop && python3 test_shop.py"),
    (
        "a build with a progress bar",
        "for i in $(seq 1 40); do printf '\\r\\033[36mbuilding\\033[0m [%-40s] %3d %%' \"$(printf '#%.0s' $(seq 1 $i))\" $((i * 100 / 40)); sleep 0.1; done; printf '\\n\\033[32mdone\\033[0m\\n'",
    ),
    ("something that fails", "cd shop && python3 -c 'from shop import total; print(total([1, None]))'"),
    (
        "a long job with output",
        "for i in $(seq 1 20); do echo \"step $i of 20: $(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \\n')\"; sleep 0.4; done",
    ),
    (
        "waits for something that never comes",
        "echo 'waiting for the database at db:5432 ...'; while true; do sleep 1; done",
    ),
];

/// Runs the command-line command until the script is over or Ctrl-C.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let playing = play(&arguments.url, &arguments.key, stop.clone());
    tokio::pin!(playing);
    tokio::select! {
        outcome = &mut playing => outcome,
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            playing.await
        }
    }
}

/// Plays the script once, then removes the session. `stop` ends it early.
pub async fn play(url: &str, key: &str, stop: CancellationToken) -> anyhow::Result<()> {
    let client = Client::new(url, key)?;
    wait_for_server(&client, url).await?;
    let request = CreateSession { name: Some("demo".into()), profile: Some(Profile::Open), ..CreateSession::default() };
    let session = client.create_session(&request).await.context("the demo's session could not be made")?.session_id;
    println!("demo: session {session}");
    let script = async {
        for (number, (what, command)) in (1..).zip(SCRIPT) {
            println!("demo: {number}. {what}");
            let request = RunCommand { command: command.to_owned(), ..RunCommand::default() };
            let started = client.run(&session, &request).await?;
            let ended = wait_for_end(&client, &started).await?;
            println!("demo: command {number} {}", describe(&ended.state));
            tokio::time::sleep(PAUSE).await;
        }
        println!("demo: that was all; the session stays until it is idle for long");
        anyhow::Ok(())
    };
    tokio::select! {
        outcome = script => outcome,
        () = stop.cancelled() => {
            client.delete_session(&session).await.context("the demo's session could not be removed; it ends by itself when idle")
        }
    }
}

async fn wait_for_server(client: &Client, url: &str) -> anyhow::Result<()> {
    let healthy = async {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        loop {
            look.tick().await;
            if client.is_healthy().await {
                return;
            }
        }
    };
    tokio::time::timeout(SERVER_DEADLINE, healthy)
        .await
        .with_context(|| format!("no server answers at {url}; start one with `glassbox serve`"))
}

async fn wait_for_end(client: &Client, started: &CommandView) -> anyhow::Result<CommandView> {
    let ended = async {
        loop {
            let view = client.command(&started.session_id, &started.command_id, WAIT).await?;
            if view.state.is_final() {
                return anyhow::Ok(view);
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.context("nobody killed the command that hangs for an hour")?
}

fn describe(state: &CommandState) -> String {
    match state {
        CommandState::Exited { code } => format!("exited with {code}"),
        CommandState::Killed { by, .. } => format!("killed by {}", by.name()),
        CommandState::Signaled { signal } => format!("ended by {}", glassbox_shared::command::signal_name(*signal)),
        CommandState::TimedOut => "timed out".into(),
        CommandState::FailedToStart { message } => format!("failed to start: {message}"),
        CommandState::Interrupted(_) => "interrupted".into(),
        CommandState::Starting | CommandState::Running => "still running".into(),
    }
}
