//! Who is at the other end: the client's address, and whether it came by HTTPS, through proxies or directly.
//!
//! What a proxy says about its client counts only when the proxy itself is trusted (`GLASSBOX_TRUSTED_PROXIES`): anybody
//! can write these headers. Addresses are read from the right, where the nearest proxy wrote, and the first one that is
//! not a trusted proxy's is the client's; what stands to its left was said by the client.
//!
//! `X-Forwarded-…` count where any of them is there, `Forwarded` (RFC 7239) otherwise: most proxies set the former and
//! pass the latter on as it came, so a client could write it. Both are taken off the request, so that nothing behind this
//! layer can look at them by mistake.
//!
//! The forwarded host does not replace the `Host` header but stands beside it: both must be ours (see `guard`). A page of
//! another name that reaches us through a proxy could set the one, never both.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;
use glassbox_shared::error::ErrorCode;
use ipnet::IpNet;

use super::App;
use super::share::Held;
use crate::error::DomainError;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED: [HeaderName; 3] = [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST];

/// Most hops that are looked at: chains of proxies are short, and hostile headers are not.
const MAX_HOPS: usize = 32;

/// The other end of the connection itself; the accepting side knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub address: SocketAddr,
    /// TLS ends here.
    pub tls: bool,
}

/// Who asks, as far as connection and trusted proxies say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// `None` only in tests without a connection.
    pub address: Option<IpAddr>,
    /// It came to us, or to a trusted proxy before us, by HTTPS; or so the name says that it came by (`Guard::is_https`).
    pub https: bool,
    /// The host that a trusted proxy was asked for.
    pub host: Option<String>,
}

/// What one proxy said about whoever spoke to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Hop {
    address: Option<IpAddr>,
    proto: Option<String>,
    host: Option<String>,
}

impl Client {
    fn of(peer: Option<Peer>, headers: &HeaderMap, trusted: &[IpNet]) -> Self {
        let Some(peer) = peer else { return Self::default() };
        let address = peer.address.ip().to_canonical();
        let direct = Self { address: Some(address), https: peer.tls, host: None };
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
        if !is_trusted(address) {
            return direct;
        }
        let hops = if X_FORWARDED.iter().any(|name| headers.contains_key(name)) {
            x_forwarded(headers)
        } else {
            forwarded(headers)
        };
        let mut client = direct;
        for hop in hops.into_iter().rev().take(MAX_HOPS) {
            // What the nearest trusted proxy to the client says counts most, and what it leaves open counts from the next.
            if let Some(proto) = hop.proto {
                client.https = proto.eq_ignore_ascii_case("https") || proto.eq_ignore_ascii_case("wss");
            }
            client.host = hop.host.or(client.host);
            // Hidden or garbled: the proxy that said so is all that is known.
            let Some(address) = hop.address else { break };
            client.address = Some(address);
            if !is_trusted(address) {
                break;
            }
        }
        client
    }

    /// By which failed sign-ins and shares are counted.
    pub(super) fn counted_as(&self) -> String {
        self.address.map(counted_as).unwrap_or_default()
    }
}

impl Peer {
    /// By which its connections are counted.
    pub(super) fn counted_as(&self) -> String {
        counted_as(self.address.ip().to_canonical())
    }
}

/// One customer often has a whole IPv6 network of 64 bits.
fn counted_as(address: IpAddr) -> String {
    match address {
        IpAddr::V6(address) => {
            IpNet::new(address.into(), 64).map_or_else(|_| String::new(), |net| net.trunc().to_string())
        }
        IpAddr::V4(address) => address.to_string(),
    }
}

/// `X-Forwarded-For: a, b`, with the protocol and host that belong to each, or to all.
fn x_forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let addresses = list(headers, &X_FORWARDED_FOR);
    let (protos, hosts) = (list(headers, &X_FORWARDED_PROTO), list(headers, &X_FORWARDED_HOST));
    // Without an address the nearest proxy can still say how it was asked.
    let count = addresses.len().max(1);
    // Counted from the right. A list of another length was not kept by every proxy: its last entry is the nearest one's.
    let beside = |values: &[String], index: usize| {
        if values.len() == count {
            values.get(index).cloned()
        } else {
            (index + 1 == count).then(|| values.last().cloned())?
        }
    };
    (0..count)
        .map(|index| Hop {
            address: addresses.get(index).and_then(|text| address_of(text)),
            proto: beside(&protos, index),
            host: beside(&hosts, index),
        })
        .collect()
}

