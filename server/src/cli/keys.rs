//! `glassbox keys`: makes, lists and revokes API keys, beside a running server too.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use glassbox_shared::actor::Role;
use glassbox_shared::id::KeyId;

use crate::access::{Access, KeyView};
use crate::server::config::DataDirArg;
use crate::server::data::{FIRST_TENANT, database_beside_server};
use crate::store::Store;

/// `glassbox keys …`
#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key; it is printed once, alone on standard output
    Create {
        /// What it may do: agent, viewer or operator
        #[arg(long)]
        role: Role,
        /// Whose it is
        #[arg(long, default_value = FIRST_TENANT)]
        tenant: String,
        /// What people will see beside everything done with it [default: the role]
        #[arg(long)]
        name: Option<String>,
    },
    /// List a tenant's keys
    List {
        /// Whose
        #[arg(long, default_value = FIRST_TENANT)]
        tenant: String,
    },
    /// Revoke a key: at once, with the sign-ins made with it
    Revoke {
        /// The id, as `list` shows it
        key_id: KeyId,
        /// Whose it is
        #[arg(long, default_value = FIRST_TENANT)]
        tenant: String,
        /// Also if it is the tenant's last active operator key
        #[arg(long)]
        even_last: bool,
    },
}

/// Opens the database of a data directory for a command; the server may be running.
pub(super) async fn with_access<T>(
    data_dir: &DataDirArg,
    work: impl AsyncFnOnce(&Access) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let path = data_dir.path()?;
    let store = Store::open(&database_beside_server(&path)?)
        .with_context(|| format!("cannot open the database in {}", path.display()))?;
    // Keys given to the server by configuration are not known here, and need not be.
    let result = work(&Access::new(store.clone(), Vec::new())).await;
    store.close().await;
    result
}

/// Does what was asked for.
pub async fn run(args: KeysArgs) -> anyhow::Result<()> {
    with_access(&args.data_dir, async |access| match args.command {
        KeysCommand::Create { role, tenant, name } => {
            let name = name.unwrap_or_else(|| role.as_str().to_owned());
            let (view, key) = access.create_key(&tenant, &name, role).await?;
            eprintln!("{} ({}, tenant {tenant}); the key is shown only now:", view.key_id, view.role.as_str());
            println!("{key}");
            Ok(())
        }
        KeysCommand::List { tenant } => {
            print!("{}", table(&access.list_keys(&tenant).await?));
            Ok(())
        }
        KeysCommand::Revoke { key_id, tenant, even_last } => {
            let revoked = if even_last {
                access.revoke_even_last_key(&tenant, &key_id).await
            } else {
                access.revoke_key(&tenant, &key_id).await
            };
            let view = revoked.with_context(|| format!("cannot revoke {key_id} of tenant {tenant}"))?;
            eprintln!("{} ({}) is revoked", view.key_id, view.name);
            Ok(())
        }
    })
    .await
}

/// One line a key, columns lined up.
fn table(keys: &[KeyView]) -> String {
    let rows = keys.iter().map(|key| {
        let state = if key.active { "active" } else { "revoked" };
        [key.key_id.as_str(), key.role.as_str(), state, key.prefix.as_str(), key.name.as_str()]
    });
    let rows: Vec<_> = std::iter::once(["ID", "ROLE", "STATE", "BEGINS WITH", "NAME"]).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    rows.iter().fold(String::new(), |mut text, row| {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text + row[4] + "\n"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        keys: KeysArgs,
    }

    fn parse(arguments: &[&str]) -> Result<KeysArgs, clap::Error> {
        use clap::Parser as _;
        Program::try_parse_from(std::iter::once(&"keys").chain(arguments)).map(|program| program.keys)
    }

    #[test]
    fn arguments_are_understood_in_any_order() {
        let args = parse(&["create", "--role", "agent", "--data-dir", "/x"]).expect("arguments");
        assert_eq!(args.data_dir.path().expect("a folder"), std::path::Path::new("/x"));
        assert!(parse(&["revoke", "key_aaaaaaaaaaaaaaaaaaaa"]).is_ok());
        assert!(parse(&["create", "--role", "root"]).expect_err("no role").to_string().contains("unknown role"));
        assert!(parse(&["revoke", "7"]).is_err());
    }

    #[tokio::test]
    async fn without_a_server_ever_started_it_says_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let args = parse(&["list", "--data-dir", &folder.path().display().to_string()]).expect("arguments");
        assert!(run(args).await.expect_err("no data").to_string().contains("glassbox serve"));
    }

    #[test]
    fn a_list_has_a_line_a_key() {
        let key = KeyView {
            key_id: "key_aaaaaaaaaaaaaaaaaaaa".parse().expect("an id"),
            tenant_id: "acme".into(),
            name: "builder".into(),
            role: Role::Agent,
            created_at: 0.0,
            revoked_at: None,
            active: true,
            prefix: "asb_abcdefghij".into(),
        };
        let text = table(&[key]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.ends_with("key_aaaaaaaaaaaaaaaaaaaa  agent  active  asb_abcdefghij  builder\n"), "{text}");
    }
}
