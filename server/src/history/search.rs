//! Searching in the commands and the output of all sessions of a tenant, newest session first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::history::{SearchHit, SearchResult, SnippetPart};
use glassbox_shared::id::SessionId;
use tokio::sync::OwnedSemaphorePermit;

use super::words::byte_of;
use super::{History, MAX_QUERY, blocking};
use crate::error::DomainError;
use crate::store::StoreError;
use crate::store::search::{FOUND_BEGINS, FOUND_ENDS, Found, Lookup, Query, SearchFile};

/// Most hits in one page.
pub const MAX_HITS: usize = 100;
/// A search answers after this time with what it has; whoever wants more goes on from there.
const TIME: Duration = Duration::from_secs(2);
/// The first look of a search is interrupted only after this time, so that every page is a step forward.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// How long a search may wait for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Sessions looked up at a time.
const SESSIONS: usize = 50;
/// Pieces looked up at a time.
const PIECES: usize = 32;
/// Characters of a line around what was found.
const SNIPPET: usize = 160;
/// Of these, at most so many before it.
const BEFORE: usize = 40;

/// Where a page begins: in this session, at this piece, after so many of its lines.
#[derive(Debug, Clone, PartialEq)]
struct Cursor {
    session: Option<(f64, SessionId)>,
    piece: i64,
    lines: usize,
}

impl Cursor {
    const BEGIN: Cursor = Cursor { session: None, piece: i64::MAX, lines: 0 };

    /// `TIME~SESSION~PIECE~LINES`
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('~');
        let session = (super::time(parts.next()?)?, parts.next()?.parse().ok()?);
        let (piece, lines) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { session: Some(session), piece, lines })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((at, id)) = &self.session else { return Ok(()) };
        write!(f, "{at}~{id}~{}~{}", self.piece, self.lines)
    }
}

/// When to stop in a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Then no other look begins, …
    pub until: Instant,
    /// … and then the one at work is interrupted.
    pub interrupted: Instant,
}

/// What came of one session.
pub(super) struct InSession {
    hits: Vec<SearchHit>,
    /// Where to go on in it, if its end was not reached.
    rest: Option<(i64, usize)>,
    partly_indexed: u64,
}

impl History {
    /// Lines with everything that is asked for, from a place on: at most `limit`.
    pub async fn search(
        &self,
        tenant: &str,
        text: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<SearchResult, DomainError> {
        if text.len() > MAX_QUERY {
            return Err(DomainError::invalid(format!("q has at most {MAX_QUERY} bytes")));
        }
        let query =
            Query::parse(text).ok_or_else(|| DomainError::invalid("q needs a word with a letter or a digit"))?;
        let mut cursor = match before {
            None => Cursor::BEGIN,
            Some(text) => Cursor::parse(text).ok_or_else(|| super::no_cursor("before"))?,
        };
        let busy = || {
            DomainError::new(ErrorCode::Conflict, "too many searches are at work; try again in a moment").retry_after(2)
        };
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.shared.searches).acquire_owned()).await;
        let turn = Arc::new(turn.ok().and_then(Result::ok).ok_or_else(busy)?);
        let begun = Instant::now();
        let until = begun + TIME;
        let mut limits = Limits { until, interrupted: begun + FIRST_LOOK };
        let mut result = SearchResult { hits: Vec::new(), next: None, partly_indexed: 0 };
        loop {
            let from = cursor.session.clone();
            // One more than is looked at: where to go on.
            let mut sessions = self.shared.store.sessions_to_search(tenant, from, SESSIONS + 1).await?;
            let following = if sessions.len() > SESSIONS { sessions.pop() } else { None };
            for (at, id, name, ended) in sessions {
                let place = (at, id.clone());
                if cursor.session.as_ref() != Some(&place) {
                    cursor = Cursor { session: Some(place), ..Cursor::BEGIN };
                }
                let wanted = limit - result.hits.len();
                // At least one session is searched, so that every page is a step forward.
                let is_first = limits.interrupted > until;
                if wanted == 0 || (!is_first && Instant::now() >= until) {
                    result.next = Some(cursor.to_string());
                    return Ok(result);
                }
                let from = (cursor.piece, cursor.lines);
                let found = self.in_session(&query, &id, from, wanted, limits, Arc::clone(&turn)).await?;
                if is_first && found.rest == Some(from) {
                    let detail = "this search takes too long within one session; ask for longer words, or for fewer";
                    return Err(DomainError::new(ErrorCode::Conflict, detail));
                }
                limits.interrupted = until;
                // Once a session, however many pages it fills.
                if from == (Cursor::BEGIN.piece, Cursor::BEGIN.lines) {
                    result.partly_indexed += found.partly_indexed;
                }
                result.hits.extend(found.hits.into_iter().map(|hit| SearchHit {
                    session_name: name.clone(),
                    session_ended: ended,
                    ..hit
                }));
                if let Some((piece, lines)) = found.rest {
                    result.next = Some(Cursor { piece, lines, ..cursor }.to_string());
                    return Ok(result);
                }
            }
            let Some((at, id, ..)) = following else { return Ok(result) };
            cursor = Cursor { session: Some((at, id)), ..Cursor::BEGIN };
        }
    }

    /// `turn` is given back when the work ends, also when nobody waits for it any more.
    pub(super) async fn in_session(
        &self,
        query: &Query,
        session: &SessionId,
        from: (i64, usize),
        wanted: usize,
        limits: Limits,
        turn: Arc<OwnedSemaphorePermit>,
    ) -> Result<InSession, StoreError> {
        let (file, query, session) = (self.shared.search_file(session), query.clone(), session.clone());
        let work = move || {
            let _turn = turn;
            in_file(&file, &query, &session, from, wanted, limits)
        };
        match blocking(work).await {
            // The indexer finds out for itself, and makes the file anew.
            Err(StoreError::Corrupt(problem)) => {
                tracing::warn!(problem, "a session could not be searched");
                Ok(InSession { hits: Vec::new(), rest: None, partly_indexed: 0 })
            }
            found => found,
        }
    }
}

