//! The log against a model: a plain vector.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_read_gives_the_bytes_that_were_written_or_an_explicit_gap(
        pieces in pieces(40, 90),
        reads in proptest::collection::vec((0.0..1.0_f64, 1_usize..100), 1..6),
        tail in 0_u64..300,
        head in 0_u64..100,
        ring in 0_usize..64,
    ) {
        let mut pair = Pair::new(LogSettings { ring, head, tail });
        for piece in &pieces {
            pair.append(piece).expect("there is room");
        }
        let end = pair.model.end();
        let state = pair.log.state();
        prop_assert!(!state.closed && !state.complete);
        prop_assert!(bytes_on_disk(&pair.directory, "bytes") <= head + tail);
        let kept = head + if tail < 16 { tail } else { tail / 16 * 15 };
        prop_assert!(state.missing <= end.saturating_sub(kept), "{state:?}");
        block_on(async {
            let log = pair.log.clone();
            for (part, max) in &reads {
                walk(&log, &pair.model, (end as f64 * part) as u64, *max).await;
                check_records(&log, &pair.model, (end as f64 * part) as u64, *max).await;
            }
            let missing_with_ring = walk(&log, &pair.model, 0, 50).await;
            assert!(missing_with_ring <= state.missing);

            let finished = pair.writer.finish(true);
            assert_eq!(finished, LogState { closed: true, complete: state.missing == 0, ..state });
            assert_eq!(walk(&log, &pair.model, 0, 50).await, state.missing, "without its ring it is what the files hold");
            assert_eq!(check_records(&log, &pair.model, 0, 3).await, end - state.missing, "every byte held has a record");

            let opened = Log::open(pair.directory.clone()).await.expect("a finished log");
            assert_eq!(opened.state(), finished);
            assert_eq!(walk(&opened, &pair.model, 0, 50).await, state.missing);
            assert_eq!(check_records(&opened, &pair.model, 0, 3).await, end - state.missing);
        });
    }
}

#[test]
fn the_head_stays_and_one_gap_lies_before_the_latest_bytes() {
    let mut pair = Pair::new(TINY);
    pair.append(&Piece { channel: Channel::Merged, length: 1000, after: 0.0 }).expect("room");
    let state = pair.writer.finish(true);
    assert!(!state.complete);
    block_on(async {
        assert_eq!(pair.log.read(0, 1000).await.expect("the head").bytes.len(), 64);
        let chunk = pair.log.read(64, 1000).await.expect("the tail");
        assert_eq!(chunk.gap, Some((64, 64 + state.missing)));
        assert_eq!(state.missing, 1000 - 64 - 248, "the tail is more than 15/16 full");
    });
}

#[test]
fn a_read_beyond_the_end_is_refused_and_one_at_the_end_is_empty() {
    let mut pair = Pair::new(TINY);
    pair.append(&Piece { channel: Channel::Merged, length: 5, after: 0.0 }).expect("room");
    block_on(async {
        let chunk = pair.log.read(5, 10).await.expect("nothing yet");
        assert_eq!(chunk, Chunk { gap: None, offset: 5, bytes: Bytes::new() });
        assert!(matches!(pair.log.read(6, 10).await, Err(LogError::BeyondEnd { from: 6, end: 5 })));
    });
}

#[test]
fn records_join_what_one_channel_wrote_within_a_tenth_of_a_second() {
    let mut pair = Pair::new(LogSettings::default());
    for (channel, after) in
        [(Channel::Stdout, 0.0), (Channel::Stdout, 0.05), (Channel::Stdout, 0.06), (Channel::Stderr, 0.0)]
    {
        pair.append(&Piece { channel, length: 10, after }).expect("room");
    }
    let records = block_on(pair.log.records(5, 10)).expect("an index");
    let seen: Vec<_> = records.iter().map(|record| (record.offset, record.length, record.channel)).collect();
    assert_eq!(seen, [(5, 15, Channel::Stdout), (20, 10, Channel::Stdout), (30, 10, Channel::Stderr)]);
    assert!((records[1].at - 1_700_000_000.11).abs() < 0.001);
}

#[test]
fn channels_that_take_turns_byte_by_byte_shorten_the_log_but_never_blow_up_its_index() {
    let settings = LogSettings { ring: 0, head: 64 * 1024, tail: 64 * 1024 };
    let mut pair = Pair::new(settings);
    for turn in 0..20_000 {
        let channel = if turn % 2 == 0 { Channel::Stdout } else { Channel::Stderr };
        pair.append(&Piece { channel, length: 1, after: 0.0 }).expect("room");
    }
    assert!(bytes_on_disk(&pair.directory, "index") <= (settings.head + settings.tail) / 8);
    block_on(async {
        let missing = walk(&pair.log, &pair.model, 0, 5000).await;
        assert_eq!(missing, pair.log.state().missing);
        assert_eq!(check_records(&pair.log, &pair.model, 0, 4096).await, 20_000 - missing);
    });
}

#[test]
fn a_finished_log_gives_its_memory_back_and_keeps_its_last_line() {
    let (directory, at) = (tempfile::tempdir().expect("a directory"), 1.0);
    let (mut writer, log) = LogWriter::create(&directory.path().join("log"), LogSettings::default()).expect("a log");
    writer.append(Channel::Merged, "one\n\u{1b}[1mtwo\u{1b}[0m\r\n".as_bytes(), at).expect("room");
    assert_eq!(log.last_line(80), "two");
    assert!(writer.finish(true).complete);
    assert_eq!(log.last_line(2), "tw");
    assert_eq!(block_on(log.read(0, 3)).expect("from the file").bytes, "one");
}

#[test]
fn a_log_has_one_writer_and_a_removed_one_is_all_gap() {
    let mut pair = Pair::new(LogSettings { ring: 0, ..TINY });
    pair.append(&Piece { channel: Channel::Merged, length: 100, after: 0.0 }).expect("room");
    assert!(matches!(LogWriter::create(&pair.directory, TINY), Err(LogError::Io(_))));
    block_on(async {
        remove(pair.directory.clone()).await.expect("removed");
        remove(pair.directory.clone()).await.expect("nothing there is fine");
        assert_eq!(walk(&pair.log, &pair.model, 0, 10).await, 100);
        assert!(matches!(Log::open(pair.directory.clone()).await, Err(LogError::NotFound)));
    });
}
