//! The `glassbox` binary: arguments, tracing, exit code; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassbox::cli::main()
}
