//! A small client of our own public API, for commands of this binary that act like anyone else.

use std::time::Duration;

use anyhow::{Context as _, bail};
use glassbox_shared::command::{CommandView, RunCommand};
use glassbox_shared::error::ErrorBody;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{CreateSession, SessionView};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any single request: the longest asks the server to wait 30 s.
const REQUEST_DEADLINE: Duration = Duration::from_secs(120);

/// Speaks to one server with one key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl Client {
    /// For the server at `base`, for example `http://127.0.0.1:7070`.
    pub fn new(base: &str, key: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(REQUEST_DEADLINE)
            .no_proxy()
            // It speaks to servers of this machine, without TLS.
            .tls_built_in_root_certs(false)
            .build()
            .context("the HTTP client could not be made")?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), key: key.to_owned() })
    }

    /// Is the server there?
    pub async fn is_healthy(&self) -> bool {
        let answer = self.http.get(format!("{}/healthz", self.base)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    pub async fn create_session(&self, request: &CreateSession) -> anyhow::Result<SessionView> {
        self.post("/v1/sessions", request).await
    }

    pub async fn delete_session(&self, id: &SessionId) -> anyhow::Result<()> {
        let request = self.http.delete(format!("{}/v1/sessions/{id}", self.base));
        let _: serde_json::Value = self.send(request).await?;
        Ok(())
    }

    pub async fn run(&self, session: &SessionId, request: &RunCommand) -> anyhow::Result<CommandView> {
        self.post(&format!("/v1/sessions/{session}/commands"), request).await
    }

    /// Answers at the command's end or after `wait`.
    pub async fn command(
        &self,
        session: &SessionId,
        command: &CommandId,
        wait: Duration,
    ) -> anyhow::Result<CommandView> {
        let wait = wait.as_secs();
        let request = self.http.get(format!("{}/v1/sessions/{session}/commands/{command}?wait={wait}", self.base));
        self.send(request).await
    }

    async fn post<Q: Serialize, A: DeserializeOwned>(&self, path: &str, body: &Q) -> anyhow::Result<A> {
        self.send(self.http.post(format!("{}{path}", self.base)).json(body)).await
    }

    async fn send<A: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> anyhow::Result<A> {
        let answer = request
            .header("x-api-key", &self.key)
            .send()
            .await
            .with_context(|| format!("the server at {} did not answer", self.base))?;
        let status = answer.status();
        let body = answer.bytes().await.context("the answer broke off")?;
        if !status.is_success() {
            let detail = serde_json::from_slice::<ErrorBody>(&body)
                .map_or_else(|_| format!("status {status}"), |error| error.detail);
            bail!("the server refused: {detail}");
        }
        serde_json::from_slice(&body).context("the server's answer is not what was expected")
    }
}
