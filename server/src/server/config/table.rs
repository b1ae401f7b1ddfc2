//! Every setting once: its names, its range, its default, what it is for. Arguments, the example file, `config check` and
//! `docs/settings.md` are made from this table, so that none of them can say something else.

use super::values::{
    LEAST_FILE_BYTES, LEAST_LOG_BYTES, LEAST_MEMORY_TOTAL, MOST_FILE_BYTES, MOST_LOG_BYTES, MOST_RING_BYTES, shown_size,
};

/// Longest time that can be set, a year: longer ones are slips of the finger.
const MOST_SECONDS: u64 = 366 * 24 * 60 * 60;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text with rules of its own.
    Text,
    /// Several, with commas between; in a file also a list.
    List,
    /// A whole number.
    Count {
        /// Smallest.
        least: u64,
        /// Largest.
        most: u64,
    },
    /// A time in whole seconds.
    Seconds {
        /// Longest; the shortest is one second.
        most: u64,
    },
    /// Bytes, such as `512m`.
    Size {
        /// Smallest.
        least: u64,
        /// Largest; `u64::MAX`: no limit of its own.
        most: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// In a file.
    pub name: &'static str,
    /// On the command line, without the dashes.
    pub flag: &'static str,
    /// In the environment.
    pub variable: &'static str,
    /// Placeholder of the value in the help.
    pub value: &'static str,
    /// What a value is.
    pub kind: Kind,
    /// What counts when nothing is given; `None`: what `without` says.
    pub default: Option<&'static str>,
    /// What happens without it.
    pub without: &'static str,
    /// A value to begin with where there is no default.
    pub example: &'static str,
    /// Never shown.
    pub secret: bool,
    /// What it is for, a sentence without its full stop.
    pub help: &'static str,
}

/// What most settings have in common.
const USUAL: Setting = Setting {
    name: "",
    flag: "",
    variable: "",
    value: "TEXT",
    kind: Kind::Text,
    default: None,
    without: "",
    example: "",
    secret: false,
    help: "",
};

