//! The live view: one thread samples the target while there are viewers, and for a while longer,
//! for all viewers together. It keeps out permissions, which the routes check.

mod done;
pub(super) mod examiner;
mod findings;
mod health;
mod history;
pub(super) mod hub;
mod interval;
mod own_flows;
mod own_look;
pub(super) mod packet_paths;
pub(super) mod requests;
mod roster;
mod sampler;
mod stage_counts;
#[cfg(test)]
mod tests;
mod tick;
pub(super) mod viewer;

pub(super) use findings::Findings;
pub(super) use history::HistoryAnswer;
pub(super) use packet_paths::Seen;
pub(super) use roster::Roster;
pub(super) use tick::Tick;
