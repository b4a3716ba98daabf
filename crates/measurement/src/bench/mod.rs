//! A workload on a namespace: made, run, measured and verified through the engine's initiator. What it is asked to
//! do is `config::workload`'s, how its results look is `report`'s.

pub mod auto_queues;
pub mod histogram;
pub mod job;
pub(crate) mod latency_map;
pub(crate) mod ledger;
pub mod matching;
pub mod paths;
pub mod process;
mod queue_file;
pub mod run;
pub mod sample;
pub(crate) mod slot_sequence;
pub(crate) mod stamp;
pub mod state;
pub mod target_stages;
pub mod throughput;
mod worker;
