//! One MCP session: tools/list and tools/call.
//!
//! A call answers within [`CALL_TIME`], because clients give up after a minute; what it began goes on. While it waits it
//! says so to clients that asked for progress. When a client cancels it, or is gone, or the server stops, the call is given
//! up: it has given nobody anything then, so the next call gives all of it, and nothing is written down.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::request::Parts;
use glassbox_shared::text::plain;
use glassbox_shared::tools::ToolAnswer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeRequestParams,
    InitializeResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::call::{CALL_TIME, OneCall};
use super::seats::Seat;
use super::{Shared, Visitor, listed};
use crate::error::DomainError;

/// Between two words to a client that waits.
const PROGRESS: Duration = Duration::from_secs(5);
/// For passing such a word on: a client that takes nothing must not hold its own call up.
const PROGRESS_TIME: Duration = Duration::from_secs(1);
/// Longest name of a client, in characters; with a version behind it, it is still a name of an agent.
pub(super) const MAX_CLIENT: usize = 40;
const MAX_VERSION: usize = 15;

/// Answers requests.
#[derive(Debug)]
pub(super) struct Handler {
    shared: Arc<Shared>,
    seat: OnceLock<Arc<Seat>>,
    /// The server waits for it at its end.
    _running: TaskTrackerToken,
}

impl Handler {
    pub(super) fn new(shared: Arc<Shared>, running: TaskTrackerToken) -> Self {
        Self { shared, seat: OnceLock::new(), _running: running }
    }
}

/// Who asks; put beside the request by `serve`.
fn visitor(context: &RequestContext<RoleServer>) -> Result<Visitor, ErrorData> {
    let visitor = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Visitor>());
    visitor.cloned().ok_or_else(|| ErrorData::internal_error("the request came without its sender", None))
}

/// A client's name, and with its version: plain, bounded, `None` if nothing is left of it.
fn named(client: &Implementation) -> Option<(String, String)> {
    let short = |text: &str, most| plain(text).trim().chars().take(most).collect::<String>().trim().to_owned();
    let (name, version) = (short(&client.name, MAX_CLIENT), short(&client.version, MAX_VERSION));
    if name.is_empty() {
        return None;
    }
    let label = if version.is_empty() { name.clone() } else { format!("{name} {version}") };
    Some((name, label))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("glassbox", env!("CARGO_PKG_VERSION")).with_title("Glassbox");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(listed::INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let visitor = visitor(&context)?;
        if let Some(seat) = visitor.seat {
            let fallback = || ("mcp".to_owned(), visitor.caller.principal.actor.name().to_owned());
            let (name, label) = named(&request.client_info).unwrap_or_else(fallback);
            seat.sit(&name, &label);
            // Held as long as this session lives.
            let _ = self.seat.set(seat);
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    /// Those with sessions: what a client was told, whether it is alone, what it was not given yet are all its session's.
    /// Clients that know later versions are told so, and use an earlier one.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(listed::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        listed::tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visitor = visitor(&context)?;
        let seated = visitor.seat.as_ref().and_then(|seat| Some((seat, seat.client()?)));
        let Some((seat, client)) = seated else {
            return Err(ErrorData::invalid_request("begin a session with initialize first", None));
        };
        let calling = seat.call();
        let call = OneCall {
            shared: &self.shared,
            caller: &visitor.caller,
            seat,
            client,
            name: &request.name,
            input: request.arguments.map_or(Value::Null, Value::Object),
            until: Instant::now() + CALL_TIME,
            session: OnceLock::new(),
        };
        let began = Instant::now();
        let token = context.meta.get_progress_token();
        let mut ticks = tokio::time::interval_at(began + PROGRESS, PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shutdown = &self.shared.state.shutdown;
        let answer = {
            let mut answering = std::pin::pin!(call.answer());
            loop {
                tokio::select! {
                    biased;
                    () = context.ct.cancelled() => break ToolAnswer::refused("the call was cancelled"),
                    () = visitor.gone.cancelled() => break ToolAnswer::refused("nobody waited for the answer"),
                    // rmcp sends nothing any more, so nothing is told either.
                    () = shutdown.cancelled() => break ToolAnswer::refused(&DomainError::shutting_down().detail),
                    answer = &mut answering => break answer,
                    _ = ticks.tick(), if token.is_some() => {
                        let Some(token) = token.clone() else { continue };
                        let seconds = began.elapsed().as_secs();
                        let word = ProgressNotificationParam::new(token, seconds as f64)
                            .with_message(format!("{} has been waiting for {seconds}s", request.name));
                        // Whether it arrives changes nothing.
                        let _ = tokio::time::timeout(PROGRESS_TIME, context.peer.notify_progress(word)).await;
                    }
                }
            }
        };
        drop(calling);
        Ok(result(answer).into())
    }
}

/// The answer as MCP has it; what programs may want beside the text is in `_meta`, because clients are known to show
/// models `structuredContent` instead of the text.
fn result(answer: ToolAnswer) -> CallToolResult {
    let mut beside = serde_json::to_value(&answer).unwrap_or_default();
    if let Some(fields) = beside.as_object_mut() {
        fields.remove("text");
    }
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    let mut meta = MetaObject::new();
    meta.0.insert("glassbox/answer".to_owned(), beside);
    result.meta = Some(meta);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_is_named_by_plain_text_of_bounded_length() {
        let of = |name: &str, version: &str| named(&Implementation::new(name, version));
        assert_eq!(of("claude-code", "2.1"), Some(("claude-code".into(), "claude-code 2.1".into())));
        assert_eq!(of(" \u{1b}[31mred\n ", ""), Some(("red".into(), "red".into())));
        assert_eq!(of("\u{1b}[2J", "1"), None);
        let (name, label) = of(&"n".repeat(500), &"9".repeat(500)).expect("a name");
        assert_eq!((name.len(), label.len()), (MAX_CLIENT, MAX_CLIENT + 1 + MAX_VERSION));
    }

    #[test]
    fn an_answer_is_one_text_with_its_fields_beside_it() {
        let answer = result(ToolAnswer::refused("no"));
        let json = serde_json::to_value(&answer).expect("plain data");
        assert_eq!(json["isError"], true);
        assert_eq!(json["content"], json!([{"type": "text", "text": "ERROR: no"}]));
        assert_eq!(json["_meta"]["glassbox/answer"], json!({"is_error": true, "truncated": false}));
        assert!(json.get("structuredContent").is_none());
    }
}
