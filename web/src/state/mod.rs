//! What the page knows, as plain data and pure functions: no browser, no signals, no clock.
//!
//! Everything here is told the time and is tested on the host. The modules under `page` show it and feed it.
//!
//! - [`world`]: sessions and commands by id, and what an event changes in them
//! - [`session`], [`book`]: one session of the list; one session's commands
//! - [`choice`]: which command is shown, following the newest or picked
//! - [`stream`]: the viewer's half of one output stream: order, gaps, acknowledgements
//! - [`connection`]: when to reconnect, when a connection counts as lost
//! - [`message`], [`fields`]: reading what the server says
//! - [`feed`]: whether events are complete, or lists must be loaded again
//! - [`files`], [`content`], [`diff`]: the tree of files; what a file's bytes are; what changed in them
//! - [`look`], [`words`], [`kill`], [`visible`]: how states, amounts, kills and command texts are said
//! - [`past`]: sessions of the history, and what happened in one; [`removal`]: what goes with one; [`search`]: a page of hits
//! - [`address`]: what an address of the page means
//! - [`keys`], [`palette`], [`order`]: what a key means; what a search finds; lists that hold still

pub mod address;
pub mod book;
pub mod choice;
pub mod connection;
pub mod content;
pub mod diff;
pub mod feed;
pub mod fields;
pub mod files;
pub mod keys;
pub mod kill;
pub mod look;
pub mod message;
pub mod order;
pub mod palette;
pub mod past;
pub mod removal;
pub mod search;
pub mod session;
pub mod stream;
pub mod visible;
pub mod words;
pub mod world;

#[cfg(test)]
pub mod samples;
