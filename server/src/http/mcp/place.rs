//! Which sandbox an MCP client means: one for each key, profile and workspace name.
//!
//! It is found again by what is written down with the session itself, so that it outlives reconnects and restarts of the
//! server, and is made at the first call that needs one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Query;
use axum::http::Uri;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{CreateSession, EndReason, Profile, SessionState, SessionView};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use crate::control::Principal;
use crate::error::DomainError;
use crate::http::error::ApiError;
use crate::session::Session;
use crate::store::HistoryFilter;

/// Longest name of a workspace, in characters.
const MAX_WORKSPACE: usize = 40;
/// The workspace of those who name none.
const DEFAULT_WORKSPACE: &str = "default";
/// Places whose last sandbox is remembered; beyond, those that nobody uses at the moment are forgotten. Then only the
/// history knows that there was one.
const MAX_PLACES: usize = 10_000;
/// Ended sessions of that name that are looked through for the one before.
const LOOKED_AT: usize = 20;
/// What a session's metadata says of its place.
const WORKSPACE: &str = "mcp_workspace";
const KEY: &str = "mcp_key";

/// What a client may ask for in its address.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// 1 to 40 letters, digits, `-` and `_`; `default` unless given.
    workspace: Option<String>,
    /// `hardened` unless given, or `open`.
    profile: Option<String>,
    /// Must be left out or empty for now (501 otherwise).
    egress: Option<String>,
}

/// One sandbox at a time for each of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub tenant: String,
    /// Its id.
    pub key: String,
    pub profile: Profile,
    pub workspace: String,
}

impl Place {
    /// What the address asks for.
    pub(super) fn asked(who: &Principal, uri: &Uri) -> Result<Self, ApiError> {
        let wrong = |detail: String| ApiError::new(ErrorCode::BadRequest, detail);
        let Query(asked) = Query::<Asked>::try_from_uri(uri).map_err(|error| wrong(error.body_text()))?;
        if asked.egress.is_some_and(|hosts| !hosts.is_empty()) {
            let detail = "network access (egress) is not built yet; leave `egress` out of the address";
            return Err(ApiError::new(ErrorCode::NotImplemented, detail));
        }
        let profile = match asked.profile.as_deref() {
            None | Some("hardened") => Profile::Hardened,
            Some("open") => Profile::Open,
            Some(_) => return Err(wrong("profile is `hardened` or `open`".to_owned())),
        };
        let workspace = asked.workspace.unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned());
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if workspace.is_empty() || workspace.chars().count() > MAX_WORKSPACE || !workspace.chars().all(fits) {
            return Err(wrong(format!("workspace has 1 to {MAX_WORKSPACE} letters, digits, `-` and `_`")));
        }
        let Some(key) = &who.key_id else { return Err(ApiError::new(ErrorCode::Unauthorized, "a key is needed")) };
        Ok(Self { tenant: who.tenant.clone(), key: key.as_str().to_owned(), profile, workspace })
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        [(WORKSPACE, &self.workspace), (KEY, &self.key)].map(|(key, value)| (key.to_owned(), value.clone())).into()
    }

    /// Is this its sandbox?
    fn has(&self, session: &SessionView) -> bool {
        let said = |key: &str| session.metadata.get(key).map(String::as_str);
        session.profile == self.profile && said(WORKSPACE) == Some(&self.workspace) && said(KEY) == Some(&self.key)
    }
}

/// What is remembered of places.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: Mutex<HashMap<Place, Arc<Known>>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Only one makes or gives up a sandbox at a time.
    changing: tokio::sync::Mutex<()>,
    last: Mutex<Option<SessionId>>,
    /// What is to be said of its sandbox, unless somebody says it.
    news: Mutex<Option<New>>,
}

/// Of a sandbox that is new where one was before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct New {
    text: String,
    /// The one before, which this is not said in; `None`: nobody of this server had it.
    before: Option<SessionId>,
}

