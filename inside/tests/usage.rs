//! The command line.

use std::process::{Command, Output};

fn helper(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassbox-inside")).args(arguments).output().expect("it was built")
}

#[test]
fn it_tells_its_version() {
    let output = helper(&["--version"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), concat!("glassbox-inside ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn anything_else_is_refused_without_a_word_on_stdout() {
    for arguments in [&[][..], &["run"], &["run", "x"], &["sweep", "../x"], &["jump", "cmd_aaaaaaaaaaaaaaaaaaaa"]] {
        let output = helper(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}
