//! What becomes of the session, with a server that does as it is told.

use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server that says to attempts to begin a session what it was told to.
#[derive(Default)]
struct Fake {
    /// What comes of the next attempts; afterwards they succeed.
    refusals: Mutex<VecDeque<StatusCode>>,
    /// One that never gets an answer has come.
    hanging: tokio::sync::Notify,
    /// The session that it knows, by number; 0: none.
    session: Mutex<u64>,
    attempts: Mutex<u64>,
}

/// Stands for an attempt that never gets an answer.
const HANGS: StatusCode = StatusCode::GATEWAY_TIMEOUT;

impl Fake {
    async fn start() -> (Arc<Self>, Way) {
        let fake = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let serving = Arc::clone(&fake);
        // Ends with the test's runtime.
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        (fake, Way::new(&url, "key".to_owned(), None, Profile::Open, Vec::new()).expect("an address"))
    }

    /// One request, by hand.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        let head = String::from_utf8(head).expect("text");
        let named = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
        };
        let length = named("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        let message = serde_json::from_slice(&body).expect("JSON");
        let (status, more, body) = self.answer(&message, named(SESSION_ID));
        if status == HANGS {
            self.hanging.notify_one();
            std::future::pending::<()>().await;
        }
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{more}content-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.expect("sent");
    }

    /// Status, fields of the head, body.
    fn answer(&self, message: &Value, named: Option<&str>) -> (StatusCode, String, String) {
        let bare = |status| (status, String::new(), String::new());
        let id = &message["id"];
        if message["method"] != "initialize" {
            let Some(named) = named else { return bare(StatusCode::BAD_REQUEST) };
            let known = *self.session.lock().expect("no panic");
            if known == 0 || named != known.to_string() {
                return bare(StatusCode::NOT_FOUND);
            }
            if id.is_null() {
                return bare(StatusCode::ACCEPTED);
            }
            let said = json!({"jsonrpc": "2.0", "id": id, "result": known});
            return (StatusCode::OK, String::new(), said.to_string());
        }
        assert!(named.is_none(), "a new session is asked for in none");
        let mut attempts = self.attempts.lock().expect("no panic");
        *attempts += 1;
        if let Some(status) = self.refusals.lock().expect("no panic").pop_front() {
            return (status, "retry-after: 0\r\n".to_owned(), String::new());
        }
        *self.session.lock().expect("no panic") = *attempts;
        let said = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18"}});
        (StatusCode::OK, format!("{SESSION_ID}: {attempts}\r\n"), said.to_string())
    }

    fn refuse(&self, refusals: &[StatusCode]) {
        self.refusals.lock().expect("no panic").extend(refusals);
    }

    /// As a restart does.
    fn forget(&self) {
        *self.session.lock().expect("no panic") = 0;
    }

    fn attempts(&self) -> u64 {
        *self.attempts.lock().expect("no panic")
    }
}

async fn ask(way: &Way, method: &str) -> anyhow::Result<Value> {
    let (lines, mut said) = mpsc::channel(8);
    let id = json!(1);
    way.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method}), &id, &lines).await?;
    Ok(serde_json::from_str(&said.recv().await.expect("an answer")).expect("JSON"))
}

#[tokio::test]
async fn an_attempt_to_begin_anew_that_fails_is_not_the_last_one() {
    let (fake, way) = Fake::start().await;
    ask(&way, "initialize").await.expect("a session");
    assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 1);
    fake.forget();
    fake.refuse(&[StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED]);
    for status in ["503", "401"] {
        let why = ask(&way, "tools/list").await.expect_err("refused").to_string();
        assert!(why.contains(status), "{why}");
    }
    assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 4);
    assert_eq!(fake.attempts(), 4);
}

#[tokio::test]
async fn an_attempt_to_begin_anew_that_is_cancelled_is_not_the_last_one() {
    let (fake, way) = Fake::start().await;
    ask(&way, "initialize").await.expect("a session");
    fake.forget();
    fake.refuse(&[HANGS]);
    tokio::select! {
        answer = ask(&way, "tools/list") => panic!("{answer:?}"),
        () = fake.hanging.notified() => {}
    }
    assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 3);
}

#[tokio::test]
async fn a_clients_own_attempt_that_fails_leaves_it_the_session_that_it_had() {
    let (fake, way) = Fake::start().await;
    ask(&way, "initialize").await.expect("a session");
    fake.refuse(&[StatusCode::SERVICE_UNAVAILABLE]);
    ask(&way, "initialize").await.expect_err("refused");
    assert_eq!(ask(&way, "tools/list").await.expect("an answer")["result"], 1);
}

#[tokio::test]
async fn a_server_with_too_much_to_do_is_asked_again() {
    let (fake, way) = Fake::start().await;
    fake.refuse(&[StatusCode::TOO_MANY_REQUESTS]);
    ask(&way, "initialize").await.expect("a session");
    assert_eq!(fake.attempts(), 2);
}

#[tokio::test]
async fn calls_at_once_begin_one_session_anew() {
    let (fake, way) = Fake::start().await;
    ask(&way, "initialize").await.expect("a session");
    fake.forget();
    let call = || ask(&way, "tools/list");
    let (one, two, three) = tokio::join!(call(), call(), call());
    for answer in [one, two, three] {
        assert_eq!(answer.expect("an answer")["result"], 2);
    }
    assert_eq!(fake.attempts(), 2);
}

#[test]
fn what_is_told_of_an_address_has_no_password() {
    let address = Url::parse("https://ann:secret@box.example:7070/below/mcp?workspace=one").expect("an address");
    assert_eq!(told(address), "https://box.example:7070/below");
    assert_eq!(told(Url::parse("http://127.0.0.1:7070/mcp").expect("an address")), "http://127.0.0.1:7070");
}
