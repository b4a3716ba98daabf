//! A workload on a namespace: made, run, measured and verified through the engine's initiator. What it is asked to
//! do is `config::workload`'s, how its results look is `report`'s.

pub(crate) mod auto_queues;
pub(crate) mod histogram;
pub(crate) mod job;
pub(crate) mod latency_map;
pub(crate) mod ledger;
pub(crate) mod matching;
pub(crate) mod process;
mod queue_file;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod slot_sequence;
pub(crate) mod stamp;
pub(crate) mod state;
pub(crate) mod target_stages;
pub(crate) mod throughput;
mod worker;
