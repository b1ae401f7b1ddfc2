//! Settings on the command line and in the environment.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::resolve::{Effective, Given, Source};
use super::table::{Kind, SETTINGS, Setting};
use super::{Config, ConfigError, file, usual_data_dir};

const CONFIG: &str = "config";
const CONFIG_VARIABLE: &str = "GLASSBOX_CONFIG";

/// Where state is kept; common to all commands that need it.
#[derive(Debug, Clone, Default, Args)]
pub struct DataDirArg {
    /// Folder for the database, the output logs and the first key [default: `$XDG_DATA_HOME/glassbox`, else
    /// `~/.local/share/glassbox`, else `/var/lib/glassbox`]
    #[arg(long, env = "GLASSBOX_DATA_DIR", value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,

    /// The server's settings, which may name that folder
    #[arg(long, env = CONFIG_VARIABLE, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

impl DataDirArg {
    /// The folder given, or the one in the file of settings, or the usual one.
    pub fn path(&self) -> Result<PathBuf, ConfigError> {
        if let Some(given) = self.data_dir.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            return Ok(given.clone());
        }
        let effective = Effective::of(Vec::new(), self.file()?);
        Ok(effective.text("data_dir").map_or_else(usual_data_dir, PathBuf::from))
    }

    /// The value of a setting in the file, for commands that look at what a server would do.
    pub fn in_file(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let given = self.file()?.into_iter().find(|given| given.setting.name == name);
        Ok(given.map(|given| given.text))
    }

    fn file(&self) -> Result<Vec<Given>, ConfigError> {
        let Some(path) = self.config.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Vec::new());
        };
        file::read(path).map_err(super::first)
    }
}

/// `glassbox serve`: a flag and a variable for each line of the table, and the file.
#[derive(Clone, Default)]
pub struct ServeArgs {
    pub(super) file: Option<PathBuf>,
    pub(super) given: Vec<Given>,
}

impl std::fmt::Debug for ServeArgs {
    /// Without values: some are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.given.iter().map(|given| given.setting.name).collect();
        f.debug_struct("ServeArgs").field("file", &self.file).field("given", &names).finish()
    }
}

impl ServeArgs {
    /// Settings from this file as well, unless the command line or the environment name one.
    #[must_use]
    pub fn or_file(mut self, path: Option<PathBuf>) -> Self {
        self.file = path.or(self.file);
        self
    }

    /// Reads the file, and decides for each setting whose word counts.
    pub fn effective(self) -> Result<Effective, Vec<ConfigError>> {
        let in_file = self.file.as_deref().map(file::read).transpose()?.unwrap_or_default();
        Ok(Effective::of(self.given, in_file))
    }

    /// Checks everything that can be checked without touching the machine.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        self.effective().and_then(|effective| effective.config()).map_err(super::first)
    }
}

impl Setting {
    fn argument(&self) -> Arg {
        let range = match self.kind {
            Kind::Text | Kind::List => String::new(),
            _ => format!(" ({})", self.range()),
        };
        let help = format!("{}{range} [default: {}]", self.help, self.default_text());
        Arg::new(self.name)
            .long(self.flag)
            .env(self.variable)
            .hide_env_values(self.secret)
            .value_name(self.value)
            .help(help)
    }
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .env(CONFIG_VARIABLE)
            .value_name("FILE")
            .help("Settings in TOML; flags and variables count before it. `glassbox config example` prints one");
        SETTINGS.iter().fold(command.arg(file), |command, setting| command.arg(setting.argument()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let text = matches.get_one::<String>(setting.name)?.clone();
            let source = match matches.value_source(setting.name) {
                Some(ValueSource::CommandLine) => Source::Flag,
                _ => Source::Environment,
            };
            Some(Given { setting, text, source })
        });
        let file = matches.get_one::<String>(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self { given: given.collect(), file })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
