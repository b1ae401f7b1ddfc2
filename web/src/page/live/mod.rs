//! The live socket: one a tab. Feeds the store with events and the watchers with output, and comes back by itself.

mod lists;
mod watch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gloo_events::EventListener;
use gloo_timers::callback::{Interval, Timeout};
use leptos::prelude::*;
use leptos::task::spawn_local;

use glassbox_shared::id::{CommandId, SessionId};
use glassbox_shared::live::{EngineTrouble, Event, FromServer, FromViewer, SUBPROTOCOL, close};

use super::api::{self, Failure};
use super::clock::Clock;
use super::interop::browser;
use super::interop::socket::{Incoming, Socket};
use super::store::Store;
use crate::state::connection::{Line, OPEN_DEADLINE_SECONDS, Verdict, Watchdog, backoff_ms};
use crate::state::feed::{Feed, Step};
use crate::state::message;
use watch::Watched;
pub use watch::{Watch, Watcher};

/// From this many failed attempts on, the sign-in is checked as well: a refused upgrade does not tell why.
const DOUBT_AFTER_FAILURES: u32 = 2;

struct Inner {
    store: Store,
    clock: Clock,
    line: RwSignal<Line>,
    engine: RwSignal<Option<EngineTrouble>>,
    wanted: Cell<bool>,
    greeted: Cell<bool>,
    socket: RefCell<Option<Socket>>,
    opened_at: Cell<f64>,
    watchdog: RefCell<Watchdog>,
    failures: Cell<u32>,
    retry: RefCell<Option<Timeout>>,
    feed: RefCell<Feed>,
    loads: Cell<u32>,
    held: RefCell<Vec<Event>>,
    next_stream: Cell<u32>,
    watched: RefCell<Vec<Rc<Watched>>>,
    signed_out: Box<dyn Fn()>,
}

/// Handle to it.
#[derive(Debug, Clone, Copy)]
pub struct Live {
    inner: StoredValue<Rc<Inner>, LocalStorage>,
    /// How the line is.
    pub line: RwSignal<Line>,
    /// What is wrong with the container engine, as far as the server said.
    pub engine: RwSignal<Option<EngineTrouble>>,
}

impl Live {
    /// Prepares it; [`Live::start`] connects. `signed_out` is called when the server does not know us any more.
    pub fn new(store: Store, clock: Clock, signed_out: impl Fn() + 'static) -> Self {
        let line = RwSignal::new(Line::Connecting);
        let engine = RwSignal::new(None);
        let inner = Rc::new(Inner {
            store,
            clock,
            line,
            engine,
            wanted: Cell::new(false),
            greeted: Cell::new(false),
            socket: RefCell::new(None),
            opened_at: Cell::new(0.0),
            watchdog: RefCell::new(Watchdog::new(browser::now())),
            failures: Cell::new(0),
            retry: RefCell::new(None),
            feed: RefCell::default(),
            loads: Cell::new(0),
            held: RefCell::default(),
            next_stream: Cell::new(1),
            watched: RefCell::default(),
            signed_out: Box::new(signed_out),
        });
        // These live as long as the page.
        let ticking = Rc::clone(&inner);
        Interval::new(1000, move || ticking.tick()).forget();
        let hear = |target: &web_sys::EventTarget, name: &'static str| {
            let inner = Rc::clone(&inner);
            EventListener::new(target, name, move |_| inner.someone_is_back()).forget();
        };
        for name in ["online", "focus", "pageshow"] {
            hear(&window(), name);
        }
        hear(&document(), "visibilitychange");
        Self { inner: StoredValue::new_local(inner), line, engine }
    }

    fn inner(self) -> Rc<Inner> {
        self.inner.get_value()
    }

    /// Signed in: connects, and stays connected.
    pub fn start(self) {
        let inner = self.inner();
        inner.wanted.set(true);
        inner.failures.set(0);
        inner.line.set(Line::Connecting);
        inner.connect();
    }

    /// Signed out.
    pub fn stop(self) {
        let inner = self.inner();
        inner.wanted.set(false);
        inner.retry.take();
        let socket = inner.socket.take();
        drop(socket);
        *inner.feed.borrow_mut() = Feed::default();
        inner.store.clear();
        inner.line.set(Line::SignedOut);
    }

    /// Shows a command's output from now on.
    pub fn watch(self, session: SessionId, command: CommandId, watcher: &Rc<dyn Watcher>) -> Watch {
        let inner = self.inner();
        let watched = Rc::new(Watched { stream: Cell::new(0), session, command, watcher: Rc::downgrade(watcher) });
        inner.watched.borrow_mut().push(Rc::clone(&watched));
        inner.open_stream(&watched);
        Watch { inner, watched }
    }

    /// Runs a call whose answer goes into the store; events that overtake the answer are applied again after it.
    pub fn load<T: 'static>(
        self,
        call: impl Future<Output = Result<T, Failure>> + 'static,
        take: impl FnOnce(Result<T, Failure>) + 'static,
    ) {
        self.inner().load(call, take);
    }
}

impl Inner {
    fn say(&self, message: &FromViewer) {
        if let (true, Some(socket)) = (self.greeted.get(), self.socket.borrow().as_ref()) {
            socket.send(&serde_json::to_string(message).expect("plain data"));
        }
    }

