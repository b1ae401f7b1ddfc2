//! A Docker engine of a test's own, with its own folders and socket, to be stopped, frozen and killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{docker, eventually, process, wait};

/// A second engine needs some seconds to start, more on a busy machine; to stop, it ends its containers first.
const LIMIT: Duration = Duration::from_mins(2);

/// Whether the engine has the runtime `runsc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gvisor {
    /// Registered, as set-up does it.
    Registered,
    /// Nothing but what the engine brings itself.
    Missing,
}

/// The engine. Stopped when it is dropped; servers that use it go first.
#[derive(Debug)]
pub struct Engine {
    folder: TempDir,
    daemon: Child,
}

/// What the small image needs to have: a shell, and what filling the helper's volume and the tests call.
const PROGRAMS: &str = "bash sh cat chmod cut dmesg grep ls mv rm seq sha256sum sleep touch";

/// Makes the image's files in `$1`: programs of this machine with their libraries. A copy of the real image would take
/// half a minute and more than half a gigabyte for each engine.
const MAKE_ROOT: &str = r#"
set -e
mkdir -p "$1"/usr/bin "$1"/usr/lib "$1"/usr/lib64 "$1"/tmp "$1"/root "$1"/workspace "$1"/etc
for folder in bin lib lib64; do ln -s usr/$folder "$1"/$folder; done
shift_root="$1"; shift
for name in "$@"; do
  program=$(readlink -f "$(command -v "$name")")
  cp "$program" "$shift_root/usr/bin/$name"
  ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    case "$library" in /usr/*) target="$shift_root$library" ;; *) target="$shift_root/usr$library" ;; esac
    mkdir -p "$(dirname "$target")"; cp -L "$library" "$target"
  done
done
chmod 1777 "$shift_root"/tmp; chown 1000:1000 "$shift_root"/workspace
"#;

impl Engine {
    /// Starts one. With gVisor it also has the image `sandbox-base:latest`, a small one.
    pub async fn start(gvisor: Gvisor) -> Self {
        docker::require();
        let folder = tempfile::tempdir().expect("a folder");
        let configuration = match gvisor {
            Gvisor::Missing => "{}",
            Gvisor::Registered => r#"{"runtimes": {"runsc": {"path": "runsc", "runtimeArgs": ["--network=none"]}}}"#,
        };
        std::fs::write(folder.path().join("daemon.json"), configuration).expect("its configuration");
        let daemon = launch(folder.path());
        let mut engine = Self { folder, daemon };
        engine.answers().await;
        if gvisor == Gvisor::Registered {
            engine.import_image();
        }
        engine
    }

    fn import_image(&self) {
        let root = self.folder.path().join("root");
        let root = root.to_str().expect("a plain path");
        let mut make = Command::new("bash");
        make.args(["-c", MAKE_ROOT, "make", root]).args(PROGRAMS.split(' '));
        assert!(make.status().expect("bash runs").success(), "the image's files could not be made");
        let tar = self.folder.path().join("image.tar");
        let tar = tar.to_str().expect("a plain path");
        let packed = Command::new("tar").args(["-C", root, "-cf", tar, "."]).status().expect("tar runs");
        assert!(packed.success(), "the image could not be packed");
        docker::run(&["--host", &self.host(), "import", tar, "sandbox-base:latest"]);
    }

    async fn answers(&mut self) {
        eventually("the engine answers", LIMIT, async || {
            let ended = self.daemon.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "dockerd ended with {ended:?}: {}", self.log());
            docker::try_run(&["--host", &self.host(), "version"]).ok()
        })
        .await;
    }

    /// As `DOCKER_HOST` names it.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("docker.sock").display())
    }

    /// Runs a `docker` command on it.
    pub fn docker(&self, arguments: &[&str]) -> String {
        docker::run(&[&["--host", &self.host()], arguments].concat())
    }

    /// It accepts connections and does nothing any more.
    pub fn freeze(&self) {
        process::signal(self.daemon.id(), "STOP");
    }

    /// It goes on.
    pub fn thaw(&self) {
        process::signal(self.daemon.id(), "CONT");
    }

    /// Stops it in order: it ends its containers.
    pub fn stop(&mut self) {
        process::signal(self.daemon.id(), "TERM");
        self.wait();
    }

    /// Kills it: its containers go on without it.
    pub fn kill(&mut self) {
        process::signal(self.daemon.id(), "KILL");
        self.wait();
    }

    /// Starts it again on the same folders, and waits until it answers.
    pub async fn start_again(&mut self) {
        // What a killed one leaves makes the next one wait for a containerd that is gone; set-up removes the same.
        let remains = self.folder.path().join("exec/containerd");
        for name in ["containerd.pid", "containerd.sock", "containerd.sock.ttrpc", "containerd-debug.sock"] {
            let _ = std::fs::remove_file(remains.join(name));
        }
        self.daemon = launch(self.folder.path());
        self.answers().await;
    }

    fn wait(&mut self) {
        let ended = wait::eventually_blocking(LIMIT, || self.daemon.try_wait().ok().flatten());
        assert!(ended.is_some(), "dockerd does not end: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn launch(folder: &Path) -> Child {
    let at = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let log = std::fs::OpenOptions::new().create(true).append(true).open(at("log")).expect("a log");
    Command::new("dockerd")
        .args(["--config-file", &at("daemon.json"), "--data-root", &at("data"), "--exec-root", &at("exec")])
        .args(["--pidfile", &at("pid"), "--host", &format!("unix://{}", at("docker.sock"))])
        .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("dockerd can be started")
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.daemon.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // A frozen one would not hear it.
        self.thaw();
        process::signal(self.daemon.id(), "TERM");
        if wait::eventually_blocking(LIMIT, || self.daemon.try_wait().ok().flatten()).is_none() {
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
    }
}
