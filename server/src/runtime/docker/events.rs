//! The engine's events about our containers: one task, for as long as the runtime lives.
//!
//! Nothing is missed for good: after an interruption the task asks for everything since the last event that it saw, and
//! tells everybody to look again ([`RuntimeEvent::Resumed`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt as _;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::client::{Deadline, Engine, Failure};
use super::exec::Lives;
use super::inspect;
use crate::runtime::{ContainerStatus, RuntimeEvent, labels};

/// A living engine answers a ping in milliseconds.
const PING: Deadline = Deadline::ask("asking whether the engine lives", 10);

/// First pause after an interruption: an engine that restarts takes a few seconds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// Longest pause: whoever starts the engine again should not wait long for us.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// After this time the stream is opened anew, and everybody looks again: a connection that died without a word (an
/// engine on another machine) is noticed, and so is whatever else went past us.
const RENEW_AFTER: Duration = Duration::from_mins(10);

/// Seconds before our start from which events are asked for: clocks of two machines differ.
const LOOK_BACK: u64 = 2;

/// What the task needs; deliberately not the runtime itself, whose end is the task's end.
pub(super) struct Watch {
    pub(super) engine: Arc<Engine>,
    pub(super) lives: Arc<Lives>,
    pub(super) instance: String,
    pub(super) listeners: broadcast::Sender<RuntimeEvent>,
}

/// Where the stream of events was left.
#[derive(Debug, Clone)]
struct Reached {
    /// The engine's own time of the last event, in nanoseconds.
    at: i64,
    /// What that event was.
    last: Option<RuntimeEvent>,
}

impl Reached {
    fn start() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = now.saturating_sub(Duration::from_secs(LOOK_BACK)).as_nanos();
        Self { at: i64::try_from(at).unwrap_or(i64::MAX), last: None }
    }

    /// As the engine wants it: seconds, a point, nine digits.
    fn since(&self) -> String {
        format!("{}.{:09}", self.at / 1_000_000_000, self.at % 1_000_000_000)
    }

    /// Takes note of an event; false: it was asked for again after an interruption, and seen already.
    fn advance(&mut self, at: Option<i64>, event: &RuntimeEvent) -> bool {
        // An engine that does not say when repeats nothing either.
        let Some(at) = at else { return true };
        if at < self.at || (at == self.at && self.last.as_ref() == Some(event)) {
            return false;
        }
        *self = Self { at, last: Some(event.clone()) };
        true
    }
}

