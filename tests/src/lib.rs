//! What tests speak with: the real server as a child process, and clients that know its words.
//!
//! | module | gives |
//! | --- | --- |
//! | [`server`] | [`TestServer`]: a server of one's own, with its own data and labels, that leaves nothing behind |
//! | [`process`] | the child process: killed hard, started again, its memory, what it wrote |
//! | [`program`] | the program's other commands, run to their end |
//! | [`client`], [`session`], [`command`], [`answer`] | REST in the domain's words |
//! | [`output`] | reading output with every offset checked |
//! | [`files`] | files of a session |
//! | [`viewer`], [`stream`] | the live socket, with every offset and sequence checked |
//! | [`docker`] | looking at containers and volumes behind the server's back |
//! | [`helper`] | another version of the helper |
//! | [`engine`] | an engine of one's own, to be frozen, stopped and killed |
//! | [`small_disk`] | a data directory on a disk that can be filled |
//! | [`wait`] | waiting for conditions; tests never sleep and hope |
//!
//! Docker and gVisor are needed; where they are missing each test fails with one sentence and none is skipped. With
//! `GLASSBOX_TEST_LONG=1` what repeats does so as often as it should, otherwise a tenth of it ([`repeats`]).

pub mod answer;
pub mod client;
pub mod command;
pub mod docker;
pub mod engine;
pub mod files;
pub mod helper;
pub mod output;
pub mod process;
pub mod program;
pub mod server;
pub mod session;
pub mod small_disk;
pub mod stream;
pub mod viewer;
pub mod wait;

pub use answer::{Answer, Refusal};
pub use client::Client;
pub use command::{Command, Finished};
pub use server::TestServer;
pub use session::{Session, hardened, hold, open};
pub use viewer::Viewer;
pub use wait::eventually;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Is this the long run?
pub fn is_long() -> bool {
    std::env::var("GLASSBOX_TEST_LONG").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// As often as a case asks for in the long run, a tenth of it otherwise.
pub fn repeats(full: usize) -> usize {
    if is_long() { full } else { full.div_ceil(10) }
}

/// What `seq FIRST LAST` prints.
pub fn seq(first: u32, last: u32) -> String {
    (first..=last).fold(String::new(), |text, number| text + &number.to_string() + "\n")
}

/// What `yes` writes: each byte is known by its offset.
pub fn is_yes(offset: u64, byte: u8) -> bool {
    byte == if offset.is_multiple_of(2) { b'y' } else { b'\n' }
}

/// Some of what `yes` writes, which repeats.
pub static YES: [u8; 64 * 1024] = {
    let mut text = [b'y'; 64 * 1024];
    let mut at = 1;
    while at < text.len() {
        text[at] = b'\n';
        at += 2;
    }
    text
};

/// Sixteen random hexadecimal digits. The standard library seeds each of its hash states anew.
pub fn random_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
