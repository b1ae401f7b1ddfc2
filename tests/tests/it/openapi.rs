//! The `OpenAPI` document is a reviewed file: a change of the API shows in the diff. `UPDATE_SNAPSHOTS=1` writes it anew.

use std::path::Path;

use glassbox_tests::TestServer;
use reqwest::Method;
use serde_json::Value;

fn snapshot() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/openapi.json")
}

#[tokio::test]
async fn the_document_is_the_reviewed_one() {
    let server = TestServer::start().await;
    let document: Value = server.operator().without_key().get("/openapi.json").await.ok().expect("needs no key");
    let text = serde_json::to_string_pretty(&document).expect("plain data") + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(snapshot(), &text).expect("the snapshot can be written");
        return;
    }
    let reviewed = std::fs::read_to_string(snapshot()).unwrap_or_default();
    let differs = text.lines().zip(reviewed.lines()).find(|(now, then)| now != then);
    assert!(
        text == reviewed,
        "the API differs from tests/snapshots/openapi.json, first at {differs:?}. Is that wanted? Then write it anew with \
         UPDATE_SNAPSHOTS=1 cargo nextest run -p glassbox-tests openapi, and look at the difference."
    );
}

#[tokio::test]
async fn every_documented_parameter_is_where_it_is_looked_for() {
    let server = TestServer::start().await;
    let document: Value = server.operator().without_key().get("/openapi.json").await.ok().expect("needs no key");
    let mut in_queries = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let mut in_path: Vec<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        in_path.sort_unstable();
        for (method, operation) in methods.as_object().expect("methods") {
            let all = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let named = |place: &str| {
                let there = all.iter().filter(|parameter| parameter["in"] == place);
                let mut names: Vec<&str> = there.filter_map(|parameter| parameter["name"].as_str()).collect();
                names.sort_unstable();
                names
            };
            assert_eq!(named("path"), in_path, "{method} {path}: its path's parameters are these and no others");
            let others = [named("query"), named("header")].concat();
            assert_eq!(others.len() + in_path.len(), all.len(), "{method} {path}: the others are in query or header");
            assert!(others.iter().all(|name| !in_path.contains(name)), "{method} {path}: {others:?}");
            in_queries += named("query").len();
        }
    }
    assert!(in_queries >= 10, "the document has parameters of queries");
}

#[tokio::test]
async fn every_documented_route_exists_and_asks_for_a_key_unless_it_says_otherwise() {
    let server = TestServer::start().await;
    let nobody = server.operator().without_key();
    let document: Value = nobody.get("/openapi.json").await.ok().expect("needs no key");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() >= 10, "the document has its routes");
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let Ok(method) = method.to_ascii_uppercase().parse::<Method>() else { continue };
            let public = operation["security"].as_array().is_some_and(|security| {
                security.iter().all(|one| one.as_object().is_some_and(serde_json::Map::is_empty))
            });
            let concrete = path
                .replace("{session_id}", "sbx_aaaaaaaaaaaaaaaaaaaa")
                .replace("{command_id}", "cmd_aaaaaaaaaaaaaaaaaaaa")
                .replace("{upload_id}", "upl_aaaaaaaaaaaaaaaaaaaa")
                .replace("{key_id}", "key_aaaaaaaaaaaaaaaaaaaa");
            let answer = nobody.send(nobody.request(method.clone(), &concrete)).await;
            assert!(!matches!(answer.status, 404 | 405), "{method} {path} is documented and is not there");
            assert_eq!(answer.status == 401, !public, "{method} {path}: {}", answer.status);
            assert!(
                operation["responses"].as_object().is_some_and(|responses| !responses.is_empty()),
                "{method} {path} says what it answers"
            );
        }
    }
}
