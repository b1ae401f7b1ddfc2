//! What a file's bytes are, and how they are shown: text, a picture, or numbers.

use std::fmt::Write as _;

/// Asked for at first, to see what it is.
pub const HEAD_BYTES: u64 = 64 * 1024;
/// Texts up to this size are shown whole and can be edited; of larger ones the head is shown.
pub const TEXT_BYTES: u64 = 1024 * 1024;
/// Texts up to this size are coloured.
pub const COLOURED_BYTES: usize = 256 * 1024;
/// Pictures up to this size are shown: decoding happens in this tab.
pub const PICTURE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of the numbers.
pub const HEX_BYTES: usize = 4096;

/// The type of a picture that the browser may draw, by its first bytes: a name proves nothing. No SVG: it can hold scripts.
pub fn picture(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The text that these bytes are; `whole`: nothing follows them. `None`: they are no text.
pub fn text(bytes: &[u8], whole: bool) -> Option<&str> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // A character may be cut at the end of a piece.
        Err(error) if !whole && error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Sixteen bytes a line: offset, numbers, characters.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{:08x} ", line * 16);
        for at in 0..16 {
            if at % 8 == 0 {
                out.push(' ');
            }
            let _ = match bytes.get(at) {
                Some(byte) => write!(out, "{byte:02x} "),
                None => write!(out, "   "),
            };
        }
        out.push(' ');
        out.extend(bytes.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '·' }));
        out.push('\n');
    }
    out
}

/// What a part of a text is, as the style sheet calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A comment.
    Comment,
    /// A text in quotes.
    Quoted,
    /// A number.
    Number,
    /// A word of the language.
    Keyword,
}

struct Language {
    line: &'static [&'static str],
    block: Option<(&'static str, &'static str)>,
    quotes: &'static str,
    words: &'static str,
}

const C_WORDS: &str = "as async await auto bool boolean break case catch char class const continue crate default delete do double dyn else \
    enum export extends extern false final finally float fn for func function go if impl implements import in instanceof int \
    interface let long loop match mod module move mut new nil null package private protected pub public range ref return self \
    short signed sizeof static string struct super switch this throw trait true try type typedef typeof undefined union unsafe \
    unsigned use using var virtual void volatile where while with yield";
const SCRIPT_WORDS: &str = "and as assert async await begin break case class continue def del do done elif else elsif end esac except \
    export False false fi finally for from function global if import in is lambda local module None nil nonlocal not null or \
    pass raise require return self then True true try unless until while with yield";
const SQL_WORDS: &str = "and as by create delete drop from group having in index insert into is join left limit not null on or order \
    primary key references select set table union unique update values where AND AS BY CREATE DELETE DROP FROM GROUP HAVING IN \
    INDEX INSERT INTO IS JOIN LEFT LIMIT NOT NULL ON OR ORDER PRIMARY KEY REFERENCES SELECT SET TABLE UNION UNIQUE UPDATE VALUES WHERE";

fn language(name: &str) -> Option<Language> {
    let name = name.to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or(name.as_str(), |(_, ending)| ending);
    let slashes = Language { line: &["//"], block: Some(("/*", "*/")), quotes: "\"'`", words: C_WORDS };
    Some(match ending {
        // A tick is a lifetime as often as a character.
        "rs" => Language { quotes: "\"", ..slashes },
        "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "go" | "java" | "js" | "jsx" | "mjs" | "ts" | "tsx" | "kt"
        | "swift" | "scala" | "php" | "zig" | "proto" | "scss" => slashes,
        "css" => Language { line: &[], words: "", ..slashes },
        "json" => Language { quotes: "\"", words: "true false null", ..slashes },
        "py" | "rb" | "sh" | "bash" | "zsh" | "pl" | "r" | "jl" | "dockerfile" | "makefile" | "mk" | "cmake" => {
            Language { line: &["#"], block: None, quotes: "\"'", words: SCRIPT_WORDS }
        }
        "toml" | "yaml" | "yml" | "ini" | "cfg" | "conf" | "env" | "gitignore" => {
            Language { line: &["#", ";"], block: None, quotes: "\"'", words: "true false null yes no" }
        }
        "sql" | "lua" | "hs" => Language { line: &["--"], block: None, quotes: "\"'", words: SQL_WORDS },
        "html" | "htm" | "xml" | "svg" => Language { line: &[], block: Some(("<!--", "-->")), quotes: "\"", words: "" },
        _ => return None,
    })
}

