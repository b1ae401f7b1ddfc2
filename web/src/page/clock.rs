//! One timer for everything that ticks, in the server's time.

use gloo_timers::callback::Interval;
use leptos::prelude::*;

use super::interop::browser;

/// Unix seconds by the server's clock, once a second.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    now: RwSignal<f64>,
    ahead: StoredValue<f64>,
}

impl Clock {
    /// Starts it, for the life of the page.
    pub fn start() -> Self {
        let clock = Self { now: RwSignal::new(browser::now()), ahead: StoredValue::new(0.0) };
        Interval::new(1000, move || clock.now.set(clock.exact())).forget();
        clock
    }

    /// The second that is shown; whoever reads it ticks.
    pub fn now(self) -> f64 {
        self.now.get()
    }

    /// This moment, without ticking.
    pub fn exact(self) -> f64 {
        browser::now() + self.ahead.get_value()
    }

    /// The server told its time. Small differences are the way of the message, not of the clock.
    pub fn server_says(self, now: f64) {
        let ahead = now - browser::now();
        self.ahead.set_value(if ahead.abs() < 1.0 { 0.0 } else { ahead });
    }
}

/// The page's clock.
pub fn use_clock() -> Clock {
    expect_context::<Clock>()
}
