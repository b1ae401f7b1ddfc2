//! The driver's end of the helper's stream: output to be polled, and orders that never block the driver.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use glassbox_shared::helper::ToHelper;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::runtime::{ExecStream, RuntimeError};

/// Frames that may wait for a helper that does not read; a stopped helper is swept anyway, so more are of no use.
const QUEUE: usize = 32;
/// A helper that takes nothing for this long is as good as gone.
const WRITE_DEADLINE: Duration = Duration::from_secs(20);

/// What the helper says.
pub type Output = Pin<Box<dyn Stream<Item = Result<Bytes, RuntimeError>> + Send>>;

/// Orders to the helper. Dropping it closes the helper's stdin.
#[derive(Debug)]
pub struct HelperLink {
    frames: mpsc::Sender<ToHelper>,
    // Owns the writing task: it ends with the link.
    _writer: JoinSet<()>,
}

impl HelperLink {
    /// Takes a stream apart.
    pub fn new(stream: ExecStream) -> (Self, Output) {
        let ExecStream { mut input, output } = stream;
        let (frames, mut queue) = mpsc::channel::<ToHelper>(QUEUE);
        let mut writer = JoinSet::new();
        writer.spawn(async move {
            while let Some(frame) = queue.recv().await {
                let bytes = frame.encode();
                let write = async {
                    input.write_all(&bytes).await?;
                    input.flush().await
                };
                match tokio::time::timeout(WRITE_DEADLINE, write).await {
                    Ok(Ok(())) => {}
                    // The driver's own deadlines take it from here: what the helper does not answer is swept.
                    Ok(Err(error)) => return tracing::debug!(%error, "the helper's stdin is gone"),
                    Err(_) => return tracing::debug!("the helper does not read its stdin"),
                }
            }
        });
        (Self { frames, _writer: writer }, output)
    }

    /// Sends an order, if the helper still takes any.
    pub fn send(&mut self, frame: ToHelper) {
        if self.frames.try_send(frame).is_err() {
            tracing::debug!("the helper takes no more orders");
        }
    }
}
