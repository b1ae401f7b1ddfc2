use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandState, CommandView, Interruption, KillReport, Survivor};
use glassbox_shared::id::SessionId;
use glassbox_shared::session::{ControlView, DeathCause, EndReason, Limits, Profile, RestartView, SessionState};

use super::*;
use crate::ids;

pub(crate) struct TestStore {
    store: Store,
    folder: tempfile::TempDir,
}

impl std::ops::Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

pub(crate) fn open() -> TestStore {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(&folder.path().join("test.db")).expect("a store");
    TestStore { store, folder }
}

impl TestStore {
    /// As after a restart.
    pub(crate) async fn reopen(self) -> TestStore {
        self.store.close().await;
        let store = Store::open(&self.folder.path().join("test.db")).expect("a store");
        TestStore { store, folder: self.folder }
    }
}

fn ann() -> Actor {
    Actor::Human { name: "Ann".into() }
}

/// From now on the rows of this session cannot be removed.
pub(crate) async fn refuse_removal(store: &Store, session: &SessionId) {
    let trigger = format!(
        "CREATE TRIGGER stuck BEFORE DELETE ON sessions WHEN old.id = '{session}'
         BEGIN SELECT RAISE(ABORT, 'stuck'); END"
    );
    store.write(move |connection| Ok(connection.execute_batch(&trigger)?)).await.expect("a trigger");
}

/// Ends what [`refuse_removal`] began.
pub(crate) async fn allow_removal(store: &Store) {
    store.write(|connection| Ok(connection.execute_batch("DROP TRIGGER stuck")?)).await.expect("it was there");
}

/// The store's thread in the middle of what it does. A disk can stand still as well.
pub(crate) struct Stalled {
    goes_on: std::sync::mpsc::Sender<()>,
    done: tokio::task::JoinHandle<()>,
}

impl Stalled {
    /// It does what was asked for meanwhile, and then more.
    pub(crate) async fn go_on(self) {
        drop(self.goes_on);
        self.done.await.expect("no panic");
    }
}

/// Stalls the thread at its next turn, with whatever it takes along then not yet committed. Answers once it stands.
pub(crate) async fn stall(store: &Store) -> Stalled {
    let (stands, standing) = oneshot::channel();
    let (stands, (goes_on, until)) = (std::cell::Cell::new(Some(stands)), std::sync::mpsc::channel::<()>());
    let store = store.clone();
    let work = move |_: &Connection| {
        if let Some(stands) = stands.take() {
            let _ = stands.send(());
        }
        let _ = until.recv(); // the other end is dropped
        Ok(())
    };
    let done = tokio::spawn(async move { store.write(work).await.expect("a store") });
    standing.await.expect("it takes its turn");
    Stalled { goes_on, done }
}

/// Jobs that wait for the thread.
pub(crate) fn waiting(store: &Store) -> usize {
    store.jobs.max_capacity() - store.jobs.capacity()
}

pub(crate) fn session() -> SessionRecord {
    SessionRecord {
        id: ids::session(),
        tenant: "acme".into(),
        name: "build".into(),
        profile: Profile::Open,
        template: "sandbox-base:latest".into(),
        limits: Limits { memory_bytes: 2 << 30, cpus: 1.5, pids_limit: 512 },
        created_by: Actor::Agent { name: "agent-7".into() },
        created_at: 1_700_000_000.25,
        last_used_at: 1_700_000_001.5,
        state: SessionState::Starting,
        ended_at: None,
        ended_by: None,
        container: Some("glassbox-x-1".into()),
        workspace: "glassbox-x".into(),
        generation: 1,
        control: ControlView { holder: ann(), since: 1.0 },
        restarts: vec![RestartView { at: 2.0, cause: Some(DeathCause::Oom), kept: "files".into(), lost: "all".into() }],
        metadata: [("ticket".to_owned(), "X-1".to_owned())].into(),
        commands_total: 3,
    }
}

