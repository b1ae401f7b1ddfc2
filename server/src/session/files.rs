//! A session's files: who may reach them, where they are, and what was done to them.
//!
//! What was changed is written down for the time line before it is answered. Once a change can happen it is therefore
//! waited for by a task of the session's, also when whoever asked for it has left.

use bytes::Bytes;
use glassbox_shared::actor::Actor;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::history::FileAct;
use glassbox_shared::session::Profile;
use tokio::sync::oneshot;

use super::Session;
use super::owner::Message;
use crate::clock;
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::files::{Call, Place};
use crate::store::FileChange;

impl Session {
    /// Begins an operation that changes nothing. That the caller may watch was checked before.
    pub async fn read_files(&self, operation: Operation) -> Result<Call, DomainError> {
        let place = self.files_place().await?;
        self.inner.files.begin(&place, operation).await
    }

    /// Begins one that changes something, which needs what running a command needs.
    pub async fn write_files(&self, who: &Principal, operation: Operation) -> Result<Change, DomainError> {
        control::may_act_in(who, Act::Run, &self.inner.record.borrow().control)?;
        self.touch();
        let place = self.files_place().await?;
        let mut note = Note::of(&operation, &place, who);
        let call = self.inner.files.begin(&place, operation).await?;
        if let Some(note) = &mut note
            && let Some((path, size)) = call.upload()
        {
            note.path = Some(place.told(&path));
            note.bytes = Some(size);
        }
        Ok(Change { session: self.clone(), call, note, sent: 0 })
    }

    /// Looks at something.
    pub async fn look_at_files(&self, operation: Operation) -> Result<Answer, DomainError> {
        let mut call = self.read_files(operation).await?;
        self.inner.engine.or_trouble("nothing was done", call.answer()).await
    }

    /// Changes something at once.
    pub async fn change_files(&self, who: &Principal, operation: Operation) -> Result<Answer, DomainError> {
        self.write_files(who, operation).await?.finish().await
    }

    /// Writes down what was done to files, then tells that there is something new.
    pub(super) async fn note(&self, change: FileChange) -> Result<(), DomainError> {
        self.inner.store.add_file_change(&self.inner.id, &change).await.map_err(|error| {
            let detail =
                "this was done, but the server could not write it down, so that the time line does not tell it";
            DomainError { detail: detail.to_owned(), ..DomainError::from(error) }
        })?;
        self.tell(Message::FilesChanged);
        Ok(())
    }

    /// Largest file that may be written from outside, in bytes.
    pub fn largest_file(&self) -> u64 {
        self.inner.settings.max_file
    }

    /// A place among those who wait for changes of files.
    pub fn watch_files(&self) -> Result<impl Send + use<>, DomainError> {
        self.inner.files.watch()
    }

    /// The sandbox that is there now. Waits for one that is being made again.
    async fn files_place(&self) -> Result<Place, DomainError> {
        self.inner.engine.check("nothing was done")?;
        self.inner.engine.or_trouble("nothing was done", self.ready()).await?;
        let record = self.inner.record.borrow();
        Ok(Place {
            container: record.container.clone().unwrap_or_default(),
            workspace: self.inner.settings.workspace_dir(record.profile).to_owned(),
            confined: record.profile == Profile::Hardened,
        })
    }
}

/// What will be written down of a change once it is done.
#[derive(Debug, Clone)]
pub(super) struct Note {
    by: Actor,
    act: FileAct,
    /// `None`: as the answer tells it.
    path: Option<String>,
    to: Option<String>,
    bytes: Option<u64>,
}

impl Note {
    /// `None`: it changes nothing that anybody sees.
    fn of(operation: &Operation, place: &Place, who: &Principal) -> Option<Self> {
        let (act, path, to) = match operation {
            Operation::Write { path, .. } => (FileAct::Saved, Some(path), None),
            Operation::Append { .. } => (FileAct::Uploaded, None, None),
            Operation::MakeFolder { path } => (FileAct::FolderMade, Some(path), None),
            Operation::Rename { from, to, .. } => (FileAct::Renamed, Some(from), Some(to)),
            Operation::Copy { from, to, .. } => (FileAct::Copied, Some(from), Some(to)),
            Operation::Delete { path, .. } => (FileAct::Deleted, Some(path), None),
            Operation::List { .. }
            | Operation::Stat { .. }
            | Operation::Version { .. }
            | Operation::Read { .. }
            | Operation::Archive { .. }
            | Operation::StartUpload { .. }
            | Operation::Upload { .. }
            | Operation::DropUpload { .. } => return None,
        };
        let told = |path: &String| place.told(path);
        Some(Self { by: who.actor.clone(), act, path: path.map(told), to: to.map(told), bytes: None })
    }

