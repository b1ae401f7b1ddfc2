//! A server of one's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use glassbox_shared::actor::Role;
use glassbox_shared::session::SessionList;
use reqwest::Method;
use tempfile::TempDir;

use crate::answer::Answer;
use crate::client::Client;
use crate::process::{ServerProcess, glassbox, glassbox_at};
use crate::small_disk::SmallDisk;
use crate::viewer::Viewer;
use crate::{docker, random_name};

/// What the folders of test servers begin with; then the process id of the test.
const PREFIX: &str = "glassbox-test-";

/// How a server is to be started.
#[derive(Debug)]
pub struct Setup {
    environment: BTreeMap<String, String>,
    absent: Vec<String>,
    binary: Option<PathBuf>,
    small_disk: Option<u32>,
}

impl Setup {
    /// One more variable, or another value for one.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.insert(name.to_owned(), value.to_string());
        self
    }

    /// A variable that shall not be set at all, although tests set it otherwise.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self.absent.push(name.to_owned());
        self
    }

    /// Its data on a disk of its own with so many megabytes.
    #[must_use]
    pub fn small_disk(mut self, megabytes: u32) -> Self {
        self.small_disk = Some(megabytes);
        self
    }

    /// Another build of the program.
    #[must_use]
    pub fn binary(mut self, path: &Path) -> Self {
        self.binary = Some(path.to_owned());
        self
    }

    /// Starts it.
    pub async fn start(self) -> TestServer {
        docker::require();
        remove_remains_of_dead_tests();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir()
            .expect("a folder can be made");
        let operators =
            ["acme", "other"].map(|tenant| (tenant, format!("{tenant}-operator-{}{}", random_name(), random_name())));
        let keys: Vec<String> = operators.iter().map(|(tenant, key)| format!("{tenant}:{key}")).collect();
        let mut setup = self.default_env("GLASSBOX_API_KEYS", keys.join(","));
        setup = setup.default_env("GLASSBOX_LISTEN", "127.0.0.1:0");
        let disk = setup.small_disk.map(|megabytes| SmallDisk::mount(&folder.path().join("data"), megabytes));
        let mut server =
            TestServer { disk, folder, setup, operators: operators.map(|(_, key)| key).to_vec(), process: None };
        server.launch().await;
        server
    }

    fn default_env(self, name: &str, value: impl ToString) -> Self {
        if self.environment.contains_key(name) || self.absent.iter().any(|absent| absent == name) {
            self
        } else {
            self.env(name, value)
        }
    }
}

/// A real server with its own data, keys, port and labels. When it is dropped its sessions are ended, it is stopped, and
/// nothing of it may be left in the engine.
#[derive(Debug)]
pub struct TestServer {
    /// Unmounted before its folder is removed.
    disk: Option<SmallDisk>,
    folder: TempDir,
    setup: Setup,
    operators: Vec<String>,
    process: Option<ServerProcess>,
}

impl TestServer {
    /// With more room than a test needs, so that only tests of limits meet one.
    pub fn configure() -> Setup {
        Setup { environment: BTreeMap::new(), absent: Vec::new(), binary: None, small_disk: None }
            .env("GLASSBOX_REQUESTS_PER_MINUTE", 1_000_000)
            .env("RUST_LOG", "glassbox=debug,info")
            .env("NO_COLOR", 1)
    }

    /// Starts one.
    pub async fn start() -> Self {
        Self::configure().start().await
    }

    /// Starts one, and an agent's client of tenant `acme`.
    pub async fn with_agent() -> (Self, Client) {
        let server = Self::start().await;
        let agent = server.agent().await;
        (server, agent)
    }

    /// `glassbox serve` as it is started.
    pub fn serve_command(&self) -> Command {
        let mut command = self.setup.binary.as_deref().map_or_else(glassbox, glassbox_at);
        command.arg("serve").envs(&self.setup.environment).env("GLASSBOX_DATA_DIR", self.data_dir());
        command
    }

    async fn launch(&mut self) {
        match ServerProcess::start(self.serve_command(), self.folder.path()).await {
            Ok(process) => self.process = Some(process),
            Err(problem) => panic!("{problem}"),
        }
    }

    /// Ends the process without a word.
    pub fn kill_hard(&mut self) {
        self.process_mut().kill_hard();
        self.process = None;
    }

    /// Stops it as an operator would.
    pub fn stop(&mut self) {
        let ended = self.process_mut().stop();
        let log = self.process().shown_log();
        self.process = None;
        assert!(ended.is_some_and(|status| status.success()), "the server did not stop in order: {ended:?}\n{log}");
    }

    /// One more variable, or another value for one, from the next start on.
    pub fn set_env(&mut self, name: &str, value: impl ToString) {
        self.setup.environment.insert(name.to_owned(), value.to_string());
    }

