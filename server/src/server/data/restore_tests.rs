use flate2::Compression;
use flate2::write::GzEncoder;
use glassbox_shared::command::{CommandState, Interruption};
use glassbox_shared::helper::Channel;
use glassbox_shared::session::{EndReason, SessionState};
use tempfile::TempDir;

use super::*;
use crate::access::Access;
use crate::command::log::{Log, LogSettings, LogWriter};
use crate::server::data::DataDir;
use crate::server::data::backup::backup;
use crate::store::Store;
use crate::store::tests as samples;

const LOG: LogSettings = LogSettings { ring: 64 * 1024, head: 64 * 1024, tail: 64 * 1024 };

/// A data directory with a live session, a running command with a log, a key; and where backups go.
struct Original {
    data: DataDir,
    store: Store,
    writer: Option<LogWriter>,
    session: crate::store::SessionRecord,
    command: glassbox_shared::command::CommandView,
    key: String,
    folder: TempDir,
}

impl Original {
    async fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = DataDir::open(&folder.path().join("data")).expect("made");
        let store = Store::open(&data.database()).expect("a store");
        let access = Access::new(store.clone(), Vec::new());
        let super::super::FirstKey::Made(file) = data.first_key(&access).await.expect("a key") else { panic!("made") };
        let key = fs::read_to_string(file).expect("the key").trim().to_owned();
        let session = samples::session();
        store.insert_session(&session).await.expect("inserted");
        let mut command = samples::command(&session.id, 1);
        store.insert_command(&session.tenant, &command).await.expect("inserted");
        command.state = CommandState::Running;
        store.update_command(&command).await.expect("updated");
        let directory = data.logs().join(session.id.as_str()).join(command.command_id.as_str());
        let (writer, _) = LogWriter::create(&directory, LOG).expect("a log");
        Self { data, store, writer: Some(writer), session, command, key, folder }
    }

    fn write(&mut self, text: &str) {
        self.writer.as_mut().expect("open").append(Channel::Stdout, text.as_bytes(), 1.0).expect("written");
    }

    fn backup(&self, name: &str) -> std::path::PathBuf {
        let file = self.folder.path().join(name);
        backup(self.data.path(), &file).expect("a backup");
        file
    }

    fn target(&self) -> std::path::PathBuf {
        self.folder.path().join("restored")
    }

    fn log_in(&self, data_dir: &Path) -> std::path::PathBuf {
        data_dir.join(LOGS).join(self.session.id.as_str()).join(self.command.command_id.as_str())
    }
}

#[tokio::test]
async fn a_copy_has_the_keys_and_the_output_is_another_server_and_every_session_is_over() {
    let mut original = Original::make().await;
    original.write("before\n");
    let file = original.backup("one.tar.gz");
    original.write("after\n");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let back = restore(&file, &original.target(), Restored::Copy).expect("restored");
    assert_eq!((back.ended_sessions, back.original.as_str()), (1, original.data.instance()));

    let data = DataDir::open(&original.target()).expect("a data directory");
    assert_ne!(data.instance(), original.data.instance());
    let store = Store::open(&data.database()).expect("a store");
    let access = Access::new(store.clone(), Vec::new());
    assert!(access.authenticate_key(&original.key).await.expect("looked").is_some());
    let session = store.session(&original.session.id).await.expect("read").expect("there");
    assert_eq!(session.state, SessionState::Ended { reason: EndReason::Lost });
    assert!(session.ended_at.is_some() && session.container.is_none());
    assert!(store.unended_sessions().await.expect("read").is_empty());
    let unfinished = store.unfinished_commands().await.expect("read");
    assert_eq!(unfinished.len(), 1, "the next start looks what its log holds");
    assert_eq!(unfinished[0].state, CommandState::Interrupted(Interruption::ServerRestarted));
    let log = Log::open(original.log_in(data.path())).await.expect("a log");
    assert_eq!(log.read(0, 100).await.expect("read").bytes, "before\n");
    assert!(!log.state().complete);
    assert_eq!(
        fs::read_dir(data.path())
            .expect("a folder")
            .filter(|entry| {
                entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with(".restore-")
            })
            .count(),
        0
    );
    assert!(original.store.session(&original.session.id).await.expect("read").expect("there").container.is_some());
}

