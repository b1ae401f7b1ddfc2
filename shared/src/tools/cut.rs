//! Output of any length into text of bounded length: the head and the tail are kept, what lies between is counted.

/// Most Unicode scalar values of output in one answer.
pub const MAX_CHARACTERS: usize = 30_000;

/// Longest sequence that UTF-8 can leave unfinished at the end of a piece.
const MOST_CARRIED: usize = 3;

/// Takes bytes in pieces as they come and keeps at most twice its limit of them, however many come.
///
/// Bytes become text with state across pieces: a character that is split between two is one character, and what is no UTF-8
/// becomes U+FFFD. An unfinished character at the very end is left out (see [`Cut::next`]) until it is known that
/// nothing follows.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Characters kept at either end.
    half: usize,
    head: String,
    /// Characters in `head`.
    head_characters: usize,
    /// Nothing goes to the head any more.
    head_full: bool,
    tail: String,
    /// Characters in `tail`.
    tail_characters: usize,
    /// All characters so far.
    characters: u64,
    /// Bytes that were never given, because the log no longer holds them.
    missing: u64,
    carried: Vec<u8>,
    /// Offset behind the last byte that was given, or is missing.
    end: u64,
}

impl Cut {
    /// Begins at an offset of a log.
    pub fn new(from: u64) -> Self {
        Self::with_limit(from, MAX_CHARACTERS)
    }

    /// The same, with another limit than [`MAX_CHARACTERS`].
    pub fn with_limit(from: u64, limit: usize) -> Self {
        Self {
            half: limit / 2,
            head: String::new(),
            head_characters: 0,
            head_full: false,
            tail: String::new(),
            tail_characters: 0,
            characters: 0,
            missing: 0,
            carried: Vec::new(),
            end: from,
        }
    }

    /// Takes the bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let joined;
        let mut rest = bytes;
        if !self.carried.is_empty() {
            joined = [std::mem::take(&mut self.carried).as_slice(), bytes].concat();
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.take(text),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.take(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(wrong) = error.error_len() else {
                        debug_assert!(after.len() <= MOST_CARRIED, "UTF-8 has at most four bytes a character");
                        self.carried = after.to_vec();
                        return;
                    };
                    self.take("\u{FFFD}");
                    rest = &after[wrong..];
                }
            }
        }
    }

    /// So many bytes follow that nobody has any more.
    pub fn skip(&mut self, missing: u64) {
        if missing == 0 {
            return;
        }
        self.finish();
        self.end += missing;
        self.missing += missing;
        // Whatever comes after a hole belongs to the tail, so that the mark stands where the hole is.
        self.head_full = true;
    }

    /// Nothing follows: an unfinished character at the end is none.
    pub fn finish(&mut self) {
        if !std::mem::take(&mut self.carried).is_empty() {
            self.take("\u{FFFD}");
        }
    }

    /// Offset behind the last byte that was given: where reading goes on.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Offset of the first byte that is not in the text: before an unfinished character.
    pub fn next(&self) -> u64 {
        self.end - self.carried.len() as u64
    }

    /// Characters so far, kept or not.
    pub fn characters(&self) -> u64 {
        self.characters
    }

    /// Bytes that nobody has any more.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Characters that the text leaves out.
    pub fn dropped(&self) -> u64 {
        self.characters - (self.head_characters + self.kept_of_tail()) as u64
    }

    /// Is anything left out?
    pub fn is_cut(&self) -> bool {
        self.dropped() > 0 || self.missing > 0
    }

    /// Has nothing come?
    pub fn is_empty(&self) -> bool {
        self.characters == 0 && self.missing == 0
    }

    /// Head, mark and tail; or all of it, if that is short enough.
    pub fn text(&self) -> String {
        let tail = last(&self.tail, self.kept_of_tail());
        match (self.dropped(), self.missing) {
            (0, 0) => format!("{}{tail}", self.head),
            (dropped, 0) => format!("{}\n... [{dropped} characters truncated] ...\n{tail}", self.head),
            (dropped, missing) => {
                let head = &self.head;
                format!(
                    "{head}\n... [{dropped} characters truncated, and {missing} bytes that are no longer held] ...\n{tail}"
                )
            }
        }
    }

    fn kept_of_tail(&self) -> usize {
        self.tail_characters.min(self.half)
    }

    fn take(&mut self, mut text: &str) {
        let mut count = text.chars().count();
        self.characters += count as u64;
        if !self.head_full {
            let room = self.half - self.head_characters;
            let split = if count <= room { text.len() } else { start_of(text, room) };
            let (head, rest) = text.split_at(split);
            let taken = count.min(room);
            self.head.push_str(head);
            self.head_characters += taken;
            self.head_full = self.head_characters == self.half;
            text = rest;
            count -= taken;
        }
        if count >= self.half {
            self.tail.clear();
            self.tail_characters = 0;
            text = last(text, self.half);
            count = self.half;
        }
        self.tail.push_str(text);
        self.tail_characters += count;
        if self.tail_characters > 2 * self.half {
            self.tail = last(&self.tail, self.half).to_owned();
            self.tail_characters = self.half;
        }
    }
}

