//! The engine's helper: one command's life in real frames, and the sweep. What the command does stands in its
//! [`script`](super::script).

use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::helper::{Channel, EndCause, Ended, ExitStatus, FrameBuffer, FromHelper, Start, ToHelper};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::script::{KILL, Played, Resistance};
use super::{FOREVER, FakeRuntime, Switches};

/// The PID of every command.
pub(super) const PID: i32 = 42;

/// What the server tells a helper.
pub(super) struct Inbox {
    input: DuplexStream,
    frames: FrameBuffer,
}

impl Inbox {
    /// The next order; `None`: stdin is at its end, or is nonsense. May be dropped while waiting.
    pub(super) async fn next(&mut self) -> Option<ToHelper> {
        loop {
            if let Some((kind, body)) = self.frames.next_frame().ok()? {
                return ToHelper::decode(kind, body).ok();
            }
            let mut bytes = [0; 4096];
            match self.input.read(&mut bytes).await {
                Ok(count @ 1..) => self.frames.push(&bytes[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

/// The helper of one command. Its methods answer `None` when it is over without a word.
pub(super) struct Helper {
    pub(super) engine: FakeRuntime,
    pub(super) container: String,
    pub(super) inbox: Inbox,
    pub(super) output: mpsc::Sender<Bytes>,
    pub(super) tag: u64,
}

impl Helper {
    /// Not told yet what to run.
    pub(super) fn new(engine: &FakeRuntime, container: &str, input: DuplexStream, output: mpsc::Sender<Bytes>) -> Self {
        Self {
            engine: engine.clone(),
            container: container.to_owned(),
            inbox: Inbox { input, frames: FrameBuffer::default() },
            output,
            tag: 0,
        }
    }

    pub(super) async fn run(mut self, switches: &Switches) -> Option<()> {
        let Some(ToHelper::Start(start)) = self.inbox.next().await else { return None };
        self.tag = start.tag;
        if switches.silent {
            sleep(FOREVER).await;
        }
        if switches.nonsense {
            return self.raw(b"this is no frame".as_slice()).await;
        }
        let script = start.argv.last().cloned().unwrap_or_default();
        let limit = Instant::now() + Duration::from_millis(start.limit_ms);
        if let Some(message) = script.trim().strip_prefix("fail ") {
            return self.say(&FromHelper::FailedToStart { message: message.to_owned() }).await;
        }
        self.say(&FromHelper::Started { pid: PID }).await?;
        let Played { ended, left } = self.play(&script, &start, limit).await?;
        let was_killed = ended.cause != EndCause::Own;
        self.say(&FromHelper::Ended(ended)).await?;
        if let Some((pause, text)) = left.filter(|_| !was_killed)
            && self.wait(&start, Instant::now() + pause, Instant::now() + FOREVER, Resistance::None).await?.is_none()
        {
            let _ = self.line(&start, Channel::Stdout, &text).await?;
        }
        self.say(&FromHelper::OutputClosed).await
    }

    pub(super) async fn raw(&self, bytes: impl Into<Vec<u8>>) -> Option<()> {
        self.output.send(Bytes::from(bytes.into())).await.ok()
    }

    pub(super) async fn say(&self, frame: &FromHelper) -> Option<()> {
        self.raw(frame.encode(self.tag)).await
    }

    pub(super) async fn line(&self, start: &Start, channel: Channel, text: &str) -> Option<Option<Ended>> {
        let channel = if start.split { channel } else { Channel::Merged };
        self.say(&FromHelper::Output { channel, bytes: format!("{text}\n").into_bytes() }).await.map(|()| None)
    }
}

/// Ends the command, and tells so.
pub(super) async fn sweep(
    mut input: DuplexStream,
    output: &mpsc::Sender<Bytes>,
    swept: Option<CancellationToken>,
    switches: &Switches,
) {
    let mut tag = [0; 8];
    if input.read_exact(&mut tag).await.is_err() || switches.sweeps_fail {
        return;
    }
    if let Some(swept) = swept {
        swept.cancel();
    }
    let ended = Ended {
        status: ExitStatus::Unknown,
        cause: EndCause::Kill,
        signal: KILL,
        took_ms: 1,
        ran_ms: None,
        survivors: Vec::new(),
    };
    // A server that does not listen any more is no failure.
    let _ = output.send(Bytes::from(FromHelper::Ended(ended).encode(u64::from_le_bytes(tag)))).await;
}
