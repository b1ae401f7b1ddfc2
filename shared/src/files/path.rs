//! Names and paths, which are bytes, as text: lossless for programs, harmless for people.

use std::fmt::Write as _;

/// Longest path in bytes, as Linux has it (`PATH_MAX`).
pub const MAX_PATH: usize = 4096;
/// Longest name in bytes (`NAME_MAX`).
pub const MAX_NAME: usize = 255;

/// A text that is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// `%` without two hexadecimal digits.
    #[error(
        "% must be followed by two hexadecimal digits; percent-encode what is not a letter, a digit or one of -._~/"
    )]
    Escape,
    /// A byte 0, which no name can hold.
    #[error("a name cannot hold a byte 0")]
    Nul,
    /// `..`, which would lead out of where it stands.
    #[error("a path here cannot go up by \"..\"")]
    Up,
    /// Longer than [`MAX_PATH`].
    #[error("a path has at most {MAX_PATH} bytes")]
    Long,
    /// A part longer than [`MAX_NAME`].
    #[error("a name has at most {MAX_NAME} bytes")]
    LongName,
}

/// Unreserved characters (RFC 3986) and `/` as they are, every other byte as `%XX`.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Back to bytes. Everything but `%XX` stands for itself, `+` too. Nothing else is checked.
pub fn decode(text: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(PathError::Escape) };
        bytes.push((high * 16 + low) as u8);
        rest = &after[2..];
    }
    Ok(bytes)
}

/// The parts of a path that somebody asked for: decoded and checked; `.` and empty ones are left out.
pub fn parts(text: &str) -> Result<Vec<Vec<u8>>, PathError> {
    let bytes = decode(text)?;
    if bytes.len() > MAX_PATH {
        return Err(PathError::Long);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul);
    }
    let mut parts = Vec::new();
    for part in bytes.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(PathError::Up),
            part if part.len() > MAX_NAME => return Err(PathError::LongName),
            part => parts.push(part.to_vec()),
        }
    }
    Ok(parts)
}

/// The last part of a path's bytes.
pub fn last(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    &bytes[start..end]
}

/// A name (or path) for people: valid UTF-8 as it is; control characters, characters that reorder or hide text, and bytes
/// that are no text, as visible escapes.
pub fn display(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_shown(c) {
                text.push(c);
            } else {
                text.extend(c.escape_default());
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Does it show as itself, where it stands?
fn is_shown(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e0000}'..='\u{e007f}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_would_act_are_shown_as_escapes() {
        assert_eq!(display(b"a b\nc"), "a b\\nc");
        assert_eq!(display("x\u{202e}gpj.exe".as_bytes()), "x\\u{202e}gpj.exe");
        assert_eq!(display(b"\x1b]0;t\x07"), "\\u{1b}]0;t\\u{7}");
        assert_eq!(display(b"caf\xe9"), "caf\\xe9");
        assert_eq!(display("<img onerror> \u{1F600} ä".as_bytes()), "<img onerror> \u{1F600} ä");
    }

    #[test]
    fn what_leads_up_or_cannot_be_is_refused() {
        assert_eq!(parts("a/../b"), Err(PathError::Up));
        assert_eq!(parts("a/%2e%2E/b"), Err(PathError::Up));
        assert_eq!(parts("a%2F..%2fb"), Err(PathError::Up));
        assert_eq!(parts("a%00"), Err(PathError::Nul));
        assert_eq!(parts("a%4"), Err(PathError::Escape));
        assert_eq!(parts("a%+4"), Err(PathError::Escape));
        assert_eq!(parts(&"a".repeat(256)), Err(PathError::LongName));
        assert_eq!(parts(&"a/".repeat(2049)), Err(PathError::Long));
        assert_eq!(parts("//a/./b+c/"), Ok(vec![b"a".to_vec(), b"b+c".to_vec()]));
        assert_eq!(parts(""), Ok(vec![]));
    }

    #[test]
    fn the_last_part_is_the_name() {
        assert_eq!(last(b"/a/b"), b"b");
        assert_eq!(last(b"b"), b"b");
        assert_eq!(last(b"a/b//"), b"b");
        assert_eq!(last(b"/"), b"");
        assert_eq!(last(b""), b"");
    }

    proptest! {
        #[test]
        fn every_path_survives_its_text(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = encode(&bytes);
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b)));
            prop_assert_eq!(decode(&text), Ok(bytes));
        }

        #[test]
        fn no_text_breaks_anything(text in "\\PC*|[%0-9a-f./]*") {
            let _ = parts(&text);
        }

        #[test]
        fn nothing_that_acts_is_shown(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(display(&bytes).chars().all(is_shown));
        }
    }
}
