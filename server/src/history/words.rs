//! Hostile bytes into text that can be searched, with the way back to each byte's offset. Pure functions.

use glassbox_shared::history::FoundIn;

use crate::store::search::{Jump, Piece, Progress};

/// Bytes of one piece at most: all words of a query must occur in one piece, and an answer reads whole pieces.
pub const PIECE: usize = 4096;
/// A line longer than a piece is cut anywhere; the next piece then begins this many bytes earlier, so that a word at the
/// cut is whole in one of the two.
pub const OVERLAP: usize = 128;

/// Cuts bytes of a log that begin at `progress.next` into pieces, and tells how far that goes. Pieces end with a line;
/// what is left over is half a line, which waits for its end, or for `last`: no more will come.
///
/// With `progress.mid_line` the bytes begin `back` bytes earlier, where the piece before ended in the middle of a line.
pub fn cut(found_in: FoundIn, bytes: &[u8], back: usize, progress: Progress, last: bool) -> (Vec<Piece>, Progress) {
    let mut pieces = Vec::new();
    let mut progress = progress;
    let base = progress.next - back as u64;
    let (mut begin, mut from) = (0, back);
    while from < bytes.len() {
        let window = &bytes[begin..bytes.len().min(begin + PIECE)];
        let fresh = from - begin;
        let (length, mid_line) = match window[fresh..].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => (fresh + end + 1, false),
            None if window.len() == PIECE || last => (window.len(), true),
            None => break,
        };
        let (text, jumps) = plain(&window[..length]);
        let piece =
            Piece { found_in, start: base + begin as u64, skip: fresh as u64, line: progress.line, text, jumps };
        // A piece without a word can never be found.
        if piece.text.chars().any(char::is_alphanumeric) {
            pieces.push(piece);
        }
        let lines = window[fresh..length].split(|byte| *byte == b'\n').count() as u64 - 1;
        progress.line = progress.line.map(|line| line + lines);
        progress.mid_line = mid_line;
        from = begin + length;
        progress.next = base + from as u64;
        begin = if mid_line { from.saturating_sub(OVERLAP) } else { from };
    }
    (pieces, progress)
}

/// Where in its piece, in bytes, a place of the text stands.
pub fn byte_of(jumps: &[Jump], place: usize) -> u64 {
    let after = jumps.partition_point(|(text, _)| usize::from(*text) <= place);
    let (text, byte) = after.checked_sub(1).map_or((0, 0), |index| jumps[index]);
    u64::from(byte) + (place - usize::from(text)) as u64
}

/// Where a control sequence has got to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Text,
    /// After ESC.
    Escape,
    /// ESC and intermediate bytes: one final byte follows.
    Intermediate,
    /// CSI: parameters, then one final byte.
    Sequence,
    /// OSC and its kind, until BEL or ST.
    TerminalText,
    /// An ESC within that, which may begin ST.
    Terminator,
}

/// Text without what a terminal would act upon. Line ends stay, and end every control sequence, so that an unfinished one
/// hides no more than its line. Other white space becomes a space, bytes that are not UTF-8 one space together.
pub fn plain(bytes: &[u8]) -> (String, Vec<Jump>) {
    let mut out = Plain { text: String::with_capacity(bytes.len()), jumps: Vec::new(), away: 0 };
    let mut state = In::Text;
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            state = step(state, c, at, &mut out);
            at += c.len_utf8();
        }
        if !chunk.invalid().is_empty() {
            if state == In::Text && !out.text.ends_with(' ') {
                out.push(' ', at);
            }
            at += chunk.invalid().len();
        }
    }
    (out.text, out.jumps)
}

fn step(state: In, c: char, at: usize, out: &mut Plain) -> In {
    if c == '\n' {
        out.push(c, at);
        return In::Text;
    }
    match (state, c) {
        (In::TerminalText, '\u{1b}') => In::Terminator,
        (In::TerminalText, c) if c != '\u{7}' && c != '\u{9c}' => In::TerminalText,
        (_, '\u{1b}') => In::Escape,
        (_, '\u{9b}') | (In::Escape | In::Terminator, '[') | (In::Sequence, ' '..='?') => In::Sequence,
        (In::Escape | In::Terminator, ']' | 'P' | 'X' | '^' | '_') => In::TerminalText,
        (In::Escape | In::Intermediate | In::Terminator, ' '..='/') => In::Intermediate,
        (_, '\t' | '\r') => {
            out.push(' ', at);
            In::Text
        }
        // The last character of a control sequence, control characters, and those that reorder text.
        (In::Sequence, '@'..='~') | (In::Escape | In::Intermediate | In::Terminator, '0'..='~') => In::Text,
        (_, c) => {
            if !c.is_control() && !reorders(c) {
                out.push(c, at);
            }
            In::Text
        }
    }
}

fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

struct Plain {
    text: String,
    jumps: Vec<Jump>,
    /// How much further the bytes are than the text.
    away: usize,
}

impl Plain {
    fn push(&mut self, c: char, at: usize) {
        let away = at - self.text.len();
        if away != self.away {
            self.away = away;
            // Pieces are far shorter than what fits.
            self.jumps.push((self.text.len() as u16, at as u16));
        }
        self.text.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn begin() -> Progress {
        Progress { next: 0, line: Some(1), mid_line: false, partly: false }
    }

    #[test]
    fn colours_titles_and_bells_are_no_part_of_words_and_every_place_leads_back_to_its_byte() {
        let bytes = b"\x1b[31mer\x1b[0mror \x1b]0;title\x07here\xff\xfe\x1b(Bok\rend \x1b]never ends\nnext";
        let (text, jumps) = plain(bytes);
        assert_eq!(text, "error here ok end \nnext");
        for word in ["ror", "here", "ok", "end", "next"] {
            let place = text.find(word).expect("it is there");
            let byte = byte_of(&jumps, place) as usize;
            assert_eq!(&bytes[byte..byte + word.len()], word.as_bytes(), "{word}");
        }
    }

    #[test]
    fn pieces_end_with_lines_and_half_a_line_waits() {
        let (pieces, progress) = cut(FoundIn::Output, b"one\ntwo\nthr", 0, begin(), false);
        assert_eq!(pieces.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>(), ["one\ntwo\n"]);
        assert_eq!((progress.next, progress.line, progress.mid_line), (8, Some(3), false));
        let (pieces, progress) = cut(FoundIn::Output, b"three", 0, progress, true);
        assert_eq!((pieces[0].start, pieces[0].line, pieces[0].text.as_str()), (8, Some(3), "three"));
        assert_eq!(progress.next, 13);
    }

    #[test]
    fn a_word_at_the_cut_of_a_long_line_is_whole_in_one_of_the_pieces() {
        for shift in 0..12 {
            let mut line = vec![b'.'; PIECE - shift];
            line.extend_from_slice("grüße canary".as_bytes());
            line.resize(PIECE * 2, b'.');
            let (pieces, progress) = cut(FoundIn::Output, &line, 0, begin(), true);
            assert!(pieces.iter().any(|piece| piece.text.contains("grüße")), "{shift}");
            assert!(pieces.iter().any(|piece| piece.text.contains("canary")), "{shift}");
            assert_eq!((progress.next, progress.line), (line.len() as u64, Some(1)));
        }
    }

    proptest! {
        #[test]
        fn however_output_arrives_every_line_is_taken_in_once_with_its_number_and_offset(
            lines in prop::collection::vec("[a-z0-9]{1,40}", 1..60), sizes in prop::collection::vec(1_usize..200, 1..40),
        ) {
            let output = lines.join("\n");
            let (mut progress, mut taken, mut end) = (begin(), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                end = output.len().min(end + size);
                let bytes = &output.as_bytes()[progress.next as usize..end];
                let (pieces, next) = cut(FoundIn::Output, bytes, 0, progress, end == output.len());
                (progress, taken) = (next, [taken, pieces].concat());
                if end == output.len() { break; }
            }
            prop_assert_eq!(progress.next as usize, output.len());
            prop_assert_eq!(taken.iter().map(|piece| piece.text.as_str()).collect::<String>(), output.clone());
            for piece in taken {
                let before = &output[..piece.start as usize];
                prop_assert_eq!(piece.line, Some(before.matches('\n').count() as u64 + 1));
            }
        }

        #[test]
        fn no_bytes_break_anything(bytes in prop::collection::vec(any::<u8>(), 0..3000), last: bool) {
            let (pieces, progress) = cut(FoundIn::Output, &bytes, 0, begin(), last);
            prop_assert!(!last || progress.next as usize == bytes.len());
            for piece in pieces {
                prop_assert!(!piece.text.chars().any(|c| c.is_control() && c != '\n'));
                let (mut low, end) = (0, bytes.len() as u64 - piece.start);
                for (place, _) in piece.text.char_indices() {
                    let byte = byte_of(&piece.jumps, place);
                    prop_assert!(byte >= low && byte < end);
                    low = byte + 1;
                }
            }
        }
    }
}
