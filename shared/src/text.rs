//! Turning hostile bytes into something that can be shown.

/// Removes what a terminal would act upon: escape sequences and control characters (tabs become spaces), and the
/// characters that reorder text. What is left can stand in a page, a log line or an error text.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => skip_escape(&mut characters),
            '\u{9b}' => skip_control_sequence(&mut characters),
            '\t' => out.push(' '),
            c if c.is_control() => {}
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            c => out.push(c),
        }
    }
    out
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(characters: &mut Characters<'_>) {
    match characters.next() {
        Some('[') => skip_control_sequence(characters),
        // Strings (OSC, DCS, SOS, PM, APC) end with BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = characters.next() {
                if c == '\u{7}' || c == '\u{9c}' {
                    return;
                }
                if c == '\u{1b}' {
                    characters.next_if_eq(&'\\');
                    return;
                }
            }
        }
        // Intermediate bytes, then one final byte.
        Some(' '..='/') => {
            while characters.next_if(|c| (' '..='/').contains(c)).is_some() {}
            characters.next();
        }
        _ => {}
    }
}

fn skip_control_sequence(characters: &mut Characters<'_>) {
    while characters.next_if(|c| (' '..='?').contains(c)).is_some() {}
    characters.next_if(|c| ('@'..='~').contains(c));
}

/// The last line with something in it, as a terminal would leave it after carriage returns, at most `limit` characters.
pub fn last_line(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{fffd}');
    text.rsplit('\n')
        .map(|line| {
            line.trim_end_matches('\r').rsplit('\r').map(plain).find(|part| !part.trim().is_empty()).unwrap_or_default()
        })
        .find(|line| !line.is_empty())
        .map(|line| line.trim_end().chars().take(limit).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_titles_and_bells_are_gone() {
        assert_eq!(plain("\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{7}\ty\u{202e}z"), "red x yz");
        assert_eq!(plain("\u{1b}]52;c;cm0=\u{1b}\\safe"), "safe");
        assert_eq!(plain("\u{1b}(Bok"), "ok");
    }

    #[test]
    fn the_last_line_is_what_a_terminal_would_show() {
        assert_eq!(last_line(b"one\n10 %\r20 %\r", 80), "20 %");
        assert_eq!(last_line(b"one\ntwo\n\n", 80), "two");
        assert_eq!(last_line(b"", 80), "");
        assert_eq!(last_line("äöü".as_bytes(), 2), "äö");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text in "\\PC*|[\\x00-\\x1f\\x7f-\\x9f a-z\\[\\]]*") {
            prop_assert!(!plain(&text).chars().any(char::is_control));
        }
    }
}
