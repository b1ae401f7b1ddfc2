//! Sessions and commands on the engine in memory: what no real engine does on request.

use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::command::{CommandState, CommandView, Interruption, KillCommand, RunCommand};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::EngineTrouble;
use glassbox_shared::session::{CreateSession, DeathCause, EndReason, Profile, SessionState, SessionView};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::Sessions;
use super::settings::SessionSettings;
use crate::clock;
use crate::command::log::LogSettings;
use crate::control::Principal;
use crate::error::DomainError;
use crate::feed::Feed;
use crate::runtime::RuntimeEvent;
use crate::runtime::fake::FakeRuntime;
use crate::store::Store;

/// Nothing here takes this long; only a broken test does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server's domain on an engine in memory.
struct World {
    engine: FakeRuntime,
    sessions: Sessions,
    store: Store,
    shutdown: CancellationToken,
    folder: Arc<TempDir>,
    settings: SessionSettings,
}

impl World {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut SessionSettings)) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let mut settings = SessionSettings {
            instance: "test".into(),
            image: "sandbox-base:latest".into(),
            templates: Vec::new(),
            open_workspace_dir: "/root".into(),
            logs_dir: folder.path().join("logs"),
            log: LogSettings::default(),
            max_sessions: 10,
            max_commands: 4,
            idle: Duration::from_secs(1800),
            lifetime: Duration::from_secs(86_400),
            max_command: Duration::from_secs(86_400),
            memory_total: 4 << 30,
            max_memory: 4 << 30,
            max_cpus: 4.0,
            max_file: 1 << 30,
            max_pids: 4096,
        };
        change(&mut settings);
        Self::start(FakeRuntime::new(), folder, settings).await
    }

    async fn start(engine: FakeRuntime, folder: Arc<TempDir>, settings: SessionSettings) -> Self {
        let store = Store::open(&folder.path().join("glassbox.db")).expect("a database");
        let shutdown = CancellationToken::new();
        let runtime: crate::runtime::Runtime = Arc::new(engine.clone());
        let sessions = Sessions::start(runtime, store.clone(), Feed::default(), settings.clone(), shutdown.clone())
            .await
            .expect("a start");
        Self { engine, sessions, store, shutdown, folder, settings }
    }

    /// As after `kill -9`, as far as a process can do that to itself: everything in memory is lost, the engine lives on.
    async fn restarted(self) -> Self {
        self.shutdown.cancel();
        self.sessions.stopped().await;
        self.store.close().await;
        Self::start(self.engine, self.folder, self.settings).await
    }

    async fn session(&self) -> SessionId {
        self.sessions.create(&agent(), persistent()).await.expect("a session").session_id
    }

    async fn run(&self, session: &SessionId, command: &str) -> CommandView {
        self.try_run(session, command).await.expect("a command")
    }

    async fn try_run(&self, session: &SessionId, command: &str) -> Result<CommandView, DomainError> {
        let request = RunCommand { command: command.into(), ..RunCommand::default() };
        self.sessions.get("acme", session)?.run(&agent(), request).await
    }

    async fn ended(&self, command: &CommandView) -> CommandView {
        let session = self.sessions.get("acme", &command.session_id).expect("a session");
        let ended = session.command(&command.command_id).await.expect("the command").wait_closed(PATIENCE).await;
        assert!(ended.state.is_final() && ended.output_closed, "{ended:?}");
        ended
    }

    async fn output(&self, session: &SessionId, command: &CommandId) -> Vec<u8> {
        let command =
            self.sessions.get("acme", session).expect("a session").command(command).await.expect("the command");
        let chunk = command.log().await.expect("a log").read(0, 1 << 20).await.expect("its bytes");
        assert_eq!(chunk.gap, None);
        chunk.bytes.to_vec()
    }

    async fn kill(&self, command: &CommandView) -> Result<CommandView, DomainError> {
        let session = self.sessions.get("acme", &command.session_id)?;
        session.kill(&agent(), &command.command_id, KillCommand { grace_seconds: Some(0.2) }).await
    }

    fn view(&self, session: &SessionId) -> Option<SessionView> {
        self.sessions.get("acme", session).ok().map(|session| session.view())
    }

    /// Looks until it is true.
    async fn eventually(&self, what: &str, mut is_true: impl FnMut() -> bool) {
        let looking = async {
            let mut look = tokio::time::interval(Duration::from_millis(5));
            while !is_true() {
                look.tick().await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "never: {what}");
    }

    async fn ready_again(&self, session: &SessionId, generation: usize) {
        self.eventually("the session is ready again", || {
            self.view(session)
                .is_some_and(|view| view.state == SessionState::Ready && view.restarts.len() == generation)
        })
        .await;
    }
}

