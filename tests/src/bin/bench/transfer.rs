//! (d) A large file up and down, against `docker exec … cat`; (e) a large folder.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glassbox_tests::{Session, docker};

/// The file's size: 100 MB.
pub const BYTES: usize = 100_000_000;
/// Of each kind, alternating.
pub const ROUNDS: usize = 5;
/// Entries of the large folder.
pub const ENTRIES: usize = 65_000;

/// Median times.
#[derive(Debug, Default)]
pub struct Times {
    /// `PUT …/fs/content`.
    pub up: Vec<Duration>,
    /// `GET …/fs/content`.
    pub down: Vec<Duration>,
    /// `docker exec -i … cat > file`.
    pub exec_up: Vec<Duration>,
    /// `docker exec … cat file`.
    pub exec_down: Vec<Duration>,
}

/// Measures both ways, alternating.
pub async fn measure(session: &Session) -> Times {
    // No two blocks are the same, and none is only zeros.
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u8).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("content");
    std::fs::write(&file, &content).expect("written");
    let container = docker::container_of(session.id().as_str());
    let files = session.files();
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let body = content.clone();
        let begun = Instant::now();
        let entry = files.write("/root/up", body).await;
        times.up.push(begun.elapsed());
        assert_eq!(entry.size, BYTES as u64);

        let (container_name, input) = (container.clone(), std::fs::File::open(&file).expect("the file"));
        let exec = move || {
            let begun = Instant::now();
            let status = Command::new("docker")
                .args(["exec", "-i", &container_name, "sh", "-c", "cat > /root/exec-up && sync /root/exec-up"])
                .stdin(input)
                .status()
                .expect("docker can be run");
            assert!(status.success(), "docker exec: {status}");
            begun.elapsed()
        };
        times.exec_up.push(tokio::task::spawn_blocking(exec).await.expect("it does not panic"));

        let begun = Instant::now();
        let answer = files.read("/root/up").await.success().expect("content");
        times.down.push(begun.elapsed());
        assert!(answer.body == content, "the very bytes");

        let container_name = container.clone();
        let exec = move || {
            let begun = Instant::now();
            let output = Command::new("docker")
                .args(["exec", &container_name, "cat", "/root/exec-up"])
                .stdin(Stdio::null())
                .output()
                .expect("docker can be run");
            let took = begun.elapsed();
            assert_eq!(output.stdout.len(), BYTES);
            took
        };
        times.exec_down.push(tokio::task::spawn_blocking(exec).await.expect("it does not panic"));
    }
    times
}

/// Until the first page of the large folder is there.
pub async fn list(session: &Session) -> Duration {
    session.sh(&format!("mkdir many && cd many && seq -f 'entry-%.0f' 1 {ENTRIES} | xargs touch")).await;
    let begun = Instant::now();
    let page = session.files().list("/root/many", "&sort=name").await;
    let took = begun.elapsed();
    assert_eq!(page.total, ENTRIES as u64);
    took
}
