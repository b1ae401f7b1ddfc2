//! Output streams over the live socket: who watches what, and what came for whom.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use js_sys::{ArrayBuffer, Uint8Array};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::{FromViewer, GapReason, OUTPUT_HEADER, OutOfOrder, Output, WatchFrom};

use super::Inner;

/// Whoever shows a stream.
pub trait Watcher {
    /// From where to watch on a new connection; `None`: nothing more is wanted.
    fn resume(&self) -> Option<WatchFrom>;
    /// The connection is lost.
    fn away(&self);
    /// Bytes follow from here.
    fn opened(&self, offset: u64) -> Result<(), OutOfOrder>;
    /// Bytes.
    fn output(&self, offset: u64, bytes: Uint8Array) -> Result<(), OutOfOrder>;
    /// Bytes are missing.
    fn gap(&self, from: u64, to: u64, reason: GapReason) -> Result<(), OutOfOrder>;
    /// No more will come.
    fn end(&self, offset: u64, complete: bool) -> Result<(), OutOfOrder>;
    /// Refused or broken.
    fn failed(&self, code: Option<ErrorCode>, detail: &str);
    /// Something was out of order: watch again?
    fn retry(&self) -> bool;
}

pub(super) struct Watched {
    pub(super) stream: Cell<u32>,
    pub(super) session: SessionId,
    pub(super) command: CommandId,
    pub(super) watcher: Weak<dyn Watcher>,
}

/// A watched stream; dropping it closes the stream.
pub struct Watch {
    pub(super) inner: Rc<Inner>,
    pub(super) watched: Rc<Watched>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch {
    /// Everything before this offset was taken in.
    pub fn acknowledge(&self, offset: u64) {
        self.inner.say(&FromViewer::Ack { stream: self.watched.stream.get(), offset });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.inner.watched.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.watched));
        let stream = self.watched.stream.get();
        if stream != 0 {
            self.inner.say(&FromViewer::Unwatch { stream });
        }
    }
}

impl Inner {
    pub(super) fn bytes(self: &Rc<Self>, buffer: &ArrayBuffer) {
        let all = Uint8Array::new(buffer);
        let Ok(header_length) = u32::try_from(OUTPUT_HEADER) else { return };
        if all.length() < header_length {
            return;
        }
        // Only the header is copied into wasm memory; the bytes stay in the message's own buffer.
        let header = all.subarray(0, header_length).to_vec();
        let Some(head) = Output::decode(&header) else { return };
        let offset = head.offset;
        self.stream(head.stream, |watcher| watcher.output(offset, all.subarray(header_length, all.length())));
    }

    /// Hands something to the watcher of a stream; messages for a closed one are late and ignored.
    pub(super) fn stream(self: &Rc<Self>, stream: u32, hand: impl FnOnce(&dyn Watcher) -> Result<(), OutOfOrder>) {
        let watched = self.watched.borrow().iter().find(|watched| watched.stream.get() == stream).cloned();
        let Some(watched) = watched else { return };
        let Some(watcher) = watched.watcher.upgrade() else { return };
        if let Err(error) = hand(&*watcher) {
            leptos::logging::warn!("live: {error}");
            self.say(&FromViewer::Unwatch { stream });
            watched.stream.set(0);
            if watcher.retry() {
                self.open_stream(&watched);
            }
        }
    }

    pub(super) fn open_stream(&self, watched: &Watched) {
        let Some(from) = watched.watcher.upgrade().and_then(|watcher| watcher.resume()) else { return };
        if !self.greeted.get() {
            return;
        }
        let stream = self.next_stream.get();
        self.next_stream.set(stream + 1);
        watched.stream.set(stream);
        self.say(&FromViewer::Watch {
            stream,
            session_id: watched.session.clone(),
            command_id: watched.command.clone(),
            from,
        });
    }
}
