//! Amounts in words: durations, bytes, counts. Numbers always carry their unit.

/// `14 s`, `3m 12s`, `2h 05m`, `3d 4h`. Negative times (a clock that runs behind) count as 0.
pub fn duration(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// Of a setting: `7 days`, else as [`duration`].
pub fn span(seconds: f64) -> String {
    let whole = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    match whole {
        86400.. if whole.is_multiple_of(86400) => count(whole / 86400, "day", "days"),
        _ => duration(seconds),
    }
}

/// Of what is over: tenths below ten seconds, because there they matter. Nothing takes no time at all.
pub fn short_duration_ms(milliseconds: u64) -> String {
    match milliseconds {
        0 => "under 1 ms".to_owned(),
        1..100 => format!("{milliseconds} ms"),
        100..10_000 => {
            let tenths = (milliseconds + 50) / 100;
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        _ => duration(milliseconds as f64 / 1000.0),
    }
}

/// `just now`, `40 s ago`, `3m ago`, `2h ago`, `5d ago`.
pub fn ago(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86400),
    }
}

/// Decimal: `0 B`, `812 B`, `18 KB`, `2.1 MB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, 1000, ["KB", "MB", "GB", "TB"])
}

/// Binary, as memory is measured: `256 MiB`, `2 GiB`.
pub fn memory(bytes: u64) -> String {
    scaled(bytes, 1024, ["KiB", "MiB", "GiB", "TiB"])
}

fn scaled(bytes: u64, step: u64, units: [&str; 4]) -> String {
    if bytes < step {
        return format!("{bytes} B");
    }
    let mut divisor = step;
    let mut index = 0;
    // Go on while the rounded figure would have four digits.
    while index + 1 < units.len() && (bytes + divisor / 2) / divisor >= step {
        divisor *= step;
        index += 1;
    }
    let tenths = (bytes.saturating_mul(10).saturating_add(divisor / 2)) / divisor;
    if tenths < 100 && !tenths.is_multiple_of(10) {
        return format!("{}.{} {}", tenths / 10, tenths % 10, units[index]);
    }
    format!("{} {}", (bytes + divisor / 2) / divisor, units[index])
}

/// `1 line`, `1,204 lines`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// `1,204,000`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `2 CPUs`, `1 CPU`, `0.5 CPU`.
pub fn cpus(cpus: f64) -> String {
    let unit = if cpus > 1.0 { "CPUs" } else { "CPU" };
    format!("{cpus} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_do_not_jump_in_width() {
        let said: Vec<String> =
            [-3.0, 0.9, 59.9, 60.0, 192.0, 7500.0, 277_200.0, f64::NAN].into_iter().map(duration).collect();
        assert_eq!(said, ["0 s", "0 s", "59 s", "1m 00s", "3m 12s", "2h 05m", "3d 5h", "0 s"]);
    }

    #[test]
    fn whole_days_are_days() {
        assert_eq!([604_800.0, 86_400.0, 90_000.0, 0.0].map(span), ["7 days", "1 day", "1d 1h", "0 s"]);
    }

    #[test]
    fn what_took_moments_says_how_many() {
        let said: Vec<String> = [0, 42, 100, 1949, 2000, 5_120, 65_000].into_iter().map(short_duration_ms).collect();
        assert_eq!(said, ["under 1 ms", "42 ms", "0.1 s", "1.9 s", "2 s", "5.1 s", "1m 05s"]);
    }

    #[test]
    fn amounts_of_bytes_keep_at_most_three_digits() {
        let said: Vec<String> =
            [0, 999, 1000, 18_400, 999_499, 999_600, 2_100_000, 64_000_000].into_iter().map(bytes).collect();
        assert_eq!(said, ["0 B", "999 B", "1 KB", "18 KB", "999 KB", "1 MB", "2.1 MB", "64 MB"]);
        assert_eq!(memory(256 << 20), "256 MiB");
        assert_eq!(memory(2 << 30), "2 GiB");
        assert_eq!(memory(3 << 29), "1.5 GiB");
    }

    #[test]
    fn the_past_is_said_roughly() {
        assert_eq!(
            [2.0, 40.0, 200.0, 8000.0, 90_000.0].map(ago),
            ["just now", "40 s ago", "3m ago", "2h ago", "1d ago"]
        );
    }

    #[test]
    fn counts_have_separators_and_a_plural() {
        assert_eq!(count(1, "line", "lines"), "1 line");
        assert_eq!(count(1204, "line", "lines"), "1,204 lines");
        assert_eq!(thousands(1_000_000), "1,000,000");
        assert_eq!(cpus(0.5), "0.5 CPU");
        assert_eq!(cpus(2.0), "2 CPUs");
    }
}
