//! A sandbox in three lines, and what persists in it. In a checkout that `make build` has been through:
//!
//! ```sh
//! cargo run -p glassbox --example quickstart
//! ```

use glassbox::{Sandbox, SandboxConfig};

#[tokio::main]
async fn main() -> Result<(), glassbox::SandboxError> {
    let sandbox = Sandbox::start(SandboxConfig::default()).await?;
    println!("{}", sandbox.shell_exec("python3 -m venv venv", None).await);

    // Each command is a shell of its own; files and what runs in the background stay.
    println!("{}", sandbox.shell_exec("venv/bin/python -c 'print(6 * 7)' | tee answer", None).await);
    println!("{}", sandbox.shell_exec("cat answer; cd /tmp && pwd", None).await);
    println!("{}", sandbox.shell_exec("pwd", None).await);

    // A command that takes longer than it is waited for goes on.
    println!("{}", sandbox.shell_exec("echo begun; sleep 2; echo done", Some(1.0)).await);
    println!("{}", sandbox.shell_wait(None).await);

    sandbox.stop().await
}