pub(crate) fn command(session: &SessionId, number: u64) -> CommandView {
    let (agent, at) = (Actor::Agent { name: "agent-7".into() }, 10.0 + number as f64);
    let begun = CommandView::starting(session.clone(), ids::command(), number, "echo 'ä' \u{1F980}\n", agent, at);
    CommandView { cwd: Some("src".into()), split: true, ..begun }
}

fn every_command_state() -> Vec<CommandState> {
    let interruptions = [
        Interruption::SandboxDied { cause: DeathCause::Oom },
        Interruption::SandboxDied { cause: DeathCause::Exit },
        Interruption::SandboxDied { cause: DeathCause::Unknown },
        Interruption::EngineLost,
        Interruption::ServerRestarted,
        Interruption::SessionEnded,
        Interruption::HelperLost,
    ];
    let mut states = vec![
        CommandState::Starting,
        CommandState::Running,
        CommandState::Exited { code: -1 },
        CommandState::Signaled { signal: 11 },
        CommandState::Killed { signal: 9, by: ann() },
        CommandState::Killed { signal: 15, by: Actor::Server },
        CommandState::TimedOut,
        CommandState::FailedToStart { message: "no \"bash\"".into() },
    ];
    states.extend(interruptions.map(CommandState::Interrupted));
    states
}

#[test]
fn the_migrations_are_valid() {
    Migrations::from_slice(MIGRATIONS).validate().expect("valid");
}

#[tokio::test]
async fn sessions_survive_a_restart_as_they_were() {
    let store = open();
    let mut record = session();
    store.insert_session(&record).await.expect("inserted");
    assert_eq!(store.session(&record.id).await.expect("read"), Some(record.clone()));
    record.state = SessionState::Restarting;
    record.container = None;
    record.generation = 2;
    record.control = ControlView { holder: Actor::Server, since: 9.0 };
    record.commands_total = u64::MAX;
    store.update_session(&record).await.expect("updated");
    let store = store.reopen().await;
    assert_eq!(store.unended_sessions().await.expect("read"), [record.clone()]);
    record.state = SessionState::Ended { reason: EndReason::Lost };
    record.ended_at = Some(11.5);
    store.update_session(&record).await.expect("updated");
    assert!(store.unended_sessions().await.expect("read").is_empty());
    assert_eq!(store.session(&record.id).await.expect("read"), Some(record));
    assert_eq!(store.session(&ids::session()).await.expect("read"), None);
}

#[tokio::test]
async fn a_server_has_a_secret_of_its_own_and_keeps_it() {
    let store = open();
    let secret = store.server_secret().await.expect("read");
    assert!(secret.len() == 64 && secret != open().server_secret().await.expect("read"));
    let store = store.reopen().await;
    assert_eq!(store.server_secret().await.expect("read"), secret);
}

#[tokio::test]
async fn an_ended_session_stays_ended() {
    let store = open();
    let mut record = session();
    assert!(store.update_session(&record).await.is_err(), "not there yet");
    record.state = SessionState::Ended { reason: EndReason::Deleted };
    store.insert_session(&record).await.expect("inserted");
    store.update_session(&record).await.expect("the same once more");
    record.state = SessionState::Ready;
    assert!(matches!(store.update_session(&record).await, Err(StoreError::Corrupt(_))));
    record.state = SessionState::Ended { reason: EndReason::Expired };
    assert!(store.update_session(&record).await.is_err());
}

