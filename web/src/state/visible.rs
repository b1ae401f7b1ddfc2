//! Command texts and names as they may be shown: everything that acts or hides is made visible.

use std::fmt::Write;

/// Control characters become their pictures (`␛`), characters that reorder or hide text become `⟨U+202E⟩`.
/// New lines and tabs stay: the page shows them as such.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('␀')),
            '\u{7f}' => out.push('␡'),
            c if hides(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As one line, for titles, notes and lists.
pub fn visible_line(text: &str) -> String {
    visible(text.trim()).replace('\n', " ↵ ").replace('\t', " ")
}

/// One line of at most `limit` characters, the cut marked.
pub fn shortened(text: &str, limit: usize) -> String {
    let line = visible_line(text);
    if line.chars().count() <= limit {
        return line;
    }
    let mut short: String = line.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Does it need more room than two lines of a column?
pub fn is_long(text: &str) -> bool {
    text.lines().count() > 2 || text.chars().count() > 90
}

fn hides(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_instead() {
        assert_eq!(visible("echo \u{1b}[2Jx\u{7f}\r"), "echo ␛[2Jx␡␍");
        assert_eq!(visible("rm \u{202e}fdp.exe"), "rm ⟨U+202E⟩fdp.exe");
        assert_eq!(visible("a\u{200b}b"), "a⟨U+200B⟩b");
        assert_eq!(visible("ä → \u{1f980}\n\tx"), "ä → \u{1f980}\n\tx");
    }

    #[test]
    fn a_line_stays_a_line_and_says_where_it_was_cut() {
        assert_eq!(visible_line("a\nb\n"), "a ↵ b");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        assert!(is_long("1\n2\n3"));
        assert!(!is_long("make test"));
    }
}
