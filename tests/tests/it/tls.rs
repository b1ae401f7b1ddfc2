//! HTTPS by two files, which are read again on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glassbox_shared::live::SUBPROTOCOL;
use glassbox_tests::process::{ServerProcess, glassbox, signal};
use glassbox_tests::program::run;
use glassbox_tests::{docker, eventually};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::mcp::Program;

const KEY: &str = "an-operator-of-the-tests";
/// For what takes a moment.
const SOON: Duration = Duration::from_secs(20);

/// A server that speaks HTTPS, and its files. Whoever makes a session ends it, so that nothing is left in the engine.
struct Secure {
    folder: TempDir,
    process: ServerProcess,
    /// What its clients trust.
    certificate: CertificateDer<'static>,
}

fn files(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("cert.pem"), folder.join("key.pem"))
}

/// A new certificate in the files.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let (cert, private) = files(folder);
    std::fs::write(cert, certificate.pem()).expect("written");
    std::fs::write(private, key.serialize_pem()).expect("written");
    certificate.der().clone()
}

/// A certificate in the files by an authority of the tests' own; where that one's is.
fn sign(folder: &Path) -> PathBuf {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "an authority of the tests");
    let key = KeyPair::generate().expect("a key");
    let ca = folder.join("ca.pem");
    std::fs::write(&ca, authority.self_signed(&key).expect("a certificate").pem()).expect("written");
    let own = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let signed = params.signed_by(&own, &Issuer::new(authority, key)).expect("a certificate");
    let (cert, private) = files(folder);
    std::fs::write(cert, signed.pem()).expect("written");
    std::fs::write(private, own.serialize_pem()).expect("written");
    ca
}

impl Secure {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = renew(folder.path());
        let (cert, key) = files(folder.path());
        let mut command = glassbox();
        command
            .arg("serve")
            .env("GLASSBOX_DATA_DIR", folder.path().join("data"))
            .env("GLASSBOX_LISTEN", "127.0.0.1:0")
            .env("GLASSBOX_API_KEYS", format!("acme:{KEY}"))
            .env("GLASSBOX_TLS_CERT", cert)
            .env("GLASSBOX_TLS_KEY", key)
            .env("NO_COLOR", "1");
        let process = ServerProcess::start(command, folder.path()).await.expect("it starts");
        Self { folder, process, certificate }
    }

    async fn line(&self) -> TcpStream {
        let address = self.process.address().strip_prefix("https://").expect("it says https");
        TcpStream::connect(address).await.expect("it takes connections")
    }

    /// A connection of a client that trusts this certificate only.
    async fn connect(&self, trusted: &CertificateDer<'static>) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, self.line().await).await
    }

    /// The whole answer to a request.
    async fn ask(&self, request: &str) -> String {
        let stream = self.connect(&self.certificate).await.expect("a handshake");
        ask(stream, request).await
    }

    fn hang_up(&self) {
        signal(self.process.pid(), "HUP");
    }

    async fn logs(&self, what: &str, times: usize) {
        eventually(what, SOON, async || (self.process.log().matches(what).count() >= times).then_some(())).await;
    }
}

