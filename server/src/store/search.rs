//! The words of commands and their output, so that they can be searched: full-text (FTS5), one database file a session.
//!
//! A file of its own for each session makes removal simple and certain, keeps the load of a flood away from the main
//! database, and can be thrown away: everything in it is collected anew from the output logs. So it is neither synced nor
//! backed up. Connections are short-lived and blocking; callers use a blocking thread.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use glassbox_shared::history::FoundIn;
use glassbox_shared::id::CommandId;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};

use super::{StoreError, parse};

/// Of the tables; a file of another version is made anew.
const VERSION: i64 = 1;
/// A writer holds the file for the milliseconds of one insertion.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Words and phrases of one query that are looked at; more say nothing about what is meant.
const MAX_TERMS: usize = 16;
/// Of these, the last so many words stand for all that begin with them: the one that is being typed is the last. Each such
/// word makes the database merge the places of all words that it could be, before it finds the first piece.
const MAX_BEGINNINGS: usize = 4;
/// Shorter words stand for themselves: too many words begin with them.
const SHORTEST_BEGINNING: usize = 3;
/// Of one session's words, some twenty commands that wrote as much as is taken in; of what comes then, only that it came.
/// It bounds the disk, and how long one look into one file can take.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// Steps of the database between two looks at the clock: well under a millisecond.
const STEPS: i32 = 200;

/// Where text and bytes part: from this place of the text on, bytes are found at that place of the piece.
pub type Jump = (u16, u16);

/// Stands before and behind what was found, in the text of what was found; no text has these characters.
pub const FOUND_BEGINS: char = '\u{1}';
/// See [`FOUND_BEGINS`].
pub const FOUND_ENDS: char = '\u{2}';

/// Some lines of a command's text or output, without control sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which of the two.
    pub found_in: FoundIn,
    /// Offset of its first byte.
    pub start: u64,
    /// Bytes at its beginning that the piece before it has as well.
    pub skip: u64,
    /// Of its first byte, from 1.
    pub line: Option<u64>,
    /// Its words, with line ends.
    pub text: String,
    /// From text to bytes.
    pub jumps: Vec<Jump>,
}

/// How far a command's output was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Offset of what comes next.
    pub next: u64,
    /// Its line, from 1, as long as lines could be counted.
    pub line: Option<u64>,
    /// It stands within a line.
    pub mid_line: bool,
    /// Something before it was left out.
    pub partly: bool,
}

/// A piece in which everything was found that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Pieces are numbered as they came.
    pub place: i64,
    /// Whose it is.
    pub command_id: CommandId,
    /// Counts from 1 within its session.
    pub number: u64,
    /// The beginning of its text.
    pub command: String,
    /// Only parts of this command's output can be searched.
    pub partly: bool,
    /// The piece; its text with marks around what was found.
    pub piece: Piece,
}

/// What one look into a file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The latest first.
    pub found: Vec<Found>,
    /// Time was up: there may be more behind the last of them.
    pub interrupted: bool,
}

/// What is searched for, in the database's own language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    terms: usize,
}

impl Query {
    /// From what a person typed: a word stands for itself, and the last four with at least three letters stand for all that
    /// begin with them; `"quoted words"` stand for themselves in this order; all must occur. Nothing in it is an operator.
    /// `None`: there is nothing to search for.
    pub fn parse(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        // Odd parts stood in quotes; a quote that is not closed reaches to the end.
        for (index, part) in text.split('"').enumerate() {
            if index % 2 == 1 {
                terms.push((part, false));
            } else {
                terms.extend(part.split_whitespace().map(|word| (word, may_begin(word))));
            }
        }
        // What has no letter and no digit has no word that could be found, and would make everything be not found.
        terms.retain(|(term, _)| term.chars().any(char::is_alphanumeric));
        let mut seen = HashSet::new();
        terms.retain(|(term, begins)| seen.insert((term.to_lowercase(), *begins)));
        terms.truncate(MAX_TERMS);
        for (_, begins) in terms.iter_mut().rev().filter(|(_, begins)| *begins).skip(MAX_BEGINNINGS) {
            *begins = false;
        }
        let terms: Vec<String> = terms
            .into_iter()
            .map(|(term, begins)| {
                let term: String = term.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                format!("\"{term}\"{}", if begins { " *" } else { "" })
            })
            .collect();
        if terms.is_empty() { None } else { Some(Self { text: terms.join(" AND "), terms: terms.len() }) }
    }

