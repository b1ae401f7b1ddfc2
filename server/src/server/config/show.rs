//! The table of settings for people: an example file, and the page in the docs.

use super::resolve::quoted;
use super::table::SETTINGS;

/// A file with every setting, commented out where it says what counts anyway.
pub fn example() -> String {
    let head = "# Settings of `glassbox serve`. A flag counts before a variable of the environment, and that before this \
                file.\n# Every line that is commented out shows the default, or an example where there is none.\n";
    SETTINGS.iter().fold(head.to_owned(), |text, setting| {
        let range = setting.range();
        let range = if range.is_empty() { String::new() } else { format!(" Range: {range}.") };
        let default = match setting.default {
            Some(_) => String::new(),
            None => format!(" Without it: {}.", setting.without),
        };
        let value = quoted(setting, setting.default.unwrap_or(setting.example));
        text + &format!(
            "\n# {}.{range}{default}\n# Also --{} and {}.\n#{} = {value}\n",
            setting.help, setting.flag, setting.variable, setting.name
        )
    })
}

/// `docs/settings.md`.
pub fn document() -> String {
    let head = "\
# Settings

Made from the table in `server/src/server/config/table.rs`; a test compares them.

Each setting can be given as a flag (`--max-sessions 20`), in the environment (`GLASSBOX_MAX_SESSIONS=20`) or in a TOML file
(`max_sessions = 20`) that `--config` or `GLASSBOX_CONFIG` names. The flag counts before the environment, that before the file,
that before the default. Unknown names and values out of range stop the start, with file and line.

```sh
glassbox config example > glassbox.toml   # every setting, commented
glassbox config check glassbox.toml       # what would count, and where it comes from
```

Sizes are bytes with `k`, `m` or `g` behind them (1024 each). Lists have commas between; in the file they may also be TOML
lists.

| in the file | flag, variable | default | range | |
| --- | --- | --- | --- | --- |
";
    let tail = "
Not settings of the server, but read from the environment: `RUST_LOG` (what is logged, `info` unless set), `DOCKER_HOST` (the
engine's socket), `GLASSBOX_HELPER` (the file of the helper `glassbox-inside`, where it does not lie beside the program).
";
    let rows = SETTINGS.iter().fold(String::new(), |rows, setting| {
        let default = setting.default.map_or_else(|| setting.without.to_owned(), |default| format!("`{default}`"));
        rows + &format!(
            "| `{}` | `--{}`<br>`{}` | {default} | {} | {} |\n",
            setting.name,
            setting.flag,
            setting.variable,
            setting.range(),
            setting.help
        )
    });
    format!("{head}{rows}{tail}")
}
