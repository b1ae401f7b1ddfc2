//! `glassbox config`: what the server's settings are, and where each comes from.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::server::config::{self, ConfigError, ServeArgs};

/// `glassbox config …`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print what would count, with where each comes from; or everything that is wrong
    Check(CheckArgs),
    /// Print a file with every setting, commented
    Example,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The file of settings [default: what --config or `GLASSBOX_CONFIG` says]
    #[arg(value_name = "FILE")]
    path: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Does what was asked for; fails when a setting makes no sense.
pub fn run(args: ConfigArgs) -> ExitCode {
    match args.command {
        ConfigCommand::Example => {
            print!("{}", config::example());
            ExitCode::SUCCESS
        }
        ConfigCommand::Check(CheckArgs { path, serve }) => match check(serve.or_file(path)) {
            Ok(shown) => {
                print!("{shown}");
                ExitCode::SUCCESS
            }
            Err(problems) => {
                for problem in &problems {
                    eprintln!("glassbox: {problem}");
                }
                ExitCode::FAILURE
            }
        },
    }
}

fn check(serve: ServeArgs) -> Result<String, Vec<ConfigError>> {
    let effective = serve.effective()?;
    effective.config()?;
    Ok(effective.shown())
}
