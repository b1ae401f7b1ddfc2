//! The file service as a process: what it does when the server is gone, or speaks nonsense. What it does with files is
//! tested on gVisor.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use glassbox_shared::files::frames::{Answer, FromFiles, MAX_DATA, Open, Operation, ToFiles, WINDOW};
use glassbox_shared::files::{SortBy, SortOrder};
use glassbox_shared::helper::FrameBuffer;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
const TAG: u64 = 7;

struct Service {
    child: Child,
    frames: FrameBuffer,
}

impl Service {
    fn start(workspace: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_glassbox-inside"))
            .arg("files")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the helper starts");
        let mut service = Self { child, frames: FrameBuffer::default() };
        let workspace = workspace.to_str().expect("text").to_owned();
        service.say(0, &ToFiles::Open(Open { tag: TAG, workspace, confined: true }));
        service
    }

    fn say(&mut self, number: u32, what: &ToFiles) {
        self.raw(&what.encode(number));
    }

    fn begin(&mut self, number: u32, operation: Operation) {
        self.say(number, &ToFiles::Begin(Box::new(operation)));
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().expect("not closed yet").write_all(bytes).expect("it reads");
    }

    fn hear(&mut self) -> (u32, FromFiles) {
        loop {
            if let Some((kind, body)) = self.frames.next_frame().expect("frames") {
                return FromFiles::decode(TAG, kind, body).expect("a frame of ours");
            }
            let mut bytes = [0; 4096];
            let count = self.child.stdout.as_mut().expect("piped").read(&mut bytes).expect("it speaks");
            assert!(count > 0, "it ended");
            self.frames.push(&bytes[..count]);
        }
    }

    /// Closes its stdin and waits for its end.
    fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < until, "it leaves when the server is gone");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn write() -> Operation {
    Operation::Write { path: "file".to_owned(), expected: None, new: false, parents: false, limit: 1 << 30 }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn when_the_server_is_gone_nothing_half_written_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Service::start(folder.path());
    service.begin(1, write());
    service.say(1, &ToFiles::Data(b"half".to_vec()));
    assert_eq!(service.hear(), (1, FromFiles::Taken(1)));
    service
        .begin(2, Operation::StartUpload { id: "u".to_owned(), path: "upload".to_owned(), size: 10, replace: false });
    assert!(matches!(service.hear(), (2, FromFiles::Done(_))));
    assert_eq!(names(folder.path()).len(), 2, "both are under way");
    assert!(service.end().success());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn what_a_dead_service_left_goes_with_the_next_writing_and_what_is_under_way_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = folder.path().join(".glassbox-tmp-0123abcd-0123456789abcdef");
    std::fs::create_dir_all(left.join("copy/of")).expect("a half copied folder");
    std::fs::write(folder.path().join(".glassbox-tmp-0123abcd-fedcba9876543210"), "half").expect("a half written file");
    std::fs::write(folder.path().join("kept"), "kept").expect("a file");
    let mut service = Service::start(folder.path());
    let upload = |id: &str| Operation::StartUpload { id: id.to_owned(), path: id.to_owned(), size: 4, replace: false };
    service.begin(1, upload("one"));
    assert!(matches!(service.hear(), (1, FromFiles::Done(_))));
    assert_eq!(names(folder.path()).len(), 2, "kept, and the one that is under way");
    service.begin(2, upload("two"));
    assert!(matches!(service.hear(), (2, FromFiles::Done(_))));
    assert_eq!(names(folder.path()).len(), 3);
    assert!(service.end().success());
    assert_eq!(names(folder.path()), ["kept"]);
}

#[test]
fn operations_run_at_once_and_one_can_be_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Service::start(folder.path());
    service.begin(1, write());
    service.begin(2, Operation::MakeFolder { path: "a/b".to_owned() });
    assert!(matches!(service.hear(), (2, FromFiles::Done(answer)) if matches!(*answer, Answer::Entry(_))));
    service.say(1, &ToFiles::Cancel);
    assert!(matches!(service.hear(), (1, FromFiles::Failed(_))));
    assert_eq!(names(folder.path()), ["a"]);
    assert!(service.end().success());
}

#[test]
fn content_waits_until_it_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), vec![b'x'; 100 * MAX_DATA]).expect("a file");
    let mut service = Service::start(folder.path());
    let range = glassbox_shared::files::frames::Range::All;
    service.begin(1, Operation::Read { path: "file".to_owned(), range });
    assert!(matches!(service.hear(), (1, FromFiles::Head(_))));
    for _ in 0..WINDOW {
        assert!(matches!(service.hear(), (1, FromFiles::Data(_))));
    }
    // The window is used up: what comes next is another operation's.
    service.begin(2, Operation::Version { path: "file".to_owned() });
    assert!(matches!(service.hear(), (2, FromFiles::Done(_))));
    service.say(1, &ToFiles::Taken(1));
    assert!(matches!(service.hear(), (1, FromFiles::Data(_))));
    assert!(service.end().success());
}

#[test]
fn nonsense_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Service::start(folder.path());
    service.raw(&[3, 0, 0, 0, 99, 1, 2]);
    assert_eq!(service.end().code(), Some(2));

    let mut service = Service::start(folder.path());
    let workspace = "/".to_owned();
    service.say(0, &ToFiles::Open(Open { tag: TAG, workspace, confined: false }));
    assert_eq!(service.end().code(), Some(2), "what may be reached is said once");
}

#[test]
fn only_what_is_being_written_is_hidden_and_only_what_services_write_is_cleared_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = [".glassbox-tmp-0123abcd", ".glassbox-tmp-0123abcd-0123456789abcdeX", ".glassbox-tmp-mine"];
    for name in own {
        std::fs::write(folder.path().join(name), "somebody's").expect("a file");
    }
    let mut service = Service::start(folder.path());
    let list = || Operation::List {
        path: String::new(),
        sort: SortBy::Name,
        order: SortOrder::Asc,
        filter: String::new(),
        cursor: None,
        limit: 100,
    };
    let listed = |number, service: &mut Service| {
        service.begin(number, list());
        let (_, FromFiles::Done(answer)) = service.hear() else { panic!("no answer") };
        let Answer::Page { entries, .. } = *answer else { panic!("no page") };
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    assert_eq!(listed(1, &mut service), own);
    let start = Operation::StartUpload { id: "u".to_owned(), path: "upload".to_owned(), size: 10, replace: false };
    service.begin(2, start);
    assert!(matches!(service.hear(), (2, FromFiles::Done(_))));
    assert_eq!(names(folder.path()).len(), 4, "nothing was cleared away, and one is under way");
    assert_eq!(listed(3, &mut service), own);
    // Of the exact form, but nothing of this service: it is there to be seen.
    let forged = ".glassbox-tmp-ffffffff-ffffffffffffffff";
    std::fs::write(folder.path().join(forged), "hidden?").expect("a file");
    assert!(listed(4, &mut service).contains(&forged.to_owned()));
    service.begin(5, Operation::DropUpload { id: "u".to_owned() });
    assert!(matches!(service.hear(), (5, FromFiles::Done(_))));
    assert_eq!(names(folder.path()).len(), 4, "what was under way is gone");
    assert!(service.end().success());
}
