//! The data directory: one server's database, output logs and first key, readable by its owner only.
//!
//! [`DataDir::open`] takes it for this process; a second server is refused. Commands such as `glassbox keys` use the
//! database beside a running server and go through [`database_beside_server`] instead.

mod archive;
pub mod backup;
pub mod restore;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::access::{Access, has_key_form, random_key};
use crate::ids;

/// The tenant of the first key.
pub const FIRST_TENANT: &str = "default";

/// Random characters of an instance's id: 60 bits, so that no two servers on one engine take each other's containers
/// for their own, and short enough to stand in container names.
const INSTANCE_CHARACTERS: usize = 12;

/// How long a server that is just ending, or a command that just looks, may hold the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// No file that is read whole here is longer: a key, an id, an address.
const MOST_FILE_BYTES: u64 = 1024;

const DATABASE: &str = "glassbox.db";
const LOGS: &str = "logs";
const SEARCH: &str = "search";
const LOCK: &str = "lock";
const INSTANCE: &str = "instance";
const FIRST_KEY: &str = "operator.key";
const ADDRESS: &str = "address";

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    instance: String,
    /// Held, never read: the lock ends with it, also on `kill -9`.
    _lock: File,
}

/// The operator's key for those who configured none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstKey {
    /// There are keys, and none of ours is in the file.
    NotNeeded,
    /// It was made now and stands in this file.
    Made(PathBuf),
    /// It was made before, stands in this file and works.
    Kept(PathBuf),
}

impl DataDir {
    /// Makes the directory where there is none, and takes it for this process.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if path.as_os_str().is_empty() {
            bail!("the data directory's name is empty; set GLASSBOX_DATA_DIR");
        }
        make_private(path).with_context(|| format!("cannot make the data directory {shown}"))?;
        // Absolute, so that a later change of the working directory does not matter.
        let path = path.canonicalize().with_context(|| format!("cannot use the data directory {shown}"))?;
        refuse_foreign(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).with_context(|| {
            format!("cannot make the data directory {shown} private; it must belong to the user that runs this")
        })?;
        let lock = lock(&path)?;
        let instance = instance(&path)?;
        make_private(&path.join(LOGS)).with_context(|| format!("cannot make the folder for output logs in {shown}"))?;
        make_private(&path.join(SEARCH)).with_context(|| format!("cannot make the folder for searching in {shown}"))?;
        Ok(Self { path, instance, _lock: lock })
    }

    /// The directory itself, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which server this is: on the labels of all its containers and volumes, the same after every restart.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The database's file.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The folder of the output logs. It exists.
    pub fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }

    /// The folder of the words that a search finds; it can be collected anew. It exists.
    pub fn search(&self) -> PathBuf {
        self.path.join(SEARCH)
    }

    /// Writes down where the page is found, for `glassbox link`.
    pub fn announce_address(&self, base: &str) -> anyhow::Result<()> {
        write_whole(&self.path, ADDRESS, base).context("cannot write the server's address into the data directory")
    }

    /// Sees to it that somebody can get in: without any operator's key, makes one and keeps it in `operator.key`.
    ///
    /// The file is written first and the key counts afterwards, so a crash between leaves a key that is taken up at the
    /// next start, and never one that nobody knows. What has not the form of a key, and what was revoked, is replaced.
    pub async fn first_key(&self, access: &Access) -> anyhow::Result<FirstKey> {
        let file = self.path.join(FIRST_KEY);
        let written = read_short(&file)?.map(|text| text.trim().to_owned()).filter(|text| has_key_form(text));
        if !access.needs_first_key().await? {
            let works = match &written {
                Some(key) => access.authenticate_key(key).await?.is_some(),
                None => false,
            };
            return Ok(if works { FirstKey::Kept(file) } else { FirstKey::NotNeeded });
        }
        if let Some(key) = written
            && access.adopt_operator_key(FIRST_TENANT, "first operator", &key).await?
        {
            return Ok(FirstKey::Made(file));
        }
        let key = random_key();
        write_whole(&self.path, FIRST_KEY, &key).context("cannot write the first key into the data directory")?;
        if !access.adopt_operator_key(FIRST_TENANT, "first operator", &key).await? {
            bail!("the first key could not be made; start again");
        }
        Ok(FirstKey::Made(file))
    }
}

