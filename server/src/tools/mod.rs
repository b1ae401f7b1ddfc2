//! The tools that a model calls, for whoever brings its calls: REST, MCP, the library.
//!
//! A call never fails: what went wrong is a text that begins with `ERROR:` and says what to do. Output that was not given
//! yet is a cursor of each reader and command, kept in the store: a reader is a key, and the name that it may give beside
//! it. A cursor moves in the moment in which an answer is made, and only if it stands where that answer began; so every
//! byte is given once, also to a reader that asks twice at once, and a call that is given up takes nothing away. In the same
//! way each reader is told once that the sandbox was started again: with its next answer, whichever tool that is of, once it
//! is there again.

mod files;
mod follow;
mod shell;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use glassbox_shared::id::SessionId;
use glassbox_shared::session::{EndReason, SessionState};
use glassbox_shared::text::plain;
use glassbox_shared::tools::text::{restarted, with_notes};
use glassbox_shared::tools::{Call, ToolAnswer};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::control::Principal;
use crate::error::DomainError;
use crate::session::Session;
use crate::store::{RestartsTold, Store, ToolCall, ToolReader, Wanted};

/// Longest name of a reader, in characters: a word that tells two users of one key apart.
const MAX_READER: usize = 64;
/// Bytes of a call's input that are kept for people: contents of files are not kept twice.
const KEPT_INPUT: usize = 4 * 1024;

/// Who reads: a key, and the name that it gives beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reader(String);

impl Reader {
    /// The reader that a principal is, under a name if it gives one.
    pub fn new(who: &Principal, name: Option<&str>) -> Result<Self, DomainError> {
        let name = name.unwrap_or_default();
        if name.chars().count() > MAX_READER || name.chars().any(char::is_control) {
            return Err(DomainError::invalid(format!(
                "reader has at most {MAX_READER} characters, none of them control"
            )));
        }
        // Who has no key signed in with a link, or is a program with the library: one reader for each name.
        let key = who.key_id.as_ref().map_or_else(|| who.actor.name().to_owned(), |key| key.as_str().to_owned());
        Ok(Self(format!("{key}/{name}")))
    }
}

/// Locks of those who begin a command, so that one reader does not begin two at once.
type Beginning = Mutex<HashMap<(SessionId, Reader), Weak<tokio::sync::Mutex<()>>>>;

/// A cheap handle.
#[derive(Debug, Clone)]
pub struct Tools {
    store: Store,
    shutdown: CancellationToken,
    beginning: Arc<Beginning>,
}

/// What there is to say before an answer besides. Asked for when one is made, so that it comes with the first that is; an
/// answer that is made anew asks again, and is to hear the same.
pub trait Besides: std::fmt::Debug + Sync {
    /// A line each.
    fn notes(&self) -> Vec<String>;
}

/// What a reader was not told yet of how the sandbox was started again.
#[derive(Debug, Default)]
struct Restarts {
    notes: Vec<String>,
    told: RestartsTold,
}

/// An answer that is given up with its call: whoever gives a call up drops it.
#[derive(Debug, Default)]
struct GivenUp(Wanted);

impl Drop for GivenUp {
    fn drop(&mut self) {
        // What was taken already is told.
        self.0.give_up();
    }
}

/// One call on its way.
#[derive(Debug)]
pub struct Calling<'a> {
    tools: &'a Tools,
    who: &'a Principal,
    session: &'a Session,
    reader: &'a Reader,
    name: &'a str,
    input: &'a Value,
    began: f64,
    /// Said before the text.
    besides: Option<&'a dyn Besides>,
    /// It waits no longer than until then, whatever it asks for.
    until: Option<Instant>,
    wanted: GivenUp,
}

impl Tools {
    /// Of one server.
    pub fn new(store: Store, shutdown: CancellationToken) -> Self {
        Self { store, shutdown, beginning: Arc::default() }
    }

    /// Does a call and answers what the model reads.
    pub async fn dispatch(
        &self,
        who: &Principal,
        session: &Session,
        reader: &Reader,
        name: &str,
        input: &Value,
    ) -> ToolAnswer {
        self.calling(who, session, reader, name, input).dispatch().await
    }

    /// A call, for whoever has more to say with it.
    pub fn calling<'a>(
        &'a self,
        who: &'a Principal,
        session: &'a Session,
        reader: &'a Reader,
        name: &'a str,
        input: &'a Value,
    ) -> Calling<'a> {
        let (began, wanted) = (clock::now(), GivenUp::default());
        Calling { tools: self, who, session, reader, name, input, began, besides: None, until: None, wanted }
    }

    /// Only one command of a reader begins at a time.
    fn beginning(&self, session: &Session, reader: &Reader) -> Arc<tokio::sync::Mutex<()>> {
        // The section cannot panic half-way.
        let mut locks = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        let place = locks.entry((session.id().clone(), reader.clone())).or_default();
        place.upgrade().unwrap_or_else(|| {
            let lock = Arc::new(tokio::sync::Mutex::new(()));
            *place = Arc::downgrade(&lock);
            lock
        })
    }
}

/// An error as a model reads it; its cause is for the log.
fn reason(error: &DomainError) -> String {
    if let Some(cause) = &error.cause {
        tracing::warn!(%error, %cause, "a tool call failed");
    }
    error.detail.clone()
}

