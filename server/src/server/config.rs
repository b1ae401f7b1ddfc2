//! What can be set: flags and environment ([`ServeArgs`]) become a checked [`Config`]. Each refusal is one sentence that
//! names the setting and says what to write instead; none repeats a key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use glassbox_shared::session::MemorySize;

use crate::access::{StaticKey, check_tenant};

/// Where the page is found unless said otherwise; loopback, because whoever reaches it may try keys.
const DEFAULT_LISTEN: &str = "127.0.0.1:7070";

/// The image that `make setup` builds.
pub const DEFAULT_IMAGE: &str = "sandbox-base:latest";

/// Shortest key by configuration: humans choose these, and everybody who reaches the server may guess.
const SHORTEST_STATIC_KEY: usize = 16;

/// Part of the machine's memory for all sandboxes together unless said otherwise: the rest is for the engine, for this
/// server and for gVisor itself, which needs some for each sandbox.
const MEMORY_SHARE_PERCENT: u64 = 75;

/// Less than this for all sandboxes together cannot hold one.
const LEAST_MEMORY_TOTAL: u64 = 256 * MIB;

/// Smallest and largest part of an output log; both keep the arithmetic of offsets far from surprises.
const LEAST_LOG_BYTES: u64 = 64 * 1024;
const MOST_LOG_BYTES: u64 = 16 * 1024 * MIB;

/// Most that may be kept of each log in memory: it is multiplied by the commands of all sessions.
const MOST_RING_BYTES: u64 = 64 * MIB;

const MIB: u64 = 1024 * 1024;
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Longest time that can be set, a year: longer ones are slips of the finger.
const MOST_SECONDS: u64 = 366 * DAY_SECONDS;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Where state is kept; common to all commands that need it.
#[derive(Debug, Clone, Default, Args)]
pub struct DataDirArg {
    /// Folder for the database, the output logs and the first key [default: `$XDG_DATA_HOME/glassbox`, else
    /// `~/.local/share/glassbox`, else `/var/lib/glassbox`]
    #[arg(long, env = "GLASSBOX_DATA_DIR", value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
}

impl DataDirArg {
    /// The folder given, or the usual one.
    pub fn path(&self) -> PathBuf {
        let given = self.data_dir.clone().filter(|path| !path.as_os_str().is_empty());
        given.unwrap_or_else(|| usual_data_dir(|name| std::env::var_os(name).map(PathBuf::from)))
    }
}

/// By the XDG Base Directory Specification: a relative or empty value counts as not set.
fn usual_data_dir(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("glassbox")
}

/// `glassbox serve`
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address and port to listen on; beyond loopback only together with a public URL
    #[arg(long, env = "GLASSBOX_LISTEN", value_name = "ADDRESS:PORT", default_value = DEFAULT_LISTEN)]
    pub listen: String,

    #[command(flatten)]
    pub data_dir: DataDirArg,

    /// Operators' keys; better given by environment, because everybody on the machine sees arguments
    #[arg(long, env = "GLASSBOX_API_KEYS", value_name = "TENANT:KEY,…", hide_env_values = true)]
    pub api_keys: Option<HiddenText>,

    /// Origins under which browsers reach this server, for example `https://glassbox.example.com`
    #[arg(long, env = "GLASSBOX_PUBLIC_URL", value_name = "URL,…")]
    pub public_url: Option<String>,

    /// How the log is written
    #[arg(long, env = "GLASSBOX_LOG", value_enum, default_value = "pretty")]
    pub log: LogFormat,

    /// Image of new sandboxes
    #[arg(long, env = "GLASSBOX_IMAGE", value_name = "IMAGE", default_value = DEFAULT_IMAGE)]
    pub image: String,

    /// Memory for all sandboxes together, such as `8g` [default: 75 % of the machine's]
    #[arg(long, env = "GLASSBOX_MEMORY_TOTAL", value_name = "SIZE")]
    pub memory_total: Option<String>,

    /// Sessions that a tenant may have at once
    #[arg(long, env = "GLASSBOX_MAX_SESSIONS", value_name = "COUNT", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_sessions: u32,

    /// Commands that may run in a session at once
    #[arg(long, env = "GLASSBOX_MAX_COMMANDS", value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub max_commands: u32,

    /// An unused session ends after this time
    #[arg(long, env = "GLASSBOX_IDLE_SECONDS", value_name = "SECONDS", default_value_t = 30 * 60,
          value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub idle_seconds: u64,

    /// Every session ends after this time
    #[arg(long, env = "GLASSBOX_LIFETIME_SECONDS", value_name = "SECONDS", default_value_t = DAY_SECONDS,
          value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub lifetime_seconds: u64,

    /// Every command ends after this time
    #[arg(long, env = "GLASSBOX_MAX_COMMAND_SECONDS", value_name = "SECONDS", default_value_t = DAY_SECONDS,
          value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub max_command_seconds: u64,

    /// Output kept in memory of each command
    #[arg(long, env = "GLASSBOX_LOG_RING", value_name = "SIZE", default_value = "1m")]
    pub log_ring: String,

    /// Output kept on disk from each command's beginning
    #[arg(long, env = "GLASSBOX_LOG_HEAD", value_name = "SIZE", default_value = "32m")]
    pub log_head: String,

    /// Output kept on disk from each command's end, once there is more than fits its beginning
    #[arg(long, env = "GLASSBOX_LOG_TAIL", value_name = "SIZE", default_value = "32m")]
    pub log_tail: String,

    /// Requests a minute for a tenant's keys together
    #[arg(long, env = "GLASSBOX_REQUESTS_PER_MINUTE", value_name = "COUNT", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests_per_minute: u32,

    /// Requests a minute for a tenant's signed-in pages together
    #[arg(long, env = "GLASSBOX_PAGE_REQUESTS_PER_MINUTE", value_name = "COUNT", default_value_t = 1200,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub page_requests_per_minute: u32,
}

