//! The one place that asks for the time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds, as on the wire.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
