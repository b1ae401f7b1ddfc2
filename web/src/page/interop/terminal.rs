//! xterm.js as a place to show output, never to type.
//!
//! `xterm-js-rs` 0.1.2 binds version 4; what it does for version 6 as well is used. Bound here instead:
//! - `write`: the crate's `write_utf8(&[u8])` hands JavaScript a view into wasm memory that xterm.js parses later, when
//!   that memory may hold something else. Ours takes an array of its own, and a callback.
//! - `options` (version 6 has no `setOption`), `scrollLines` with negative amounts, `onScroll` and `onRender` with plain
//!   functions, markers.
//!
//! Output is hostile: no clipboard add-on, no title is used, answers to terminal queries (`onData`) go nowhere, and a
//! link opens nothing by itself: its real target is handed to the page, which shows it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gloo_events::EventListener;
use js_sys::{Function, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{HtmlElement, KeyboardEvent, ResizeObserver};
use xterm_js_rs::Terminal as Xterm;
use xterm_js_rs::addons::fit::FitAddon;
use xterm_js_rs::addons::unicode11::Unicode11Addon;

#[wasm_bindgen]
extern "C" {
    /// The same object as [`Xterm`], with what that type lacks.
    type More;
    #[wasm_bindgen(method, js_name = write)]
    fn write_bytes(this: &More, data: &Uint8Array, parsed: &Function);
    #[wasm_bindgen(method, js_name = write)]
    fn write_text(this: &More, data: &str);
    #[wasm_bindgen(method, js_name = scrollLines)]
    fn scroll_by(this: &More, lines: i32);
    #[wasm_bindgen(method, js_name = onRender)]
    fn on_render(this: &More, hear: &Function);
    #[wasm_bindgen(method, js_name = onScroll)]
    fn on_scroll(this: &More, hear: &Function);
    #[wasm_bindgen(method, getter)]
    fn options(this: &More) -> Object;
    #[wasm_bindgen(method, getter)]
    fn unicode(this: &More) -> Object;
    #[wasm_bindgen(method, js_name = registerMarker)]
    fn marker_at_cursor(this: &More) -> JsValue;
    #[wasm_bindgen(method, js_name = registerDecoration)]
    fn decorate(this: &More, options: &Object) -> JsValue;
    #[wasm_bindgen(method, js_name = scrollToLine)]
    fn scroll_to_line(this: &More, line: i32);

    /// `IBuffer`.
    type Active;
    #[wasm_bindgen(method, getter, js_name = viewportY)]
    fn viewport_y(this: &Active) -> i32;
    #[wasm_bindgen(method, getter, js_name = baseY)]
    fn base_y(this: &Active) -> i32;
    #[wasm_bindgen(method, getter, js_name = cursorY)]
    fn cursor_y(this: &Active) -> i32;

    /// `IDecoration`.
    type Decoration;
    #[wasm_bindgen(method, js_name = onRender)]
    fn on_drawn(this: &Decoration, hear: &Function);

    /// `IMarker`.
    type Marker;
    #[wasm_bindgen(method, getter)]
    fn line(this: &Marker) -> i32;
    #[wasm_bindgen(method)]
    fn dispose(this: &Marker);
}

/// Lines kept in the page. At 160 columns some 40 MB when full; beyond it the log is the place to look.
pub const SCROLLBACK_LINES: u32 = 20_000;
/// Below this size nothing is fitted: the element is hidden or being laid out.
const SMALLEST_PIXELS: i32 = 8;
/// Lines shown above the one that a link leads to.
const LINES_BEFORE_PLACE: i32 = 4;
/// Two presses of Escape within this time leave the output.
const TWICE_SECONDS: f64 = 0.6;

/// How far the reader is from the newest line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scroll {
    /// Scrolled up?
    pub away: bool,
    /// Lines that came since.
    pub new_lines: u64,
}

