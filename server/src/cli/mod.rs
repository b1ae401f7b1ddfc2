//! Commands of the binary: arguments, the terminal, exit codes. No rules of their own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod backup;
mod client;
mod config;
mod demo;
mod doctor;
mod keys;
mod link;
mod mcp;
mod run;
mod serve;
mod signals;

/// See into, and step into, the sandboxes in which AI agents work.
#[derive(Debug, Parser)]
#[command(name = "glassbox", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and the page.
    Serve(serve::Arguments),
    /// Print a one-time link that signs a browser in.
    Link(link::LinkArgs),
    /// Create, list and revoke API keys.
    Keys(keys::KeysArgs),
    /// Copy all data into one file, while the server runs or not.
    Backup(backup::BackupArgs),
    /// Make a data directory from such a file.
    Restore(backup::RestoreArgs),
    /// Check the server's settings, or print an example file of them.
    Config(config::ConfigArgs),
    /// Look whether this machine can serve, and say what to do where it cannot.
    Doctor(doctor::Arguments),
    /// Run one command in a sandbox of its own and remove the sandbox afterwards.
    Run(run::Arguments),
    /// Serve MCP on stdin and stdout, for clients that start a program.
    Mcp(mcp::Arguments),
    /// Play a scripted agent against a running server.
    Demo(demo::Arguments),
}

/// Runs the binary.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("the async runtime could not be started")),
    };
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Serve(arguments) => serve::run(arguments).await.map(|()| ExitCode::SUCCESS),
            Command::Link(arguments) => link::run(arguments).await.map(|()| ExitCode::SUCCESS),
            Command::Keys(arguments) => keys::run(arguments).await.map(|()| ExitCode::SUCCESS),
            Command::Backup(arguments) => backup::backup(arguments).map(|()| ExitCode::SUCCESS),
            Command::Restore(arguments) => backup::restore(arguments).map(|()| ExitCode::SUCCESS),
            Command::Config(arguments) => Ok(config::run(arguments)),
            Command::Doctor(arguments) => doctor::run(arguments).await,
            Command::Run(arguments) => run::run(arguments).await,
            Command::Mcp(arguments) => mcp::run(arguments).await.map(|()| ExitCode::SUCCESS),
            Command::Demo(arguments) => demo::run(arguments).await.map(|()| ExitCode::SUCCESS),
        }
    });
    // A blocked stdin reader must not hold the exit up.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| fail(&error))
}

/// One sentence on stderr, its causes behind it.
fn fail(error: &anyhow::Error) -> ExitCode {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Causes that only repeat what is already said are left out.
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    eprintln!("glassbox: {text}");
    ExitCode::FAILURE
}
