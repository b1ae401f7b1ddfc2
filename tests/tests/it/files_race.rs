//! Files: links and folders that are swapped while file operations run.

use std::sync::atomic::{AtomicUsize, Ordering};

use glassbox_shared::error::ErrorCode;
use glassbox_tests::files::Files;
use glassbox_tests::{Session, TestServer, hardened, open, repeats};

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

/// Swaps what lies in a folder. In an open sandbox links lead wherever they lead in the sandbox when a path goes through
/// them, but whoever copies, packs or deletes a folder never goes through one in it, in no profile.
const TREE_SWAPPER: &str = r#"
import os, threading
os.makedirs("/tmp/outside/deep", exist_ok=True)
for name in ("secret", "deep/secret"):
    open("/tmp/outside/" + name, "w").write("CANARY")
def quietly(call, *arguments):
    try: call(*arguments)
    except OSError: pass
def make(name):
    os.makedirs(name + "/deep", exist_ok=True)
    for file in ("secret", "deep/secret"):
        open(name + "/" + file, "w").write("inside")
def swap_folder():
    while True:
        quietly(make, "tree/sub")
        quietly(os.rename, "tree/sub", "aside")
        quietly(os.symlink, "/tmp/outside", "tree/sub")
        quietly(os.unlink, "tree/sub")
        quietly(os.rename, "aside", "tree/sub")
def swap_file():
    while True:
        quietly(os.symlink, "/tmp/outside/secret", "file.new")
        quietly(os.rename, "file.new", "tree/file")
        quietly(lambda: open("file.new", "w").write("inside"))
        quietly(os.rename, "file.new", "tree/file")
os.makedirs("tree", exist_ok=True)
threading.Thread(target=swap_file, daemon=True).start()
print("swapping", flush=True)
swap_folder()
"#;

/// Operations at once.
const WORKERS: usize = 4;
/// Operations; a tenth in CI.
const OPERATIONS: usize = 10_000;
/// How an operation may be refused that meets something which is just being swapped; or, among thousands on a machine that is
/// at its limits, an engine that misses a question.
const MAY: [ErrorCode; 9] = [
    ErrorCode::EngineUnavailable,
    ErrorCode::OutsideWorkspace,
    ErrorCode::NotFound,
    ErrorCode::Conflict,
    ErrorCode::NotAFile,
    ErrorCode::NotAFolder,
    ErrorCode::NotEmpty,
    ErrorCode::PermissionDenied,
    ErrorCode::Exists,
];

/// What came of an operation that reads: content, or why not.
type Read = Result<Vec<u8>, ErrorCode>;

async fn read(files: &Files, path: &str) -> Read {
    let answer = files.read(path).await;
    if answer.status == 200 { Ok(answer.body) } else { Err(answer.refusal().code()) }
}

/// Packs a folder, and puts what came of it where it is looked at in the end: the packer may split what is sought.
async fn pack(files: &Files, path: &str, number: usize) -> Result<(), ErrorCode> {
    let packed = files.archive(path).await;
    if packed.status != 200 {
        return Err(packed.refusal().code());
    }
    files.try_write(&format!("packed{number}.tar.gz"), packed.body, &[]).await.map(drop).map_err(|error| error.code())
}

/// Runs operations, some at once, beside the swapper; how many did something, and how many led outside.
async fn race(
    session: &Session,
    swapper: &str,
    operation: impl AsyncFn(&Files, usize) -> Result<(), ErrorCode> + Send + Sync,
) -> (usize, usize) {
    session.files().write("swapper.py", swapper).await;
    let swapper = session.run("python3 swapper.py").await;
    swapper.wrote("swapping").await;
    let begun = AtomicUsize::new(0);
    let (done, outside) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = async || {
        let files = session.files();
        loop {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if number >= repeats(OPERATIONS) {
                return;
            }
            match operation(&files, number).await {
                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                Err(ErrorCode::OutsideWorkspace) => outside.fetch_add(1, Ordering::Relaxed),
                Err(code) if MAY.contains(&code) => 0,
                Err(code) => panic!("operation {number}: {code:?}"),
            };
        }
    };
    futures_util::future::join_all((0..WORKERS).map(|_| work())).await;
    swapper.kill(0.5).await;
    (done.into_inner(), outside.into_inner())
}