impl Watch {
    /// Runs until told to stop.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut reached = Reached::start();
        let mut pause = SHORTEST_PAUSE;
        // Nothing can have been missed before the first connection succeeds at once.
        let mut interrupted = false;
        loop {
            let connected = tokio::select! {
                () = stop.cancelled() => return,
                connected = self.engine.call(PING, |docker| async move { docker.ping().await }) => connected,
            };
            if let Err(failure) = connected {
                if !interrupted {
                    warn!(?failure, "the engine does not answer; trying again until it does");
                }
                interrupted = true;
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            if interrupted {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.look_again() => {}
                }
            }
            let ended = tokio::select! {
                () = stop.cancelled() => return,
                ended = self.follow(&mut reached) => ended,
            };
            match ended {
                Ended::Renew => {
                    debug!("opening the event stream anew");
                    pause = SHORTEST_PAUSE;
                }
                Ended::Lost { after } => {
                    warn!("the engine's event stream ended");
                    if after > LONGEST_PAUSE {
                        pause = SHORTEST_PAUSE;
                    }
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = sleep(pause) => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            interrupted = true;
        }
    }

    /// Passes events on until the stream ends.
    async fn follow(&self, reached: &mut Reached) -> Ended {
        let since = Instant::now();
        let Ok(docker) = self.engine.docker().await else { return Ended::Lost { after: Duration::ZERO } };
        let filters = HashMap::from([
            ("type", vec!["container".to_owned()]),
            ("event", vec!["die".to_owned(), "oom".to_owned()]),
            ("label", vec![format!("{}={}", labels::INSTANCE, self.instance), format!("{}=sandbox", labels::KIND)]),
        ]);
        let options = EventsOptionsBuilder::default().since(&reached.since()).filters(&filters).build();
        let mut events = Box::pin(docker.events(Some(options)));
        let renew = since + RENEW_AFTER;
        loop {
            match timeout_at(renew, events.next()).await {
                Err(_) => return Ended::Renew,
                Ok(Some(Ok(event))) => self.pass_on(&event, reached),
                Ok(Some(Err(error))) => {
                    info!(failure = ?Failure::Engine(error), "the engine's event stream broke");
                    return Ended::Lost { after: since.elapsed() };
                }
                Ok(None) => return Ended::Lost { after: since.elapsed() },
            }
        }
    }

    fn pass_on(&self, event: &EventMessage, reached: &mut Reached) {
        let Some((container, happened)) = translate(event) else { return };
        if !reached.advance(event.time_nano, &happened) {
            return;
        }
        debug!(container, ?happened, "an event of the engine");
        if matches!(happened, RuntimeEvent::Died { .. }) {
            self.lives.ended(&container);
        }
        // Nobody listening is no failure.
        let _ = self.listeners.send(happened);
    }

    /// After an interruption: ends the execs of containers that died meanwhile, and tells everybody to look.
    async fn look_again(&self) {
        for container in self.lives.names() {
            match inspect::status(&self.engine, &container).await {
                Ok(ContainerStatus::Dead(_) | ContainerStatus::Missing) => self.lives.ended(&container),
                Ok(ContainerStatus::Running) => {}
                Err(error) => debug!(container, %error, "could not look at a container"),
            }
        }
        let _ = self.listeners.send(RuntimeEvent::Resumed);
    }
}

enum Ended {
    /// It is time for a new stream.
    Renew,
    /// The engine went away, this long after the stream was opened.
    Lost { after: Duration },
}

/// The container's name and what happened to it.
fn translate(event: &EventMessage) -> Option<(String, RuntimeEvent)> {
    let container = event.actor.as_ref()?.attributes.as_ref()?.get("name")?.clone();
    let happened = match event.action.as_deref()? {
        "die" => RuntimeEvent::Died { container: container.clone() },
        "oom" => RuntimeEvent::OutOfMemory { container: container.clone() },
        _ => return None,
    };
    Some((container, happened))
}

#[cfg(test)]
mod tests {
    use bollard::models::EventActor;

    use super::*;

    fn event(action: &str, time_nano: i64) -> EventMessage {
        let attributes = HashMap::from([("name".to_owned(), "box".to_owned())]);
        EventMessage {
            action: Some(action.to_owned()),
            actor: Some(EventActor { id: None, attributes: Some(attributes) }),
            time_nano: Some(time_nano),
            ..Default::default()
        }
    }

    fn watch() -> (Watch, broadcast::Receiver<RuntimeEvent>) {
        let (listeners, events) = broadcast::channel(8);
        let watch =
            Watch { engine: Arc::new(Engine::new()), lives: Arc::default(), instance: "i".to_owned(), listeners };
        (watch, events)
    }

    #[test]
    fn a_death_is_told_once_and_ends_what_runs_there() {
        let (watch, mut events) = watch();
        let life = watch.lives.of("box");
        let mut reached = Reached { at: 10, last: None };
        watch.pass_on(&event("die", 11), &mut reached);
        watch.pass_on(&event("die", 11), &mut reached);
        assert_eq!(events.try_recv().expect("an event"), RuntimeEvent::Died { container: "box".to_owned() });
        assert!(events.try_recv().is_err(), "told twice");
        assert!(life.is_cancelled());
    }

    #[test]
    fn running_out_of_memory_is_told_and_ends_nothing() {
        let (watch, mut events) = watch();
        let life = watch.lives.of("box");
        watch.pass_on(&event("oom", 11), &mut Reached { at: 10, last: None });
        assert_eq!(events.try_recv().expect("an event"), RuntimeEvent::OutOfMemory { container: "box".to_owned() });
        assert!(!life.is_cancelled());
    }

    #[test]
    fn the_place_reached_is_written_as_the_engine_wants_it() {
        assert_eq!(Reached { at: 1_700_000_000_000_000_042, last: None }.since(), "1700000000.000000042");
    }
}