    /// How many words and phrases it has.
    pub fn terms(&self) -> usize {
        self.terms
    }
}

/// May it stand for all that begin with it? The database divides at what is no letter and no digit, and the last part counts.
fn may_begin(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
    word.chars().rev().take_while(|c| c.is_alphanumeric()).count() >= SHORTEST_BEGINNING
}

/// An open file.
#[derive(Debug)]
pub struct SearchFile {
    connection: Connection,
    /// From this size on nothing more is taken in.
    most_bytes: u64,
}

impl SearchFile {
    /// For writing; made where there is none.
    pub fn open_or_make(file: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open_with_flags(file, flags(OpenFlags::SQLITE_OPEN_CREATE))?;
        prepare(&connection)?;
        if version(&connection)? == 0 {
            let transaction = connection.transaction()?;
            transaction.execute_batch(include_str!("schema/search-1.sql"))?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()?;
        }
        Self::checked(connection)
    }

    /// For reading; `None` where there is none (yet).
    pub fn open(file: &Path) -> Result<Option<Self>, StoreError> {
        // Never makes a file: it may be the one of a session that was just removed.
        let connection = match Connection::open_with_flags(file, flags(OpenFlags::empty())) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) => return Ok(None),
            result => result?,
        };
        prepare(&connection)?;
        if version(&connection)? == 0 { Ok(None) } else { Self::checked(connection).map(Some) }
    }

    fn checked(connection: Connection) -> Result<Self, StoreError> {
        match version(&connection)? {
            VERSION => Ok(Self { connection, most_bytes: MAX_FILE_BYTES }),
            other => Err(StoreError::Corrupt(format!("a search file of version {other}"))),
        }
    }

    /// How far a command was taken in; `None`: nothing of it.
    pub fn progress(&self, command: &CommandId) -> Result<Option<Progress>, StoreError> {
        let mut statement =
            self.connection.prepare("SELECT next, line, mid_line, partly FROM commands WHERE command_id = ?1")?;
        let progress = statement.query_row([command.as_str()], |row| {
            Ok(Progress { next: unsigned(row, 0)?, line: line(row, 1)?, mid_line: row.get(2)?, partly: row.get(3)? })
        });
        Ok(progress.optional()?)
    }

    /// Takes pieces of a command in, all or none; `about` is the beginning of its text. When the file is full, none of them;
    /// the progress that comes back then says that something was left out.
    pub fn add(
        &mut self,
        command: &CommandId,
        number: u64,
        about: &str,
        pieces: &[Piece],
        progress: Progress,
    ) -> Result<Progress, StoreError> {
        let full = !pieces.is_empty() && self.bytes()? >= self.most_bytes;
        let pieces = if full { &[] } else { pieces };
        let progress = Progress { partly: progress.partly || full, ..progress };
        let transaction = self.connection.transaction()?;
        let id: i64 = transaction
            .prepare(
                "INSERT INTO commands (command_id, number, command, next, line, mid_line, partly)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT DO UPDATE SET next = ?4, line = ?5, mid_line = ?6, partly = ?7 RETURNING id",
            )?
            .query_row(
                params![
                    command.as_str(),
                    number.cast_signed(),
                    about,
                    progress.next.cast_signed(),
                    progress.line.map(u64::cast_signed),
                    progress.mid_line,
                    progress.partly
                ],
                |row| row.get(0),
            )?;
        {
            let mut words = transaction.prepare("INSERT INTO words (text) VALUES (?1)")?;
            let mut places = transaction.prepare(
                "INSERT INTO pieces (id, command, output, start, skip, line, jumps) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for piece in pieces {
                words.execute([&piece.text])?;
                let jumps: Vec<u8> = piece
                    .jumps
                    .iter()
                    .flat_map(|(text, bytes)| [text.to_le_bytes(), bytes.to_le_bytes()].concat())
                    .collect();
                places.execute(params![
                    transaction.last_insert_rowid(),
                    id,
                    piece.found_in == FoundIn::Output,
                    piece.start.cast_signed(),
                    piece.skip.cast_signed(),
                    piece.line.map(u64::cast_signed),
                    jumps,
                ])?;
            }
        }
        transaction.commit()?;
        Ok(progress)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| unsigned(row, 0));
        Ok(pragma("page_count")? * pragma("page_size")?)
    }

    /// Pieces with everything that is asked for, the latest first, from this place on, as far as it comes until then. The
    /// clock stays with this connection.
    pub fn find(&self, query: &Query, from: i64, most: usize, until: Instant) -> Result<Lookup, StoreError> {
        self.connection.progress_handler(STEPS, Some(move || Instant::now() >= until))?;
        let mut found = Vec::new();
        match self.find_into(&mut found, query, from, most) {
            Ok(()) => Ok(Lookup { found, interrupted: false }),
            // Whatever FTS5 makes of an interruption below it.
            Err(_) if Instant::now() >= until => Ok(Lookup { found, interrupted: true }),
            Err(error) => Err(error),
        }
    }

    fn find_into(&self, all: &mut Vec<Found>, query: &Query, from: i64, most: usize) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT words.rowid, highlight(words, 0, ?4, ?5) AS text, command_id, number, command.command, partly,
                 output, start, skip, pieces.line, jumps
             FROM words JOIN pieces ON pieces.id = words.rowid JOIN commands AS command ON command.id = pieces.command
             WHERE words MATCH ?1 AND words.rowid <= ?2 ORDER BY words.rowid DESC LIMIT ?3",
        )?;
        let marks = (FOUND_BEGINS.to_string(), FOUND_ENDS.to_string());
        let mut rows = statement.query(params![query.text, from, most as i64, marks.0, marks.1])?;
        while let Some(row) = rows.next()? {
            all.push(Found {
                place: row.get(0)?,
                command_id: parse(&row.get::<_, String>(2)?)?,
                number: unsigned(row, 3)?,
                command: row.get(4)?,
                partly: row.get(5)?,
                piece: Piece {
                    found_in: if row.get(6)? { FoundIn::Output } else { FoundIn::Command },
                    start: unsigned(row, 7)?,
                    skip: unsigned(row, 8)?,
                    line: line(row, 9)?,
                    text: row.get(1)?,
                    jumps: row.get::<_, Vec<u8>>(10)?.as_chunks::<4>().0.iter().copied().map(jump).collect(),
                },
            });
        }
        Ok(())
    }

    /// Commands of whose output only parts can be searched.
    pub fn partly_indexed(&self) -> Result<u64, StoreError> {
        let mut statement = self.connection.prepare("SELECT count(*) FROM commands WHERE partly")?;
        Ok(statement.query_row([], |row| unsigned(row, 0))?)
    }
}