#[tokio::test]
async fn commands_survive_a_restart_in_every_state() {
    let store = open();
    let session = session();
    store.insert_session(&session).await.expect("inserted");
    let mut commands = Vec::new();
    for (index, state) in every_command_state().into_iter().enumerate() {
        let mut command = command(&session.id, index as u64 + 1);
        store.insert_command("acme", &command).await.expect("inserted");
        command.state = state;
        command.started_at = Some(11.0);
        command.ended_at = Some(12.25);
        command.pid = Some(42);
        command.output_bytes = 1 << 40;
        command.output_missing_bytes = 17;
        command.last_output_at = Some(12.0);
        command.output_closed = true;
        command.output_complete = true;
        command.out_of_memory = true;
        let survivors = vec![Survivor { pid: 7, name: "sleep".into() }];
        command.kill = Some(KillReport { signal: 9, took_ms: 5001, by: ann(), survivors });
        store.update_command(&command).await.expect("updated");
        commands.push(command);
    }
    let store = store.reopen().await;
    for command in &commands {
        let read = store.command(&session.id, &command.command_id).await.expect("read");
        assert_eq!(read.as_ref(), Some(command));
    }
    let elsewhere = ids::session();
    assert_eq!(store.command(&elsewhere, &commands[0].command_id).await.expect("read"), None);
    let unfinished = store.unfinished_commands().await.expect("read");
    assert_eq!(unfinished, commands[..2], "starting and running");
}

#[tokio::test]
async fn a_command_with_open_output_is_unfinished() {
    let store = open();
    let session = session();
    store.insert_session(&session).await.expect("inserted");
    let mut command = command(&session.id, 1);
    command.state = CommandState::Exited { code: 0 };
    store.insert_command("acme", &command).await.expect("inserted");
    assert_eq!(store.unfinished_commands().await.expect("read").len(), 1);
    command.output_closed = true;
    store.update_command(&command).await.expect("its output may still change");
    assert!(store.unfinished_commands().await.expect("read").is_empty());
}

#[tokio::test]
async fn a_final_state_is_reached_once() {
    let store = open();
    let session = session();
    store.insert_session(&session).await.expect("inserted");
    let mut command = command(&session.id, 1);
    store.insert_command("acme", &command).await.expect("inserted");
    command.state = CommandState::Killed { signal: 9, by: ann() };
    store.update_command(&command).await.expect("updated");
    let first = command.clone();
    for state in
        [CommandState::Running, CommandState::Exited { code: 0 }, CommandState::Killed { signal: 15, by: ann() }]
    {
        command.state = state;
        assert!(matches!(store.update_command(&command).await, Err(StoreError::Corrupt(_))));
    }
    assert_eq!(store.command(&session.id, &command.command_id).await.expect("read"), Some(first));
}

#[tokio::test]
async fn commands_are_listed_newest_first_a_page_at_a_time() {
    let store = open();
    let (session, other) = (session(), session());
    store.insert_session(&session).await.expect("inserted");
    store.insert_session(&other).await.expect("inserted");
    for number in 1..=5 {
        store.insert_command("acme", &command(&session.id, number)).await.expect("inserted");
        store.insert_command("acme", &command(&other.id, number)).await.expect("inserted");
    }
    let mut before = None;
    let mut pages = Vec::new();
    loop {
        let (page, next) = store.commands(&session.id, before, 2).await.expect("read");
        assert!(page.iter().all(|command| command.session_id == session.id));
        pages.push(page.iter().map(|command| command.number).collect::<Vec<_>>());
        before = next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![5, 4], vec![3, 2], vec![1]]);
    let (all, next) = store.commands(&session.id, Some(u64::MAX), 5).await.expect("read");
    assert_eq!((all.len(), next), (5, None));
    assert!(store.insert_command("acme", &command(&session.id, 5)).await.is_err(), "a number is used once");
}

#[tokio::test]
async fn one_job_of_a_group_that_fails_leaves_the_others_alone() {
    let store = open();
    let record = session();
    store.insert_session(&record).await.expect("inserted");
    // Holds the thread until all of them wait.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let holding = tokio::spawn({
        let store = store.store.clone();
        async move {
            // May be done twice, when it shares its group with the one that fails; then the gate is gone, which opens it.
            let wait = move |_: &Connection| {
                let _ = gate.lock().expect("one thread").recv();
                Ok(())
            };
            store.read(wait).await
        }
    });
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..20).map(|_| session()).collect();
    let (failed, succeeded, ()) = tokio::join!(
        store.insert_session(&record),
        async {
            for other in &others[..10] {
                store.insert_session(other).await?;
            }
            Ok::<_, StoreError>(())
        },
        async move {
            tokio::task::yield_now().await;
            drop(go);
        }
    );
    assert!(matches!(failed, Err(StoreError::Sqlite(_))), "{failed:?}");
    succeeded.expect("inserted");
    holding.await.expect("a task").expect("read");
    assert_eq!(store.unended_sessions().await.expect("read").len(), 11);
}

