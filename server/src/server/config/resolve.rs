//! Whose word counts for each setting (flag before environment before file before default), and what it means.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::table::{Kind, SETTINGS, Setting};
use super::values::{parse_keys, parse_listen, parse_proxies, parse_public_urls, parse_size, usual_memory_total};
use super::{Config, ConfigError, LogFormat, TlsFiles, usual_data_dir};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// Nobody gave one.
    Default,
}

/// A value that somebody gave.
#[derive(Clone)]
pub struct Given {
    /// For what.
    pub(super) setting: &'static Setting,
    pub(super) text: String,
    pub(super) source: Source,
}

impl fmt::Debug for Given {
    /// Without the value, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("setting", &self.setting.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Given {
    /// As a refusal begins: where it stands, and unless it is secret, what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = self.setting;
        match &self.source {
            Source::Flag => write!(f, "--{}", setting.flag)?,
            Source::Environment => write!(f, "{}", setting.variable)?,
            Source::File { path, line } => write!(f, "{}:{line}: {}", path.display(), setting.name)?,
            Source::Default => write!(f, "{}", setting.name)?,
        }
        if setting.secret { Ok(()) } else { write!(f, " {:?}", self.text) }
    }
}

impl Given {
    /// The refusal of this value.
    pub(super) fn refuse(&self, why: impl fmt::Display) -> ConfigError {
        ConfigError(format!("{self} {why}"))
    }

    /// A whole number within the setting's range.
    fn number(&self) -> Result<u64, ConfigError> {
        let (least, most, what) = match self.setting.kind {
            Kind::Count { least, most } => (least, most, ""),
            Kind::Seconds { most } => (1, most, " of seconds"),
            _ => (0, u64::MAX, ""),
        };
        let number = self.text.trim().parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.refuse(format!("is not a whole number{what} from {least} to {most}")))
    }

    fn seconds(&self) -> Result<Duration, ConfigError> {
        self.number().map(Duration::from_secs)
    }

    fn bytes(&self) -> Result<u64, ConfigError> {
        let (least, most) = match self.setting.kind {
            Kind::Size { least, most } => (least, most),
            _ => (0, u64::MAX),
        };
        parse_size(self, least, most)
    }

    fn path(&self) -> Result<PathBuf, ConfigError> {
        let text = self.text.trim();
        if text.is_empty() {
            Err(self.refuse("is empty; name a file, or leave it out"))
        } else {
            Ok(PathBuf::from(text))
        }
    }
}

/// One value for each setting that has one.
#[derive(Debug)]
pub struct Effective {
    values: Vec<Given>,
}

