//! One command.

use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, CommandView};
use glassbox_shared::id::{CommandId, SessionId};
use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::client::Client;
use crate::output::{self, Read};
use crate::wait::eventually;

/// How long a test waits for an end where it does not say otherwise.
pub const END_LIMIT: Duration = Duration::from_mins(2);
/// Seconds of one long poll.
const POLL: u64 = 20;

/// A command of a session.
#[derive(Debug, Clone)]
pub struct Command {
    client: Client,
    session: SessionId,
    id: CommandId,
}

/// A command that has ended, and all that it wrote.
#[derive(Debug, Clone)]
pub struct Finished {
    /// As it is now.
    pub view: CommandView,
    /// What it wrote.
    pub output: Read,
}

impl Finished {
    /// The exit code, if that is how it ended.
    pub fn exit_code(&self) -> Option<i32> {
        match self.view.state {
            CommandState::Exited { code } => Some(code),
            _ => None,
        }
    }

    /// What it wrote, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.bytes).into_owned()
    }
}

impl Command {
    pub(crate) fn new(client: Client, session: SessionId, id: CommandId) -> Self {
        Self { client, session, id }
    }

    /// Its id.
    pub fn id(&self) -> &CommandId {
        &self.id
    }

    /// Its session's id.
    pub fn session_id(&self) -> &SessionId {
        &self.session
    }

    /// Who asks.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its path, and what comes after it.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}/commands/{}{rest}", self.session, self.id)
    }

    /// The same command, seen by another client.
    #[must_use]
    pub fn seen_by(&self, client: &Client) -> Self {
        Self { client: client.clone(), ..self.clone() }
    }

    /// As it is now.
    pub async fn view(&self) -> CommandView {
        self.client.get(&self.path("")).await.ok().expect("the command can be seen")
    }

    /// Waits for its end.
    pub async fn ended(&self) -> CommandView {
        let begun = Instant::now();
        loop {
            let view: CommandView =
                self.client.get(&self.path(&format!("?wait={POLL}"))).await.ok().expect("the command can be seen");
            if view.state.is_final() {
                assert!(view.ended_at.is_some(), "an end has a time: {view:?}");
                return view;
            }
            assert!(begun.elapsed() < END_LIMIT, "not ended within {END_LIMIT:?}: {view:?}");
        }
    }

    /// Waits until its process was seen.
    pub async fn running(&self) -> CommandView {
        eventually("the command runs", END_LIMIT, async || {
            let view = self.view().await;
            assert!(!view.state.is_final(), "it should run: {view:?}");
            Some(view).filter(|view| view.state == CommandState::Running)
        })
        .await
    }

    /// Waits for its end and for all of its output.
    pub async fn finish(&self) -> Finished {
        let output = self.output().await;
        self.ended().await;
        // The log's end is announced before the view of it is stored.
        let view = eventually("the output is closed", END_LIMIT, async || {
            Some(self.view().await).filter(|view| view.output_closed)
        })
        .await;
        assert_eq!(view.output_bytes, output.next, "the view counts every byte: {view:?}");
        Finished { view, output }
    }

    /// All output, to its end.
    pub async fn output(&self) -> Read {
        output::read_to_end(self, 0).await
    }

    /// Output from an offset on, to its end.
    pub async fn output_from(&self, offset: u64) -> Read {
        output::read_to_end(self, offset).await
    }

    /// Waits until this text was written; what was written until then.
    pub async fn wrote(&self, text: &str) -> Read {
        output::read_until(self, text.as_bytes()).await
    }

    /// Asks to end it.
    pub async fn try_kill(&self, grace_seconds: Option<f64>) -> Result<CommandView, Refusal> {
        let body = grace_seconds.map_or(json!({}), |seconds| json!({"grace_seconds": seconds}));
        self.client.post(&self.path("/kill"), &body).await.ok()
    }

    /// Ends it, which must work.
    pub async fn kill(&self, grace_seconds: f64) -> CommandView {
        self.try_kill(Some(grace_seconds)).await.expect("the command is killed")
    }

    /// Sends a signal.
    pub async fn signal(&self, name: &str) -> Answer {
        self.client.post(&self.path("/signal"), &json!({"signal": name})).await
    }
}
