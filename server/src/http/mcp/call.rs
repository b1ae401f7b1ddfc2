//! One call on its way: which sandbox it is for, what is done there, and what there is to say besides.
//!
//! People can read all that a client is told, word for word, in the session that the call was for, a refusal as well. Only
//! where there is no sandbox there is no such place; none is made for a call that makes no sense.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use glassbox_shared::tools::{Call, TOOLS, Tool, ToolAnswer};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::handler::MAX_CLIENT;
use super::more::{MORE, More, MoreCall, look, run};
use super::place::Anew;
use super::seats::{Client, News, Seat};
use crate::control::Principal;
use crate::error::DomainError;
use crate::http::principal::Caller;
use crate::session::Session;
use crate::store::Wanted;
use crate::tools::{Besides, Calling, Reader};

/// A call is answered within this time: clients are known to give up after 60 s.
pub(super) const CALL_TIME: Duration = Duration::from_secs(45);
/// Of it, for making the answer once the waiting is over.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Beyond it, for writing a refusal down: whoever waits for it gets it also when the disk stands still.
const WRITE_TIME: Duration = Duration::from_secs(5);
/// Beyond it, for what is being written down by then: that counts as told, so it is worth waiting for, and clients still do.
const STORED_TIME: Duration = Duration::from_secs(10);

/// A call.
#[derive(Debug)]
pub(super) struct OneCall<'a> {
    pub shared: &'a Shared,
    pub caller: &'a Caller,
    pub seat: &'a Seat,
    pub client: &'a Client,
    pub name: &'a str,
    pub input: Value,
    pub until: Instant,
    /// The sandbox that it is for, once that is known.
    pub session: OnceLock<Session>,
}

/// What is called.
enum Asked {
    Shell,
    More(MoreCall),
}

impl Asked {
    /// Does it tell of a sandbox, or end it, so that none is made for it?
    fn needs_none(&self) -> bool {
        matches!(self, Asked::More(MoreCall::Info | MoreCall::Reset | MoreCall::Activity { .. }))
    }

    fn is_reset(&self) -> bool {
        matches!(self, Asked::More(MoreCall::Reset))
    }
}

/// Who is told something in a sandbox, and what besides.
#[derive(Debug)]
struct Telling<'a> {
    call: &'a OneCall<'a>,
    session: &'a Session,
    who: Principal,
    reader: Reader,
    /// Taken when an answer is made, so that no call that waits keeps it from the next one.
    news: OnceLock<(Anew, News<'a>)>,
}

impl Besides for Telling<'_> {
    fn notes(&self) -> Vec<String> {
        let (seat, places) = (self.call.seat, &self.call.shared.places);
        let (anew, news) =
            self.news.get_or_init(|| (places.anew(seat.place(), self.session.id()), seat.news(self.session.id())));
        notes(news, anew.text())
    }
}

impl Telling<'_> {
    fn calling(&self) -> Calling<'_> {
        let OneCall { shared, name, input, .. } = self.call;
        let calling = shared.state.tools.calling(&self.who, self.session, &self.reader, name, input);
        calling.noting(self).within(self.call.last_moment())
    }

    /// The answer is made: not before, because a call that is given up has told nobody.
    fn told(self) {
        if let Some((anew, news)) = self.news.into_inner() {
            anew.told();
            news.told();
        }
    }
}

