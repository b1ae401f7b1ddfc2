//! Small things that the browser does for the page.

use js_sys::{Date, Object, Reflect};
use wasm_bindgen::JsValue;
use web_sys::Storage;

use leptos::prelude::{document, window};

/// The wall clock, Unix seconds.
pub fn now() -> f64 {
    Date::now() / 1000.0
}

/// A moment in the reader's own zone and words, with seconds.
pub fn exact_time(unix_seconds: f64) -> String {
    let date = Date::new(&JsValue::from_f64(unix_seconds * 1000.0));
    let options = Object::new();
    for (key, value) in [("dateStyle", "medium"), ("timeStyle", "medium")] {
        // A plain new object takes every property.
        let _ = Reflect::set(&options, &key.into(), &value.into());
    }
    date.to_locale_string("default", &options).into()
}

fn storage() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

/// Something remembered in this browser; `None` also where storage is forbidden.
pub fn remembered(key: &str) -> Option<String> {
    storage()?.get_item(&format!("glassbox.{key}")).ok().flatten()
}

/// Remembers it, where the browser lets us.
pub fn remember(key: &str, value: &str) {
    if let Some(storage) = storage() {
        let _ = storage.set_item(&format!("glassbox.{key}"), value);
    }
}

/// Copies text. False: the browser refused (no permission, or the page is not secure).
pub async fn copy(text: &str) -> bool {
    let navigator = window().navigator();
    // `clipboard` is undefined on pages that are not secure.
    if Reflect::get(&navigator, &"clipboard".into()).map_or(true, |clipboard| clipboard.is_undefined()) {
        return false;
    }
    wasm_bindgen_futures::JsFuture::from(navigator.clipboard().write_text(text)).await.is_ok()
}

/// An address in this tab for bytes of a kind that the page knows; [`let_go`] of it when it is not shown any more.
pub fn blob_address(bytes: &[u8], kind: &str) -> Option<String> {
    let parts = js_sys::Array::of1(&js_sys::Uint8Array::from(bytes));
    let options = web_sys::BlobPropertyBag::new();
    options.set_type(kind);
    let blob = web_sys::Blob::new_with_u8_array_sequence_and_options(&parts, &options).ok()?;
    web_sys::Url::create_object_url_with_blob(&blob).ok()
}

/// Frees the bytes behind such an address.
pub fn let_go(address: &str) {
    // Fails for no text that is an address.
    let _ = web_sys::Url::revoke_object_url(address);
}

/// Does a media query match now?
pub fn matches(query: &str) -> bool {
    window().match_media(query).ok().flatten().is_some_and(|list| list.matches())
}

/// The address that this page came from, such as `http://localhost:7070`.
pub fn origin() -> String {
    window().location().origin().unwrap_or_default()
}

/// The live socket's address.
pub fn socket_url() -> String {
    format!("{}/v1/ws", origin().replacen("http", "ws", 1))
}

/// Takes `#link=TOKEN` out of the address bar, so that neither the history nor a glance over the shoulder keeps it.
pub fn take_link() -> Option<String> {
    let location = window().location();
    let token = location.hash().ok()?.strip_prefix("#link=")?.to_owned();
    let path = location.pathname().unwrap_or_else(|_| "/".to_owned());
    let _ = window().history().ok()?.replace_state_with_url(&JsValue::NULL, "", Some(&path));
    (!token.is_empty()).then_some(token)
}

/// Sets the theme of the page; `None` follows the system.
pub fn set_theme(theme: Option<&str>) {
    if let Some(root) = document().document_element() {
        let _ = match theme {
            Some(theme) => root.set_attribute("data-theme", theme),
            None => root.remove_attribute("data-theme"),
        };
    }
}

/// Sets a length that the style sheet uses.
pub fn set_length(name: &str, pixels: i32) {
    use wasm_bindgen::JsCast;
    if let Some(root) = document().document_element() {
        let root: web_sys::HtmlElement = root.unchecked_into();
        let _ = root.style().set_property(name, &format!("{pixels}px"));
    }
}

/// The icon of the tab: the glass, with a dot in the colour of what goes on.
pub fn set_icon(dot: Option<&str>) {
    let dot = dot.map_or_else(String::new, |colour| {
        format!("<circle cx='24' cy='24' r='7' fill='{colour}' stroke='%23ffffff' stroke-width='2'/>")
    });
    let image = format!(
        "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>\
         <rect x='3' y='3' width='26' height='26' rx='7' fill='%2317565e'/>\
         <path d='M9 12l5 4-5 4M16 21h7' fill='none' stroke='%23dff3f5' stroke-width='2.5' stroke-linecap='round' \
         stroke-linejoin='round'/>{dot}</svg>"
    );
    if let Ok(Some(link)) = document().query_selector("link[rel=icon]") {
        let _ = link.set_attribute("href", &image.replace('<', "%3C").replace('>', "%3E"));
    }
}

/// Does a text field, a terminal or a dialog have the focus? Then letters belong to it.
pub fn is_typing() -> bool {
    let open_dialog = document().query_selector("dialog[open]").ok().flatten().is_some();
    open_dialog
        || document().active_element().is_some_and(|element| {
            let closest = |selector| element.closest(selector).ok().flatten().is_some();
            // A dialog that has just been closed keeps the focus until the browser draws again.
            closest("input, textarea, select, [contenteditable], .xterm") && !closest("dialog:not([open])")
        })
}