/// Where the character of this number begins.
fn start_of(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// The last so many characters.
fn last(text: &str, count: usize) -> &str {
    match count.checked_sub(1) {
        None => "",
        Some(before) => text.char_indices().rev().nth(before).map_or(text, |(at, _)| &text[at..]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the contract says, done the simple way on all of it at once.
    fn plainly(text: &str, limit: usize) -> String {
        let all: Vec<char> = text.chars().collect();
        if all.len() <= limit {
            return text.to_owned();
        }
        let head: String = all[..limit / 2].iter().collect();
        let tail: String = all[all.len() - limit / 2..].iter().collect();
        format!("{head}\n... [{} characters truncated] ...\n{tail}", all.len() - limit / 2 * 2)
    }

    fn cut(pieces: &[&[u8]], limit: usize) -> Cut {
        let mut cut = Cut::with_limit(0, limit);
        for piece in pieces {
            cut.push(piece);
        }
        cut
    }

    #[test]
    fn thirty_thousand_characters_are_whole_and_one_more_is_cut_in_the_middle() {
        let whole = "é".repeat(MAX_CHARACTERS);
        let mut fits = Cut::new(0);
        fits.push(whole.as_bytes());
        assert_eq!(fits.text(), whole);
        assert!(!fits.is_cut());
        let mut over = fits.clone();
        over.push("😀".as_bytes());
        assert_eq!(
            over.text(),
            format!("{}\n... [1 characters truncated] ...\n{}😀", "é".repeat(15_000), "é".repeat(14_999))
        );
        assert_eq!((over.dropped(), over.characters()), (1, 30_001));
    }

    #[test]
    fn a_character_that_is_split_waits_for_its_rest_and_is_none_without_it() {
        let mut cut = Cut::new(10);
        cut.push(b"a\xF0\x9F");
        assert_eq!((cut.text(), cut.end(), cut.next()), ("a".to_owned(), 13, 11));
        let mut whole = cut.clone();
        whole.push(b"\x98\x80b");
        assert_eq!((whole.text(), whole.next()), ("a😀b".to_owned(), 16));
        cut.finish();
        assert_eq!((cut.text(), cut.next()), ("a\u{FFFD}".to_owned(), 13));
    }

    #[test]
    fn a_hole_is_marked_where_it_is_whatever_the_length() {
        let mut cut = Cut::with_limit(0, 10);
        cut.push(b"abc");
        cut.skip(1000);
        cut.push(b"xyz");
        let mark = "... [0 characters truncated, and 1000 bytes that are no longer held] ...";
        assert_eq!(cut.text(), format!("abc\n{mark}\nxyz"));
        assert_eq!((cut.end(), cut.missing(), cut.is_cut()), (1006, 1000, true));
        cut.push(b"0123456789");
        assert_eq!(cut.text(), format!("abc\n{}\n56789", mark.replace("[0", "[8")));
    }

    #[test]
    fn what_is_kept_is_bounded_whatever_comes() {
        let mut cut = Cut::new(0);
        let piece = "😀".repeat(16 * 1024);
        for _ in 0..64 {
            cut.push(piece.as_bytes());
        }
        assert!(cut.head.capacity() + cut.tail.capacity() < 1024 * 1024);
        assert_eq!(cut.characters(), 64 * 16 * 1024);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            text in prop_oneof!["[a-c]{0,60}", "\\PC{0,40}"],
            cuts in prop::collection::vec(0usize..200, 0..6),
            limit in (1usize..15).prop_map(|half| 2 * half),
        ) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            at.sort_unstable();
            at.push(bytes.len());
            let mut from = 0;
            let pieces: Vec<&[u8]> = at.into_iter().map(|to| { let piece = &bytes[from..to]; from = to; piece }).collect();
            let cut = cut(&pieces, limit);
            prop_assert_eq!(cut.text(), plainly(&text, limit));
            prop_assert_eq!(cut.next(), bytes.len() as u64);
        }

        #[test]
        fn bytes_that_are_no_text_become_what_the_standard_library_makes_of_them(
            bytes in prop::collection::vec(prop_oneof![Just(b'a'), Just(0xF0), Just(0x9F), Just(0x98), Just(0x80), Just(0xC3), any::<u8>()], 0..40),
            at in 0usize..40,
        ) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            let mut cut = cut(&[first, second], 1000);
            cut.finish();
            prop_assert_eq!(cut.text(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
