//! Takes commands and their output in for the search: in the background, after the bytes are in their log, a small piece
//! at a time. Nobody waits for it, and of an endless flood it takes only the beginning and, at the end, the latest part.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use glassbox_shared::command::CommandView;
use glassbox_shared::history::FoundIn;
use glassbox_shared::id::{CommandId, SessionId};

use super::words::{self, OVERLAP, PIECE};
use super::{Shared, blocking, remove_whole};
use crate::command::Command;
use crate::command::log::{Chunk, Log, LogError, LogState};
use crate::error::DomainError;
use crate::store::StoreError;
use crate::store::search::{Piece, Progress, SearchFile};

/// Of each command, the first bytes that can be searched, already while it runs, …
pub const HEAD: u64 = 2 * 1024 * 1024;
/// … and the latest ones, once its output is closed. With the output's own text, words take 2 to 3 times its size on disk
/// (measured by a test in `history/tests.rs`), so a command costs at most some 12 MiB beside its log's 64, and less than
/// 1.5 s of one processor (debug build), spread by the worker's rests.
pub const TAIL: u64 = 2 * 1024 * 1024;
/// Bytes taken in at a time: some 30 ms of work.
const STEP: usize = 256 * 1024;
/// Bytes of a command's own text that can be searched.
const COMMAND_TEXT: usize = 16 * 1024;
/// Characters of a command's text that stand beside what was found.
const ABOUT: usize = 200;
/// Ended commands that one round takes up.
const ROUND: usize = 64;

pub(super) struct Indexer {
    shared: Arc<Shared>,
    /// What this round still has to look at.
    round: VecDeque<(SessionId, Command)>,
    /// How far the logs of running commands were when last looked at: what did not grow is not looked at again.
    seen: HashMap<CommandId, u64>,
    /// Did this round find anything to do?
    busy: bool,
}

impl Indexer {
    pub(super) async fn start(shared: Arc<Shared>) -> Result<Self, DomainError> {
        // The words may be gone, for example because the data was restored from a backup.
        for session in shared.store.indexed_sessions().await? {
            if !shared.search_file(&session).exists() {
                shared.store.session_unindexed(&session).await?;
            }
        }
        Ok(Self { shared, round: VecDeque::new(), seen: HashMap::new(), busy: false })
    }

