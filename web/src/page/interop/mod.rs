//! What belongs to JavaScript: handles behind guards that let go of them when dropped.
//!
//! - [`terminal`]: xterm.js, through `xterm-js-rs` and what that crate lacks
//! - [`socket`]: one WebSocket
//! - [`paint`]: colours in a text
//! - [`browser`]: storage, clipboard, times in the reader's zone, theme, title and icon of the tab

pub mod browser;
pub mod paint;
pub mod socket;
pub mod terminal;