    /// Starts it again on the same data and, where it had been started, the same port.
    pub async fn restart(&mut self, address: &str) {
        assert!(self.process.is_none(), "it still runs");
        let listen = address.trim_start_matches("http://").to_owned();
        self.setup.environment.insert("GLASSBOX_LISTEN".to_owned(), listen);
        self.launch().await;
    }

    /// The process.
    pub fn process(&self) -> &ServerProcess {
        self.process.as_ref().expect("the server runs")
    }

    /// The process, to be ended.
    pub fn process_mut(&mut self) -> &mut ServerProcess {
        self.process.as_mut().expect("the server runs")
    }

    /// `http://127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.process().address().to_owned()
    }

    /// The disk of its own that it was given.
    pub fn disk(&self) -> &SmallDisk {
        self.disk.as_ref().expect("it was set up with a small disk")
    }

    /// Its folder of data.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The value of its label.
    pub fn instance(&self) -> String {
        instance_in(self.folder.path()).expect("a server that started has an instance")
    }

    /// The operator of tenant `acme`, a human by role.
    pub fn operator(&self) -> Client {
        Client::new(&self.address(), Some(&self.operators[0]))
    }

    /// The operator of tenant `other`.
    pub fn other_operator(&self) -> Client {
        Client::new(&self.address(), Some(&self.operators[1]))
    }

    /// A new agent of tenant `acme`.
    pub async fn agent(&self) -> Client {
        self.operator().with_role(Role::Agent).await
    }

    /// A new viewer of tenant `acme`.
    pub async fn viewer_key(&self) -> Client {
        self.operator().with_role(Role::Viewer).await
    }

    /// A live socket of the operator of `acme`.
    pub async fn viewer(&self) -> Viewer {
        self.operator().viewer().await
    }

    /// Ends every session, by a thread of its own as this may be called anywhere.
    fn end_sessions(&self) -> Result<(), String> {
        let clients = [self.operator(), self.other_operator()];
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            runtime.block_on(async {
                for client in clients {
                    end_sessions_of(&client).await?;
                }
                Ok(())
            })
        });
        ended.join().unwrap_or_else(|_| Err("ending the sessions failed".to_owned()))
    }
}

async fn end_sessions_of(client: &Client) -> Result<(), String> {
    // Made anew: connections belong to the runtime of the test.
    let client = Client::new(client.base(), client.key());
    let listed = patiently(&client, Method::GET, "/v1/sessions").await?;
    // A server without these keys has no sessions of theirs.
    if listed.status == 401 {
        return Ok(());
    }
    let list: SessionList = listed.ok().map_err(|refusal| refusal.to_string())?;
    for session in list.sessions {
        let answer = patiently(&client, Method::DELETE, &format!("/v1/sessions/{}", session.session_id)).await?;
        // One that ended by itself meanwhile is gone as well.
        if answer.status != 404 {
            answer.success().map_err(|refusal| refusal.to_string())?;
        }
    }
    Ok(())
}

/// Asks again where a test of rates has used them up.
async fn patiently(client: &Client, method: Method, path: &str) -> Result<Answer, String> {
    loop {
        let answer =
            client.try_send(client.request(method.clone(), path)).await.map_err(|error| format!("{error:?}"))?;
        if answer.status != 429 {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_secs(answer.header("retry-after").parse().unwrap_or(1))).await;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let failed_before = std::thread::panicking();
        let mut problems = Vec::new();
        let mut log = String::new();
        let is_alive = self.process.as_mut().is_some_and(ServerProcess::is_alive);
        if !is_alive && self.process.is_some() {
            problems.push("the server had ended by itself".to_owned());
        }
        if is_alive && let Err(problem) = self.end_sessions() {
            problems.push(format!("a session could not be ended: {problem}"));
        }
        if let Some(process) = &mut self.process {
            if is_alive && process.stop().is_none() {
                problems.push("the server did not stop in time".to_owned());
            }
            log = process.shown_log();
        }
        if let Some(instance) = instance_in(self.folder.path()) {
            let left = docker::remove_all(&instance);
            // A test that ends with the server killed leaves its sandboxes to this place.
            if is_alive && !left.is_empty() {
                problems.push(format!("left behind after every session had ended: {left:?}"));
            }
        }
        if failed_before || !problems.is_empty() {
            eprintln!("{log}");
        }
        if !problems.is_empty() {
            let problems = problems.join("; ");
            assert!(failed_before, "{problems}");
            eprintln!("also: {problems}");
        }
    }
}

fn instance_in(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("data/instance")).ok()?;
    Some(text.trim().to_owned()).filter(|instance| !instance.is_empty())
}

/// A test that was killed could not tidy up; whoever comes next does it, so that its sandboxes do not use up the memory.
fn remove_remains_of_dead_tests() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((pid, _)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { continue };
        if pid.bytes().all(|byte| byte.is_ascii_digit()) && !Path::new("/proc").join(pid).exists() {
            if let Some(instance) = instance_in(&folder) {
                docker::remove_all(&instance);
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}
