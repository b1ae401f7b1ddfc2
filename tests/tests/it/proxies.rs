//! Behind a proxy: who is believed, and what stays connected.

use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_tests::{Answer, Client, TestServer, Viewer, eventually, hardened, is_long};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A beat and a little: the server is never quiet for longer. Without a byte from it for this long the proxy cuts, in CI.
const CUT_SOON: Duration = Duration::from_secs(12);
/// And in the long run, as case 28 says.
const CUT: Duration = Duration::from_mins(1);
/// How long the session is quiet; a tenth in CI.
const QUIET: Duration = Duration::from_mins(10);
/// For a heartbeat, which comes each 10 s.
const BEAT: Duration = Duration::from_secs(30);

/// Connections that one address may have (`server/src/http/share.rs`).
const SHARE: usize = 200;
/// Somewhat more.
const MANY: usize = 240;
/// A connection that is not wanted is closed at once; one that says nothing is, after 15 s. Nothing else takes longer.
const CLOSED: Duration = Duration::from_secs(10);

/// Between attempts of somebody who was refused.
const AGAIN: Duration = Duration::from_millis(20);

/// A proxy that passes bytes on, and cuts a connection over which nothing came from the server for this long; its address.
async fn proxy(to: &str, cut: Duration) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let to = to.trim_start_matches("http://").to_owned();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&to).await.expect("the server takes connections");
            connections.spawn(pass(client, server, cut));
        }
    });
    (address, tasks)
}

async fn pass(mut client: TcpStream, mut server: TcpStream, cut: Duration) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let there = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let back = async {
        let mut buffer = [0; 8192];
        while let Ok(Ok(count @ 1..)) = tokio::time::timeout(cut, from_server.read(&mut buffer)).await {
            if to_client.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = there => {}, () = back => {} }
}

// Case 28.
#[tokio::test]
async fn a_quiet_live_socket_behind_a_proxy_that_cuts_quiet_connections_stays_connected() {
    let (cut, quiet) = if is_long() { (CUT, QUIET) } else { (CUT_SOON, QUIET / 10) };
    let (server, agent) = TestServer::with_agent().await;
    let (address, _proxy) = proxy(&server.address(), cut).await;
    let session = agent.create_session(hardened()).await;
    let key = agent.key().expect("a key").to_owned();
    // That the proxy does cut: somebody who says nothing after the upgrade to a socket, where no server beats.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (to_silent, _other_proxy) = proxy(&silent.local_addr().expect("an address").to_string(), cut).await;
    let cut_off = tokio::spawn(async move {
        let mut line = TcpStream::connect(to_silent.trim_start_matches("http://")).await.expect("a connection");
        line.read(&mut [0]).await
    });

    let mut viewer = Viewer::try_connect(&address, &[("x-api-key", &key)], None).await.expect("the socket opens");
    let opened = Instant::now();
    let mut beats = 0;
    while opened.elapsed() < quiet {
        beats += 1;
        viewer.until("a heartbeat", BEAT, |heard| (heard.heartbeats >= beats).then_some(())).await;
    }
    assert!(viewer.now(|heard| heard.closed.is_none()), "the same socket all the time");
    assert!(cut_off.await.expect("a task").is_ok_and(|read| read == 0), "the proxy cut what was quiet");
    let command = session.run("echo here").await;
    let stream = viewer.watch(&command, glassbox_shared::live::WatchFrom::Offset(0));
    let seen = viewer.read_to_end(stream, BEAT).await;
    assert_eq!(seen.bytes, b"here\n");
}

/// A sign-in that arrives as from `client` by a proxy.
async fn sign_in(client: &Client, from: &str, key: &str) -> Answer {
    let request = client.without_key().request(Method::POST, "/v1/sign-in");
    let request = request.header("x-forwarded-for", from).header("x-forwarded-proto", "https");
    client.send(request.json(&json!({"key": key, "name": "Ann"}))).await
}

#[tokio::test]
async fn a_trusted_proxy_says_who_the_client_is_and_that_it_came_by_https() {
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
    let server = TestServer::configure()
        .env("GLASSBOX_TRUSTED_PROXIES", "127.0.0.0/8")
        .env("GLASSBOX_LISTEN", format!("127.0.0.1:{port}"))
        // The first is where this test asks.
        .env("GLASSBOX_PUBLIC_URL", format!("http://127.0.0.1:{port},https://glassbox.example.com"))
        .start()
        .await;
    let operator = server.operator();
    let key = operator.key().expect("a key").to_owned();
    let answer = sign_in(&operator, "198.51.100.1, 192.0.2.9", &key).await.success().expect("signed in");
    assert!(answer.header("set-cookie").contains("; Secure"), "{answer:?}");
    assert_eq!(answer.header("strict-transport-security"), "", "not for a loopback name");
    let request = operator.request(Method::GET, "/v1/me").header("host", "glassbox.example.com");
    let by_name = operator.send(request.header("x-forwarded-proto", "https")).await.success().expect("me");
    assert!(by_name.header("strict-transport-security").starts_with("max-age="), "{by_name:?}");
    let evil = operator.request(Method::GET, "/v1/me").header("x-forwarded-host", "evil.example");
    assert_eq!(operator.send(evil).await.refusal().code(), ErrorCode::HostNotAllowed);

    // One address guesses; another is not held up.
    let mut last = sign_in(&operator, "192.0.2.66", "wrong-key-wrong-key").await;
    for _ in 0..100 {
        if last.status == 429 {
            break;
        }
        assert_eq!(last.status, 401);
        // What stands further left is the client's own claim and helps nobody.
        last = sign_in(&operator, "203.0.113.1, 192.0.2.66", "wrong-key-wrong-key").await;
    }
    assert_eq!(last.refusal().code(), ErrorCode::RateLimited);
    sign_in(&operator, "192.0.2.67", &key).await.success().expect("another address");
    let log = server.process().log();
    assert!(log.contains("192.0.2.66") && log.contains("192.0.2.9"), "the log names clients: {log}");
    assert!(!log.contains("203.0.113.1") && !log.contains("198.51.100.1"), "and not what they claim");
}

