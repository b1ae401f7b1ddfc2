//! Where sandboxes without a server have their data: a folder for each, locked by its program, below one private folder.
//!
//! A folder that nobody holds was left by a program that was killed. Whoever starts a sandbox next ends what is left of it
//! in the engine, and only then removes the folder, because its instance is all that tells whose a container is.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use crate::runtime::{Inventory, Owned, Runtime, RuntimeError};
use crate::server::connect;
use crate::server::data::{self, DataDir};

/// Begins the names of folders that have, or had, a sandbox.
const LIVE: &str = "box-";
/// Begins the names of folders that only have to be deleted.
const GONE: &str = "gone-";
/// The file that says in which engine the sandbox is: only there it can be looked for. It is written last, so that a
/// folder without it has nothing in any engine.
const ENGINE: &str = "engine";
/// How Docker's own programs are told which engine to use.
const ENGINE_VARIABLE: &str = "DOCKER_HOST";
/// A folder without that file may be one that is being made. After so long it is not.
const MADE_WITHIN: Duration = Duration::from_hours(1);
/// Folders of killed programs that one start sees to; the next one sees to more. Each can take the engine seconds.
const MOST_AT_ONCE: usize = 32;

/// Makes a folder for one sandbox, which belongs to this process until it is dropped.
pub(super) fn make(parent: &Path) -> anyhow::Result<DataDir> {
    let shown = parent.display();
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.with_context(|| format!("cannot make the folder {shown}; set XDG_DATA_HOME to one that can be written"))?;
    let folder = tempfile::Builder::new().prefix(LIVE).tempdir_in(parent);
    let folder = folder.with_context(|| format!("cannot write to the folder {shown}"))?.keep();
    let data = DataDir::open(&folder)?;
    fs::write(folder.join(ENGINE), engine()).with_context(|| format!("cannot write to the folder {shown}"))?;
    Ok(data)
}

/// Removes a folder that has nothing in the engine any more. Under another name first: nobody takes one for a sandbox's
/// whose files are half gone.
pub(super) fn discard(folder: &Path) {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let gone = folder.with_file_name(format!("{GONE}{}", name.trim_start_matches(LIVE)));
    match fs::rename(folder, &gone) {
        Ok(()) => delete(&gone),
        // Somebody else did it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, folder = %folder.display(), "the folder of a sandbox cannot be removed"),
    }
}

fn delete(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "files of a sandbox cannot be removed; trying again at the next start");
    }
}

/// Removes everything that carries this instance's label, verified.
pub(super) async fn remove_everything(runtime: &Runtime) -> Result<(), RuntimeError> {
    let Inventory { containers, workspaces, filling } = runtime.inventory().await?;
    // One that cannot be removed must not keep all others.
    let mut failed = Ok(());
    for Owned { name, .. } in containers.into_iter().chain(filling) {
        failed = failed.and(runtime.remove(&name).await);
    }
    for Owned { name, .. } in workspaces {
        failed = failed.and(runtime.remove_workspace(&name).await);
    }
    failed
}

/// Ends what killed programs have left in this engine.
pub(super) async fn clear_leftovers(parent: &Path, image: &str) {
    let folder = parent.to_owned();
    let left = tokio::task::spawn_blocking(move || leftovers(&folder, &engine())).await.unwrap_or_default();
    for folder in left.into_iter().take(MOST_AT_ONCE) {
        let shown = folder.display().to_string();
        match clear(folder, image).await {
            Ok(()) => tracing::info!(folder = shown, "the sandbox of a program that was killed is removed"),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, folder = shown, "the sandbox of a program that was killed cannot be removed yet");
            }
        }
    }
}

async fn clear(folder: PathBuf, image: &str) -> anyhow::Result<()> {
    let data = tokio::task::spawn_blocking(move || DataDir::open(&folder)).await??;
    let runtime = connect(image, data.instance())?;
    remove_everything(&runtime).await?;
    tokio::task::spawn_blocking(move || discard(data.path())).await?;
    Ok(())
}

/// Folders whose sandboxes are in this engine and whose programs are gone. Those that have none are deleted by the way.
fn leftovers(parent: &Path, engine: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut left = Vec::new();
    for entry in entries.flatten() {
        let (folder, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Links are not followed: `file_type` is the entry's own.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if name.starts_with(GONE) {
            delete(&folder);
        } else if name.starts_with(LIVE) && !data::is_served(&folder) {
            match fs::read_to_string(folder.join(ENGINE)) {
                Ok(its) if its == engine => left.push(folder),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_old(&folder) => discard(&folder),
                _ => {}
            }
        }
    }
    left
}

fn is_old(folder: &Path) -> bool {
    let changed = fs::metadata(folder).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > MADE_WITHIN))
}

fn engine() -> String {
    std::env::var(ENGINE_VARIABLE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};

    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).expect("a folder").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn only_what_nobody_holds_and_what_is_in_this_engine_is_a_leftover() {
        let parent = tempfile::tempdir().expect("a folder");
        let here = engine();
        let held = make(parent.path()).expect("made");
        let left = make(parent.path()).expect("made").path().to_owned();
        assert_eq!(leftovers(parent.path(), &here), std::slice::from_ref(&left), "not the one that is held");
        assert_eq!(leftovers(parent.path(), "tcp://elsewhere:2375"), Vec::<PathBuf>::new());
        discard(&left);
        assert_eq!(names(parent.path()).len(), 1);
        drop(held);
    }

    #[test]
    fn a_folder_that_is_being_made_is_left_alone_until_it_is_old() {
        let parent = tempfile::tempdir().expect("a folder");
        let young = parent.path().join("box-young");
        fs::create_dir(&young).expect("made");
        fs::create_dir(parent.path().join("gone-half")).expect("made");
        fs::create_dir(parent.path().join("somebody's")).expect("made");
        assert_eq!(leftovers(parent.path(), ""), Vec::<PathBuf>::new());
        let mut there = names(parent.path());
        there.sort();
        assert_eq!(there, ["box-young", "somebody's"]);
        let long_ago = SystemTime::now() - 2 * MADE_WITHIN;
        File::open(&young).expect("opens").set_times(FileTimes::new().set_modified(long_ago)).expect("set");
        assert_eq!(leftovers(parent.path(), ""), Vec::<PathBuf>::new());
        assert_eq!(names(parent.path()), ["somebody's"]);
    }

    #[test]
    fn to_discard_what_somebody_else_discarded_is_no_failure() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = make(parent.path()).expect("made").path().to_owned();
        discard(&folder);
        discard(&folder);
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }
}
