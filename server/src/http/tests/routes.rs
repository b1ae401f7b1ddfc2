use std::time::Duration;

use axum::http::{Method, StatusCode, header};
use glassbox_shared::command::output_headers;
use glassbox_shared::error::ErrorCode;
use serde_json::json;

use super::support::{Answer, TestApp};

fn refused(answer: &Answer, code: ErrorCode) {
    assert_eq!(answer.status.as_u16(), code.status(), "{answer:?}");
    let body = answer.json();
    assert_eq!(body["code"], serde_json::to_value(code).expect("a word"), "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    assert_eq!(body["request_id"], answer.header("x-request-id"));
}

/// The same in the history, which answers for live sessions, too.
fn in_history(path: &str) -> String {
    path.replacen("/v1/sessions/", "/v1/history/", 1)
}

#[tokio::test]
async fn health_needs_no_key_and_everything_else_does() {
    let app = TestApp::start().await;
    let health = app.get("/healthz").send().await;
    assert_eq!(health.status, StatusCode::OK);
    assert_eq!(health.json()["status"], "healthy");
    for path in ["/v1/me", "/v1/sessions", "/v1/sessions/nonsense", "/v1/keys", "/v1/ws", "/v1/does-not-exist"] {
        refused(&app.get(path).send().await, ErrorCode::Unauthorized);
        refused(&app.get(path).key("wrong").send().await, ErrorCode::Unauthorized);
    }
}

#[tokio::test]
async fn a_wrong_key_is_told_before_a_wrong_body_or_an_unknown_object() {
    let app = TestApp::start().await;
    let answer = app.request(Method::POST, "/v1/sessions").key("wrong").body("not json").send().await;
    refused(&answer, ErrorCode::Unauthorized);
    let answer =
        app.request(Method::POST, "/v1/sessions").header("x-api-key", "schlüssel").json(&json!({})).send().await;
    refused(&answer, ErrorCode::Unauthorized);
}

#[tokio::test]
async fn the_role_is_told_before_a_wrong_body() {
    let app = TestApp::start().await;
    let answer = app.request(Method::POST, "/v1/sessions").key(&app.viewer).body("not json").send().await;
    refused(&answer, ErrorCode::Forbidden);
    let answer = app.get("/v1/keys").key(&app.agent).send().await;
    refused(&answer, ErrorCode::Forbidden);
}

#[tokio::test]
async fn every_refusal_has_the_one_shape() {
    let app = TestApp::start().await;
    let key = app.agent.as_str();
    refused(&app.get("/v1/does-not-exist").key(key).send().await, ErrorCode::NotFound);
    refused(&app.request(Method::PATCH, "/v1/sessions").key(key).send().await, ErrorCode::MethodNotAllowed);
    refused(&app.request(Method::POST, "/healthz").send().await, ErrorCode::MethodNotAllowed);
    refused(&app.request(Method::POST, "/nothing-here").send().await, ErrorCode::MethodNotAllowed);
    refused(&app.get("/nothing-here.js").send().await, ErrorCode::NotFound);
    let post = || app.request(Method::POST, "/v1/sessions").key(key);
    refused(&post().body("{").header("content-type", "application/json").send().await, ErrorCode::Invalid);
    refused(&post().json(&json!({"persistant": true})).send().await, ErrorCode::Invalid);
    refused(&post().body("{}").send().await, ErrorCode::Invalid);
    refused(&post().json(&json!({"name": "x".repeat(2 << 20)})).send().await, ErrorCode::TooLarge);
    refused(&app.get("/healthz").header("host", "evil.example").send().await, ErrorCode::HostNotAllowed);
    refused(&app.get("/healthz?token=x").send().await, ErrorCode::KeyInUrl);
}

#[tokio::test]
async fn ids_that_cannot_be_ids_name_nothing() {
    let app = TestApp::start().await;
    for path in [
        "/v1/sessions/x",
        "/v1/sessions/sbx_aaaaaaaaaaaaaaaaaaaa",
        "/v1/sessions/%ff",
        "/v1/sessions/sbx_aaaaaaaaaaaaaaaaaaaa/commands/y",
    ] {
        refused(&app.get(path).key(&app.agent).send().await, ErrorCode::NotFound);
    }
    let running = app.run("hang").await;
    refused(
        &app.get(&format!("/v1/sessions/{}/commands/cmd_y", running.session)).key(&app.agent).send().await,
        ErrorCode::NotFound,
    );
}

#[tokio::test]
async fn parameters_out_of_range_are_invalid() {
    let app = TestApp::start().await;
    let path = app.run("hang").await.path();
    for query in ["?wait=61", "?wait=-1", "?wait=x", "?wiat=1"] {
        refused(&app.get(&format!("{path}{query}")).key(&app.agent).send().await, ErrorCode::Invalid);
    }
    for query in ["?limit=0", "?limit=1048577", "?from=-1"] {
        for path in [path.clone(), in_history(&path)] {
            refused(&app.get(&format!("{path}/output{query}")).key(&app.agent).send().await, ErrorCode::Invalid);
        }
    }
    refused(
        &app.request(Method::POST, &format!("{path}/signal"))
            .key(&app.agent)
            .json(&json!({"signal": "BOGUS"}))
            .send()
            .await,
        ErrorCode::Invalid,
    );
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_back_and_the_page_still_works() {
    let app = TestApp::with_rate(3).await;
    for _ in 0..3 {
        assert_eq!(app.get("/v1/me").key(&app.agent).send().await.status, StatusCode::OK);
    }
    let answer = app.get("/v1/me").key(&app.agent).send().await;
    refused(&answer, ErrorCode::RateLimited);
    assert_eq!(answer.header("retry-after"), "20");
    let cookie = app.sign_in().await;
    assert_eq!(app.get("/v1/me").header("cookie", &cookie).send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn output_is_read_from_an_offset_until_it_ends() {
    let app = TestApp::start().await;
    let running = app.run("print hello; sleep 700; print world; sleep 700").await;
    app.written(&running, 6).await;
    let output = |query: &str| app.get(&format!("{}/output{query}", running.path())).key(&app.agent).send();
    let first = output("?limit=4").await;
    assert_eq!(&first.body[..], b"hell");
    assert_eq!((first.header(output_headers::OFFSET), first.header(output_headers::NEXT)), ("0", "4"));
    assert_eq!((first.header(output_headers::END), first.header(output_headers::STATE)), ("false", "running"));
    assert_eq!(first.header("content-type"), "application/octet-stream");
    refused(&output("?from=13&wait=30").await, ErrorCode::OffsetBeyondEnd);
    let nothing_yet = output("?from=6").await;
    assert_eq!((nothing_yet.status, nothing_yet.body.len()), (StatusCode::OK, 0));
    let record = app.get(&format!("{}/output?from=6&wait=30", in_history(&running.path()))).key(&app.agent).send();
    let (live, record) = tokio::join!(output("?from=6&wait=30"), record);
    for waited in [live, record] {
        assert_eq!((&waited.body[..], waited.header(output_headers::END)), (&b"world\n"[..], "false"));
    }
    let last = output("?from=12&wait=30").await;
    assert_eq!((last.body.len(), last.header(output_headers::END)), (0, "true"));

    let log = app.get(&format!("{}/log", running.path())).key(&app.agent).send().await;
    assert_eq!(&log.body[..], b"hello\nworld\n");
    assert!(log.header("content-disposition").starts_with("attachment"));
}

#[tokio::test]
async fn when_the_server_stops_long_polls_answer_at_once_and_nothing_is_called_gone() {
    let app = TestApp::start().await;
    let running = app.run("hang").await;
    let poll = |path: &str| tokio::spawn(app.get(&format!("{}{path}", running.path())).key(&app.agent).send());
    let early = ["?wait=60", "/output?wait=60"].map(poll);
    // So that some of them are waiting already; what is asserted holds for those that are not as well.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let late = ["?wait=60", "/output?wait=60"].map(poll);
    app.shutdown.cancel();
    for poll in early.into_iter().chain(late) {
        let answer = tokio::time::timeout(Duration::from_secs(10), poll).await.expect("in time").expect("no panic");
        if answer.status != StatusCode::OK {
            refused(&answer, ErrorCode::ShuttingDown);
        }
    }
}

#[tokio::test]
async fn signing_in_gives_a_cookie_and_signing_out_takes_it() {
    let app = TestApp::start().await;
    let cookie = app.sign_in().await;
    let me = app.get("/v1/me").header("cookie", &cookie).send().await;
    assert_eq!(me.json()["tenant_id"], "acme");
    // The key counts when both are there.
    let both = app.get("/v1/me").header("cookie", &cookie).key("wrong").send().await;
    refused(&both, ErrorCode::Unauthorized);
    refused(
        &app.request(Method::POST, "/v1/sign-out").header("cookie", &cookie).send().await,
        ErrorCode::OriginNotAllowed,
    );
    let out = app
        .request(Method::POST, "/v1/sign-out")
        .header("cookie", &cookie)
        .header("origin", "http://localhost:7070")
        .send()
        .await;
    assert_eq!(out.status, StatusCode::NO_CONTENT);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    let neither = app.request(Method::POST, "/v1/sign-in").json(&json!({"name": "Ann"})).send().await;
    refused(&neither, ErrorCode::Invalid);
}

#[tokio::test]
async fn every_answer_is_locked_down_for_browsers() {
    let app = TestApp::start().await;
    for path in ["/healthz", "/v1/me", "/", "/nothing-here.js", "/openapi.json"] {
        let answer = app.get(path).header("accept", "text/html").send().await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{path}");
        }
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    assert_eq!(app.get("/v1/me").key(&app.agent).send().await.header(header::CACHE_CONTROL.as_str()), "no-store");
}

#[tokio::test]
async fn the_page_is_there_or_says_how_to_build_it() {
    let app = TestApp::start().await;
    for path in ["/", "/sessions/anything"] {
        let page = app.get(path).header("accept", "text/html").send().await;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        match page.status {
            StatusCode::OK => assert!(text.contains("<html"), "{text}"),
            _ => assert!(text.contains("make run"), "{text}"),
        }
    }
}

#[tokio::test]
async fn every_route_is_in_the_openapi_document() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").send().await.json();
    let paths = document["paths"].as_object().expect("paths");
    for (path, methods) in [
        ("/v1/sessions", &["get", "post"][..]),
        ("/v1/sessions/{session_id}", &["get", "delete"]),
        ("/v1/sessions/{session_id}/commands", &["get", "post"]),
        ("/v1/sessions/{session_id}/commands/{command_id}", &["get"]),
        ("/v1/sessions/{session_id}/commands/{command_id}/output", &["get"]),
        ("/v1/sessions/{session_id}/commands/{command_id}/log", &["get"]),
        ("/v1/sessions/{session_id}/commands/{command_id}/kill", &["post"]),
        ("/v1/sessions/{session_id}/commands/{command_id}/signal", &["post"]),
        ("/v1/keys", &["get", "post"]),
        ("/v1/keys/{key_id}", &["delete"]),
        ("/v1/sign-in", &["post"]),
        ("/v1/sign-out", &["post"]),
        ("/v1/me", &["get"]),
        ("/v1/ws", &["get"]),
        ("/healthz", &["get"]),
    ] {
        for method in methods {
            assert!(paths.get(path).is_some_and(|path| path.get(method).is_some()), "{method} {path}");
        }
    }
}
