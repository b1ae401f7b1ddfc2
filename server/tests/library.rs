//! The library: sandboxes of a program, without a server. Its two examples run here as well.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use glassbox::{Format, Sandbox, SandboxConfig};
use glassbox_tests::process::{binary, glassbox_at};
use glassbox_tests::program::{SANDBOXES, command, one_off_instances, run};
use glassbox_tests::{docker, eventually};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// For a sandbox to be made or removed on a busy machine.
const LIMIT: Duration = Duration::from_mins(2);

fn folder() -> TempDir {
    docker::require();
    tempfile::tempdir().expect("a folder can be made")
}

fn small(folder: &Path) -> SandboxConfig {
    SandboxConfig { memory: Some("512m".to_owned()), folder: Some(folder.to_owned()), ..SandboxConfig::default() }
}

async fn start(folder: &Path) -> Sandbox {
    Sandbox::start(small(folder)).await.expect("a sandbox")
}

/// The instance of the only sandbox there.
fn instance_in(folder: &Path) -> String {
    let mut found = one_off_instances(folder);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn left(folder: &Path, instance: &str) -> (Vec<String>, Vec<String>, usize) {
    let files = std::fs::read_dir(folder).map_or(0, Iterator::count);
    (docker::containers(instance), docker::workspaces(instance), files)
}

fn assert_nothing_left(folder: &Path, instance: &str) {
    assert_eq!(left(folder, instance), (Vec::new(), Vec::new(), 0), "containers, workspaces and files");
}

#[tokio::test]
async fn files_and_processes_stay_from_call_to_call_and_a_stop_removes_all() {
    let folder = folder();
    let sandbox = start(folder.path()).await;
    let instance = instance_in(folder.path());
    assert_eq!(docker::containers(&instance).len(), 1, "it is found by its label");
    let begun = "echo kept > note; export X=1; cd /tmp; sleep 960 > /dev/null 2>&1 & echo $! > /root/pid; echo begun";
    assert_eq!(sandbox.shell_exec(begun, None).await, "exit=0\noutput:\nbegun\n");
    let look = "cat note; pwd; echo ${X:-none}; kill -0 $(cat pid) && echo alive";
    assert_eq!(sandbox.shell_exec(look, None).await, "exit=0\noutput:\nkept\n/root\nnone\nalive\n");
    let wrote = sandbox.dispatch("write_file", &json!({"path": "sub/a.txt", "content": "ä\n"})).await;
    assert!(!wrote.is_error, "{wrote:?}");
    assert_eq!(sandbox.shell_exec("cat sub/a.txt", None).await, "exit=0\noutput:\nä\n");

    sandbox.stop().await.expect("removed");
    assert_nothing_left(folder.path(), &instance);
    let refused = "ERROR: the sandbox is not running: it was stopped or has ended; nothing can be run in it any more";
    assert_eq!(sandbox.shell_exec("true", None).await, refused);
    assert_eq!(sandbox.shell_wait(None).await, refused);
    let answer = sandbox.dispatch("no_such_tool", &json!({})).await;
    assert_eq!((answer.text.as_str(), answer.is_error), (refused, true));
    sandbox.stop().await.expect("it is gone already");
}

#[tokio::test]
async fn a_workspace_elsewhere_is_where_commands_start_and_files_are_and_it_outlives_a_death() {
    let folder = folder();
    let config = SandboxConfig { workspace: Some("/work/its own".to_owned()), ..small(folder.path()) };
    let sandbox = Sandbox::start(config).await.expect("a sandbox");
    assert_eq!(sandbox.shell_exec("pwd; echo $HOME; ls -A", None).await, "exit=0\noutput:\n/work/its own\n/root\n");
    let wrote = sandbox.dispatch("write_file", &json!({"path": "sub/a.txt", "content": "by its name\n"})).await;
    assert!(!wrote.is_error && wrote.text.contains("/work/its"), "{wrote:?}");
    let look = "cat '/work/its own/sub/a.txt'; echo by a command > b.txt";
    assert_eq!(sandbox.shell_exec(look, None).await, "exit=0\noutput:\nby its name\n");
    for path in ["b.txt", "/work/its own/b.txt"] {
        assert_eq!(sandbox.dispatch("read_file", &json!({"path": path})).await.text, "by a command\n");
    }
    let listed = sandbox.dispatch("list_files", &json!({})).await.text;
    assert!(listed.contains("a.txt") && listed.contains("b.txt"), "{listed}");

    let container = docker::containers(&instance_in(folder.path())).remove(0);
    docker::run(&["kill", &container]);
    eventually("it is made again, with its files", LIMIT, async || {
        let text = sandbox.shell_exec("pwd; cat b.txt", None).await;
        text.ends_with("exit=0\noutput:\n/work/its own\nby a command\n").then_some(())
    })
    .await;
    sandbox.stop().await.expect("removed");
}

#[tokio::test]
async fn the_schemas_say_how_long_calls_wait_in_this_sandbox() {
    let folder = folder();
    let config = SandboxConfig { exec_timeout: Duration::from_secs(120), ..small(folder.path()) };
    let sandbox = Sandbox::start(config).await.expect("a sandbox");
    let tools = sandbox.tools(Format::Openai);
    let exec = tools.iter().find(|tool| tool["function"]["name"] == "shell_exec").expect("it is there");
    let said = &exec["function"]["parameters"]["properties"]["timeout"]["description"];
    assert_eq!(said, "Seconds to wait for the command's end before answering; 120 unless given.");
    sandbox.stop().await.expect("removed");
}

#[tokio::test]
async fn a_command_that_takes_longer_goes_on_is_waited_for_and_killed() {
    let folder = folder();
    let config = SandboxConfig { exec_timeout: Duration::from_secs(1), ..small(folder.path()) };
    let sandbox = Sandbox::start(config).await.expect("a sandbox");
    let held = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done";
    let text = sandbox.shell_exec(held, None).await;
    assert!(text.starts_with("still running after ") && text.contains("\noutput so far:\nbegun\n"), "{text}");
    let text = sandbox.shell_exec("true", None).await;
    assert!(text.starts_with("ERROR: a command has been running for "), "{text}");
    let released = sandbox.dispatch("shell_exec", &json!({"command": "touch go", "background": true})).await;
    assert!(released.text.starts_with("started in the background\n"), "{released:?}");
    assert_eq!(sandbox.shell_wait(Some(60.0)).await, "exit=0\noutput:\ndone\n");

    // A call that is given up takes nothing away, and another task may kill what it waits for.
    let begun = sandbox.shell_exec("echo first; sleep 961", Some(60.0));
    let given_up = tokio::time::timeout(Duration::from_secs(2), begun).await;
    assert!(given_up.is_err(), "{given_up:?}");
    let (waited, killed) = tokio::join!(sandbox.shell_wait(Some(60.0)), sandbox.shell_kill());
    let texts = [waited, killed];
    assert!(texts.iter().any(|text| text.starts_with("killed (exit=143)\n[SIGTERM after ")), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.contains("first\n")).count(), 1, "each byte comes once: {texts:?}");
    assert_eq!(sandbox.shell_kill().await, "ERROR: no command is currently running; start one with shell_exec");
    let unknown = sandbox.dispatch("shell", &json!({})).await;
    assert!(unknown.text.starts_with("ERROR: there is no tool \"shell\"; the tools are shell_exec, "), "{unknown:?}");
    sandbox.stop().await.expect("removed");
}

