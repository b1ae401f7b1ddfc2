//! What can be set: flags, environment and a file become a checked [`Config`].
//!
//! | module | does |
//! | --- | --- |
//! | [`table`] | lists every setting once; all others are made from it |
//! | [`arguments`] | flags and variables |
//! | [`mod@file`] | the TOML file |
//! | [`resolve`] | decides whose word counts, and checks the whole |
//! | [`values`] | reads single values |
//! | [`show`] | the example file and the page in the docs |

mod arguments;
mod file;
mod resolve;
mod show;
pub mod table;
#[cfg(test)]
mod tests;
mod values;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use glassbox_shared::session::Profile;
use ipnet::IpNet;

use crate::access::StaticKey;
use crate::history::Retention;
use crate::runtime::spec::usual_workspace_dir;

pub use arguments::{DataDirArg, ServeArgs};
pub use resolve::{Effective, Source};
pub use show::{document, example};

/// The image that `make setup` builds.
pub const DEFAULT_IMAGE: &str = "sandbox-base:latest";

const MIB: u64 = 1024 * 1024;
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Pretty,
    /// One JSON object a line.
    Json,
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

/// Files for TLS, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and one that clients know.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
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
    /// Whose word counts about the client's address, scheme and host.
    pub trusted_proxies: Vec<IpNet>,
    /// TLS instead of plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How the log is written.
    pub log: LogFormat,
    /// Image of new sandboxes.
    pub image: String,
    /// Where open sandboxes have their workspace. No setting of a server, only of the library.
    pub open_workspace_dir: String,
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
    /// Bytes of the largest file that can be written from outside.
    pub max_file: u64,
    /// How long ended sessions are kept.
    pub retention: Retention,
    /// How much of each output log is kept.
    pub logs: LogSizes,
    /// Connections at once, without live sockets.
    pub max_connections: usize,
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
            trusted_proxies: Vec::new(),
            tls: None,
            log: LogFormat::Pretty,
            image: DEFAULT_IMAGE.to_owned(),
            open_workspace_dir: usual_workspace_dir(Profile::Open).to_owned(),
            memory_total: 4096 * MIB,
            max_sessions: 10,
            max_commands: 16,
            idle: Duration::from_mins(30),
            lifetime: Duration::from_secs(DAY_SECONDS),
            max_command_time: Duration::from_secs(DAY_SECONDS),
            max_file: 4096 * MIB,
            retention: Retention::default(),
            logs: LogSizes { ring_bytes: MIB, head_bytes: 32 * MIB, tail_bytes: 32 * MIB },
            max_connections: 4096,
            requests_per_minute: 100_000,
            page_requests_per_minute: 100_000,
        }
    }
}

/// The first of several problems, and that there are more.
fn first(problems: Vec<ConfigError>) -> ConfigError {
    let more = problems.len().saturating_sub(1);
    let first = problems.into_iter().next().unwrap_or_else(|| ConfigError("the settings make no sense".to_owned()));
    if more == 0 { first } else { ConfigError(format!("{first} ({more} more; `glassbox config check` shows all)")) }
}

/// Where data is when nobody says.
fn usual_data_dir() -> PathBuf {
    data_dir_by(|name| std::env::var_os(name).map(PathBuf::from))
}

/// Where sandboxes without a server have their folders when nobody says: beside the usual data directory, not in it.
pub fn usual_sandboxes_dir() -> PathBuf {
    usual_data_dir().with_file_name("glassbox-sandboxes")
}

/// By the XDG Base Directory Specification: a relative or empty value counts as not set.
fn data_dir_by(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("glassbox")
}
