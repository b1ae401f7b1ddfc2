//! The files of a session.
//!
//! - [`tree`]: which folders are open and what is in them, as rows
//! - [`marks`]: what is new to whoever looks
//! - [`names`]: paths and names
//! - [`jobs`]: copies and deletions that are under way, in words

pub mod jobs;
pub mod marks;
pub mod names;
pub mod tree;

pub use names::{child, crumbs, is_folder, name_problem, parent, shown, shown_name};
pub use tree::{PAGE, RELOADED, Row, Tree};

/// What became of the open file since it was loaded.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It is another one now.
    Changed {
        /// This one.
        version: String,
    },
    /// Nothing is there any more.
    Gone {
        /// When that was noticed.
        at: f64,
    },
}
