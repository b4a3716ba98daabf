//! The live view of an initiator, `selvedge bench --top`: what the workers of a run say once a second as rates, and how that is
//! drawn. Following the workers is the run's.

#[cfg(test)]
mod fixture;
pub mod list;
pub mod live;
mod path_view;
pub mod progress;
pub mod rates;
pub mod screen;
#[cfg(test)]
mod screen_tests;
pub mod watch;