/// All values of a header in their order, split at commas.
fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    texts.flat_map(|text| text.split(',')).map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// `Forwarded: for=a;proto=https;host=h, for="[b]:1"`. What cannot be read says nothing, and ends the way to the left.
fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let texts = headers.get_all(header::FORWARDED).iter().map(|value| value.to_str().unwrap_or("?"));
    texts.flat_map(|text| split_outside_quotes(text, ',')).map(|element| hop(&element)).collect()
}

fn hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split_outside_quotes(element, ';') {
        let Some((name, value)) = pair.split_once('=') else { return Hop::default() };
        let value = unquoted(value.trim());
        let (name, is_new) = (name.trim().to_ascii_lowercase(), |known: &Option<String>| known.is_none());
        match name.as_str() {
            "for" if hop.address.is_none() => hop.address = address_of(&value),
            "proto" if is_new(&hop.proto) => hop.proto = Some(value),
            "host" if is_new(&hop.host) => hop.host = Some(value),
            "for" | "proto" | "host" => return Hop::default(),
            _ => {}
        }
    }
    hop
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut quoted, mut escaped) = (false, false);
    for character in text.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == separator && !quoted => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    parts.push(part);
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The text in a quoted string, or the token itself.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return text.to_owned() };
    let mut out = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        out.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    out
}

/// An address with or without a port, in brackets or not; names such as `unknown` and `_hidden` are none.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address| address.to_canonical())
}

/// The layer, outside of all others: everything behind it finds a [`Client`], and no header of this kind.
pub(super) async fn settle(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let mut client = Client::of(peer, request.headers(), &app.state.settings.trusted_proxies);
    client.https |= app.guard.is_https(request.headers(), client.host.as_deref());
    for name in X_FORWARDED.iter().chain([&header::FORWARDED]) {
        request.headers_mut().remove(name);
    }
    let behind_proxy = peer.is_some_and(|peer| is_trusted(peer, &app.state.settings.trusted_proxies));
    let share = behind_proxy.then(|| app.behind_proxies.take(client.counted_as()));
    request.extensions_mut().insert(client);
    match share {
        None => next.run(request).await,
        // Held until the body was sent: a slow download takes a connection of the proxy's for as long.
        Some(Some(share)) => next.run(request).await.map(|body| Held::hold(body, share)),
        Some(None) => too_many(),
    }
}

/// Is a proxy at the other end whose word counts?
pub(super) fn is_trusted(peer: Peer, trusted: &[IpNet]) -> bool {
    let address = peer.address.ip().to_canonical();
    trusted.iter().any(|network| network.contains(&address))
}