/// The parts of a text that have a colour: start, end (bytes), what. By the file's name; nothing for unknown ones.
pub fn colours(name: &str, text: &str) -> Vec<(usize, usize, Kind)> {
    let Some(language) = language(name).filter(|_| text.len() <= COLOURED_BYTES) else { return Vec::new() };
    let words: std::collections::HashSet<&str> = language.words.split_whitespace().collect();
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut parts = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let starts = |what: &str| rest.starts_with(what.as_bytes());
        let end = if language.line.iter().any(|start| starts(start)) {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
            parts.push((at, end, Kind::Comment));
            end
        } else if let Some((start, stop)) = language.block.filter(|(start, _)| starts(start)) {
            let inside = at + start.len();
            let end = text[inside..].find(stop).map_or(bytes.len(), |length| inside + length + stop.len());
            parts.push((at, end, Kind::Comment));
            end
        } else if language.quotes.as_bytes().contains(&rest[0]) {
            let end = quoted(bytes, at);
            parts.push((at, end, Kind::Quoted));
            end
        } else if is_word(rest[0]) {
            let end = at + rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
            if rest[0].is_ascii_digit() {
                parts.push((at, end, Kind::Number));
            } else if words.contains(&text[at..end]) {
                parts.push((at, end, Kind::Keyword));
            }
            end
        } else {
            at + 1
        };
        at = end.max(at + 1);
    }
    parts
}

/// The end of a text in quotes; one of `"` and `'` ends with its line, so that a stray one does not colour the whole file.
fn quoted(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' => at += 1,
            b'\n' if quote != b'`' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coloured<'a>(name: &str, text: &'a str) -> Vec<(&'a str, Kind)> {
        colours(name, text).into_iter().map(|(start, end, kind)| (&text[start..end], kind)).collect()
    }

    #[test]
    fn a_text_cut_in_a_character_is_a_text_and_bytes_are_not() {
        let bytes = "größe".as_bytes();
        assert_eq!(text(&bytes[..3], false), Some("gr"));
        assert_eq!(text(&bytes[..3], true), None, "nothing follows: it is broken");
        assert_eq!(text(b"a\0b", true), None);
        assert_eq!(text(b"", true), Some(""));
    }

    #[test]
    fn only_what_cannot_run_is_a_picture() {
        assert_eq!(picture(b"\x89PNG\r\n\x1a\n"), Some("image/png"));
        assert_eq!(picture(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>"), None);
        assert_eq!(picture(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
    }

    #[test]
    fn numbers_stand_in_columns() {
        let text = hex(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "00000000  7f 45 4c 46 02 01 01 00  00 00 00 00 00 00 00 00  ·ELF············");
        assert!(lines[1].starts_with("00000010  03 ") && lines[1].ends_with(" ·"));
        assert_eq!(lines[1].chars().count(), lines[0].chars().count() - 15);
    }

    #[test]
    fn common_languages_have_colours() {
        assert_eq!(
            coloured("a.rs", "let x = 12; // \"no\"\n\"a\\\"b\""),
            [("let", Kind::Keyword), ("12", Kind::Number), ("// \"no\"", Kind::Comment), ("\"a\\\"b\"", Kind::Quoted)]
        );
        assert_eq!(
            coloured("Makefile", "# x\nif 'é'"),
            [("# x", Kind::Comment), ("if", Kind::Keyword), ("'é'", Kind::Quoted)]
        );
        assert_eq!(coloured("notes.txt", "let it be"), []);
    }

    #[test]
    fn nothing_that_is_left_open_breaks_it() {
        for text in ["/*", "\"", "`\\", "'\\", "é/*é", "\"é\n'"] {
            for name in ["a.js", "a.py", "a.html", "a.rs"] {
                for (start, end, _) in colours(name, text) {
                    assert!(text.get(start..end).is_some(), "{name}: {text:?} at {start}..{end}");
                }
            }
        }
    }
}
