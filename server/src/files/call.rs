//! One operation, from the side of whoever asked for it.

use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{self, Answer, FromFiles, Head, MAX_DATA, Operation, Progress, ToFiles, WINDOW};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::hostile;
use super::link::Link;
use crate::error::DomainError;

/// A service that says nothing for this long does not answer. Copies and deletions tell of their progress four times a
/// second; to sort the largest folder that can be listed takes gVisor 15 s.
const ANSWER: Duration = Duration::from_secs(60);
/// What is neither copy nor deletion comes to its end within this once nothing more is sent, whatever it says meanwhile:
/// twice what silence may take.
const END: Duration = Duration::from_secs(120);

/// An operation. Dropping it cancels it.
#[derive(Debug)]
pub struct Call {
    link: Link,
    number: u32,
    /// Not told yet.
    operation: Option<Operation>,
    upload: Option<String>,
    begins_upload: bool,
    /// A copy or deletion: it tells of its progress, and takes as long as it takes.
    job: bool,
    takes_content: bool,
    replies: mpsc::Receiver<FromFiles>,
    /// Frames of content that may be sent.
    room: u32,
    over: bool,
    _turn: OwnedSemaphorePermit,
}

/// What comes of an operation.
#[derive(Debug)]
pub enum Said {
    /// Before content.
    Head(Box<Head>),
    /// Content.
    Data(Bytes),
    /// How far it is.
    Progress(Progress),
    /// It is done.
    Done(Box<Answer>),
}

impl Call {
    pub(super) fn new(
        link: Link,
        number: u32,
        operation: Operation,
        replies: mpsc::Receiver<FromFiles>,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        let upload = match &operation {
            Operation::StartUpload { id, .. } | Operation::Append { id, .. } | Operation::Upload { id } => {
                Some(id.clone())
            }
            _ => None,
        };
        let begins_upload = matches!(operation, Operation::StartUpload { .. });
        let job = matches!(operation, Operation::Copy { .. } | Operation::Delete { .. });
        let takes_content = matches!(operation, Operation::Write { .. } | Operation::Append { .. });
        Self {
            link,
            number,
            operation: Some(operation),
            upload,
            begins_upload,
            job,
            takes_content,
            replies,
            room: WINDOW,
            over: false,
            _turn: turn,
        }
    }

    /// Tells the service what to do, unless it was told. To be waited for to its end.
    pub async fn told(&mut self) -> Result<(), DomainError> {
        match self.operation.take() {
            Some(operation) => self.link.say(self.number, &ToFiles::Begin(Box::new(operation))).await,
            None => Ok(()),
        }
    }

    /// The next thing that is said. After [`Said::Done`] and after an error nothing comes. May be given up and asked again
    /// once the service was told.
    pub async fn next(&mut self) -> Result<Said, DomainError> {
        self.told().await?;
        loop {
            let said = match self.hear().await? {
                // Word of what was taken; a failure was turned into an error before.
                said @ (FromFiles::Taken(_) | FromFiles::Failed(_)) => {
                    self.heed(said)?;
                    continue;
                }
                FromFiles::Head(head) => Said::Head(self.sense(hostile::head(head))?),
                FromFiles::Data(bytes) => {
                    self.link.say(self.number, &ToFiles::Taken(1)).await?;
                    Said::Data(Bytes::from(bytes))
                }
                FromFiles::Progress(_) if !self.job => return Err(self.nonsense()),
                FromFiles::Progress(progress) => Said::Progress(self.sense(hostile::progress(progress))?),
                FromFiles::Done(answer) => Said::Done(Box::new(self.sense(hostile::answer(*answer))?)),
            };
            return Ok(said);
        }
    }

    /// Waits for its end. Content that comes is nonsense.
    pub async fn answer(&mut self) -> Result<Answer, DomainError> {
        if self.job {
            return self.rest().await;
        }
        if let Ok(answer) = timeout(END, self.rest()).await {
            return answer;
        }
        self.link.give_up("it does not come to an end");
        Err(self.link.failure())
    }

    async fn rest(&mut self) -> Result<Answer, DomainError> {
        loop {
            match self.next().await? {
                Said::Done(answer) => return Ok(*answer),
                Said::Progress(_) => {}
                Said::Head(_) | Said::Data(_) => return Err(self.nonsense()),
            }
        }
    }

    /// Sends content, in pieces as they fit.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), DomainError> {
        self.told().await?;
        while !bytes.is_empty() {
            // A refusal is heard at once; and what was taken makes room.
            while let Ok(said) = self.replies.try_recv() {
                self.heed(said)?;
            }
            while self.room == 0 {
                let said = self.hear().await?;
                self.heed(said)?;
            }
            let piece = bytes.split_to(bytes.len().min(MAX_DATA));
            self.room -= 1;
            if let Some(id) = &self.upload {
                self.link.upload_used(id);
            }
            self.link.send(frames::content(self.number, &piece)).await?;
        }
        Ok(())
    }

    /// All content was sent, if it takes any: waits for its end.
    pub async fn finish(&mut self) -> Result<Answer, DomainError> {
        self.told().await?;
        if self.takes_content {
            self.link.say(self.number, &ToFiles::End).await?;
        }
        self.answer().await
    }

    /// Asks the service to give it up, which then says so, or that it was done already.
    pub fn cancel(&self) {
        self.link.cancel(self.number);
    }

    /// Path, as it was asked for, and size of the upload that it belongs to.
    pub fn upload(&self) -> Option<(String, u64)> {
        self.link.upload(self.upload.as_ref()?)
    }

    /// What was told to end does not: the whole service is ended.
    pub fn give_up(&self) -> DomainError {
        self.link.give_up("it did not stop when it was told to");
        self.link.failure()
    }

    /// What may be said while content is sent.
    fn heed(&mut self, said: FromFiles) -> Result<(), DomainError> {
        match said {
            FromFiles::Taken(frames) if (1..=WINDOW - self.room).contains(&frames) => {
                self.room += frames;
                Ok(())
            }
            FromFiles::Failed(failure) => Err(self.failed(failure)),
            _ => Err(self.nonsense()),
        }
    }

    async fn hear(&mut self) -> Result<FromFiles, DomainError> {
        let said = match timeout(ANSWER, self.replies.recv()).await {
            Ok(Some(said)) => said,
            Ok(None) => {
                self.over = true;
                return Err(self.link.failure());
            }
            Err(_) => {
                self.link.give_up("it does not answer");
                return Err(self.link.failure());
            }
        };
        match said {
            FromFiles::Failed(failure) => Err(self.failed(failure)),
            FromFiles::Done(answer) => {
                self.over = true;
                if let (Answer::Upload { entry: Some(_), .. }, Some(id)) = (&*answer, &self.upload) {
                    self.link.upload_ended(id);
                }
                Ok(FromFiles::Done(answer))
            }
            said => Ok(said),
        }
    }

    fn failed(&mut self, failure: glassbox_shared::files::frames::Failure) -> DomainError {
        self.over = true;
        let error = hostile::failure(failure);
        if let Some(id) = self.upload.as_ref().filter(|_| self.begins_upload || error.code == ErrorCode::NotFound) {
            self.link.upload_ended(id);
        }
        error
    }

    fn sense<T>(&mut self, said: Option<T>) -> Result<T, DomainError> {
        said.ok_or_else(|| self.nonsense())
    }

    /// What no service of ours would say.
    fn nonsense(&mut self) -> DomainError {
        self.link.give_up("it said what makes no sense");
        self.link.failure()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.link.forget(self.number, self.over || self.operation.is_some());
    }
}
