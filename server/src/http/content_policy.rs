//! What the page may do, as a Content-Security-Policy: only what came from here, and of inline scripts only those that
//! were built into the page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The policy for this index page. Inline scripts (the import map, and what starts the wasm) are named by their hashes,
/// so one that someone manages to inject does not run. Styles may be inline: xterm.js sets them.
pub(super) fn of_page(html: &str) -> String {
    let scripts: Vec<String> = inline_scripts(html).into_iter().map(source).collect();
    [
        "default-src 'none'",
        &format!("script-src 'self' 'wasm-unsafe-eval' {}", scripts.join(" ")),
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self'",
        // Pictures out of a sandbox are drawn from bytes in the tab (`web/src/page/files/view.rs`), never from an address.
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    .join("; ")
}

/// A script's name in the policy.
fn source(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

/// The contents of all `<script>` elements without `src`. The page is our own build's, not hostile; this only has to
/// understand what trunk writes.
fn inline_scripts(html: &str) -> Vec<&str> {
    // ASCII only, so that offsets are the same in both.
    let lower = html.to_ascii_lowercase();
    let mut scripts = Vec::new();
    let mut at = 0;
    while let Some(found) = lower[at..].find("<script") {
        let tag = at + found;
        let Some(open) = lower[tag..].find('>').map(|end| tag + end + 1) else { break };
        let Some(close) = lower[open..].find("</script").map(|end| open + end) else { break };
        if !lower[tag..open].split_whitespace().any(|word| word.starts_with("src=")) {
            scripts.push(&html[open..close]);
        }
        at = close;
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_scripts_are_named_by_hash_and_linked_ones_by_origin() {
        let html = r#"<html><head><script type="importmap">{"imports":{}}</script>
            <SCRIPT src="/x.js"></SCRIPT><script type="module">alert(1)</script></head></html>"#;
        assert_eq!(
            inline_scripts(html),
            [r#"{"imports":{}}"#, "", "alert(1)"].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>()
        );
        let policy = of_page(html);
        // echo -n 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert!(policy.contains("'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"), "{policy}");
        assert_eq!(policy.matches("sha256-").count(), 2);
        assert!(!policy.contains("script-src 'self' 'unsafe-inline'"));
    }

    #[test]
    fn a_page_that_breaks_off_is_no_reason_to_panic() {
        for html in ["", "<script", "<script>", "<script>x", "<script>x</script", "ü<script>ü</script>"] {
            let _ = of_page(html);
        }
    }
}
