//! What stands between a storage queue and a processor: flow → NIC queue → interrupt → CPU → worker, as data. Seeing
//! it, planning a better one, applying that and undoing it. What a person reads of it is the program's.

pub mod apply;
mod connection;
mod course;
mod cpu_set;
mod ethtool;
mod ethtool_ioctl;
mod flow;
mod interface;
mod kernel_choice;
mod kernel_log;
mod kernel_route;
mod limit_line;
pub mod limits;
mod link;
mod machine;
pub mod model;
mod netlink;
mod observe;
pub mod plan;
pub mod process_stat;
mod processors;
mod queue_placement;
#[cfg(test)]
mod queue_placement_tests;
mod rule;
mod rule_scope;
mod ruling;
#[doc(hidden)]
pub mod sample;
mod socket;
mod toeplitz;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use connection::Connection;
pub use course::{Leg, Steering, course, legs, receive_queue};
pub use cpu_set::{CpuSet, CpuSetError};
pub use ethtool::{delete_rule, insert_rule, set_channels, set_ntuple, set_rss_table};
pub use flow::{Flow, FlowOwner, FlowSource, Worker};
pub use interface::{
    Channels, Interface, InterfaceKind, Interrupt, Ntuple, NtupleRule, QueueCount, ReceiveQueue, Rss,
    RssFields, RssFunction, TransmitQueue,
};
pub use kernel_choice::{KernelChoice, KernelController, KernelQueues};
pub use kernel_log::{KernelLog, KernelRecord};
pub use kernel_route::{InterfaceAddress, KernelRoute};
pub use limit_line::{LimitLine, QueueCreation};
pub use link::{Coalescing, LinkModes, LinkSettings, Queueing};
pub use machine::{
    EthtoolAnswers, FormerAnswers, Machine, MachineError, Recording, RecordingError, Refusal, Sockets,
};
pub use observe::{Distances, ObserveError, Waited, observe, observe_own, waited_times};
pub use processors::{Node, Processors};
pub use queue_placement::{PlaceRequest, Placement, QueuePlacement, place};
pub use rule::{QueueLimit, queue_limit};
pub use rule_scope::{MaskedEnd, RuleScope};
pub use ruling::Ruling;
pub use socket::{Socket, SocketState};
pub use toeplitz::{KEY_BYTES, hash, hash_addresses};

/// State of a machine, or of a recording of one, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// The processors.
    pub processors: Processors,
    /// Network interfaces, by index.
    pub interfaces: Vec<Interface>,
    /// Connections of NVMe/TCP queues.
    pub flows: Vec<Flow>,
    /// Controllers of the kernel's initiator over TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_controllers: Vec<KernelController>,
    /// Process of a running `irqbalance`, which would undo affinities of interrupts.
    pub irqbalance: Option<u32>,
    /// Parts that could not be read, with the reason.
    pub shortfalls: Vec<Shortfall>,
}

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// File, or question to the kernel.
    pub what: String,
    /// Why not, in the system's words.
    pub reason: String,
    /// True if root would see it.
    pub needs_root: bool,
}

/// I/O queues of one controller that go by one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitiatorQueues<'a> {
    /// The controller.
    pub controller: &'a str,
    /// The initiator's process; absent for the kernel's.
    pub pid: Option<u32>,
    /// The interface, where it is known.
    pub interface: Option<&'a str>,
    /// The flows, as indices into the topology's.
    pub flows: Vec<usize>,
}

impl Topology {
    /// The I/O queues of each controller of an initiator, over each interface: the flows' indices. How many queues there
    /// are is a host's to say, so those of targets on this machine do not count.
    pub fn initiators(&self) -> Vec<InitiatorQueues<'_>> {
        let mut found: Vec<InitiatorQueues<'_>> = Vec::new();
        for (index, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.is_io()) {
            let pid = match flow.owner {
                FlowOwner::Target { .. } => continue,
                FlowOwner::Initiator { pid } => Some(pid),
                FlowOwner::Kernel => None,
            };
            let interface = flow.interface.as_deref();
            let key = (flow.controller.as_str(), pid, interface);
            match found.iter_mut().find(|known| (known.controller, known.pid, known.interface) == key) {
                Some(known) => known.flows.push(index),
                None => found.push(InitiatorQueues {
                    controller: &flow.controller,
                    pid,
                    interface,
                    flows: vec![index],
                }),
            }
        }
        found
    }

    /// The interface with this name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}
