//! Colours in a text without a single element: the text stays one text node, and ranges of it are named to the browser
//! (the CSS custom highlight API, which `web-sys` does not have yet). Where a browser lacks it, the text is plain.

use js_sys::{Function, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::HtmlElement;

use leptos::prelude::{document, window};

use crate::state::content::Kind;

const NAMES: [(Kind, &str); 4] = [
    (Kind::Comment, "code-comment"),
    (Kind::Quoted, "code-quoted"),
    (Kind::Number, "code-number"),
    (Kind::Keyword, "code-keyword"),
];

fn get(object: &JsValue, key: &str) -> Option<JsValue> {
    Reflect::get(object, &key.into()).ok().filter(|value| !value.is_undefined())
}

/// `CSS.highlights`, and the class of what goes into it.
fn registry() -> Option<(JsValue, Function)> {
    let window = window();
    let registry = get(&get(&window, "CSS")?, "highlights")?;
    let class = get(&window, "Highlight")?.dyn_into().ok()?;
    Some((registry, class))
}

fn call(object: &JsValue, name: &str, arguments: &[&JsValue]) {
    if let Some(function) = get(object, name).and_then(|function| function.dyn_into::<Function>().ok()) {
        // Fails only for arguments of another kind than ours.
        let _ =
            Reflect::apply(&function, object, &arguments.iter().map(|one| (*one).clone()).collect::<js_sys::Array>());
    }
}

/// Puts the text into the element, with these parts coloured (start, end in bytes; in order).
pub fn paint(element: &HtmlElement, text: &str, parts: &[(usize, usize, Kind)]) {
    element.set_text_content(Some(text));
    let Some(node) = element.first_child() else { return };
    let Some((registry, class)) = registry() else { return };
    let mut highlights = Vec::new();
    for (kind, name) in NAMES {
        let Ok(highlight) = Reflect::construct(&class, &js_sys::Array::new()) else { return };
        highlights.push((kind, name, highlight));
    }
    // JavaScript counts in UTF-16.
    let (mut at, mut units) = (0, 0);
    let mut to_units = |byte: usize| {
        units += text[at..byte].encode_utf16().count() as u32;
        at = byte;
        units
    };
    for (start, end, kind) in parts {
        let (start, end) = (to_units(*start), to_units(*end));
        let Ok(range) = document().create_range() else { return };
        if range.set_start(&node, start).is_err() || range.set_end(&node, end).is_err() {
            return;
        }
        if let Some((.., highlight)) = highlights.iter().find(|(other, ..)| other == kind) {
            call(highlight, "add", &[&range]);
        }
    }
    for (_, name, highlight) in &highlights {
        call(&registry, "set", &[&JsValue::from(*name), highlight]);
    }
}

/// Forgets the ranges.
pub fn clear() {
    if let Some((registry, _)) = registry() {
        call(&registry, "clear", &[]);
    }
}
