use glassbox_shared::error::ErrorCode;

use super::*;

struct TestAccess {
    access: Access,
    store: Store,
    _folder: tempfile::TempDir,
}

impl std::ops::Deref for TestAccess {
    type Target = Access;

    fn deref(&self) -> &Access {
        &self.access
    }
}

const STATIC: &str = "static:key-of-acme";

fn access(static_keys: Vec<StaticKey>) -> TestAccess {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(&folder.path().join("test.db")).expect("a store");
    TestAccess { access: Access::new(store.clone(), static_keys), store, _folder: folder }
}

fn with_static_key() -> TestAccess {
    access(vec![StaticKey::new("acme", STATIC), StaticKey::new("beta", "another-static-key")])
}

fn code<T: std::fmt::Debug>(result: Result<T, DomainError>) -> ErrorCode {
    result.expect_err("to be refused").code
}

#[test]
fn a_random_key_has_the_form_and_little_else_has() {
    let key = random_key();
    assert!(has_key_form(&key), "{key}");
    assert_eq!(key.len(), 4 + 10 + 1 + 43);
    assert_ne!(key, random_key());
    let secret = "x".repeat(43);
    for wrong in [
        String::new(),
        format!("asb_abcdefghij_{secret}x"),
        format!("asb_abcdefghi1_{secret}"),
        format!("asb_ABCDEFGHIJ_{secret}"),
        format!("asb_abcdefghij-{secret}"),
        format!("key_abcdefghij_{secret}"),
        format!("asb_äbcdefghi_{secret}"),
        format!("asb_abcdefghiä_{secret}"),
        format!("asb_abcdefghij_{}+", &secret[1..]),
    ] {
        assert!(!has_key_form(&wrong), "{wrong}");
    }
}

#[tokio::test]
async fn a_key_says_who_asks() {
    let access = with_static_key();
    let static_key = access.authenticate_key(STATIC).await.expect("an answer").expect("valid").principal;
    assert_eq!((static_key.tenant.as_str(), static_key.role), ("acme", Role::Operator));
    assert_eq!(static_key.actor, Actor::Human { name: "operator".into() });

    for role in [Role::Agent, Role::Viewer, Role::Operator] {
        let (view, key) = access.create_key("acme", " builder\u{7} ", role).await.expect("made");
        assert!(key.starts_with(&view.prefix) && view.active);
        let principal = access.authenticate_key(&key).await.expect("an answer").expect("valid").principal;
        assert_eq!((principal.role, principal.key_id), (role, Some(view.key_id)));
        let name = "builder".to_owned();
        let human = role == Role::Operator;
        assert_eq!(principal.actor, if human { Actor::Human { name } } else { Actor::Agent { name } });
    }
    for wrong in [String::new(), "static:key-of-acm".to_owned(), random_key()] {
        assert!(access.authenticate_key(&wrong).await.expect("an answer").is_none(), "{wrong}");
    }
}

#[tokio::test]
async fn a_configured_key_has_an_id_of_its_own_that_tells_nothing_of_it() {
    let keys = || vec![StaticKey::new("acme", STATIC), StaticKey::new("acme", "another-static-key")];
    let access = access(keys());
    let id = async |access: Access, key: &str| {
        let identity = access.authenticate_key(key).await.expect("an answer").expect("valid");
        identity.principal.key_id.expect("an id")
    };
    let with = |secret| Access::new(access.store.clone(), keys()).with_secret(secret);
    let own = id(with("ours"), STATIC).await;
    assert_eq!(own, id(with("ours"), STATIC).await, "the same after a restart");
    assert_ne!(own, id(with("ours"), "another-static-key").await, "another key of the same tenant");
    assert_ne!(own, id(with("theirs"), STATIC).await, "nobody else can make it of the key");
    let sign_in = with("ours").sign_in_with_key(STATIC, "Ann").await.expect("signed in");
    assert_eq!(sign_in.identity.principal.key_id, None, "only a stored key ends its sign-ins by its id");
}

