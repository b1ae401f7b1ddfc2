//! How fast it is. Run with `--release -- --ignored --nocapture throughput`.

use std::time::Instant;

use super::*;

#[test]
#[ignore = "measures; nothing to assert"]
fn throughput_of_one_writer() {
    const TOTAL: usize = 512 * 1024 * 1024;
    for piece in [64 * 1024, 4096, 256] {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut writer, log) =
            LogWriter::create(&directory.path().join("log"), LogSettings::default()).expect("a log");
        let bytes = vec![b'x'; piece];
        let total = TOTAL / if piece < 1024 { 8 } else { 1 };
        let begin = Instant::now();
        let mut longest = 0.0_f64;
        for _ in 0..total / piece {
            let one = Instant::now();
            writer.append(Channel::Merged, &bytes, begin.elapsed().as_secs_f64()).expect("room");
            longest = longest.max(one.elapsed().as_secs_f64());
        }
        let seconds = begin.elapsed().as_secs_f64();
        let missing = writer.finish(true).missing;
        println!(
            "{piece} B: {:.0} MB/s, {:.1} us each, slowest {:.1} ms, {missing} missing",
            total as f64 / seconds / 1e6,
            seconds / (total / piece) as f64 * 1e6,
            longest * 1e3,
        );
        for (name, from) in [("file", 0), ("ring", log.tail(1024 * 1024))] {
            let begin = Instant::now();
            for _ in 0..200 {
                block_on(log.read(from, 64 * 1024)).expect("a log");
            }
            println!(
                "  64 KiB read from the {name}: {:.0} us (with a runtime of its own)",
                begin.elapsed().as_secs_f64() / 200.0 * 1e6
            );
        }
    }
}
