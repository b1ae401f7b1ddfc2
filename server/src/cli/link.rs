//! `glassbox link`: one more one-time sign-in link.

use clap::Args;
use glassbox_shared::actor::Role;

use super::keys::with_access;
use crate::access::{LINK_SECONDS, link_url};
use crate::server::config::DataDirArg;
use crate::server::data::{FIRST_TENANT, announced_address, is_served};

/// Printed when no server ever wrote down where it is found.
const USUAL_ADDRESS: &str = "http://127.0.0.1:7070";

/// `glassbox link`
#[derive(Debug, Args)]
pub struct LinkArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Whose sessions it shows
    #[arg(long, default_value = FIRST_TENANT)]
    tenant: String,
    /// What whoever opens it may do: operator, viewer or agent
    #[arg(long, default_value = "operator")]
    role: Role,
    /// Where browsers find the server [default: what the server said at its start]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// Prints the link, alone on standard output.
pub async fn run(args: LinkArgs) -> anyhow::Result<()> {
    let path = args.data_dir.path()?;
    let base = match args.url {
        Some(url) => url,
        None => announced_address(&path)?.unwrap_or_else(|| USUAL_ADDRESS.to_owned()),
    };
    let token =
        with_access(&args.data_dir, async |access| Ok(access.make_link(&args.tenant, args.role).await?)).await?;
    eprintln!("Opens once, within {} minutes, as {} of tenant {}:", LINK_SECONDS / 60, args.role.as_str(), args.tenant);
    println!("{}", link_url(&base, &token));
    if !is_served(&path) {
        eprintln!("No server uses {} right now; start `glassbox serve` to open it.", path.display());
    }
    Ok(())
}
