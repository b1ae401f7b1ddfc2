//! One session.

use std::time::Duration;

use glassbox_shared::command::{CommandList, CommandView, RunCommand};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{CreateSession, Profile, SessionState, SessionView};

use crate::answer::{Answer, Refusal};
use crate::client::Client;
use crate::command::{Command, Finished};
use crate::files::Files;
use crate::wait::eventually;

/// How long a sandbox may take to be made again. The bar is 10 s; machines that run tests are busy.
pub const READY_LIMIT: Duration = Duration::from_secs(30);

/// An open sandbox.
pub fn open() -> CreateSession {
    CreateSession { profile: Some(Profile::Open), memory: Some(megabytes(512)), ..CreateSession::default() }
}

/// A hardened, persistent sandbox.
pub fn hardened() -> CreateSession {
    CreateSession { profile: Some(Profile::Hardened), persistent: Some(true), ..CreateSession::default() }
}

/// Text for a command that goes on when [`Session::release`] says so.
pub fn hold(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep 0.05; done")
}

/// An amount of memory.
pub fn megabytes(megabytes: u64) -> glassbox_shared::session::MemorySize {
    glassbox_shared::session::MemorySize::Bytes(megabytes << 20)
}

/// A session of a client.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    id: SessionId,
}

impl Session {
    pub(crate) fn new(client: Client, id: SessionId) -> Self {
        Self { client, id }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Who sees it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its path, and what comes after it.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// The same session, seen by another client.
    #[must_use]
    pub fn seen_by(&self, client: &Client) -> Self {
        Self::new(client.clone(), self.id.clone())
    }

    /// As it is now.
    pub async fn view(&self) -> SessionView {
        self.client.get(&self.path("")).await.ok().expect("the session can be seen")
    }

    /// Runs `bash -c TEXT`.
    pub async fn try_run(&self, request: &RunCommand) -> Result<Command, Refusal> {
        let view: CommandView = self.client.post(&self.path("/commands"), request).await.ok()?;
        Ok(self.command(&view.command_id))
    }

    /// Runs a command, which must be taken.
    pub async fn run_with(&self, request: RunCommand) -> Command {
        self.try_run(&request).await.expect("the command is taken")
    }

    /// Runs a text.
    pub async fn run(&self, command: &str) -> Command {
        self.run_with(RunCommand { command: command.to_owned(), ..RunCommand::default() }).await
    }

    /// Runs a text, and waits for its end and for all of its output.
    pub async fn finish(&self, command: &str) -> Finished {
        self.run(command).await.finish().await
    }

    /// Runs a text that must exit with 0; what it wrote.
    pub async fn sh(&self, command: &str) -> String {
        let finished = self.finish(command).await;
        assert_eq!(finished.exit_code(), Some(0), "{command}: {finished:?}");
        finished.text()
    }

    /// Process ids of this exact command line.
    pub async fn processes(&self, command_line: &str) -> Vec<i32> {
        let found = self.sh(&format!("pgrep -fx '{command_line}' || true")).await;
        found.lines().map(|line| line.trim().parse().expect("pgrep prints numbers")).collect()
    }

    /// Lets a command go on that runs [`hold`] with this name.
    pub async fn release(&self, name: &str) {
        self.sh(&format!("touch {name}")).await;
    }

    /// A command that exists.
    pub fn command(&self, id: &CommandId) -> Command {
        Command::new(self.client.clone(), self.id.clone(), id.clone())
    }

    /// Its files.
    pub fn files(&self) -> Files {
        Files::new(self.client.clone(), self.clone())
    }

    /// The newest commands.
    pub async fn commands(&self) -> CommandList {
        self.client.get(&self.path("/commands")).await.ok().expect("commands can be listed")
    }

    /// Waits until commands can run.
    pub async fn ready(&self) -> SessionView {
        eventually("the session is ready", READY_LIMIT, async || {
            Some(self.view().await).filter(|view| view.state == SessionState::Ready)
        })
        .await
    }

    /// Waits until its sandbox was made again this often.
    pub async fn restarted(&self, times: usize) -> SessionView {
        eventually("the sandbox is made again", READY_LIMIT, async || {
            Some(self.view().await).filter(|view| view.state == SessionState::Ready && view.restarts.len() >= times)
        })
        .await
    }

    /// Ends it.
    pub async fn delete(&self) -> Answer {
        self.client.delete(&self.path("")).await
    }
}
