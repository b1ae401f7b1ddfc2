//! What was measured on.

use std::path::Path;
use std::process::Command;

/// The first line that a program prints; a dash when it cannot be asked.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().filter(|line| !line.is_empty()).unwrap_or("-").to_owned()
}

/// What stands after `name` in a file of the kernel's.
fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("-");
    value.trim_start_matches([':', ' ', '\t', '=']).trim_matches('"').to_owned()
}

/// How busy it is.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Prints machine and versions.
pub fn print(binary: &Path) {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "machine   {cpus} CPUs ({}), memory {}, load {}",
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
        load()
    );
    println!("system    {}, kernel {}", field("/etc/os-release", "PRETTY_NAME="), first_line("uname", &["-r"]));
    println!(
        "engine    Docker {}, {}",
        first_line("docker", &["version", "--format", "{{.Server.Version}}"]),
        first_line("runsc", &["--version"])
    );
    println!(
        "glassbox  {} ({})",
        first_line(&binary.to_string_lossy(), &["--version"]),
        first_line("git", &["log", "-1", "--format=%h %s"])
    );
}
