//! The table of round trips.

use std::time::Duration;

use crate::round_trip::Times;

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The value below which this share of the times lies.
fn quantile(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    let place = (share * (sorted.len() - 1) as f64).round() as usize;
    sorted.get(place).copied().map_or(f64::NAN, milliseconds)
}

/// Prints ours and what it is measured against; the ratio of the medians, ours by theirs.
pub fn compare(ours: (&str, &[Duration]), theirs: (&str, &[Duration])) -> f64 {
    let ratio = quantile(ours.1, 0.5) / quantile(theirs.1, 0.5);
    for (what, times) in [ours, theirs] {
        println!("{what:<52} median {:>9.1} ms   slowest {:>9.1} ms", quantile(times, 0.5), quantile(times, 1.0));
    }
    ratio
}

/// Prints ours and what it is measured against; by how many milliseconds the medians differ.
pub fn difference(ours: (&str, &[Duration]), theirs: (&str, &[Duration])) -> f64 {
    compare(ours, theirs);
    quantile(ours.1, 0.5) - quantile(theirs.1, 0.5)
}

/// Prints it; the ratio that counts.
pub fn print(times: &Times) -> f64 {
    let engine = quantile(&times.engine, 0.5);
    println!("\n(a) round trip of `bash -c true`, {} of each, alternating", times.glassbox.len());
    println!("{:<52} {:>9} {:>9} {:>9}", "", "median ms", "p95 ms", "ratio");
    for (what, times) in [
        ("Glassbox: POST commands, GET ?wait=", &times.glassbox),
        ("engine's API: create, start, drain of a plain exec", &times.engine),
        ("docker run --rm, hardened settings", &times.docker_run),
    ] {
        let (median, slow) = (quantile(times, 0.5), quantile(times, 0.95));
        println!("{what:<52} {median:>9.1} {slow:>9.1} {:>9.2}", median / engine);
    }
    quantile(&times.glassbox, 0.5) / engine
}
