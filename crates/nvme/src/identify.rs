//! Request and data structures of the Identify command.
//!
//! Which controller answers which CNS, with which status, is the target's business and not kept here.

mod controller;
mod descriptor;
mod list;
mod namespace;
mod own;
mod text;

pub mod bits;

pub use controller::{IdentifyController, IdentifyControllerNvm, PowerStateDescriptor};
pub use descriptor::{Descriptor, DescriptorError, Descriptors, NamespaceIdentifiers};
pub use list::{ControllerList, IoCommandSetList, ListError, NamespaceList};
pub use namespace::{IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat};
pub use text::{ascii, set_ascii};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Every Identify data structure is this long (Base 5.1.13).
pub const IDENTIFY_BYTES: usize = 4096;

/// The NSID that means all namespaces (Base 3.2.1.5).
pub const NSID_ALL: u32 = 0xFFFF_FFFF;

/// Gives wire structures whose arrays are too long for `derive(Default)` a default of all zeroes,
/// which is what the specification asks of reserved and unsupported fields.
macro_rules! zeroed_default {
    ($($name:ty),+ $(,)?) => {$(
        impl Default for $name {
            fn default() -> Self {
                <Self as zerocopy::FromZeros>::new_zeroed()
            }
        }
    )+};
}
pub(crate) use zeroed_default;

/// Controller or Namespace Structure: what an Identify command asks for (CNS, Base 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cns(pub u8);

impl Cns {
    /// Identify Namespace of the NVM Command Set (CNS 00h, NVM 4.1.5.1).
    pub const NAMESPACE: Self = Self(0x00);
    /// Identify Controller (CNS 01h, Base 5.1.13.2.1).
    pub const CONTROLLER: Self = Self(0x01);
    /// Active Namespace ID list (CNS 02h, Base 5.1.13.2.2).
    pub const ACTIVE_NAMESPACE_LIST: Self = Self(0x02);
    /// Namespace Identification Descriptor list (CNS 03h, Base 5.1.13.2.3).
    pub const NAMESPACE_DESCRIPTORS: Self = Self(0x03);
    /// I/O Command Set specific Identify Namespace (CNS 05h, Base 5.1.13).
    pub const COMMAND_SET_NAMESPACE: Self = Self(0x05);
    /// I/O Command Set specific Identify Controller (CNS 06h, Base 5.1.13).
    pub const COMMAND_SET_CONTROLLER: Self = Self(0x06);
    /// I/O Command Set specific Active Namespace ID list (CNS 07h, Base 5.1.13).
    pub const COMMAND_SET_ACTIVE_NAMESPACE_LIST: Self = Self(0x07);
    /// I/O Command Set Independent Identify Namespace (CNS 08h, Base 5.1.13, Figure 319).
    pub const INDEPENDENT_NAMESPACE: Self = Self(0x08);
    /// Allocated Namespace ID list (CNS 10h, Base 5.1.13.2.9).
    pub const ALLOCATED_NAMESPACE_LIST: Self = Self(0x10);
    /// Identify Namespace for an allocated NSID (CNS 11h, Base 5.1.13.2.10).
    pub const ALLOCATED_NAMESPACE: Self = Self(0x11);
    /// Controllers that have the namespace attached (CNS 12h, Base 5.1.13.2.11).
    pub const ATTACHED_CONTROLLER_LIST: Self = Self(0x12);
    /// Controllers of the subsystem (CNS 13h, Base 5.1.13.2.12).
    pub const CONTROLLER_LIST: Self = Self(0x13);
    /// I/O Command Set specific Allocated Namespace ID list (CNS 1Ah, Base 5.1.13).
    pub const COMMAND_SET_ALLOCATED_NAMESPACE_LIST: Self = Self(0x1A);
    /// I/O Command Set specific Identify Namespace for an allocated NSID (CNS 1Bh, Base 5.1.13).
    pub const COMMAND_SET_ALLOCATED_NAMESPACE: Self = Self(0x1B);
    /// I/O Command Sets the controller supports (CNS 1Ch, Base 5.1.13).
    pub const COMMAND_SET_LIST: Self = Self(0x1C);
    /// I/O Command Set Independent Identify Namespace for an allocated NSID (CNS 1Fh, Base 5.1.13).
    pub const INDEPENDENT_ALLOCATED_NAMESPACE: Self = Self(0x1F);
}

/// I/O command set (CSI, Base 5.1.13, Figure 311).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct CommandSet(pub u8);

impl CommandSet {
    /// NVM Command Set (CSI 00h).
    pub const NVM: Self = Self(0);
    /// Zoned Namespace Command Set (CSI 02h).
    pub const ZONED: Self = Self(2);
}

/// The parameters of an Identify command, without the NSID (Base 5.1.13, command dwords 10, 11 and 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdentifyRequest {
    /// Data structure that is asked for (CNS, CDW10 bits 7:0).
    pub cns: Cns,
    /// The controller it is about, for those CNS values that have one (CNTID, CDW10 bits 31:16).
    pub controller_id: u16,
    /// Identifier whose meaning the CNS value gives (CNSSID, CDW11 bits 15:0).
    pub specific_id: u16,
    /// I/O command set, for those CNS values that have one (CSI, CDW11 bits 31:24).
    pub command_set: CommandSet,
    /// Index into the UUID List, 0 for none (UIDX, CDW14 bits 6:0).
    pub uuid_index: u8,
}

impl IdentifyRequest {
    /// A request for `cns` with every other parameter zero.
    pub const fn new(cns: Cns) -> Self {
        Self { cns, controller_id: 0, specific_id: 0, command_set: CommandSet::NVM, uuid_index: 0 }
    }

    /// Reads the parameters; reserved bits are ignored.
    pub const fn decode(cdw10: u32, cdw11: u32, cdw14: u32) -> Self {
        Self {
            cns: Cns(cdw10 as u8),
            controller_id: (cdw10 >> 16) as u16,
            specific_id: cdw11 as u16,
            command_set: CommandSet((cdw11 >> 24) as u8),
            uuid_index: (cdw14 & 0x7F) as u8,
        }
    }

    /// Command dwords 10, 11 and 14.
    pub const fn encode(&self) -> (u32, u32, u32) {
        let cdw10 = self.cns.0 as u32 | (self.controller_id as u32) << 16;
        let cdw11 = self.specific_id as u32 | (self.command_set.0 as u32) << 24;
        (cdw10, cdw11, (self.uuid_index & 0x7F) as u32)
    }
}
