//! The history on the engine in memory.

mod files;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandState, CommandView, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::history::{FoundIn, Happening, SearchHit};
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::session::{CreateSession, EndReason, SessionState};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::indexer::{HEAD, Indexer, TAIL};
use super::search::Limits;
use super::{History, HistorySettings, Retention, words};
use crate::command::log::LogSettings;
use crate::control::Principal;
use crate::error::DomainError;
use crate::feed::Feed;
use crate::runtime::fake::FakeRuntime;
use crate::session::Sessions;
use crate::session::settings::SessionSettings;
use crate::store::search::{Progress, Query, SearchFile};
use crate::store::tests::{allow_removal, refuse_removal};
use crate::store::{HistoryFilter, Store};

/// Nothing here takes this long; only a broken test does.
const PATIENCE: Duration = Duration::from_secs(60);
/// Stands in a command or its output, and nowhere else.
const CANARY: &str = "kanarienvogel7531";

/// A server's domain with its history.
struct World {
    engine: FakeRuntime,
    sessions: Sessions,
    history: History,
    store: Store,
    shutdown: CancellationToken,
    folder: Arc<TempDir>,
    retention: Retention,
}

impl World {
    async fn new() -> Self {
        Self::keeping(Retention::default()).await
    }

    async fn keeping(retention: Retention) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir(folder.path().join("search")).expect("a folder");
        Self::start(FakeRuntime::new(), folder, retention).await
    }

    async fn start(engine: FakeRuntime, folder: Arc<TempDir>, retention: Retention) -> Self {
        let settings = SessionSettings {
            instance: "test".into(),
            image: "sandbox-base:latest".into(),
            templates: Vec::new(),
            open_workspace_dir: "/root".into(),
            logs_dir: folder.path().join("logs"),
            log: LogSettings { head: 3 << 20, tail: 3 << 20, ..LogSettings::default() },
            max_sessions: 10,
            max_commands: 4,
            idle: Duration::from_secs(1800),
            lifetime: Duration::from_secs(86_400),
            max_command: Duration::from_secs(86_400),
            memory_total: 8 << 30,
            max_memory: 4 << 30,
            max_cpus: 4.0,
            max_file: 1 << 30,
            max_pids: 4096,
        };
        let database = folder.path().join("glassbox.db");
        let store = Store::open(&database).expect("a database");
        let shutdown = CancellationToken::new();
        let runtime: crate::runtime::Runtime = Arc::new(engine.clone());
        let sessions = Sessions::start(runtime, store.clone(), Feed::default(), settings, shutdown.clone())
            .await
            .expect("a start");
        let settings = HistorySettings { retention: retention.clone(), search_dir: folder.path().join("search") };
        let past = Store::open(&database).expect("a database");
        let history =
            History::start(past, sessions.clone(), settings, shutdown.clone()).await.expect("a start of the history");
        Self { engine, sessions, history, store, shutdown, folder, retention }
    }

    async fn stopped(&self) {
        self.shutdown.cancel();
        self.sessions.stopped().await;
        self.history.stopped().await;
        self.store.close().await;
    }

    async fn restarted(self) -> Self {
        self.stopped().await;
        Self::start(self.engine, self.folder, self.retention).await
    }

    async fn session(&self, tenant: &str) -> SessionId {
        let request = CreateSession { persistent: Some(true), ..CreateSession::default() };
        self.sessions.create(&agent(tenant), request).await.expect("a session").session_id
    }

    async fn run(&self, tenant: &str, session: &SessionId, command: &str) -> CommandView {
        let request = RunCommand { command: command.into(), ..RunCommand::default() };
        self.sessions.get(tenant, session).expect("a session").run(&agent(tenant), request).await.expect("a command")
    }

    async fn finish(&self, tenant: &str, session: &SessionId, command: &str) -> CommandId {
        let id = self.run(tenant, session, command).await.command_id;
        let handle = self.sessions.get(tenant, session).expect("a session").command(&id).await.expect("it");
        assert!(handle.wait_closed(PATIENCE).await.output_closed);
        id
    }

    async fn end(&self, tenant: &str, session: &SessionId) {
        self.sessions.delete(&operator(tenant), session).await.expect("an end");
    }

    /// A session that ran these and has ended.
    async fn ended(&self, tenant: &str, commands: &[&str]) -> (SessionId, Vec<CommandId>) {
        let session = self.session(tenant).await;
        let mut ids = Vec::new();
        for command in commands {
            ids.push(self.finish(tenant, &session, command).await);
        }
        self.end(tenant, &session).await;
        (session, ids)
    }

    async fn search(&self, tenant: &str, text: &str) -> Vec<SearchHit> {
        self.history.search(tenant, text, None, 100).await.expect("an answer").hits
    }

    /// Searches until so many lines are found.
    async fn found(&self, tenant: &str, text: &str, count: usize) -> Vec<SearchHit> {
        let searching = async {
            let mut look = tokio::time::interval(Duration::from_millis(50));
            loop {
                look.tick().await;
                let hits = self.search(tenant, text).await;
                if hits.len() >= count {
                    return hits;
                }
            }
        };
        let hits = tokio::time::timeout(PATIENCE, searching).await.unwrap_or_else(|_| panic!("never found: {text}"));
        assert_eq!(hits.len(), count, "{hits:?}");
        hits
    }

    async fn ended_ids(&self, tenant: &str) -> Vec<SessionId> {
        let list = self.history.list(tenant, &HistoryFilter::default(), None, 100).await.expect("a list");
        list.sessions.into_iter().map(|view| view.session.session_id).collect()
    }

    async fn gone(&self, tenant: &str, session: &SessionId) {
        let looking = async {
            let mut look = tokio::time::interval(Duration::from_millis(50));
            while self.history.session(tenant, session).await.is_ok() || holds(self.folder.path(), session.as_str()) {
                look.tick().await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "never gone");
    }
}

