//! The one place that draws random names, and makes one that is not.

use glassbox_shared::id::{CommandId, KeyId, RANDOM_CHARACTERS, SessionId};
use rand::Rng as _;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// `count` characters of `a-z2-7`, five random bits each.
pub fn random_characters(count: usize) -> String {
    let mut random = rand::rng();
    (0..count).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

/// A new session's id.
pub fn session() -> SessionId {
    SessionId::from_random(&random_characters(RANDOM_CHARACTERS)).expect("the alphabet is the id's own")
}

/// A new command's id.
pub fn command() -> CommandId {
    CommandId::from_random(&random_characters(RANDOM_CHARACTERS)).expect("the alphabet is the id's own")
}

/// A new key's id.
pub fn key() -> KeyId {
    KeyId::from_random(&random_characters(RANDOM_CHARACTERS)).expect("the alphabet is the id's own")
}

/// The id that a digest gives: always the same.
pub fn key_of(digest: &[u8; 32]) -> KeyId {
    let characters: String = digest.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    KeyId::from_random(&characters[..RANDOM_CHARACTERS]).expect("the alphabet is the id's own")
}

/// The secret of one helper.
pub fn tag() -> u64 {
    rand::rng().random()
}