impl OneCall<'_> {
    /// Does it and answers what the client is told.
    pub(super) async fn answer(&self) -> ToolAnswer {
        let asked = match self.asked() {
            Ok(asked) => asked,
            Err(reason) => return self.refused(&reason).await,
        };
        let wanted = Wanted::default();
        match self.by(self.until, &wanted, self.done(asked, &wanted)).await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => self.refused(reason(&error)).await,
            None => {
                let seconds = CALL_TIME.as_secs();
                self.refused(&format!(
                    "this was not done within {seconds}s, the longest that a call may take; what it began goes on: \
                     shell_list shows what runs, and calling it again in a moment does no harm if it was reading or waiting"
                ))
                .await
            }
        }
    }

    /// Does it until a moment; beyond that only if the answer is being written down then. `None`: it is given up.
    async fn by<T>(&self, moment: Instant, wanted: &Wanted, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        match timeout_at(moment, &mut work).await {
            Ok(done) => Some(done),
            Err(_) if wanted.give_up() => None,
            Err(_) => timeout_at(self.latest(), work).await.ok(),
        }
    }

    /// A refusal, written down in the sandbox that the call was for, if there is one.
    async fn refused(&self, reason: &str) -> ToolAnswer {
        let refusal = ToolAnswer::refused(reason);
        let found = || {
            let session = self.shared.find(self.seat.place())?;
            self.seat.enters(&session);
            Some(session)
        };
        let Some(session) = self.session.get().cloned().or_else(found) else { return refusal };
        let Ok(telling) = self.telling(&session) else { return refusal };
        let (wanted, moment) = (Wanted::default(), self.latest().min(Instant::now() + WRITE_TIME));
        let writing = telling.calling().wanted(&wanted);
        let Some(answer) = self.by(moment, &wanted, writing.answered(refusal.clone())).await else {
            tracing::warn!(session = %session.id(), "a refusal could not be written down in time");
            return refusal;
        };
        drop(writing);
        telling.told();
        answer
    }

    fn asked(&self) -> Result<Asked, String> {
        if let Some(more) = More::named(self.name) {
            return more.parse(&self.input).map(Asked::More);
        }
        if TOOLS.into_iter().all(|tool| tool.name() != self.name) {
            let name: String = self.name.chars().take(MAX_CLIENT).collect();
            let names = TOOLS.into_iter().map(Tool::name).chain(MORE.into_iter().map(More::name));
            return Err(format!("there is no tool {name:?}; the tools are {}", names.collect::<Vec<_>>().join(", ")));
        }
        Call::parse(self.name, &self.input).map(|_| Asked::Shell)
    }

    async fn done(&self, asked: Asked, wanted: &Wanted) -> Result<ToolAnswer, DomainError> {
        let place = self.seat.place();
        let session = if asked.needs_none() {
            let Some(session) = self.shared.find(place) else { return Ok(look::none_yet(asked.is_reset())) };
            session
        } else {
            let session = self.shared.find_or_make(&self.who()?, place).await?;
            if self.caller.looking_is_use() {
                session.touch();
            }
            session
        };
        let session = self.session.get_or_init(|| session);
        self.seat.enters(session);
        let telling = self.telling(session)?;
        let calling = telling.calling().wanted(wanted);
        let is_reset = asked.is_reset();
        let answer = match asked {
            Asked::Shell => calling.dispatch().await,
            Asked::More(call) => {
                let made = self.more(&telling.who, session, call).await;
                calling.answered(made.unwrap_or_else(|error| ToolAnswer::refused(reason(&error)))).await
            }
        };
        drop(calling);
        telling.told();
        if is_reset && !answer.is_error {
            self.seat.gave_up();
        }
        Ok(answer)
    }

    /// Does what only MCP has, in a sandbox.
    async fn more(&self, who: &Principal, session: &Session, call: MoreCall) -> Result<ToolAnswer, DomainError> {
        let place = self.seat.place();
        match call {
            MoreCall::Run { command, limit } => run::run(who, session, command, limit, self.last_moment()).await,
            MoreCall::Info => Ok(look::info(session, place)),
            MoreCall::Activity { limit } => look::activity(session, limit).await,
            MoreCall::Reset => Ok(look::given_up(self.shared.give_up(who, place).await?)),
        }
    }

    /// Who calls, under the client's name.
    fn who(&self) -> Result<Principal, DomainError> {
        self.caller.principal.clone().called(&self.client.label)
    }

    fn telling<'a>(&'a self, session: &'a Session) -> Result<Telling<'a>, DomainError> {
        let who = self.who()?;
        // The same after a reconnect, so that nothing is given twice and nothing is missed.
        let reader = match self.seat.nth() {
            1 => format!("mcp {}", self.client.name),
            nth => format!("mcp {} #{nth}", self.client.name),
        };
        let reader = Reader::new(&who, Some(&reader))?;
        Ok(Telling { call: self, session, who, reader, news: OnceLock::new() })
    }

    fn last_moment(&self) -> Instant {
        self.until - ANSWER_TIME
    }

    /// Nobody waits for an answer that comes later.
    fn latest(&self) -> Instant {
        self.until + STORED_TIME
    }
}

/// An error as a model reads it; its cause is for the log.
fn reason(error: &DomainError) -> &str {
    if let Some(cause) = &error.cause {
        tracing::warn!(%error, %cause, "a tool call failed");
    }
    &error.detail
}

/// What a client is to be told besides.
fn notes(news: &News<'_>, anew: Option<&str>) -> Vec<String> {
    let made_meanwhile = "the sandbox of this workspace is another one than before, made meanwhile; files and processes of \
                         the one before are gone";
    let mut notes: Vec<String> =
        anew.or_else(|| news.another.then_some(made_meanwhile)).map(str::to_owned).into_iter().collect();
    notes.extend(news.others.iter().map(|label| {
        format!(
            "another client ({label}) uses this same sandbox now, with the same files and processes; to keep apart, give \
             each client a workspace of its own (?workspace=NAME in its address)"
        )
    }));
    notes
}