    fn connect(self: &Rc<Self>) {
        if !self.wanted.get() {
            return;
        }
        self.retry.take();
        self.greeted.set(false);
        self.opened_at.set(browser::now());
        let old = self.socket.take();
        drop(old);
        let weak = Rc::downgrade(self);
        let opened = Socket::open(&browser::socket_url(), SUBPROTOCOL, move |incoming| {
            if let Some(inner) = weak.upgrade() {
                inner.incoming(incoming);
            }
        });
        match opened {
            Ok(socket) => *self.socket.borrow_mut() = Some(socket),
            Err(_) => self.lost(None),
        }
    }

    fn incoming(self: &Rc<Self>, incoming: Incoming) {
        self.watchdog.borrow_mut().message(browser::now());
        match incoming {
            Incoming::Text(text) => match message::read(&text) {
                Ok(message) => self.message(message),
                // A newer server may say more than this page knows.
                Err(error) => leptos::logging::warn!("live: {error}"),
            },
            Incoming::Bytes(buffer) => self.bytes(&buffer),
            Incoming::Closed(code) => self.lost(Some(code)),
        }
    }

    fn message(self: &Rc<Self>, message: FromServer) {
        match message {
            FromServer::Hello { epoch, sequence, now } => {
                self.clock.server_says(now);
                self.greeted.set(true);
                self.failures.set(0);
                *self.watchdog.borrow_mut() = Watchdog::new(browser::now());
                self.line.set(Line::Live);
                // Where there still is trouble, the server says so next.
                self.engine.set(None);
                let step = self.feed.borrow_mut().hello(&epoch, sequence);
                if step == Step::Reload {
                    self.load_lists();
                }
                let all: Vec<Rc<Watched>> = self.watched.borrow().clone();
                for watched in all {
                    self.open_stream(&watched);
                }
            }
            FromServer::Event { sequence, event } => {
                let step = self.feed.borrow_mut().event(sequence);
                if step != Step::Skip {
                    self.event(event);
                }
                if step == Step::Reload {
                    self.load_lists();
                }
            }
            FromServer::Reload { sequence } => {
                self.feed.borrow_mut().reload(sequence);
                self.load_lists();
            }
            FromServer::Watching { stream, offset } => self.stream(stream, |watcher| watcher.opened(offset)),
            FromServer::Gap { stream, from, to, reason } => {
                self.stream(stream, |watcher| watcher.gap(from, to, reason));
            }
            FromServer::StreamEnd { stream, offset, complete } => {
                self.stream(stream, |watcher| watcher.end(offset, complete));
            }
            FromServer::StreamError { stream, code, detail } => self.stream(stream, |watcher| {
                watcher.failed(Some(code), &detail);
                Ok(())
            }),
            FromServer::Engine { trouble } => self.engine.set(trouble),
            FromServer::Heartbeat { now } => {
                self.clock.server_says(now);
                self.say(&FromViewer::Heartbeat);
            }
        }
    }

    fn event(&self, event: Event) {
        if self.loads.get() > 0 {
            self.held.borrow_mut().push(event.clone());
        }
        self.store.change(|world| world.apply(event));
    }

    /// The connection broke, or an attempt failed.
    fn lost(self: &Rc<Self>, code: Option<u16>) {
        let socket = self.socket.take();
        drop(socket);
        self.greeted.set(false);
        if !self.wanted.get() {
            return;
        }
        if code == Some(close::SIGNED_OUT) {
            (self.signed_out)();
            return;
        }
        self.line.update(|line| line.lost(browser::now()));
        let all: Vec<Rc<Watched>> = self.watched.borrow().clone();
        for watched in all {
            watched.stream.set(0);
            if let Some(watcher) = watched.watcher.upgrade() {
                watcher.away();
            }
        }
        let failures = self.failures.get();
        self.failures.set(failures + 1);
        let inner = Rc::clone(self);
        let wait = backoff_ms(failures, js_sys::Math::random());
        *self.retry.borrow_mut() = Some(Timeout::new(wait, move || inner.connect()));
        if failures >= DOUBT_AFTER_FAILURES {
            let inner = Rc::clone(self);
            spawn_local(async move {
                if api::me().await.is_err_and(|failure| failure.signed_out()) {
                    (inner.signed_out)();
                }
            });
        }
    }

    fn tick(self: &Rc<Self>) {
        let now = browser::now();
        if self.socket.borrow().is_none() {
            return;
        }
        if !self.greeted.get() {
            if now - self.opened_at.get() > OPEN_DEADLINE_SECONDS {
                self.lost(None);
            }
            return;
        }
        let verdict = self.watchdog.borrow_mut().tick(now);
        match verdict {
            Verdict::Fine => {}
            Verdict::Silent => self.lost(None),
            Verdict::Woke => self.connect_now(),
        }
    }

    /// The tab is looked at again, or the network is back: do not wait, and do not trust an old connection.
    fn someone_is_back(self: &Rc<Self>) {
        if !self.wanted.get() || document().hidden() {
            return;
        }
        let waiting = self.socket.borrow().is_none();
        let stale = self.greeted.get() && self.watchdog.borrow().is_stale(browser::now());
        if waiting || stale {
            self.connect_now();
        }
    }

    fn connect_now(self: &Rc<Self>) {
        self.failures.set(0);
        self.lost(None);
        self.connect();
    }
}

/// The page's live socket.
pub fn use_live() -> Live {
    expect_context::<Live>()
}
