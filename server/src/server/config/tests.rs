use std::path::Path;

use super::*;

#[derive(Debug, clap::Parser)]
struct Program {
    #[command(flatten)]
    serve: ServeArgs,
}

fn config(arguments: &[&str]) -> Result<Config, String> {
    use clap::Parser as _;
    let program = Program::try_parse_from(std::iter::once(&"serve").chain(arguments)).map_err(|e| e.to_string())?;
    program.serve.into_config().map_err(|error| error.to_string())
}

fn refusal(arguments: &[&str]) -> String {
    config(arguments).expect_err("to be refused")
}

#[test]
fn nothing_given_means_loopback_and_the_documented_figures() {
    let config = config(&[]).expect("defaults");
    assert_eq!(config.listen.to_string(), "127.0.0.1:7070");
    assert!(config.static_keys.is_empty() && config.public_urls.is_empty());
    assert_eq!(config.logs, Config::default().logs);
    assert_eq!((config.max_sessions, config.max_commands), (10, 16));
    assert_eq!((config.requests_per_minute, config.page_requests_per_minute), (120, 1200));
    assert!(config.memory_total >= values::LEAST_MEMORY_TOTAL);
}

#[test]
fn keys_may_hold_colons_and_are_never_shown() {
    let config = config(&["--api-keys", "acme:0123456789:abcdef:x, b_2:fedcba9876543210"]).expect("two keys");
    assert_eq!(config.static_keys.len(), 2);
    assert!(config.static_keys[0].is_same_key(&StaticKey::new("other", "0123456789:abcdef:x")));
    assert!(!format!("{config:?}").contains("0123456789"));
    let arguments = ["serve", "--api-keys", "acme:0123456789abcdefg"];
    let program = <Program as clap::Parser>::try_parse_from(arguments).expect("arguments");
    assert!(!format!("{program:?}").contains("0123456789"));
}

#[test]
fn keys_that_make_no_sense_stop_the_start_without_being_shown() {
    for (keys, says) in [
        ("", "empty"),
        ("acme:0123456789abcdef,", "part 2"),
        (",acme:0123456789abcdef", "part 1"),
        ("0123456789abcdef", "part 1"),
        (":0123456789abcdef", "part 1"),
        ("acme:", "part 1"),
        ("Acme:0123456789abcdef", "tenant name"),
        ("acme:0123456789abcde", "too short"),
        ("acme:0123456789 abcdef", "blank"),
        ("acme:0123456789abcdef,beta:0123456789abcdef", "acme and beta"),
    ] {
        let text = refusal(&["--api-keys", keys]);
        assert!(text.contains(says) && text.starts_with("--api-keys"), "{keys}: {text}");
        assert!(!text.contains("0123456789"), "{text}");
    }
}

#[test]
fn beyond_loopback_a_public_url_is_required() {
    assert!(refusal(&["--listen", "0.0.0.0:7070"]).contains("GLASSBOX_PUBLIC_URL"));
    assert!(config(&["--listen", "0.0.0.0:7070", "--public-url", "https://box.example.com"]).is_ok());
    assert!(config(&["--listen", "[::1]:0"]).is_ok());
    assert!(config(&["--listen", "localhost:7071"]).is_ok());
    assert!(refusal(&["--listen", "7070"]).contains("--listen"));
    assert!(refusal(&["--listen", "example.com:80"]).contains("--listen"));
}

#[test]
fn public_urls_are_origins_as_browsers_write_them() {
    let urls = config(&["--public-url", "HTTPS://Box.Example.com:443/, http://10.0.0.5:7070,http://[fd00::1]"])
        .expect("three")
        .public_urls;
    let shown: Vec<_> = urls.iter().map(|url| (url.origin.as_str(), url.host.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("https://box.example.com", "box.example.com"),
            ("http://10.0.0.5:7070", "10.0.0.5:7070"),
            ("http://[fd00::1]", "[fd00::1]"),
        ]
    );
    for wrong in
        ["", "box.example.com", "ftp://box", "https://a:b@box", "https://box/path", "https://box?x=1", "https://box,"]
    {
        assert!(refusal(&["--public-url", wrong]).contains("--public-url"), "{wrong}");
    }
}

#[test]
fn sizes_and_counts_are_checked() {
    assert_eq!(config(&["--memory-total", "8g"]).expect("a size").memory_total, 8 << 30);
    assert!(refusal(&["--memory-total", "8 parsecs"]).contains("--memory-total"));
    assert!(refusal(&["--memory-total", "1m"]).contains("at least 256m"));
    assert!(refusal(&["--log-ring", "1g"]).contains("from 64k to 64m"));
    assert!(refusal(&["--max-sessions", "0"]).contains("max-sessions"));
    assert!(refusal(&["--idle-seconds=-1"]).contains("idle-seconds"));
}

#[test]
fn the_usual_data_folder_follows_the_xdg_rules() {
    let with = |variables: &'static [(&str, &str)]| {
        data_dir_by(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value)))
    };
    assert_eq!(with(&[("XDG_DATA_HOME", "/x"), ("HOME", "/home/a")]), Path::new("/x/glassbox"));
    assert_eq!(with(&[("XDG_DATA_HOME", "x"), ("HOME", "/home/a")]), Path::new("/home/a/.local/share/glassbox"));
    assert_eq!(with(&[("HOME", "")]), Path::new("/var/lib/glassbox"));
}