    /// Does one small piece of work; `false`: there is nothing to do for now.
    pub(super) async fn step(&mut self) -> Result<bool, StoreError> {
        let Some((session, command)) = self.round.pop_front() else {
            let was_busy = std::mem::take(&mut self.busy);
            self.begin_round().await?;
            return Ok(was_busy || self.busy);
        };
        // Removed since this round began: its words must not come back.
        if !self.shared.store.stays(&session).await? {
            return Ok(true);
        }
        match self.take_in(&session, &command).await {
            Err(StoreError::Corrupt(problem)) => {
                tracing::warn!(%session, problem, "the words of a session are damaged and are collected anew");
                let file = self.shared.search_file(&session);
                blocking(move || remove_whole(&file).map_err(|error| StoreError::Corrupt(error.to_string()))).await?;
                self.shared.store.session_unindexed(&session).await?;
                self.seen.clear();
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        Ok(true)
    }

    async fn begin_round(&mut self) -> Result<(), StoreError> {
        let driven = self.shared.sessions.driven();
        self.seen.retain(|id, _| driven.iter().any(|(_, driven, _)| driven == id));
        for (session, id, command) in driven {
            let end = command.view().output_bytes;
            if self.seen.insert(id, end) != Some(end) {
                self.round.push_back((session, command));
            }
        }
        for view in self.shared.store.unindexed_commands(ROUND).await? {
            let session = view.session_id.clone();
            // A driver may be about to leave; its own log is as good.
            self.round.push_back((session, self.shared.sessions.stored_command(view)));
        }
        self.busy = !self.round.is_empty();
        Ok(())
    }

    async fn take_in(&mut self, session: &SessionId, command: &Command) -> Result<(), StoreError> {
        let view = command.view();
        let file = self.shared.search_file(session);
        let (id, path) = (view.command_id.clone(), file.clone());
        let known = blocking(move || SearchFile::open_or_make(&path)?.progress(&id)).await?;
        let mut pieces = Vec::new();
        let mut progress = known.unwrap_or(Progress { next: 0, line: Some(1), mid_line: false, partly: false });
        if known.is_none() {
            pieces = command_text(&view.command);
        }
        let Ok(log) = command.log().await else {
            // There is no output any more (or never was a log): then there is nothing to be found in it.
            progress.partly |= view.output_bytes > 0;
            return self.add(&view, file, pieces, progress, true).await;
        };
        let state = log.state();
        skip_the_middle(&mut progress, state);
        let wanted = wanted(progress, state);
        if wanted > 0 {
            match read(&log, &mut progress, wanted).await {
                Ok(ToTakeIn { bytes, back, before_gap }) => {
                    let fresh = bytes.len().saturating_sub(back) as u64;
                    let last = before_gap || (state.closed && progress.next + fresh >= state.end);
                    let (more, next) = words::cut(FoundIn::Output, &bytes, back, progress, last);
                    pieces.extend(more);
                    progress = next;
                }
                Err(error) => {
                    tracing::debug!(%error, command = %view.command_id, "an output log cannot be read");
                    progress = Progress { next: state.end, partly: true, ..progress };
                }
            }
        }
        let done = state.closed && progress.next >= state.end;
        if !done && !state.closed && progress.next + PIECE as u64 * 2 < state.end.min(HEAD) {
            // There is more already: look again in the next round.
            self.seen.remove(&view.command_id);
        }
        if pieces.is_empty() && known == Some(progress) && !done {
            return Ok(());
        }
        self.add(&view, file, pieces, progress, done).await
    }

    async fn add(
        &self,
        view: &CommandView,
        file: std::path::PathBuf,
        pieces: Vec<Piece>,
        progress: Progress,
        done: bool,
    ) -> Result<(), StoreError> {
        let (id, number) = (view.command_id.clone(), view.number);
        let about: String = view.command.chars().take(ABOUT).collect();
        let add = move || SearchFile::open_or_make(&file)?.add(&id, number, &about, &pieces, progress);
        let progress = blocking(add).await?;
        // A running one is asked about again when it has ended.
        if done && view.output_closed {
            self.shared.store.command_indexed(&view.command_id, progress.partly).await?;
        }
        Ok(())
    }
}

fn command_text(text: &str) -> Vec<Piece> {
    let bytes = &text.as_bytes()[..text.len().min(COMMAND_TEXT)];
    let begin = Progress { next: 0, line: Some(1), mid_line: false, partly: false };
    words::cut(FoundIn::Command, bytes, 0, begin, true).0
}

/// Once nothing more will come, what lies between the first and the latest part is left out.
fn skip_the_middle(progress: &mut Progress, state: LogState) {
    let tail = state.end.saturating_sub(TAIL);
    // Whoever is within two pieces of the limit has taken in the first part.
    if state.closed && progress.next + PIECE as u64 * 2 >= HEAD && progress.next < tail {
        *progress = Progress { next: tail, line: None, mid_line: false, partly: true };
    }
}

/// Bytes to be read now.
fn wanted(progress: Progress, state: LogState) -> usize {
    let until = if state.closed && progress.next + TAIL >= state.end { state.end } else { state.end.min(HEAD) };
    usize::try_from(until.saturating_sub(progress.next)).map_or(STEP, |rest| rest.min(STEP))
}

/// What was read to go on.
struct ToTakeIn {
    bytes: Vec<u8>,
    /// So many at the beginning were read before.
    back: usize,
    /// A gap follows: the line ends here.
    before_gap: bool,
}

/// Reads from where it goes on, and moves on over a gap.
async fn read(log: &Log, progress: &mut Progress, wanted: usize) -> Result<ToTakeIn, LogError> {
    if progress.mid_line {
        let back = OVERLAP.min(progress.next as usize);
        let (chunk, before_gap) = joined(log, progress.next - back as u64, wanted + back).await?;
        if chunk.gap.is_none() && chunk.bytes.len() > back {
            return Ok(ToTakeIn { bytes: chunk.bytes.into(), back, before_gap });
        }
        // What was read before is gone, or nothing but it is there: what comes next stands for itself.
        progress.mid_line = false;
    }
    let (chunk, before_gap) = joined(log, progress.next, wanted).await?;
    if chunk.gap.is_some() {
        *progress = Progress { next: chunk.offset, line: None, mid_line: false, partly: true };
    }
    Ok(ToTakeIn { bytes: chunk.bytes.into(), back: 0, before_gap })
}

/// The log reads in pieces of its own size; joined up to `max`, or to the next gap. Does one follow?
async fn joined(log: &Log, from: u64, max: usize) -> Result<(Chunk, bool), LogError> {
    let first = log.read(from, max).await?;
    let mut bytes = first.bytes.to_vec();
    while !bytes.is_empty() && bytes.len() < max {
        let more = log.read(first.offset + bytes.len() as u64, max - bytes.len()).await?;
        if more.gap.is_some() || more.bytes.is_empty() {
            return Ok((Chunk { bytes: bytes.into(), ..first }, more.gap.is_some()));
        }
        bytes.extend_from_slice(&more.bytes);
    }
    Ok((Chunk { bytes: bytes.into(), ..first }, false))
}