impl New {
    /// Is this what is new of `sandbox`, while `last` is the place's? As long as it is made, that is the one before.
    fn is_of(&self, sandbox: &SessionId, last: Option<&SessionId>) -> bool {
        self.before.as_ref() != Some(sandbox) && (last == Some(sandbox) || last == self.before.as_ref())
    }
}

impl Known {
    fn last(&self) -> std::sync::MutexGuard<'_, Option<SessionId>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self) -> std::sync::MutexGuard<'_, Option<New>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be said of a sandbox that is new where one was before. Whoever has this says it, and nobody else; unless it
/// was told in the end, it is to be said again, as long as that sandbox is there.
#[derive(Debug)]
pub(super) struct Anew {
    known: Arc<Known>,
    sandbox: SessionId,
    new: Option<New>,
}

impl Anew {
    pub(super) fn text(&self) -> Option<&str> {
        self.new.as_ref().map(|new| new.text.as_str())
    }

    /// The answer with it is made.
    pub(super) fn told(mut self) {
        self.new = None;
    }
}

impl Drop for Anew {
    fn drop(&mut self) {
        let last = self.known.last();
        if let Some(new) = self.new.take().filter(|new| new.is_of(&self.sandbox, last.as_ref())) {
            // Meanwhile there may be something newer to say.
            self.known.news().get_or_insert(new);
        }
    }
}

impl Places {
    fn of(&self, place: &Place) -> Arc<Known> {
        // The section cannot panic half-way.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PLACES {
            known.retain(|_, known| Arc::strong_count(known) > 1);
        }
        Arc::clone(known.entry(place.clone()).or_default())
    }

    /// What is to be said of this sandbox of it, unless somebody says it already.
    pub(super) fn anew(&self, place: &Place, sandbox: &SessionId) -> Anew {
        let known = self.of(place);
        let last = known.last().clone();
        let new = known.news().take_if(|new| new.is_of(sandbox, last.as_ref()));
        Anew { known, sandbox: sandbox.clone(), new }
    }
}

impl Shared {
    /// The sandbox of a place, if there is one.
    pub(super) fn find(&self, place: &Place) -> Option<Session> {
        let sessions = self.state.sessions.list(&place.tenant);
        let found = sessions.iter().find(|session| place.has(session))?;
        self.state.sessions.get(&place.tenant, &found.session_id).ok()
    }

    /// The sandbox of a place, made if there is none.
    pub(super) async fn find_or_make(&self, who: &Principal, place: &Place) -> Result<Session, DomainError> {
        let known = self.places.of(place);
        let _changing = known.changing.lock().await;
        if let Some(session) = self.find(place) {
            *known.last() = Some(session.id().clone());
            return Ok(session);
        }
        let remembered = known.last().clone();
        let ended = self.before(place, remembered.as_ref()).await;
        // First: whoever waits for it may leave, and it is made all the same.
        *known.news() = ended.map(|why| New { text: anew(place, why), before: remembered });
        let name = match place.workspace.as_str() {
            DEFAULT_WORKSPACE => who.actor.name(),
            named => named,
        };
        let request = CreateSession {
            name: Some(name.to_owned()),
            profile: Some(place.profile),
            persistent: Some(true),
            metadata: place.metadata(),
            ..CreateSession::default()
        };
        let made = self.state.sessions.create(who, request).await?;
        *known.last() = Some(made.session_id.clone());
        self.state.sessions.get(&place.tenant, &made.session_id)
    }

    /// Ends the sandbox of a place; `false`: there is none.
    pub(super) async fn give_up(&self, who: &Principal, place: &Place) -> Result<bool, DomainError> {
        let known = self.places.of(place);
        let _changing = known.changing.lock().await;
        let Some(session) = self.find(place) else { return Ok(false) };
        self.state.sessions.delete(who, session.id()).await?;
        Ok(true)
    }