fn in_file(
    file: &std::path::Path,
    query: &Query,
    session: &SessionId,
    (mut from, mut skip): (i64, usize),
    wanted: usize,
    limits: Limits,
) -> Result<InSession, StoreError> {
    let mut result = InSession { hits: Vec::new(), rest: None, partly_indexed: 0 };
    let Some(search) = SearchFile::open(file)? else { return Ok(result) };
    result.partly_indexed = search.partly_indexed()?;
    loop {
        let Lookup { found, interrupted } = search.find(query, from, PIECES, limits.interrupted)?;
        let full = found.len() == PIECES;
        for found in found {
            let place = found.place;
            let hits = hits(found, session, query.terms());
            let skipped = if place == from { skip } else { 0 };
            for (index, hit) in hits.into_iter().enumerate().skip(skipped) {
                if result.hits.len() == wanted {
                    result.rest = Some((place, index));
                    return Ok(result);
                }
                result.hits.push(hit);
            }
            (from, skip) = (place - 1, 0);
        }
        if interrupted || (full && Instant::now() >= limits.until) {
            result.rest = Some((from, skip));
            return Ok(result);
        }
        if !full {
            return Ok(result);
        }
    }
}

/// The lines of a piece in which something was found; of several words, those lines with the most of them.
fn hits(found: Found, session: &SessionId, terms: usize) -> Vec<SearchHit> {
    let piece = &found.piece;
    let different = |marked: &str| {
        let found = parts_of(marked).0.into_iter().filter(|(_, is_found)| *is_found);
        found.map(|(text, _)| text.to_lowercase()).collect::<BTreeSet<_>>().len().min(terms)
    };
    let most = piece.text.split('\n').map(different).max().unwrap_or_default();
    let (mut hits, mut place) = (Vec::new(), 0);
    for (number, marked) in piece.text.split('\n').enumerate() {
        let (parts, length) = parts_of(marked);
        let begin = place;
        place += length + 1;
        if different(marked) < most {
            continue;
        }
        // Where the parts stand that were found.
        let mut within = begin;
        let mut first = None;
        for (text, is_found) in &parts {
            // What the piece before has as well was found there.
            if *is_found && byte_of(&piece.jumps, within + text.len() - 1) >= piece.skip {
                first = first.or(Some(byte_of(&piece.jumps, within)));
            }
            within += text.len();
        }
        let Some(byte) = first else { continue };
        hits.push(SearchHit {
            session_id: session.clone(),
            session_name: String::new(),
            session_ended: false,
            command_id: found.command_id.clone(),
            number: found.number,
            command: found.command.clone(),
            found_in: piece.found_in,
            offset: piece.start + byte,
            line: piece.line.map(|line| line + number as u64),
            snippet: snippet(&parts),
            partly_indexed: found.partly,
        });
    }
    hits
}

/// A line's parts, found or not, and the length of its text without marks.
fn parts_of(marked: &str) -> (Vec<(&str, bool)>, usize) {
    let (mut parts, mut is_found, mut length) = (Vec::new(), false, 0);
    for part in marked.split([FOUND_BEGINS, FOUND_ENDS]) {
        if !part.is_empty() {
            parts.push((part, is_found));
        }
        length += part.len();
        is_found = !is_found;
    }
    (parts, length)
}

