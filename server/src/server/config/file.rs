//! The file of settings: TOML, one `name = value` a line. Every refusal names file and line, and the name that was
//! probably meant.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::resolve::{Given, Source};
use super::table::{Kind, SETTINGS, Setting};

/// No file of settings is longer; a slip such as `--config /dev/zero` must not fill the memory.
const MOST_BYTES: u64 = 1024 * 1024;

/// How much alike an unknown name and a known one must be to be suggested (Jaro-Winkler, 0 to 1), as clap does it.
const ALIKE: f64 = 0.7;

/// Reads and checks the names in a file; the values are checked with those from elsewhere.
pub(super) fn read(path: &Path) -> Result<Vec<Given>, Vec<ConfigError>> {
    let shown = path.display();
    let refuse = |why: String| vec![ConfigError(format!("the file of settings {shown} {why}"))];
    let bytes = read_bounded(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("is longer than {} KiB", MOST_BYTES / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8 text".to_owned()))?;
    parse(path, &text)
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The settings of a text; all that is wrong with it, not only the first.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Given>, Vec<ConfigError>> {
    let at = |offset: usize| {
        let line = text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        (line, format!("{}:{line}", path.display()))
    };
    let table = DeTable::parse(text).map_err(|error| {
        let place = at(error.span().map_or(0, |span| span.start)).1;
        // Only the parser's own words: what it shows of the line might be a key.
        vec![ConfigError(format!(
            "{place}: this is not TOML: {}",
            error.message().lines().collect::<Vec<_>>().join(" ")
        ))]
    })?;
    let (mut given, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in table.get_ref() {
        let (line, place) = at(name.span().start);
        let Some(setting) = Setting::named(name.get_ref()) else {
            problems.push(ConfigError(format!("{place}: {}", unknown(name.get_ref(), value.get_ref()))));
            continue;
        };
        match text_of(setting, value.get_ref()) {
            Ok(text) => given.push(Given { setting, text, source: Source::File { path: path.to_owned(), line } }),
            Err(why) => problems.push(ConfigError(format!("{place}: {} {why}", setting.name))),
        }
    }
    if problems.is_empty() { Ok(given) } else { Err(problems) }
}

fn unknown(name: &str, value: &DeValue<'_>) -> String {
    if matches!(value, DeValue::Table(_)) {
        return format!("there are no sections, so [{name}] means nothing; write name = value, one a line");
    }
    let wanted = name.to_ascii_lowercase().replace('-', "_");
    let wanted = wanted.strip_prefix("glassbox_").unwrap_or(&wanted);
    let closest = SETTINGS
        .iter()
        .map(|setting| (strsim::jaro_winkler(wanted, setting.name), setting.name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(alike, _)| *alike >= ALIKE);
    match closest {
        Some((_, close)) => format!("there is no setting {name}; did you mean {close}?"),
        None => format!("there is no setting {name}; `glassbox config example` lists them all"),
    }
}

/// A value as it would be written into the environment.
fn text_of(setting: &Setting, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        DeValue::Array(parts) if setting.kind == Kind::List => {
            let texts = parts.iter().map(|part| part.get_ref().as_str());
            let texts: Option<Vec<&str>> = texts.collect();
            texts.map(|texts| texts.join(",")).ok_or_else(|| "must hold texts only".to_owned())
        }
        other => {
            let range = setting.range();
            let range = if range.is_empty() { "a text".to_owned() } else { range };
            Err(format!("cannot be of the type {}; write {range}", other.type_str()))
        }
    }
}