/// The database of a data directory that a server may be using right now: `SQLite` lets several processes in.
pub fn database_beside_server(path: &Path) -> anyhow::Result<PathBuf> {
    let database = path.join(DATABASE);
    match fs::metadata(&database) {
        Ok(_) => Ok(database),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "there is no Glassbox data in {}; start `glassbox serve` first, or give its --data-dir",
            path.display()
        ),
        Err(error) => Err(error).with_context(|| format!("cannot use the data directory {}", path.display())),
    }
}

/// Where the page of this data directory's server is (or last was) found.
pub fn announced_address(path: &Path) -> anyhow::Result<Option<String>> {
    Ok(read_short(&path.join(ADDRESS))?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Does a server use this data directory right now?
pub fn is_served(path: &Path) -> bool {
    // A shared lock: two that look do not take each other for a server.
    File::open(path.join(LOCK)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A slip such as `--data-dir /tmp` must not close somebody's folder to everybody else.
fn refuse_foreign(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let names = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>())
        .with_context(|| format!("cannot read the data directory {shown}"))?;
    let ours = names.iter().any(|name| name == LOCK || name == INSTANCE);
    // A file system of its own begins with this folder.
    if ours || names.iter().all(|name| name == "lost+found") {
        return Ok(());
    }
    bail!("{shown} holds other files, so it is no data directory of Glassbox; choose an empty or a new folder")
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let shown = path.display();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join(LOCK))
        .with_context(|| format!("cannot write to the data directory {shown}"))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = (&file).take(MOST_FILE_BYTES).read_to_string(&mut owner); // only for the sentence
                let owner =
                    owner.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
                bail!("another glassbox{owner} uses {shown}; stop it, or choose another --data-dir");
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock the data directory {shown}; use a local disk"));
            }
        }
    }
    // The owner's number is only for the sentence above: a full disk must not keep the server from starting.
    let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    Ok(file)
}

fn instance(path: &Path) -> anyhow::Result<String> {
    let file = path.join(INSTANCE);
    let Some(text) = read_short(&file)? else {
        let instance = ids::random_characters(INSTANCE_CHARACTERS);
        write_whole(path, INSTANCE, &instance).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(instance);
    };
    let instance = text.trim();
    if !is_instance(instance) {
        // Making a new id would leave the sandboxes and workspaces of the old one behind, unfindable.
        bail!(
            "{} is damaged: it should hold the {INSTANCE_CHARACTERS} characters that this server's containers are labelled \
             with; restore it, or delete it to give those up",
            file.display()
        );
    }
    Ok(instance.to_owned())
}

/// Has it the form of an instance's id?
fn is_instance(text: &str) -> bool {
    text.len() == INSTANCE_CHARACTERS && text.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
}

