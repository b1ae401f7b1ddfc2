//! The REST calls, same origin, with the cookie. Every failure is a sentence for people.

use std::pin::Pin;

use gloo_net::http::{Request, RequestBuilder, Response};
use js_sys::Uint8Array;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasm_bindgen_futures::JsFuture;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandList, CommandView, KillCommand, RunCommand, output_headers};
use glassbox_shared::error::ErrorCode;
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

/// A future without a type of its own: every call would otherwise be compiled into each of those that wait for it.
type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// Sends a request; what is not a success becomes words.
pub(super) fn answer(request: Result<Request, gloo_net::Error>) -> Boxed<Response> {
    Box::pin(async move {
        let response = match request {
            Ok(request) => request.send().await,
            Err(error) => Err(error),
        };
        let response = response.map_err(|_| Failure::unreachable())?;
        if response.ok() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        // A code that this page does not know yet still comes with words.
        let said = |name| serde_json::from_str::<Value>(&text).ok().and_then(|body| body.get(name).cloned());
        let code = said("code").and_then(|code| serde_json::from_value(code).ok());
        let detail = said("detail").and_then(|detail| detail.as_str().map(str::to_owned));
        Err(Failure { status, code, detail: detail.unwrap_or_else(|| format!("The server answered {status}.")) })
    })
}

/// The text of the answer.
fn text_of(request: Result<Request, gloo_net::Error>) -> Boxed<String> {
    Box::pin(async move { answer(request).await?.text().await.map_err(|_| Failure::unreachable()) })
}

/// What a text means. Always by way of [`Value`]: types are taken apart by code that is compiled once for each kind of
/// source that they are read from, and it is a tenth of the download.
pub(super) fn understand<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str::<Value>(text).and_then(serde_json::from_value)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    understand(text).map_err(|_| Failure {
        status: 200,
        code: None,
        detail: "The server's answer was not understood. This page may be older than the server: reload it.".to_owned(),
    })
}

/// Sends a request and reads its answer.
pub(super) fn read<T: DeserializeOwned>(request: Result<Request, gloo_net::Error>) -> Boxed<T> {
    let text = text_of(request);
    Box::pin(async move { parse(&text.await?) })
}

/// A plain GET.
pub(super) fn get<T: DeserializeOwned>(path: &str) -> Boxed<T> {
    read(Request::get(path).build())
}

/// With a JSON body.
pub(super) fn with(request: RequestBuilder, body: &impl Serialize) -> Result<Request, gloo_net::Error> {
    request.json(body)
}

/// GET `/v1/me`.
pub async fn me() -> Result<Me, Failure> {
    get("/v1/me").await
}

/// POST `/v1/sign-in`, then who we are.
pub async fn sign_in(proof: &Proof, name: &str) -> Result<Me, Failure> {
    answer(with(Request::post("/v1/sign-in"), &SignIn { proof, name })).await?;
    me().await
}

/// POST `/v1/sign-out`.
pub async fn sign_out() -> Result<(), Failure> {
    answer(with(Request::post("/v1/sign-out"), &Nothing {})).await.map(drop)
}

/// GET `/v1/sessions`.
pub async fn sessions() -> Result<SessionList, Failure> {
    get("/v1/sessions").await
}

/// Reads something of a session. The history has it in any case; of one that is known to live (`lives`) its owner is asked
/// first.
async fn of_session<T: DeserializeOwned>(lives: bool, path: String) -> Result<T, Failure> {
    if lives {
        match get(&format!("/v1/sessions/{path}")).await {
            Err(failure) if failure.not_found() => {}
            answer => return answer,
        }
    }
    get(&format!("/v1/history/{path}")).await
}

/// One session.
pub async fn session(id: &SessionId, lives: bool) -> Result<SessionView, Failure> {
    of_session(lives, id.to_string()).await
}

/// POST `/v1/sessions`.
pub async fn create_session(wanted: &CreateSession) -> Result<SessionView, Failure> {
    read(with(Request::post("/v1/sessions"), wanted)).await
}

/// DELETE a session.
pub async fn delete_session(id: &SessionId) -> Result<(), Failure> {
    answer(with(Request::delete(&format!("/v1/sessions/{id}")), &Nothing {})).await.map(drop)
}

/// A page of commands, newest first.
pub async fn commands(id: &SessionId, number: Option<u64>, lives: bool) -> Result<CommandList, Failure> {
    let before = number.map_or_else(String::new, |number| format!("&before={number}"));
    of_session(lives, format!("{id}/commands?limit={COMMANDS_PAGE}{before}")).await
}

/// One command.
pub async fn command(session: &SessionId, id: &CommandId, lives: bool) -> Result<CommandView, Failure> {
    of_session(lives, format!("{session}/commands/{id}")).await
}

/// Starts a command.
pub async fn run(session: &SessionId, wanted: &RunCommand) -> Result<CommandView, Failure> {
    read(with(Request::post(&format!("/v1/sessions/{session}/commands")), wanted)).await
}

/// Kills one; the answer comes when the end is verified.
pub async fn kill(session: &SessionId, id: &CommandId, grace_seconds: f64) -> Result<CommandView, Failure> {
    let body = KillCommand { grace_seconds: Some(grace_seconds) };
    read(with(Request::post(&format!("/v1/sessions/{session}/commands/{id}/kill")), &body)).await
}

/// The end of a command's output as it is now, at most `bytes` of it.
pub async fn tail(command: &CommandView, bytes: u64) -> Result<Vec<u8>, Failure> {
    let from = command.output_bytes.saturating_sub(bytes);
    let path =
        format!("/v1/sessions/{}/commands/{}/output?from={from}&limit={bytes}", command.session_id, command.command_id);
    answer(Request::get(&path).build()).await?.binary().await.map_err(|_| Failure::unreachable())
}

/// Address of the whole log, as a download.
pub fn log_address(session: &SessionId, id: &CommandId, over: bool) -> String {
    format!("/v1/{}/{session}/commands/{id}/log", if over { "history" } else { "sessions" })
}

/// A piece of an output.
#[derive(Debug)]
pub struct Piece {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes missing directly before it.
    pub gap: u64,
    /// Nothing comes after it.
    pub end: bool,
    /// The bytes.
    pub bytes: Uint8Array,
}

/// Output of a session that is over, from an offset on.
pub async fn past_output(session: &SessionId, id: &CommandId, from: u64, limit: u64) -> Result<Piece, Failure> {
    let address = format!("/v1/history/{session}/commands/{id}/output?from={from}&limit={limit}");
    let response = answer(Request::get(&address).build()).await?;
    let header = |name: &str| response.headers().get(name);
    let number = |name: &str| header(name).and_then(|value| value.parse().ok());
    let offset = number(output_headers::OFFSET).unwrap_or(from);
    let gap = number(output_headers::GAP).unwrap_or(0);
    let end = header(output_headers::END).as_deref() == Some("true");
    // The bytes stay in an array of the browser's; they never pass through wasm memory.
    let raw: web_sys::Response = response.into();
    let buffer = raw.array_buffer().map_err(|_| Failure::unreachable())?;
    let buffer = JsFuture::from(buffer).await.map_err(|_| Failure::unreachable())?;
    Ok(Piece { offset, gap, end, bytes: Uint8Array::new(&buffer) })
}
