//! Which names may reach an engine. They come from us; they end up in paths of requests all the same.

use super::RuntimeError;

/// Longest name of a container or volume: an engine takes more, file systems take 255.
const LONGEST_NAME: usize = 128;
/// Longest image reference that a registry takes.
const LONGEST_IMAGE: usize = 255;
/// Longest value of a label of ours: ids and tenants are much shorter.
const LONGEST_LABEL: usize = 128;

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
    fn a_label_is_printable() {
        assert!(check_label("tenant-1").is_ok());
        assert!(check_label("").is_err());
        assert!(check_label("a\nb").is_err());
    }
}