/// What the page wants to hear of the terminal.
pub struct Hear {
    /// The oldest write that was not reported yet has been parsed.
    pub parsed: Box<dyn Fn()>,
    /// Something was drawn or scrolled.
    pub moved: Box<dyn Fn()>,
    /// Someone activated a link with this real target.
    pub link: Box<dyn Fn(String)>,
    /// Someone wants to leave the output by the keyboard.
    pub leave: Box<dyn Fn()>,
}

impl std::fmt::Debug for Hear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hear")
    }
}

/// A terminal in an element. Dropping it takes it out again.
pub struct Terminal {
    raw: Xterm,
    parsed: Function,
    observer: ResizeObserver,
    mark: RefCell<Option<Marker>>,
    place: RefCell<Option<Marker>>,
    _touch: Vec<EventListener>,
    _kept: Kept,
}

/// Closures that JavaScript holds until the terminal is disposed of.
struct Kept {
    _resize: Closure<dyn Fn()>,
    _moved: Closure<dyn Fn()>,
    _key: Closure<dyn Fn(KeyboardEvent) -> bool>,
    _link: Closure<dyn Fn(JsValue, String)>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terminal")
    }
}

fn set(object: &Object, key: &str, value: impl Into<JsValue>) {
    // Fails only on frozen objects.
    let _ = Reflect::set(object, &key.into(), &value.into());
}

impl Terminal {
    /// Opens one that fills `parent`. `dark`: which palette; see [`palette`].
    pub fn open(parent: &HtmlElement, dark: bool, hear: Hear) -> Self {
        let Hear { parsed, moved, link, leave } = hear;
        let link = Closure::<dyn Fn(JsValue, String)>::new(move |_event, target: String| link(target));
        let link_handler = Object::new();
        set(&link_handler, "activate", link.as_ref().clone());
        // Others than http and https are not even offered.
        set(&link_handler, "allowNonHttpProtocols", false);

        let options = Object::new();
        set(&options, "allowProposedApi", true); // unicode versions
        set(&options, "convertEol", true); // pipes have bare line feeds
        set(&options, "cursorInactiveStyle", "none");
        set(&options, "cursorStyle", "bar");
        set(&options, "disableStdin", true);
        set(&options, "drawBoldTextInBrightColors", false);
        set(
            &options,
            "fontFamily",
            "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
        );
        set(&options, "fontSize", 13);
        set(&options, "lineHeight", 1.2);
        set(&options, "linkHandler", link_handler);
        set(&options, "minimumContrastRatio", 4.5);
        set(&options, "scrollback", SCROLLBACK_LINES);
        set(&options, "theme", palette(dark));
        let raw = Xterm::construct(Some(options.unchecked_ref()));

        let fit = Rc::new(FitAddon::new());
        raw.load_addon((*fit).clone().unchecked_into());
        raw.load_addon(Unicode11Addon::new().unchecked_into());
        let more: &More = raw.unchecked_ref();
        set(&more.unicode(), "activeVersion", "11");
        raw.open(parent.clone());
        // Hidden cursor: nobody types here.
        more.write_text("\u{1b}[?25l");

        let element = parent.clone();
        let resize = Closure::<dyn Fn()>::new(move || {
            if element.client_width() >= SMALLEST_PIXELS && element.client_height() >= SMALLEST_PIXELS {
                fit.fit();
            }
        });
        let observer =
            ResizeObserver::new(resize.as_ref().unchecked_ref()).expect("every browser that runs wasm has it");
        observer.observe(parent);

        let moved = Closure::<dyn Fn()>::new(moved);
        more.on_render(moved.as_ref().unchecked_ref());
        more.on_scroll(moved.as_ref().unchecked_ref());
        let key = key_handler(raw.clone().unchecked_into(), leave);
        raw.attach_custom_key_event_handler(key.as_ref().unchecked_ref());
        // Left to the browser's garbage collector: xterm.js may call it for writes that it parses after it was disposed of.
        let parsed = Closure::<dyn Fn()>::new(parsed).into_js_value().unchecked_into();

        // For the browser tests, which read the buffer through it.
        let _ = Reflect::set(parent, &"glassboxTerminal".into(), &raw);
        let touch = touch_scrolling(parent, raw.clone().unchecked_into());
        let kept = Kept { _resize: resize, _moved: moved, _key: key, _link: link };
        Self { raw, parsed, observer, mark: None.into(), place: None.into(), _touch: touch, _kept: kept }
    }

