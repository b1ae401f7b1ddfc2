//! What the parts of Glassbox agree on: identifiers, states, messages, binary frames and error codes.
//!
//! Nothing here does I/O; everything builds for the host and for wasm. Each module documents its own rules:
//!
//! - [`id`]: identifiers and how they look
//! - [`actor`]: roles and who did something
//! - [`session`], [`command`]: what the REST API and the page see of them
//! - [`error`]: the one error shape and its stable codes
//! - [`history`]: ended sessions, their time line, and searching
//! - [`files`]: files of a sandbox, and the frames of the file service
//! - [`helper`]: the frames between the server and `glassbox-inside`
//! - [`live`]: the live socket's protocol
//! - [`tools`]: what models call, and what they read
//! - [`text`]: turning hostile bytes into something that can be shown
#![warn(missing_docs)]

pub mod actor;
pub mod command;
pub mod error;
pub mod files;
pub mod helper;
pub mod history;
pub mod id;
pub mod live;
pub mod session;
pub mod text;
pub mod tools;
