//! `glassbox backup` and `glassbox restore`.

use std::path::PathBuf;

use clap::Args;

use crate::server::config::DataDirArg;
use crate::server::data::backup::{Kept, backup as write};
use crate::server::data::restore::{Back, restore as read};
use crate::store::backup::Restored;

/// `glassbox backup`
#[derive(Debug, Args)]
pub struct BackupArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Where to; the name must be new. It is a gzipped tar archive and holds everything that is secret
    #[arg(value_name = "FILE.tar.gz")]
    file: PathBuf,
}

/// `glassbox restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// A backup
    #[arg(value_name = "FILE.tar.gz")]
    file: PathBuf,
    /// Take the original's place: its sessions go on where their workspaces are still there. Only where the original
    /// never runs again: two servers of one instance remove each other's sandboxes
    #[arg(long)]
    as_original: bool,
}

/// Writes one.
pub fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let Kept { logs, bytes } = write(&args.data_dir.path()?, &args.file)?;
    eprintln!("{}: the database and {logs} output logs, {} MiB before compression", args.file.display(), bytes >> 20);
    Ok(())
}

/// Restores one.
pub fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let data_dir = args.data_dir.path()?;
    let restored = if args.as_original { Restored::Original } else { Restored::Copy };
    let Back { version, original, ended_sessions, files, .. } = read(&args.file, &data_dir, restored)?;
    eprintln!("{}: {files} files of a backup by Glassbox {version}, each as it was", data_dir.display());
    eprintln!("Keys are as they were then: revoke those again that were revoked since (glassbox keys list).");
    if restored == Restored::Copy {
        eprintln!(
            "It is a server of its own: {ended_sessions} sessions that were live then are over, and what the original's \
             left in the engine has the label instance {original} and is not touched."
        );
    }
    Ok(())
}
