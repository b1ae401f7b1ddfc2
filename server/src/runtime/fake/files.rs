//! The engine's file service. It answers every version with `v1`, writes nothing and says that it did, and does what a path's
//! name says:
//!
//! | path | does |
//! | --- | --- |
//! | `silent` | says nothing |
//! | `vanish` | is gone without a word |
//! | `nonsense` | says something that is no frame |
//! | `hostile` | tells a version that would break a header |
//! | `flood` | sends content without waiting for room |
//! | `long` | fails, in more words than a failure has |
//! | `talk` | tells of progress, which only copies and deletions do |
//!
//! Deletions of `slow` tell of progress until they are cancelled, and then how far they came; those of `stubborn` go on then;
//! those of `broken` fail half-way; all others tell of progress a hundred times at once, and are done. An upload has its whole size with its first piece. Renaming fails where `refused` is to be
//! the name. Folders are empty, but what is called `…forged` lists itself. Reading says twice what comes before content. When `generous` is written, more is said to be taken than came;
//! when `late` is, one piece is said to be taken every 50 s, and there is no end.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Failure, FromFiles, Head, MAX_WORD, Operation, Progress, ToFiles};
use glassbox_shared::files::{FileEntry, FileType};
use glassbox_shared::helper::FrameBuffer;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;

use super::FakeRuntime;

/// Frames of content that a flood sends at once: far beyond every window.
const FLOOD: usize = 100;
/// What an upload is called here.
const UPLOAD: &str = "upload";
/// Between two words of one that is late: shorter than any silence that counts as one.
const LATE: Duration = Duration::from_secs(50);

/// Serves until its stdin ends.
pub(super) async fn serve(engine: &FakeRuntime, mut input: DuplexStream, output: mpsc::Sender<Bytes>) -> Option<()> {
    let mut frames = FrameBuffer::default();
    let mut tag = None;
    let mut written = HashMap::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while let Some((kind, body)) = frames.next_frame().ok()? {
            let (number, said) = ToFiles::decode(kind, body).ok()?;
            match (said, tag) {
                (ToFiles::Open(open), None) => tag = Some(open.tag),
                (said, Some(tag)) => {
                    if let ToFiles::Begin(operation) = &said {
                        match &**operation {
                            Operation::Write { path, .. } | Operation::Delete { path, .. } => {
                                drop(written.insert(number, path.clone()));
                            }
                            Operation::Append { .. } => drop(written.insert(number, UPLOAD.to_owned())),
                            Operation::DropUpload { .. } => engine.lock().dropped_uploads += 1,
                            _ => {}
                        }
                    }
                    let writes = written.get(&number).map(String::as_str);
                    if writes == Some("late") && said == ToFiles::End {
                        tokio::spawn(be_late(output.clone(), tag, number));
                    }
                    for answer in answers(said, writes)? {
                        output.send(Bytes::from(answer.encode(tag, number))).await.ok()?;
                    }
                }
                (_, None) => return None,
            }
        }
        match input.read(&mut bytes).await {
            Ok(count @ 1..) => frames.push(&bytes[..count]),
            Ok(0) | Err(_) => return None,
        }
    }
}

/// Until nobody listens.
async fn be_late(output: mpsc::Sender<Bytes>, tag: u64, number: u32) {
    loop {
        tokio::time::sleep(LATE).await;
        if output.send(Bytes::from(FromFiles::Taken(1).encode(tag, number))).await.is_err() {
            return;
        }
    }
}

fn entry(path: &str) -> FileEntry {
    FileEntry {
        path: path.to_owned(),
        name: path.to_owned(),
        kind: FileType::File,
        size: 0,
        mode: "0644".to_owned(),
        uid: 0,
        gid: 0,
        owner: None,
        modified: 1.0,
        version: "v1".to_owned(),
        target: None,
    }
}

fn head() -> FromFiles {
    FromFiles::Head(Box::new(Head { entry: entry("a"), start: 0, length: Some(0) }))
}

/// What is said to that in an operation that writes (or deletes) `writes`; `None`: it is gone.
fn answers(said: ToFiles, writes: Option<&str>) -> Option<Vec<FromFiles>> {
    let done = |answer| vec![FromFiles::Done(Box::new(answer))];
    let failed = |code, detail: String| vec![FromFiles::Failed(Failure { code, detail })];
    let made = |path: &str| done(Answer::Entry(Box::new(entry(path))));
    let at = |done| FromFiles::Progress(Progress { done, bytes: 0, path: "a".to_owned() });
    let progress = || at(1);
    Some(match said {
        ToFiles::Begin(operation) => match *operation {
            Operation::Version { path } => match path.as_str() {
                "silent" => Vec::new(),
                "vanish" => return None,
                "nonsense" => vec![FromFiles::Data(b"content that nobody asked for".to_vec())],
                "hostile" => done(Answer::Version("v\"\r\nset-cookie: x".to_owned())),
                "flood" => vec![FromFiles::Data(vec![b'x'; 10]); FLOOD],
                "long" => failed(ErrorCode::NotFound, "x".repeat(MAX_WORD)),
                "talk" => [vec![progress()], done(Answer::Version("v1".to_owned()))].concat(),
                _ => done(Answer::Version("v1".to_owned())),
            },
            Operation::Delete { path, .. } if path == "slow" || path == "stubborn" => vec![progress()],
            Operation::Delete { path, .. } if path == "broken" => {
                [vec![at(3)], failed(ErrorCode::PermissionDenied, "not this one".to_owned())].concat()
            }
            Operation::Rename { to, .. } if to == "refused" => failed(ErrorCode::Exists, "it is there".to_owned()),
            Operation::Rename { to: path, .. } | Operation::MakeFolder { path } => made(&path),
            Operation::Copy { .. } | Operation::Delete { .. } => {
                let mut said = vec![progress(); FLOOD];
                said.extend(done(Answer::Job { done: 1, bytes: 0, skipped: 0, entry: None }));
                said
            }
            Operation::Read { .. } => vec![head(), head()],
            Operation::List { path, .. } => {
                let entries = if path.ends_with("forged") { vec![entry(&path)] } else { Vec::new() };
                let (version, total) = ("v1".to_owned(), entries.len() as u64);
                done(Answer::Page { path, version, total, entries, next: None })
            }
            Operation::StartUpload { size, .. } => done(Answer::Upload { offset: 0, size, entry: None }),
            Operation::Write { .. } | Operation::Append { .. } => Vec::new(),
            _ => done(Answer::Nothing),
        },
        ToFiles::Data(_) => match writes {
            Some("generous") => vec![FromFiles::Taken(2)],
            Some("late") => Vec::new(),
            _ => vec![FromFiles::Taken(1)],
        },
        ToFiles::End if writes == Some("late") => Vec::new(),
        ToFiles::End if writes == Some(UPLOAD) => {
            done(Answer::Upload { offset: 1, size: 1, entry: Some(Box::new(entry(UPLOAD))) })
        }
        ToFiles::End => made(writes.unwrap_or_default()),
        ToFiles::Cancel if writes == Some("stubborn") => vec![progress()],
        ToFiles::Cancel if writes == Some("slow") => {
            [vec![at(2)], failed(ErrorCode::Conflict, "this was cancelled".to_owned())].concat()
        }
        ToFiles::Cancel => failed(ErrorCode::Conflict, "this was cancelled".to_owned()),
        ToFiles::Taken(_) | ToFiles::Open(_) => Vec::new(),
    })
}
