//! What the parts of the file browser share: the tree, what is chosen, and the one task that follows changes.

use std::cell::RefCell;

use gloo_timers::future::TimeoutFuture;
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::files::{FileEntry, JobView, WatchAnswer};
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{Profile, SessionState};

use super::calls::{self, Question};
use crate::page::api::Failure;
use crate::page::app::use_account;
use crate::page::clock::{Clock, use_clock};
use crate::page::route::{Go, Route, use_route};
use crate::page::store::{Store, use_store};
use crate::state::files::{Fate, PAGE, RELOADED, Tree, is_folder, parent};
use crate::state::session::{Doing, Session};

/// Seconds that the server may hold the question for changes of the folder at the top. One question a tab at a time:
/// a browser has six connections for a server, and other tabs want some of them.
const WATCH_SECONDS: u32 = 5;
/// The same while a copy or a deletion is under way, so that how far it is keeps moving.
const JOB_SECONDS: u32 = 1;
/// Rows that count as on the screen until it was measured.
const FIRST_ROWS: usize = 60;
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

/// A text that was not saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    session: SessionId,
    path: String,
    /// The version of the file that it was made from; `None`: it was gone.
    pub version: Option<String>,
    /// The text.
    pub text: String,
}

impl Draft {
    fn is_of(&self, session: &SessionId, path: &str) -> bool {
        self.session == *session && self.path == path
    }
}