    /// What is changed, as answers tell it.
    pub(super) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or_default()
    }

    /// Of a copy, where to.
    pub(super) fn to(&self) -> Option<&str> {
        self.to.as_deref()
    }

    /// It was stopped when so many entries were done; by nobody, when whoever began it has left. `None`: nobody did
    /// anything, and a copy leaves nothing.
    pub(super) fn stopped(self, by: Option<Actor>, entries: u64) -> Option<FileChange> {
        let act = match (self.act, &by) {
            (FileAct::Copied, None) => return None,
            (FileAct::Copied, Some(_)) => FileAct::CopyStopped,
            _ => FileAct::DeletionStopped,
        };
        let by = by.unwrap_or_else(|| self.by.clone());
        Some(FileChange { by, act, entries: Some(entries), ..self.done() })
    }

    /// It failed when so many entries were done; `by`: who has stopped it, if that is why. `None`: all is as it was.
    pub(super) fn failed(self, by: Option<Actor>, entries: u64) -> Option<FileChange> {
        if self.act == FileAct::Deleted && entries > 0 { self.stopped(by, entries) } else { None }
    }

    fn done(self) -> FileChange {
        let Self { by, act, path, to, bytes } = self;
        FileChange { at: clock::now(), by, act, path: path.unwrap_or_default(), to, bytes, entries: None }
    }

    /// It came to this; `None`: to nothing that anybody sees. Only numbers are believed, because they can do no harm.
    pub(super) fn came_to(mut self, answer: &Answer) -> Option<FileChange> {
        match (self.act, answer) {
            (FileAct::Saved | FileAct::FolderMade | FileAct::Renamed, Answer::Entry(_)) => Some(self.done()),
            (FileAct::Uploaded, Answer::Upload { entry: Some(entry), .. }) => {
                self.path.get_or_insert_with(|| entry.path.clone());
                Some(self.done())
            }
            (FileAct::Copied, Answer::Job { done, bytes, .. }) => {
                Some(FileChange { bytes: Some(*bytes), entries: Some(*done), ..self.done() })
            }
            (FileAct::Deleted, Answer::Job { done, .. }) => Some(FileChange { entries: Some(*done), ..self.done() }),
            _ => None,
        }
    }
}

/// A change that is under way. Dropped before its end it is given up.
#[derive(Debug)]
pub struct Change {
    session: Session,
    call: Call,
    note: Option<Note>,
    /// Bytes of content.
    sent: u64,
}

impl Change {
    /// Sends content.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), DomainError> {
        self.sent += bytes.len() as u64;
        self.call.send(bytes).await
    }

    /// All content, if it takes any, was sent: it is done, and written down, also when nobody waits for that any more.
    pub async fn finish(self) -> Result<Answer, DomainError> {
        let Self { session, mut call, mut note, sent } = self;
        if let Some(note) = note.as_mut().filter(|note| note.act == FileAct::Saved) {
            note.bytes = Some(sent);
        }
        let (reply, answer) = oneshot::channel::<Result<Answer, DomainError>>();
        let own = session.clone();
        session.inner.files.spawn(async move {
            let finished = async {
                let answer = call.finish().await?;
                // Others may have its turn.
                drop(call);
                if let Some(change) = note.and_then(|note| note.came_to(&answer)) {
                    own.note(change).await?;
                }
                Ok(answer)
            };
            let finished = finished.await;
            let _ = reply.send(finished); // whoever asked may have left
        });
        let answered = async { answer.await.map_err(|_| DomainError::shutting_down())? };
        session.inner.engine.or_trouble("it may have been done or not", answered).await
    }

    /// As a job, which has its own way to its end.
    pub(super) fn into_parts(self) -> (Session, Call, Option<Note>) {
        (self.session, self.call, self.note)
    }
}