fn agent() -> Principal {
    Principal { tenant: "acme".into(), role: Role::Agent, actor: Actor::Agent { name: "agent-7".into() }, key_id: None }
}

fn operator() -> Principal {
    Principal { tenant: "acme".into(), role: Role::Operator, actor: Actor::Human { name: "Ann".into() }, key_id: None }
}

fn persistent() -> CreateSession {
    CreateSession { persistent: Some(true), ..CreateSession::default() }
}

fn code<T: std::fmt::Debug>(result: Result<T, DomainError>) -> ErrorCode {
    result.expect_err("a refusal").code
}

#[tokio::test]
async fn a_command_runs_and_every_byte_and_its_code_are_there() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "print hello; exit 7").await;
    let ended = world.ended(&command).await;
    assert_eq!(ended.state, CommandState::Exited { code: 7 });
    assert!(ended.output_complete);
    assert_eq!(world.output(&session, &command.command_id).await, b"hello\n");
}

#[tokio::test]
async fn a_command_ran_as_long_as_its_helper_says_but_not_longer_than_since_it_was_asked_for() {
    let world = World::new().await;
    let session = world.session().await;
    let before = clock::now();
    let boasting = world.ended(&world.run(&session, "claim 3600000").await).await;
    let (started, ended) = (boasting.started_at.expect("a start"), boasting.ended_at.expect("an end"));
    assert!(before <= started && started <= ended && ended <= clock::now(), "{boasting:?}");
    let late = world.ended(&world.run(&session, "sleep 50; claim 20").await).await;
    let ran = late.ended_at.expect("an end") - late.started_at.expect("a start");
    assert!((ran - 0.02).abs() < 1e-6, "{late:?}");
    let stored = world.store.command(&session, &late.command_id).await.expect("a look").expect("it is there");
    assert_eq!((stored.started_at, stored.ended_at), (late.started_at, late.ended_at));
}

#[tokio::test]
async fn a_kill_is_told_with_who_asked_and_what_it_took() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "stubborn").await;
    let killed = world.kill(&command).await.expect("a verified kill");
    assert_eq!(killed.state, CommandState::Killed { signal: 9, by: agent().actor });
    assert_eq!(killed.kill.map(|report| report.survivors), Some(vec![]));
    assert_eq!(code(world.kill(&command).await), ErrorCode::AlreadyEnded);
}

#[tokio::test]
async fn survivors_of_a_kill_are_named() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "immortal").await;
    let killed = world.kill(&command).await.expect("an answer");
    assert!(matches!(killed.state, CommandState::Killed { .. }));
    assert_eq!(killed.kill.map(|report| report.survivors.len()), Some(1));
}

#[tokio::test]
async fn an_unverified_kill_leaves_the_command_running_and_later_succeeds() {
    let world = World::new().await;
    let session = world.session().await;
    world.engine.switch(|switches| switches.sweeps_fail = true);
    let command = world.run(&session, "vanish").await;
    let handle =
        world.sessions.get("acme", &session).expect("a session").command(&command.command_id).await.expect("it");
    // The helper is gone and no sweep answers: nobody may claim an end.
    assert_eq!(code(world.kill(&command).await), ErrorCode::KillUnverified);
    assert!(!handle.view().state.is_final());
    world.engine.switch(|switches| switches.sweeps_fail = false);
    assert!(matches!(world.ended(&command).await.state, CommandState::Killed { .. }));
}

#[tokio::test]
async fn a_vanished_or_lying_helper_is_swept_and_told_as_lost() {
    let world = World::new().await;
    let session = world.session().await;
    for script in ["print before; vanish", "print before; nonsense"] {
        let command = world.run(&session, script).await;
        let ended = world.ended(&command).await;
        assert_eq!(ended.state, CommandState::Interrupted(Interruption::HelperLost), "{script}");
        assert!(!ended.output_complete);
        assert_eq!(world.output(&session, &command.command_id).await, b"before\n");
    }
    assert_eq!(world.engine.sweeps(), 2);
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "fail no such folder").await;
    assert!(
        matches!(world.ended(&command).await.state, CommandState::FailedToStart { message } if message.contains("no such folder"))
    );
}

