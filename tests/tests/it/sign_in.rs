//! Signing in: one-time links, cookies that no script and no other site can use, and names that are written down.

use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::live::close;
use glassbox_shared::session::SessionView;
use glassbox_tests::viewer::Closed;
use glassbox_tests::{Answer, Client, TestServer, Viewer, hardened};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// The token of the link that `serve` printed.
fn printed_link(server: &TestServer) -> String {
    let said = server.process().stdout();
    let link = said.split("#link=").nth(1).unwrap_or_else(|| panic!("a sign-in link is printed: {said}"));
    link.split_whitespace().next().expect("a token").to_owned()
}

async fn sign_in(client: &Client, body: Value) -> Answer {
    client.without_key().post("/v1/sign-in", &body).await
}

/// `name=value` of the cookie that was set.
fn cookie_of(answer: &Answer) -> String {
    let set = answer.header("set-cookie");
    set.split(';')
        .next()
        .filter(|pair| pair.contains('='))
        .unwrap_or_else(|| panic!("a cookie is set: {answer:?}"))
        .to_owned()
}

/// A request as the page makes it.
fn from_page(client: &Client, method: Method, path: &str, cookie: &str) -> RequestBuilder {
    let client = client.without_key();
    let unsafe_method = method != Method::GET;
    let request = client.request(method, path).header("cookie", cookie).header("sec-fetch-site", "same-origin");
    if unsafe_method { request.header("origin", client.base()) } else { request }
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let server = TestServer::start().await;
    let client = server.operator();
    let link = printed_link(&server);
    let answer = sign_in(&client, json!({"link": link, "name": "Ann"})).await.success().expect("signed in");
    let cookie = cookie_of(&answer);
    let again = sign_in(&client, json!({"link": link, "name": "Eve"})).await.refusal();
    assert_eq!((again.status, again.code()), (401, ErrorCode::LinkExpired));
    let wrong = sign_in(&client, json!({"link": "wrong", "name": "Eve"})).await.refusal();
    assert_eq!(wrong.status, 401);
    let me: Value = client.send(from_page(&client, Method::GET, "/v1/me", &cookie)).await.ok().expect("me");
    assert!(me.to_string().contains("Ann") && me.to_string().contains("acme"), "{me}");
    assert!(!server.process().log().contains(&link), "the token is in no log");
}

#[tokio::test]
async fn of_many_who_open_a_link_at_once_one_gets_in() {
    let server = TestServer::start().await;
    let client = server.operator();
    let link = printed_link(&server);
    let tries = (0..8).map(|number| sign_in(&client, json!({"link": link, "name": format!("N{number}")})));
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
}

