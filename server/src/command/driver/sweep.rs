//! A second exec that ends and looks for what is left of a command, without its helper.

use std::time::Duration;

use futures_util::StreamExt as _;
use glassbox_shared::helper::{Ended, FrameBuffer, FromHelper, HELPER_PATH};
use tokio::io::AsyncWriteExt as _;

use crate::command::protocol::tame;
use crate::ids;
use crate::runtime::{ExecSpec, Runtime};

/// Hunting a fork bomb takes the helper at most 5 s; the exec itself can take as long under load.
const DEADLINE: Duration = Duration::from_secs(30);

/// Ends everything that carries the command's mark and everything under its helper; answers what survived. An error
/// means that nothing is known.
pub async fn sweep(runtime: &Runtime, container: &str, command_id: &str) -> Result<Ended, String> {
    let argv = vec![HELPER_PATH.to_owned(), "sweep".to_owned(), command_id.to_owned()];
    let tag = ids::tag();
    let work = async {
        let mut stream = runtime.exec(container, &ExecSpec { argv }).await.map_err(|error| error.to_string())?;
        stream.input.write_all(&tag.to_le_bytes()).await.map_err(|error| error.to_string())?;
        stream.input.flush().await.map_err(|error| error.to_string())?;
        let mut buffer = FrameBuffer::default();
        while let Some(read) = stream.output.next().await {
            buffer.push(&read.map_err(|error| error.to_string())?);
            let Some((kind, body)) = buffer.next_frame().map_err(|error| error.to_string())? else { continue };
            return match FromHelper::decode(tag, kind, body).map_err(|error| error.to_string())? {
                FromHelper::Ended(ended) => Ok(tame(ended)),
                _ => Err("the sweep answered something else".to_owned()),
            };
        }
        Err("the sweep did not answer".to_owned())
    };
    tokio::time::timeout(DEADLINE, work)
        .await
        .unwrap_or_else(|_| Err(format!("the sweep took longer than {DEADLINE:?}")))
}
