//! What the parts of the file browser share: the tree, what is chosen, and the one task that follows changes.

use gloo_timers::future::TimeoutFuture;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::files::FileEntry;
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{Profile, SessionState};

use super::calls::{self, Question};
use crate::page::api::Failure;
use crate::page::route::{Go, use_route};
use crate::page::store::{Store, use_store};
use crate::state::files::{PAGE, RELOADED, Tree, is_folder};

/// Seconds that the server may hold the question for changes of the folder at the top. One question a tab at a time:
/// a browser has six connections for a server, and other tabs want some of them.
const WATCH_SECONDS: u32 = 5;
/// Between two rounds, also when the server answers at once.
const ROUND_MS: u32 = 500;
/// While nobody looks, or after a question failed.
const REST_MS: u32 = 2_000;

/// A question that is open in a dialog.
#[derive(Debug, Clone, PartialEq)]
pub enum Dialog {
    /// A folder's name, in this folder.
    NewFolder(String),
    /// A new name.
    Rename(FileEntry),
    /// Really?
    Delete(FileEntry),
}

/// Handle to it.
#[derive(Debug, Clone, Copy)]
pub struct Files {
    store: Store,
    session: StoredValue<SessionId>,
    home: StoredValue<String>,
    /// The tree; `None` until its session is known.
    pub tree: RwSignal<Tree>,
    /// The row that has the keyboard.
    pub chosen: RwSignal<usize>,
    /// The file that the address asks for.
    pub file: Memo<Option<String>>,
    /// The open file as it was loaded, for the watch: path and version.
    pub loaded: RwSignal<Option<(String, String)>>,
    /// The version that the open file has now, when it is another one.
    pub changed: RwSignal<Option<String>>,
    /// The open dialog.
    pub dialog: RwSignal<Option<Dialog>>,
    /// Is the browser on the screen?
    pub visible: RwSignal<bool>,
    range: StoredValue<(usize, usize)>,
    begun: StoredValue<bool>,
}

impl Files {
    /// Of this session; the caller gives it as context.
    pub fn new(session: SessionId) -> Self {
        let route = use_route();
        let file = Memo::new(move |_| route.query("file").filter(|path| !path.is_empty()));
        Self {
            store: use_store(),
            session: StoredValue::new(session),
            home: StoredValue::new(String::new()),
            tree: RwSignal::new(Tree::default()),
            chosen: RwSignal::new(0),
            file,
            loaded: RwSignal::new(None),
            changed: RwSignal::new(None),
            dialog: RwSignal::new(None),
            visible: RwSignal::new(false),
            range: StoredValue::new((0, 60)),
            begun: StoredValue::new(false),
        }
    }

    /// The session's id.
    pub fn session(self) -> SessionId {
        self.session.get_value()
    }

    /// The folder to begin with.
    pub fn home(self) -> String {
        self.home.get_value()
    }

    /// Starts to load and to follow, once.
    pub fn begin(self, profile: Profile) {
        if self.begun.get_value() {
            return;
        }
        self.begun.set_value(true);
        let home = match profile {
            Profile::Open => "/root",
            Profile::Hardened => "",
        };
        self.home.set_value(home.to_owned());
        self.tree.set(Tree::new(home));
        self.fill();
        spawn_local(self.follow());
    }

    /// These rows are on the screen: loads what they lack.
    pub fn shows(self, from: usize, to: usize) {
        self.range.set_value((from, to));
        self.fill();
    }

    /// Changes the tree, then loads what it lacks.
    pub fn change(self, how: impl FnOnce(&mut Tree)) {
        if self.tree.try_update(how).is_some() {
            self.fill();
        }
    }

    fn fill(self) {
        let Some((from, to)) = self.range.try_get_value() else { return };
        let asked = self.tree.try_update_untracked(|tree| {
            let needs = tree.needs(from, to);
            needs.into_iter().map(|(path, cursor)| (tree.turn, question(tree, path, cursor, PAGE as usize))).collect()
        });
        let asked: Vec<(u32, Question)> = asked.unwrap_or_default();
        if asked.is_empty() {
            return;
        }
        for (turn, question) in asked {
            spawn_local(async move {
                let answer = calls::list(&self.session(), &question).await;
                self.change(|tree| match answer {
                    Ok(page) => tree.page(turn, &question.path, page),
                    Err(failure) => tree.failed(turn, &question.path, &failure.detail),
                });
            });
        }
    }

