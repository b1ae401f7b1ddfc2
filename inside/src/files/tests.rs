//! Walks through hostile trees, on the host.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use proptest::prelude::*;
use rustix::fs::FileType;

use super::root::{Links, Root};

/// A workspace beside a secret.
fn workspace() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("workspace")).expect("a workspace");
    fs::create_dir(folder.path().join("outside")).expect("an outside");
    fs::write(folder.path().join("outside/secret"), "canary").expect("a secret");
    let root = Root::open(folder.path().join("workspace").to_str().expect("text"), true).expect("it is there");
    (folder, root)
}

fn find(root: &Root, path: &str, links: Links) -> Result<Option<FileType>, ErrorCode> {
    let parts = root.parts(path).map_err(|error| error.code)?;
    let found = root.find(&parts, links).map_err(|error| error.code)?;
    Ok(found.node.map(|node| node.kind()))
}

#[test]
fn links_inside_are_followed_and_those_that_lead_out_are_not() {
    let (folder, root) = workspace();
    let inside = folder.path().join("workspace");
    fs::create_dir_all(inside.join("a/b")).expect("folders");
    fs::write(inside.join("a/file"), "x").expect("a file");
    for (target, name) in [
        ("../file", "a/b/up"),
        ("a/b", "short"),
        ("../outside/secret", "relative"),
        ("a/../../outside", "winding"),
        ("/etc/passwd", "absolute"),
        ("loop2", "loop1"),
        ("loop1", "loop2"),
        ("nothing", "dangling"),
        ("..", "parent"),
    ] {
        symlink(target, inside.join(name)).expect("a link");
    }
    symlink(inside.join("a/file"), inside.join("own")).expect("a link");
    let file = Ok(Some(FileType::RegularFile));
    assert_eq!(find(&root, "a/b/up", Links::Follow), file);
    assert_eq!(find(&root, "short/up", Links::Follow), file);
    assert_eq!(find(&root, "own", Links::Follow), file, "absolute, but to a place inside");
    assert_eq!(find(&root, "dangling", Links::Follow), Ok(None));
    for out in ["relative", "winding", "winding/secret", "absolute", "parent", "parent/outside/secret"] {
        assert_eq!(find(&root, out, Links::Follow), Err(ErrorCode::OutsideWorkspace), "{out}");
    }
    assert_eq!(find(&root, "winding/secret", Links::Keep), Err(ErrorCode::OutsideWorkspace));
    assert_eq!(find(&root, "relative", Links::Keep), Ok(Some(FileType::Symlink)));
    assert_eq!(find(&root, "loop1", Links::Follow), Err(ErrorCode::LinkLoop));
    assert_eq!(find(&root, "a/file/x", Links::Keep), Err(ErrorCode::NotAFolder));
    assert_eq!(find(&root, "/etc/passwd", Links::Keep), Err(ErrorCode::OutsideWorkspace));
    assert_eq!(find(&root, "", Links::Keep), Ok(Some(FileType::Directory)));
}

#[test]
fn an_unconfined_root_reaches_everything_and_begins_at_the_workspace() {
    let (folder, _) = workspace();
    let path = folder.path().join("workspace");
    let root = Root::open(path.to_str().expect("text"), false).expect("it is there");
    let secret = folder.path().join("outside/secret");
    symlink("../outside/secret", path.join("link")).expect("a link");
    let file = Ok(Some(FileType::RegularFile));
    assert_eq!(find(&root, secret.to_str().expect("text"), Links::Keep), file);
    assert_eq!(find(&root, "link", Links::Follow), file);
    assert_eq!(root.text(&root.parts("link").expect("a path")), format!("{}/link", path.display()));
    assert!(root.holds_workspace(&root.parts("").expect("a path")));
    assert!(root.holds_workspace(&root.parts("/").expect("a path")));
    assert!(!root.holds_workspace(&root.parts("link").expect("a path")));
}