fn agent(tenant: &str) -> Principal {
    let actor = Actor::Agent { name: "agent-7".into() };
    Principal { tenant: tenant.into(), role: Role::Agent, actor, key_id: None }
}

fn operator(tenant: &str) -> Principal {
    let actor = Actor::Human { name: "Ann".into() };
    Principal { tenant: tenant.into(), role: Role::Operator, actor, key_id: None }
}

fn code<T: std::fmt::Debug>(result: Result<T, DomainError>) -> ErrorCode {
    result.expect_err("a refusal").code
}

/// Does this text stand anywhere under the folder, in a name or in a file?
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).expect("a folder").flatten().any(|entry| {
        let path = entry.path();
        let named = entry.file_name().to_string_lossy().contains(text);
        named
            || if path.is_dir() {
                holds(&path, text)
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }
    })
}

#[tokio::test]
async fn an_ended_session_can_be_read_and_is_gone_for_everything_else() {
    let world = World::new().await;
    let (session, commands) = world.ended("acme", &["print one; exit 3", "print two"]).await;
    let view = world.history.session("acme", &session).await.expect("history");
    assert_eq!(view.session.state, SessionState::Ended { reason: EndReason::Deleted });
    assert_eq!(view.ended_by, Some(operator("acme").actor));
    assert_eq!((view.session.commands_total, view.output_bytes, view.commands_failed), (2, 8, 1));
    assert_eq!(view.session.latest_command.map(|command| command.number), Some(2));
    assert_eq!(view.kept_until, view.session.ended_at.map(|at| at + 7.0 * 86_400.0));
    assert!(world.sessions.get("acme", &session).is_err());

    let list = world.history.commands("acme", &session, None, 1).await.expect("commands");
    assert_eq!((list.commands[0].number, list.next), (2, Some(2)));
    let command = world.history.command("acme", &session, &commands[0]).await.expect("a command");
    assert_eq!(command.view().state, CommandState::Exited { code: 3 });
    let chunk = command.log().await.expect("a log").read(0, 100).await.expect("bytes");
    assert_eq!(&chunk.bytes[..], b"one\n");

    let line = world.history.timeline("acme", &session, None, 4).await.expect("a time line");
    let rest = world.history.timeline("acme", &session, line.next.as_deref(), 4).await.expect("a time line");
    assert_eq!(rest.next, None);
    let entries = [line.entries, rest.entries].concat();
    assert!(entries.is_sorted_by_key(|entry| entry.at));
    let words: Vec<String> = entries
        .iter()
        .map(|entry| match &entry.what {
            Happening::Created { by } => format!("created by {}", by.name()),
            Happening::CommandStarted { number, command, .. } => format!("{number} {command}"),
            Happening::CommandEnded { number, end: CommandState::Exited { code }, .. } => format!("{number} = {code}"),
            Happening::Ended { reason: EndReason::Deleted, by: Some(by) } => format!("deleted by {}", by.name()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["created by agent-7", "1 print one; exit 3", "1 = 3", "2 print two", "2 = 0", "deleted by Ann"]);
}

#[tokio::test]
async fn another_tenant_sees_and_removes_nothing_and_an_agent_only_reads() {
    let world = World::new().await;
    let (session, commands) = world.ended("acme", &["print secret"]).await;
    let live = world.session("acme").await;
    world.found("acme", "secret", 2).await;
    for id in [&session, &live] {
        assert_eq!(code(world.history.session("other", id).await), ErrorCode::NotFound);
        assert_eq!(code(world.history.commands("other", id, None, 10).await), ErrorCode::NotFound);
        assert_eq!(code(world.history.command("other", id, &commands[0]).await), ErrorCode::NotFound);
        assert_eq!(code(world.history.timeline("other", id, None, 10).await), ErrorCode::NotFound);
        assert_eq!(code(world.history.purge(&operator("other"), id).await), ErrorCode::NotFound);
        assert_eq!(code(world.history.purge(&agent("acme"), id).await), ErrorCode::Forbidden);
    }
    assert!(world.ended_ids("other").await.is_empty() && world.search("other", "secret").await.is_empty());
    assert_eq!(world.ended_ids("acme").await, [session]);
}

#[tokio::test]
async fn ended_sessions_are_listed_by_their_end_a_page_at_a_time_and_can_be_filtered() {
    let world = World::new().await;
    let (first, _) = world.ended("acme", &["print 100%_sure"]).await;
    let (second, _) = world.ended("acme", &["print Other"]).await;
    let (third, _) = world.ended("acme", &[]).await;
    world.ended("other", &[]).await;
    assert_eq!(world.ended_ids("acme").await, [third.clone(), second.clone(), first.clone()]);
    let page = world.history.list("acme", &HistoryFilter::default(), None, 2).await.expect("a page");
    assert_eq!(page.sessions.len(), 2);
    let rest = world.history.list("acme", &HistoryFilter::default(), page.next.as_deref(), 2).await.expect("a page");
    assert_eq!((rest.sessions.len(), rest.next), (1, None));
    assert_eq!(code(world.history.list("acme", &HistoryFilter::default(), Some("x"), 2).await), ErrorCode::Invalid);
    let found = async |filter: HistoryFilter| {
        let list = world.history.list("acme", &filter, None, 10).await.expect("a list");
        list.sessions.into_iter().map(|view| view.session.session_id).collect::<Vec<_>>()
    };
    let text = |text: &str| HistoryFilter { text: Some(text.to_owned()), ..HistoryFilter::default() };
    assert_eq!(found(text("0%_S")).await, [first]);
    assert_eq!(found(text("%")).await.len(), 1, "no sign has a meaning of its own");
    assert_eq!(found(text("oTHER")).await, [second]);
    assert_eq!(found(text(third.as_str())).await, [third]);
    assert_eq!(found(HistoryFilter { maker: Some("nobody".into()), ..HistoryFilter::default() }).await, []);
    assert_eq!(found(HistoryFilter { reason: Some(EndReason::Expired), ..HistoryFilter::default() }).await, []);
    assert_eq!(found(HistoryFilter { reason: Some(EndReason::Deleted), ..HistoryFilter::default() }).await.len(), 3);
}

#[tokio::test]
async fn words_are_found_in_commands_and_output_of_live_and_ended_sessions() {
    let world = World::new().await;
    let (ended, _) = world.ended("acme", &["print first\nprint grüße an Zoë"]).await;
    let live = world.session("acme").await;
    let command = world.run("acme", &live, "print Grüße\nprint NOT \"quoted\" OR x*\nhang").await.command_id;
    let hits = world.found("acme", "grusse", 0).await;
    assert!(hits.is_empty());
    let hits = world.found("acme", "GRUß", 4).await;
    let of_live: Vec<_> = hits.iter().filter(|hit| hit.session_id == live).collect();
    assert_eq!(hits[0].session_id, live, "the newest session comes first");
    assert!(of_live.iter().all(|hit| hit.command_id == command && !hit.session_ended && !hit.partly_indexed));
    let in_output = hits.iter().find(|hit| hit.session_id == ended && hit.found_in == FoundIn::Output).expect("a hit");
    assert_eq!((in_output.offset, in_output.line, in_output.session_ended), (6, Some(2), true));
    let parts: Vec<_> = in_output.snippet.iter().map(|part| (part.text.as_str(), part.found)).collect();
    assert_eq!(parts, [("grüße", true), (" an Zoë", false)]);
    assert_eq!(world.search("acme", "\"quoted OR\" NOT").await.len(), 2);
    assert_eq!(world.search("acme", "zoe an").await.len(), 2);
    for nothing in ["\"an grüße\"", "nowhere", "grüße OR nowhere", "text:first"] {
        assert!(world.search("acme", nothing).await.is_empty(), "{nothing}");
    }
    for wrong in ["", "***", "\"", &"x".repeat(300)] {
        assert_eq!(code(world.history.search("acme", wrong, None, 10).await), ErrorCode::Invalid, "{wrong}");
    }
}

#[tokio::test]
async fn a_search_goes_on_where_the_page_before_ended_and_finds_everything_once() {
    let world = World::new().await;
    let lines: Vec<String> = (0..40).map(|number| format!("print needle {number}")).collect();
    let script = lines.join("\n");
    world.ended("acme", &[&script, &script]).await;
    world.ended("acme", &[&script]).await;
    world.found("acme", "needle 39", 6).await;
    let mut all = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let page = world.history.search("acme", "needle", next.as_deref(), 7).await.expect("a page");
        assert!(page.hits.len() <= 7);
        all.extend(page.hits.into_iter().map(|hit| (hit.command_id, hit.found_in == FoundIn::Output, hit.offset)));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(all.len(), 3 * 2 * 40);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3 * 2 * 40);
}

/// Whoever asks and leaves again and again keeps no more threads busy than whoever stays.
#[test]
fn a_search_that_nobody_waits_for_keeps_its_turn_until_its_work_has_ended() {
    // With one thread for disk work, it waits behind what stands before it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let world = World::new().await;
        let session = world.session("acme").await;
        let searches = Arc::clone(&world.history.shared.searches);
        let (go_on, waiting) = std::sync::mpsc::channel::<()>();
        let before = tokio::task::spawn_blocking(move || waiting.recv());
        let free = searches.available_permits();
        let turn = Arc::new(Arc::clone(&searches).acquire_owned().await.expect("a turn"));
        let until = std::time::Instant::now() + PATIENCE;
        let query = Query::parse("word").expect("a word");
        let limits = Limits { until, interrupted: until };
        let work = world.history.in_session(&query, &session, (i64::MAX, 0), 1, limits, turn);
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err(), "it waits, and is dropped");
        assert_eq!(searches.available_permits(), free - 1, "the work is still to be done");
        go_on.send(()).expect("somebody waits");
        let all = tokio::time::timeout(PATIENCE, searches.acquire_many(free as u32)).await;
        assert!(all.is_ok_and(|turns| turns.is_ok()), "the turn was given back");
        before.await.expect("no panic").expect("told");
    });
}