impl<'a> Calling<'a> {
    /// With this to say before the text.
    #[must_use]
    pub fn noting(self, besides: &'a dyn Besides) -> Self {
        Self { besides: Some(besides), ..self }
    }

    /// Waiting no longer than until this moment; the text then says how to go on.
    #[must_use]
    pub fn within(self, until: Instant) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Whoever has this can ask, before dropping the call, whether its answer is being written down.
    #[must_use]
    pub fn wanted(self, wanted: &Wanted) -> Self {
        Self { wanted: GivenUp(wanted.clone()), ..self }
    }

    /// Writes down what a tool that is not one of these answers, and gives it to the model.
    pub async fn answered(&self, answer: ToolAnswer) -> ToolAnswer {
        self.tell(answer).await
    }

    /// Does it and answers what the model reads.
    pub async fn dispatch(&self) -> ToolAnswer {
        let call = match Call::parse(self.name, self.input) {
            Ok(call) => call,
            Err(reason) => return self.tell(ToolAnswer::refused(&reason)).await,
        };
        let answer = match call {
            Call::Exec { command, timeout, background } => self.exec(command, timeout, background).await,
            Call::Wait { timeout, command } => self.wait(timeout, command).await,
            Call::Kill { command } => self.kill(command).await,
            Call::List => self.list().await,
            Call::Output { command, offset, limit } => self.output(&command, offset, limit).await,
            Call::WriteFile { path, content } => self.write_file(&path, content).await,
            Call::ReadFile { path, offset, limit } => self.read_file(&path, offset, limit).await,
            Call::ListFiles { path, max_depth } => self.list_files(&path, max_depth).await,
            Call::EditFile { path, old, new, all } => self.edit_file(&path, &old, &new, all).await,
        };
        match answer {
            Ok(answer) => answer,
            Err(error) => self.tell(ToolAnswer::refused(&reason(&error))).await,
        }
    }

    /// The answer as the model gets it.
    fn noted(&self, restarts: &Restarts, answer: ToolAnswer) -> ToolAnswer {
        let mut notes = self.besides.map(Besides::notes).unwrap_or_default();
        notes.extend_from_slice(&restarts.notes);
        ToolAnswer { text: with_notes(&notes, answer.text), ..answer }
    }

    /// What this reader is to be told of restarts.
    fn restarts(&self, reader: &ToolReader) -> Restarts {
        let from = reader.restarts_until;
        let view = self.session.view();
        // A restart is noted when the sandbox dies: it is not there again yet, or never will be.
        if matches!(view.state, SessionState::Restarting | SessionState::Ended { reason: EndReason::Lost }) {
            return Restarts { notes: Vec::new(), told: RestartsTold { from, to: from } };
        }
        let all = view.restarts;
        let notes = all.iter().filter(|restart| restart.at > from).map(restarted).collect();
        Restarts { notes, told: RestartsTold { from, to: all.last().map_or(from, |last| last.at.max(from)) } }
    }

    /// The same for an answer that needs no reader: one that cannot be remembered is told nothing.
    async fn restarts_besides(&self) -> Restarts {
        if self.session.view().restarts.is_empty() {
            return Restarts::default();
        }
        match self.tools.store.tool_reader(self.session.id(), &self.reader.0).await {
            Ok(reader) if !reader.too_many => self.restarts(&reader),
            Ok(_) => Restarts::default(),
            Err(error) => {
                tracing::warn!(%error, session = %self.session.id().as_str(), "what a reader knows could not be read");
                Restarts::default()
            }
        }
    }

    /// The call as it is written down, with the answer as the model gets it.
    fn record(&self, answer: &ToolAnswer) -> ToolCall {
        let mut input = if self.input.is_null() { String::new() } else { self.input.to_string() };
        if input.len() > KEPT_INPUT {
            let end = input.floor_char_boundary(KEPT_INPUT);
            input.truncate(end);
        }
        ToolCall {
            session: self.session.id().clone(),
            reader: self.reader.0.clone(),
            actor: self.who.actor.clone(),
            // Names of tools that do not exist come from outside.
            tool: plain(self.name).chars().take(MAX_READER).collect(),
            input,
            command: answer.command_id.clone(),
            at: self.began,
            ended_at: clock::now(),
            text: answer.text.clone(),
            offset: answer.offset,
            next_offset: answer.next_offset,
        }
    }

    /// Writes down what the model is told, and tells it. A failure to write is no reason not to answer.
    async fn tell(&self, answer: ToolAnswer) -> ToolAnswer {
        let written = async |restarts: &Restarts| {
            let answer = self.noted(restarts, answer.clone());
            let record = self.tools.store.record_tool_call(self.record(&answer), restarts.told, &self.wanted.0);
            let is_written = record.await.unwrap_or_else(|error| {
                tracing::warn!(%error, session = %self.session.id().as_str(), "what a model was told could not be written down");
                true
            });
            is_written.then_some(answer)
        };
        match written(&self.restarts_besides().await).await {
            Some(answer) => answer,
            // Another call of this reader was quicker and told of them.
            None => written(&Restarts::default()).await.unwrap_or_else(|| self.noted(&Restarts::default(), answer)),
        }
    }
}
