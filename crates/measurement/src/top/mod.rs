//! Live views on a terminal: a running target, for `selvedge top` (its answers as numbers, their
//! differences as rates), in `initiator` a run of `selvedge bench`, and their common part: tables,
//! selection, keys, and drawing. It sends no requests: the commands do.

#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod grid;
pub mod initiator;
pub mod keys;
mod layout;
pub mod screen;
#[cfg(test)]
mod screen_tests;
pub(crate) mod target_list;
pub mod terminal;
pub mod text;
pub mod view;
pub mod watch;
