//! A network interface with its queues and what leads packets to them. What it is connected to is not here.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CpuSet, RuleScope};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index in its network namespace.
    pub index: u32,
    /// Kind of the interface.
    pub kind: InterfaceKind,
    /// Interfaces it stands on: a bond's members, a VLAN's parent, a bridge's ports.
    pub lower: Vec<String>,
    /// True if it is up and has a carrier.
    pub is_up: bool,
    /// Largest packet in bytes.
    pub mtu_bytes: u32,
    /// Speed of the link in Mbit/s, where it says one.
    pub speed_mbps: Option<u32>,
    /// Memory node of its device.
    pub node: Option<u16>,
    /// Driver of its device, where it has one.
    pub driver: Option<String>,
    /// Address of its device on the bus, as in `0000:3b:00.0`.
    pub bus_address: Option<String>,
    /// Queues as ethtool tells them, now and at most.
    pub channels: Option<Channels>,
    /// Receive side scaling, for packets without a rule.
    pub rss: Option<Rss>,
    /// Rules that send single flows to a queue; absent where it could not be asked.
    pub ntuple: Option<Ntuple>,
    /// Receive queues, by number.
    pub receive: Vec<ReceiveQueue>,
    /// Transmit queues, by number.
    pub transmit: Vec<TransmitQueue>,
}

/// Kinds of interfaces that are distinguished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceKind {
    /// A device on a bus; with virtio, a virtual machine's.
    Device,
    /// The machine itself.
    Loopback,
    /// End of a pair of virtual Ethernet devices.
    Veth,
    /// Several as one.
    Bond,
    /// A part of another, with a tag.
    Vlan,
    /// A switch.
    Bridge,
    /// End of a tunnel: its packets travel inside those of another interface.
    Tunnel,
    /// Anything else without a device.
    #[default]
    Virtual,
}

/// Numbers of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channels {
    /// Queues that receive and send.
    pub combined: QueueCount,
    /// Queues that only receive.
    pub receive: QueueCount,
    /// Queues that only send.
    pub transmit: QueueCount,
}

/// A number of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCount {
    /// Now.
    pub now: u32,
    /// At most.
    pub max: u32,
}

/// Receive side scaling: a packet's hash chooses an entry of a table, which names a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rss {
    /// The hash's key, as hexadecimal digits in JSON.
    #[serde(with = "super::toeplitz::key_text")]
    #[schemars(with = "String")]
    pub key: Vec<u8>,
    /// Receive queue for each value of hash modulo the table's length.
    pub table: Vec<u32>,
    /// The hash.
    pub function: RssFunction,
    /// Hashed fields of a TCP packet over IPv4.
    pub tcp4: RssFields,
    /// Hashed fields of a TCP packet over IPv6.
    pub tcp6: RssFields,
    /// True if both directions of a flow get one hash, by a transformation that Selvedge does not
    /// compute.
    #[serde(default)]
    pub is_symmetric: bool,
}

/// Hashes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RssFunction {
    /// Microsoft's, with a key.
    #[default]
    Toeplitz,
    /// Exclusive or of all bytes.
    Xor,
    /// CRC32.
    Crc32,
    /// The kernel does not say.
    Unknown,
}

/// Hashed fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RssFields {
    /// Both addresses and both ports.
    #[default]
    AddressesAndPorts,
    /// Both addresses only.
    Addresses,
    /// No field, so that the first entry of the table is used.
    Nothing,
    /// Something else, or the driver does not say.
    Unknown,
}

/// Rules for single flows (ethtool's n-tuple filters).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ntuple {
    /// True if the device supports them.
    pub is_supported: bool,
    /// True if they are switched on.
    pub is_enabled: bool,
    /// True if the switch can be moved.
    pub is_switchable: bool,
    /// Number of places for rules, where the driver tells; locations are below it.
    pub places: Option<u32>,
    /// Rules there are.
    pub rules: Vec<NtupleRule>,
}

/// A rule that sends packets to a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NtupleRule {
    /// Location of the rule.
    pub location: u32,
    /// The packet's source and destination, where the rule names exactly one TCP flow; absent for any other rule.
    pub flow: Option<(SocketAddr, SocketAddr)>,
    /// Receive queue; absent where the rule does something else (drops, another context).
    pub queue: Option<u32>,
    /// Packets that the rule is for, if it does not name exactly one TCP flow.
    #[serde(default, skip_serializing_if = "RuleScope::is_unknown")]
    pub scope: RuleScope,
}

/// A receive queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiveQueue {
    /// Index of the queue.
    pub index: u32,
    /// Interrupt of the queue, where it has one of its own (which a transmit queue may share).
    pub interrupt: Option<Interrupt>,
    /// Processors that packets are spread over after the interrupt (RPS); none when off.
    pub rps: CpuSet,
    /// Flows that are remembered for the processor that reads them (RFS); 0 when off.
    pub rps_flows: u32,
}

/// A transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransmitQueue {
    /// Index of the queue.
    pub index: u32,
    /// Interrupt of the queue, where it has one.
    pub interrupt: Option<Interrupt>,
    /// Processors that send by it (XPS); absent where the system has no such thing for this interface.
    pub xps: Option<CpuSet>,
}

/// An interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupt {
    /// Number of the interrupt.
    pub irq: u32,
    /// Name in /proc/interrupts.
    pub name: String,
    /// Processors that may serve it.
    pub affinity: CpuSet,
    /// Processors that do, where the system tells.
    pub effective: Option<CpuSet>,
    /// Number of interrupts, on all processors.
    pub count: u64,
}

impl Interrupt {
    /// The processor that serves it, where it is one.
    pub fn cpu(&self) -> Option<u32> {
        self.effective.as_ref().and_then(CpuSet::only).or_else(|| self.affinity.only())
    }
}