    fn more(&self) -> &More {
        self.raw.unchecked_ref()
    }

    fn active(&self) -> Active {
        self.raw.get_buffer().get_active().unchecked_into()
    }

    /// Output, in an array of its own (not a view into wasm memory); `parsed` is heard once for it.
    pub fn write(&self, bytes: &Uint8Array) {
        self.more().write_bytes(bytes, &self.parsed);
    }

    /// A rule with our own words on a line of its own. What the output left open (a sequence, a colour, a full screen)
    /// is closed first, because the bytes that would have closed it may be among the missing ones.
    pub fn write_rule(&self, text: &str) {
        self.more().write_text(&format!("\u{18}\u{1b}[?47l\u{1b}[!p\u{1b}[?25l\n\u{1b}[7m — {text} — \u{1b}[0m\n"));
    }

    /// Light or dark.
    pub fn set_dark(&self, dark: bool) {
        set(&self.more().options(), "theme", palette(dark));
    }

    /// Where the reader is. New lines are counted from the moment of leaving the end.
    pub fn scroll(&self) -> Scroll {
        let active = self.active();
        let mut mark = self.mark.borrow_mut();
        if active.viewport_y() >= active.base_y() {
            if let Some(mark) = mark.take() {
                mark.dispose();
            }
            return Scroll::default();
        }
        if mark.is_none() {
            let new = self.more().marker_at_cursor();
            *mark = (!new.is_undefined()).then(|| new.unchecked_into());
        }
        let end = active.base_y() + active.cursor_y();
        let new_lines = match mark.as_ref().map(Marker::line) {
            // Trimmed away: more came than is kept.
            Some(-1) => u64::from(SCROLLBACK_LINES),
            Some(line) => u64::try_from(end - line).unwrap_or(0),
            None => 0,
        };
        Scroll { away: true, new_lines }
    }

    /// The line where the output is now is what a link leads to: shown as such (class `linked-line`).
    pub fn mark_place(&self) {
        let marker = self.more().marker_at_cursor();
        if marker.is_undefined() {
            return;
        }
        let options = Object::new();
        set(&options, "marker", &marker);
        let decoration = self.more().decorate(&options);
        if !decoration.is_undefined() {
            let drawn = Closure::<dyn Fn(HtmlElement)>::new(|element: HtmlElement| {
                // Fails only for names with blanks.
                let _ = element.class_list().add_1("linked-line");
            });
            // Left to the browser's garbage collector, as `parsed` is.
            decoration.unchecked_ref::<Decoration>().on_drawn(drawn.into_js_value().unchecked_ref());
        }
        *self.place.borrow_mut() = Some(marker.unchecked_into());
    }

    /// To that line. True: there is a screen below it, so that it stays there.
    pub fn to_place(&self) -> bool {
        let Some(line) = self.place.borrow().as_ref().map(Marker::line) else { return true };
        let first = (line - LINES_BEFORE_PLACE).max(0);
        self.more().scroll_to_line(first);
        self.active().base_y() > first
    }

    /// To the newest line.
    pub fn to_live(&self) {
        self.raw.scroll_to_bottom();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.observer.disconnect();
        self.raw.dispose();
    }
}