#[tokio::test]
async fn a_full_disk_is_told_and_passes() {
    let store = open();
    let session = session();
    store.insert_session(&session).await.expect("inserted");
    let pages = |most: i64| {
        move |connection: &Connection| {
            let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            let most = pages.saturating_add(most);
            Ok(connection.query_row(&format!("PRAGMA max_page_count = {most}"), [], |row| row.get::<_, i64>(0))?)
        }
    };
    store.read(pages(4)).await.expect("a limit");
    let mut written = 0;
    let error = loop {
        let mut command = command(&session.id, written + 1);
        command.command = "x".repeat(3000);
        match store.insert_command("acme", &command).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error:?}");
    assert!(written > 0);
    let (kept, _) = store.commands(&session.id, None, 1000).await.expect("reading works");
    assert_eq!(kept.len() as u64, written, "what was acknowledged is there, what was refused is not");
    store.read(pages(1000)).await.expect("a limit");
    store.insert_command("acme", &command(&session.id, written + 1)).await.expect("there is room again");
}

#[tokio::test]
async fn after_closing_everything_says_so() {
    let store = open();
    let clone = store.store.clone();
    store.close().await;
    store.close().await;
    assert!(matches!(clone.unended_sessions().await, Err(StoreError::Closed)));
    assert!(!store.folder.path().join("test.db-wal").exists(), "nothing is left beside the file");
}

#[tokio::test]
async fn two_processes_share_the_file() {
    let store = open();
    let beside = Store::open(&store.folder.path().join("test.db")).expect("a second handle");
    let (one, two) = (session(), session());
    let (first, second) = tokio::join!(store.insert_session(&one), beside.insert_session(&two));
    first.expect("inserted");
    second.expect("inserted");
    assert_eq!(store.unended_sessions().await.expect("read").len(), 2);
    assert_eq!(beside.unended_sessions().await.expect("read").len(), 2);
}

#[test]
fn a_file_that_is_no_database_or_a_newer_one_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("test.db");
    std::fs::write(&file, "this is a diary, and long enough to be looked at as a header".repeat(100)).expect("a file");
    assert!(matches!(Store::open(&file), Err(StoreError::Corrupt(_))));
    let newer = folder.path().join("newer.db");
    let connection = Connection::open(&newer).expect("a database");
    connection.pragma_update(None, "user_version", 99).expect("set");
    drop(connection);
    let text = Store::open(&newer).expect_err("newer").to_string();
    assert!(text.contains("newer Glassbox"), "{text}");
}

fn link(hash: u8, expires_at: f64) -> LinkRecord {
    LinkRecord { hash: [hash; 32], tenant: "acme".into(), role: Role::Viewer, expires_at }
}

