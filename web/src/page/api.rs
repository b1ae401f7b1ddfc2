//! The REST calls, same origin, with the cookie. Every failure is a sentence for people.

use gloo_net::http::{Request, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandList, CommandView, KillCommand, RunCommand};
use glassbox_shared::error::{ErrorBody, ErrorCode};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{CreateSession, SessionList, SessionView};

/// Commands a page of the list holds.
pub const COMMANDS_PAGE: usize = 50;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status; 0: the server was not reached.
    pub status: u16,
    /// The stable code, where the answer had one.
    pub code: Option<ErrorCode>,
    /// What happened and what to do.
    pub detail: String,
}

impl Failure {
    pub(super) fn unreachable() -> Self {
        Self { status: 0, code: None, detail: "The server cannot be reached.".to_owned() }
    }

    /// Not signed in (any more)?
    pub fn signed_out(&self) -> bool {
        self.status == 401
    }

    /// Does the thing not exist, or not for us?
    pub fn not_found(&self) -> bool {
        matches!(self.status, 404 | 403)
    }
}

/// Who is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Me {
    /// Whose sessions these are.
    pub tenant_id: String,
    /// What this person may do.
    pub role: Role,
    /// Who.
    pub actor: Actor,
    /// The server's version.
    #[serde(default)]
    pub version: String,
}

/// How to sign in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// An API key.
    Key(String),
    /// The token of a one-time link.
    Link(String),
}

#[derive(Serialize)]
struct SignIn<'a> {
    #[serde(flatten)]
    proof: &'a Proof,
    name: &'a str,
}

#[derive(Serialize)]
struct Nothing {}

pub(super) async fn answer(response: Result<Response, gloo_net::Error>) -> Result<Response, Failure> {
    let response = response.map_err(|_| Failure::unreachable())?;
    if response.ok() {
        return Ok(response);
    }
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    if let Ok(body) = serde_json::from_str::<ErrorBody>(&text) {
        return Err(Failure { status, code: Some(body.code), detail: body.detail });
    }
    // A code that this page does not know yet still comes with words.
    let detail = serde_json::from_str::<serde_json::Value>(&text).ok();
    let detail = detail.and_then(|value| value.get("detail")?.as_str().map(str::to_owned));
    Err(Failure { status, code: None, detail: detail.unwrap_or_else(|| format!("The server answered {status}.")) })
}

pub(super) async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    let status = response.status();
    response.json().await.map_err(|_| Failure {
        status,
        code: None,
        detail: "The server's answer was not understood. This page may be older than the server: reload it.".to_owned(),
    })
}

pub(super) async fn get<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    read(answer(Request::get(path).send().await).await?).await
}

pub(super) async fn send(request: RequestBuilder, body: &impl Serialize) -> Result<Response, Failure> {
    let request = request.json(body).map_err(|_| Failure::unreachable())?;
    answer(request.send().await).await
}

/// GET `/v1/me`.
pub async fn me() -> Result<Me, Failure> {
    get("/v1/me").await
}

/// POST `/v1/sign-in`, then who we are.
pub async fn sign_in(proof: &Proof, name: &str) -> Result<Me, Failure> {
    send(Request::post("/v1/sign-in"), &SignIn { proof, name }).await?;
    me().await
}

/// POST `/v1/sign-out`.
pub async fn sign_out() -> Result<(), Failure> {
    send(Request::post("/v1/sign-out"), &Nothing {}).await.map(drop)
}

/// GET `/v1/sessions`.
pub async fn sessions() -> Result<SessionList, Failure> {
    get("/v1/sessions").await
}

/// GET one session.
pub async fn session(id: &SessionId) -> Result<SessionView, Failure> {
    get(&format!("/v1/sessions/{id}")).await
}

/// POST `/v1/sessions`.
pub async fn create_session(wanted: &CreateSession) -> Result<SessionView, Failure> {
    read(send(Request::post("/v1/sessions"), wanted).await?).await
}

/// DELETE a session.
pub async fn delete_session(id: &SessionId) -> Result<(), Failure> {
    send(Request::delete(&format!("/v1/sessions/{id}")), &Nothing {}).await.map(drop)
}

/// A page of commands, newest first.
pub async fn commands(id: &SessionId, before: Option<u64>) -> Result<CommandList, Failure> {
    let before = before.map_or_else(String::new, |number| format!("&before={number}"));
    get(&format!("/v1/sessions/{id}/commands?limit={COMMANDS_PAGE}{before}")).await
}

/// One command.
pub async fn command(session: &SessionId, id: &CommandId) -> Result<CommandView, Failure> {
    get(&format!("/v1/sessions/{session}/commands/{id}")).await
}

/// Starts a command.
pub async fn run(session: &SessionId, wanted: &RunCommand) -> Result<CommandView, Failure> {
    read(send(Request::post(&format!("/v1/sessions/{session}/commands")), wanted).await?).await
}

/// Kills one; the answer comes when the end is verified.
pub async fn kill(session: &SessionId, id: &CommandId, grace_seconds: f64) -> Result<CommandView, Failure> {
    let body = KillCommand { grace_seconds: Some(grace_seconds) };
    read(send(Request::post(&format!("/v1/sessions/{session}/commands/{id}/kill")), &body).await?).await
}

/// The end of a command's output as it is now, at most `bytes` of it.
pub async fn tail(command: &CommandView, bytes: u64) -> Result<Vec<u8>, Failure> {
    let from = command.output_bytes.saturating_sub(bytes);
    let path =
        format!("/v1/sessions/{}/commands/{}/output?from={from}&max={bytes}", command.session_id, command.command_id);
    answer(Request::get(&path).send().await).await?.binary().await.map_err(|_| Failure::unreachable())
}

/// Address of the whole log, as a download.
pub fn log_address(session: &SessionId, id: &CommandId) -> String {
    format!("/v1/sessions/{session}/commands/{id}/log")
}
