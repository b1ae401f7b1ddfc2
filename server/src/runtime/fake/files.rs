//! The engine's file service. It answers every version with `v1`, writes nothing, and does what a path's name says:
//!
//! | path | does |
//! | --- | --- |
//! | `silent` | says nothing |
//! | `vanish` | is gone without a word |
//! | `nonsense` | says something that is no frame |
//! | `hostile` | tells a version that would break a header |
//! | `flood` | sends content without waiting for room |
//! | `slow` | tells of progress until it is cancelled |

use bytes::Bytes;
use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, Failure, FromFiles, Operation, Progress, ToFiles};
use glassbox_shared::helper::FrameBuffer;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;

/// Frames of content that a flood sends at once: far beyond every window.
const FLOOD: usize = 100;

/// Serves until its stdin ends.
pub(super) async fn serve(mut input: DuplexStream, output: mpsc::Sender<Bytes>) -> Option<()> {
    let mut frames = FrameBuffer::default();
    let mut tag = None;
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while let Some((kind, body)) = frames.next_frame().ok()? {
            let (number, said) = ToFiles::decode(kind, body).ok()?;
            match (said, tag) {
                (ToFiles::Open(open), None) => tag = Some(open.tag),
                (said, Some(tag)) => {
                    for answer in answers(said)? {
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

/// What is said to that; `None`: it is gone.
fn answers(said: ToFiles) -> Option<Vec<FromFiles>> {
    let done = |answer| vec![FromFiles::Done(Box::new(answer))];
    Some(match said {
        ToFiles::Begin(operation) => match *operation {
            Operation::Version { path } => match path.as_str() {
                "silent" => Vec::new(),
                "vanish" => return None,
                "nonsense" => vec![FromFiles::Data(b"content that nobody asked for".to_vec())],
                "hostile" => done(Answer::Version("v\"\r\nset-cookie: x".to_owned())),
                "flood" => vec![FromFiles::Data(vec![b'x'; 10]); FLOOD],
                "slow" => vec![FromFiles::Progress(Progress { done: 1, bytes: 0, path: "a".to_owned() })],
                _ => done(Answer::Version("v1".to_owned())),
            },
            Operation::Write { .. } => Vec::new(),
            _ => done(Answer::Nothing),
        },
        ToFiles::Data(_) => vec![FromFiles::Taken(1)],
        ToFiles::End => done(Answer::Nothing),
        ToFiles::Cancel => {
            vec![FromFiles::Failed(Failure { code: ErrorCode::Conflict, detail: "this was cancelled".to_owned() })]
        }
        ToFiles::Taken(_) | ToFiles::Open(_) => Vec::new(),
    })
}
