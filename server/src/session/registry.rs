//! All live sessions: making, finding and ending them, and what is done for all of them together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::SessionId;
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::{ControlView, CreateSession, EndReason, SessionState, SessionView};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::engine::EngineWatch;
use super::live::Live;
use super::owner::{Begin, MESSAGES, Message, Owner};
use super::request::{self, ValidSession};
use super::settings::SessionSettings;
use super::{Inner, Session, sandbox};
use crate::command::driver;
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::feed::Feed;
use crate::files::Files;
use crate::runtime::{Inventory, Owned, Runtime, RuntimeError, RuntimeEvent};
use crate::store::SessionRecord;
use crate::store::Store;
use crate::{clock, ids};

/// Making a session: image and volume are there, so an engine that needs longer is broken.
const MAKE_DEADLINE: Duration = Duration::from_secs(90);
/// Between two looks for leftovers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// A cheap handle to all sessions.
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sessions: Mutex<HashMap<SessionId, Session>>,
    /// Sessions that could not be brought back yet: what is theirs is left alone until that works.
    spared: Mutex<Vec<SessionRecord>>,
    /// Who tries again with those.
    pub(super) trying_again: tokio::sync::Mutex<()>,
    pub(super) runtime: Runtime,
    engine: EngineWatch,
    pub(super) store: Store,
    feed: Feed,
    pub(super) settings: Arc<SessionSettings>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Sessions {
    /// Brings back what was there before (or takes it down), and begins to follow the engine.
    pub async fn start(
        runtime: Runtime,
        store: Store,
        feed: Feed,
        settings: SessionSettings,
        shutdown: CancellationToken,
    ) -> Result<Self, DomainError> {
        let events = runtime.events();
        let shared = Shared {
            sessions: Mutex::new(HashMap::new()),
            spared: Mutex::new(Vec::new()),
            trying_again: tokio::sync::Mutex::new(()),
            engine: EngineWatch::new(runtime.trouble()),
            runtime,
            store,
            feed,
            settings: Arc::new(settings),
            shutdown,
            tasks: TaskTracker::new(),
        };
        let sessions = Self { shared: Arc::new(shared) };
        sessions.recover().await?;
        sessions.shared.tasks.spawn(sessions.clone().follow_engine(events));
        sessions.shared.tasks.spawn(sessions.clone().sweep_regularly());
        Ok(sessions)
    }

    /// Waits until every owner and driver has ended; the shutdown token must be cancelled before.
    pub async fn stopped(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Makes a session and answers when it is ready.
    pub async fn create(&self, who: &Principal, request: CreateSession) -> Result<SessionView, DomainError> {
        control::may(who, Act::CreateSession)?;
        let valid = request::session(request, &self.shared.settings)?;
        self.shared.engine.check("nothing was made")?;
        let record = self.new_record(who, valid);
        let id = record.id.clone();
        let (made, answer) = oneshot::channel();
        // From here on the session counts against the limits; a failure takes it out again.
        let prepared = self.admit(record.clone(), made)?;
        if let Err(error) = self.shared.store.insert_session(&record).await {
            self.forget(&id);
            return Err(error.into());
        }
        let session = prepared.begin(Begin::Make);
        let made = async {
            match tokio::time::timeout(MAKE_DEADLINE, answer).await {
                Ok(Ok(made)) => Ok(made),
                Ok(Err(_)) => Ok(Err(DomainError::shutting_down())),
                Err(_) => {
                    let detail = format!("the sandbox was not ready within {MAKE_DEADLINE:?}");
                    Err(DomainError::new(ErrorCode::EngineUnavailable, detail).retry_after(10))
                }
            }
        };
        match self.shared.engine.or_trouble("nothing is kept of what was begun", made).await {
            Ok(made) => made.map(|()| session.view()),
            Err(error) => {
                // The owner goes on and removes what it was making.
                let ending = session;
                self.shared.tasks.spawn(async move {
                    if let Err(error) = ending.end(EndReason::Failed, None).await {
                        tracing::warn!(%error, session = %ending.id(), "a session that was not ready in time could not be ended yet");
                    }
                });
                Err(error)
            }
        }
    }

    /// The tenant's live sessions, newest first.
    pub fn list(&self, tenant: &str) -> Vec<SessionView> {
        let mut views: Vec<SessionView> =
            self.all().iter().filter(|session| session.inner.tenant == tenant).map(Session::view).collect();
        views.sort_by(|a, b| b.created_at.total_cmp(&a.created_at));
        views
    }

    /// Whether the engine answers, for whoever tells people.
    pub fn engine_trouble(&self) -> watch::Receiver<Option<EngineTrouble>> {
        self.shared.engine.trouble()
    }

    /// Live sessions of all tenants.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// One of the tenant's live sessions.
    pub fn get(&self, tenant: &str, id: &SessionId) -> Result<Session, DomainError> {
        let session = self.lock().get(id).filter(|session| !session.is_over()).cloned();
        let session = session.ok_or_else(|| DomainError::not_found("session"))?;
        if session.inner.tenant != tenant {
            return Err(DomainError::new(ErrorCode::OtherTenant, "this session belongs to another tenant"));
        }
        Ok(session)
    }

    /// Ends a session; answered when sandbox and files are verified gone.
    pub async fn delete(&self, who: &Principal, id: &SessionId) -> Result<(), DomainError> {
        control::may(who, Act::DeleteSession)?;
        let session = self.get(&who.tenant, id)?;
        control::may_act_in(who, Act::DeleteSession, &session.view().control)?;
        session.end(EndReason::Deleted, Some(who.actor.clone())).await
    }

    /// Ends every session of this instance, as a one-off sandbox does when it is done.
    pub async fn end_all(&self) -> Result<(), DomainError> {
        for session in self.all() {
            session.end(EndReason::Deleted, None).await?;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Session>> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.shared.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Session> {
        self.lock().values().filter(|session| !session.is_over()).cloned().collect()
    }

    pub(super) fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    pub(super) fn spare(&self, record: SessionRecord) {
        self.shared.spared.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    pub(super) fn spared(&self) -> Vec<SessionRecord> {
        self.shared.spared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn spare_no_more(&self, id: &SessionId) {
        self.shared.spared.lock().unwrap_or_else(PoisonError::into_inner).retain(|record| record.id != *id);
    }

    pub(super) fn bring_back(&self, prepared: Prepared, begin: Begin) {
        let id = prepared.session.inner.id.clone();
        self.lock().insert(id, prepared.session.clone());
        prepared.begin(begin);
    }

    fn new_record(&self, who: &Principal, valid: ValidSession) -> SessionRecord {
        let id = ids::session();
        let now = clock::now();
        let instance = &self.shared.settings.instance;
        SessionRecord {
            name: valid.name.unwrap_or_else(|| id.as_str().chars().take("sbx_".len() + 6).collect()),
            tenant: who.tenant.clone(),
            profile: valid.profile,
            template: valid.template,
            limits: valid.limits,
            created_by: who.actor.clone(),
            created_at: now,
            last_used_at: now,
            state: SessionState::Starting,
            ended_at: None,
            ended_by: None,
            container: Some(sandbox::container_name(instance, id.as_str(), 1)),
            workspace: sandbox::workspace_name(instance, id.as_str()),
            generation: 1,
            control: ControlView { holder: who.actor.clone(), since: now },
            restarts: Vec::new(),
            metadata: valid.metadata,
            commands_total: 0,
            id,
        }
    }

    /// Takes a new session in, if there is room for it.
    fn admit(
        &self,
        record: SessionRecord,
        made: oneshot::Sender<Result<(), DomainError>>,
    ) -> Result<Prepared, DomainError> {
        let settings = &self.shared.settings;
        let mut sessions = self.lock();
        let open = || sessions.values().filter(|session| !session.is_over());
        let own = open().filter(|session| session.inner.tenant == record.tenant).count();
        if own >= settings.max_sessions {
            let detail = format!("{own} sessions are open, which is the limit here; end one first");
            return Err(DomainError::new(ErrorCode::SessionLimit, detail));
        }
        let used: u64 = open().map(|session| session.inner.record.borrow().limits.memory_bytes).sum();
        if used.saturating_add(record.limits.memory_bytes) > settings.memory_total {
            let free = settings.memory_total.saturating_sub(used) >> 20;
            let asked = record.limits.memory_bytes >> 20;
            let detail = format!(
                "no room: the sandbox asks for {asked} MiB of memory and {free} MiB are free; end a session or ask for less"
            );
            return Err(DomainError::new(ErrorCode::NoCapacity, detail).retry_after(30));
        }
        let prepared = self.prepare(record, None, Some(made));
        sessions.insert(prepared.session.inner.id.clone(), prepared.session.clone());
        Ok(prepared)
    }

    /// Makes handle and owner of a session; the owner does nothing yet.
    pub(super) fn prepare(
        &self,
        record: SessionRecord,
        newest: Option<crate::command::Command>,
        made: Option<oneshot::Sender<Result<(), DomainError>>>,
    ) -> Prepared {
        let shared = &self.shared;
        let drivers = driver::Shared {
            runtime: shared.runtime.clone(),
            store: shared.store.clone(),
            feed: shared.feed.clone(),
            shutdown: shared.shutdown.clone(),
        };
        let live = Arc::new(Live::new(record.last_used_at, newest));
        let (messages, inbox) = mpsc::channel(MESSAGES);
        let (sender, receiver) = watch::channel(record);
        let owner = Owner::new(drivers, shared.settings.clone(), sender, live.clone(), inbox, made);
        Prepared::new(self.clone(), owner, receiver, live, messages)
    }

    // ---- for all sessions -----------------------------------------------------------------------------------------

    async fn follow_engine(self, mut events: broadcast::Receiver<RuntimeEvent>) {
        loop {
            let event = tokio::select! {
                () = self.shared.shutdown.cancelled() => return,
                event = events.recv() => event,
            };
            match event {
                Ok(RuntimeEvent::Died { container }) => self.with_session_of(&container, Session::suspect),
                Ok(RuntimeEvent::OutOfMemory { container }) => {
                    self.with_session_of(&container, |session| session.tell(Message::OutOfMemory));
                }
                Ok(RuntimeEvent::Resumed) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    for session in self.all() {
                        session.suspect();
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn with_session_of(&self, container: &str, tell: impl FnOnce(&Session)) {
        let id =
            sandbox::session_of(container, &self.shared.settings.instance).and_then(|id| id.parse::<SessionId>().ok());
        let session = id.and_then(|id| self.lock().get(&id).cloned());
        // The engine also reports containers of ours that a session has already left behind; looking does no harm.
        if let Some(session) = session {
            tell(&session);
        }
    }

    async fn sweep_regularly(self) {
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.shared.shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.recover_spared().await;
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "looking for leftovers failed; trying again");
            }
        }
    }

    /// Removes containers and workspaces of ours that no live session has.
    pub async fn sweep(&self) -> Result<(), RuntimeError> {
        // First the inventory, then the sessions: what is made in between has its session already.
        let Inventory { containers, workspaces, .. } = self.shared.runtime.inventory().await?;
        let mut records: Vec<SessionRecord> =
            self.all().iter().map(|session| session.inner.record.borrow().clone()).collect();
        records.extend(self.spared());
        // One that cannot be removed must not keep all others.
        let mut failed = Ok(());
        for Owned { name, .. } in containers {
            if !records.iter().any(|record| record.container.as_deref() == Some(name.as_str())) {
                tracing::info!(container = name, "removing a leftover container");
                failed = failed.and(self.shared.runtime.remove(&name).await);
            }
        }
        for Owned { name, .. } in workspaces {
            if !records.iter().any(|record| record.workspace == name) {
                tracing::info!(workspace = name, "removing a leftover workspace");
                failed = failed.and(self.shared.runtime.remove_workspace(&name).await);
            }
        }
        failed
    }
}

/// A session that is known and whose owner waits for its beginning.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session: Session,
    begin: oneshot::Sender<Begin>,
}

impl Prepared {
    fn new(
        sessions: Sessions,
        owner: Owner,
        record: watch::Receiver<SessionRecord>,
        live: Arc<Live>,
        messages: mpsc::Sender<Message>,
    ) -> Self {
        let (id, tenant) = (record.borrow().id.clone(), record.borrow().tenant.clone());
        let shared = sessions.shared.clone();
        let files = Files::new(shared.runtime.clone(), shared.tasks.clone(), shared.shutdown.child_token());
        let inner = Inner {
            id: id.clone(),
            tenant,
            record,
            live,
            suspect: owner.suspect.0.clone(),
            messages,
            settings: shared.settings.clone(),
            store: shared.store.clone(),
            files: files.clone(),
            jobs: super::jobs::Jobs::default(),
            engine: shared.engine.clone(),
        };
        let (begin, beginning) = oneshot::channel();
        shared.tasks.spawn(async move {
            // Dropped without a word: the session never began.
            if let Ok(begin) = beginning.await {
                owner.run(begin).await;
            }
            files.close();
            sessions.forget(&id);
        });
        Self { session: Session { inner: Arc::new(inner) }, begin }
    }

    /// Lets the owner work.
    pub(super) fn begin(self, begin: Begin) -> Session {
        // An owner that is gone shows in every later request.
        let _ = self.begin.send(begin);
        self.session
    }
}
