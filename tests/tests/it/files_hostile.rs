//! Files: what a sandbox does to lead a file operation out of its workspace, or to make it wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::FileType;
use glassbox_tests::{TestServer, hardened, open, repeats};

/// The case's bar; what is measured is one round trip.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Case 23, hardened.
#[tokio::test]
async fn what_leads_out_of_a_workspace_or_has_no_content_is_an_error_at_once() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session
        .sh("echo inside > file && mkdir d && ln -s ../file d/in && ln -s /workspace/file own && \
             ln -s /etc/passwd out && ln -s ../../etc/passwd winding && ln -s / root && ln -s d/../../etc up && \
             ln -s loop2 loop1 && ln -s loop1 loop2 && ln -s nothing dangling && mkfifo pipe && ln -s /dev/zero zero && \
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'")
        .await;
    let files = session.files();
    for (path, code) in [
        ("out", ErrorCode::OutsideWorkspace),
        ("winding", ErrorCode::OutsideWorkspace),
        ("root/etc/passwd", ErrorCode::OutsideWorkspace),
        ("up/passwd", ErrorCode::OutsideWorkspace),
        ("zero", ErrorCode::OutsideWorkspace),
        ("/etc/passwd", ErrorCode::OutsideWorkspace),
        ("/proc/1/environ", ErrorCode::OutsideWorkspace),
        ("loop1", ErrorCode::LinkLoop),
        ("dangling", ErrorCode::NotFound),
        ("pipe", ErrorCode::NotAFile),
        ("socket", ErrorCode::NotAFile),
        ("d", ErrorCode::NotAFile),
        ("file/x", ErrorCode::NotAFolder),
        ("../etc/passwd", ErrorCode::BadName),
        ("d/%2e%2e/%2e%2e/etc/passwd", ErrorCode::BadName),
        ("a%00b", ErrorCode::BadName),
    ] {
        let begun = Instant::now();
        assert_eq!(files.read(path).await.refusal().code(), code, "{path}");
        assert!(begun.elapsed() < AT_ONCE, "{path}: {:?}", begun.elapsed());
        if code != ErrorCode::NotFound {
            let refusal = files.try_write(path, "x", &[]).await.expect_err(path);
            assert_eq!(refusal.code(), code, "writing {path}");
        }
    }
    assert_eq!(files.try_list("root", "").await.expect_err("out").code(), ErrorCode::OutsideWorkspace);
    assert_eq!(files.archive("up").await.refusal().code(), ErrorCode::OutsideWorkspace);
    assert_eq!(files.copy("file", "root/tmp/copy").await.expect_err("out").code(), ErrorCode::OutsideWorkspace);
    assert_eq!(
        files.rename("file", "root/tmp/moved", false).await.expect_err("out").code(),
        ErrorCode::OutsideWorkspace
    );
    for inside in ["d/in", "own", "/workspace/file"] {
        assert_eq!(files.read(inside).await.success().expect(inside).text(), "inside\n");
    }
    // The links themselves are told of, with where they lead.
    let out = files.stat("out").await;
    let target = out.target.expect("a link's target");
    assert_eq!((out.kind, target.path.as_str(), target.kind), (FileType::Link, "/etc/passwd", None));
    let into = files.stat("d/in").await.target.expect("a link's target");
    assert_eq!((into.path.as_str(), into.kind), ("../file", Some(FileType::File)));
    // Writing through a link inside writes its target.
    files.write("d/in", "through").await;
    assert_eq!(session.sh("cat file && readlink d/in").await, "through../file\n");
    // Deleting a link, or a folder with links in it, never follows them.
    files.delete("root", true).await.expect("a link goes");
    session.sh("mkdir t && ln -s ../d t/d && ln -s /tmp t/tmp && touch /tmp/stays").await;
    files.delete("t", true).await.expect("a folder with links goes");
    assert_eq!(session.sh("ls d /tmp/stays").await, "/tmp/stays\n\nd:\nin\n");
}

/// Case 23, open.
#[tokio::test]
async fn in_an_open_sandbox_any_regular_file_is_read_and_nothing_that_never_ends() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(open()).await;
    session.sh("mkfifo pipe; ln -s /dev/zero zero; ln -s /etc/hostname name; echo mine > mine").await;
    let files = session.files();
    assert_eq!(files.list("", "").await.path, "/root", "it begins at the workspace");
    assert_eq!(files.stat("mine").await.path, "/root/mine");
    assert!(files.read("/etc/passwd").await.success().expect("a regular file").text().starts_with("root:"));
    assert_eq!(files.read("/root/name").await.text(), session.sh("cat /etc/hostname").await);
    assert!(files.read("/proc/self/status").await.success().expect("made up by the kernel").text().contains("Pid:"));
    assert!(files.names("/").await.contains(&"etc".to_owned()));
    for (path, code) in [
        ("/dev/zero", ErrorCode::NotAFile),
        ("zero", ErrorCode::NotAFile),
        ("pipe", ErrorCode::NotAFile),
        ("/etc", ErrorCode::NotAFile),
    ] {
        let begun = Instant::now();
        assert_eq!(files.read(path).await.refusal().code(), code, "{path}");
        assert!(begun.elapsed() < AT_ONCE, "{path}: {:?}", begun.elapsed());
    }
    // The sandbox's own root is what `/` is, never the host's.
    session.sh("echo sandbox > /only-in-here").await;
    assert_eq!(files.read("/only-in-here").await.text(), "sandbox\n");
    assert_eq!(files.delete("/", true).await.expect_err("never").code(), ErrorCode::Conflict);
    assert_eq!(files.delete("", true).await.expect_err("never").code(), ErrorCode::Conflict);
}