fn flags(more: OpenFlags) -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more
}

/// A rollback journal, because readers of a write-ahead log make files beside it; nothing is synced, because nothing here
/// is the only copy. The death of the process harms neither.
fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn jump(bytes: [u8; 4]) -> Jump {
    (u16::from_le_bytes([bytes[0], bytes[1]]), u16::from_le_bytes([bytes[2], bytes[3]]))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

fn line(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_person_types_is_an_operator() {
        let query = |text: &str| Query::parse(text).map(|query| query.text);
        assert_eq!(query("cargo bui"), Some("\"cargo\" * AND \"bui\" *".to_owned()));
        assert_eq!(query("\"no such file\" foo"), Some("\"no such file\" AND \"foo\" *".to_owned()));
        assert_eq!(
            query("a AND (NEAR b* -c ^d"),
            Some("\"a\" AND \"AND\" * AND \"(NEAR\" * AND \"b*\" AND \"-c\" AND \"^d\"".to_owned())
        );
        assert_eq!(query("unclosed \"quo te"), Some("\"unclosed\" * AND \"quo te\"".to_owned()));
        for nothing in ["", "  ", "&& || ;", "\"\"", "\"--\""] {
            assert_eq!(query(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn few_words_stand_for_many_and_none_is_asked_for_twice() {
        let query = |text: &str| Query::parse(text).expect("words");
        assert_eq!(query("go gone x.go go.gone").text, "\"go\" AND \"gone\" * AND \"x.go\" AND \"go.gone\" *");
        assert_eq!(
            query("one two three four five").text,
            "\"one\" AND \"two\" * AND \"three\" * AND \"four\" * AND \"five\" *"
        );
        let twice = query("Word word \"word\" WORD \"Word\"");
        assert_eq!((twice.text.as_str(), twice.terms()), ("\"Word\" * AND \"word\"", 2));
        let many = (100..200).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!((query(&many).terms(), query(&many).text.matches('*').count()), (MAX_TERMS, MAX_BEGINNINGS));
    }

    const COMMAND: &str = "cmd_aaaaaaaaaaaaaaaaaaaa";
    const PROGRESS: Progress = Progress { next: 140, line: Some(9), mid_line: false, partly: false };
    const FAR: Duration = Duration::from_secs(60);

    fn pieces(count: u64) -> Vec<Piece> {
        let piece = |number| Piece {
            found_in: FoundIn::Output,
            start: number * 10,
            skip: 0,
            line: None,
            text: format!("word{number} more{}", number % 7),
            jumps: Vec::new(),
        };
        (0..count).map(piece).collect()
    }

    #[test]
    fn a_look_that_takes_too_long_is_interrupted_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut search = SearchFile::open_or_make(&folder.path().join("x.db")).expect("a file");
        search.add(&COMMAND.parse().expect("an id"), 1, "", &pieces(5000), PROGRESS).expect("taken in");
        let query = Query::parse("wor mor").expect("words");
        let late = search.find(&query, i64::MAX, 10_000, Instant::now()).expect("no error");
        assert!(late.interrupted && late.found.len() < 5000, "{}", late.found.len());
        let all = search.find(&query, i64::MAX, 10_000, Instant::now() + FAR).expect("a query");
        assert_eq!((all.found.len(), all.interrupted), (5000, false));
    }

    #[test]
    fn a_full_file_takes_nothing_more_in_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut search = SearchFile::open_or_make(&folder.path().join("x.db")).expect("a file");
        search.most_bytes = 256 * 1024;
        let command: CommandId = COMMAND.parse().expect("an id");
        let mut progress = PROGRESS;
        for _ in 0..100 {
            progress = search.add(&command, 1, "", &pieces(500), progress).expect("no error");
        }
        assert!(progress.partly && search.partly_indexed().expect("read") == 1);
        assert_eq!(search.progress(&command).expect("read"), Some(progress));
        let size = search.bytes().expect("read");
        assert!((256 * 1024..512 * 1024).contains(&size), "{size}");
        let query = Query::parse("word499").expect("words");
        assert!(!search.find(&query, i64::MAX, 10, Instant::now() + FAR).expect("a query").found.is_empty());
    }

    #[test]
    fn every_query_is_understood_by_the_database_and_finds_only_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert!(SearchFile::open(&file).expect("no error").is_none());
        let mut search = SearchFile::open_or_make(&file).expect("a file");
        let command: CommandId = COMMAND.parse().expect("an id");
        let piece = Piece {
            found_in: FoundIn::Output,
            start: 100,
            skip: 0,
            line: Some(7),
            text: "Grüße: AND it's a \"quoted\" word\nsecond".to_owned(),
            jumps: vec![(0, 3)],
        };
        let progress = Progress { next: 140, line: Some(9), mid_line: false, partly: true };
        search.add(&command, 3, "about", std::slice::from_ref(&piece), progress).expect("taken in");
        assert_eq!(search.progress(&command).expect("read"), Some(progress));
        assert_eq!(search.partly_indexed().expect("read"), 1);
        let search = SearchFile::open(&file).expect("no error").expect("a file");
        let look = |text: &str| {
            let query = Query::parse(text).expect("words");
            search.find(&query, i64::MAX, 10, Instant::now() + FAR).expect("a query").found
        };
        let found = |text: &str| look(text).len();
        for there in ["grüsse GRÜ", "grusse gruße", "\"quoted word\"", "AND", "it's", "sec*", "(second)", "\u{0}second"]
        {
            let expected = usize::from(!there.starts_with("grüsse") && !there.starts_with("grusse"));
            assert_eq!(found(there), expected, "{there:?}");
        }
        for not_there in ["\"word quoted\"", "NOT", "col:word", "NEAR(word second)", "'; DROP TABLE words; --"] {
            assert_eq!(found(not_there), 0, "{not_there:?}");
        }
        let found = look("second").remove(0);
        assert_eq!((found.number, found.command.as_str(), found.partly), (3, "about", true));
        assert_eq!(found.piece.text, "Grüße: AND it's a \"quoted\" word\n\u{1}second\u{2}");
        assert_eq!(Piece { text: piece.text.clone(), ..found.piece }, piece);
    }
}
