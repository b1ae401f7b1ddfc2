use super::*;

fn guard() -> Guard {
    Guard::new(&["https://glassbox.example.com".to_owned(), "http://10.0.0.5:8080/".to_owned()])
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, value.parse().expect("a header value"));
    }
    map
}

fn check(method: Method, uri: &str, pairs: &[(&'static str, &str)]) -> Result<(), ErrorCode> {
    let uri: Uri = uri.parse().expect("a uri");
    guard().check(&method, &uri, &headers(pairs), None).map_err(|error| error.0.code)
}

fn forwarded(host: &str, pairs: &[(&'static str, &str)]) -> Result<(), ErrorCode> {
    guard().check(&Method::POST, &Uri::from_static("/"), &headers(pairs), Some(host)).map_err(|error| error.0.code)
}

#[test]
fn the_host_that_a_proxy_was_asked_for_must_be_ours_too_and_is_what_origins_are_compared_with() {
    assert_eq!(forwarded("glassbox.example.com", &[HOST]), Ok(()));
    for host in ["evil.example", "user@localhost", "", "a b"] {
        assert_eq!(forwarded(host, &[HOST]), Err(ErrorCode::HostNotAllowed), "{host}");
    }
    // A page of another name that reaches us through a proxy can write the one, and not the other.
    assert_eq!(forwarded("localhost", &[("host", "evil.example")]), Err(ErrorCode::HostNotAllowed));
    let origin = |origin: &'static str| forwarded("10.0.0.5:9000", &[HOST, COOKIE, ("origin", origin)]);
    assert_eq!(origin("http://10.0.0.5:9000"), Ok(()));
    assert_eq!(origin("http://localhost:7070"), Err(ErrorCode::OriginNotAllowed));
}

fn get(uri: &str, pairs: &[(&'static str, &str)]) -> Result<(), ErrorCode> {
    check(Method::GET, uri, pairs)
}

const HOST: (&str, &str) = ("host", "localhost:7070");
const COOKIE: (&str, &str) = ("cookie", "glassbox_session=abc");

#[test]
fn loopback_names_and_public_hosts_are_answered_with_any_port() {
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:7070",
        "[::1]:7070",
        "localhost.",
        "glassbox.example.com",
        "glassbox.example.com:443",
        "10.0.0.5:8080",
    ] {
        assert_eq!(get("/", &[("host", host)]), Ok(()), "{host}");
    }
}

#[test]
fn every_other_host_is_refused_before_anything_else_is_looked_at() {
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "user@localhost",
        "",
        "local host",
        "example.com",
    ] {
        assert_eq!(get("/v1/me?key=x", &[("host", host)]), Err(ErrorCode::HostNotAllowed), "{host}");
    }
    assert_eq!(get("/", &[]), Err(ErrorCode::HostNotAllowed));
    assert_eq!(get("/", &[HOST, HOST]), Err(ErrorCode::HostNotAllowed));
    assert_eq!(get("http://evil.example/", &[HOST]), Err(ErrorCode::HostNotAllowed));
    assert_eq!(get("http://localhost:7070/", &[HOST]), Ok(()));
}

#[test]
fn an_origin_must_be_exactly_what_was_asked_or_a_public_url() {
    let origin = |host: &'static str, origin: &'static str| get("/", &[("host", host), ("origin", origin)]);
    assert_eq!(origin("localhost:7070", "http://localhost:7070"), Ok(()));
    assert_eq!(origin("localhost:7070", "https://localhost:7070"), Ok(()));
    assert_eq!(origin("localhost", "http://localhost:80"), Ok(()));
    assert_eq!(origin("127.0.0.1:7070", "https://glassbox.example.com"), Ok(()));
    assert_eq!(origin("127.0.0.1:7070", "http://10.0.0.5:8080"), Ok(()));
    for foreign in [
        "http://localhost:3000",
        "http://127.0.0.1:7070",
        "http://localhost",
        "null",
        "http://evil.example",
        "ws://localhost:7070",
        "http://glassbox.example.com",
        "https://glassbox.example.com:8443",
        "http://localhost:7070@evil.example",
        "http://localhost:7070/x",
        "",
    ] {
        assert_eq!(origin("localhost:7070", foreign), Err(ErrorCode::OriginNotAllowed), "{foreign}");
    }
    assert_eq!(
        get("/", &[HOST, ("origin", "http://localhost:7070"), ("origin", "http://localhost:7070")]),
        Err(ErrorCode::OriginNotAllowed)
    );
}

#[test]
fn acting_with_the_cookie_needs_an_origin_and_with_a_key_does_not() {
    assert_eq!(check(Method::POST, "/v1/sessions", &[HOST, COOKIE]), Err(ErrorCode::OriginNotAllowed));
    assert_eq!(check(Method::DELETE, "/v1/sessions/x", &[HOST, COOKIE]), Err(ErrorCode::OriginNotAllowed));
    assert_eq!(check(Method::POST, "/v1/sessions", &[HOST, COOKIE, ("origin", "http://localhost:7070")]), Ok(()));
    assert_eq!(check(Method::POST, "/v1/sessions", &[HOST, COOKIE, ("x-api-key", "k")]), Ok(()));
    assert_eq!(check(Method::POST, "/v1/sessions", &[HOST, ("x-api-key", "k")]), Ok(()));
    assert_eq!(
        check(Method::POST, "/v1/sessions", &[HOST, ("x-api-key", "k"), ("origin", "http://evil.example")]),
        Err(ErrorCode::OriginNotAllowed)
    );
}

#[test]
fn a_socket_with_the_cookie_needs_an_origin() {
    let upgrade = ("upgrade", "websocket");
    assert_eq!(get("/v1/ws", &[HOST, COOKIE, upgrade]), Err(ErrorCode::OriginNotAllowed));
    assert_eq!(
        get("/v1/ws", &[HOST, COOKIE, upgrade, ("origin", "http://evil.example")]),
        Err(ErrorCode::OriginNotAllowed)
    );
    assert_eq!(get("/v1/ws", &[HOST, COOKIE, upgrade, ("origin", "http://localhost:7070")]), Ok(()));
    assert_eq!(get("/v1/ws", &[HOST, ("x-api-key", "k"), upgrade]), Ok(()));
}

#[test]
fn reading_with_the_cookie_is_for_our_own_page() {
    let site = |path: &str, site: &'static str| get(path, &[HOST, COOKIE, ("sec-fetch-site", site)]);
    assert_eq!(site("/v1/sessions", "same-origin"), Ok(()));
    assert_eq!(site("/v1/sessions", "none"), Ok(()));
    assert_eq!(site("/v1/sessions", "same-site"), Err(ErrorCode::OriginNotAllowed));
    assert_eq!(site("/v1/sessions", "cross-site"), Err(ErrorCode::OriginNotAllowed));
    assert_eq!(get("/v1/sessions", &[HOST, COOKIE]), Ok(()), "not every browser sends it");
    let followed = [HOST, COOKIE, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(get("/sessions/x", &followed), Ok(()), "a link to the page may be anywhere");
    assert_eq!(get("/v1/sessions", &followed), Err(ErrorCode::OriginNotAllowed));
}

#[test]
fn a_key_in_the_address_is_refused_however_it_is_written() {
    for uri in [
        "/v1/sessions?key=x",
        "/v1/sessions?a=1&API_KEY=x",
        "/v1/sessions?access_token=",
        "/?token=x",
        "/v1/ws?x=asb_abcdefghij_secret",
        "/v1/sessions?x=%61sb_abc",
        "/v1/sessions/asb_abcdefghij_x",
        "/v1/sessions/%61%73b_abc",
        "/v1/sessions?asb_abc",
    ] {
        assert_eq!(get(uri, &[HOST]), Err(ErrorCode::KeyInUrl), "{uri}");
    }
    for uri in
        ["/v1/sessions?limit=5&before=3", "/v1/keys", "/v1/keys/key_abc", "/v1/sessions?wait=1.5", "/a%zz%", "/?x=%ff"]
    {
        assert_eq!(get(uri, &[HOST]), Ok(()), "{uri}");
    }
}

#[test]
fn people_came_by_https_where_the_name_that_was_asked_for_is_reached_so() {
    let https = |host: &'static str| guard().is_https(&headers(&[("host", host)]), None);
    assert!(https("glassbox.example.com"));
    assert!(https("GLASSBOX.example.com.:7070"), "a proxy's own port");
    for host in ["localhost:7070", "10.0.0.5:8080", "evil.example", "a b", ""] {
        assert!(!https(host), "{host}");
    }
    let proxied = |host| guard().is_https(&headers(&[HOST]), Some(host));
    assert!(proxied("glassbox.example.com"), "a trusted proxy asks us by another name");
    assert!(!proxied("10.0.0.5:8080"));
    let named = [("host", "glassbox.example.com")];
    assert!(!guard().is_https(&headers(&named), Some("localhost:7070")), "what the proxy was asked for counts");
    assert!(!guard().is_https(&headers(&[]), None));
}

#[test]
fn of_two_addresses_of_one_name_the_port_says_which() {
    let guard = Guard::new(&["http://box:7070".to_owned(), "https://box:8443".to_owned()]);
    let https = |host: &'static str| guard.is_https(&headers(&[("host", host)]), None);
    assert!(!https("box:7070"));
    assert!(https("box:8443"));
    assert!(https("box"), "one of both, and the cookie is kept from the other");
}