#[test]
fn a_drop_removes_the_sandbox_also_when_the_programs_runtime_is_gone() {
    let folder = folder();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let sandbox = runtime.block_on(start(folder.path()));
    let instance = instance_in(folder.path());
    assert_eq!(docker::containers(&instance).len(), 1);
    runtime.block_on(async { sandbox.shell_exec("sleep 962 & sleep 963", Some(0.0)).await });
    drop(runtime);
    drop(sandbox);
    assert_nothing_left(folder.path(), &instance);
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let folder = folder();
    let path = folder.path();
    for what in ["it has an instance", "the engine has made something"] {
        let look = async || {
            let instance = one_off_instances(path).pop()?;
            (what == "it has an instance" || !docker::containers(&instance).is_empty()).then_some(instance)
        };
        let instance = tokio::select! {
            instance = eventually(what, LIMIT, look) => instance,
            // A busy machine may make it before anybody has looked.
            started = start(path) => {
                let instance = instance_in(path);
                drop(started);
                instance
            }
        };
        assert_nothing_left(path, &instance);
    }
    let refused = SandboxConfig { image: "no-such-image:latest".to_owned(), ..small(path) };
    let refusal = Sandbox::start(refused).await.expect_err("there is no such image").to_string();
    assert!(refusal.contains("no-such-image"), "{refusal}");
    let files = std::fs::read_dir(path).expect("a folder").count();
    assert_eq!(files, 0, "a start that failed leaves nothing either");
}

#[tokio::test]
async fn several_sandboxes_of_one_program_know_nothing_of_each_other() {
    let folder = folder();
    let (one, other) = tokio::join!(start(folder.path()), start(folder.path()));
    assert_eq!(one_off_instances(folder.path()).len(), 2);
    let (first, second) = tokio::join!(one.shell_exec("echo one > who", None), other.shell_exec("ls", None));
    assert_eq!((first.as_str(), second.as_str()), ("exit=0\noutput:\n", "exit=0\noutput:\n"));
    one.stop().await.expect("removed");
    assert_eq!(other.shell_exec("ls; echo still here", None).await, "exit=0\noutput:\nstill here\n");
    other.stop().await.expect("removed");
}

