//! How long ended sessions are kept: a time for all tenants, and others for named ones.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::access::check_tenant;
use crate::store::Expiry;

/// Unless configured: seven days.
const DEFAULT: Duration = Duration::from_secs(7 * DAY);
const DAY: u64 = 24 * 60 * 60;
/// Longest that can be set: ten years; more is a slip of the finger.
const MOST: Duration = Duration::from_secs(3660 * DAY);

/// Times by tenant. Written `7d`, or `7d,acme=30d,other=12h`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    others: Duration,
    named: BTreeMap<String, Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { others: DEFAULT, named: BTreeMap::new() }
    }
}

impl Retention {
    /// The same for everybody.
    pub fn of(time: Duration) -> Self {
        Self { others: time, named: BTreeMap::new() }
    }

    /// For this tenant.
    pub fn for_tenant(&self, tenant: &str) -> Duration {
        self.named.get(tenant).copied().unwrap_or(self.others)
    }

    /// The shortest of them.
    pub fn shortest(&self) -> Duration {
        self.named.values().copied().fold(self.others, Duration::min)
    }

    /// The ends before which sessions are too old at `now`, Unix seconds.
    pub fn expiry(&self, now: f64) -> Expiry {
        let before = |time: Duration| now - time.as_secs_f64();
        Expiry {
            others: before(self.others),
            named: self.named.iter().map(|(tenant, time)| (tenant.clone(), before(*time))).collect(),
        }
    }
}

impl FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut retention = Self::default();
        let mut seen_others = false;
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None if seen_others => {
                    return Err(format!("{part:?} is a second time for all tenants; write TENANT=TIME"));
                }
                None => (retention.others, seen_others) = (time(part)?, true),
                Some((tenant, _)) if check_tenant(tenant).is_err() => {
                    return Err(format!("{tenant:?} is no tenant name"));
                }
                Some((tenant, value)) => {
                    if retention.named.insert(tenant.to_owned(), time(value)?).is_some() {
                        return Err(format!("the tenant {tenant:?} stands there twice"));
                    }
                }
            }
        }
        Ok(retention)
    }
}

/// A whole number and a unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write a number and s, m, h or d, such as 7d (at most 3660d)");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => DAY,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let time = number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)?;
    if time.is_zero() || time > MOST { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_for_all_and_times_for_some() {
        let retention: Retention = "12h, acme=30d,other=90s".parse().expect("times");
        let seconds = |tenant| retention.for_tenant(tenant).as_secs();
        assert_eq!((seconds("acme"), seconds("other"), seconds("anyone")), (30 * DAY, 90, 12 * 3600));
        assert_eq!(retention.shortest().as_secs(), 90);
        assert_eq!("acme=1d".parse::<Retention>().expect("times").for_tenant("else"), DEFAULT);
        let expiry = retention.expiry(100_000.0);
        assert_eq!((expiry.others, expiry.named["other"]), (56_800.0, 99_910.0));
    }

    #[test]
    fn what_is_no_time_is_told() {
        for wrong in [
            "",
            "7",
            "d",
            "0d",
            "7w",
            "-1d",
            "1.5h",
            "7d,8d",
            "a=1d,a=2d",
            "A B=1d",
            "=1d",
            "99999999999999999999d",
            "3661d",
        ] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong:?}");
        }
    }
}
