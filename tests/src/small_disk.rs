//! A data directory on a disk of its own, small enough to be filled.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that takes up what is free.
const BALLAST: &str = "ballast";

/// A small file system in memory, unmounted when it is dropped. Needs root, as the tests' engine does.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts one at `place`, which is made.
    pub fn mount(place: &Path, megabytes: u32) -> Self {
        std::fs::create_dir_all(place).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=700"), "glassbox-test"])
            .arg(place)
            .status()
            .expect("mount runs");
        assert!(mounted.success(), "a small disk could not be mounted at {}", place.display());
        Self { place: place.to_owned() }
    }

    /// Takes up all that is free.
    pub fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.place.join(BALLAST)).expect("a file");
        let block = [0_u8; 4096];
        let refused = loop {
            if let Err(error) = file.write_all(&block) {
                break error;
            }
        };
        assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull, "{refused}");
    }

    /// Gives it back.
    pub fn free(&self) {
        std::fs::remove_file(self.place.join(BALLAST)).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that was killed may still be on its way out.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.place).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.place.display());
        }
    }
}