/// A file of settings, and what is wrong with it.
fn in_file(text: &str) -> Result<Config, Vec<String>> {
    let given = file::parse(Path::new("box.toml"), text);
    let config = given.and_then(|given| Effective::of(Vec::new(), given).config());
    config.map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn a_file_holds_numbers_texts_and_lists() {
    let config = in_file(
        "# ours\nmax_sessions = 1_0\nlog = 'json'\npublic_url = [\n  'https://a.example',\n  'https://b.example',\n]\n\
         trusted_proxies = '127.0.0.1, fd00::/8'\nlog_ring = \"64k\"\n",
    )
    .expect("a good file");
    assert_eq!((config.max_sessions, config.log), (10, LogFormat::Json));
    assert_eq!(config.public_urls.len(), 2);
    assert!(config.trusted_proxies[1].contains(&"fd12::1".parse::<IpAddr>().expect("an address")));
    assert!(!config.trusted_proxies[0].contains(&"127.0.0.2".parse::<IpAddr>().expect("an address")));
    assert_eq!(config.logs.ring_bytes, 64 * 1024);
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_line_name_and_range() {
    for (text, says) in [
        ("max_sesions = 3", &["box.toml:1:", "max_sesions", "max_sessions?"][..]),
        ("\n\nGLASSBOX_MAX_SESSIONS = 3", &["box.toml:3:", "max_sessions?"]),
        ("zzz = 1", &["box.toml:1:", "config example"]),
        ("log = 'json'\nmax_sessions = 0", &["box.toml:2:", "max_sessions", "from 1 to 10000"]),
        ("max_sessions = -1", &["box.toml:1:", "from 1 to 10000"]),
        ("max_sessions = true", &["box.toml:1:", "max_sessions", "boolean", "1 to 10000"]),
        ("idle_seconds = 0.5", &["box.toml:1:", "idle_seconds", "seconds"]),
        ("log_head = '1'", &["box.toml:1:", "log_head", "from 64k to 16g"]),
        ("log = 'loud'", &["box.toml:1:", "pretty or json"]),
        ("trusted_proxies = ['10.0.0.0/33']", &["box.toml:1:", "10.0.0.0/33"]),
        ("tls_cert = '/x'", &["box.toml:1:", "GLASSBOX_TLS_KEY"]),
        ("listen = '0.0.0.0:80'", &["box.toml:1:", "GLASSBOX_PUBLIC_URL"]),
        ("[limits]\nmax_sessions = 1", &["box.toml:1:", "no sections"]),
        ("log = json", &["box.toml:1:", "TOML"]),
        ("log = 'json'\nlog = 'json'", &["box.toml:2:", "TOML"]),
    ] {
        let problems = in_file(text).expect_err("to be refused");
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        for word in says {
            assert!(problems[0].contains(word), "{text}: {word} is not in {:?}", problems[0]);
        }
    }
    assert_eq!(in_file("max_sessions = 0\nmax_commands = 0\nlog = 'x'").expect_err("three").len(), 3);
    assert_eq!(in_file("a = 1\nmax_commands = 2\nb = 3").expect_err("two").len(), 2);
}

#[test]
fn a_key_in_a_file_is_never_repeated() {
    for text in [
        "api_keys = 'acme:0123456789 abcdef'",
        "api_keys = ['acme:0123456789abcdef', 7]",
        "api_keys = 'acme:0123456789abcdef",
        "api_keys = acme:0123456789abcdef",
        "api_key = 'acme:0123456789abcdef'",
    ] {
        let problems = in_file(text).expect_err("to be refused");
        assert!(problems[0].contains("box.toml:1:") && !problems[0].contains("0123456789"), "{problems:?}");
    }
}

#[test]
fn a_flag_counts_before_the_environment_before_the_file_before_the_default() {
    let file =
        || file::parse(Path::new("box.toml"), "max_sessions = 7\nmax_commands = 7\nlog = 'json'").expect("a file");
    let given = |name: &str, text: &str, source: Source| resolve::Given {
        setting: table::Setting::named(name).expect("a setting"),
        text: text.to_owned(),
        source,
    };
    let effective = Effective::of(
        vec![given("max_sessions", "8", Source::Environment), given("max_commands", "9", Source::Flag)],
        file(),
    );
    let config = effective.config().expect("good");
    assert_eq!((config.max_sessions, config.max_commands, config.log), (8, 9, LogFormat::Json));
    let shown = effective.shown();
    for line in [
        "max_sessions = 8  # GLASSBOX_MAX_SESSIONS",
        "max_commands = 9  # --max-commands",
        "log = \"json\"  # box.toml:3",
        "idle_seconds = 1800  # default",
        "# tls_cert is not set: plain HTTP",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    let secret = Effective::of(vec![given("api_keys", "acme:0123456789abcdef", Source::Flag)], Vec::new()).shown();
    assert!(secret.contains("(hidden)") && !secret.contains("0123456789"), "{secret}");
}

#[test]
fn the_example_is_a_good_file_with_every_setting_as_it_is_and_with_every_line_used() {
    let example = example();
    in_file(&example).expect("commented out");
    let used: String = example
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n")
        .collect();
    let given = file::parse(Path::new("box.toml"), &used).expect("a good file");
    assert_eq!(given.len(), table::SETTINGS.len());
    in_file(&used).expect("every default and example is allowed");
}

#[test]
fn the_page_in_the_docs_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, document()).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("the page");
    assert!(page == document(), "docs/settings.md is not what the table says; write it anew with UPDATE_SNAPSHOTS=1");
}

#[test]
fn flags_and_variables_are_named_after_the_name_in_the_file() {
    for setting in table::SETTINGS {
        assert_eq!(setting.flag, setting.name.replace('_', "-"));
        assert_eq!(setting.variable, format!("GLASSBOX_{}", setting.name.to_ascii_uppercase()));
        assert_eq!(
            setting.default.is_none(),
            !setting.without.is_empty(),
            "{}: a default or what happens without",
            setting.name
        );
    }
}
