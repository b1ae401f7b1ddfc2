//! Reading Rust sources as tokens: every path that is written in them, wherever it stands.
//!
//! Comments, text and line breaks cannot hide a path, and macros' arguments are looked into like everything else.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path as it is written, for example `crate::store::Store`, with the groups of a `use` taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its words.
    pub words: Vec<String>,
    /// How many inline modules (`mod tests { … }`) it stands in.
    pub inside: usize,
    /// Where.
    pub line: usize,
}

/// All paths of a source text. A single word is a path too.
pub fn paths(text: &str) -> Vec<Written> {
    let tokens = TokenStream::from_str(text).unwrap_or_else(|error| panic!("not Rust: {error}"));
    let mut found = Vec::new();
    walk(tokens, 0, &mut found);
    found
}

fn walk(tokens: TokenStream, inside: usize, found: &mut Vec<Written>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(_) => {
                if let [TokenTree::Ident(word), TokenTree::Ident(_), TokenTree::Group(body), ..] = &tokens[at..]
                    && word == "mod"
                    && body.delimiter() == Delimiter::Brace
                {
                    walk(body.stream(), inside + 1, found);
                    at += 3;
                } else {
                    at = path(&tokens, at, &[], inside, found);
                }
            }
            TokenTree::Group(group) => {
                walk(group.stream(), inside, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(first), TokenTree::Punct(second), ..]
        if first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':')
}

/// Reads the path that begins at a word, after `before`; where to go on.
fn path(tokens: &[TokenTree], mut at: usize, before: &[String], inside: usize, found: &mut Vec<Written>) -> usize {
    let line = tokens[at].span().start().line;
    let mut words = before.to_vec();
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) => words.push(word.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                // `use a::{b, c::d}`
                let parts: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut part = 0;
                while part < parts.len() {
                    part = match &parts[part] {
                        TokenTree::Ident(_) => path(&parts, part, &words, inside, found),
                        _ => part + 1,
                    };
                }
                return at + 1;
            }
            // `a::*`, `a::<T>`
            _ => break,
        }
        at += 1;
        if !is_path_separator(&tokens[at.min(tokens.len())..]) {
            break;
        }
        at += 2;
    }
    found.push(Written { words, inside, line });
    at
}

/// All Rust sources below a folder, each with its path from there.
pub fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                found.push((path.strip_prefix(folder).expect("below it").to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let text = r#"
        use crate::{clock, store::{records::{A, B}, Store as S}}; // crate::comment
        fn f() -> super::x::Y { println!("crate::text {}", crate::inner::<u8>()); <crate::q::R as Z>::new() }
        mod tests { use super::super::deep; }
    "#;
    let found: Vec<(String, usize)> =
        paths(text).into_iter().map(|path| (path.words.join("::"), path.inside)).collect();
    let has = |path: &str, inside: usize| found.contains(&(path.to_owned(), inside));
    for path in [
        "crate::clock",
        "crate::store::records::A",
        "crate::store::records::B",
        "crate::store::Store",
        "super::x::Y",
        "crate::inner",
        "crate::q::R",
    ] {
        assert!(has(path, 0), "{path}: {found:?}");
    }
    assert!(has("super::super::deep", 1), "{found:?}");
    assert!(!found.iter().any(|(path, _)| path.contains("comment") || path.contains("text")), "{found:?}");
}
