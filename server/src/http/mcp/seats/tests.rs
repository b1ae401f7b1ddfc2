use glassbox_shared::session::Profile;

use super::*;
use crate::ids;

const KEY: Credential = Credential::Key([1; 32]);
const OTHER_KEY: Credential = Credential::Key([2; 32]);

fn place(workspace: &str) -> Place {
    Place { tenant: "acme".into(), key: "key_1".into(), profile: Profile::Open, workspace: workspace.into() }
}

fn seat(seats: &Seats, tenant: &str, id: &str) -> Arc<Seat> {
    let seat = seats.take_for(KEY, tenant, &place("default")).expect("room").seat;
    seat.called(id);
    seat
}

/// What it is to be told in this sandbox, which it uses now.
fn news<'a>(seat: &'a Seat, sandbox: &SessionId) -> News<'a> {
    seat.state().sandbox = Some(sandbox.clone());
    seat.news(sandbox)
}

#[test]
fn a_seat_is_found_by_its_own_key_only_and_gone_when_it_is_given_back() {
    let seats = Seats::default();
    let one = seat(&seats, "acme", "one");
    assert!(seats.find("one", &KEY).is_some());
    assert!(seats.find("one", &OTHER_KEY).is_none());
    assert!(seats.find("two", &KEY).is_none());
    drop(one);
    assert!(seats.find("one", &KEY).is_none());
    assert!(seats.lock().seats.is_empty());
}

#[test]
fn when_all_are_taken_the_one_that_was_idle_for_the_longest_time_makes_room() {
    let seats = Seats::default();
    let all: Vec<Arc<Seat>> = (0..MAX_TENANT_SEATS).map(|nth| seat(&seats, "acme", &nth.to_string())).collect();
    let stranger = seat(&seats, "beta", "stranger");
    let busy = all[0].call();
    drop(all[1].call());
    let new = seats.take_for(KEY, "acme", &place("default")).expect("room");
    assert_eq!(new.instead_of.as_deref(), Some("2"), "the first one is busy, the second was just used");
    assert!(seats.find("2", &KEY).is_none(), "it leaves");
    let calls: Vec<Calling> = all.iter().map(Seat::call).collect();
    let error =
        seats.take_for(KEY, "acme", &place("default")).expect_err("everybody is busy but the new one, which has no id");
    assert_eq!(error.code, ErrorCode::RateLimited);
    assert!(seats.take_for(KEY, "beta", &place("default")).is_ok(), "another tenant");
    drop((busy, calls, stranger));
}

#[test]
fn clients_of_one_name_in_one_workspace_are_told_apart() {
    let seats = Seats::default();
    let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
    let nth = |seat: &Seat| {
        seat.sit("claude", "claude 1");
        seat.nth()
    };
    assert_eq!(nth(&one), 1);
    assert_eq!(nth(&two), 2);
    let elsewhere = seats.take_for(KEY, "acme", &place("other")).expect("room").seat;
    assert_eq!(nth(&elsewhere), 1);
    drop(one);
    let unheard = seat(&seats, "acme", "unheard");
    unheard.sit("claude", "claude 1");
    assert_eq!(nth(&seat(&seats, "acme", "three")), 1, "free again; who calls nothing takes none");
    assert_eq!(nth(&two), 2, "as before");
}

/// It has called nothing for so long that it counts as gone.
fn idle(seat: &Seat) {
    seat.state().used = Instant::now().checked_sub(PRESENT).expect("the machine has run for longer");
}

#[test]
fn a_client_that_vanished_and_comes_back_is_the_same_and_alone() {
    let seats = Seats::default();
    let sandbox = ids::session();
    let vanished = seat(&seats, "acme", "one");
    vanished.sit("claude", "claude 1");
    assert_eq!(vanished.nth(), 1);
    news(&vanished, &sandbox).told();
    idle(&vanished);
    let back = seat(&seats, "acme", "two");
    back.sit("claude", "claude 1");
    assert_eq!(back.nth(), 1, "it reads on where it was");
    let calling = back.call();
    assert!(news(&back, &sandbox).others.is_empty(), "it is not told of itself");
    assert_eq!(seats.labels_in(&sandbox), ["claude 1"], "people see one");
    drop(calling);
    let second = seat(&seats, "acme", "three");
    second.sit("claude", "claude 1");
    assert_eq!(second.nth(), 2, "this one is there");
}

#[test]
fn a_client_that_waits_for_a_long_call_is_present() {
    let seats = Seats::default();
    let sandbox = ids::session();
    let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
    one.sit("claude", "claude 1");
    assert_eq!(one.nth(), 1);
    news(&one, &sandbox).told();
    let _waiting = one.call();
    idle(&one);
    two.sit("claude", "claude 2");
    assert_eq!(two.nth(), 2);
    assert_eq!(news(&two, &sandbox).others, ["claude 1"]);
    assert_eq!(seats.labels_in(&sandbox), ["claude 1", "claude 2"]);
}

#[test]
fn each_of_two_clients_is_told_of_the_other_once_and_only_when_that_one_does_something() {
    let seats = Seats::default();
    let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
    one.sit("a", "a 1");
    two.sit("b", "b 2");
    let sandbox = ids::session();
    let told = |seat: &Seat| {
        let news = news(seat, &sandbox);
        let others = news.others.clone();
        news.told();
        others
    };
    assert!(told(&one).is_empty(), "the other one has not used it");
    assert_eq!(news(&two, &sandbox).others, ["a 1"]);
    assert_eq!(told(&two), ["a 1"], "the answer before was never made");
    assert_eq!(told(&one), ["b 2"]);
    assert!(told(&one).is_empty() && told(&two).is_empty(), "once");
    idle(&two);
    assert!(told(&one).is_empty());
    drop(two.call());
    assert!(told(&one).is_empty(), "it only paused");
    drop(two);
    let three = seat(&seats, "acme", "three");
    three.sit("b", "b 2");
    told(&three);
    assert_eq!(told(&one), ["b 2"], "another one");
}

#[test]
fn a_client_notices_that_its_sandbox_is_another_one() {
    let seats = Seats::default();
    let one = seat(&seats, "acme", "one");
    let (first, second) = (ids::session(), ids::session());
    let told = |sandbox: &SessionId| {
        let news = news(&one, sandbox);
        let another = news.another;
        news.told();
        another
    };
    assert!(!told(&first) && !told(&first));
    assert!(news(&one, &second).another);
    assert!(told(&second), "the answer before was never made");
    assert!(!told(&second), "once");
    one.gave_up();
    assert!(!told(&ids::session()));
}

#[test]
fn an_answer_of_the_sandbox_before_changes_nothing_of_what_a_client_knows() {
    let seats = Seats::default();
    let (one, two) = (seat(&seats, "acme", "one"), seat(&seats, "acme", "two"));
    one.sit("a", "a 1");
    two.sit("b", "b 2");
    let (first, second) = (ids::session(), ids::session());
    news(&one, &first).told();
    assert!(news(&one, &second).another);
    drop(one.news(&first));
    assert!(news(&one, &second).another, "it was not told yet that it is another one");
    news(&one, &second).told();
    news(&two, &second).told();
    let late = one.news(&first);
    assert!(!late.another && late.others.is_empty(), "it is in the second one: {late:?}");
    late.told();
    let met = news(&one, &second);
    assert!(!met.another, "it knew that");
    assert_eq!(met.others, ["b 2"], "that was not said in the other one");
}