#[tokio::test]
async fn behind_a_proxy_that_does_not_say_how_it_was_asked_the_name_says_it() {
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
    let server = TestServer::configure()
        .env("GLASSBOX_LISTEN", format!("127.0.0.1:{port}"))
        .env("GLASSBOX_PUBLIC_URL", format!("http://127.0.0.1:{port},https://glassbox.example.com"))
        .start()
        .await;
    let operator = server.operator();
    let key = operator.key().expect("a key").to_owned();
    for (host, https) in [("glassbox.example.com", true), ("localhost", false)] {
        let request = operator.without_key().request(Method::POST, "/v1/sign-in").header("host", host);
        let answer = operator.without_key().send(request.json(&json!({"key": key, "name": "Ann"}))).await;
        let answer = answer.success().expect("signed in");
        assert_eq!(answer.header("set-cookie").contains("; Secure"), https, "{host}: {answer:?}");
        assert_eq!(answer.header("strict-transport-security").starts_with("max-age="), https, "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn without_a_trusted_proxy_the_same_headers_say_nothing() {
    let server = TestServer::start().await;
    let operator = server.operator();
    let key = operator.key().expect("a key").to_owned();
    let answer = sign_in(&operator, "192.0.2.9", &key).await.success().expect("signed in");
    assert!(!answer.header("set-cookie").contains("Secure"), "{answer:?}");
    let evil = operator.request(Method::GET, "/v1/me").header("x-forwarded-host", "evil.example");
    operator.send(evil).await.success().expect("not looked at");
    assert!(!server.process().log().contains("192.0.2.9"));
}

/// Opens more connections than an address may have.
async fn open_many(server: &str, from: &str) -> Vec<TcpStream> {
    let mut lines = Vec::new();
    for _ in 0..MANY {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(format!("{from}:0").parse().expect("an address")).expect("it is free");
        lines.push(socket.connect(server.parse().expect("an address")).await.expect("the kernel takes connections"));
    }
    lines
}

/// How many the server has closed.
fn closed(lines: &[TcpStream]) -> usize {
    let is_open =
        |line: &&TcpStream| line.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    lines.len() - lines.iter().filter(is_open).count()
}

#[tokio::test]
async fn one_address_cannot_take_all_connections_and_a_trusted_proxy_may() {
    let server = TestServer::configure()
        .env("GLASSBOX_MAX_CONNECTIONS", 2 * SHARE)
        .env("GLASSBOX_TRUSTED_PROXIES", "127.0.0.3")
        .start()
        .await;
    let address = server.address().trim_start_matches("http://").to_owned();
    let lines = open_many(&address, "127.0.0.2").await;
    eventually("what is beyond its share is closed", CLOSED, async || (closed(&lines) >= MANY - SHARE).then_some(()))
        .await;
    // Connections are accepted in their order: whoever is answered comes after all of them.
    server.operator().get("/v1/me").await.success().expect("another address is answered");
    assert_eq!(closed(&lines), MANY - SHARE);
    drop(lines);
    let lines = open_many(&address, "127.0.0.3").await;
    server.operator().get("/v1/me").await.success().expect("others are answered");
    assert_eq!(closed(&lines), 0, "a proxy's connections are everybody's");
}

#[tokio::test]
async fn behind_a_trusted_proxy_an_address_has_its_share_of_requests_and_leaves_the_others_theirs() {
    let server = TestServer::configure()
        .env("GLASSBOX_MAX_CONNECTIONS", 2 * SHARE)
        .env("GLASSBOX_TRUSTED_PROXIES", "127.0.0.1")
        .start()
        .await;
    let agent = server.agent().await;
    let session = agent.create_session(hardened()).await;
    let silent = session.run("sleep 990").await;
    let ask = |from: &str, path: &str| agent.request(Method::GET, path).header("x-forwarded-for", from);
    let mut waiting = JoinSet::new();
    for _ in 0..SHARE {
        let request = ask("192.0.2.1", &silent.path("?wait=60"));
        // One that finds the share taken by the question below comes again.
        waiting.spawn(async move {
            let mut again = tokio::time::interval(AGAIN);
            while request.try_clone().expect("no body").send().await.is_ok_and(|answer| answer.status() == 429) {
                again.tick().await;
            }
        });
    }
    let me = async |from: &str| agent.send(ask(from, "/v1/me")).await;
    let refused = eventually("it has its share", CLOSED, async || {
        Some(me("192.0.2.1").await).filter(|answer| answer.status != 200)
    })
    .await
    .refusal();
    assert_eq!((refused.status, refused.code()), (429, ErrorCode::RateLimited), "{refused}");
    assert!(refused.retry_after.is_some(), "{refused}");
    me("192.0.2.2").await.success().expect("another address is answered");
    waiting.abort_all();
    eventually("its share is given back", CLOSED, async || (me("192.0.2.1").await.status == 200).then_some(())).await;
}
