//! `glassbox run`: one command in a sandbox of its own, byte for byte, and nothing left.

use std::path::Path;
use std::time::{Duration, Instant};

use glassbox_tests::program::{SANDBOXES, command, one_off_instances, run};
use glassbox_tests::{docker, eventually, process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Child;

/// For a sandbox to be made or removed on a busy machine.
const LIMIT: Duration = Duration::from_mins(2);

/// A folder for its data, so that its instance can be found.
fn temporary() -> (TempDir, String) {
    docker::require();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().to_str().expect("a plain path").to_owned();
    (folder, path)
}

/// Its instance, once it has one.
async fn instance_in(folder: &Path) -> String {
    eventually("it has an instance", LIMIT, async || one_off_instances(&folder.join(SANDBOXES)).pop()).await
}

/// Waits for the word with which the commands here begin.
async fn wrote_begun(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("it begins in time").expect("text");
    if first.as_deref() != Some("begun") {
        let mut said = String::new();
        let _ = child.kill().await;
        child.stderr.take().expect("a pipe").read_to_string(&mut said).await.expect("text");
        panic!("it should have begun, not written {first:?}: {said}");
    }
    // The pipe stays open for what comes.
    child.stdout = Some(lines.into_inner().into_inner());
}

fn assert_nothing_left(folder: &Path, instance: &str) {
    let left = (docker::containers(instance), docker::workspaces(instance));
    assert_eq!(left, (Vec::new(), Vec::new()), "its sandbox is removed");
    let folder = folder.join(SANDBOXES);
    let files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(files.is_empty(), "its data is removed: {files:?}");
}

#[tokio::test]
async fn output_streams_line_by_line_and_the_exit_code_is_the_commands() {
    let (folder, path) = temporary();
    let script = "for i in 1 2 3; do echo $i; sleep 1; done; exit 7";
    let mut child =
        command(&["run", "--", "bash", "-c", script], &[("XDG_DATA_HOME", &path)]).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut came = Vec::new();
    let reading = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            came.push((line, Instant::now()));
        }
    };
    let ((), instance) = tokio::join!(reading, instance_in(folder.path()));
    let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("it ends").expect("it is waited for");
    assert_eq!(status.code(), Some(7));
    let texts: Vec<&str> = came.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(texts, ["1", "2", "3"]);
    // They were written a second apart. Whoever holds output back until the end shows them all at once.
    let spread = came[2].1 - came[0].1;
    assert!(spread > Duration::from_secs(1), "each came when it was written, not all at the end: {spread:?}");
    assert_nothing_left(folder.path(), &instance);
}

#[tokio::test]
async fn its_kernel_is_gvisor_and_arguments_and_bytes_arrive_as_they_are() {
    docker::require();
    let dmesg = run(&["run", "--", "dmesg"], &[]).await;
    assert_eq!(dmesg.code, Some(0), "{dmesg:?}");
    assert!(dmesg.text().contains("gVisor"), "{dmesg:?}");

    let odd = "it's \"$HOME\"\n`id` \\ *";
    let echoed = run(&["run", "--profile", "hardened", "--", "printf", "%s", odd], &[]).await;
    assert_eq!((echoed.code, echoed.text().as_str()), (Some(0), odd), "{echoed:?}");

    let bytes = run(&["run", "--", "bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' '\\377'"], &[]).await;
    assert_eq!(bytes.stdout.len(), 3_000_000);
    assert!(bytes.stdout.iter().all(|byte| *byte == 0xff));

    let missing = run(&["run", "--", "no-such-program"], &[]).await;
    assert_eq!(missing.code, Some(127), "bash's own 127: {missing:?}");
}

#[tokio::test]
async fn ctrl_c_kills_the_command_and_removes_the_sandbox() {
    let (folder, path) = temporary();
    let script = "trap 'echo told; exit 3' TERM; echo begun; sleep 950 & wait";
    let mut child =
        command(&["run", "--", "bash", "-c", script], &[("XDG_DATA_HOME", &path)]).spawn().expect("it starts");
    wrote_begun(&mut child).await;
    let instance = instance_in(folder.path()).await;
    assert_eq!(docker::containers(&instance).len(), 1);
    process::signal(child.id().expect("it runs"), "INT");
    let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("it ends").expect("it is waited for");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).await.expect("text");
    assert!(status.code().is_some_and(|code| code != 0), "a killed command is no success: {status:?} {said}");
    assert_nothing_left(folder.path(), &instance);
}

#[tokio::test]
async fn a_terminal_that_goes_away_or_a_stop_from_outside_leaves_no_sandbox() {
    let (folder, path) = temporary();
    let mut child = command(&["run", "--", "bash", "-c", "echo begun; sleep 951"], &[("XDG_DATA_HOME", &path)])
        .spawn()
        .expect("it starts");
    wrote_begun(&mut child).await;
    let instance = instance_in(folder.path()).await;
    process::signal(child.id().expect("it runs"), "TERM");
    tokio::time::timeout(LIMIT, child.wait()).await.expect("it ends").expect("it is waited for");
    let left = (docker::containers(&instance), docker::workspaces(&instance));
    docker::remove_all(&instance);
    assert_eq!(left, (Vec::new(), Vec::new()), "its sandbox is removed");
}

#[tokio::test]
async fn wrong_arguments_are_told_before_anything_starts() {
    for (arguments, says) in [
        (vec!["run"], "COMMAND"),
        (vec!["run", "--profile", "wide", "--", "true"], "open or hardened"),
        (vec!["run", "--memory", "much", "--", "true"], "memory"),
        (vec!["run", "--image", "no-such-image:latest", "--", "true"], "no-such-image"),
        (vec!["fly"], "fly"),
    ] {
        let ran = run(&arguments, &[]).await;
        assert!(ran.refusal().contains(says), "{arguments:?}: {ran:?}");
    }
}