#[test]
fn no_walk_leads_out_while_folders_and_links_are_swapped() {
    let (folder, root) = workspace();
    let inside = folder.path().join("workspace");
    fs::create_dir(inside.join("real")).expect("a folder");
    fs::write(inside.join("real/secret"), "inside").expect("a file");
    let outside = folder.path().join("outside");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(inside.join("real"), inside.join("swap")).expect("the name is free");
                fs::rename(inside.join("swap"), inside.join("real")).expect("the name is free");
                symlink(&outside, inside.join("swap")).expect("the name is free");
                fs::remove_file(inside.join("swap")).expect("the link is there");
            }
        });
        let parts = root.parts("swap/secret").expect("a path");
        let until = Instant::now() + Duration::from_secs(60);
        let (mut read, mut refused) = (0, 0);
        while read < 500 || refused < 500 {
            assert!(Instant::now() < until, "both sides of the race are seen: {read} reads, {refused} refusals");
            let found = match root.find(&parts, Links::Follow) {
                Ok(found) => found,
                Err(error) => {
                    refused += usize::from(error.code == ErrorCode::OutsideWorkspace);
                    continue;
                }
            };
            let Some(place) = found.place else { continue };
            let Ok((file, _)) = super::root::read_file(place.folder.as_fd(), &place.name) else { continue };
            assert_eq!(std::io::read_to_string(file).expect("it can be read"), "inside");
            read += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Something in a hostile tree.
#[derive(Debug, Clone)]
enum Thing {
    Folder(String),
    File(String),
    Link(String, String),
    Pipe(String),
}

fn name() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
}

fn link_target() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => name(), 3 => Just("..".to_owned()), 1 => Just(".".to_owned()), 1 => Just(String::new()), 1 => Just("outside".to_owned())];
    (any::<bool>(), proptest::collection::vec(part, 1..6))
        .prop_map(|(absolute, parts)| format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
        .prop_filter("a link holds something", |target| !target.is_empty())
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        path().prop_map(Thing::Folder),
        path().prop_map(Thing::File),
        (path(), link_target()).prop_map(|(path, target)| Thing::Link(path, target)),
        path().prop_map(Thing::Pipe),
    ]
}

fn make(inside: &Path, thing: &Thing) {
    // The tree is what can be made of it: things that are in each other's way are left out.
    let at = |path: &str| {
        let full = inside.join(path);
        let real = full.parent().and_then(|parent| parent.canonicalize().ok());
        real.filter(|real| real.starts_with(inside)).map(|_| full)
    };
    match thing {
        Thing::Folder(path) => drop(at(path).map(fs::create_dir)),
        Thing::File(path) => drop(at(path).map(|path| {
            if !path.exists() && !path.is_symlink() {
                let _ = fs::write(path, "x");
            }
        })),
        Thing::Link(path, target) => drop(at(path).map(|path| symlink(target, path))),
        Thing::Pipe(path) => drop(at(path).map(|path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        })),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Where the kernel's own resolution ends inside, ours ends at the same file; where it ends outside, ours refuses.
    #[test]
    fn a_walk_ends_where_the_kernel_would_or_refuses(things in proptest::collection::vec(thing(), 0..25), asked in path()) {
        let (folder, root) = workspace();
        let inside = folder.path().join("workspace").canonicalize().expect("it is there");
        for thing in &things {
            make(&inside, thing);
        }
        let ours = root.parts(&asked).and_then(|parts| root.find(&parts, Links::Follow));
        if let Ok(super::root::Found { node: Some(node), .. }) = ours {
            let real = inside.join(&asked).canonicalize();
            // An absolute link to the workspace's own path is the kernel's and ours alike.
            let real = real.expect("what we find the kernel finds");
            prop_assert!(real.starts_with(&inside), "{asked} leads to {}", real.display());
            let stat = rustix::fs::stat(&real).expect("it is there");
            prop_assert_eq!((stat.st_dev, stat.st_ino), (node.stat.st_dev, node.stat.st_ino));
        }
    }
}