#[tokio::test]
async fn ten_active_keys_are_the_most() {
    let access = access(Vec::new());
    let mut last = None;
    for _ in 0..MOST_ACTIVE_KEYS {
        last = Some(access.create_key("acme", "k", Role::Agent).await.expect("made").0);
    }
    assert_eq!(code(access.create_key("acme", "k", Role::Operator).await), ErrorCode::Conflict);
    access.create_key("beta", "k", Role::Agent).await.expect("another tenant's");
    access.revoke_key("acme", &last.expect("ten").key_id).await.expect("revoked");
    access.create_key("acme", "k", Role::Agent).await.expect("there is room again");
    assert_eq!(access.list_keys("acme").await.expect("listed").len(), MOST_ACTIVE_KEYS + 1);
}

#[tokio::test]
async fn a_key_needs_a_tenant_a_name_and_a_role_that_exist() {
    let access = access(Vec::new());
    for tenant in ["", "Acme", "-acme", "ac me", &"a".repeat(64)] {
        assert_eq!(code(access.create_key(tenant, "k", Role::Agent).await), ErrorCode::Invalid, "{tenant}");
    }
    for name in ["", "  ", "\u{200b}", &"k".repeat(61)] {
        assert_eq!(code(access.create_key("acme", name, Role::Agent).await), ErrorCode::Invalid, "{name}");
    }
    assert_eq!(code(access.create_key("acme", "k", Role::Admin).await), ErrorCode::NotImplemented);
    assert_eq!(code(access.make_link("acme", Role::Admin).await), ErrorCode::NotImplemented);
    access.create_key(&"a".repeat(63), &"ä".repeat(60), Role::Agent).await.expect("made");
}

#[tokio::test]
async fn revoking_works_at_once_on_what_is_open_too() {
    let access = access(Vec::new());
    let (_, other) = access.create_key("acme", "other", Role::Operator).await.expect("made");
    let (view, key) = access.create_key("acme", "k", Role::Operator).await.expect("made");
    let by_key = access.authenticate_key(&key).await.expect("an answer").expect("valid").credential;
    let sign_in = access.sign_in_with_key(&key, "Ann").await.expect("signed in");
    let by_cookie = sign_in.identity.credential;
    assert!(access.still_valid(&by_key).await.expect("an answer"));
    assert!(access.still_valid(&by_cookie).await.expect("an answer"));

    let mut revocations = access.revocations();
    let revoked = access.revoke_key("acme", &view.key_id).await.expect("revoked");
    assert!(!revoked.active);
    assert!(revocations.has_changed().expect("still there"));
    revocations.mark_unchanged();
    assert!(!access.still_valid(&by_key).await.expect("an answer"));
    assert!(!access.still_valid(&by_cookie).await.expect("an answer"));
    assert!(access.authenticate_cookie(&sign_in.cookie).await.expect("an answer").is_none());
    assert_eq!(code(access.sign_in_with_key(&key, "Ann").await), ErrorCode::Unauthorized);
    assert!(access.authenticate_key(&other).await.expect("an answer").is_some());
    assert_eq!(access.revoke_key("acme", &view.key_id).await.expect("again").revoked_at, revoked.revoked_at);
}

#[tokio::test]
async fn the_last_operator_key_stays_unless_one_is_configured() {
    for (access, code_expected) in [(access(Vec::new()), Some(ErrorCode::Conflict)), (with_static_key(), None)] {
        let (operator, _) = access.create_key("acme", "k", Role::Operator).await.expect("made");
        let (agent, _) = access.create_key("acme", "k", Role::Agent).await.expect("made");
        access.revoke_key("acme", &agent.key_id).await.expect("an agent's can go");
        assert_eq!(code(access.revoke_key("beta", &operator.key_id).await), ErrorCode::NotFound);
        let outcome = access.revoke_key("acme", &operator.key_id).await;
        assert_eq!(outcome.err().map(|error| error.code), code_expected);
        assert!(!access.revoke_even_last_key("acme", &operator.key_id).await.expect("revoked").active);
    }
}

