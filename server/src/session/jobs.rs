//! Copies and deletions: what may take long tells how far it is, and can be stopped: by whoever began it, by leaving, and
//! like a command by everyone who may kill one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Operation};
use glassbox_shared::files::path;
use glassbox_shared::files::{JobDone, JobKind, JobList, JobProgress, JobView};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Session;
use super::files::Note;
use crate::clock;
use crate::control::{self, Act, Principal};
use crate::error::DomainError;
use crate::files::{Call, Said};
use crate::ids;
use crate::store::FileChange;

/// Random characters of a job's id.
const ID: usize = 20;
/// How long one may go on that was told to stop. The service looks before each entry and each piece of a file; reading and
/// sorting the largest folder takes gVisor 15 s. One that takes longer is ended with its whole service, uploads included.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// A word on how far it is waits this long for the last word: a deletion that fails half-way says how far it came right
/// before. Whoever asked is then refused, and does not hear first that it goes well.
const LAST_WORD: Duration = Duration::from_millis(50);
/// How long whoever stops one waits: until then it has stopped, or its service was ended, and that is written down.
const STOPPED_BY: Duration = Duration::from_secs(45);

/// What a job says of itself; the last word is one of the last three.
#[derive(Debug, Clone)]
pub enum JobWord {
    /// How far it is.
    Progress(JobProgress),
    /// It is done.
    Done(JobDone),
    /// It was stopped here.
    Stopped {
        /// By whom; `None`: whoever began it has left.
        by: Option<Actor>,
        /// How far it was when it said so last.
        at: JobProgress,
    },
    /// It failed.
    Failed(Arc<DomainError>),
}

impl JobWord {
    /// Is it the last one?
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Progress(_))
    }
}

/// A session's jobs; as many at once as there are turns for changes.
#[derive(Debug, Default)]
pub(super) struct Jobs(Mutex<Vec<Arc<Running>>>);

#[derive(Debug)]
struct Running {
    /// As it was at its beginning.
    view: JobView,
    said: watch::Receiver<Option<JobWord>>,
    stop: CancellationToken,
    stopped_by: Mutex<Option<Actor>>,
}

impl Running {
    fn view(&self) -> JobView {
        let mut view = self.view.clone();
        if let Some(JobWord::Progress(at) | JobWord::Stopped { at, .. }) = &*self.said.borrow() {
            (view.done, view.bytes) = (at.done, at.bytes);
        }
        view
    }

    fn stopped_by(&self) -> Option<Actor> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.stopped_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first one counts; nobody stops what its owner has left already.
    fn stop(&self, by: &Actor) {
        let mut stopped_by = self.stopped_by.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.stop.is_cancelled() {
            *stopped_by = Some(by.clone());
            self.stop.cancel();
        }
    }
}

impl Jobs {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Arc<Running>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes a job out of the list, however its task ends.
struct Listed {
    session: Session,
    job: Arc<Running>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.session.inner.jobs.with(|jobs| jobs.retain(|other| !Arc::ptr_eq(other, &self.job)));
    }
}

/// A job, for whoever began it. Dropping it stops the job.
#[derive(Debug)]
pub struct Job {
    running: Arc<Running>,
    said: watch::Receiver<Option<JobWord>>,
}

impl Job {
    /// The next word, or the latest of several. After the last one nothing comes.
    pub async fn next(&mut self) -> JobWord {
        let gone = || JobWord::Failed(Arc::new(DomainError::shutting_down()));
        if self.said.changed().await.is_err() {
            return gone();
        }
        self.said.borrow_and_update().clone().unwrap_or_else(gone)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.running.stop.cancel();
    }
}

impl Session {
    /// Begins to copy or to delete, which needs what running a command needs.
    pub async fn start_job(&self, who: &Principal, operation: Operation) -> Result<Job, DomainError> {
        let kind = if matches!(operation, Operation::Copy { .. }) { JobKind::Copy } else { JobKind::Delete };
        let (session, call, note) = self.write_files(who, operation).await?.into_parts();
        let note = note.ok_or_else(|| DomainError::invalid("this is neither a copy nor a deletion"))?;
        let shown = |path: &str| path::display(&path::decode(path).unwrap_or_default());
        let view = JobView {
            job_id: format!("job_{}", ids::random_characters(ID)),
            kind,
            path: note.path().to_owned(),
            name: shown(note.path()),
            to: note.to().map(str::to_owned),
            to_name: note.to().map(shown),
            by: who.actor.clone(),
            since: clock::now(),
            done: 0,
            bytes: 0,
        };
        let (words, said) = watch::channel(None);
        let running = Arc::new(Running {
            view,
            said: said.clone(),
            stop: CancellationToken::new(),
            stopped_by: Mutex::new(None),
        });
        session.inner.jobs.with(|jobs| jobs.push(Arc::clone(&running)));
        let listed = Listed { session, job: Arc::clone(&running) };
        self.inner.files.spawn(async move {
            let last = drive(&listed, call, note, &words).await;
            drop(listed);
            words.send_replace(Some(last));
        });
        Ok(Job { running, said })
    }

