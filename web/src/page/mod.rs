//! What needs a browser: components, and the services that feed them.
//!
//! - [`app`]: routes and who is signed in; [`sign_in`], [`sessions`], [`session`]: the pages
//! - [`files`]: the file browser in a session
//! - [`history`]: ended sessions, and the search in all
//! - [`api`]: the REST calls; [`live`]: the live socket; [`store`]: the world of `crate::state`, reactive by parts
//! - [`route`]: the address bar
//! - [`clock`]: one timer for everything that ticks; [`theme`], [`shortcuts`], [`tab`]: what concerns the whole page
//! - [`parts`]: small components that several pages use
//! - [`interop`]: JavaScript behind guards

pub mod api;
pub mod app;
pub mod clock;
pub mod files;
pub mod history;
pub mod interop;
pub mod live;
pub mod parts;
pub mod route;
pub mod session;
pub mod sessions;
pub mod shortcuts;
pub mod sign_in;
pub mod store;
pub mod tab;
pub mod theme;