/// Text that is not shown when its holder is written to a log.
#[derive(Clone)]
pub struct HiddenText(String);

impl std::str::FromStr for HiddenText {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// An origin under which browsers reach this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// As in an `Origin` header: `https://glassbox.example.com`, with the port unless it is the scheme's own.
    pub origin: String,
    /// As in a `Host` header: `glassbox.example.com`, with the port unless it is the scheme's own.
    pub host: String,
}

/// How much of each output log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSizes {
    /// In memory.
    pub ring_bytes: u64,
    /// On disk, from the beginning.
    pub head_bytes: u64,
    /// On disk, from the end.
    pub tail_bytes: u64,
}

/// All that `serve` needs to know, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Where state is kept.
    pub data_dir: PathBuf,
    /// Operators' keys given by configuration.
    pub static_keys: Vec<StaticKey>,
    /// Where browsers find this server, beside the loopback names.
    pub public_urls: Vec<PublicUrl>,
    /// How the log is written.
    pub log: LogFormat,
    /// Image of new sandboxes.
    pub image: String,
    /// Bytes of memory for all sandboxes together.
    pub memory_total: u64,
    /// Sessions that a tenant may have at once.
    pub max_sessions: usize,
    /// Commands that may run in a session at once.
    pub max_commands: usize,
    /// An unused session ends after this time.
    pub idle: Duration,
    /// Every session ends after this time.
    pub lifetime: Duration,
    /// Every command ends after this time.
    pub max_command_time: Duration,
    /// How much of each output log is kept.
    pub logs: LogSizes,
    /// Requests a minute for a tenant's keys together.
    pub requests_per_minute: u32,
    /// Requests a minute for a tenant's signed-in pages together.
    pub page_requests_per_minute: u32,
}

impl Default for Config {
    /// For tests: any free loopback port, no keys, a folder that has yet to be set, 4 GiB for sandboxes, no rate that a
    /// test could run into.
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            data_dir: PathBuf::new(),
            static_keys: Vec::new(),
            public_urls: Vec::new(),
            log: LogFormat::Pretty,
            image: DEFAULT_IMAGE.to_owned(),
            memory_total: 4096 * MIB,
            max_sessions: 10,
            max_commands: 16,
            idle: Duration::from_mins(30),
            lifetime: Duration::from_secs(DAY_SECONDS),
            max_command_time: Duration::from_secs(DAY_SECONDS),
            logs: LogSizes { ring_bytes: MIB, head_bytes: 32 * MIB, tail_bytes: 32 * MIB },
            requests_per_minute: 100_000,
            page_requests_per_minute: 100_000,
        }
    }
}

