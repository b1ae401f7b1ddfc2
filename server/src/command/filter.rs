//! The stage that output passes before it gets offsets.
//!
//! Offsets count what comes out here, so nothing that must never be kept (secrets, once masking exists) may pass. A
//! filter may hold bytes back while it cannot decide yet, with a state of its own for each channel: two streams that
//! interleave are never joined into one.
//!
//! It knows nothing of logs, commands or time.

use glassbox_shared::helper::Channel;

/// What becomes of output before it is recorded. An enum, not a trait: the set is ours alone and small.
#[derive(Debug, Default)]
pub enum Filter {
    /// All bytes pass as they are, at once.
    #[default]
    Identity,
}

impl Filter {
    /// Takes bytes in and gives those that may pass now, in order; empty: all are held back for the time being.
    #[must_use]
    pub fn pass(&mut self, _channel: Channel, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Filter::Identity => bytes,
        }
    }

    /// Nothing more comes: gives what was still held back, each with its channel. Call it once, before the log is
    /// finished; bytes that nobody flushes are lost.
    #[must_use]
    pub fn flush(&mut self) -> Vec<(Channel, Vec<u8>)> {
        match self {
            Filter::Identity => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_lets_every_byte_pass_at_once_and_holds_nothing_back() {
        let mut filter = Filter::default();
        assert_eq!(filter.pass(Channel::Stdout, vec![0, 0xff, b'\n']), vec![0, 0xff, b'\n']);
        assert_eq!(filter.pass(Channel::Stderr, Vec::new()), Vec::<u8>::new());
        assert!(filter.flush().is_empty());
    }
}
