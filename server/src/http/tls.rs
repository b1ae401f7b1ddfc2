//! TLS by two files, which can be read again while serving. One certificate for every name; clients' certificates are not
//! asked for.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Less time than this until the certificate expires is worth a warning: those that renew by themselves do it earlier.
pub const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// What is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{file}: {why}", file = file.display())]
    File {
        /// Which one.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Each is good, but not both together.
    #[error("certificate and key cannot be used together: {0}")]
    Mismatch(#[source] tokio_rustls::rustls::Error),
}

/// The files, and what they held when they were last good.
#[derive(Debug)]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

#[derive(Debug, Clone)]
struct Current {
    config: Arc<ServerConfig>,
    expires: Option<SystemTime>,
}

impl Tls {
    /// Reads both files.
    pub fn open(cert: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = RwLock::new(read(&cert, &key)?);
        Ok(Self { cert, key, current })
    }

    /// Reads both files again. New connections use them; after an error everything stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = read(&self.cert, &self.key)?;
        // The section only assigns.
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// When the certificate stops being valid, where that could be read.
    pub fn expires(&self) -> Option<SystemTime> {
        self.current().expires
    }

    /// How long it is still valid, in words, and whether that is a reason to worry.
    pub fn validity(&self) -> (String, bool) {
        let Some(expires) = self.expires() else {
            return ("its end of validity cannot be read".to_owned(), true);
        };
        match expires.duration_since(SystemTime::now()) {
            Ok(left) => (format!("valid for another {} days", left.as_secs() / 86_400), left < EXPIRES_SOON),
            Err(_) => ("EXPIRED; browsers and programs refuse it".to_owned(), true),
        }
    }

    /// For the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current().config
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(cert: &PathBuf, key: &PathBuf) -> Result<Current, TlsError> {
    let refuse = |file: &PathBuf, why: String| TlsError::File { file: file.clone(), why };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| refuse(cert, format!("no certificate in PEM can be read: {error}")))?;
    let Some(first) = chain.first() else { return Err(refuse(cert, "holds no certificate in PEM".to_owned())) };
    let expires = not_after(first);
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| refuse(key, format!("no private key in PEM can be read: {error}")))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(TlsError::Mismatch)?;
    // The live socket is an upgrade of HTTP/1.1; nothing else is spoken here.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Current { config: Arc::new(config), expires })
}

/// `notAfter` of an X.509 certificate (RFC 5280, 4.1), the one thing in it that rustls does not tell.
fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut fields, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, signature's algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (tag, text, _) = element(element(validity)?.2)?;
    time(tag, text)
}

/// The first element of DER: tag, content, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 4)?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let text =
        std::str::from_utf8(text).ok()?.strip_suffix('Z').filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let pair = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day) = (pair(0).filter(|month| (1..=12).contains(month))?, pair(2)?);
    let days = days_since_1970(year, month, day)?;
    let seconds = days * 86_400 + pair(4)? * 3_600 + pair(6)? * 60 + pair(8)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days from 1970-01-01 in the Gregorian calendar; years are counted from March, so that a leap day is a year's last.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    (year * 365 + year / 4 - year / 100 + year / 400 + day_of_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn write(folder: &Path, year: i32) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 2, 28);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        let files = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&files.0, cert.pem()).expect("written");
        std::fs::write(&files.1, key.serialize_pem()).expect("written");
        files
    }

    #[test]
    fn the_end_of_validity_is_read_in_both_forms() {
        let folder = tempfile::tempdir().expect("a folder");
        // Up to 2049 certificates write two digits of the year, later four.
        for (year, seconds) in [(2027, 1_803_772_800), (2048, 2_466_460_800), (2060, 2_845_152_000)] {
            let (cert, key) = write(folder.path(), year);
            let tls = Tls::open(cert, key).expect("good files");
            let expires = tls.expires().expect("a time").duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
            assert_eq!(expires.as_secs(), seconds, "{year}");
            assert!(!tls.validity().1 || year == 2027);
        }
        let (cert, key) = write(folder.path(), 2020);
        let (words, worry) = Tls::open(cert, key).expect("good files").validity();
        assert!(worry && words.contains("EXPIRED"), "{words}");
    }

    #[test]
    fn bad_files_are_named_and_the_good_ones_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let (cert, key) = write(folder.path(), 2060);
        let tls = Tls::open(cert.clone(), key.clone()).expect("good files");
        let before = tls.expires();
        let refusal = |tls: &Tls| tls.reload().expect_err("to be refused").to_string();
        let good = std::fs::read(&cert).expect("read");
        std::fs::write(&cert, "nothing").expect("written");
        assert!(refusal(&tls).contains("cert.pem"));
        std::fs::write(&cert, &good[..good.len() / 2]).expect("written");
        assert!(refusal(&tls).contains("cert.pem"));
        std::fs::remove_file(&cert).expect("removed");
        assert!(refusal(&tls).contains("cert.pem"));
        std::fs::write(&cert, &good).expect("written");
        std::fs::write(&key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
        assert!(refusal(&tls).contains("together"), "another key");
        std::fs::write(&key, "nothing").expect("written");
        assert!(refusal(&tls).contains("key.pem"));
        assert_eq!(tls.expires(), before);
        write(folder.path(), 2061);
        tls.reload().expect("good files");
        assert_ne!(tls.expires(), before);
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        for der in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\x02", &[0x30; 64]] {
            assert_eq!(not_after(der), None);
        }
    }
}