/// Nobody types here, so keys scroll; everything else (Tab above all) is left to the browser: no keyboard trap.
fn key_handler(terminal: Xterm, leave: Box<dyn Fn()>) -> Closure<dyn Fn(KeyboardEvent) -> bool> {
    let last_escape = Cell::new(0.0);
    Closure::new(move |event: KeyboardEvent| {
        if event.type_() != "keydown" {
            return false;
        }
        let more: &More = terminal.unchecked_ref();
        let page = i32::try_from(terminal.get_rows()).unwrap_or(24) - 1;
        match event.key().as_str() {
            _ if event.ctrl_key() || event.meta_key() || event.alt_key() => return false,
            "Escape" => {
                let now = js_sys::Date::now() / 1000.0;
                if now - last_escape.replace(now) < TWICE_SECONDS {
                    leave();
                }
                return false;
            }
            "ArrowUp" => more.scroll_by(-1),
            "ArrowDown" => more.scroll_by(1),
            "PageUp" => more.scroll_by(-page),
            "PageDown" | " " => more.scroll_by(page),
            "Home" => terminal.scroll_to_top(),
            "End" => terminal.scroll_to_bottom(),
            _ => return false,
        }
        event.prevent_default();
        false
    })
}

/// xterm.js 6 does not scroll by touch: a finger moves the lines.
fn touch_scrolling(parent: &HtmlElement, terminal: Xterm) -> Vec<EventListener> {
    fn finger(event: &web_sys::Event) -> Option<f64> {
        let touches = Reflect::get(event, &"touches".into()).ok()?;
        let first = Reflect::get(&touches, &0.into()).ok()?;
        Reflect::get(&first, &"clientY".into()).ok()?.as_f64()
    }
    let last = Rc::new(Cell::new(None::<f64>));
    let start = EventListener::new(parent, "touchstart", {
        let last = last.clone();
        move |event| last.set(finger(event))
    });
    let element = parent.clone();
    let moved = EventListener::new(parent, "touchmove", move |event| {
        let (Some(before), Some(now)) = (last.get(), finger(event)) else { return };
        let rows = f64::from(terminal.get_rows().max(1));
        let line = (f64::from(element.client_height()) / rows).max(1.0);
        let lines = ((before - now) / line).trunc();
        if lines != 0.0 {
            terminal.unchecked_ref::<More>().scroll_by(lines as i32);
            last.set(Some(before - lines * line));
        }
    });
    vec![start, moved]
}

/// The terminal's colours; its background is `--terminal` of the style sheet.
pub fn palette(dark: bool) -> Object {
    const NAMES: [&str; 16] = [
        "black",
        "red",
        "green",
        "yellow",
        "blue",
        "magenta",
        "cyan",
        "white",
        "brightBlack",
        "brightRed",
        "brightGreen",
        "brightYellow",
        "brightBlue",
        "brightMagenta",
        "brightCyan",
        "brightWhite",
    ];
    const DARK: [&str; 16] = [
        "#3b444f", "#f28b82", "#8fce9b", "#e5c07b", "#82b1ff", "#cf9fee", "#79cdd6", "#d5dbe3", "#8b96a5", "#ff9e94",
        "#a5e0b0", "#f2d18f", "#9dc3ff", "#dcb4f6", "#94dfe7", "#f4f7fa",
    ];
    const LIGHT: [&str; 16] = [
        "#23282e", "#b3261e", "#1d6f3a", "#7a5600", "#1b5cb8", "#7b3aa8", "#0f6a75", "#5d656e", "#59616a", "#c4352b",
        "#217a42", "#855f00", "#2166c9", "#8a45ba", "#147682", "#3c444c",
    ];
    let theme = Object::new();
    for (name, colour) in NAMES.iter().zip(if dark { DARK } else { LIGHT }) {
        set(&theme, name, colour);
    }
    let [background, foreground, selection, slider] =
        if dark { ["#0b0e12", "#d5dbe3", "#2f4a63", "#8b96a5"] } else { ["#fffefb", "#23282e", "#cfe3f3", "#8a8578"] };
    for (name, opacity) in [
        ("scrollbarSliderBackground", "40"),
        ("scrollbarSliderHoverBackground", "70"),
        ("scrollbarSliderActiveBackground", "90"),
    ] {
        set(&theme, name, format!("{slider}{opacity}"));
    }
    set(&theme, "background", background);
    set(&theme, "foreground", foreground);
    set(&theme, "cursor", background);
    set(&theme, "selectionBackground", selection);
    theme
}