#[tokio::test]
async fn a_dead_sandbox_ends_its_commands_and_is_made_again_on_its_workspace() {
    let world = World::new().await;
    let session = world.session().await;
    let (first, second) = (world.run(&session, "hang").await, world.run(&session, "hang").await);
    let container = world.engine.containers().pop().expect("a container");
    world.engine.kill_container(&container, DeathCause::Oom);
    for command in [&first, &second] {
        let ended = world.ended(command).await;
        assert_eq!(ended.state, CommandState::Interrupted(Interruption::SandboxDied { cause: DeathCause::Oom }));
    }
    world.ready_again(&session, 1).await;
    let again = world.run(&session, "exit 3").await;
    assert_eq!(world.ended(&again).await.state, CommandState::Exited { code: 3 });
    assert_eq!(world.engine.workspaces().len(), 1);
    world.eventually("the dead container is gone", || world.engine.containers().len() == 1).await;
}

/// The engine's word on memory comes just when the command ends: while its end is stored, while its log is closed, and
/// after both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_memory_ran_out_is_told_whenever_the_engines_word_comes() {
    let world = World::new().await;
    let session = world.session().await;
    let container = world.engine.containers().pop().expect("a container");
    for round in 0..40_u32 {
        let command = world.run(&session, "exit 1").await;
        let handle = || async {
            let session = world.sessions.get("acme", &session).expect("a session");
            session.command(&command.command_id).await.expect("the command")
        };
        if round % 4 > 0 {
            handle().await.wait_end(PATIENCE).await;
        }
        // Some rounds later by so many turns of the others.
        for _ in 0..round % 4 * 8 {
            tokio::task::yield_now().await;
        }
        world.engine.report(RuntimeEvent::OutOfMemory { container: container.clone() });
        let told = async {
            let mut look = tokio::time::interval(Duration::from_millis(5));
            while !handle().await.view().out_of_memory {
                look.tick().await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, told).await.is_ok(), "round {round}: never told");
        world.ended(&command).await;
        let stored = world.store.command(&session, &command.command_id).await.expect("a look");
        assert!(stored.is_some_and(|view| view.out_of_memory), "round {round}: not stored");
    }
    let innocent = world.ended(&world.run(&session, "exit 1").await).await;
    assert!(!innocent.out_of_memory, "what began afterwards has nothing to do with it");
}

#[tokio::test]
async fn a_death_that_the_engine_never_reported_is_found_by_the_command() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "hang").await;
    let container = world.engine.containers().pop().expect("a container");
    world.engine.kill_container_unseen(&container, DeathCause::Exit);
    let ended = world.ended(&command).await;
    assert_eq!(ended.state, CommandState::Interrupted(Interruption::SandboxDied { cause: DeathCause::Exit }));
    world.ready_again(&session, 1).await;
}

#[tokio::test]
async fn deleting_takes_everything_down_and_a_refusing_engine_is_told() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "hang").await;
    world.engine.switch(|switches| switches.refuse_removals = true);
    assert_eq!(code(world.sessions.delete(&agent(), &session).await), ErrorCode::EngineUnavailable);
    assert!(world.view(&session).is_some(), "a session that is not gone is still there");
    world.engine.switch(|switches| switches.refuse_removals = false);
    world.sessions.delete(&agent(), &session).await.expect("an end");
    world.eventually("the session is forgotten", || world.view(&session).is_none()).await;
    assert!(world.engine.containers().is_empty() && world.engine.workspaces().is_empty());
    let stored = world.store.command(&session, &command.command_id).await.expect("a store").expect("history stays");
    assert_eq!(stored.state, CommandState::Interrupted(Interruption::SessionEnded));
    let record = world.store.session(&session).await.expect("a store").expect("history stays");
    assert_eq!(record.state, SessionState::Ended { reason: EndReason::Deleted });
}

#[tokio::test]
async fn a_start_that_the_engine_refuses_uses_up_nothing() {
    let world = World::with(|settings| settings.max_sessions = 1).await;
    world.engine.switch(|switches| switches.refuse_starts = true);
    assert_eq!(code(world.sessions.create(&agent(), persistent()).await), ErrorCode::EngineUnavailable);
    world.engine.switch(|switches| switches.refuse_starts = false);
    world.session().await;
    assert_eq!(code(world.sessions.create(&agent(), persistent()).await), ErrorCode::SessionLimit);
    assert_eq!(world.engine.containers().len(), 1);
}

