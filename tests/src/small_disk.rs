//! A disk of its own, small enough to be filled: for a data directory, or for a workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that takes up what is free.
const BALLAST: &str = "ballast";

/// A small file system, unmounted when it is dropped. Needs root, as the tests' engine does.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts one in memory at `place`, which is made.
    pub fn mount(place: &Path, megabytes: u32) -> Self {
        std::fs::create_dir_all(place).expect("a folder");
        let size = format!("size={megabytes}m,mode=700");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "glassbox-test"]).arg(place));
        Self { place: place.to_owned() }
    }

    /// Mounts one with ext4 in a file at `place`, which is made: as a disk quota by loop devices is. It belongs to `owner`,
    /// who may use the last byte of it.
    pub fn mount_file(place: &Path, megabytes: u32, owner: u32) -> Self {
        std::fs::create_dir_all(place).expect("a folder");
        let image = place.with_extension("image");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(u64::from(megabytes) << 20).expect("a size");
        // Neither blocks that are kept for root, nor a lost+found that would make it look used.
        let options = format!("root_owner={owner}:{owner},lazy_itable_init=0");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-m", "0", "-E", &options]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(place));
        std::fs::remove_dir(place.join("lost+found")).expect("it is new");
        Self { place: place.to_owned() }
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Lies over another folder until the answer is dropped. What was started meanwhile keeps it.
    pub fn lie_over(&self, folder: &Path) -> Over {
        run(Command::new("mount").arg("--bind").arg(&self.place).arg(folder));
        Over(folder.to_owned())
    }

    /// Takes up all that is free.
    pub fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.place.join(BALLAST)).expect("a file");
        let block = [0_u8; 4096];
        loop {
            let mut written = 0;
            let refused = loop {
                match file.write_all(&block) {
                    Ok(()) => written += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull, "{refused}");
            if written == 0 {
                return;
            }
            // ext4 keeps more than it needs until it knows where the bytes go.
            file.sync_all().expect("what was written has its place");
        }
    }

    /// Gives it back.
    pub fn free(&self) {
        std::fs::remove_file(self.place.join(BALLAST)).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.place);
    }
}

/// A folder over which a [`SmallDisk`] lies.
#[derive(Debug)]
pub struct Over(PathBuf);

impl Drop for Over {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn run(command: &mut Command) {
    let ended = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(ended.success(), "{command:?}: {ended}");
}

fn unmount(place: &Path) {
    // Lazily: a server that was killed may still be on its way out.
    let unmounted = Command::new("umount").arg("--lazy").arg(place).status();
    if !unmounted.is_ok_and(|status| status.success()) {
        eprintln!("{} is still mounted", place.display());
    }
}
