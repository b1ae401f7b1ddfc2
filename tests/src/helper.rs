//! Another version of the helper.

use std::path::PathBuf;

use crate::{docker, random_name};

/// The helper with a few bytes behind its end: it runs as before, and its volumes have names of their own.
#[derive(Debug)]
pub struct Variant {
    folder: tempfile::TempDir,
    stem: String,
}

impl Variant {
    /// Makes one, different from every other.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let helper = std::env::var_os("GLASSBOX_HELPER").map(PathBuf::from);
        let helper = helper.expect("GLASSBOX_HELPER names the static helper; `make test` sets it");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("glassbox-inside");
        let mut bytes = std::fs::read(helper).expect("the helper is there");
        bytes.extend_from_slice(random_name().as_bytes());
        std::fs::write(&path, bytes).expect("written");
        let sum = std::process::Command::new("sha256sum").arg(&path).output().expect("sha256sum runs");
        let sum = String::from_utf8(sum.stdout).expect("text");
        Self { folder, stem: format!("glassbox-helper-{}", &sum[..16]) }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("glassbox-inside")
    }

    /// Begins the names of its volumes.
    pub fn stem(&self) -> &str {
        &self.stem
    }
}

impl Drop for Variant {
    fn drop(&mut self) {
        // Those that stand on others first.
        for end in ["-sealed", "-2-sealed", "", "-2"] {
            let _ = docker::try_run(&["volume", "rm", "--force", &format!("{}{end}", self.stem)]);
        }
    }
}
