//! Brings a stream into a terminal: the bytes go straight there, never through a signal.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use gloo_timers::callback::Timeout;
use js_sys::Uint8Array;
use leptos::prelude::*;

use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::{GapReason, OutOfOrder, WatchFrom};
use glassbox_shared::text::plain;

use crate::page::interop::terminal::{Scroll, Terminal};
use crate::page::live::{Watch, Watcher};
use crate::state::stream::{ACK_MS, Stream};

/// How often the words around the terminal follow it.
const SHOW_MS: u32 = 200;

/// What is said around the terminal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    /// The stream, by its offsets.
    pub stream: Stream,
    /// Why it failed.
    pub problem: Option<String>,
    /// Where the reader is.
    pub scroll: Scroll,
}

/// A place in the output that a link named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// None, or it is shown and the reader may go elsewhere.
    None,
    /// At this offset.
    Awaited(u64),
    /// Marked, and to be brought on the screen as soon as there is enough below it.
    Marked,
}

/// The bridge.
pub struct Feed {
    stream: RefCell<Stream>,
    problem: RefCell<Option<String>>,
    terminal: RefCell<Option<Terminal>>,
    watch: RefCell<Option<Watch>>,
    /// The socket only holds it weakly.
    watcher: RefCell<Option<Rc<dyn Watcher>>>,
    /// Offsets after each write that the terminal has not parsed yet, in order.
    written: RefCell<VecDeque<u64>>,
    acknowledge: RefCell<Option<Timeout>>,
    showing: RefCell<Option<Timeout>>,
    place: Cell<Place>,
    shown: RwSignal<Shown>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}

impl Feed {
    /// To begin at `from`.
    pub fn new(from: WatchFrom, shown: RwSignal<Shown>) -> Rc<Self> {
        Rc::new(Self {
            stream: RefCell::new(Stream::new(from)),
            problem: RefCell::default(),
            terminal: RefCell::default(),
            watch: RefCell::default(),
            watcher: RefCell::default(),
            written: RefCell::default(),
            acknowledge: RefCell::default(),
            showing: RefCell::default(),
            place: Cell::new(Place::None),
            shown,
        })
    }

    /// The terminal is there.
    pub fn attach(&self, terminal: Terminal) {
        *self.terminal.borrow_mut() = Some(terminal);
    }

    /// The stream is asked for.
    pub fn watched(&self, watch: Watch, watcher: Rc<dyn Watcher>) {
        *self.watch.borrow_mut() = Some(watch);
        *self.watcher.borrow_mut() = Some(watcher);
    }

    /// The page goes elsewhere.
    pub fn close(&self) {
        self.acknowledge.take();
        self.showing.take();
        let watch = self.watch.take();
        drop(watch);
        let watcher = self.watcher.take();
        drop(watcher);
        let terminal = self.terminal.take();
        drop(terminal);
    }

    fn with_terminal(&self, act: impl FnOnce(&Terminal)) {
        if let Some(terminal) = self.terminal.borrow().as_ref() {
            act(terminal);
        }
    }

    /// Light or dark.
    pub fn set_dark(&self, dark: bool) {
        self.with_terminal(|terminal| terminal.set_dark(dark));
    }

    /// A link named this place: marks it, and stays there instead of following the newest line.
    pub fn go_to(&self, at: u64) {
        self.place.set(Place::Awaited(at));
    }

    /// Writes what comes before the awaited place by itself, so that the terminal stands there once it has parsed that.
    fn write(&self, offset: u64, bytes: &Uint8Array) {
        let length = u64::from(bytes.length());
        let before = match self.place.get() {
            Place::Awaited(at) if at < offset + length => Some(at.saturating_sub(offset)),
            _ => None,
        };
        let mut rest = 0;
        if let Some(before) = before {
            rest = before as u32;
            self.write_part(offset + before, &bytes.subarray(0, rest));
        }
        self.write_part(offset + length, &bytes.subarray(rest, bytes.length()));
    }

    fn write_part(&self, end: u64, bytes: &Uint8Array) {
        self.written.borrow_mut().push_back(end);
        self.with_terminal(|terminal| terminal.write(bytes));
    }

    /// The terminal stands at `offset`.
    fn look_for_the_place(&self, offset: u64) {
        if matches!(self.place.get(), Place::Awaited(at) if at <= offset) {
            self.with_terminal(Terminal::mark_place);
            self.place.set(Place::Marked);
        }
        if self.place.get() == Place::Marked {
            self.with_terminal(|terminal| {
                if terminal.to_place() {
                    self.place.set(Place::None);
                }
            });
        }
    }