#[tokio::test]
async fn of_a_flood_the_first_and_the_latest_part_can_be_searched_and_the_answer_says_so() {
    let world = World::new().await;
    let session = world.session("acme").await;
    let flood = HEAD + TAIL + (1 << 20);
    let command = world.finish("acme", &session, &format!("print first\nflood {flood}\nprint \nprint latest")).await;
    // The words stand in the command as well.
    let hits = world.found("acme", "latest", 2).await;
    let hit = hits.iter().find(|hit| hit.found_in == FoundIn::Output).expect("in the output");
    assert!(hit.partly_indexed && hit.line.is_none());
    assert_eq!(hit.offset, 6 + flood + 1);
    assert_eq!(hit.command_id, command);
    let result = world.history.search("acme", "first", None, 10).await.expect("an answer");
    assert_eq!((result.hits.len(), result.partly_indexed), (2, 1));
    let file = world.folder.path().join("search").join(format!("{session}.db"));
    let size = std::fs::metadata(file).expect("a file").len();
    assert!(size < 3 * (HEAD + TAIL), "the words of a flood take {size} bytes");
}

#[tokio::test]
async fn what_comes_after_a_gap_in_the_log_can_be_searched_as_well() {
    let world = World::new().await;
    let session = world.session("acme").await;
    // More than the log holds, and no line end before the gap.
    let flood = 20 << 20;
    world.finish("acme", &session, &format!("flood {flood}\nprint \nprint latest")).await;
    let hits = world.found("acme", "latest", 2).await;
    assert!(hits.iter().any(|hit| hit.found_in == FoundIn::Output && hit.offset == flood + 1 && hit.partly_indexed));
}

