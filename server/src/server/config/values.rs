//! What the texts of settings mean. Each refusal is one sentence that names the setting and says what to write instead;
//! none repeats a key.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use glassbox_shared::session::MemorySize;
use ipnet::IpNet;

use super::resolve::Given;
use super::{ConfigError, MIB, PublicUrl};
use crate::access::{StaticKey, check_tenant};

/// Shortest key by configuration: humans choose these, and everybody who reaches the server may guess.
const SHORTEST_STATIC_KEY: usize = 16;

/// Part of the machine's memory for all sandboxes together unless said otherwise: the rest is for the engine, for this
/// server and for gVisor itself, which needs some for each sandbox.
const MEMORY_SHARE_PERCENT: u64 = 75;

/// Less than this for all sandboxes together cannot hold one.
pub(super) const LEAST_MEMORY_TOTAL: u64 = 256 * MIB;

/// Smallest and largest part of an output log; both keep the arithmetic of offsets far from surprises.
pub(super) const LEAST_LOG_BYTES: u64 = 64 * 1024;
pub(super) const MOST_LOG_BYTES: u64 = 16 * 1024 * MIB;

/// A limit below this would be a nuisance, and one above it none: no sandbox has that much disk.
pub(super) const LEAST_FILE_BYTES: u64 = MIB;
pub(super) const MOST_FILE_BYTES: u64 = 1024 * 1024 * MIB;

/// Most that may be kept of each log in memory: it is multiplied by the commands of all sessions.
pub(super) const MOST_RING_BYTES: u64 = 64 * MIB;

/// An address is an IP address, so that it is clear what is listened on; `localhost` is understood too.
pub(super) fn parse_listen(value: &Given) -> Result<SocketAddr, ConfigError> {
    let text = value.text.trim();
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| {
        value.refuse(format!("is not an IP address and a port; write for example {}", value.setting.default_text()))
    })
}

/// Networks as `10.0.0.0/8`, or single addresses.
pub(super) fn parse_proxies(value: &Given) -> Result<Vec<IpNet>, ConfigError> {
    let network = |part: &str| part.parse::<IpNet>().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
    let parts = value.text.split(',').map(str::trim);
    parts
        .map(|part| {
            network(part).map_err(|_| {
                value.refuse(format!(
                    "holds {part:?}, which is neither an address nor a network; write for example 127.0.0.1,10.0.0.0/8"
                ))
            })
        })
        .collect()
}

pub(super) fn parse_public_urls(value: &Given) -> Result<Vec<PublicUrl>, ConfigError> {
    value.text.split(',').map(|part| parse_public_url(value, part.trim())).collect()
}

fn parse_public_url(value: &Given, text: &str) -> Result<PublicUrl, ConfigError> {
    let refuse = |why: &str| {
        Err(value.refuse(format!(
            "has a part {text:?} that {why}; write for example https://glassbox.example.com, several with commas between"
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
pub(super) fn parse_keys(value: &Given) -> Result<Vec<StaticKey>, ConfigError> {
    let refuse = |why: String| Err(value.refuse(why));
    let text = value.text.as_str();
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

pub(super) fn parse_size(value: &Given, least: u64, most: u64) -> Result<u64, ConfigError> {
    let bytes = MemorySize::Text(value.text.trim().to_owned()).bytes();
    let Some(bytes) = bytes.filter(|bytes| (least..=most).contains(bytes)) else {
        let range = if most == u64::MAX {
            format!("at least {}", shown_size(least))
        } else {
            format!("from {} to {}", shown_size(least), shown_size(most))
        };
        return Err(value.refuse(format!("is not a size {range}; write for example 512m or 8g")));
    };
    Ok(bytes)
}

/// Bytes as they are written in settings.
pub(super) fn shown_size(bytes: u64) -> String {
    if bytes.is_multiple_of(1024 * MIB) {
        format!("{}g", bytes / (1024 * MIB))
    } else if bytes.is_multiple_of(MIB) {
        format!("{}m", bytes / MIB)
    } else {
        format!("{}k", bytes / 1024)
    }
}

pub(super) fn usual_memory_total() -> Result<u64, ConfigError> {
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
