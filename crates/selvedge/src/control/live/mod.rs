//! What is looked at live: one thread samples the target as long as somebody looks, and for a while longer, for all
//! viewers together. It keeps out who may look, which is the routes' to say.

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
#[cfg(test)]
mod tests;
mod tick;
pub(super) mod viewer;

pub(super) use findings::Findings;
pub(super) use history::HistoryAnswer;
pub(super) use packet_paths::Seen;
pub(super) use roster::Roster;
pub(super) use tick::Tick;
