//! `glassbox doctor`: can this machine serve, and what is to be done where it cannot?

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures_util::StreamExt as _;
use glassbox_shared::session::Profile;

use crate::http::tls::Tls;
use crate::ids;
use crate::runtime::{ExecSpec, Runtime, SandboxSpec, spec};
use crate::server::config::{DEFAULT_IMAGE, DataDirArg};
use crate::server::{self};

/// Less free space than this and serving would soon fail: two full output logs and a workspace.
const MIN_FREE: u64 = 1 << 30;
/// Longest text of a probe that is read.
const MAX_PROBE: usize = 64 * 1024;
/// The probe prints a few lines.
const PROBE_DEADLINE: Duration = Duration::from_secs(30);

/// Look whether this machine can serve.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// The image that would be used [default: the one in the file of settings, else `sandbox-base:latest`]
    #[arg(long, env = "GLASSBOX_IMAGE")]
    image: Option<String>,
    /// The certificate that would be used.
    #[arg(long, env = "GLASSBOX_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, env = "GLASSBOX_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// Prints a line for each finding and counts those that would keep a server from serving.
#[derive(Debug, Default)]
struct Findings {
    failed: u32,
}

impl Findings {
    fn ok(what: &str, detail: &str) {
        println!("ok    {what:<10} {detail}");
    }

    fn note(what: &str, detail: &str) {
        println!("note  {what:<10} {detail}");
    }

    fn fail(&mut self, what: &str, detail: &str) {
        self.failed += 1;
        println!("FAIL  {what:<10} {detail}");
    }

    fn judge(&mut self, what: &str, result: Result<String, String>) -> bool {
        match &result {
            Ok(detail) => Self::ok(what, detail),
            Err(detail) => self.fail(what, detail),
        }
        result.is_ok()
    }
}

/// Looks at everything that can be looked at; what depends on something missing is left out.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    let data_dir = arguments.data_dir.path()?;
    let image = match &arguments.image {
        Some(image) => image.clone(),
        None => arguments.data_dir.in_file("image")?.unwrap_or_else(|| DEFAULT_IMAGE.to_owned()),
    };
    engine(&mut findings, &image).await?;
    findings.judge("data", check_data_dir(&data_dir));
    free_space(&mut findings, &data_dir);
    tls(&mut findings, &arguments)?;
    quotas();
    if findings.failed == 0 {
        println!("everything is there; `glassbox serve` will work");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} of these would keep a server from working", findings.failed);
    Ok(ExitCode::FAILURE)
}

async fn engine(findings: &mut Findings, image: &str) -> anyhow::Result<()> {
    // An instance of its own: nothing that a server owns is looked at or swept.
    let instance = format!("doctor{}", ids::random_characters(6));
    let runtime = match server::connect(image, &instance) {
        Ok(runtime) => runtime,
        Err(error) => {
            findings.fail("engine", &format!("{error:#}"));
            return Ok(());
        }
    };
    let info = match runtime.info().await {
        Ok(info) => info,
        Err(error) => {
            findings.fail("engine", &format!("{error}; start Docker, or run make setup"));
            return Ok(());
        }
    };
    Findings::ok("engine", &format!("Docker {}", info.version));
    if !info.runtimes.iter().any(|runtime| runtime == "runsc") {
        findings.fail(
            "runsc",
            "the Docker engine has no runtime named runsc (gVisor); install runsc, register it in /etc/docker/daemon.json and reload Docker, or run make setup, which does all three",
        );
        return Ok(());
    }
    let has_image = runtime.has_image(image).await;
    let image_there = findings.judge(
        "image",
        match has_image {
            Ok(true) => Ok(image.to_owned()),
            Ok(false) => Err(format!("the image {image} is not there; run make setup, or pull it")),
            Err(error) => Err(error.to_string()),
        },
    );
    if !image_there {
        return Ok(());
    }
    let prepared = runtime.prepare_helper().await;
    let helper_there = findings.judge(
        "helper",
        prepared
            .map(|()| "glassbox-inside is in its volume".to_owned())
            .map_err(|error| format!("{error}; run scripts/build.sh helper, or make run")),
    );
    if helper_there {
        findings.judge("gVisor", prove_gvisor(&runtime, &instance, image).await);
    }
    Ok(())
}

