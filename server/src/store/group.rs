//! The store's thread: takes the jobs that wait, does them in one transaction, answers after the commit.
//!
//! A job must be repeatable: when one of a group fails, the whole group is rolled back and each is done again by itself,
//! so that nobody gets somebody else's error.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;

/// Jobs in one transaction at most: enough that a burst costs few commits, few enough that an answer is not held back
/// for long by those behind it.
const GROUPED_JOBS: usize = 64;

/// Something to do with the database, repeatable.
pub(super) trait Work<T>: Fn(&Connection) -> Result<T, StoreError> + Send + 'static {}

impl<T, F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static> Work<T> for F {}

/// What the thread is told.
pub(super) enum Message {
    Job(Box<dyn Job>),
    /// A job that must not stand in a transaction.
    Alone(Box<dyn Job>),
    /// Do what came before, close the file, answer, end.
    Close(oneshot::Sender<()>),
}

impl Message {
    pub(super) fn job<T: Send + 'static>(
        writes: bool,
        work: impl Work<T>,
        answer: oneshot::Sender<Result<T, StoreError>>,
    ) -> Self {
        Self::Job(Box::new(TypedJob { writes, work, result: None, answer }))
    }

    pub(super) fn alone<T: Send + 'static>(work: impl Work<T>, answer: oneshot::Sender<Result<T, StoreError>>) -> Self {
        // A reading job by itself has no transaction.
        Self::Alone(Box::new(TypedJob { writes: false, work, result: None, answer }))
    }
}

/// A job whose result type does not matter here.
pub(super) trait Job: Send {
    fn writes(&self) -> bool;
    /// Does the work and keeps its result.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Hands out the kept result, or the error.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct TypedJob<T, W> {
    writes: bool,
    work: W,
    result: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W: Work<T>> Job for TypedJob<T, W> {
    fn writes(&self) -> bool {
        self.writes
    }

    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.result = Some((self.work)(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, answer, .. } = *self;
        let outcome = outcome.and_then(|()| result.ok_or(StoreError::Closed));
        let _ = answer.send(outcome); // whoever asked may have stopped waiting
    }
}

/// The thread's body: ends when told to close, or when no handle is left.
pub(super) fn serve(connection: Connection, mut waiting: mpsc::Receiver<Message>) {
    let mut messages = Vec::with_capacity(GROUPED_JOBS);
    let mut closed = None;
    while closed.is_none() && waiting.blocking_recv_many(&mut messages, GROUPED_JOBS) > 0 {
        let mut group = Vec::with_capacity(messages.len());
        for message in messages.drain(..) {
            match message {
                // Dropping a job that came after the end tells its caller that the store is closed.
                Message::Job(job) if closed.is_none() => group.push(job),
                Message::Alone(job) if closed.is_none() => {
                    do_group(&connection, std::mem::take(&mut group));
                    do_group(&connection, vec![job]);
                }
                Message::Job(_) | Message::Alone(_) => {}
                Message::Close(done) => closed = Some(done),
            }
        }
        do_group(&connection, group);
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database could not be closed cleanly; nothing is lost");
    }
    if let Some(done) = closed {
        let _ = done.send(()); // whoever closed may have stopped waiting
    }
}

fn do_group(connection: &Connection, mut group: Vec<Box<dyn Job>>) {
    match in_transaction(connection, &mut group) {
        Ok(()) => group.into_iter().for_each(|job| job.answer(Ok(()))),
        Err(error) if group.len() == 1 => {
            if let Some(job) = group.pop() {
                job.answer(Err(error));
            }
        }
        // Another process holds the file: trying each by itself would only add up the waiting.
        Err(StoreError::Busy) => group.into_iter().for_each(|job| job.answer(Err(StoreError::Busy))),
        Err(_) => group.into_iter().for_each(|job| do_group(connection, vec![job])),
    }
}

fn in_transaction(connection: &Connection, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    if let [job] = group
        && !job.writes()
    {
        return job.run(connection);
    }
    // Taking the write lock first means waiting for another process here, where waiting is possible, and not in the
    // middle, where SQLite would have to fail.
    let writes = group.iter().any(|job| job.writes());
    let behavior = if writes { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
    let transaction = Transaction::new_unchecked(connection, behavior)?;
    for job in group {
        job.run(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}
