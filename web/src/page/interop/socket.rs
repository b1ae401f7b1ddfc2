//! One WebSocket. Dropping the guard detaches the handlers first, then closes: nothing arrives afterwards.

use gloo_events::EventListener;
use js_sys::ArrayBuffer;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{BinaryType, CloseEvent, MessageEvent, WebSocket};

/// What comes.
#[derive(Debug)]
pub enum Incoming {
    /// A text message.
    Text(String),
    /// A binary message, still in the browser's memory.
    Bytes(ArrayBuffer),
    /// It is over; the close code.
    Closed(u16),
}

/// The guard.
#[derive(Debug)]
pub struct Socket {
    raw: WebSocket,
    listeners: Vec<EventListener>,
}

impl Socket {
    /// Opens one; `on` hears everything that comes, in order.
    pub fn open(url: &str, protocol: &str, on: impl Fn(Incoming) + Clone + 'static) -> Result<Self, JsValue> {
        let raw = WebSocket::new_with_str(url, protocol)?;
        raw.set_binary_type(BinaryType::Arraybuffer);
        let hear = on.clone();
        let message = EventListener::new(&raw, "message", move |event| {
            let data = event.unchecked_ref::<MessageEvent>().data();
            match data.dyn_into::<ArrayBuffer>() {
                Ok(bytes) => hear(Incoming::Bytes(bytes)),
                Err(other) => {
                    if let Some(text) = other.as_string() {
                        hear(Incoming::Text(text));
                    }
                }
            }
        });
        let close = EventListener::new(&raw, "close", move |event| {
            on(Incoming::Closed(event.unchecked_ref::<CloseEvent>().code()));
        });
        Ok(Self { raw, listeners: vec![message, close] })
    }

    /// Sends text; nothing happens when it is not open (the close event follows).
    pub fn send(&self, text: &str) {
        if self.raw.ready_state() == WebSocket::OPEN {
            // Fails only when it is not open.
            let _ = self.raw.send_with_str(text);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.listeners.clear();
        let _ = self.raw.close();
    }
}