thread_local! {
    /// A tab has one thread. They outlive the pages of their sessions: whoever looks at another page loses nothing.
    static DRAFTS: RefCell<Vec<Draft>> = const { RefCell::new(Vec::new()) };
    /// Whose they are.
    static WRITER: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on this person writes here; what another one wrote is forgotten.
pub fn is_written_by(name: &str) {
    if WRITER.with_borrow(|writer| writer != name) {
        DRAFTS.with_borrow_mut(Vec::clear);
        WRITER.set(name.to_owned());
    }
}

/// Would something be lost with this tab?
pub fn has_drafts() -> bool {
    DRAFTS.with_borrow(|drafts| !drafts.is_empty())
}

/// Handle to it.
#[derive(Debug, Clone, Copy)]
pub struct Files {
    store: Store,
    clock: Clock,
    route: Route,
    session: StoredValue<SessionId>,
    /// The tree; `None` until its session is known.
    pub tree: RwSignal<Tree>,
    /// The row that has the keyboard.
    pub chosen: RwSignal<usize>,
    /// The file that the address asks for.
    pub file: Memo<Option<String>>,
    /// The open file as it was loaded, for the watch: path and version.
    pub loaded: RwSignal<Option<(String, String)>>,
    /// What became of it since.
    pub fate: RwSignal<Option<Fate>>,
    /// May the person at this page change files here, and if not, why? `None`: that is not known yet.
    pub may: Memo<Option<Result<(), String>>>,
    /// Is it being edited?
    pub editing: RwSignal<bool>,
    /// The open dialog.
    pub dialog: RwSignal<Option<Dialog>>,
    /// Is the browser on the screen?
    pub visible: RwSignal<bool>,
    /// Copies and deletions that are under way, whoever began them; as of the last look.
    pub jobs: RwSignal<Vec<JobView>>,
    /// The rows on the screen; `None` before it has begun.
    range: StoredValue<Option<(usize, usize)>>,
}

impl Files {
    /// Of this session; the caller gives it as context.
    pub fn new(session: SessionId) -> Self {
        let route = use_route();
        let file = Memo::new(move |_| route.query("file").filter(|path| !path.is_empty()));
        let (store, account, id) = (use_store(), use_account(), session.clone());
        let may =
            Memo::new(move |_| store.with_session(&id, |session| account.may_do(Doing::Write, session)).flatten());
        Self {
            store,
            clock: use_clock(),
            route,
            session: StoredValue::new(session),
            tree: RwSignal::new(Tree::default()),
            chosen: RwSignal::new(0),
            file,
            loaded: RwSignal::new(None),
            fate: RwSignal::new(None),
            may,
            editing: RwSignal::new(false),
            dialog: RwSignal::new(None),
            visible: RwSignal::new(false),
            jobs: RwSignal::new(Vec::new()),
            range: StoredValue::new(None),
        }
    }

    /// The session's id.
    pub fn session(self) -> SessionId {
        self.session.get_value()
    }

    /// What was edited of a file and not saved, as long as this tab is open.
    pub fn draft(self, path: &str) -> Option<Draft> {
        let session = self.session();
        DRAFTS.with_borrow(|drafts| drafts.iter().find(|draft| draft.is_of(&session, path)).cloned())
    }

    /// Keeps it, or with `None` forgets it.
    pub fn keep_draft(self, path: &str, draft: Option<(Option<String>, String)>) {
        let Some(session) = self.session.try_get_value() else { return };
        DRAFTS.with_borrow_mut(|drafts| {
            drafts.retain(|known| !known.is_of(&session, path));
            drafts.extend(draft.map(|(version, text)| Draft { session, path: path.to_owned(), version, text }));
        });
    }

    /// May the person at this page change files here?
    pub fn may_write(self) -> bool {
        self.may.with(|may| matches!(may, Some(Ok(()))))
    }

    /// Starts to load and to follow, once.
    pub fn begin(self, profile: Profile) {
        if self.range.get_value().is_some() {
            return;
        }
        self.range.set_value(Some((0, FIRST_ROWS)));
        let home = match profile {
            Profile::Open => "/root",
            Profile::Hardened => "",
        };
        self.tree.set(Tree::new(home));
        self.fill();
        spawn_local(self.follow());
    }

    /// These rows are on the screen: loads what they lack.
    pub fn shows(self, from: usize, to: usize) {
        self.range.set_value(Some((from, to)));
        self.fill();
    }

    /// Changes the tree, then loads what it lacks.
    pub fn change(self, how: impl FnOnce(&mut Tree)) {
        if self.tree.try_update(how).is_some() {
            self.fill();
        }
    }

    fn fill(self) {
        let Some((from, to)) = self.range.try_get_value().flatten() else { return };
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

    /// Runs an act of the person at this page, which makes or changes what is at `path`: no change of somebody else's.
    pub async fn act(
        self,
        path: &str,
        act: impl Future<Output = Result<FileEntry, Failure>>,
    ) -> Result<FileEntry, Failure> {
        self.tree.try_update_untracked(|tree| tree.acts(path));
        let answer = act.await;
        let version = answer.as_ref().ok().map(|entry| entry.version.clone());
        self.tree.try_update(|tree| tree.acted(path, version));
        if let (Ok(_), Some(folder)) = (&answer, parent(path)) {
            spawn_local(self.reload(folder.to_owned()));
        }
        answer
    }

    /// The open file was read, or saved: this is the version that the page knows.
    pub fn knows(self, path: String, version: String) {
        self.fate.try_set(None);
        self.loaded.try_set(Some((path, version)));
    }

    /// Is this file open, with its content?
    fn is_open(self, path: &str) -> bool {
        self.loaded.try_with_untracked(|file| file.as_ref().is_some_and(|(file, _)| file == path)) == Some(true)
    }

    /// What is asked after: the folders while they are on the screen, and the open file.
    fn watched(self) -> Option<Vec<(String, String)>> {
        let visible = self.visible.try_get_untracked()?;
        let mut all: Vec<(String, String)> = self.tree.try_with_untracked(|tree| {
            if !visible {
                return Vec::new();
            }
            let root = tree.root().to_owned();
            let (top, others): (Vec<_>, Vec<_>) = tree.open_folders().into_iter().partition(|path| *path == root);
            let known = top
                .into_iter()
                .chain(others)
                .filter_map(|path| tree.folder(&path).map(|f| (path.clone(), f.version.clone())));
            known.filter(|(_, version)| !version.is_empty()).collect()
        })?;
        if let Some((path, loaded)) = self.loaded.try_get_untracked()? {
            let version = match self.fate.try_get_untracked()? {
                Some(Fate::Changed { version }) => version,
                // Also of one that is gone: some programs save by making a file anew.
                _ => loaded,
            };
            all.push((path, version));
        }
        Some(all)
    }

    /// Ends when the session does, or its page.
    async fn follow(self) {
        loop {
            TimeoutFuture::new(ROUND_MS).await;
            let Some(watched) = self.watched() else { return };
            let Some(state) = self.state().filter(|state| !matches!(state, SessionState::Ended { .. })) else { return };
            let Some(jobs) = self.look_for_jobs(state).await else { return };
            if document().hidden() || watched.is_empty() || state != SessionState::Ready {
                TimeoutFuture::new(REST_MS).await;
                continue;
            }
            for (at, (path, version)) in watched.into_iter().enumerate() {
                let Some(session) = self.session.try_get_value() else { return };
                let wait = match (at, jobs) {
                    (0, 0) => WATCH_SECONDS,
                    (0, _) => JOB_SECONDS,
                    _ => 0,
                };
                match calls::watch(&session, &path, &version, wait).await {
                    Ok(answer) => self.heard(path, answer).await,
                    Err(failure) => {
                        if failure.status == 404 {
                            self.gone(&path);
                        }
                        TimeoutFuture::new(REST_MS).await;
                    }
                }
            }
        }
    }

    /// How many jobs there are, as far as anybody looks; `None`: the page is gone.
    async fn look_for_jobs(self, state: SessionState) -> Option<usize> {
        let visible = self.visible.try_get_untracked()? && !document().hidden();
        let jobs = if state != SessionState::Ready {
            // They went with the sandbox.
            Vec::new()
        } else if visible {
            // Where that fails, rather none than some of which nobody knows whether they still run.
            calls::jobs(&self.session.try_get_value()?).await.unwrap_or_default()
        } else {
            return Some(0);
        };
        let count = jobs.len();
        if self.jobs.try_with_untracked(|known| *known != jobs)? {
            self.jobs.try_set(jobs);
        }
        Some(count)
    }

    /// `None`: deleted.
    fn state(self) -> Option<SessionState> {
        let id = self.session.try_get_value()?;
        self.store.peek(|world| world.session(&id).map(|session| session.view.state))
    }

    async fn heard(self, path: String, answer: WatchAnswer) {
        let Some(file) = self.loaded.try_get_untracked() else { return };
        if let Some((_, loaded)) = file.filter(|(file, _)| *file == path) {
            let acting = self.tree.try_with_untracked(|tree| tree.is_acting(&path)) == Some(true);
            let was_gone = self.found_gone() == Some(true);
            if (answer.changed || was_gone) && !acting {
                // What was asked before a save of ours may be answered after it.
                let other = answer.version != loaded;
                self.fate.try_set(other.then_some(Fate::Changed { version: answer.version }));
            }
        } else if answer.changed && self.tree.try_with_untracked(|tree| tree.folder(&path).is_some()) == Some(true) {
            // Not for a file that was closed while it was asked after.
            self.reload(path).await;
        }
    }

    /// Is the open file gone, as far as anybody looked? `None`: the page is.
    fn found_gone(self) -> Option<bool> {
        self.fate.try_with_untracked(|fate| matches!(fate, Some(Fate::Gone { .. })))
    }

    /// Nothing is at this path any more.
    pub fn gone(self, path: &str) {
        if self.is_open(path) && self.found_gone() == Some(false) {
            self.fate.set(Some(Fate::Gone { at: self.clock.exact() }));
        }
    }

    /// Is the open file gone, or the session and all its files?
    pub fn is_gone(self) -> bool {
        self.fate.with(|fate| matches!(fate, Some(Fate::Gone { .. }))) || self.session_ended()
    }

    /// Is the session over?
    pub fn session_ended(self) -> bool {
        self.store.with_session(&self.session(), Session::ended) == Some(true)
    }

    /// The address that shows a file.
    pub fn address(self, path: &str) -> String {
        // Encoded once more: the query takes one layer off.
        format!("/sessions/{}?file={}", self.session(), path.replace('%', "%25"))
    }

    /// The person at this page gave something another name: if it is open and not being edited, it stays open by that name.
    pub fn renamed(self, from: &str, to: &str) {
        if self.is_open(from) && self.editing.try_get_untracked() == Some(false) {
            self.route.go(&self.address(to), Go::Instead);
        }
    }

    /// What opening an entry does.
    pub fn opener(self) -> impl Fn(&FileEntry) + Clone + 'static {
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
            self.route.go(&self.address(&path), Go::There);
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
