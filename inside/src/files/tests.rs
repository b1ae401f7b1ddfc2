//! Walks through hostile trees, on the host.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, FromFiles};
use glassbox_shared::files::{SortBy, SortOrder};
use glassbox_shared::helper::FrameBuffer;
use proptest::prelude::*;
use rustix::fs::FileType;

use super::delete::delete;
use super::list::{Page, page};
use super::root::{Links, MAX_DEPTH, Root};
use super::talk::{Inbox, Output, Talk};
use super::{Service, Users, list, upload, write};

const TAG: u64 = 7;

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

fn service(root: Root) -> Service {
    Service {
        root,
        users: Users::read(),
        kept: list::Kept::default(),
        uploads: upload::Uploads::default(),
        temporaries: write::Temporaries::new(),
        operations: std::sync::Mutex::default(),
    }
}

/// An operation's side, what it is told by, and where it says what it says.
fn talk() -> (Talk, Arc<Inbox>, File) {
    let said = tempfile::tempfile().expect("a file");
    let output = Output::new(said.try_clone().expect("the same"), TAG);
    let inbox = Arc::new(Inbox::new());
    (Talk::new(1, Arc::new(output), Arc::clone(&inbox)), inbox, said)
}

/// How far it said last that it is.
fn told_last(mut said: File) -> Option<u64> {
    let mut bytes = Vec::new();
    said.rewind().expect("a file");
    said.read_to_end(&mut bytes).expect("a file");
    let mut frames = FrameBuffer::default();
    frames.push(&bytes);
    let mut last = None;
    while let Some((kind, body)) = frames.next_frame().expect("frames") {
        if let (1, FromFiles::Progress(at)) = FromFiles::decode(TAG, kind, body).expect("a frame of ours") {
            last = Some(at.done);
        }
    }
    last
}

#[test]
fn a_deletion_that_is_cancelled_says_how_far_it_came() {
    const FILES: usize = 5_000;
    let (folder, root) = workspace();
    let service = service(root);
    let tree = folder.path().join("workspace/tree");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "one is cancelled half-way");
        fs::create_dir(&tree).expect("a folder");
        for number in 0..FILES {
            fs::write(tree.join(number.to_string()), "").expect("a file");
        }
        let left = || fs::read_dir(&tree).map_or(0, Iterator::count);
        let (mut talk, inbox, said) = talk();
        let ended = std::thread::scope(|scope| {
            let deletion = scope.spawn(|| delete(&service, &mut talk, "tree", true));
            while left() == FILES && !deletion.is_finished() {}
            inbox.cancel();
            deletion.join().expect("no panic")
        });
        if let Err(error) = ended {
            assert_eq!(error.code, ErrorCode::Conflict);
            assert_eq!(told_last(said), Some((FILES - left()) as u64));
            return;
        }
    }
}

#[test]
fn a_deletion_that_fails_half_way_says_how_far_it_came() {
    let (folder, root) = workspace();
    let mut at = folder.path().join("workspace/tree");
    let mut made = Vec::new();
    // In whichever order folders are read, some files come before what is too deep.
    for level in 0..=MAX_DEPTH + 1 {
        fs::create_dir(&at).expect("a folder");
        made.push(at.clone());
        for file in [format!("before-{level}"), format!("after-{level}")] {
            made.push(at.join(file));
        }
        fs::write(&made[made.len() - 2], "").expect("a file");
        at.push("d");
    }
    for file in made.iter().filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'a')) {
        fs::write(file, "").expect("a file");
    }
    let (mut talk, _inbox, said) = talk();
    let ended = delete(&service(root), &mut talk, "tree", true);
    assert_eq!(ended.map_err(|error| error.code), Err(ErrorCode::BadName));
    let gone = made.iter().filter(|path| !path.exists()).count();
    assert!(gone > 0);
    assert_eq!(told_last(said), Some(gone as u64));
}

#[test]
fn a_page_of_what_is_gone_meanwhile_is_filled_with_what_comes_after() {
    let (folder, root) = workspace();
    let inside = folder.path().join("workspace");
    for name in ["a", "b", "c", "d"] {
        fs::write(inside.join(name), "").expect("a file");
    }
    let service = service(root);
    let (talk, _inbox, _said) = talk();
    let look = |cursor: Option<String>| {
        let (sort, order) = (SortBy::Name, SortOrder::Asc);
        let asked = Page { path: String::new(), sort, order, filter: String::new(), cursor, limit: 1 };
        let Ok(Answer::Page { entries, next, .. }) = page(&service, &talk, &asked) else { panic!("no page") };
        (entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), next)
    };
    let modified = fs::metadata(&inside).expect("a folder").modified().expect("a time");
    let (first, next) = look(None);
    assert_eq!(first, ["a"]);
    for gone in ["b", "d"] {
        fs::remove_file(inside.join(gone)).expect("it is there");
    }
    // As if they went while the page was made: the listing that was kept still holds them.
    File::open(&inside).expect("a folder").set_modified(modified).expect("ours");
    let (second, next) = look(next);
    assert_eq!(second, ["c"]);
    let (third, next) = look(next);
    assert_eq!((third.len(), next), (0, None), "an empty page is the last one");
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
