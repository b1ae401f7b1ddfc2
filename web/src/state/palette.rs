//! Finding things by a few typed letters.

/// How well `text` fits what was typed: `None` when it does not, else lower is better.
///
/// Every typed word must occur; a hit at the start of the text or of a word is better than one inside.
pub fn score(text: &str, typed: &str) -> Option<usize> {
    let text = text.to_lowercase();
    let mut total = 0;
    for word in typed.to_lowercase().split_whitespace() {
        let at = text.find(word)?;
        let starts_word = text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        total += match (at, starts_word) {
            (0, _) => 0,
            (_, true) => 1,
            (_, false) => 2 + at,
        };
    }
    Some(total)
}

/// The best `limit` of them, in their own order where equal.
pub fn find<T>(items: Vec<T>, typed: &str, limit: usize, text: impl Fn(&T) -> &str) -> Vec<T> {
    let mut scored: Vec<(usize, T)> =
        items.into_iter().filter_map(|item| score(text(&item), typed).map(|score| (score, item))).collect();
    scored.sort_by_key(|(score, _)| *score);
    scored.into_iter().take(limit).map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_word_beats_its_middle() {
        let found = find(vec!["latest", "make test", "test"], "test", 9, |text| text);
        assert_eq!(found, ["test", "make test", "latest"]);
    }

    #[test]
    fn all_words_must_occur_and_nothing_typed_keeps_the_order() {
        assert_eq!(score("pay fix", "fix pay"), Some(1));
        assert_eq!(score("payments-fix", "pay docs"), None);
        assert_eq!(find(vec!["b", "a"], "", 1, |text| text), ["b"]);
    }
}