/// A small text file; `None` where there is none.
fn read_short(file: &Path) -> anyhow::Result<Option<String>> {
    let mut bytes = Vec::new();
    match File::open(file).and_then(|opened| opened.take(MOST_FILE_BYTES).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Writes a small file whole or not at all, readable by its owner only.
fn write_whole(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut file =
        tempfile::Builder::new().prefix(".new-").permissions(fs::Permissions::from_mode(0o600)).tempfile_in(folder)?;
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::StaticKey;
    use crate::store::Store;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn access(data: &DataDir, static_keys: Vec<StaticKey>) -> Access {
        Access::new(Store::open(&data.database()).expect("a store"), static_keys)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("exists").permissions().mode() & 0o777
    }

    #[test]
    fn a_new_one_is_private_and_keeps_its_instance() {
        let folder = folder();
        let path = folder.path().join("deep/data");
        let data = DataDir::open(&path).expect("made");
        assert_eq!(mode(&path), 0o700);
        assert!(data.logs().is_dir());
        let instance = data.instance().to_owned();
        drop(data);
        assert_eq!(DataDir::open(&path).expect("again").instance(), instance);
    }

    #[test]
    fn a_second_server_is_told_who_uses_it() {
        let folder = folder();
        let data = DataDir::open(folder.path()).expect("made");
        assert!(is_served(folder.path()));
        let refusal = DataDir::open(folder.path()).expect_err("in use").to_string();
        assert!(refusal.contains("another glassbox") && refusal.contains(&std::process::id().to_string()), "{refusal}");
        drop(data);
        assert!(!is_served(folder.path()));
        assert!(DataDir::open(folder.path()).is_ok());
    }

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let folder = folder();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::write(folder.path().join("thesis.tex"), "").expect("a file");
        let refusal = DataDir::open(folder.path()).expect_err("foreign").to_string();
        assert!(refusal.contains("other files"), "{refusal}");
        assert_eq!(mode(folder.path()), 0o755);
        assert!(DataDir::open(&folder.path().join("thesis.tex")).is_err());
    }

    #[test]
    fn a_damaged_instance_is_not_replaced_silently() {
        let folder = folder();
        drop(DataDir::open(folder.path()).expect("made"));
        fs::write(folder.path().join(INSTANCE), "").expect("a file");
        assert!(DataDir::open(folder.path()).expect_err("damaged").to_string().contains("damaged"));
    }

    #[tokio::test]
    async fn the_first_key_works_is_private_and_is_made_once() {
        let folder = folder();
        let data = DataDir::open(folder.path()).expect("made");
        let access = access(&data, Vec::new());
        let FirstKey::Made(file) = data.first_key(&access).await.expect("a key") else { panic!("made") };
        assert_eq!(mode(&file), 0o600);
        let key = fs::read_to_string(&file).expect("a file");
        assert!(access.authenticate_key(key.trim()).await.expect("store").is_some());
        assert_eq!(data.first_key(&access).await.expect("a key"), FirstKey::Kept(file.clone()));
        assert_eq!(fs::read_to_string(&file).expect("a file"), key);
    }

    #[tokio::test]
    async fn a_key_file_without_a_key_never_becomes_one() {
        for text in ["", "\n", "asb_", "password1234567890", "asb_aaaaaaaaaa_short"] {
            let folder = folder();
            let data = DataDir::open(folder.path()).expect("made");
            fs::write(folder.path().join(FIRST_KEY), text).expect("a file");
            let access = access(&data, Vec::new());
            assert!(matches!(data.first_key(&access).await.expect("a key"), FirstKey::Made(_)));
            assert!(access.authenticate_key(text.trim()).await.expect("store").is_none());
            assert!(has_key_form(fs::read_to_string(folder.path().join(FIRST_KEY)).expect("a file").trim()));
        }
    }

    #[tokio::test]
    async fn a_key_file_that_a_crash_left_before_the_store_knew_it_counts() {
        let folder = folder();
        let data = DataDir::open(folder.path()).expect("made");
        let key = random_key();
        write_whole(folder.path(), FIRST_KEY, &key).expect("a file");
        let access = access(&data, Vec::new());
        assert!(matches!(data.first_key(&access).await.expect("a key"), FirstKey::Made(_)));
        assert!(access.authenticate_key(&key).await.expect("store").is_some());
    }

    #[tokio::test]
    async fn a_revoked_first_key_stays_revoked() {
        let folder = folder();
        let data = DataDir::open(folder.path()).expect("made");
        let access = access(&data, Vec::new());
        let FirstKey::Made(file) = data.first_key(&access).await.expect("a key") else { panic!("made") };
        let key = fs::read_to_string(&file).expect("a file");
        let id = access.list_keys(FIRST_TENANT).await.expect("keys")[0].key_id.clone();
        access.revoke_even_last_key(FIRST_TENANT, &id).await.expect("revoked");
        assert!(matches!(data.first_key(&access).await.expect("a key"), FirstKey::Made(_)));
        assert!(access.authenticate_key(key.trim()).await.expect("store").is_none());
    }

    #[tokio::test]
    async fn with_configured_keys_none_is_made() {
        let folder = folder();
        let data = DataDir::open(folder.path()).expect("made");
        let access = access(&data, vec![StaticKey::new("acme", "0123456789abcdef")]);
        assert_eq!(data.first_key(&access).await.expect("looked"), FirstKey::NotNeeded);
        assert!(!folder.path().join(FIRST_KEY).exists());
    }

    #[test]
    fn commands_beside_a_server_find_its_database_and_address() {
        let folder = folder();
        assert!(
            database_beside_server(folder.path()).expect_err("nothing there").to_string().contains("glassbox serve")
        );
        let data = DataDir::open(folder.path()).expect("made");
        drop(Store::open(&data.database()).expect("a store"));
        data.announce_address("http://127.0.0.1:7070").expect("written");
        assert!(database_beside_server(folder.path()).is_ok());
        assert_eq!(announced_address(folder.path()).expect("read").as_deref(), Some("http://127.0.0.1:7070"));
    }
}
