//! Small components that several pages use.

pub mod connection_bar;
pub mod copy;
pub mod help;
pub mod icons;
pub mod modal;
pub mod paged;
pub mod palette;
pub mod part;
pub mod state;
pub mod time;
pub mod toasts;
pub mod top_bar;
