//! One file service: its exec, its frames in both directions, and who waits for what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::files::frames::{FromFiles, Open, Operation, ToFiles, WINDOW};
use glassbox_shared::helper::{FrameBuffer, HELPER_PATH};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::{Place, unavailable};
use crate::error::DomainError;
use crate::ids;
use crate::runtime::{ExecSpec, ExecStream, Runtime};

/// Without an operation for this long, the service is ended: it holds a connection of the engine.
const IDLE: Duration = Duration::from_secs(60);
/// An upload that nobody adds to for this long is given up.
const UPLOAD_IDLE: Duration = Duration::from_secs(15 * 60);
/// Between looks for both.
const LOOK: Duration = Duration::from_secs(5);
/// Frames that wait for a service that does not read, each at most 128 KiB.
const OUTGOING: usize = 16;
/// Frames of one operation that wait for whoever asked: content, and words that content was taken, within their windows;
/// head, last word, and some words on progress.
const INCOMING: usize = 2 * WINDOW as usize + 8;
/// Room in that queue that words on progress leave free, so that there is always room for the last word however slowly
/// somebody listens.
const KEPT_FREE: usize = WINDOW as usize + 2;
/// A service that takes nothing for this long is as good as gone.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// A handle to a running service. A clone is the same one.
#[derive(Debug, Clone)]
pub(super) struct Link {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Place,
    frames: mpsc::Sender<Vec<u8>>,
    state: Mutex<State>,
    /// Some operation is to be cancelled.
    cancelled: Notify,
    over: CancellationToken,
}

#[derive(Debug)]
struct State {
    next: u32,
    calls: HashMap<u32, Waiting>,
    /// Operations that nobody waits for any more.
    to_cancel: Vec<u32>,
    uploads: HashMap<String, Upload>,
    used: Instant,
    /// Why it takes no more operations.
    ended: Option<String>,
}

/// An upload in pieces.
#[derive(Debug)]
struct Upload {
    /// As it was asked for.
    path: String,
    size: u64,
    used: Instant,
}

/// Who waits for an operation.
#[derive(Debug)]
struct Waiting {
    /// `None`: the last word was said.
    sender: Option<mpsc::Sender<FromFiles>>,
    /// What comes before content was said, which is said once.
    headed: bool,
}

impl Link {
    /// A service that is being started, and the work that it is.
    pub(super) fn start(runtime: Runtime, place: Place, closed: CancellationToken) -> (Self, impl Future<Output = ()>) {
        let (frames, queue) = mpsc::channel(OUTGOING);
        let state = State {
            next: 1,
            calls: HashMap::new(),
            to_cancel: Vec::new(),
            uploads: HashMap::new(),
            used: Instant::now(),
            ended: None,
        };
        let shared = Shared {
            place,
            frames,
            state: Mutex::new(state),
            cancelled: Notify::new(),
            over: CancellationToken::new(),
        };
        let link = Self { shared: Arc::new(shared) };
        let own = link.clone();
        let work = async move {
            let why = tokio::select! {
                why = own.serve(&runtime, queue) => why,
                () = own.shared.over.cancelled() => "it was ended".to_owned(),
                () = closed.cancelled() => "the session ends".to_owned(),
            };
            tracing::debug!(container = own.shared.place.container, why, "a file service has ended");
            own.finish(&why);
        };
        (link, work)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The sections cannot panic half-way, so a poisoned lock still guards good data.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it there for this place?
    pub(super) fn serves(&self, place: &Place) -> bool {
        self.shared.place == *place && self.lock().ended.is_none()
    }

    /// Ends it, whoever waits for it.
    pub(super) fn end(&self) {
        self.shared.over.cancel();
    }

    /// It does what no service of ours would do, or nothing at all.
    pub(super) fn give_up(&self, why: &str) {
        self.finish(why);
        self.end();
    }

    /// Nobody can begin anything any more; whoever waits learns of the end by its channel's.
    fn finish(&self, why: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| why.to_owned());
        state.calls.clear();
    }

