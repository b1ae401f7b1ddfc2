//! A disk without room.

use super::*;

fn bytes(length: usize) -> Piece {
    Piece { channel: Channel::Merged, length, after: 0.01 }
}

#[test]
fn output_on_a_full_disk_counts_as_missing_is_still_shown_and_is_written_again_once_there_is_room() {
    let mut pair = Pair::new(LogSettings { ring: 40, head: 1000, tail: 1000 });
    pair.append(&bytes(100)).expect("there is room");
    space::set_room(Some(20));
    assert!(matches!(pair.append(&bytes(50)), Err(LogError::Full)));
    assert_eq!(pair.log.state().missing, 30);
    assert!(matches!(pair.append(&bytes(30)), Err(LogError::Full)));
    let state = pair.log.state();
    assert_eq!((state.end, state.missing), (180, 60));
    block_on(async {
        let chunk = pair.log.read(120, 100).await.expect("the ring has the latest 40");
        assert_eq!((chunk.gap, &chunk.bytes[..]), (Some((120, 140)), pair.model.slice(140, 40)));
        let after_crash = Log::open(pair.directory.clone()).await.expect("a log").state();
        assert_eq!((after_crash.end, after_crash.missing, after_crash.last_at), (180, 60, state.last_at));
    });

    space::set_room(None);
    assert!(matches!(pair.append(&bytes(10)), Err(LogError::Full)), "not asked again at once");
    pair.append(&Piece { after: 1.0, ..bytes(10) }).expect("room again");
    pair.append(&bytes(10)).expect("room again");
    block_on(async {
        let finished = pair.writer.finish(true);
        assert_eq!((finished.end, finished.missing, finished.complete), (210, 70, false));
        assert_eq!(walk(&pair.log, &pair.model, 0, 100).await, 70);
        let opened = Log::open(pair.directory.clone()).await.expect("a log");
        assert_eq!(opened.state(), finished);
        assert_eq!(walk(&opened, &pair.model, 0, 100).await, 70);
    });
}

#[test]
fn a_busy_command_asks_a_full_disk_again_after_so_many_bytes() {
    let mut pair = Pair::new(LogSettings::default());
    space::set_room(Some(0));
    pair.append(&bytes(1024 * 1024)).expect_err("full");
    space::set_room(None);
    pair.append(&Piece { after: 0.0, ..bytes(1) }).expect("asked again");
    assert_eq!(pair.log.state().missing, 1024 * 1024);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_is_accounted_for_however_often_the_disk_fills(
        steps in proptest::collection::vec((pieces(6, 60), proptest::option::of(0_usize..80), 0_u8..2), 1..12),
    ) {
        let mut pair = Pair::new(TINY);
        for (pieces, room, pause) in &steps {
            space::set_room(*room);
            pair.at += f64::from(*pause) * 2.0;
            for piece in pieces {
                let missing = pair.log.state().missing;
                if pair.append(piece).is_err() {
                    assert!(pair.log.state().missing > missing);
                }
            }
            block_on(async {
                let state = pair.log.state();
                assert!(walk(&pair.log, &pair.model, 0, 50).await <= state.missing);
                let opened = Log::open(pair.directory.clone()).await.expect("a log");
                assert_eq!((opened.state().end, opened.state().missing), (state.end, state.missing));
                assert_eq!(walk(&opened, &pair.model, 0, 50).await, state.missing);
                assert_eq!(check_records(&opened, &pair.model, 0, 7).await, state.end - state.missing);
            });
            assert!(bytes_on_disk(&pair.directory, "bytes") <= TINY.head + TINY.tail);
        }
        space::set_room(None);
        let state = pair.writer.finish(true);
        assert_eq!(block_on(Log::open(pair.directory.clone())).expect("a log").state(), state);
    }
}