/// All settings, in the order in which they are shown.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        flag: "listen",
        variable: "GLASSBOX_LISTEN",
        value: "ADDRESS:PORT",
        // Loopback, because whoever reaches it may try keys.
        default: Some("127.0.0.1:7070"),
        help: "Address and port to listen on; beyond loopback only together with a public URL",
        ..USUAL
    },
    Setting {
        name: "data_dir",
        flag: "data-dir",
        variable: "GLASSBOX_DATA_DIR",
        value: "DIR",
        without: "`$XDG_DATA_HOME/glassbox`, else `~/.local/share/glassbox`, else `/var/lib/glassbox`",
        example: "/var/lib/glassbox",
        help: "Folder for the database, the output logs and the first key",
        ..USUAL
    },
    Setting {
        name: "api_keys",
        flag: "api-keys",
        variable: "GLASSBOX_API_KEYS",
        value: "TENANT:KEY,…",
        kind: Kind::List,
        without: "none; one is made at the first start",
        example: "acme:at-least-16-characters",
        secret: true,
        help: "Operators' keys; better not given as an argument, because everybody on the machine sees those",
        ..USUAL
    },
    Setting {
        name: "public_url",
        flag: "public-url",
        variable: "GLASSBOX_PUBLIC_URL",
        value: "URL,…",
        kind: Kind::List,
        without: "none; only the loopback names are answered",
        example: "https://glassbox.example.com",
        help: "Origins under which browsers reach this server",
        ..USUAL
    },
    Setting {
        name: "trusted_proxies",
        flag: "trusted-proxies",
        variable: "GLASSBOX_TRUSTED_PROXIES",
        value: "ADDRESS[/BITS],…",
        kind: Kind::List,
        without: "none; forwarded headers count from nobody",
        example: "127.0.0.1,10.0.0.0/8",
        help: "Proxies whose word counts about the client's address, scheme and host (X-Forwarded-For, -Proto, -Host, or \
               Forwarded)",
        ..USUAL
    },
    Setting {
        name: "tls_cert",
        flag: "tls-cert",
        variable: "GLASSBOX_TLS_CERT",
        value: "FILE",
        without: "plain HTTP",
        example: "/etc/glassbox/fullchain.pem",
        help: "Certificate chain in PEM, the server's own first; read again on SIGHUP",
        ..USUAL
    },
    Setting {
        name: "tls_key",
        flag: "tls-key",
        variable: "GLASSBOX_TLS_KEY",
        value: "FILE",
        without: "plain HTTP",
        example: "/etc/glassbox/privkey.pem",
        help: "The certificate's private key in PEM; read again on SIGHUP",
        ..USUAL
    },
    Setting {
        name: "log",
        flag: "log",
        variable: "GLASSBOX_LOG",
        value: "FORMAT",
        kind: Kind::Choice(&["pretty", "json"]),
        default: Some("pretty"),
        help: "How the log is written",
        ..USUAL
    },
    Setting {
        name: "image",
        flag: "image",
        variable: "GLASSBOX_IMAGE",
        value: "IMAGE",
        default: Some(super::DEFAULT_IMAGE),
        help: "Image of new sandboxes",
        ..USUAL
    },
    Setting {
        name: "memory_total",
        flag: "memory-total",
        variable: "GLASSBOX_MEMORY_TOTAL",
        value: "SIZE",
        kind: Kind::Size { least: LEAST_MEMORY_TOTAL, most: u64::MAX },
        without: "75 % of the machine's",
        example: "8g",
        help: "Memory for all sandboxes together",
        ..USUAL
    },
    Setting {
        name: "max_sessions",
        flag: "max-sessions",
        variable: "GLASSBOX_MAX_SESSIONS",
        value: "COUNT",
        kind: Kind::Count { least: 1, most: 10_000 },
        default: Some("10"),
        help: "Sessions that a tenant may have at once",
        ..USUAL
    },
    Setting {
        name: "max_commands",
        flag: "max-commands",
        variable: "GLASSBOX_MAX_COMMANDS",
        value: "COUNT",
        kind: Kind::Count { least: 1, most: 1_000 },
        default: Some("16"),
        help: "Commands that may run in a session at once",
        ..USUAL
    },
    Setting {
        name: "idle_seconds",
        flag: "idle-seconds",
        variable: "GLASSBOX_IDLE_SECONDS",
        value: "SECONDS",
        kind: Kind::Seconds { most: MOST_SECONDS },
        default: Some("1800"),
        help: "An unused session ends after this time",
        ..USUAL
    },
    Setting {
        name: "lifetime_seconds",
        flag: "lifetime-seconds",
        variable: "GLASSBOX_LIFETIME_SECONDS",
        value: "SECONDS",
        kind: Kind::Seconds { most: MOST_SECONDS },
        default: Some("86400"),
        help: "Every session ends after this time",
        ..USUAL
    },
    Setting {
        name: "max_command_seconds",
        flag: "max-command-seconds",
        variable: "GLASSBOX_MAX_COMMAND_SECONDS",
        value: "SECONDS",
        kind: Kind::Seconds { most: MOST_SECONDS },
        default: Some("86400"),
        help: "Every command ends after this time",
        ..USUAL
    },
    Setting {
        name: "max_file",
        flag: "max-file",
        variable: "GLASSBOX_MAX_FILE",
        value: "SIZE",
        kind: Kind::Size { least: LEAST_FILE_BYTES, most: MOST_FILE_BYTES },
        default: Some("4g"),
        help: "Largest file that can be put into a sandbox from outside",
        ..USUAL
    },
    Setting {
        name: "retention",
        flag: "retention",
        variable: "GLASSBOX_RETENTION",
        value: "TIME,TENANT=TIME,…",
        kind: Kind::List,
        default: Some("7d"),
        help: "How long ended sessions can be read, for all tenants and for named ones, such as `7d,acme=30d`; then they are \
               removed for good",
        ..USUAL
    },
    Setting {
        name: "log_ring",
        flag: "log-ring",
        variable: "GLASSBOX_LOG_RING",
        value: "SIZE",
        kind: Kind::Size { least: LEAST_LOG_BYTES, most: MOST_RING_BYTES },
        default: Some("1m"),
        help: "Output kept in memory of each command",
        ..USUAL
    },
    Setting {
        name: "log_head",
        flag: "log-head",
        variable: "GLASSBOX_LOG_HEAD",
        value: "SIZE",
        kind: Kind::Size { least: LEAST_LOG_BYTES, most: MOST_LOG_BYTES },
        default: Some("32m"),
        help: "Output kept on disk from each command's beginning",
        ..USUAL
    },
    Setting {
        name: "log_tail",
        flag: "log-tail",
        variable: "GLASSBOX_LOG_TAIL",
        value: "SIZE",
        kind: Kind::Size { least: LEAST_LOG_BYTES, most: MOST_LOG_BYTES },
        default: Some("32m"),
        help: "Output kept on disk from each command's end, once there is more than fits its beginning",
        ..USUAL
    },
    Setting {
        name: "max_connections",
        flag: "max-connections",
        variable: "GLASSBOX_MAX_CONNECTIONS",
        value: "COUNT",
        kind: Kind::Count { least: 64, most: 100_000 },
        default: Some("4096"),
        help: "Connections at once, without live sockets; a call that waits holds one. Half of them for one address. Fewer \
               where the system allows fewer open files",
        ..USUAL
    },
    Setting {
        name: "requests_per_minute",
        flag: "requests-per-minute",
        variable: "GLASSBOX_REQUESTS_PER_MINUTE",
        value: "COUNT",
        kind: Kind::Count { least: 1, most: 1_000_000 },
        default: Some("120"),
        help: "Requests a minute for a tenant's keys together",
        ..USUAL
    },
    Setting {
        name: "page_requests_per_minute",
        flag: "page-requests-per-minute",
        variable: "GLASSBOX_PAGE_REQUESTS_PER_MINUTE",
        value: "COUNT",
        kind: Kind::Count { least: 1, most: 1_000_000 },
        default: Some("1200"),
        help: "Requests a minute for a tenant's signed-in pages together",
        ..USUAL
    },
];

impl Setting {
    /// The one with this name in a file.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// What can be written, in words; empty where the help says it.
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Text => String::new(),
            Kind::List => "one, or several with commas between".to_owned(),
            Kind::Count { least, most } => format!("{least} to {most}"),
            Kind::Seconds { most } => format!("1 to {most} seconds"),
            Kind::Size { least, most: u64::MAX } => format!("at least {}", shown_size(least)),
            Kind::Size { least, most } => format!("{} to {}", shown_size(least), shown_size(most)),
            Kind::Choice(words) => words.join(" or "),
        }
    }

    /// What counts when nothing is given, in words.
    pub fn default_text(&self) -> &'static str {
        self.default.unwrap_or(self.without)
    }
}
