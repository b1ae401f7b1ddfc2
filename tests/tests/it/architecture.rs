//! The directions of dependencies, as `server/src/lib.rs` lists them from top to bottom: each may use only those below it.

use std::path::{Path, PathBuf};

use crate::source::{Written, paths, sources};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The list in the library's documentation: its modules from top to bottom, with the rank of each. Names on one line have
/// one rank and do not use each other.
fn ranks() -> Vec<(String, usize)> {
    let text = std::fs::read_to_string(repository().join("server/src/lib.rs")).expect("the library's root");
    let block = text
        .split("//! ```text\n")
        .nth(1)
        .and_then(|rest| rest.split("//! ```").next())
        .expect("its documentation has the list");
    let mut ranks = Vec::new();
    for (rank, line) in block.lines().enumerate() {
        // `name      what it is for`, or `name, name`
        let line = line.trim_start_matches("//!").trim();
        let names = line.split("  ").next().expect("a first part");
        ranks.extend(names.split(',').map(|name| (name.trim().to_owned(), rank)));
    }
    ranks
}

/// The module of a source file: its folders and its name, from the crate's root.
fn module_of(file: &Path) -> Vec<String> {
    let mut words: Vec<String> =
        file.with_extension("").iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if matches!(words.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        words.pop();
    }
    words
}

/// The path from the crate's root that is meant; `None`: it leads to another crate, or is a name in scope.
fn from_root(module: &[String], path: &Written) -> Option<Vec<String>> {
    let words = &path.words;
    if matches!(words[0].as_str(), "crate" | "glassbox") && words.len() > 1 {
        return Some(words[1..].to_vec());
    }
    let ups = words.iter().take_while(|word| *word == "super").count();
    // The first steps up may only lead out of inline modules.
    let ups_of_file = ups.saturating_sub(path.inside);
    if ups == 0 || ups_of_file == 0 || ups_of_file > module.len() {
        return None;
    }
    let mut absolute = module[..module.len() - ups_of_file].to_vec();
    absolute.extend_from_slice(&words[ups..]);
    Some(absolute)
}

/// Does some path of the file begin with this word, or name it alone?
fn names<'a>(paths: &'a [Written], word: &str) -> Option<&'a Written> {
    paths.iter().find(|path| path.words[0] == word)
}

#[test]
fn every_module_of_the_server_uses_only_those_below_it() {
    let ranks = ranks();
    let rank = |name: &str| ranks.iter().find(|(known, _)| known == name).map(|(_, rank)| *rank);
    assert!(ranks.len() >= 10, "{ranks:?}");
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for (file, text) in sources(&repository().join("server/src")) {
        let module = module_of(&file);
        let Some(own) = module.first().cloned() else { continue };
        let shown = file.display();
        let Some(own_rank) = rank(&own) else {
            wrong.push(format!("{shown}: {own} is not in the list of server/src/lib.rs"));
            continue;
        };
        for path in paths(&text) {
            let Some(used) = from_root(&module, &path).and_then(|absolute| absolute.into_iter().next()) else {
                continue;
            };
            looked_at += 1;
            let written = path.words.join("::");
            match rank(&used) {
                _ if used == own => {}
                Some(rank) if rank > own_rank => {}
                Some(_) => wrong.push(format!("{shown}:{}: {own} is below {used}: {written}", path.line)),
                None => wrong.push(format!("{shown}:{}: {used} is not in the list: {written}", path.line)),
            }
        }
    }
    assert!(looked_at > 100, "only {looked_at} paths were found, so they are not read as they should be");
    assert!(wrong.is_empty(), "wrong directions, by the list in server/src/lib.rs:\n{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_the_list_and_declared() {
    let declared = std::fs::read_to_string(repository().join("server/src/lib.rs")).expect("the library's root");
    for (name, _) in ranks() {
        assert!(
            declared.contains(&format!("mod {name};")),
            "{name} is in the list of server/src/lib.rs and not declared there"
        );
    }
    for line in declared.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")) {
        let name = line.trim_end_matches(';');
        assert!(
            ranks().iter().any(|(known, _)| known == name),
            "{name} is declared in server/src/lib.rs and not in its list"
        );
    }
}

#[test]
fn each_foreign_interface_has_one_home() {
    let homes: [(&str, &[&str]); 6] = [
        ("bollard", &["runtime/docker"]),
        ("rusqlite", &["store"]),
        ("rusqlite_migration", &["store"]),
        ("axum", &["http"]),
        ("tower_http", &["http"]),
        ("clap", &["cli", "server/config"]),
    ];
    let mut wrong = Vec::new();
    for (file, text) in sources(&repository().join("server/src")) {
        let paths = paths(&text);
        for (name, homes) in homes {
            if homes.iter().any(|home| file.starts_with(home)) {
                continue;
            }
            if let Some(path) = names(&paths, name) {
                wrong.push(format!("{}:{}: {name} is only for {homes:?}", file.display(), path.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shared_does_no_input_or_output_and_reads_no_clock() {
    let forbidden = ["fs", "net", "process", "thread", "io", "os", "env"];
    let mut wrong = Vec::new();
    for (file, text) in sources(&repository().join("shared/src")) {
        for path in paths(&text) {
            let words: Vec<&str> = path.words.iter().map(String::as_str).collect();
            let bad = match words[..] {
                ["tokio" | "reqwest" | "hyper" | "libc" | "rand", ..] => true,
                ["std", module, ..] if forbidden.contains(&module) => true,
                ["std", "time", what, ..] => what != "Duration",
                _ => false,
            };
            if bad {
                wrong.push(format!("shared/src/{}:{}: {}", file.display(), path.line, path.words.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "shared builds for wasm and does no I/O:\n{}", wrong.join("\n"));
    let manifest = std::fs::read_to_string(repository().join("shared/Cargo.toml")).expect("its manifest");
    let dependencies =
        manifest.split("[dependencies]").nth(1).expect("dependencies").split("\n[").next().expect("a section");
    for line in dependencies.lines().filter(|line| line.contains('=') || line.contains(".workspace")) {
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        assert!(
            ["serde", "serde_json", "thiserror", "utoipa"].contains(&name),
            "shared depends on {name}; is that I/O-free and small?"
        );
    }
}

#[test]
fn a_wrong_direction_would_be_found() {
    let module = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let resolve = |module: &[String], text: &str| -> Vec<String> {
        paths(text).iter().filter_map(|path| from_root(module, path)).map(|words| words.join("::")).collect()
    };
    assert_eq!(resolve(&module(&["store", "keys"]), "use super::super::http::Thing;"), ["http::Thing"]);
    assert_eq!(resolve(&module(&["store"]), "fn f() { super::http::g() }"), ["http::g"]);
    assert_eq!(resolve(&module(&["store"]), "mod tests { use super::*; use super::super::http; }"), ["http"]);
    assert_eq!(resolve(&module(&["store"]), "tokio::select! { x = crate::http::g() => {} }"), ["http::g"]);
    assert_eq!(module_of(Path::new("http/live/stream.rs")), ["http", "live", "stream"]);
    assert_eq!(module_of(Path::new("http/mod.rs")), ["http"]);
}
