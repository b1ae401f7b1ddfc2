//! The latest bytes of a log, in memory.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

/// Holds at most `capacity` bytes, and takes memory only as they come: most commands write little.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    capacity: usize,
    end: u64,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, end: 0 }
    }

    /// Adds bytes; the oldest make room before, so that the memory never exceeds the capacity.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let surplus = (self.bytes.len() + kept.len()).saturating_sub(self.capacity);
        self.bytes.drain(..surplus);
        let needed = self.bytes.len() + kept.len();
        if needed > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2).min(self.capacity);
            self.bytes.reserve_exact(needed.max(doubled) - self.bytes.len());
        }
        self.bytes.extend(kept);
    }

    /// Offset of the oldest byte held.
    pub(super) fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// At most `max` bytes from `from` on; `None` if that byte is not held.
    pub(super) fn read(&self, from: u64, max: usize) -> Option<Bytes> {
        if from < self.start() || from >= self.end {
            return None;
        }
        let skip = (from - self.start()) as usize;
        let length = max.min(self.bytes.len() - skip);
        let (front, back) = self.bytes.as_slices();
        let mut out = BytesMut::with_capacity(length);
        if skip < front.len() {
            out.put_slice(&front[skip..front.len().min(skip + length)]);
        }
        let begin = skip.saturating_sub(front.len());
        out.put_slice(&back[begin..begin + length - out.len()]);
        Some(out.freeze())
    }

    /// The last bytes, at most `max`.
    pub(super) fn last(&self, max: usize) -> Bytes {
        let from = self.end - self.bytes.len().min(max) as u64;
        self.read(from, max).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ring_holds_exactly_the_latest_bytes(
            pushes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..30),
            capacity in 0_usize..48,
            from in 0_u64..400,
            max in 1_usize..60,
        ) {
            let mut ring = Ring::new(capacity);
            let mut all = Vec::new();
            for bytes in &pushes {
                ring.push(bytes);
                all.extend_from_slice(bytes);
                prop_assert!(ring.bytes.capacity() <= capacity);
            }
            let start = all.len().saturating_sub(capacity);
            prop_assert_eq!(ring.start(), start as u64);
            let expected = (start..all.len()).contains(&(from as usize))
                .then(|| all[from as usize..all.len().min(from as usize + max)].to_vec());
            prop_assert_eq!(ring.read(from, max).map(|bytes| bytes.to_vec()), expected);
            prop_assert_eq!(ring.last(max).to_vec(), all[all.len() - capacity.min(max).min(all.len())..].to_vec());
        }
    }
}