fn sign_in_from(link: &LinkRecord) -> SignInRecord {
    SignInRecord {
        hash: [99; 32],
        tenant: link.tenant.clone(),
        role: link.role,
        name: "Ann".into(),
        key_id: None,
        key_hash: None,
        created_at: 1.0,
        expires_at: 100.0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_link_is_taken_once_however_many_try() {
    let store = open();
    let beside = Store::open(&store.folder.path().join("test.db")).expect("a second handle");
    store.insert_link(&link(1, 10.0)).await.expect("inserted");
    let tries: Vec<_> = (0..20u8)
        .map(|index| {
            let store = if index.is_multiple_of(2) { store.store.clone() } else { beside.clone() };
            tokio::spawn(async move {
                let make = move |link: &LinkRecord| SignInRecord { hash: [index; 32], ..sign_in_from(link) };
                store.take_link([1; 32], 5.0, make).await
            })
        })
        .collect();
    let mut taken = Vec::new();
    for attempt in tries {
        taken.extend(attempt.await.expect("a task").expect("an answer"));
    }
    assert_eq!(taken.len(), 1);
    assert_eq!(store.sign_in(taken[0].hash).await.expect("read").as_ref(), Some(&taken[0]));
}

#[tokio::test]
async fn what_has_expired_is_not_taken_and_is_forgotten() {
    let store = open();
    store.insert_link(&link(1, 10.0)).await.expect("inserted");
    assert_eq!(store.take_link([1; 32], 10.0, sign_in_from).await.expect("an answer"), None);
    assert_eq!(store.take_link([2; 32], 1.0, sign_in_from).await.expect("an answer"), None);
    store.insert_sign_in(&sign_in_from(&link(1, 1.0))).await.expect("inserted");
    store.prune(10.0).await.expect("pruned");
    assert_eq!(store.take_link([1; 32], 1.0, sign_in_from).await.expect("an answer"), None);
    assert!(store.sign_in([99; 32]).await.expect("read").is_some());
    store.prune(100.0).await.expect("pruned");
    assert_eq!(store.sign_in([99; 32]).await.expect("read"), None);
}

fn key(tenant: &str, role: Role, hash: u8) -> KeyRecord {
    KeyRecord {
        id: ids::key(),
        tenant: tenant.into(),
        name: "builder".into(),
        role,
        prefix: "asb_abcdefghij".into(),
        hash: [hash; 32],
        created_at: f64::from(hash),
        revoked_at: None,
    }
}

#[tokio::test]
async fn keys_round_trip_and_are_counted_by_tenant() {
    let store = open();
    for (hash, role) in [(1, Role::Agent), (2, Role::Viewer), (3, Role::Operator)] {
        assert!(store.insert_key(&key("acme", role, hash), 3).await.expect("inserted"));
    }
    assert!(!store.insert_key(&key("acme", Role::Agent, 4), 3).await.expect("an answer"));
    let other = key("beta", Role::Admin, 5);
    assert!(store.insert_key(&other, 3).await.expect("inserted"));
    assert_eq!(store.keys("beta").await.expect("read"), std::slice::from_ref(&other));
    assert_eq!(store.key_by_hash([5; 32]).await.expect("read"), Some(other));
    assert_eq!(store.key_by_hash([9; 32]).await.expect("read"), None);
    assert_eq!(store.keys("acme").await.expect("read").len(), 3);
    assert!(store.insert_key(&key("beta", Role::Agent, 1), 3).await.is_err(), "the same key for two tenants");
}

#[tokio::test]
async fn revoking_ends_the_sign_ins_and_can_spare_the_last_operator() {
    let store = open();
    assert!(!store.has_operator_key().await.expect("read"));
    let operator = key("acme", Role::Operator, 1);
    store.insert_key(&operator, 10).await.expect("inserted");
    store.insert_key(&key("acme", Role::Agent, 2), 10).await.expect("inserted");
    store.insert_key(&key("beta", Role::Operator, 3), 10).await.expect("inserted");
    let sign_in = SignInRecord { key_id: Some(operator.id.clone()), ..sign_in_from(&link(1, 1.0)) };
    store.insert_sign_in(&sign_in).await.expect("inserted");
    assert_eq!(store.sign_in(sign_in.hash).await.expect("read"), Some(sign_in.clone()));

    assert_eq!(store.revoke_key("beta", &operator.id, 7.0, true).await.expect("an answer"), Revoked::NotFound);
    assert_eq!(store.revoke_key("acme", &operator.id, 7.0, true).await.expect("an answer"), Revoked::LastOperator);
    let revoked = KeyRecord { revoked_at: Some(7.0), ..operator.clone() };
    for at in [7.0, 8.0] {
        let outcome = store.revoke_key("acme", &operator.id, at, false).await.expect("an answer");
        assert_eq!(outcome, Revoked::Done(revoked.clone()));
    }
    assert_eq!(store.sign_in(sign_in.hash).await.expect("read"), None);
    assert_eq!(store.keys("acme").await.expect("read").last(), Some(&revoked), "active ones come first");
}
