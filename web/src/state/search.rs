//! A page of what a search found, put together from as many looks as it takes.

use glassbox_shared::history::{SearchHit, SearchResult};

/// The page. It counts only when it is there: one that broke off is asked for again from its beginning.
#[derive(Debug, Default)]
pub struct SearchPage {
    /// What was found.
    pub hits: Vec<SearchHit>,
    /// Commands of which not everything was searched.
    pub partly: u64,
    /// Where to go on.
    pub next: Option<String>,
}

impl SearchPage {
    /// That begins here.
    pub fn from(next: Option<String>) -> Self {
        Self { next, ..Self::default() }
    }

    /// Another look, from where the last one stopped. True: the page is there, or there is nothing more.
    pub fn take(&mut self, look: SearchResult) -> bool {
        self.hits = look.hits;
        self.partly += look.partly_indexed;
        self.next = look.next;
        !self.hits.is_empty() || self.next.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;
    use glassbox_shared::history::FoundIn;

    fn look(hits: usize, partly_indexed: u64, next: Option<&str>) -> SearchResult {
        let hit = SearchHit {
            session_id: samples::session_id(1),
            session_name: String::new(),
            session_ended: false,
            command_id: samples::command_id(1),
            number: 1,
            command: String::new(),
            found_in: FoundIn::Command,
            offset: 0,
            line: None,
            snippet: Vec::new(),
            partly_indexed: false,
        };
        SearchResult { hits: vec![hit; hits], partly_indexed, next: next.map(str::to_owned) }
    }

    #[test]
    fn looks_that_find_nothing_join_the_one_that_does() {
        let mut page = SearchPage::from(None);
        assert!(!page.take(look(0, 2, Some("a"))));
        assert!(page.take(look(3, 1, Some("b"))));
        assert_eq!((page.hits.len(), page.partly, page.next.as_deref()), (3, 3, Some("b")));
        assert!(SearchPage::from(page.next).take(look(0, 0, None)), "nothing more");
    }

    #[test]
    fn a_page_that_broke_off_and_is_tried_again_counts_no_command_twice() {
        let mut shown = 0;
        let all = [look(0, 2, Some("a")), look(0, 1, Some("b")), look(1, 4, None)];
        // The third look of the first attempt fails.
        for came in [&all[..2], &all] {
            let mut page = SearchPage::from(None);
            if came.iter().any(|look| page.take(look.clone())) {
                shown += page.partly;
            }
        }
        assert_eq!(shown, 7);
    }
}