#[tokio::test]
async fn memory_of_all_sandboxes_together_is_bounded() {
    let world = World::with(|settings| settings.memory_total = 300 << 20).await;
    let session = world.session().await;
    assert_eq!(code(world.sessions.create(&agent(), persistent()).await), ErrorCode::NoCapacity);
    world.sessions.delete(&agent(), &session).await.expect("an end");
    world.eventually("there is room again", || world.sessions.count() == 0).await;
    world.session().await;
}

#[tokio::test]
async fn too_many_commands_at_once_are_refused_until_one_ends() {
    let world = World::new().await;
    let session = world.session().await;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(world.run(&session, "hang").await);
    }
    assert_eq!(code(world.try_run(&session, "exit 0").await), ErrorCode::CommandLimit);
    world.kill(&running[0]).await.expect("a kill");
    let next = world.run(&session, "exit 0").await;
    assert_eq!(world.ended(&next).await.state, CommandState::Exited { code: 0 });
}

#[tokio::test]
async fn a_restart_tells_every_end_and_brings_the_session_back() {
    let world = World::new().await;
    let session = world.session().await;
    let finished = world.run(&session, "print one; exit 0").await;
    world.ended(&finished).await;
    let running = world.run(&session, "print two; hang").await;
    let handle =
        world.sessions.get("acme", &session).expect("a session").command(&running.command_id).await.expect("it");
    world.eventually("output is there", || handle.view().output_bytes == 4).await;
    let world = world.restarted().await;
    assert_eq!(world.ended(&running).await.state, CommandState::Interrupted(Interruption::ServerRestarted));
    assert_eq!(world.output(&session, &running.command_id).await, b"two\n");
    assert_eq!(world.output(&session, &finished.command_id).await, b"one\n");
    world.ready_again(&session, 0).await;
    let next = world.run(&session, "exit 5").await;
    assert_eq!(world.ended(&next).await.state, CommandState::Exited { code: 5 });
    assert_eq!(next.number, 3);
}

#[tokio::test]
async fn where_an_end_cannot_be_verified_after_a_restart_the_sandbox_is_made_again() {
    let world = World::new().await;
    let session = world.session().await;
    let running = world.run(&session, "print two; hang").await;
    let handle =
        world.sessions.get("acme", &session).expect("a session").command(&running.command_id).await.expect("it");
    world.eventually("output is there", || handle.view().output_bytes == 4).await;
    let before = world.engine.containers();
    world.engine.switch(|switches| switches.refuse_execs = true);
    let world = world.restarted().await;
    assert_eq!(world.ended(&running).await.state, CommandState::Interrupted(Interruption::ServerRestarted));
    world.ready_again(&session, 1).await;
    assert_ne!(world.engine.containers(), before, "whatever runs went with its sandbox");
}

#[tokio::test]
async fn an_end_that_was_asked_for_is_not_forgotten_over_a_restart() {
    let world = World::new().await;
    let session = world.session().await;
    world.engine.switch(|switches| switches.refuse_removals = true);
    assert_eq!(code(world.sessions.delete(&agent(), &session).await), ErrorCode::EngineUnavailable);
    world.engine.switch(|switches| switches.refuse_removals = false);
    let world = world.restarted().await;
    world.eventually("it is gone", || world.view(&session).is_none()).await;
    let record = world.store.session(&session).await.expect("a store").expect("history stays");
    assert_eq!(record.state, SessionState::Ended { reason: EndReason::Deleted });
    assert!(world.engine.containers().is_empty() && world.engine.workspaces().is_empty());
}

#[tokio::test]
async fn a_session_that_could_not_be_brought_back_comes_back_with_the_engine() {
    let world = World::new().await;
    let session = world.session().await;
    world.engine.switch(|switches| switches.engine_down = true);
    let world = world.restarted().await;
    assert!(world.view(&session).is_none());
    world.sessions.recover_spared().await;
    assert!(world.view(&session).is_none(), "the engine is still away");
    world.engine.switch(|switches| switches.engine_down = false);
    world.sessions.sweep().await.expect("a sweep");
    assert_eq!(world.engine.containers().len(), 1, "what is its own is left alone");
    world.sessions.recover_spared().await;
    world.ready_again(&session, 0).await;
    let command = world.run(&session, "exit 0").await;
    world.ended(&command).await;
}