    /// How the sandbox ended that was here before; `None`: there was none.
    async fn before(&self, place: &Place, remembered: Option<&SessionId>) -> Option<Option<EndReason>> {
        let history = &self.state.history;
        let reason = |session: &SessionView| match session.state {
            SessionState::Ended { reason } => Some(reason),
            _ => None,
        };
        if let Some(id) = remembered {
            let session = history.session(&place.tenant, id).await;
            return Some(session.ok().and_then(|session| reason(&session.session)));
        }
        let ended = history.list(&place.tenant, &HistoryFilter::default(), None, LOOKED_AT).await.ok()?;
        ended.sessions.iter().find(|view| place.has(&view.session)).map(|view| reason(&view.session))
    }
}

/// Said where a sandbox was and is no more.
fn anew(place: &Place, why: Option<EndReason>) -> String {
    let why = match why {
        Some(EndReason::Expired) => "was not used for too long, or was too old",
        Some(EndReason::Deleted) => "was deleted",
        Some(EndReason::Lost) => "was lost",
        Some(EndReason::Failed) | None => "has ended",
    };
    let workspace = &place.workspace;
    format!(
        "this is a new, empty sandbox: the one before in workspace {workspace:?} {why}; its files and processes are gone"
    )
}

#[cfg(test)]
mod tests {
    use glassbox_shared::actor::{Actor, Role};

    use super::*;
    use crate::ids;

    const KEY: &str = "key_aaaaaaaaaaaaaaaaaaaa";

    fn asked(query: &str) -> Result<Place, ErrorCode> {
        let who = Principal {
            tenant: "acme".into(),
            role: Role::Agent,
            actor: Actor::Agent { name: "a".into() },
            key_id: Some(KEY.parse().expect("an id")),
        };
        let uri = format!("/mcp{query}").parse().expect("an address");
        Place::asked(&who, &uri).map_err(|error| error.0.code)
    }

    #[test]
    fn an_address_says_which_sandbox_is_meant() {
        let place = asked("").expect("nothing to say");
        assert_eq!((place.workspace.as_str(), place.profile, place.key.as_str()), ("default", Profile::Hardened, KEY));
        let place = asked("?workspace=My_work-1&profile=open&egress=").expect("fine");
        assert_eq!((place.workspace.as_str(), place.profile), ("My_work-1", Profile::Open));
        assert!(asked(&format!("?workspace={}", "x".repeat(40))).is_ok());
    }

    #[test]
    fn what_is_new_is_said_in_its_own_sandbox_only() {
        let (places, place) = (Places::default(), asked("").expect("a place"));
        let known = places.of(&place);
        let [first, second, third] = [ids::session(), ids::session(), ids::session()];
        let begins = |sandbox: &SessionId| {
            let before = known.last().replace(sandbox.clone());
            *known.news() = Some(New { text: format!("after {before:?}"), before });
        };
        let text = |sandbox: &SessionId| places.anew(&place, sandbox).text().map(str::to_owned);
        *known.last() = Some(first.clone());
        *known.news() = Some(New { text: "made now".into(), before: Some(first.clone()) });
        assert_eq!(text(&first), None, "an answer of the one before, while the next is being made");
        assert_eq!(text(&second).as_deref(), Some("made now"), "whoever had it made has left");
        *known.last() = Some(second.clone());
        assert_eq!(text(&second).as_deref(), Some("made now"));
        let untold = places.anew(&place, &second);
        assert_eq!(text(&second), None, "somebody says it");
        drop(untold);
        let untold = places.anew(&place, &second);
        assert_eq!(untold.text(), Some("made now"), "it was not told");
        begins(&third);
        places.anew(&place, &third).told();
        drop(untold);
        assert_eq!(text(&third), None, "that was of another one");
    }

    #[test]
    fn an_address_that_asks_for_something_else_is_refused() {
        for wrong in [
            "?workspace=",
            "?workspace=a/b",
            "?workspace=%C3%A4",
            "?workspace=a%20b",
            "?profile=root",
            "?work=a",
            "?workspace=a&workspace=b",
        ] {
            assert_eq!(asked(wrong), Err(ErrorCode::BadRequest), "{wrong}");
        }
        assert_eq!(asked(&format!("?workspace={}", "x".repeat(41))), Err(ErrorCode::BadRequest));
        assert_eq!(asked("?egress=pypi"), Err(ErrorCode::NotImplemented));
    }
}
