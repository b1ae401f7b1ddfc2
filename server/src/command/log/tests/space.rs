//! A disk that is full when a test says so. Per thread: the writer is synchronous, and each test has its own.

use std::cell::Cell;
use std::io;

thread_local! {
    static ROOM: Cell<Option<usize>> = const { Cell::new(None) };
}

/// From now on the segments of this thread's logs may take so many more bytes; `None`: any.
pub(in super::super) fn set_room(bytes: Option<usize>) {
    ROOM.set(bytes);
}

/// As many of the bytes as there is room for, as a short write would.
pub(in super::super) fn room_for(bytes: &[u8]) -> io::Result<&[u8]> {
    match ROOM.get() {
        None => Ok(bytes),
        Some(0) => Err(io::ErrorKind::StorageFull.into()),
        Some(room) => {
            let count = room.min(bytes.len());
            ROOM.set(Some(room - count));
            Ok(&bytes[..count])
        }
    }
}

/// Not even an empty file fits on a full disk.
pub(in super::super) fn room_for_a_file() -> io::Result<()> {
    if ROOM.get() == Some(0) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}
