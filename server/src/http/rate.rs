//! How often a tenant may ask, and an address fail to sign in: a token bucket for each and kind of caller.
//!
//! A request with a wrong key has no tenant and takes nothing from anyone. A long poll or an upgrade to the live socket
//! counts once, when it begins. The page has a larger allowance of its own, so that an agent in a loop cannot lock out
//! the human who wants to kill it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets above which those that are full again are forgotten: a forgotten full bucket is the same as a new one. Only
/// valid keys and addresses that tried to sign in make buckets. While all of them are in use, new addresses share one.
const MAX_BUCKETS: usize = 10_000;

/// Sign-ins that may fail from one address in a minute. Keys are too long to be guessed; this keeps whoever tries anyway
/// from filling the log, and is more than a team behind one address mistypes.
const FAILED_SIGN_INS_PER_MINUTE: f64 = 60.0;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A program with a key.
    Api,
    /// The page, with its cookie.
    Page,
    /// An address that signs in.
    SignIn,
}

/// What is left for one tenant and kind.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// All buckets. A bucket holds a minute's worth and fills evenly.
#[derive(Debug)]
pub(super) struct Rates {
    api_per_minute: f64,
    page_per_minute: f64,
    buckets: Mutex<HashMap<(String, Kind), Bucket>>,
}

impl Rates {
    pub(super) fn new(api_per_minute: u32, page_per_minute: u32) -> Self {
        // Zero would refuse everything for ever, and divide by it.
        let rate = |per_minute: u32| f64::from(per_minute.max(1));
        Self { api_per_minute: rate(api_per_minute), page_per_minute: rate(page_per_minute), buckets: Mutex::default() }
    }

    /// Takes one request; `Err`: how long to wait for the next.
    pub(super) fn take(&self, tenant: &str, kind: Kind, now: Instant) -> Result<(), Duration> {
        let full = self.per_minute(kind);
        // The section is short and cannot panic half-way.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.retain(|(_, kind), bucket| bucket.filled(self.per_minute(*kind), now) < self.per_minute(*kind));
        }
        let is_new_address = kind == Kind::SignIn && !buckets.contains_key(&(tenant.to_owned(), kind));
        let tenant = if is_new_address && buckets.len() >= MAX_BUCKETS { "" } else { tenant };
        let bucket = buckets.entry((tenant.to_owned(), kind)).or_insert(Bucket { tokens: full, at: now });
        bucket.tokens = bucket.filled(full, now);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) * 60.0 / full));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    /// Takes nothing after all.
    pub(super) fn give_back(&self, tenant: &str, kind: Kind) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(&(tenant.to_owned(), kind)) {
            bucket.tokens = (bucket.tokens + 1.0).min(self.per_minute(kind));
        }
    }

    fn per_minute(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Api => self.api_per_minute,
            Kind::Page => self.page_per_minute,
            Kind::SignIn => FAILED_SIGN_INS_PER_MINUTE,
        }
    }
}

impl Bucket {
    fn filled(&self, full: f64, now: Instant) -> f64 {
        (self.tokens + now.saturating_duration_since(self.at).as_secs_f64() * full / 60.0).min(full)
    }
}

/// Whole seconds for `Retry-After`: never too early, never 0.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs_f64().ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_may_come_at_once_and_then_one_at_a_time() {
        let rates = Rates::new(120, 600);
        let begun = Instant::now();
        for _ in 0..120 {
            rates.take("acme", Kind::Api, begun).expect("within the burst");
        }
        let wait = rates.take("acme", Kind::Api, begun).expect_err("used up");
        assert_eq!(whole_seconds(wait), 1);
        rates.take("acme", Kind::Api, begun + Duration::from_millis(501)).expect("one has come back");
        assert!(rates.take("acme", Kind::Api, begun + Duration::from_millis(502)).is_err());
    }

    #[test]
    fn tenants_and_the_page_do_not_take_from_each_other() {
        let rates = Rates::new(1, 2);
        let now = Instant::now();
        rates.take("acme", Kind::Api, now).expect("first");
        assert!(rates.take("acme", Kind::Api, now).is_err());
        rates.take("other", Kind::Api, now).expect("another tenant");
        rates.take("acme", Kind::Page, now).expect("the page");
        rates.take("acme", Kind::Page, now).expect("the page has more");
    }

    #[test]
    fn waiting_as_long_as_told_is_enough() {
        let rates = Rates::new(7, 7);
        let now = Instant::now();
        while rates.take("acme", Kind::Api, now).is_ok() {}
        let wait = rates.take("acme", Kind::Api, now).expect_err("used up");
        rates.take("acme", Kind::Api, now + Duration::from_secs(whole_seconds(wait))).expect("after Retry-After");
    }

    #[test]
    fn an_address_that_fails_again_and_again_has_to_wait_and_one_that_succeeds_does_not() {
        let rates = Rates::new(1, 1);
        let now = Instant::now();
        for _ in 0..200 {
            rates.take("192.0.2.1", Kind::SignIn, now).expect("the last one was given back");
            rates.give_back("192.0.2.1", Kind::SignIn);
        }
        while rates.take("192.0.2.1", Kind::SignIn, now).is_ok() {}
        rates.take("192.0.2.2", Kind::SignIn, now).expect("another address");
    }

    #[test]
    fn a_flood_of_addresses_does_not_fill_the_memory() {
        let rates = Rates::new(1, 1);
        let now = Instant::now();
        for n in 0..MAX_BUCKETS + 50 {
            let _ = rates.take(&n.to_string(), Kind::SignIn, now);
        }
        assert_eq!(rates.buckets.lock().expect("not poisoned").len(), MAX_BUCKETS + 1);
        assert!(rates.take("one more", Kind::SignIn, now).is_ok());
    }

    #[test]
    fn full_buckets_are_forgotten_when_there_are_many() {
        let rates = Rates::new(60, 60);
        let now = Instant::now();
        for n in 0..MAX_BUCKETS {
            rates.take(&n.to_string(), Kind::Api, now).expect("first");
        }
        rates.take("late", Kind::Api, now + Duration::from_mins(1)).expect("first");
        assert_eq!(rates.buckets.lock().expect("not poisoned").len(), 1);
    }
}