    /// Those that are under way. That the caller may watch was checked before.
    pub fn jobs(&self) -> JobList {
        JobList { jobs: self.inner.jobs.with(|jobs| jobs.iter().map(|job| job.view()).collect()) }
    }

    /// Stops one, and answers when it has stopped. As killing a command, this needs no control.
    pub async fn stop_job(&self, who: &Principal, id: &str) -> Result<JobView, DomainError> {
        control::may_act_in(who, Act::Kill, &self.inner.record.borrow().control)?;
        let job = self.inner.jobs.with(|jobs| jobs.iter().find(|job| job.view.job_id == id).map(Arc::clone));
        let job = job.ok_or_else(|| DomainError::not_found("job; it may be over"))?;
        self.touch();
        job.stop(&who.actor);
        let mut said = job.said.clone();
        let last = timeout(STOPPED_BY, said.wait_for(|word| word.as_ref().is_some_and(JobWord::is_last))).await;
        let last = match last {
            Ok(Ok(word)) => word.clone(),
            Ok(Err(_)) => return Err(DomainError::shutting_down()),
            Err(_) => None,
        };
        match last {
            Some(JobWord::Stopped { .. }) => Ok(job.view()),
            Some(JobWord::Done(_)) => {
                Err(DomainError::new(ErrorCode::AlreadyEnded, "it was done already; the stop came too late"))
            }
            Some(JobWord::Failed(error)) if error.code != ErrorCode::FilesUnavailable => {
                let detail = format!("it has failed by itself, before it could be stopped: {}", error.detail);
                Err(DomainError::new(ErrorCode::AlreadyEnded, detail))
            }
            _ => {
                let detail = "the file service did not say that it stopped, and was ended; look at what is there";
                Err(DomainError::new(ErrorCode::KillUnverified, detail).retry_after(5))
            }
        }
    }
}

/// The whole of a job; answers its last word when what became of it is written down.
async fn drive(listed: &Listed, mut call: Call, note: Note, words: &watch::Sender<Option<JobWord>>) -> JobWord {
    let Listed { session, job } = listed;
    let failed = |error| JobWord::Failed(Arc::new(error));
    // Before it can be given up: the service must know what it shall stop.
    if let Err(error) = call.told().await {
        return failed(error);
    }
    let mut at = JobProgress { done: 0, bytes: 0, path: String::new() };
    let (mut stop_by, mut tell_at) = (None, None);
    let ended = loop {
        let said = tokio::select! {
            biased;
            () = job.stop.cancelled(), if stop_by.is_none() => {
                stop_by = Some(Instant::now() + STOP_DEADLINE);
                call.cancel();
                continue;
            }
            () = sleep_until(stop_by.unwrap_or_else(Instant::now)), if stop_by.is_some() => break Err(call.give_up()),
            () = sleep_until(tell_at.unwrap_or_else(Instant::now)), if tell_at.is_some() => {
                tell_at = None;
                words.send_replace(Some(JobWord::Progress(at.clone())));
                continue;
            }
            said = call.next() => said,
        };
        match said {
            Ok(Said::Progress(progress)) => {
                at = JobProgress { done: progress.done, bytes: progress.bytes, path: progress.path };
                tell_at.get_or_insert_with(|| Instant::now() + LAST_WORD);
            }
            Ok(Said::Done(answer)) => break Ok(Some(*answer)),
            // It is what the service says where it was cancelled, after a last word on how far it came.
            Err(error) if error.code == ErrorCode::Conflict && stop_by.is_some() => break Ok(None),
            Err(error) => break Err(error),
            Ok(Said::Head(_) | Said::Data(_)) => break Err(call.give_up()),
        }
    };
    // Others may have its turn.
    drop(call);
    let stopped_by = job.stopped_by();
    // Of a deletion that did not come to its end, what was gone by then is gone.
    let (word, change): (JobWord, Option<FileChange>) = match ended {
        Ok(Some(answer)) => {
            let change = note.clone().came_to(&answer);
            if let Answer::Job { done, bytes, skipped, entry } = answer {
                (JobWord::Done(JobDone { done, bytes, skipped, entry: entry.map(|entry| *entry) }), change)
            } else {
                let detail = "the sandbox's file service answered something else; try again";
                (failed(DomainError::new(ErrorCode::FilesUnavailable, detail)), note.failed(None, at.done))
            }
        }
        Ok(None) => (JobWord::Stopped { by: stopped_by.clone(), at: at.clone() }, note.stopped(stopped_by, at.done)),
        Err(error) => {
            // Only a service that had to be ended was stopped by somebody; else it has failed by itself.
            let by = stopped_by.filter(|_| error.code == ErrorCode::FilesUnavailable);
            (failed(error), note.failed(by, at.done))
        }
    };
    let Some(change) = change else { return word };
    match (session.note(change).await, word) {
        (Err(error), JobWord::Failed(why)) => {
            tracing::error!(%error, "what a deletion that failed had deleted could not be written down");
            JobWord::Failed(why)
        }
        (Err(error), _) => failed(error),
        (Ok(()), word) => word,
    }
}
