//! Identifiers: a prefix that tells the kind, then 20 characters of `a-z2-7` (100 random bits).
//!
//! Parsing is strict, so that an identifier can be used as a file name, a container name and a label without escaping.

use serde::{Deserialize, Serialize};

/// Random characters after the prefix: 100 bits, not guessable and never repeated in practice.
pub const RANDOM_CHARACTERS: usize = 20;

/// An identifier that does not have the form that its kind asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind} id: expected `{prefix}` and {RANDOM_CHARACTERS} characters of a-z and 2-7")]
pub struct InvalidId {
    /// What was expected, for example "session".
    pub kind: &'static str,
    /// The prefix that the kind has.
    pub prefix: &'static str,
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
        pub struct $name(String);

        impl $name {
            /// What each of these begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes one from the random characters; the caller brings the randomness.
            pub fn from_random(characters: &str) -> Result<Self, InvalidId> {
                format!("{}{characters}", $prefix).parse()
            }

            /// The text form.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let random = text.strip_prefix($prefix).unwrap_or("");
                let fits = random.len() == RANDOM_CHARACTERS
                    && random.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b));
                if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId { kind: $kind, prefix: $prefix }) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier!(
    /// A session: one sandbox with its workspace and its whole history.
    SessionId, "session", "sbx_"
);
identifier!(
    /// One run of a shell command in a session.
    CommandId, "command", "cmd_"
);
identifier!(
    /// An API key's public name (never the secret).
    KeyId, "key", "key_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_prefix_and_nothing_that_needs_escaping() {
        assert!("sbx_abcdefghij234567abcd".parse::<SessionId>().is_ok());
        for wrong in [
            "",
            "sbx_",
            "cmd_abcdefghij234567abcd",
            "sbx_abcdefghij234567abc",
            "sbx_abcdefghij234567ab/d",
            "sbx_ABCDEFGHIJ234567abcd",
        ] {
            assert!(wrong.parse::<SessionId>().is_err(), "{wrong}");
        }
    }
}
