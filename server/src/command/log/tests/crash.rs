//! What is left after the server died, or after somebody damaged the files.

use std::fs::OpenOptions;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_was_announced_is_there_after_the_server_died_at_any_moment(pieces in pieces(30, 90)) {
        let mut pair = Pair::new(TINY);
        for piece in &pieces {
            pair.append(piece).expect("there is room");
            // The files are now what a `kill -9` would leave: nothing waits in the process.
            block_on(async {
                let state = pair.log.state();
                let opened = Log::open(pair.directory.clone()).await.expect("a log");
                let found = opened.state();
                assert_eq!((found.end, found.missing), (state.end, state.missing));
                assert!(found.closed && !found.complete);
                let late = state.last_at.zip(found.last_at).map_or(0.0, |(last, found)| last - found);
                assert!((-0.001..0.101).contains(&late) || state.end == 0, "{late}");
                assert_eq!(walk(&opened, &pair.model, 0, 50).await, state.missing);
                assert_eq!(check_records(&opened, &pair.model, 0, 7).await, state.end - state.missing);
            });
        }
    }

    #[test]
    fn truncated_files_become_gaps_and_never_bytes_that_are_not_there(
        pieces in pieces(30, 90),
        finish in any::<bool>(),
        which in any::<proptest::sample::Index>(),
        part in 0.0..1.0_f64,
    ) {
        let mut pair = Pair::new(TINY);
        for piece in &pieces {
            pair.append(piece).expect("there is room");
        }
        if finish {
            let _ = pair.writer.finish(true);
        }
        let files: Vec<_> = std::fs::read_dir(&pair.directory).expect("a log").map(|entry| entry.expect("an entry").path()).collect();
        let victim = which.get(&files);
        let length = (std::fs::metadata(victim).expect("a file").len() as f64 * part) as u64;
        OpenOptions::new().write(true).open(victim).expect("a file").set_len(length).expect("shorter");
        block_on(async {
            let opened = Log::open(pair.directory.clone()).await.expect("a log");
            let state = opened.state();
            assert!(state.end <= pair.model.end() && state.closed);
            assert_eq!(walk(&opened, &pair.model, 0, 50).await, state.missing);
            assert!(!state.complete || state.missing == 0 && state.end == pair.model.end());
            if victim.extension().is_some_and(|extension| extension == "bytes") {
                check_records(&opened, &pair.model, 0, 7).await;
            }
        });
    }

    #[test]
    fn a_torn_last_record_gives_its_bytes_to_nobody_else(pieces in pieces(10, 30), torn in 1_u64..16) {
        let mut pair = Pair::new(LogSettings::default());
        for piece in &pieces {
            pair.append(piece).expect("there is room");
        }
        // The server died while it wrote the record of bytes that were to follow.
        let known = pair.model.end();
        pair.append(&Piece { channel: Channel::Terminal, length: 1, after: 1.0 }).expect("there is room");
        let cut = |ending: &str, length: u64| {
            let path = pair.directory.join(format!("{:020}.{ending}", 0));
            OpenOptions::new().write(true).open(path).expect("a file").set_len(length).expect("shorter");
        };
        cut("bytes", known);
        cut("index", bytes_on_disk(&pair.directory, "index") - torn);
        block_on(async {
            let opened = Log::open(pair.directory.clone()).await.expect("a log");
            assert_eq!(opened.state().end, known);
            assert_eq!(check_records(&opened, &pair.model, 0, 7).await, known);
        });
    }
}

#[test]
fn a_writer_that_is_dropped_closes_its_log_and_calls_it_incomplete() {
    let mut pair = Pair::new(TINY);
    pair.append(&Piece { channel: Channel::Merged, length: 5, after: 0.0 }).expect("room");
    let mut watch = pair.log.watch();
    drop(pair.writer);
    let state = block_on(async { *watch.wait_for(|state| state.closed).await.expect("the handle lives") });
    assert_eq!(state, LogState { end: 5, missing: 0, closed: true, complete: false, last_at: Some(1_700_000_000.0) });
}