/// Prints what below the folder holds a byte of the canary, what was packed included. Links are not followed.
const SEEKER: &str = r#"
import os, stat, tarfile
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        if name in ("swapper.py", "seeker.py") or not stat.S_ISREG(os.lstat(path).st_mode):
            continue
        if name.startswith("packed"):
            with tarfile.open(path) as packed:
                held = any(b"CANARY" in packed.extractfile(one).read() for one in packed if one.isreg())
        else:
            with open(path, "rb") as file:
                held = b"CANARY" in file.read()
        if held:
            print(path)
"#;

/// Files below the session's folder that hold a byte of the canary.
async fn with_canary(session: &Session) -> String {
    session.files().write("seeker.py", SEEKER).await;
    session.sh("python3 seeker.py").await
}

#[tokio::test]
async fn no_race_with_links_and_folders_reads_or_writes_outside_the_workspace() {
    let (_server, agent) = TestServer::with_agent().await;
    let session = agent.create_session(hardened()).await;
    let were_read = AtomicUsize::new(0);
    let (_, refused) = race(&session, SWAPPER, async |files, number| match number % 8 {
        0..=2 => {
            let path = ["swap/secret", "swap/deep/secret", "file"][number % 8];
            let content = read(files, path).await?;
            assert!(!String::from_utf8_lossy(&content).contains("CANARY"), "{path}: {content:?}");
            were_read.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        3 => files.try_write("swap/written", "WRITTEN", &[]).await.map(drop).map_err(|error| error.code()),
        4 => files.try_write("file", "inside", &[]).await.map(drop).map_err(|error| error.code()),
        5 => files.delete("swap/deep", true).await.map(drop).map_err(|error| error.code()),
        6 => files.copy("swap", &format!("copy{number}")).await.map(drop).map_err(|error| error.code()),
        _ => pack(files, "swap", number).await,
    })
    .await;
    let were_read = were_read.into_inner();
    assert!(were_read > 0 && refused > 0, "both sides of the race were seen: {were_read} reads, {refused} refusals");
    // Nothing was written, deleted or changed outside, and nothing from outside came in.
    let outside = session.sh("cd /tmp/outside && find . -type f | sort | xargs grep -H ''").await;
    assert_eq!(outside, "./deep/secret:CANARY\n./secret:CANARY\n");
    assert_eq!(with_canary(&session).await, "", "no canary inside");
}

#[tokio::test]
async fn no_race_leads_whoever_copies_packs_or_deletes_a_folder_through_a_link_in_it() {
    let (_server, agent) = TestServer::with_agent().await;
    for (profile, request) in [("open", open()), ("hardened", hardened())] {
        let session = agent.create_session(request).await;
        let (inside, canary) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (done, refused) = race(&session, TREE_SWAPPER, async |files, number| match number % 6 {
            0 | 1 => {
                match read(files, "tree/file").await?.as_slice() {
                    b"inside" => inside.fetch_add(1, Ordering::Relaxed),
                    b"CANARY" => canary.fetch_add(1, Ordering::Relaxed),
                    b"" => 0, // just being written
                    other => panic!("neither: {}", String::from_utf8_lossy(other)),
                };
                Ok(())
            }
            2 => files.delete("tree/sub", true).await.map(drop).map_err(|error| error.code()),
            3 => files.copy("tree", &format!("copy{number}")).await.map(drop).map_err(|error| error.code()),
            _ => pack(files, "tree", number).await,
        })
        .await;
        let (inside, canary) = (inside.into_inner(), canary.into_inner());
        println!(
            "{profile}: {done} done, {refused} refused; of the file {inside} read inside, {canary} through a link"
        );
        assert!(inside > 0, "{profile}: one side of the race was seen");
        // The other: an open sandbox has no outside, and a path that is asked for goes through links.
        assert_eq!((canary > 0, refused > 0), (profile == "open", profile == "hardened"), "{profile}");
        let outside = session.sh("cd /tmp/outside && find . -type f | sort | xargs grep -H ''").await;
        assert_eq!(
            outside, "./deep/secret:CANARY\n./secret:CANARY\n",
            "{profile}: nothing was deleted or written there"
        );
        assert_eq!(with_canary(&session).await, "", "{profile}: nothing of it was copied or packed");
        session.delete().await.success().expect("ended");
    }
}
