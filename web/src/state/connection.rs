//! When to connect again, and when a connection that says nothing counts as lost.

use glassbox_shared::live::{HEARTBEAT_SECONDS, SILENCE_SECONDS};

/// First wait before connecting again.
const FIRST_WAIT_MS: f64 = 500.0;
/// Longest wait: a person who looks at the page should not have to press reload.
const LONGEST_WAIT_MS: f64 = 10_000.0;
/// The watchdog ticks each second; a jump of this many seconds means that the machine slept (or the tab did).
const SLEPT_SECONDS: f64 = 4.0;
/// After a sleep, or when the tab comes back, a connection that said nothing since one heartbeat and a bit is not trusted.
const STALE_SECONDS: f64 = HEARTBEAT_SECONDS as f64 + 2.0;
/// A connection must open within this time.
pub const OPEN_DEADLINE_SECONDS: f64 = 8.0;

/// Milliseconds to wait before the attempt after `failures` failed ones; `random` is in 0..1.
/// Half of it is random, so that many tabs do not come back in one moment.
pub fn backoff_ms(failures: u32, random: f64) -> u32 {
    let full = (FIRST_WAIT_MS * f64::from(1u32 << failures.min(10))).min(LONGEST_WAIT_MS);
    (full / 2.0 + full / 2.0 * random.clamp(0.0, 1.0)) as u32
}

/// How the line to the server is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Line {
    /// The first connection is being made.
    #[default]
    Connecting,
    /// Connected.
    Live,
    /// Lost at this time; connecting again.
    Lost {
        /// Since when.
        since: f64,
    },
    /// Given up: signed out.
    SignedOut,
}

impl Line {
    /// The connection broke, or an attempt failed. The time of the loss stays the first one.
    pub fn lost(&mut self, now: f64) {
        if !matches!(self, Line::Lost { .. } | Line::SignedOut) {
            *self = Line::Lost { since: now };
        }
    }
}

/// What a tick finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do.
    Fine,
    /// Nothing came for too long.
    Silent,
    /// The machine slept and the connection is older than that.
    Woke,
}

/// Watches over an open connection by the wall clock (the monotonic one may stand still in sleep).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watchdog {
    last_message: f64,
    last_tick: f64,
}

impl Watchdog {
    /// From the moment of opening.
    pub fn new(now: f64) -> Self {
        Self { last_message: now, last_tick: now }
    }

    /// Something came.
    pub fn message(&mut self, now: f64) {
        self.last_message = now;
    }

    /// Once a second.
    pub fn tick(&mut self, now: f64) -> Verdict {
        let jumped = now - self.last_tick > SLEPT_SECONDS || now < self.last_tick - SLEPT_SECONDS;
        self.last_tick = now;
        if now - self.last_message >= SILENCE_SECONDS as f64 {
            return if jumped { Verdict::Woke } else { Verdict::Silent };
        }
        // Timers of hidden tabs are slowed down and look like sleep, but messages came meanwhile.
        if jumped && self.is_stale(now) { Verdict::Woke } else { Verdict::Fine }
    }

    /// Is it worth a doubt when someone comes back to the tab?
    pub fn is_stale(&self, now: f64) -> bool {
        (now - self.last_message).abs() > STALE_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_half_a_second_to_ten_with_jitter() {
        assert_eq!(backoff_ms(0, 1.0), 500);
        assert_eq!(backoff_ms(0, 0.0), 250);
        assert_eq!(backoff_ms(1, 1.0), 1000);
        assert_eq!(backoff_ms(60, 1.0), 10_000);
        assert_eq!(backoff_ms(60, 0.0), 5_000);
    }

    #[test]
    fn silence_is_noticed_after_the_agreed_time() {
        let mut watchdog = Watchdog::new(0.0);
        for second in 1..25 {
            assert_eq!(watchdog.tick(f64::from(second)), Verdict::Fine, "{second}");
        }
        assert_eq!(watchdog.tick(25.0), Verdict::Silent);
    }

    #[test]
    fn waking_up_is_noticed_at_the_next_tick() {
        let mut watchdog = Watchdog::new(0.0);
        watchdog.tick(1.0);
        assert_eq!(watchdog.tick(600.0), Verdict::Woke);
        let mut short_nap = Watchdog::new(0.0);
        assert_eq!(short_nap.tick(14.0), Verdict::Woke);
    }

    #[test]
    fn a_hidden_tab_with_slow_timers_is_not_asleep() {
        let mut watchdog = Watchdog::new(0.0);
        watchdog.message(58.0);
        assert_eq!(watchdog.tick(60.0), Verdict::Fine);
    }

    #[test]
    fn the_time_of_the_loss_is_the_first_failure() {
        let mut line = Line::Live;
        line.lost(10.0);
        line.lost(20.0);
        assert_eq!(line, Line::Lost { since: 10.0 });
    }
}