impl ServeArgs {
    /// Checks everything that can be checked without touching the machine.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let listen = parse_listen(&self.listen)?;
        let public_urls = self.public_url.as_deref().map(parse_public_urls).transpose()?.unwrap_or_default();
        if !listen.ip().is_loopback() && public_urls.is_empty() {
            return Err(ConfigError(format!(
                "GLASSBOX_LISTEN {listen} can be reached from other machines, so GLASSBOX_PUBLIC_URL must say under which \
                 address browsers find this server (for example https://glassbox.example.com); or listen on \
                 {DEFAULT_LISTEN}"
            )));
        }
        if self.image.trim().is_empty() {
            return Err(ConfigError(format!("GLASSBOX_IMAGE is empty; name an image, for example {DEFAULT_IMAGE}")));
        }
        let memory_total = match &self.memory_total {
            Some(text) => parse_size("GLASSBOX_MEMORY_TOTAL", text, LEAST_MEMORY_TOTAL, u64::MAX)?,
            None => usual_memory_total()?,
        };
        Ok(Config {
            listen,
            data_dir: self.data_dir.path(),
            static_keys: self.api_keys.as_ref().map(|keys| parse_keys(&keys.0)).transpose()?.unwrap_or_default(),
            public_urls,
            log: self.log,
            image: self.image.trim().to_owned(),
            memory_total,
            max_sessions: self.max_sessions as usize,
            max_commands: self.max_commands as usize,
            idle: Duration::from_secs(self.idle_seconds),
            lifetime: Duration::from_secs(self.lifetime_seconds),
            max_command_time: Duration::from_secs(self.max_command_seconds),
            logs: LogSizes {
                ring_bytes: parse_size("GLASSBOX_LOG_RING", &self.log_ring, LEAST_LOG_BYTES, MOST_RING_BYTES)?,
                head_bytes: parse_size("GLASSBOX_LOG_HEAD", &self.log_head, LEAST_LOG_BYTES, MOST_LOG_BYTES)?,
                tail_bytes: parse_size("GLASSBOX_LOG_TAIL", &self.log_tail, LEAST_LOG_BYTES, MOST_LOG_BYTES)?,
            },
            requests_per_minute: self.requests_per_minute,
            page_requests_per_minute: self.page_requests_per_minute,
        })
    }
}

/// An address is an IP address, so that it is clear what is listened on; `localhost` is understood too.
fn parse_listen(text: &str) -> Result<SocketAddr, ConfigError> {
    let text = text.trim();
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| {
        ConfigError(format!(
            "GLASSBOX_LISTEN {text:?} is not an IP address and a port; write for example {DEFAULT_LISTEN}"
        ))
    })
}

fn parse_public_urls(text: &str) -> Result<Vec<PublicUrl>, ConfigError> {
    text.split(',').map(|part| parse_public_url(part.trim())).collect()
}

fn parse_public_url(text: &str) -> Result<PublicUrl, ConfigError> {
    let refuse = |why: &str| {
        Err(ConfigError(format!(
            "GLASSBOX_PUBLIC_URL {text:?} {why}; write for example https://glassbox.example.com, several with commas between"
        )))
    };
    // The same parser as in browsers' standard: lower case, no default port, international names in their ASCII form.
    let Ok(url) = reqwest::Url::parse(text) else { return refuse("is not a URL") };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse("is neither http nor https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("holds a user name");
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return refuse("has something behind the host; Glassbox lives at the root");
    }
    let origin = url.origin().ascii_serialization();
    let Some((_, host)) = origin.split_once("://") else { return refuse("has no host") };
    Ok(PublicUrl { host: host.to_owned(), origin })
}

/// `tenant:key,…`; a key may hold colons.
fn parse_keys(text: &str) -> Result<Vec<StaticKey>, ConfigError> {
    let refuse = |why: String| Err(ConfigError(format!("GLASSBOX_API_KEYS {why}")));
    if text.trim().is_empty() {
        return refuse("is set but empty; unset it, or write TENANT:KEY".to_owned());
    }
    let mut keys: Vec<StaticKey> = Vec::new();
    for (index, part) in text.split(',').enumerate() {
        // The part's place and not its text: the text may be a key.
        let place = index + 1;
        let Some((tenant, key)) = part.trim().split_once(':') else {
            return refuse(format!("part {place} is not TENANT:KEY"));
        };
        if tenant.is_empty() || key.is_empty() {
            return refuse(format!("part {place} has an empty tenant or an empty key; write TENANT:KEY"));
        }
        if check_tenant(tenant).is_err() {
            return refuse(format!(
                "part {place} begins with something that is not a tenant name: use 1 to 63 of a-z, 0-9, _ and -, beginning \
                 with a letter or digit"
            ));
        }
        if key.len() < SHORTEST_STATIC_KEY {
            return refuse(format!(
                "the key of tenant {tenant} is too short: use at least {SHORTEST_STATIC_KEY} characters"
            ));
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            return refuse(format!("the key of tenant {tenant} holds a blank or a character that no header can carry"));
        }
        let key = StaticKey::new(tenant, key);
        match keys.iter().find(|other| other.is_same_key(&key)) {
            Some(other) if other.tenant != key.tenant => {
                return refuse(format!(
                    "gives tenants {} and {} the same key; use different ones",
                    other.tenant, key.tenant
                ));
            }
            Some(_) => {}
            None => keys.push(key),
        }
    }
    Ok(keys)
}