    /// Why whoever waited did so in vain.
    pub(super) fn failure(&self) -> DomainError {
        unavailable(self.lock().ended.as_deref().unwrap_or("it ended"))
    }

    /// Begins an operation; `Err`: this service takes no more.
    pub(super) fn call(&self, operation: Operation, turn: OwnedSemaphorePermit) -> Result<Call, OwnedSemaphorePermit> {
        let (sender, replies) = mpsc::channel(INCOMING);
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(turn);
        }
        let number = state.next;
        state.next = state.next.wrapping_add(1).max(1);
        state.calls.insert(number, Waiting { sender: Some(sender), headed: false });
        state.used = Instant::now();
        match &operation {
            // Our own ids; those that are refused go again.
            Operation::StartUpload { id, path, size, .. } => {
                let upload = Upload { path: path.clone(), size: *size, used: Instant::now() };
                state.uploads.insert(id.clone(), upload);
            }
            Operation::Upload { id } | Operation::Append { id, .. } => {
                if let Some(upload) = state.uploads.get_mut(id) {
                    upload.used = Instant::now();
                }
            }
            Operation::DropUpload { id } => drop(state.uploads.remove(id)),
            _ => {}
        }
        drop(state);
        Ok(Call::new(self.clone(), number, operation, replies, turn))
    }

    /// Sends a frame of an operation, when there is room.
    pub(super) async fn say(&self, number: u32, what: &ToFiles) -> Result<(), DomainError> {
        self.send(what.encode(number)).await
    }

    /// The same for one that is ready to go.
    pub(super) async fn send(&self, frame: Vec<u8>) -> Result<(), DomainError> {
        match timeout(WRITE_DEADLINE, self.shared.frames.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.failure()),
            Err(_) => {
                self.give_up("it does not read what it is told");
                Err(self.failure())
            }
        }
    }

    /// Content for the upload is on its way.
    pub(super) fn upload_used(&self, id: &str) {
        if let Some(upload) = self.lock().uploads.get_mut(id) {
            upload.used = Instant::now();
        }
    }

    /// Path and size of an upload that is under way.
    pub(super) fn upload(&self, id: &str) -> Option<(String, u64)> {
        self.lock().uploads.get(id).map(|upload| (upload.path.clone(), upload.size))
    }

    /// The upload is over, one way or the other.
    pub(super) fn upload_ended(&self, id: &str) {
        self.lock().uploads.remove(id);
    }

    /// This operation is not wanted any more; its last word is.
    pub(super) fn cancel(&self, number: u32) {
        self.lock().to_cancel.push(number);
        self.shared.cancelled.notify_one();
    }

    /// Nobody waits for this operation any more.
    pub(super) fn forget(&self, number: u32, over: bool) {
        let mut state = self.lock();
        state.calls.remove(&number);
        state.used = Instant::now();
        if !over && state.ended.is_none() {
            state.to_cancel.push(number);
            drop(state);
            self.shared.cancelled.notify_one();
        }
    }

    /// Starts the service and passes on what is said, until it ends; why it did.
    async fn serve(&self, runtime: &Runtime, queue: mpsc::Receiver<Vec<u8>>) -> String {
        let place = &self.shared.place;
        let exec = ExecSpec { argv: vec![HELPER_PATH.to_owned(), "files".to_owned()] };
        let ExecStream { input, output } = match runtime.exec(&place.container, &exec).await {
            Ok(stream) => stream,
            Err(error) => return format!("it could not be started ({error})"),
        };
        let tag = ids::tag();
        let open = Open { tag, workspace: place.workspace.clone(), confined: place.confined };
        let first = ToFiles::Open(open).encode(0);
        tokio::select! {
            why = self.write(input, queue, first) => why,
            why = self.read(output, tag) => why,
            why = self.look_after() => why,
        }
    }

    async fn write(
        &self,
        mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
        mut queue: mpsc::Receiver<Vec<u8>>,
        first: Vec<u8>,
    ) -> String {
        let mut frame = Some(first);
        loop {
            let bytes = if let Some(first) = frame.take() { first } else { self.to_say(&mut queue).await };
            let write = async {
                input.write_all(&bytes).await?;
                input.flush().await
            };
            match timeout(WRITE_DEADLINE, write).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return format!("it cannot be reached ({error})"),
                Err(_) => return "it does not read what it is told".to_owned(),
            }
        }
    }

    /// The next bytes for the service.
    async fn to_say(&self, queue: &mut mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
        tokio::select! {
            biased;
            () = self.shared.cancelled.notified() => {
                let numbers = std::mem::take(&mut self.lock().to_cancel);
                // What was said before comes first: a beginning must not be overtaken.
                let mut bytes = Vec::new();
                while let Ok(more) = queue.try_recv() {
                    bytes.extend_from_slice(&more);
                }
                bytes.extend(numbers.into_iter().flat_map(|number| ToFiles::Cancel.encode(number)));
                bytes
            }
            // The queue cannot end: this link holds its other end.
            Some(bytes) = queue.recv() => bytes,
        }
    }

    async fn read(&self, mut output: Output, tag: u64) -> String {
        let mut frames = FrameBuffer::default();
        while let Some(bytes) = output.next().await {
            match bytes {
                Ok(bytes) => frames.push(&bytes),
                Err(error) => return format!("it broke off ({error})"),
            }
            loop {
                let decoded = match frames.next_frame() {
                    Ok(Some((kind, body))) => FromFiles::decode(tag, kind, body),
                    Ok(None) => break,
                    Err(error) => Err(error),
                };
                match decoded {
                    Ok((number, said)) => {
                        if !self.pass_on(number, said) {
                            return "it said more than was asked".to_owned();
                        }
                    }
                    Err(error) => return format!("it said what makes no sense ({error})"),
                }
            }
        }
        "its process ended".to_owned()
    }

    /// Gives a frame to whoever waits for it; `false`: it is more than was agreed.
    fn pass_on(&self, number: u32, said: FromFiles) -> bool {
        let mut state = self.lock();
        let Some(waiting) = state.calls.get_mut(&number) else {
            // It has crossed a cancellation.
            return true;
        };
        let Some(sender) = &waiting.sender else { return false };
        let mut last = false;
        match said {
            FromFiles::Head(_) if std::mem::replace(&mut waiting.headed, true) => return false,
            // Whoever is slow learns of a later one.
            FromFiles::Progress(_) if sender.capacity() <= KEPT_FREE => return true,
            FromFiles::Done(_) | FromFiles::Failed(_) => last = true,
            _ => {}
        }
        let fits = !matches!(sender.try_send(said), Err(mpsc::error::TrySendError::Full(_)));
        if last {
            waiting.sender = None;
        }
        fits
    }

    /// Ends the service, and uploads, that nobody uses.
    async fn look_after(&self) -> String {
        loop {
            tokio::time::sleep(LOOK).await;
            let mut dropped = Vec::new();
            {
                let mut state = self.lock();
                let old: Vec<String> = state
                    .uploads
                    .iter()
                    .filter(|(_, upload)| upload.used.elapsed() > UPLOAD_IDLE)
                    .map(|(id, _)| id.clone())
                    .collect();
                for id in old {
                    state.uploads.remove(&id);
                    let number = state.next;
                    state.next = state.next.wrapping_add(1).max(1);
                    dropped.push(ToFiles::Begin(Box::new(Operation::DropUpload { id })).encode(number));
                }
                let unused = state.calls.is_empty() && state.uploads.is_empty() && state.used.elapsed() > IDLE;
                if unused && dropped.is_empty() {
                    // From here on it takes no operation, so none is lost.
                    state.ended = Some("it was not used".to_owned());
                    return "it was not used".to_owned();
                }
            }
            for frame in dropped {
                // A full queue means that it is busy; the upload then stays until the service ends.
                let _ = self.shared.frames.try_send(frame);
            }
        }
    }
}

/// What the service says.
type Output =
    std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<bytes::Bytes, crate::runtime::RuntimeError>> + Send>>;