/// The line, or the part of it around what was found first.
fn snippet(parts: &[(&str, bool)]) -> Vec<SnippetPart> {
    let before: usize = parts.iter().take_while(|(_, is_found)| !is_found).map(|(text, _)| text.chars().count()).sum();
    let mut skip = before.saturating_sub(BEFORE);
    let mut left = SNIPPET;
    let mut shown = Vec::new();
    for (text, found) in parts {
        let shorter: String = text.chars().skip(skip).take(left).collect();
        skip = skip.saturating_sub(text.chars().count());
        left -= shorter.chars().count();
        if !shorter.is_empty() {
            shown.push(SnippetPart { text: shorter, found: *found });
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::search::{Piece, Progress};
    use glassbox_shared::history::FoundIn;

    fn found(text: &str, skip: u64) -> Vec<SearchHit> {
        let piece = Piece {
            found_in: FoundIn::Output,
            start: 1000,
            skip,
            line: Some(10),
            text: text.to_owned(),
            jumps: vec![(4, 9)],
        };
        let command_id = "cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        let found = Found { place: 1, command_id, number: 1, command: "run".to_owned(), partly: false, piece };
        hits(found, &"sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id"), 2)
    }

    #[test]
    fn a_hit_is_a_line_with_its_number_and_the_offset_of_its_first_found_word() {
        let hits = found("one\ntwo \u{1}three\u{2} and \u{1}three\u{2}\nnothing\n\u{1}three\u{2}", 0);
        // "three" stands at 8 of the text; five bytes were left out of it before "two".
        assert_eq!(
            hits.iter().map(|hit| (hit.line, hit.offset)).collect::<Vec<_>>(),
            [(Some(11), 1013), (Some(13), 1037)]
        );
        let parts: Vec<_> = hits[0].snippet.iter().map(|part| (part.text.as_str(), part.found)).collect();
        assert_eq!(parts, [("two ", false), ("three", true), (" and ", false), ("three", true)]);
    }

    #[test]
    fn what_the_piece_before_has_as_well_is_found_once() {
        assert_eq!(found("\u{1}ab\u{2} \u{1}cd\u{2}", 2).len(), 1);
        assert_eq!(found("\u{1}ab\u{2} cd", 2).len(), 0);
    }

    #[test]
    fn a_long_line_is_shown_around_what_was_found() {
        let long = format!("{}\u{1}word\u{2}{}", "ä".repeat(500), "b".repeat(500));
        let snippet = &found(&long, 0)[0].snippet;
        assert_eq!(
            snippet.iter().map(|part| part.text.chars().count()).collect::<Vec<_>>(),
            [BEFORE, 4, SNIPPET - BEFORE - 4]
        );
        assert!(snippet[1].found && snippet[1].text == "word");
    }

    #[test]
    fn a_look_that_was_interrupted_is_to_be_repeated_from_where_it_began() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        let piece = |start| Piece {
            found_in: FoundIn::Output,
            start,
            skip: 0,
            line: None,
            text: "word".to_owned(),
            jumps: Vec::new(),
        };
        let pieces: Vec<_> = (0..5000).map(piece).collect();
        let progress = Progress { next: 5000, line: None, mid_line: false, partly: false };
        let command = "cmd_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        let mut search = SearchFile::open_or_make(&file).expect("a file");
        search.add(&command, 1, "", &pieces, progress).expect("taken in");
        let session = "sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        let query = Query::parse("wor").expect("a word");
        let now = Instant::now();
        let late = Limits { until: now, interrupted: now };
        let mut from = (4000, 0);
        let found = in_file(&file, &query, &session, from, 100, late).expect("no error");
        assert_eq!(found.rest, Some((4000 - found.hits.len() as i64, 0)), "what was found before is not found again");
        // Nothing is left out when it goes on, however often it is stopped between two looks.
        let mut all = 0;
        loop {
            let limits = Limits { until: now, interrupted: Instant::now() + FIRST_LOOK };
            let found = in_file(&file, &query, &session, from, 20, limits).expect("no error");
            all += found.hits.len();
            let Some(rest) = found.rest else { break };
            from = rest;
        }
        assert_eq!(all, 4000);
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        let id: SessionId = "sbx_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id");
        let cursor = Cursor { session: Some((1_764_500_000.123_456, id)), piece: 17, lines: 3 };
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor.clone()));
        for wrong in ["", "~", "1~2~3~4", "NaN~sbx_aaaaaaaaaaaaaaaaaaaa~1~1", &format!("{cursor}~"), "' OR 1"] {
            assert_eq!(Cursor::parse(wrong), None, "{wrong:?}");
        }
    }
}