#[tokio::test]
async fn the_cookie_is_for_this_page_only() {
    let server = TestServer::start().await;
    let client = server.operator();
    let key = client.key().expect("a key").to_owned();
    let answer = sign_in(&client, json!({"key": key, "name": "Ann"})).await.success().expect("signed in");
    let flags = answer.header("set-cookie").to_ascii_lowercase();
    for flag in ["httponly", "samesite=strict", "path=/"] {
        assert!(flags.contains(flag), "{flag}: {flags}");
    }
    assert!(!flags.contains("domain="), "this host only: {flags}");
    assert!(!answer.text().contains(&key), "the answer does not repeat the key");
    let cookie = cookie_of(&answer);
    let bare = |method: Method, path: &str| client.without_key().request(method, path).header("cookie", &cookie);

    client.send(from_page(&client, Method::GET, "/v1/sessions", &cookie)).await.success().expect("the page looks");
    // Another site's page, which browsers name.
    for site in ["cross-site", "same-site"] {
        let refused = client.send(bare(Method::GET, "/v1/sessions").header("sec-fetch-site", site)).await.refusal();
        assert_eq!((refused.status, refused.code()), (403, ErrorCode::OriginNotAllowed), "{site}");
    }
    // What changes something says where it comes from.
    for origin in [None, Some("https://evil.example"), Some("null")] {
        for (method, path) in [
            (Method::POST, "/v1/sessions"),
            (Method::DELETE, "/v1/sessions/nonsense"),
            (Method::POST, "/v1/keys"),
            (Method::POST, "/v1/sign-out"),
        ] {
            let mut request = bare(method.clone(), path).json(&json!({}));
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            assert_eq!(
                client.send(request).await.refusal().code(),
                ErrorCode::OriginNotAllowed,
                "{method} {path} from {origin:?}"
            );
        }
        let mut headers = vec![("cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let refused = Viewer::try_connect(client.base(), &headers, None).await.expect_err("not upgraded");
        assert_eq!(refused.status, 403, "the live socket from {origin:?}: {refused:?}");
    }
    drop(
        Viewer::try_connect(client.base(), &[("cookie", &cookie), ("origin", client.base())], None)
            .await
            .expect("the page's socket"),
    );
    let stolen = client
        .send(client.without_key().request(Method::GET, "/v1/me").header("cookie", "glassbox_session=wrong"))
        .await
        .refusal();
    assert_eq!(stolen.code(), ErrorCode::Unauthorized);
}

#[tokio::test]
async fn a_humans_name_is_recorded_and_signing_out_ends_it_everywhere() {
    let server = TestServer::start().await;
    let client = server.operator();
    let answer =
        sign_in(&client, json!({"link": printed_link(&server), "name": "Ann"})).await.success().expect("signed in");
    let cookie = cookie_of(&answer);
    let made = client.send(from_page(&client, Method::POST, "/v1/sessions", &cookie).json(&hardened())).await;
    let session: SessionView = made.ok().expect("a human makes a session");
    assert_eq!(session.created_by, Actor::Human { name: "Ann".into() });
    assert_eq!(session.control.holder, session.created_by);
    let mut socket = Viewer::try_connect(client.base(), &[("cookie", &cookie), ("origin", client.base())], None)
        .await
        .expect("a socket");

    let out =
        client.send(from_page(&client, Method::POST, "/v1/sign-out", &cookie)).await.success().expect("signed out");
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    let closed = socket.until("the socket is closed", Duration::from_secs(20), |heard| heard.closed).await;
    assert_eq!(closed, Closed::Code(close::SIGNED_OUT));
    let refused = client.send(from_page(&client, Method::GET, "/v1/me", &cookie)).await.refusal();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
}

#[tokio::test]
async fn a_sign_in_ends_with_the_key_that_it_was_made_with() {
    let server = TestServer::start().await;
    let client = server.operator();
    let key = client.create_key(glassbox_shared::actor::Role::Viewer, "for the page").await;
    let answer = sign_in(&client, json!({"key": key.api_key, "name": "Vic"})).await.success().expect("signed in");
    let cookie = cookie_of(&answer);
    let refused =
        client.send(from_page(&client, Method::POST, "/v1/sessions", &cookie).json(&hardened())).await.refusal();
    assert_eq!(refused.code(), ErrorCode::Forbidden, "a browser has the role of its key");
    client.delete(&format!("/v1/keys/{}", key.key_id)).await.success().expect("revoked");
    let refused = client.send(from_page(&client, Method::GET, "/v1/me", &cookie)).await.refusal();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
}

#[tokio::test]
async fn a_sign_in_without_a_name_or_with_two_proofs_is_refused_and_uses_up_nothing() {
    let server = TestServer::start().await;
    let client = server.operator();
    let link = printed_link(&server);
    for wrong in [
        json!({"link": link}),
        json!({"link": link, "name": ""}),
        json!({"link": link, "name": " \u{202e} "}),
        json!({"link": link, "name": "x".repeat(61)}),
        json!({"link": link, "key": "also", "name": "Ann"}),
        json!({"name": "Ann"}),
        json!({"link": link, "name": "Ann", "role": "operator"}),
    ] {
        assert_eq!(sign_in(&client, wrong.clone()).await.refusal().code(), ErrorCode::Invalid, "{wrong}");
    }
    sign_in(&client, json!({"link": link, "name": "Ann"})).await.success().expect("the link still works");
}