#[tokio::test]
async fn a_sandbox_that_dies_is_made_again_and_the_model_is_told() {
    let folder = folder();
    let sandbox = start(folder.path()).await;
    let container = docker::containers(&instance_in(folder.path())).remove(0);
    assert_eq!(sandbox.shell_exec("echo kept > note; echo lost > /tmp/note", None).await, "exit=0\noutput:\n");
    docker::run(&["kill", &container]);
    // Until its death is noticed, a command may still be sent to it, and nobody can know what became of that.
    let mut told = Vec::new();
    eventually("a command comes to its end", LIMIT, async || {
        told.push(sandbox.shell_exec("cat note; ls /tmp/note", None).await);
        told.last().is_some_and(|text| text.contains("exit=")).then_some(())
    })
    .await;
    let last = told.last().expect("a text");
    assert!(last.ends_with("output:\nkept\nls: cannot access '/tmp/note': No such file or directory\n"), "{last}");
    let notes = told.iter().filter(|text| text.starts_with("[glassbox] the sandbox was started again: ")).count();
    assert_eq!(notes, 1, "it is said once: {told:?}");
    sandbox.stop().await.expect("removed");
}

#[tokio::test]
async fn the_sandbox_of_a_killed_program_goes_at_the_next_start() {
    let home = folder();
    let path = home.path().to_str().expect("a plain path");
    let mut child = command(&["run", "--", "bash", "-c", "echo begun; sleep 964"], &[("XDG_DATA_HOME", path)])
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("in time").expect("text");
    assert_eq!(first.as_deref(), Some("begun"));
    let folder = home.path().join(SANDBOXES);
    let killed = instance_in(&folder);
    child.kill().await.expect("killed");
    assert_eq!(docker::containers(&killed).len(), 1, "nobody is left to remove it");

    let sandbox = start(&folder).await;
    eventually("it is gone, and its folder", LIMIT, async || {
        let instances = one_off_instances(&folder);
        (docker::containers(&killed).is_empty() && docker::workspaces(&killed).is_empty() && instances.len() == 1)
            .then_some(())
    })
    .await;
    assert_eq!(sandbox.shell_exec("echo well", None).await, "exit=0\noutput:\nwell\n");
    let instance = instance_in(&folder);
    sandbox.stop().await.expect("removed");
    assert_nothing_left(&folder, &instance);
}

#[tokio::test]
async fn a_run_removes_what_a_killed_program_with_the_library_left() {
    let home = folder();
    let folder = home.path().join(SANDBOXES);
    let mut child = example("quickstart", home.path()).spawn().expect("it starts");
    // Whatever it is making in that moment.
    let killed = eventually("it has a container", LIMIT, async || {
        one_off_instances(&folder).pop().filter(|instance| !docker::containers(instance).is_empty())
    })
    .await;
    child.kill().await.expect("killed");
    let path = home.path().to_str().expect("a plain path");
    let ran = run(&["run", "--memory", "512m", "--", "echo", "well"], &[("XDG_DATA_HOME", path)]).await;
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), "well\n"), "{ran:?}");
    // Its end waits for that.
    assert_nothing_left(&folder, &killed);
}

/// An example, to be started with a folder of its own.
fn example(name: &str, home: &Path) -> tokio::process::Command {
    let program = binary().with_file_name("examples").join(name);
    assert!(program.is_file(), "the example {} is not there; run scripts/build.sh server.", program.display());
    let mut program = glassbox_at(&program);
    program.env("XDG_DATA_HOME", home).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = tokio::process::Command::from(program);
    program.kill_on_drop(true);
    program
}

/// Runs an example to its end; what it printed.
async fn printed_by(name: &str) -> String {
    let home = folder();
    let output = tokio::time::timeout(LIMIT, example(name, home.path()).output())
        .await
        .expect("it ends in time")
        .expect("it runs");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {printed}{said}", output.status);
    let files = std::fs::read_dir(home.path().join(SANDBOXES)).expect("its folder").count();
    assert_eq!(files, 0, "nothing is left of its sandbox");
    printed.into_owned()
}

#[tokio::test]
async fn the_example_of_the_first_lines_prints_what_they_say() {
    let printed = printed_by("quickstart").await;
    let pieces =
        ["exit=0\noutput:\n\n", "42\n", "42\n/tmp\n", "/root\n", "still running after 1s; ", "begun\n", "done\n"];
    let mut rest = printed.as_str();
    for piece in pieces {
        let at = rest.find(piece).unwrap_or_else(|| panic!("{piece:?} comes in its turn:\n{printed}"));
        rest = &rest[at + piece.len()..];
    }
}

#[tokio::test]
async fn the_example_of_a_loop_answers_its_question_with_every_kind_of_answer() {
    let printed = printed_by("tool_loop").await;
    for piece in [
        "reads: wrote ",
        "reads: ERROR: there is no tool \"run\"; ",
        "reads: still running after 1s; ",
        "reads: exit=0",
        "model: They are 2, 3, 5, 7, 11, 13, 17, 19, 23, 29.",
    ] {
        assert!(printed.contains(piece), "{piece:?}:\n{printed}");
    }
}