fn parse_size(setting: &str, text: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
    let bytes = MemorySize::Text(text.to_owned()).bytes();
    let Some(bytes) = bytes.filter(|bytes| (least..=most).contains(bytes)) else {
        let range = if most == u64::MAX {
            format!("at least {}", shown_size(least))
        } else {
            format!("from {} to {}", shown_size(least), shown_size(most))
        };
        return Err(ConfigError(format!("{setting} {text:?} is not a size {range}; write for example 512m or 8g")));
    };
    Ok(bytes)
}

fn shown_size(bytes: u64) -> String {
    if bytes.is_multiple_of(1024 * MIB) {
        format!("{}g", bytes / (1024 * MIB))
    } else if bytes.is_multiple_of(MIB) {
        format!("{}m", bytes / MIB)
    } else {
        format!("{}k", bytes / 1024)
    }
}

fn usual_memory_total() -> Result<u64, ConfigError> {
    let machine = memory_of_machine(Path::new("/proc/meminfo")).ok_or_else(|| {
        ConfigError("the machine's memory cannot be read; set GLASSBOX_MEMORY_TOTAL, for example to 8g".to_owned())
    })?;
    Ok((machine / 100 * MEMORY_SHARE_PERCENT).max(LEAST_MEMORY_TOTAL))
}

/// `MemTotal` of proc(5), which counts in KiB.
fn memory_of_machine(meminfo: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(config.listen.to_string(), DEFAULT_LISTEN);
        assert!(config.static_keys.is_empty() && config.public_urls.is_empty());
        assert_eq!(config.logs, Config::default().logs);
        assert_eq!((config.max_sessions, config.max_commands), (10, 16));
        assert_eq!((config.requests_per_minute, config.page_requests_per_minute), (120, 1200));
        assert!(config.memory_total >= LEAST_MEMORY_TOTAL);
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
            assert!(text.contains(says) && text.starts_with("GLASSBOX_API_KEYS"), "{keys}: {text}");
            assert!(!text.contains("0123456789"), "{text}");
        }
    }

    #[test]
    fn beyond_loopback_a_public_url_is_required() {
        assert!(refusal(&["--listen", "0.0.0.0:7070"]).contains("GLASSBOX_PUBLIC_URL"));
        assert!(config(&["--listen", "0.0.0.0:7070", "--public-url", "https://box.example.com"]).is_ok());
        assert!(config(&["--listen", "[::1]:0"]).is_ok());
        assert!(config(&["--listen", "localhost:7071"]).is_ok());
        assert!(refusal(&["--listen", "7070"]).contains("GLASSBOX_LISTEN"));
        assert!(refusal(&["--listen", "example.com:80"]).contains("GLASSBOX_LISTEN"));
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
        for wrong in [
            "",
            "box.example.com",
            "ftp://box",
            "https://a:b@box",
            "https://box/path",
            "https://box?x=1",
            "https://box,",
        ] {
            assert!(refusal(&["--public-url", wrong]).contains("GLASSBOX_PUBLIC_URL"), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_counts_are_checked() {
        assert_eq!(config(&["--memory-total", "8g"]).expect("a size").memory_total, 8 << 30);
        assert!(refusal(&["--memory-total", "8 parsecs"]).contains("GLASSBOX_MEMORY_TOTAL"));
        assert!(refusal(&["--memory-total", "1m"]).contains("at least 256m"));
        assert!(refusal(&["--log-ring", "1g"]).contains("from 64k to 64m"));
        assert!(refusal(&["--max-sessions", "0"]).contains("max-sessions"));
        assert!(refusal(&["--idle-seconds=-1"]).contains("idle-seconds"));
    }

    #[test]
    fn the_usual_data_folder_follows_the_xdg_rules() {
        let with = |variables: &'static [(&str, &str)]| {
            usual_data_dir(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(with(&[("XDG_DATA_HOME", "/x"), ("HOME", "/home/a")]), Path::new("/x/glassbox"));
        assert_eq!(with(&[("XDG_DATA_HOME", "x"), ("HOME", "/home/a")]), Path::new("/home/a/.local/share/glassbox"));
        assert_eq!(with(&[("HOME", "")]), Path::new("/var/lib/glassbox"));
    }
}