#[tokio::test]
async fn a_purge_leaves_no_byte() {
    let world = World::new().await;
    let (kept, _) = world.ended("acme", &["print kept"]).await;
    let script = format!("print {CANARY}");
    let session = world.session("acme").await;
    assert_eq!(code(world.history.purge(&operator("acme"), &session).await), ErrorCode::Conflict);
    for _ in 0..3 {
        world.finish("acme", &session, &script).await;
    }
    world.end("acme", &session).await;
    world.found("acme", CANARY, 6).await;
    assert!(holds(world.folder.path(), CANARY));
    let purged = world.history.purge(&operator("acme"), &session).await.expect("a purge");
    assert_eq!((purged.commands, purged.output_bytes), (3, 3 * (CANARY.len() as u64 + 1)));
    assert!(!holds(world.folder.path(), CANARY), "no byte of it anywhere");
    assert!(!holds(world.folder.path(), session.as_str()), "nor its name");
    assert!(world.search("acme", CANARY).await.is_empty());
    assert_eq!(code(world.history.session("acme", &session).await), ErrorCode::NotFound);
    assert_eq!(code(world.history.purge(&operator("acme"), &session).await), ErrorCode::NotFound);
    assert_eq!(world.ended_ids("acme").await, [kept]);
    world.found("acme", "kept", 2).await;
}

