//! Which names may reach an engine. They come from us; they end up in paths of requests all the same.

use super::RuntimeError;
use super::spec::helper_directory;

/// Longest name of a container or volume: an engine takes more, file systems take 255.
const LONGEST_NAME: usize = 128;
/// Longest image reference that a registry takes.
const LONGEST_IMAGE: usize = 255;
/// Longest value of a label of ours: ids and tenants are much shorter.
const LONGEST_LABEL: usize = 128;

/// Longest place of a workspace: what is in it needs room for its own part of a path, which has 4096 bytes at most.
const LONGEST_WORKSPACE_DIR: usize = 1024;
/// What an image's system, the engine or gVisor has in these folders would be hidden by a workspace, or hide it.
const SYSTEM: [&str; 12] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys"];
/// The same, but there are places of others further down, such as `/usr/src/app` and `/var/www`.
const SYSTEM_ABOVE: [&str; 3] = ["/", "/usr", "/var"];

fn refuse(what: &str, name: &str) -> RuntimeError {
    RuntimeError::Engine(format!("{name:?} cannot be the name of {what}"))
}

/// A container or a volume: letters, digits, `_`, `.` and `-`, beginning with a letter or digit, two or more.
pub fn check_container(name: &str) -> Result<(), RuntimeError> {
    let fits = (2..=LONGEST_NAME).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if fits { Ok(()) } else { Err(refuse("a container or volume", name)) }
}

/// An image: `host:port/path/name:tag@digest`, no empty part and none of dots only.
pub fn check_image(name: &str) -> Result<(), RuntimeError> {
    let fits = (1..=LONGEST_IMAGE).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/:@".contains(c))
        && name.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()));
    if fits { Ok(()) } else { Err(refuse("an image", name)) }
}

/// A label's value: printable, not empty.
pub fn check_label(value: &str) -> Result<(), RuntimeError> {
    let fits = (1..=LONGEST_LABEL).contains(&value.len()) && value.chars().all(|c| c.is_ascii_graphic());
    if fits { Ok(()) } else { Err(refuse("a tenant or session", value)) }
}

/// Where a workspace can be: an absolute path, written in the one way in which it can be, that hides nothing that a sandbox
/// needs.
pub fn check_workspace_dir(path: &str) -> Result<(), RuntimeError> {
    let in_system = || SYSTEM.into_iter().chain([helper_directory()]).find(|folder| is_within(path, folder));
    let why = if !path.starts_with('/') {
        "it is not absolute".to_owned()
    } else if SYSTEM_ABOVE.contains(&path) {
        "the system itself is there".to_owned()
    } else if path.len() > LONGEST_WORKSPACE_DIR {
        format!("it has more than {LONGEST_WORKSPACE_DIR} bytes")
    } else if path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        "it has an empty part, `.` or `..`".to_owned()
    } else if path.contains(|c: char| c.is_control() || c == '%') {
        "it has control characters or `%`".to_owned()
    } else if let Some(folder) = in_system() {
        format!("{folder} belongs to the system")
    } else {
        return Ok(());
    };
    Err(RuntimeError::Engine(format!("{path:?} cannot be the workspace: {why}; choose a folder such as /work")))
}

/// Is it the folder, or in it? Both are absolute and plain.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leaves_its_place_in_a_path() {
        for good in ["glassbox-sbx_abc.1", "a1", "A-b_c.d"] {
            assert!(check_container(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "-a", ".a", "../etc", "a/b", "a b", "a?b", "a\nb", "ä1", &"a".repeat(129)] {
            assert!(check_container(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_image_is_a_reference_and_nothing_else() {
        for good in ["sandbox-base:latest", "registry.example:5000/team/base:1.2", "base@sha256:0123abcd"] {
            assert!(check_image(good).is_ok(), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a//b", "-rm", "a b", "a?b=c", "a#b", "x/../y"] {
            assert!(check_image(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_workspace_hides_nothing_that_a_sandbox_needs() {
        for good in [
            "/root",
            "/workspace",
            "/work",
            "/tmp",
            "/home/ann/my project",
            "/usr/src/app",
            "/devices",
            "/procs/sys",
            "/ä",
        ] {
            assert!(check_workspace_dir(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "absolute"),
            ("work", "absolute"),
            ("./work", "absolute"),
            ("/", "the system itself"),
            ("/usr", "the system itself"),
            ("//", "empty part"),
            ("/work/", "empty part"),
            ("/work//a", "empty part"),
            ("/work/../etc", "`..`"),
            ("/work/.", "`.`"),
            ("/proc", "/proc belongs"),
            ("/proc/self/cwd", "/proc belongs"),
            ("/sys/fs", "/sys belongs"),
            ("/dev/shm", "/dev belongs"),
            ("/etc/work", "/etc belongs"),
            ("/.glassbox", "/.glassbox belongs"),
            ("/.glassbox/work", "/.glassbox belongs"),
            ("/work\n", "control characters"),
            ("/a%2Fb", "`%`"),
            (&format!("/{}", "a".repeat(1024)), "1024 bytes"),
        ] {
            let refusal = check_workspace_dir(bad).expect_err(bad).to_string();
            assert!(refusal.contains(why), "{bad:?}: {refusal}");
        }
    }

    #[test]
    fn a_label_is_printable() {
        assert!(check_label("tenant-1").is_ok());
        assert!(check_label("").is_err());
        assert!(check_label("a\nb").is_err());
    }
}
