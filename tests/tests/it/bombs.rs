//! Case 34: whoever ruins their own sandbox slows nobody else's command.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassbox_shared::command::{CommandState, RunCommand};
use glassbox_tests::{Client, Session, TestServer, eventually, hardened, is_long};
use tokio::time::MissedTickBehavior;

/// Bombs at once in one sandbox.
const BOMBS: usize = 16;
/// Every process that can be had, and then again and again.
const FORK_BOMB: &str = "bomb() { bomb | bomb & }; while :; do bomb; done >/dev/null 2>&1";
/// All memory that can be had, and then again and again.
const MEMORY_BOMB: &str = "while :; do python3 -c 'b = []\nwhile True: b.append(b\"x\" * 10**7)'; done >/dev/null 2>&1";
/// Between looks at a bomb, and between attempts to throw one that was refused: the sandbox is full, or is made again.
const AGAIN: Duration = Duration::from_millis(200);
/// Small commands in a row. Of some rows the one in the middle counts: others use the machine as well.
const COMMANDS: usize = 100;
/// The case's bar: so many times as slow as in quiet may the slowest of a hundred small commands be.
const SLOWER: f64 = 2.0;
/// One of a hundred meets housekeeping of the engine or the disk, which takes as long on a busy machine, bombs or not:
/// a shorter time in quiet is luck.
const LUCK: Duration = Duration::from_millis(300);
/// What still is no standstill, where every core belongs to bombs.
const STANDSTILL: Duration = Duration::from_secs(20);
/// Until bombs go off.
const BEGUN: Duration = Duration::from_mins(1);

/// From asking for a small command to knowing its end: so many of a hundred take at most this long.
struct Row {
    half: Duration,
    most: Duration,
}

async fn measure(session: &Session) -> Row {
    let mut took = Vec::new();
    for _ in 0..COMMANDS {
        let asked = Instant::now();
        let ended = session.run("true").await.ended().await;
        took.push(asked.elapsed());
        assert_eq!(ended.state, CommandState::Exited { code: 0 });
    }
    took.sort();
    Row { half: took[COMMANDS / 2 - 1], most: took[COMMANDS * 99 / 100 - 1] }
}

/// The row in the middle, by half of the commands and by all but one of a hundred.
fn middle(rows: &[Row]) -> Row {
    let of = |which: fn(&Row) -> Duration| {
        let mut sorted: Vec<Duration> = rows.iter().map(which).collect();
        sorted.sort();
        sorted[sorted.len() / 2]
    };
    Row { half: of(|row| row.half), most: of(|row| row.most) }
}

/// Throws bombs until told to stop, whatever becomes of the sandbox; `thrown` counts those that went off.
async fn throw(session: &Session, text: &str, thrown: &AtomicUsize, stop: &AtomicBool) {
    let request = RunCommand { command: text.to_owned(), ..RunCommand::default() };
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(bomb) = session.try_run(&request).await {
            thrown.fetch_add(1, Ordering::Relaxed);
            // Seen to its end, however that comes: the next is thrown then.
            while !stop.load(Ordering::Relaxed) && !bomb.view().await.state.is_final() {
                again.tick().await;
            }
        }
        again.tick().await;
    }
}

/// Measures small commands in a sandbox of their own: in quiet, and beside bombs in these ones, which are ended.
async fn beside(agent: &Client, ruined: Vec<Session>, bombs: &[&str], rows: usize) -> (Row, Row) {
    let bystander = agent.create_session(hardened()).await;
    bystander.sh("true").await;
    let mut quiet = vec![measure(&bystander).await];

    let (thrown, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all = ruined.iter().flat_map(|session| bombs.iter().map(move |text| (session, *text)));
    let thrower = futures_util::future::join_all(all.map(|(session, text)| throw(session, text, &thrown, &stop)));
    let measured = async {
        eventually("bombs went off", BEGUN, async || (thrown.load(Ordering::Relaxed) >= BOMBS).then_some(())).await;
        let mut during = Vec::new();
        for _ in 0..rows {
            during.push(measure(&bystander).await);
        }
        stop.store(true, Ordering::Relaxed);
        during
    };
    let (_, during) = tokio::join!(thrower, measured);

    // Their sandboxes go, whatever is in them, and then it is quiet again.
    for ended in futures_util::future::join_all(ruined.iter().map(Session::delete)).await {
        ended.success().expect("ended");
    }
    while quiet.len() < rows {
        quiet.push(measure(&bystander).await);
    }
    let (quiet, during) = (middle(&quiet), middle(&during));
    for (what, quiet, during) in [("half", quiet.half, during.half), ("99 of 100", quiet.most, during.most)] {
        let times = during.as_secs_f64() / quiet.as_secs_f64();
        println!("{what} of the commands within {quiet:?} in quiet, {during:?} beside bombs: {times:.2} times");
    }
    println!("{} bombs were thrown", thrown.load(Ordering::Relaxed));
    (quiet, during)
}

async fn with_room() -> (TestServer, Client) {
    let server = TestServer::configure().env("GLASSBOX_MAX_COMMANDS", 2 * BOMBS).start().await;
    let agent = server.agent().await;
    (server, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_bombs_in_one_sandbox_leave_small_commands_in_another_quick() {
    let (_server, agent) = with_room().await;
    let ruined = vec![agent.create_session(hardened()).await];
    let bombs = [[FORK_BOMB; BOMBS / 2], [MEMORY_BOMB; BOMBS / 2]].concat();
    let (quiet, during) = beside(&agent, ruined, &bombs, if is_long() { 9 } else { 3 }).await;
    let times = |during: Duration, quiet: Duration| during.as_secs_f64() / quiet.as_secs_f64();
    let (half, most) = (times(during.half, quiet.half), times(during.most, quiet.most.max(LUCK)));
    assert!(half <= SLOWER, "a small command is {half:.2} times as slow");
    assert!(most <= SLOWER, "the slowest of a hundred small commands is {most:.2} times as slow");
}

/// Sandboxes that die of their memory and are made again all the time, together with as many cores as a small machine
/// has. Nobody can be as quick there as in quiet (measured on two cores, with builds beside them: half of the commands
/// twice, one of a hundred four to eleven times as slow); nobody stands still either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_that_die_all_the_time_bring_no_other_to_a_standstill() {
    let (_server, agent) = with_room().await;
    let ruined = vec![agent.create_session(hardened()).await, agent.create_session(hardened()).await];
    let (_, during) = beside(&agent, ruined, &[MEMORY_BOMB; BOMBS / 2], if is_long() { 3 } else { 1 }).await;
    assert!(during.most < STANDSTILL, "the slowest of a hundred small commands takes {:?}", during.most);
}