/// Starts a sandbox, reads its kernel's log, and removes it.
async fn prove_gvisor(runtime: &Runtime, instance: &str, image: &str) -> Result<String, String> {
    let name = format!("glassbox-{instance}-probe");
    let sandbox = SandboxSpec {
        container: name.clone(),
        workspace: name.clone(),
        workspace_dir: spec::usual_workspace_dir(Profile::Hardened).to_owned(),
        image: image.to_owned(),
        profile: Profile::Hardened,
        limits: spec::default_limits(Profile::Hardened),
        tenant: "doctor".into(),
        session: "probe".into(),
    };
    let probed = async {
        runtime.create_workspace(&name, "doctor", "probe").await.map_err(|error| error.to_string())?;
        runtime.start(&sandbox).await.map_err(|error| error.to_string())?;
        let mut stream =
            runtime.exec(&name, &ExecSpec { argv: vec!["dmesg".into()] }).await.map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        while let Some(bytes) = stream.output.next().await {
            text.extend_from_slice(&bytes.map_err(|error| error.to_string())?);
            if text.len() > MAX_PROBE {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.contains("gVisor") {
            Ok("a probe sandbox runs, and its kernel is gVisor".to_owned())
        } else {
            Err("a probe sandbox runs, but its kernel is not gVisor; is another program registered under the name runsc?".to_owned())
        }
    };
    let outcome = tokio::time::timeout(PROBE_DEADLINE, probed)
        .await
        .unwrap_or_else(|_| Err(format!("a probe sandbox did not answer within {PROBE_DEADLINE:?}")));
    let removed = async {
        runtime.remove(&name).await?;
        runtime.remove_workspace(&name).await
    };
    match removed.await {
        Ok(()) => outcome,
        Err(error) => outcome.and(Err(format!("the probe sandbox {name} could not be removed: {error}"))),
    }
}

fn check_data_dir(path: &Path) -> Result<String, String> {
    let shown = path.display();
    if !path.exists() {
        let parent = path.ancestors().find(|parent| parent.exists()).unwrap_or(Path::new("/"));
        return if is_writable(parent) {
            Ok(format!("{shown} (will be made)"))
        } else {
            Err(format!("{shown} cannot be made: {} is not writable", parent.display()))
        };
    }
    if is_writable(path) {
        Ok(shown.to_string())
    } else {
        Err(format!("{shown} is not writable; choose another with --data-dir"))
    }
}

fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && tempfile::Builder::new().prefix(".glassbox-doctor-").tempfile_in(folder).is_ok()
}

fn free_space(findings: &mut Findings, data_dir: &Path) {
    let existing = data_dir.ancestors().find(|parent| parent.exists()).unwrap_or(Path::new("/"));
    match free_bytes(existing) {
        Ok(free) if free < MIN_FREE => findings.fail(
            "disk",
            &format!("{} MiB free at {}; at least {} MiB are needed", free >> 20, existing.display(), MIN_FREE >> 20),
        ),
        Ok(free) => Findings::ok("disk", &format!("{} GiB free at {}", free >> 30, existing.display())),
        Err(error) => findings.fail("disk", &format!("{error:#}")),
    }
}

#[expect(
    unsafe_code,
    reason = "the standard library cannot ask for free space; statvfs only writes into the struct that we give it"
)]
fn free_bytes(folder: &Path) -> anyhow::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).context("the path has a NUL byte")?;
    let mut answer = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `path` is NUL-terminated and outlives the call; `answer` is large enough and any bytes are valid for it.
    let answer = unsafe {
        if libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error()).context("the free space cannot be read");
        }
        answer.assume_init()
    };
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// The certificate, where one would be used: given here, or in the file of settings.
fn tls(findings: &mut Findings, arguments: &Arguments) -> anyhow::Result<()> {
    let file = |given: &Option<PathBuf>, name| -> anyhow::Result<Option<PathBuf>> {
        Ok(match given {
            Some(path) => Some(path.clone()),
            None => arguments.data_dir.in_file(name)?.map(PathBuf::from),
        })
    };
    let (cert, key) = (file(&arguments.tls_cert, "tls_cert")?, file(&arguments.tls_key, "tls_key")?);
    match (cert, key) {
        (None, None) => {}
        (Some(cert), Some(key)) => match Tls::open(cert, key).map(|tls| tls.validity()) {
            Ok((validity, false)) => Findings::ok("tls", &validity),
            Ok((validity, true)) if validity.contains("EXPIRED") => findings.fail("tls", &validity),
            Ok((validity, true)) => Findings::note("tls", &format!("{validity}; renew it and send SIGHUP")),
            Err(error) => findings.fail("tls", &error.to_string()),
        },
        (Some(_), None) | (None, Some(_)) => {
            findings.fail(
                "tls",
                "certificate and key belong together; set GLASSBOX_TLS_CERT and GLASSBOX_TLS_KEY, or none",
            );
        }
    }
    Ok(())
}

/// A quota on workspaces would need loop devices and root; this version does not set any.
fn quotas() {
    let possible = Path::new("/dev/loop-control").exists();
    let detail = if possible {
        "possible here, not enforced by this version"
    } else {
        "not possible here (no loop devices), not enforced by this version"
    };
    Findings::note("quotas", detail);
}
