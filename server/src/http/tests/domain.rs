//! The real domain on a fake engine, for [`super::support::TestApp`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::id::KeyId;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, StaticKey};
use crate::command::log::LogSettings;
use crate::control::Principal;
use crate::feed::Feed;
use crate::history::{History, HistorySettings, Retention};
use crate::runtime::fake::FakeRuntime;
use crate::session::Sessions;
use crate::session::settings::SessionSettings;
use crate::store::Store;
use crate::tools::Tools;

/// Keys given by configuration, both of the tenant `acme`.
pub(super) const CONFIGURED: [&str; 2] = ["first-configured-key", "second-configured-key"];

pub(super) struct Domain {
    pub engine: FakeRuntime,
    pub sessions: Sessions,
    pub history: History,
    pub tools: Tools,
    /// Of tools and history.
    pub store: Store,
    pub access: Access,
    pub feed: Feed,
    keys: Mutex<HashMap<String, KeyId>>,
    /// Removed with the test.
    _data: TempDir,
}

impl Domain {
    /// A new key of the tenant `acme`.
    pub(super) async fn key(&self, role: Role) -> String {
        let (view, key) = self.access.create_key("acme", role.as_str(), role).await.expect("a key");
        self.keys.lock().expect("not poisoned").insert(key.clone(), view.key_id);
        key
    }

    /// Whoever has this key, which was made here.
    pub(super) fn agent(&self, key: &str) -> Principal {
        let key_id = self.keys.lock().expect("not poisoned").get(key).cloned();
        let actor = Actor::Agent { name: "agent".into() };
        Principal { tenant: "acme".into(), role: Role::Agent, actor, key_id }
    }

    pub(super) async fn revoke(&self, key: &str) {
        let id = self.keys.lock().expect("not poisoned").get(key).cloned().expect("a key made here");
        self.access.revoke_key("acme", &id).await.expect("revoked");
    }
}

pub(super) async fn start(shutdown: CancellationToken) -> Domain {
    let data = tempfile::tempdir().expect("a folder");
    let store = Store::open(&data.path().join("glassbox.db")).expect("a database");
    let configured = CONFIGURED.map(|key| StaticKey::new("acme", key));
    let access = Access::new(store.clone(), configured.into()).with_secret("test");
    let feed = Feed::default();
    let settings = SessionSettings {
        instance: "test".to_owned(),
        image: "sandbox-base:latest".to_owned(),
        templates: Vec::new(),
        open_workspace_dir: "/root".into(),
        logs_dir: data.path().join("logs"),
        log: LogSettings::default(),
        max_sessions: 50,
        max_commands: 4,
        idle: Duration::from_mins(30),
        lifetime: Duration::from_hours(24),
        max_command: Duration::from_hours(24),
        memory_total: 128 << 30,
        max_memory: 8 << 30,
        max_cpus: 4.0,
        max_file: 1 << 30,
        max_pids: 4096,
    };
    let engine = FakeRuntime::new();
    let sessions = Sessions::start(Arc::new(engine.clone()), store, feed.clone(), settings, shutdown.clone())
        .await
        .expect("nothing was there before");
    let settings = HistorySettings { retention: Retention::default(), search_dir: data.path().to_owned() };
    let store = Store::open(&data.path().join("glassbox.db")).expect("a database");
    let tools = Tools::new(store.clone(), shutdown.clone());
    let history =
        History::start(store.clone(), sessions.clone(), settings, shutdown).await.expect("nothing was there before");
    Domain { engine, sessions, history, tools, store, access, feed, keys: Mutex::default(), _data: data }
}