/// Said before the request has an id: this is outside of everything.
fn too_many() -> Response {
    let detail = "too many requests of your address are being answered; wait for some to end";
    let refusal = DomainError::new(ErrorCode::RateLimited, detail).retry_after(5);
    super::error::render(&refusal, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1:1";

    fn client(peer: &str, pairs: &[(&'static str, &str)]) -> Client {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a header value"));
        }
        let peer = Peer { address: peer.parse().expect("an address"), tls: false };
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
        Client::of(Some(peer), &headers, &trusted)
    }

    fn address(peer: &str, pairs: &[(&'static str, &str)]) -> String {
        client(peer, pairs).address.expect("a connection").to_string()
    }

    #[test]
    fn nobody_is_believed_who_is_not_trusted() {
        let said = [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "glassbox.example.com"),
            ("forwarded", "for=192.0.2.1;proto=https"),
        ];
        let direct = client("198.51.100.7:9", &said);
        assert_eq!(direct, Client { address: Some("198.51.100.7".parse().expect("one")), https: false, host: None });
    }

    #[test]
    fn the_right_most_address_that_is_no_trusted_proxy_is_the_client() {
        for (said, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("1.1.1.1, 192.0.2.1", "192.0.2.1"),
            ("1.1.1.1, 192.0.2.1, 10.9.9.9", "192.0.2.1"),
            ("10.2.2.2, 10.9.9.9", "10.2.2.2"),
            ("192.0.2.1:4711", "192.0.2.1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("192.0.2.1, fd00::5", "192.0.2.1"),
            // Garbled: nothing to its left was said by anyone who is trusted.
            ("192.0.2.1, unknown", "10.0.0.1"),
            ("192.0.2.1, unknown, 10.9.9.9", "10.9.9.9"),
            ("", "10.0.0.1"),
            (", ,", "10.0.0.1"),
        ] {
            assert_eq!(address(PROXY, &[("x-forwarded-for", said)]), expected, "{said}");
        }
        let two_lines = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(address(PROXY, &two_lines), "192.0.2.1");
        assert_eq!(address("[::ffff:10.0.0.1]:1", &[("x-forwarded-for", "192.0.2.1")]), "192.0.2.1");
    }

    #[test]
    fn scheme_and_host_come_from_the_proxy_that_saw_the_client() {
        let one = client(
            PROXY,
            &[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "a.example")],
        );
        assert!(one.https);
        assert_eq!(one.host.as_deref(), Some("a.example"));
        let chain = [("x-forwarded-for", "192.0.2.1, 10.9.9.9"), ("x-forwarded-proto", "https, http")];
        assert!(client(PROXY, &chain).https, "TLS ended at the first of two trusted proxies");
        let claimed = [("x-forwarded-for", "6.6.6.6, 192.0.2.1"), ("x-forwarded-proto", "https, http")];
        assert!(!client(PROXY, &claimed).https, "the client's own claim");
        assert!(client(PROXY, &[("x-forwarded-proto", "https")]).https, "without an address");
        assert!(!client(PROXY, &[]).https);
    }

    #[test]
    fn the_standard_header_is_read_with_its_quotes() {
        for (said, expected) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
            ("for=1.1.1.1, for=192.0.2.1;by=10.0.0.1, for=10.3.3.3", "192.0.2.1"),
            ("for=\"1.1.1.1, for=9.9.9.9\", for=192.0.2.1", "192.0.2.1"),
            ("for=192.0.2.1, for=_hidden", "10.0.0.1"),
            ("for=192.0.2.1, nonsense", "10.0.0.1"),
            ("for=192.0.2.1;for=1.1.1.1", "10.0.0.1"),
            ("for=\"192.0.2.1", "10.0.0.1"),
        ] {
            assert_eq!(address(PROXY, &[("forwarded", said)]), expected, "{said}");
        }
        let whole = client(PROXY, &[("forwarded", "for=192.0.2.1;proto=HTTPS;host=\"a.example:8443\"")]);
        assert_eq!((whole.https, whole.host.as_deref()), (true, Some("a.example:8443")));
    }

    #[test]
    fn what_a_proxy_passes_on_does_not_count_beside_what_it_says_itself() {
        let both = [("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=6.6.6.6;proto=https;host=evil.example")];
        let client = client(PROXY, &both);
        assert_eq!(client, Client { address: Some("192.0.2.1".parse().expect("one")), https: false, host: None });
    }

    #[test]
    fn an_endless_list_of_hops_is_cut_off() {
        let many = "10.1.1.1, ".repeat(5_000);
        assert_eq!(address(PROXY, &[("x-forwarded-for", &format!("192.0.2.1, {many}"))]), "10.1.1.1");
    }

    #[test]
    fn a_network_of_a_customer_counts_as_one() {
        let counted = |said| client(PROXY, &[("x-forwarded-for", said)]).counted_as();
        assert_eq!(counted("2001:db8:1:2::3"), counted("2001:db8:1:2:ffff::1"));
        assert_ne!(counted("2001:db8:1:2::3"), counted("2001:db8:1:3::3"));
        assert_ne!(counted("192.0.2.1"), counted("192.0.2.2"));
    }
}