    /// Writes that the terminal has not parsed yet.
    pub fn backlog(&self) -> usize {
        self.written.borrow().len()
    }

    /// Is it shown still?
    pub fn is_open(&self) -> bool {
        self.terminal.borrow().is_some()
    }

    /// To the newest line.
    pub fn to_live(&self) {
        self.with_terminal(Terminal::to_live);
    }

    /// The terminal parsed the oldest write.
    pub fn parsed(self: &Rc<Self>) {
        let Some(offset) = self.written.borrow_mut().pop_front() else { return };
        self.look_for_the_place(offset);
        let due = self.stream.borrow_mut().parsed(offset);
        if let Some(offset) = due {
            self.tell(offset);
        } else {
            self.tell_soon();
        }
        self.show_soon();
    }

    fn tell_soon(self: &Rc<Self>) {
        let mut timer = self.acknowledge.borrow_mut();
        if timer.is_none() {
            let weak = Rc::downgrade(self);
            *timer = Some(Timeout::new(ACK_MS, move || {
                let Some(feed) = weak.upgrade() else { return };
                feed.acknowledge.take();
                let due = feed.stream.borrow_mut().due();
                if let Some(offset) = due {
                    feed.tell(offset);
                }
            }));
        }
    }

    fn tell(&self, offset: u64) {
        if let Some(watch) = self.watch.borrow().as_ref() {
            watch.acknowledge(offset);
        }
    }

    /// Something was drawn or scrolled.
    pub fn moved(self: &Rc<Self>) {
        // Called while the terminal is being worked on; look at it afterwards.
        self.show_soon();
    }

    fn show_soon(self: &Rc<Self>) {
        let mut timer = self.showing.borrow_mut();
        if timer.is_none() {
            let weak = Rc::downgrade(self);
            *timer = Some(Timeout::new(SHOW_MS, move || {
                if let Some(feed) = weak.upgrade() {
                    feed.showing.take();
                    feed.show();
                }
            }));
        }
    }

    fn show(&self) {
        let scroll = self.terminal.borrow().as_ref().map(Terminal::scroll).unwrap_or_default();
        let shown = Shown { stream: self.stream.borrow().clone(), problem: self.problem.borrow().clone(), scroll };
        if self.shown.try_with_untracked(|before| *before != shown) == Some(true) {
            self.shown.set(shown);
        }
    }
}

/// The feed as the live socket sees it.
#[derive(Debug)]
pub struct FeedWatcher(pub Rc<Feed>);

impl Watcher for FeedWatcher {
    fn resume(&self) -> Option<WatchFrom> {
        self.0.stream.borrow().resume()
    }

    fn away(&self) {
        self.0.stream.borrow_mut().away();
        self.0.show();
    }

    fn opened(&self, offset: u64) -> Result<(), OutOfOrder> {
        self.0.stream.borrow_mut().opened(offset)?;
        self.0.show();
        Ok(())
    }

    fn output(&self, offset: u64, bytes: Uint8Array) -> Result<(), OutOfOrder> {
        self.0.stream.borrow_mut().output(offset, bytes.length() as usize)?;
        self.0.write(offset, &bytes);
        Ok(())
    }

    fn gap(&self, from: u64, to: u64, reason: GapReason) -> Result<(), OutOfOrder> {
        let text = self.0.stream.borrow_mut().gap(from, to, reason)?;
        self.0.with_terminal(|terminal| terminal.write_rule(&text));
        self.0.show_soon();
        Ok(())
    }

    fn end(&self, offset: u64, complete: bool) -> Result<(), OutOfOrder> {
        self.0.stream.borrow_mut().end(offset, complete)?;
        self.0.show();
        Ok(())
    }

    fn failed(&self, code: Option<ErrorCode>, detail: &str) {
        self.0.stream.borrow_mut().failed(code);
        *self.0.problem.borrow_mut() = Some(plain(detail));
        self.0.show();
    }

    fn retry(&self) -> bool {
        let again = self.0.stream.borrow_mut().retry();
        if !again {
            *self.0.problem.borrow_mut() =
                Some("The output came out of order several times. Reload the page to try again.".to_owned());
        }
        self.0.show();
        again
    }
}