#[tokio::test]
async fn while_the_engine_does_not_answer_new_work_is_refused_at_once_and_leaves_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    let trouble = EngineTrouble { since: 1.0, detail: "it sleeps".to_owned() };
    world.engine.set_trouble(Some(trouble));
    let refused = world.sessions.create(&agent(), persistent()).await.expect_err("refused");
    assert!(refused.code == ErrorCode::EngineUnavailable && refused.detail.contains("it sleeps"), "{refused}");
    let handle = world.sessions.get("acme", &session).expect("a session");
    let request = RunCommand { command: "exit 0".into(), ..RunCommand::default() };
    assert_eq!(code(handle.run(&agent(), request).await), ErrorCode::EngineUnavailable);
    assert_eq!(world.view(&session).map(|view| view.commands_total), Some(0));
    assert_eq!(world.sessions.count(), 1);
    world.engine.set_trouble(None);
    let command = world.run(&session, "exit 0").await;
    assert_eq!(command.number, 1);
    world.ended(&command).await;
}

#[tokio::test]
async fn after_a_restart_a_session_without_its_workspace_is_lost_and_strays_are_swept() {
    let world = World::new().await;
    let (lost, kept) = (world.session().await, world.session().await);
    let workspace = world.store.session(&lost).await.expect("a store").expect("a session").workspace;
    world.engine.lose_workspace(&workspace);
    let world = world.restarted().await;
    assert!(world.view(&lost).is_none());
    world.ready_again(&kept, 0).await;
    let record = world.store.session(&lost).await.expect("a store").expect("history stays");
    assert_eq!(record.state, SessionState::Ended { reason: EndReason::Lost });
    world.sessions.sweep().await.expect("a sweep");
    assert_eq!((world.engine.containers().len(), world.engine.workspaces().len()), (1, 1));
}

#[tokio::test]
async fn an_idle_session_expires_but_not_while_a_command_runs() {
    let world = World::with(|settings| settings.idle = Duration::from_secs(1)).await;
    let (idle, busy) = (world.session().await, world.session().await);
    let command = world.run(&busy, "hang").await;
    world.eventually("the idle one is gone", || world.view(&idle).is_none()).await;
    assert_eq!(world.view(&busy).map(|view| view.commands_running), Some(1));
    world.kill(&command).await.expect("a kill");
    world.eventually("the other follows", || world.view(&busy).is_none()).await;
    assert!(world.engine.containers().is_empty());
}

#[tokio::test]
async fn an_operator_may_not_run_in_an_agents_session_but_may_kill_and_delete() {
    let world = World::new().await;
    let session = world.session().await;
    let command = world.run(&session, "hang").await;
    let handle = world.sessions.get("acme", &session).expect("a session");
    let request = RunCommand { command: "exit 0".into(), ..RunCommand::default() };
    assert_eq!(code(handle.run(&operator(), request).await), ErrorCode::NotInControl);
    let killed = handle.kill(&operator(), &command.command_id, KillCommand::default()).await.expect("a kill");
    assert!(matches!(killed.state, CommandState::Killed { by, .. } if by == operator().actor));
    world.sessions.delete(&operator(), &session).await.expect("an end");
}

#[tokio::test]
async fn other_tenants_see_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    assert_eq!(code(world.sessions.get("other", &session)), ErrorCode::OtherTenant);
    assert_eq!(world.sessions.list("other").len(), 0);
    assert_eq!(world.sessions.list("acme").len(), 1);
}

#[tokio::test]
async fn what_is_not_built_yet_or_makes_no_sense_is_refused_clearly() {
    let world = World::new().await;
    let create = |request: CreateSession| {
        let sessions = world.sessions.clone();
        async move { code(sessions.create(&agent(), request).await) }
    };
    assert_eq!(create(CreateSession::default()).await, ErrorCode::NotImplemented);
    assert_eq!(
        create(CreateSession { egress: vec!["example.com".into()], ..persistent() }).await,
        ErrorCode::NotImplemented
    );
    assert_eq!(
        create(CreateSession { template: Some("evil".into()), ..persistent() }).await,
        ErrorCode::TemplateNotAllowed
    );
    assert_eq!(create(CreateSession { cpus: Some(f64::NAN), ..persistent() }).await, ErrorCode::Invalid);
    assert_eq!(
        create(CreateSession { profile: Some(Profile::Open), persistent: Some(false), ..CreateSession::default() })
            .await,
        ErrorCode::Invalid
    );
    let session = world.session().await;
    assert_eq!(code(world.try_run(&session, "  ").await), ErrorCode::Invalid);
    assert_eq!(code(world.try_run(&session, "a\0b").await), ErrorCode::Invalid);
    assert_eq!(code(world.try_run(&session, &"x".repeat(200_000)).await), ErrorCode::TooLarge);
}
