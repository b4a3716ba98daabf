//! The packet paths of a machine's NVMe/TCP queues as data, with what is wrong with them in words, and their picture: for
//! `tune` and `doctor`, and for a target's own console. How a machine is seen, and what to do about it, is elsewhere.

mod findings;
mod picture;
mod survey;
pub mod words;

pub use findings::Finding;
#[cfg(test)]
pub(crate) use findings::tests::tuned;
pub use picture::{STYLE, TITLE, bare_picture, picture, summary};
pub use survey::{Survey, name, narrowed};
