//! Readers while the writer runs as fast as it can.

use super::*;

/// Follows the log to its end, `max` bytes at a time. Bytes and gaps seen.
async fn follow(log: Log, from: u64, max: usize) -> (u64, u64) {
    let mut watch = log.watch();
    let (mut offset, mut bytes, mut missing) = (from, 0, 0);
    loop {
        let chunk = log.read(offset, max).await.expect("a readable log");
        missing += chunk.offset - offset;
        assert_eq!(chunk.gap, (chunk.offset > offset).then_some((offset, chunk.offset)));
        for (at, byte) in (chunk.offset as usize..).zip(&chunk.bytes) {
            assert_eq!(*byte, byte_at(at), "at {at}");
        }
        bytes += chunk.bytes.len() as u64;
        offset = chunk.next();
        if chunk.bytes.is_empty() {
            let state = *watch.wait_for(|state| state.closed || state.end > offset).await.expect("the handle lives");
            if state.closed && state.end == offset {
                return (bytes, missing);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_any_speed_get_each_byte_or_a_gap_while_segments_vanish_under_them() {
    const TOTAL: usize = 2_000_000;
    let directory = tempfile::tempdir().expect("a directory");
    let settings = LogSettings { ring: 4096, head: 64 * 1024, tail: 64 * 1024 };
    let (mut writer, log) = LogWriter::create(&directory.path().join("log"), settings).expect("a log");
    let readers: Vec<_> = [7, 700, 5000, 100_000]
        .into_iter()
        .flat_map(|max| [(0, max), (0, max + 1)])
        .map(|(from, max)| tokio::spawn(follow(log.clone(), from, max)))
        .collect();
    let records = tokio::spawn({
        let log = log.clone();
        async move {
            let mut watch = log.watch();
            while !watch.borrow_and_update().closed {
                for record in log.records(log.tail(100_000), 4096).await.expect("an index") {
                    assert_eq!(record.channel, Channel::Stdout);
                }
                watch.changed().await.expect("the handle lives");
            }
        }
    });
    let state = tokio::task::spawn_blocking(move || {
        let bytes: Vec<u8> = (0..TOTAL).map(byte_at).collect();
        let mut rest = &bytes[..];
        for turn in 0.. {
            let (piece, after) = rest.split_at(rest.len().min(turn * 37 % 3000 + 1));
            writer.append(Channel::Stdout, piece, turn as f64).expect("room");
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        writer.finish(true)
    })
    .await
    .expect("the writer");
    assert_eq!(state.end, TOTAL as u64);
    for reader in readers {
        let (bytes, missing) = reader.await.expect("a reader");
        assert_eq!(bytes + missing, TOTAL as u64);
        assert!(missing <= state.missing);
    }
    records.await.expect("the reader of records");
}