impl Effective {
    /// What was given on the command line and in the environment counts before what stands in the file.
    pub(super) fn of(given: Vec<Given>, in_file: Vec<Given>) -> Self {
        let pick = |setting: &'static Setting| {
            let is_it = |value: &&Given| value.setting.name == setting.name;
            let found = given.iter().find(is_it).or_else(|| in_file.iter().find(is_it)).cloned();
            let default = || {
                let text = setting.default?.to_owned();
                Some(Given { setting, text, source: Source::Default })
            };
            found.or_else(default)
        };
        Self { values: SETTINGS.iter().filter_map(pick).collect() }
    }

    /// The value of a setting; `None`: nothing was given and it has no default.
    pub fn value(&self, name: &str) -> Option<&Given> {
        self.values.iter().find(|value| value.setting.name == name)
    }

    /// Its text, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name).map(|value| value.text.as_str()).filter(|text| !text.is_empty())
    }

    /// All of it, checked; else everything that is wrong with it.
    pub fn config(&self) -> Result<Config, Vec<ConfigError>> {
        let mut config = Config::default();
        let mut check = Check { effective: self, problems: Vec::new() };
        check.set(&mut config.listen, "listen", parse_listen);
        config.data_dir = self.text("data_dir").map_or_else(usual_data_dir, PathBuf::from);
        check.set(&mut config.static_keys, "api_keys", parse_keys);
        check.set(&mut config.public_urls, "public_url", parse_public_urls);
        check.set(&mut config.trusted_proxies, "trusted_proxies", parse_proxies);
        check.set(&mut config.log, "log", |value| match value.text.trim() {
            "pretty" => Ok(LogFormat::Pretty),
            "json" => Ok(LogFormat::Json),
            _ => Err(value.refuse(format!("is not a format of the log; write {}", value.setting.range()))),
        });
        check.set(&mut config.image, "image", |value| match value.text.trim() {
            "" => Err(value.refuse(format!("is empty; name an image, for example {}", super::DEFAULT_IMAGE))),
            image => Ok(image.to_owned()),
        });
        match self.value("memory_total") {
            Some(_) => check.set(&mut config.memory_total, "memory_total", Given::bytes),
            None => check.keep(usual_memory_total(), |total| config.memory_total = total),
        }
        check.set(&mut config.max_sessions, "max_sessions", |value| value.number().map(|number| number as usize));
        check.set(&mut config.max_commands, "max_commands", |value| value.number().map(|number| number as usize));
        check.set(&mut config.idle, "idle_seconds", Given::seconds);
        check.set(&mut config.lifetime, "lifetime_seconds", Given::seconds);
        check.set(&mut config.max_command_time, "max_command_seconds", Given::seconds);
        check.set(&mut config.max_file, "max_file", Given::bytes);
        check.set(&mut config.retention, "retention", |value| {
            value.text.parse().map_err(|why| value.refuse(format!("does not fit: {why}")))
        });
        check.set(&mut config.logs.ring_bytes, "log_ring", Given::bytes);
        check.set(&mut config.logs.head_bytes, "log_head", Given::bytes);
        check.set(&mut config.logs.tail_bytes, "log_tail", Given::bytes);
        let count = |value: &Given| value.number().map(|number| number as u32);
        check.set(&mut config.max_connections, "max_connections", |value| value.number().map(|number| number as usize));
        check.set(&mut config.requests_per_minute, "requests_per_minute", count);
        check.set(&mut config.page_requests_per_minute, "page_requests_per_minute", count);
        check.keep(self.tls(), |tls| config.tls = tls);
        if check.problems.is_empty() {
            check.keep(self.beyond_loopback(&config), |()| {});
        }
        if check.problems.is_empty() { Ok(config) } else { Err(check.problems) }
    }

    /// Both files, or none.
    fn tls(&self) -> Result<Option<TlsFiles>, ConfigError> {
        let missing = |one: &Given, other: &str| {
            let other = Setting::named(other).map_or(other, |setting| setting.variable);
            Err(one.refuse(format!("is given without {other}; TLS needs both, plain HTTP none")))
        };
        match (self.value("tls_cert"), self.value("tls_key")) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert: cert.path()?, key: key.path()? })),
            (Some(cert), None) => missing(cert, "tls_key"),
            (None, Some(key)) => missing(key, "tls_cert"),
        }
    }

    fn beyond_loopback(&self, config: &Config) -> Result<(), ConfigError> {
        let Some(listen) = self.value("listen") else { return Ok(()) };
        if config.listen.ip().is_loopback() || !config.public_urls.is_empty() {
            return Ok(());
        }
        Err(listen.refuse(format!(
            "can be reached from other machines, so GLASSBOX_PUBLIC_URL must say under which address browsers find this \
             server (for example https://glassbox.example.com); or listen on {}",
            listen.setting.default_text()
        )))
    }

    /// The settings as a file would hold them, each with where it comes from; secrets are not shown.
    pub fn shown(&self) -> String {
        SETTINGS.iter().fold(String::new(), |text, setting| {
            let line = match self.value(setting.name) {
                Some(value) => {
                    let shown = if setting.secret { "(hidden)" } else { value.text.as_str() };
                    format!("{} = {}  # {}", setting.name, quoted(setting, shown), from(value))
                }
                None => format!("# {} is not set: {}", setting.name, setting.without),
            };
            text + &line + "\n"
        })
    }
}

/// A value as TOML.
pub(super) fn quoted(setting: &Setting, text: &str) -> String {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match setting.kind {
        Kind::Count { .. } | Kind::Seconds { .. } if is_number => text.to_owned(),
        // JSON's strings are TOML's, as far as escapes go.
        _ => serde_json::to_string(text).unwrap_or_default(),
    }
}

fn from(value: &Given) -> String {
    match &value.source {
        Source::Flag => format!("--{}", value.setting.flag),
        Source::Environment => value.setting.variable.to_owned(),
        Source::File { path, line } => format!("{}:{line}", shown_path(path)),
        Source::Default => "default".to_owned(),
    }
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

/// Goes on after a problem, so that all of them are told at once.
struct Check<'a> {
    effective: &'a Effective,
    problems: Vec<ConfigError>,
}

impl Check<'_> {
    fn set<T>(&mut self, place: &mut T, name: &str, parse: impl FnOnce(&Given) -> Result<T, ConfigError>) {
        if let Some(value) = self.effective.value(name) {
            self.keep(parse(value), |parsed| *place = parsed);
        }
    }

    fn keep<T>(&mut self, parsed: Result<T, ConfigError>, keep: impl FnOnce(T)) {
        match parsed {
            Ok(value) => keep(value),
            Err(problem) => self.problems.push(problem),
        }
    }
}
