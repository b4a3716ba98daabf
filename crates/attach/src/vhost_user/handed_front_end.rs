//! A vhost-user front end as it is handed over to another process: data alone, as it is written and read. Descriptors go beside
//! it, in the order of what they are for.

use serde::{Deserialize, Serialize};

use crate::handed_client::HandedDisk;

/// All sockets of a server, each with the front end that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedVhostServer {
    /// The sockets, in the order of the namespaces.
    #[serde(rename = "doors")]
    pub sockets: Vec<HandedSocket>,
}

/// A socket for front ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedSocket {
    /// Disk as the front end knows it.
    pub disk: HandedDisk,
    /// The one that is there.
    pub front_end: Option<HandedFrontEnd>,
    /// Descriptors that go with it.
    pub descriptors: usize,
}

/// A front end. Its descriptors: the connection, the channel for notices, regions of memory, the in-flight region, then of each
/// virtqueue those by which it is kicked and called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedFrontEnd {
    /// The features that were agreed on, virtio's and the protocol's.
    pub features: u64,
    /// The same of the protocol.
    pub protocol_features: u64,
    /// The size that it knows the disk by, once it has asked.
    pub known_bytes: Option<u64>,
    /// True if it has a channel for notices.
    pub has_channel: bool,
    /// The memory that it shares.
    pub memory: Vec<HandedRegion>,
    /// Requests under way, in memory that it keeps.
    pub inflight: Option<HandedInflight>,
    /// Virtqueues that the front end has set up.
    pub vrings: Vec<HandedVring>,
}

/// A region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedRegion {
    /// Address in the guest.
    pub guest: u64,
    /// Address in the front end.
    pub front_end: u64,
    /// Bytes.
    pub size: u64,
    /// Offset in its file.
    pub offset: u64,
}

/// The in-flight region, as the front end has described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedInflight {
    /// Bytes.
    pub size: u64,
    /// Offset in its file.
    pub offset: u64,
    /// Virtqueues.
    pub vrings: u16,
    /// Entries of each.
    pub entries: u16,
}

/// A virtqueue of which nothing is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedVring {
    /// Number of the virtqueue.
    pub index: usize,
    /// Entries it has.
    pub entries: u16,
    /// Descriptors, available ring and used ring, by the addresses of the front end.
    pub tables: Option<[u64; 3]>,
    /// The next entry of the available ring.
    pub next_avail: u16,
    /// True if the guest may use it.
    pub is_enabled: bool,
    /// True if it has a descriptor by which it is kicked.
    pub has_kick: bool,
    /// True if it has a descriptor by which the guest is called.
    pub has_call: bool,
}
