//! Live views on a terminal: a running target, for `selvedge top` (its answers as numbers, their
//! differences as rates), in `initiator` a run of `selvedge bench`, and their common part: tables,
//! selection, keys, and drawing. It sends no requests: the commands do.

#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod grid;
pub(crate) mod initiator;
pub(crate) mod keys;
mod layout;
#[cfg(test)]
mod rates_tests;
pub(crate) mod screen;
#[cfg(test)]
mod screen_tests;
pub(crate) mod target_list;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod view;
pub(crate) mod watch;
