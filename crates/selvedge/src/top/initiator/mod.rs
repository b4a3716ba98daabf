//! The live view of an initiator, `selvedge bench --top`: what the workers of a run say once a second as rates, and how that is
//! drawn. Following the workers is the run's.

#[cfg(test)]
mod fixture;
pub(crate) mod list;
pub(crate) mod live;
mod path_view;
pub(crate) mod progress;
pub(crate) mod rates;
pub(crate) mod screen;
#[cfg(test)]
mod screen_tests;
pub(crate) mod watch;