#[tokio::test]
async fn what_takes_the_originals_place_keeps_its_instance_and_its_sessions() {
    let original = Original::make().await;
    let file = original.backup("one.tar.gz");
    restore(&file, &original.target(), Restored::Original).expect("restored");
    let data = DataDir::open(&original.target()).expect("a data directory");
    assert_eq!(data.instance(), original.data.instance());
    let store = Store::open(&data.database()).expect("a store");
    assert_eq!(store.unended_sessions().await.expect("read"), vec![original.session.clone()]);
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let original = Original::make().await;
    let file = original.backup("one.tar.gz");
    let before = fs::read(&file).expect("read");
    let refusal = backup(original.data.path(), &file).expect_err("there already").to_string();
    assert!(refusal.contains("is there already"), "{refusal}");
    assert_eq!(fs::read(&file).expect("read"), before);
    let refusal = restore(&file, original.data.path(), Restored::Copy).expect_err("in use").to_string();
    assert!(refusal.contains("is not empty"), "{refusal}");
    let nowhere = backup(&original.target(), &original.folder.path().join("two.tar.gz")).expect_err("no data");
    assert!(nowhere.to_string().contains("no Glassbox data"), "{nowhere}");
    assert_eq!(fs::read_dir(original.folder.path()).expect("a folder").count(), 2, "nothing is left: data, one.tar.gz");
}

fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut text).ok().map(|_| text)
}

#[tokio::test]
async fn a_damaged_or_short_backup_leaves_an_empty_folder() {
    let mut original = Original::make().await;
    original.write(&"line\n".repeat(1000));
    let file = original.backup("one.tar.gz");
    let good = fs::read(&file).expect("read");
    let bad = original.folder.path().join("bad.tar.gz");
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&bad, bytes).expect("written");
        assert!(restore(&bad, &original.target(), Restored::Copy).is_err(), "{what}");
        assert_eq!(fs::read_dir(original.target()).expect("a folder").count(), 0, "{what}");
    };
    for part in 0..20 {
        refused(&good[..good.len() * part / 20], &format!("cut off after {part} twentieths"));
    }
    refused(&good[..good.len() - 1], "without its last byte");
    for at in (20..good.len()).step_by(good.len() / 30) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        // The same zeros can be copied from elsewhere.
        if decompressed(&flipped).is_some_and(|text| Some(text) == decompressed(&good)) {
            continue;
        }
        refused(&flipped, &format!("a bit of byte {at}"));
    }
    restore(&file, &original.target(), Restored::Copy).expect("the good one fits into the empty folder");
}

#[test]
fn an_archive_that_was_made_to_harm_writes_nowhere_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("evil.tar.gz");
    for name in ["../evil", "/tmp/glassbox-evil", "instance", "logs/a/b/../../../evil"] {
        let mut tar = tar::Builder::new(GzEncoder::new(File::create(&file).expect("a file"), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        // As bytes, because the crate itself would refuse to write such names.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(4);
        header.set_cksum();
        tar.append(&header, &b"evil"[..]).expect("appended");
        tar.into_inner().expect("finished").finish().expect("finished");
        let refusal =
            format!("{:#}", restore(&file, &folder.path().join("data"), Restored::Copy).expect_err("refused"));
        assert!(refusal.contains("does not belong"), "{name}: {refusal}");
        assert!(!folder.path().join("evil").exists() && !folder.path().join("data/evil").exists());
    }
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(&file).expect("a file"), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "glassbox.db", "/etc/passwd").expect("appended");
    tar.into_inner().expect("finished").finish().expect("finished");
    let refusal = format!("{:#}", restore(&file, &folder.path().join("data"), Restored::Copy).expect_err("refused"));
    assert!(refusal.contains("not a plain file"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_grows_and_turns_while_it_is_copied_is_a_log_in_the_backup() {
    let mut original = Original::make().await;
    let mut writer = original.writer.take().expect("open");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    // Each byte is known by its offset; the tail turns round many times.
    let writing = std::thread::spawn(move || {
        let mut at = 0_u64;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let bytes: Vec<u8> = (at..at + 1000).map(|offset| (offset % 251) as u8).collect();
            let channel = if at.is_multiple_of(3000) { Channel::Stdout } else { Channel::Stderr };
            writer.append(channel, &bytes, at as f64 / 1e5).expect("written");
            at += 1000;
        }
        at
    });
    for turn in 0..5 {
        let file = original.backup(&format!("{turn}.tar.gz"));
        let target = original.folder.path().join(format!("restored-{turn}"));
        restore(&file, &target, Restored::Copy).expect("restored");
        let log = Log::open(original.log_in(&target)).await.expect("a log");
        let end = log.state().end;
        let mut from = 0;
        while from < end {
            let chunk = log.read(from, 64 * 1024).await.expect("read");
            assert!(chunk.bytes.iter().zip(chunk.offset..).all(|(byte, offset)| u64::from(*byte) == offset % 251));
            let next = chunk.offset + chunk.bytes.len() as u64;
            assert!(next > from, "it goes on");
            from = next;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(writing.join().expect("no panic") > 0);
}