#[tokio::test]
async fn a_sign_in_has_the_keys_role_and_the_humans_name() {
    let access = with_static_key();
    let (_, viewer) = access.create_key("acme", "watcher", Role::Viewer).await.expect("made");
    let sign_in = access.sign_in_with_key(&viewer, " Ann\u{1b}[31m Lee ").await.expect("signed in");
    assert_eq!(sign_in.max_age_seconds, 30 * 24 * 3600);
    assert!(!format!("{sign_in:?}").contains(&sign_in.cookie));
    let identity = access.authenticate_cookie(&sign_in.cookie).await.expect("an answer").expect("valid");
    assert_eq!(identity, sign_in.identity);
    assert_eq!(identity.principal.role, Role::Viewer);
    assert_eq!(identity.principal.actor, Actor::Human { name: "Ann Lee".into() });
    assert_eq!(code(access.sign_in_with_key(&viewer, " ").await), ErrorCode::Invalid);
    assert_eq!(code(access.sign_in_with_key("nonsense", "Ann").await), ErrorCode::Unauthorized);

    access.sign_out(&sign_in.cookie).await.expect("signed out");
    assert!(access.authenticate_cookie(&sign_in.cookie).await.expect("an answer").is_none());
    access.sign_out("nonsense").await.expect("nothing to do");
}

#[tokio::test]
async fn a_sign_in_ends_when_its_key_is_no_longer_configured() {
    let access = with_static_key();
    let sign_in = access.sign_in_with_key(STATIC, "Ann").await.expect("signed in");
    assert!(access.authenticate_cookie(&sign_in.cookie).await.expect("an answer").is_some());
    let restarted = Access::new(access.store.clone(), vec![StaticKey::new("beta", "another-static-key")]);
    assert!(restarted.authenticate_cookie(&sign_in.cookie).await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_link_signs_in_once_and_a_bad_name_does_not_use_it_up() {
    let access = access(Vec::new());
    let token = access.make_link("acme", Role::Operator).await.expect("a link");
    assert_eq!(link_url("http://127.0.0.1:7070/", &token), format!("http://127.0.0.1:7070/#link={token}"));
    assert_eq!(code(access.sign_in_with_link(&token, "").await), ErrorCode::Invalid);
    let sign_in = access.sign_in_with_link(&token, "Ann").await.expect("signed in");
    let identity = access.authenticate_cookie(&sign_in.cookie).await.expect("an answer").expect("valid");
    assert_eq!((identity.principal.tenant.as_str(), identity.principal.role), ("acme", Role::Operator));
    assert_eq!(code(access.sign_in_with_link(&token, "Bob").await), ErrorCode::LinkExpired);
    assert_eq!(code(access.sign_in_with_link("nonsense", "Bob").await), ErrorCode::LinkExpired);
}

#[tokio::test]
async fn what_has_expired_does_not_count() {
    let access = access(Vec::new());
    let expired = crate::store::SignInRecord {
        hash: hash("cookie"),
        tenant: "acme".into(),
        role: Role::Viewer,
        name: "Ann".into(),
        key_id: None,
        key_hash: None,
        created_at: 1.0,
        expires_at: 2.0,
    };
    access.store.insert_sign_in(&expired).await.expect("inserted");
    assert!(access.authenticate_cookie("cookie").await.expect("an answer").is_none());
    let link = crate::store::LinkRecord { hash: hash("t"), tenant: "acme".into(), role: Role::Viewer, expires_at: 2.0 };
    access.store.insert_link(&link).await.expect("inserted");
    assert_eq!(code(access.sign_in_with_link("t", "Ann").await), ErrorCode::LinkExpired);
    access.prune().await.expect("pruned");
    assert!(access.store.sign_in(expired.hash).await.expect("read").is_none());
}