/// Swaps a folder and a file of the workspace for links that lead to the canary, and back, as fast as it can.
const SWAPPER: &str = r#"
import os, threading
os.makedirs("/tmp/outside/deep", exist_ok=True)
for name in ("secret", "deep/secret"):
    open("/tmp/outside/" + name, "w").write("CANARY")
os.makedirs("real/deep", exist_ok=True)
for name in ("secret", "deep/secret"):
    open("real/" + name, "w").write("inside")
def quietly(call, *arguments):
    try: call(*arguments)
    except OSError: pass
def swap_folder():
    while True:
        quietly(os.rename, "real", "swap")
        quietly(os.rename, "swap", "real")
        quietly(os.symlink, "/tmp/outside", "swap")
        quietly(os.unlink, "swap")
def swap_file():
    while True:
        quietly(os.symlink, "/tmp/outside/secret", "file.new")
        quietly(os.rename, "file.new", "file")
        quietly(lambda: open("file.new", "w").write("inside"))
        quietly(os.rename, "file.new", "file")
threading.Thread(target=swap_file, daemon=True).start()
print("swapping", flush=True)
swap_folder()
"#;

/// Operations at once.
const WORKERS: usize = 4;

#[tokio::test]
async fn no_race_with_links_and_folders_reads_or_writes_outside_the_workspace() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    session.files().write("swapper.py", SWAPPER).await;
    let swapper = session.run("python3 swapper.py").await;
    swapper.wrote("swapping").await;
    // 10,000 in the long run, as many as a tenth of it otherwise.
    let operations = repeats(10_000);
    let begun = Arc::new(AtomicUsize::new(0));
    let (read, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (files, begun, read, refused) =
            (session.files(), Arc::clone(&begun), Arc::clone(&read), Arc::clone(&refused));
        workers.spawn(async move {
            loop {
                let number = begun.fetch_add(1, Ordering::Relaxed);
                if number >= operations {
                    return;
                }
                let code = match number % 8 {
                    0..=2 => {
                        let path = ["swap/secret", "swap/deep/secret", "file"][number % 8];
                        let answer = files.read(path).await;
                        assert!(!answer.text().contains("CANARY"), "{path}: {answer:?}");
                        if answer.status == 200 {
                            read.fetch_add(1, Ordering::Relaxed);
                            None
                        } else {
                            Some(answer.refusal().code())
                        }
                    }
                    3 => files.try_write("swap/written", "WRITTEN", &[]).await.err().map(|refusal| refusal.code()),
                    4 => files.try_write("file", "inside", &[]).await.err().map(|refusal| refusal.code()),
                    5 => files.delete("swap/deep", true).await.err().map(|refusal| refusal.code()),
                    6 => files.copy("swap", &format!("copy{number}")).await.err().map(|refusal| refusal.code()),
                    _ => {
                        let packed = files.archive("swap").await;
                        // A canary would be too short to be split by the packer: it is looked for after unpacking.
                        if packed.status == 200 {
                            files.try_write(&format!("packed{number}.tar.gz"), packed.body, &[]).await.expect("room");
                            None
                        } else {
                            Some(packed.refusal().code())
                        }
                    }
                };
                if code == Some(ErrorCode::OutsideWorkspace) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                let may = [
                    ErrorCode::OutsideWorkspace,
                    ErrorCode::NotFound,
                    ErrorCode::Conflict,
                    ErrorCode::NotAFile,
                    ErrorCode::NotAFolder,
                    ErrorCode::NotEmpty,
                    ErrorCode::PermissionDenied,
                    ErrorCode::Exists,
                ];
                assert!(code.is_none_or(|code| may.contains(&code)), "operation {number}: {code:?}");
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("no operation found a canary");
    }
    swapper.kill(0.5).await;
    let (read, refused) = (read.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    assert!(read > 0 && refused > 0, "both sides of the race were seen: {read} reads, {refused} refusals");
    // Nothing was written, deleted or changed outside, and nothing from outside came in.
    let outside = session.sh("cd /tmp/outside && find . -type f | sort | xargs grep -H ''").await;
    assert_eq!(outside, "./deep/secret:CANARY\n./secret:CANARY\n");
    let inside = session
        .sh("for f in packed*.tar.gz; do [ -e $f ] && mkdir x-$f && tar xzf $f -C x-$f; done; \
             find . -type f ! -name swapper.py -exec grep -l CANARY {} +; true")
        .await;
    assert_eq!(inside, "", "no canary inside");
}
