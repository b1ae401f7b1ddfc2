//! Whom to trust over HTTPS, and what to do when a server is not trusted or speaks something else.

use std::error::Error;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use reqwest::{Certificate, ClientBuilder, Url};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{self, CertificateError, RootCertStore};

/// Certificates in a file, each of which can be trusted.
pub(super) async fn read(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    let name = file.display();
    let pem = tokio::fs::read(file).await.with_context(|| format!("cannot read the certificates in {name}"))?;
    let mut trusted = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.with_context(|| format!("{name} is no file of certificates in PEM"))?;
        let one = Certificate::from_der(&certificate);
        RootCertStore::empty().add(certificate).with_context(|| format!("a certificate in {name} cannot be used"))?;
        trusted.push(one.with_context(|| format!("a certificate in {name} cannot be used"))?);
    }
    anyhow::ensure!(!trusted.is_empty(), "{name} has no certificate in PEM");
    Ok(trusted)
}

/// A client that trusts whom this machine trusts, and these.
pub(super) fn trusting(client: ClientBuilder, trusted: Vec<Certificate>) -> ClientBuilder {
    trusted.into_iter().fold(client, ClientBuilder::add_root_certificate)
}

/// A client that is never asked to trust anybody: it does not read this machine's certificates for nothing.
pub(super) fn trusting_nobody(client: ClientBuilder) -> ClientBuilder {
    client.tls_built_in_root_certs(false)
}

/// What is wrong between us and the server, and what to do, where that is about TLS; `None`: it is something else.
pub(super) fn advice(error: &(dyn Error + 'static), address: &Url) -> Option<String> {
    if cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        let what = "what answered there is no HTTP";
        return Some(match address.scheme() {
            "http" => format!("{what}; if the server speaks HTTPS, begin its address with https://"),
            _ => format!("{what}; is it another program's port?"),
        });
    }
    let host = address.host_str().unwrap_or_default();
    Some(match cause::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(why) => refused(why, host),
        rustls::Error::InvalidMessage(_) => {
            "what answered there is no TLS; if the server speaks plain HTTP, begin its address with http://".to_owned()
        }
        other => format!("no connection by TLS came about: {other}"),
    })
}

fn refused(why: &CertificateError, host: &str) -> String {
    match why {
        // The latter two: of several authorities with the same name, another one is trusted.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "no authority that is trusted here vouches for its certificate; name a file with its authority's certificate \
             by --ca-file or GLASSBOX_CA_FILE"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for the name {host}; give the address by a name that is in the certificate")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or this machine's clock is wrong; it must be renewed at the server".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is this machine's clock right?".to_owned()
        }
        // webpki's word, which is no case of its own in rustls. What `openssl req -x509` makes is like this.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one of an authority, which no server can show as its own; make one with \
             basicConstraints=CA:FALSE"
                .to_owned()
        }
        other => format!("its certificate was refused: {other}"),
    }
}

/// The cause of this type. An `io::Error` does not tell what it wraps as its source, but what that has as its source.
fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glassbox_shared::session::Profile;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::super::way::Way;
    use super::*;

    /// What is at a port.
    enum Speaks {
        /// HTTPS, and an answer that points elsewhere.
        Https(TlsAcceptor),
        /// To whatever comes, these bytes.
        Bytes(&'static [u8]),
    }

    /// The port. It ends with the test's runtime.
    async fn at_a_port(speaks: Speaks) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                match &speaks {
                    Speaks::Https(acceptor) => {
                        let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                        let _ = stream.read(&mut [0; 4096]).await;
                        let head = "HTTP/1.1 308 Permanent Redirect\r\nlocation: https://elsewhere.example/mcp?x\r\n\
                                    content-length: 0\r\n\r\n";
                        let _ = stream.write_all(head.as_bytes()).await;
                        let _ = stream.flush().await;
                    }
                    Speaks::Bytes(bytes) => {
                        let _ = stream.read(&mut [0; 4096]).await;
                        let _ = stream.write_all(bytes).await;
                        // A connection with unread bytes that is closed is reset, and the answer could be lost.
                        kept.push(stream);
                    }
                }
            }
        });
        port
    }

    /// A certificate of its own making for `localhost`, and who shows it.
    fn own(is_ca: IsCa) -> (CertificateDer<'static>, Speaks) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .expect("they belong together");
        (certificate, Speaks::Https(TlsAcceptor::from(Arc::new(config))))
    }

    /// What a client is told that goes there.
    async fn told(url: &str, trusted: Option<&CertificateDer<'static>>) -> String {
        let trusted = trusted.map(|one| Certificate::from_der(one).expect("a certificate")).into_iter().collect();
        let way = Way::new(url, "key".to_owned(), None, Profile::Open, trusted).expect("an address");
        let (lines, _said) = mpsc::channel(1);
        let (message, id) = (json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}), json!(1));
        format!("{:#}", way.ask(&message, &id, &lines).await.expect_err("it is no server of ours"))
    }

    #[tokio::test]
    async fn a_server_that_is_not_trusted_is_told_of_with_what_to_do() {
        let (certificate, speaks) = own(IsCa::NoCa);
        let port = at_a_port(speaks).await;
        let right = format!("https://localhost:{port}");
        let why = told(&right, None).await;
        assert!(why.contains("--ca-file or GLASSBOX_CA_FILE"), "{why}");
        // One that has the same name.
        let why = told(&right, Some(&own(IsCa::NoCa).0)).await;
        assert!(why.contains("--ca-file or GLASSBOX_CA_FILE"), "{why}");
        let why = told(&format!("https://127.0.0.1:{port}"), Some(&certificate)).await;
        assert!(why.contains("is not for the name 127.0.0.1"), "{why}");
        // Trusted, it is listened to; but the key does not go where it points to.
        let why = told(&right, Some(&certificate)).await;
        assert_eq!(
            why,
            format!(
                "the server at {right} points to https://elsewhere.example; if that is the right one, give its address \
                 instead"
            )
        );
        let (authority, speaks) = own(IsCa::Ca(BasicConstraints::Unconstrained));
        let port = at_a_port(speaks).await;
        let why = told(&format!("https://localhost:{port}"), Some(&authority)).await;
        assert!(why.contains("basicConstraints=CA:FALSE"), "{why}");
    }

    #[tokio::test]
    async fn an_address_that_begins_in_the_wrong_way_is_told_of() {
        let alert = at_a_port(Speaks::Bytes(&[21, 3, 3, 0, 2, 2, 10])).await;
        let polite = at_a_port(Speaks::Bytes(
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 38\r\n\r\nClient sent HTTP to an HTTPS server.\r\n",
        ))
        .await;
        for port in [alert, polite] {
            let why = told(&format!("http://localhost:{port}"), None).await;
            assert!(why.contains("begin its address with https://"), "{why}");
        }
        let plain = at_a_port(Speaks::Bytes(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")).await;
        let why = told(&format!("https://localhost:{plain}"), None).await;
        assert!(why.contains("begin its address with http://"), "{why}");
        let nobody = told("https://localhost:1", None).await;
        assert!(nobody.contains("is `glassbox serve` running there?"), "{nobody}");
    }

    #[tokio::test]
    async fn a_file_that_holds_no_certificates_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        let why = async |file: &Path| format!("{:#}", read(file).await.expect_err("of no use"));
        assert!(why(&file).await.starts_with("cannot read the certificates in "));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, says) in [("nothing", "has no certificate in PEM"), (broken, "cannot be used")] {
            std::fs::write(&file, text).expect("written");
            let why = why(&file).await;
            assert!(why.contains("ca.pem") && why.contains(says), "{why}");
        }
    }
}