#[tokio::test]
async fn what_the_index_was_about_to_take_in_does_not_come_back_after_a_purge() {
    let world = World::new().await;
    let mut indexer = Indexer::start(Arc::clone(&world.history.shared)).await.expect("an indexer");
    let session = world.session("acme").await;
    for _ in 0..4 {
        world.run("acme", &session, &format!("print {CANARY}\nhang")).await;
    }
    assert!(indexer.step().await.expect("a round"), "running commands are to be taken in");
    world.end("acme", &session).await;
    world.history.purge(&operator("acme"), &session).await.expect("a purge");
    // Everything of that round, and the beginning of the next.
    for _ in 0..6 {
        indexer.step().await.expect("a step");
        assert!(!holds(world.folder.path(), CANARY) && !holds(world.folder.path(), session.as_str()));
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_removed_does_not_hold_up_the_others() {
    let world = World::new().await;
    let (stuck, _) = world.ended("acme", &["print kept"]).await;
    let (other, _) = world.ended("acme", &[&format!("print {CANARY}")]).await;
    refuse_removal(&world.store, &stuck).await;
    assert_eq!(code(world.history.purge(&operator("acme"), &stuck).await), ErrorCode::Internal);
    world.store.begin_purge("acme", &other, crate::clock::now()).await.expect("begun after the other one");
    assert!(world.history.shared.remove_begun().await.is_err(), "what went wrong is told");
    assert!(!holds(world.folder.path(), CANARY) && !holds(world.folder.path(), other.as_str()));
    assert_eq!(world.store.purging().await.expect("a list"), std::slice::from_ref(&stuck));
    allow_removal(&world.store).await;
    world.history.shared.remove_begun().await.expect("nothing is in the way");
    assert!(!holds(world.folder.path(), stuck.as_str()));
}

#[tokio::test]
async fn a_purge_for_which_there_is_no_place_in_the_queue_changes_nothing_and_says_so() {
    let world = World::new().await;
    let (first, _) = world.ended("acme", &[]).await;
    let (second, _) = world.ended("acme", &[]).await;
    // A queue of one, and a worker that does not come to it.
    let (purges, _inbox) = tokio::sync::mpsc::channel(1);
    let history = History { purges, ..world.history.clone() };
    let who = operator("acme");
    let waiting = tokio::time::timeout(Duration::ZERO, history.purge(&who, &first)).await;
    assert!(waiting.is_err(), "it has its place and waits");
    assert_eq!(code(history.purge(&who, &second).await), ErrorCode::NoCapacity);
    assert!(world.history.session("acme", &second).await.is_ok());
}

#[tokio::test]
async fn what_is_too_old_goes_by_itself_for_each_tenant_in_its_time_and_live_sessions_stay() {
    let world = World::keeping("1h,other=1s".parse().expect("times")).await;
    let (kept, _) = world.ended("acme", &["print kept"]).await;
    let live = world.session("other").await;
    let (old, _) = world.ended("other", &[&format!("print {CANARY}")]).await;
    world.gone("other", &old).await;
    assert!(!holds(world.folder.path(), CANARY));
    assert_eq!(world.ended_ids("acme").await, [kept]);
    assert!(world.history.session("other", &live).await.is_ok());
    assert!(world.sessions.get("other", &live).is_ok());
}

#[tokio::test]
async fn a_purge_that_a_crash_interrupted_is_out_of_sight_at_once_and_finished_by_the_next_start() {
    let world = World::new().await;
    let (session, _) = world.ended("acme", &[&format!("print {CANARY}")]).await;
    let (kept, _) = world.ended("acme", &["print kept"]).await;
    // The first step, after which the server dies.
    world.stopped().await;
    let store = Store::open(&world.folder.path().join("glassbox.db")).expect("a database");
    store.begin_purge("acme", &session, 1.0).await.expect("begun");
    assert!(store.session_of("acme", &session).await.expect("a store").is_none());
    store.close().await;
    assert!(holds(world.folder.path(), CANARY));
    let world = World::start(world.engine, world.folder, world.retention).await;
    assert!(!holds(world.folder.path(), CANARY), "the next start finishes it before it serves");
    assert_eq!(world.ended_ids("acme").await, [kept]);
}

#[tokio::test]
async fn files_of_sessions_that_nobody_knows_are_removed_at_the_start_and_nothing_else_is() {
    let world = World::new().await;
    let (kept, commands) = world.ended("acme", &["print kept"]).await;
    let logs = world.folder.path().join("logs");
    let orphan = "sbx_orphanorphanorphan22";
    std::fs::create_dir_all(logs.join(orphan).join("cmd_x")).expect("a folder");
    std::fs::write(logs.join(orphan).join("cmd_x/0.bytes"), CANARY).expect("a file");
    std::fs::write(world.folder.path().join("search").join(format!("{orphan}.db")), CANARY).expect("a file");
    std::fs::create_dir(logs.join("somebodys")).expect("a folder");
    let world = world.restarted().await;
    assert!(!holds(world.folder.path(), orphan) && !holds(world.folder.path(), CANARY));
    assert!(logs.join("somebodys").is_dir(), "what is not ours stays");
    let command = world.history.command("acme", &kept, &commands[0]).await.expect("a command");
    assert_eq!(&command.log().await.expect("a log").read(0, 10).await.expect("bytes").bytes[..], b"kept\n");
}

#[tokio::test]
async fn words_that_are_lost_or_damaged_are_collected_anew() {
    let world = World::new().await;
    let (session, _) = world.ended("acme", &["print needle"]).await;
    world.found("acme", "needle", 2).await;
    let file = world.folder.path().join("search").join(format!("{session}.db"));
    std::fs::remove_file(&file).expect("removed");
    let world = world.restarted().await;
    world.found("acme", "needle", 2).await;
    // Damaged: a search finds nothing there and does not fail; what comes next makes it anew.
    let live = world.session("acme").await;
    world.finish("acme", &live, "print before").await;
    world.found("acme", "before", 2).await;
    let file = world.folder.path().join("search").join(format!("{live}.db"));
    std::fs::write(&file, vec![b'x'; 8192]).expect("damaged");
    assert!(world.search("acme", "before").await.is_empty());
    world.finish("acme", &live, "print after").await;
    world.found("acme", "after", 2).await;
    world.found("acme", "before", 2).await;
}

/// What the index costs; the figures are printed (`--no-capture`).
#[test]
fn words_take_little_more_room_than_the_output_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let numbers: Vec<String> = (0_u32..400_000).map(|number| format!("{number}\n")).collect();
    let names: Vec<String> =
        (0_u32..60_000).map(|number| format!("{:x} error in line\n", number.wrapping_mul(0x9e37_79b9))).collect();
    for (what, output) in [("yes", "y\n".repeat(1 << 20)), ("seq", numbers.concat()), ("hashes", names.concat())] {
        let file = folder.path().join(what);
        let bytes = &output.as_bytes()[..output.len().min(HEAD as usize)];
        let begun = std::time::Instant::now();
        let mut progress = Progress { next: 0, line: Some(1), mid_line: false, partly: false };
        let mut search = SearchFile::open_or_make(&file).expect("a file");
        while (progress.next as usize) < bytes.len() {
            let from = progress.next as usize;
            let step = &bytes[from..bytes.len().min(from + (256 << 10))];
            let last = from + step.len() == bytes.len();
            let (pieces, next) = words::cut(FoundIn::Output, step, 0, progress, last);
            search.add(&crate::ids::command(), 1, "", &pieces, next).expect("taken in");
            progress = next;
        }
        let (took, size) = (begun.elapsed(), std::fs::metadata(&file).expect("a file").len());
        println!("{what}: {} bytes in {took:?}, {size} bytes on disk", bytes.len());
        assert!(size < 4 * bytes.len() as u64, "{what}: {size}");
    }
}