    /// Loads a folder again and marks what is different.
    pub async fn reload(self, path: String) {
        let Some((turn, question)) =
            self.tree.try_with_untracked(|tree| (tree.turn, question(tree, path, None, RELOADED)))
        else {
            return;
        };
        if let Ok(page) = calls::list(&self.session(), &question).await {
            self.change(|tree| tree.again(turn, &question.path, page));
        }
    }

    /// After an act of ours: its folder is loaded again at once.
    pub fn acted(self, folder: &str) {
        spawn_local(self.reload(folder.to_owned()));
    }

    fn watched(self) -> Option<Vec<(String, String)>> {
        let mut all: Vec<(String, String)> = self.tree.try_with_untracked(|tree| {
            let root = tree.root().to_owned();
            let (top, others): (Vec<_>, Vec<_>) = tree.open_folders().into_iter().partition(|path| *path == root);
            let known = top
                .into_iter()
                .chain(others)
                .filter_map(|path| tree.folder(&path).map(|f| (path.clone(), f.version.clone())));
            known.filter(|(_, version)| !version.is_empty()).collect()
        })?;
        if let Some(file) = self.loaded.try_get_untracked()? {
            let version = self.changed.try_get_untracked()?;
            // One that is gone is not asked for again.
            if version.as_deref() != Some("") {
                all.push((file.0, version.unwrap_or(file.1)));
            }
        }
        Some(all)
    }

    /// Ends when the session does, or its page.
    async fn follow(self) {
        loop {
            TimeoutFuture::new(ROUND_MS).await;
            let (Some(watched), Some(visible)) = (self.watched(), self.visible.try_get_untracked()) else { return };
            let Some(state) = self.state().filter(|state| !matches!(state, SessionState::Ended { .. })) else { return };
            if document().hidden() || !visible || watched.is_empty() || state != SessionState::Ready {
                TimeoutFuture::new(REST_MS).await;
                continue;
            }
            for (at, (path, version)) in watched.into_iter().enumerate() {
                let Some(session) = self.session.try_get_value() else { return };
                let wait = if at == 0 { WATCH_SECONDS } else { 0 };
                match calls::watch(&session, &path, &version, wait).await {
                    Ok(answer) if answer.changed => self.heard(path, answer.version).await,
                    Ok(_) => {}
                    Err(failure) => {
                        self.lost(&path, &failure);
                        TimeoutFuture::new(REST_MS).await;
                    }
                }
            }
        }
    }

    /// `None`: deleted.
    fn state(self) -> Option<SessionState> {
        let id = self.session.try_get_value()?;
        self.store.peek(|world| world.session(&id).map(|session| session.view.state))
    }

    async fn heard(self, path: String, version: String) {
        let Some(file) = self.loaded.try_get_untracked() else { return };
        if file.is_some_and(|(file, _)| file == path) {
            self.changed.set(Some(version));
        } else if self.tree.try_with_untracked(|tree| tree.folder(&path).is_some()) == Some(true) {
            // Not for a file that was closed while it was asked after.
            self.reload(path).await;
        }
    }

    fn lost(self, path: &str, failure: &Failure) {
        let gone = self.loaded.try_get_untracked().flatten().is_some_and(|(file, _)| file == path);
        if gone && failure.status == 404 {
            self.changed.try_set(Some(String::new()));
        }
    }

    /// The address that shows a file.
    pub fn address(self, path: &str) -> String {
        // Encoded once more: the query takes one layer off.
        format!("/sessions/{}?file={}", self.session(), path.replace('%', "%25"))
    }

    /// What opening an entry does.
    pub fn opener(self) -> impl Fn(&FileEntry) + Clone + 'static {
        let route = use_route();
        move |entry: &FileEntry| {
            let path = entry.path.clone();
            if is_folder(entry) {
                self.change(|tree| {
                    if !tree.open(&path) {
                        tree.close(&path);
                    }
                });
                return;
            }
            self.tree.update(|tree| tree.looked_at(&path));
            route.go(&self.address(&path), Go::There);
        }
    }
}

fn question(tree: &Tree, path: String, cursor: Option<String>, limit: usize) -> Question {
    let filter = if path == tree.root() { tree.filter.clone() } else { String::new() };
    Question { path, sort: tree.sort, order: tree.order, filter, cursor, limit }
}

/// The files of the open session.
pub fn use_files() -> Files {
    expect_context::<Files>()
}