async fn ask(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, request: &str) -> String {
    let head = format!("{request}\r\nHost: localhost\r\nX-API-Key: {KEY}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("an answer in time");
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_and_the_live_socket_work_and_plain_http_is_told_what_to_do() {
    let server = Secure::start().await;
    let me = server.ask("GET /v1/me HTTP/1.1").await;
    assert!(me.starts_with("HTTP/1.1 200") && me.contains("acme"), "{me}");
    assert!(!me.to_ascii_lowercase().contains("strict-transport-security"), "not for a loopback name");

    let mut request = "wss://localhost/v1/ws".into_client_request().expect("an address");
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
    request.headers_mut().insert("x-api-key", HeaderValue::from_static(KEY));
    let line = server.connect(&server.certificate).await.expect("a handshake");
    let (mut socket, _) = client_async(request, line).await.expect("the socket opens");
    let hello = futures_util::StreamExt::next(&mut socket).await.expect("a message").expect("a message");
    assert!(hello.to_text().expect("text").contains("epoch"), "{hello}");

    let plain = ask(server.line().await, "GET / HTTP/1.1").await;
    assert!(plain.starts_with("HTTP/1.1 400") && plain.contains("https://"), "{plain}");
    let body = format!(r#"{{"key":"{KEY}","name":"Ann"}}"#);
    let post = format!("POST /v1/sign-in HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    let mut stream = server.connect(&server.certificate).await.expect("a handshake");
    stream
        .write_all(format!("{post}\r\nHost: localhost\r\nConnection: close\r\n\r\n{body}").as_bytes())
        .await
        .expect("sent");
    let mut signed_in = Vec::new();
    let _ = stream.read_to_end(&mut signed_in).await;
    assert!(String::from_utf8_lossy(&signed_in).contains("; Secure"), "the cookie is for HTTPS only");
}

#[tokio::test]
async fn a_new_certificate_is_taken_on_sighup_and_a_bad_one_is_not() {
    let mut server = Secure::start().await;
    let old = server.certificate.clone();
    let mut kept = server.connect(&old).await.expect("a handshake");

    let (cert, _) = files(server.folder.path());
    std::fs::write(&cert, "no certificate").expect("written");
    server.hang_up();
    server.logs("the old one stays in use", 1).await;
    assert!(server.process.log().contains("cert.pem"), "it says which file");
    server.ask("GET /healthz HTTP/1.1").await;

    let new = renew(server.folder.path());
    server.hang_up();
    server.logs("were read again", 1).await;
    assert!(server.connect(&old).await.is_err(), "new connections get the new one");
    server.certificate = new;
    assert!(server.ask("GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 200"));
    let head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    kept.write_all(head.as_bytes()).await.expect("old connections go on");
    let mut answer = Vec::new();
    let _ = kept.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(server.process.stop().is_some_and(|status| status.success()), "{}", server.process.shown_log());
}

#[tokio::test]
async fn the_mcp_program_reaches_a_server_by_https_once_it_knows_its_authority() {
    let server = Secure::start().await;
    let authority = sign(server.folder.path());
    server.hang_up();
    server.logs("were read again", 1).await;
    let address = server.process.address().replace("127.0.0.1", "localhost");
    assert!(address.starts_with("https://localhost:"), "{address}");
    let error = |answer: Value| answer["error"]["message"].as_str().unwrap_or_default().to_owned();

    let stranger = Program::start(&address, KEY, &[]).initialize().await;
    assert!(error(stranger).contains("--ca-file or GLASSBOX_CA_FILE"));
    let file = authority.to_str().expect("plain");
    let by_number = Program::start(server.process.address(), KEY, &["--ca-file", file]).initialize().await;
    assert!(error(by_number).contains("is not for the name 127.0.0.1"));
    let plain = Program::start(&address.replace("https:", "http:"), KEY, &[]).initialize().await;
    assert!(error(plain).contains("begin its address with https://"));

    let mut program = Program::start(&address, KEY, &["--ca-file", file, "--profile", "open"]);
    assert_eq!(program.initialize().await["result"]["serverInfo"]["name"], "glassbox");
    let tools = program.ask("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().expect("a list");
    assert!(tools.iter().any(|tool| tool["name"] == "shell_exec"), "{tools:?}");
    assert_eq!(program.exec("echo by TLS").await, "exit=0\noutput:\nby TLS\n");
    let instance = std::fs::read_to_string(server.folder.path().join("data/instance")).expect("it has one");
    assert_eq!(docker::containers(instance.trim()).len(), 1);
    program.ask("tools/call", json!({"name": "reset_sandbox", "arguments": {}})).await;
    eventually("nothing is left in the engine", SOON, async || {
        let left = (docker::containers(instance.trim()), docker::workspaces(instance.trim()));
        (left == (Vec::new(), Vec::new())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn handshakes_that_are_never_finished_hold_nobody_up_and_are_ended() {
    let server = Secure::start().await;
    let mut silent = Vec::new();
    for number in 0..60 {
        let mut line = server.line().await;
        // Nothing at all, or the beginning of a handshake's first record.
        if number % 2 == 0 {
            line.write_all(&[22, 3, 1, 2, 0, 1]).await.expect("sent");
        }
        silent.push(line);
    }
    assert!(server.ask("GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 200"));
    for mut line in silent {
        let mut byte = [0; 64];
        let ended = async { while line.read(&mut byte).await.is_ok_and(|count| count > 0) {} };
        tokio::time::timeout(Duration::from_secs(40), ended).await.expect("the server ends it");
    }
}

#[tokio::test]
async fn wrong_files_stop_the_start_and_are_named_by_doctor() {
    let folder = tempfile::tempdir().expect("a folder");
    renew(folder.path());
    let (cert, key) = files(folder.path());
    let (cert, key) = (cert.to_str().expect("plain").to_owned(), key.to_str().expect("plain").to_owned());
    let data = folder.path().join("data").to_str().expect("plain").to_owned();
    let missing = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &data, "--tls-cert", &cert], &[]).await;
    assert!(missing.refusal().contains("GLASSBOX_TLS_KEY"), "{missing:?}");
    let swapped = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data, "--tls-cert", &key, "--tls-key", &cert];
    assert!(run(&swapped, &[]).await.refusal().contains("key.pem"));
    let nowhere =
        [("DOCKER_HOST", "unix:///nowhere/docker.sock"), ("GLASSBOX_TLS_CERT", &cert), ("GLASSBOX_TLS_KEY", &key)];
    let doctor = run(&["doctor", "--data-dir", &data], &nowhere).await;
    assert!(doctor.text().lines().any(|line| line.starts_with("ok    tls")), "{doctor:?}");
}
