//! The Fabrics commands: Connect, Property Get and Set, Disconnect, and the properties of a controller.
//! It holds no controller state; what a property's value does belongs to the target.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::command::admin_opcode;
use crate::{Status, SubmissionEntry};

/// Types of Fabrics commands (FCTYPE, Base 6).
pub mod fabrics_type {
    /// Property Set.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Connect.
    pub const CONNECT: u8 = 0x01;
    /// Property Get.
    pub const PROPERTY_GET: u8 = 0x04;
    /// Authentication Send.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Authentication Receive.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// Disconnect.
    pub const DISCONNECT: u8 = 0x08;
}

/// Offsets of the controller properties (Base 3.1.4).
pub mod property {
    /// Controller Capabilities (CAP), 8 bytes.
    pub const CAPABILITIES: u32 = 0x00;
    /// Version (VS), 4 bytes.
    pub const VERSION: u32 = 0x08;
    /// Controller Configuration (CC), 4 bytes.
    pub const CONFIGURATION: u32 = 0x14;
    /// Controller Status (CSTS), 4 bytes.
    pub const STATUS: u32 = 0x1c;
    /// NVM Subsystem Reset (NSSR), 4 bytes.
    pub const SUBSYSTEM_RESET: u32 = 0x20;
    /// Controller Ready Timeouts (CRTO), 4 bytes.
    pub const READY_TIMEOUTS: u32 = 0x68;
}

/// NVMe 2.0 as the Version property and the VER field have it.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Bits of Controller Configuration (CC, Base 3.1.4.5).
pub mod configuration {
    /// Enable (EN).
    pub const ENABLE: u32 = 1;
    /// I/O Command Set Selected (CSS), bits 6:4.
    pub const COMMAND_SET_SHIFT: u32 = 4;
    /// All supported I/O command sets (CSS 110b).
    pub const COMMAND_SET_ALL: u32 = 6;
    /// Memory Page Size (MPS), bits 10:7: the page is 2^(12 + MPS) bytes.
    pub const PAGE_SIZE_SHIFT: u32 = 7;
    /// Arbitration Mechanism Selected (AMS), bits 13:11.
    pub const ARBITRATION_SHIFT: u32 = 11;
    /// Shutdown Notification (SHN), bits 15:14.
    pub const SHUTDOWN_MASK: u32 = 3 << 14;
    /// Normal shutdown (SHN 01b).
    pub const SHUTDOWN_NORMAL: u32 = 1 << 14;
    /// Abrupt shutdown (SHN 10b).
    pub const SHUTDOWN_ABRUPT: u32 = 2 << 14;
    /// I/O submission queue entry size (IOSQES): 64 bytes are 6.
    pub const SUBMISSION_ENTRY_SIZE: u32 = 6 << 16;
    /// I/O completion queue entry size (IOCQES): 16 bytes are 4.
    pub const COMPLETION_ENTRY_SIZE: u32 = 4 << 20;
}

/// Bits of Controller Status (CSTS, Base 3.1.4.6).
pub mod controller_status {
    /// Ready (RDY).
    pub const READY: u32 = 1;
    /// Controller Fatal Status (CFS).
    pub const FATAL: u32 = 2;
    /// Shutdown processing under way (SHST 01b).
    pub const SHUTDOWN_OCCURRING: u32 = 1 << 2;
    /// Shutdown processing complete (SHST 10b).
    pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;
    /// Shutdown Status (SHST), bits 3:2.
    pub const SHUTDOWN_MASK: u32 = 3 << 2;
}

/// Controller capabilities (CAP, Base 3.1.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Capabilities with `queue_entries` as the largest queue (MQES), contiguous queues required (CQR), a
    /// time-out in units of 500 ms (TO), the NVM command set and the all-sets selection (CSS bits 0 and 6),
    /// and readiness with media (CRMS bit 0), whose time-out is in CRTO.
    pub const fn new(queue_entries: u16, timeout_500ms: u8) -> Self {
        let (css, crms) = ((1u64 << 37) | (1 << 43), 1u64 << 59);
        Self((queue_entries as u64 - 1) | 1 << 16 | (timeout_500ms as u64) << 24 | css | crms)
    }

    /// The most entries a queue may have (MQES, made 1's based).
    pub const fn queue_entries_max(self) -> u32 {
        (self.0 & 0xffff) as u32 + 1
    }

    /// Longest time until the controller is ready, in milliseconds (TO).
    pub const fn ready_timeout_ms(self) -> u32 {
        ((self.0 >> 24) & 0xff) as u32 * 500
    }

    /// True if the controller is ready only when its media are, within the time in CRTO (CRMS bit 0: CRWMS).
    pub const fn is_ready_with_media(self) -> bool {
        self.0 & (1 << 59) != 0
    }

    /// True if all supported I/O command sets can be selected (CSS bit 6: IOCSS).
    pub const fn selects_command_sets(self) -> bool {
        self.0 & (1 << 43) != 0
    }
}

/// The Connect command (Base 6.3): creates a queue, and with queue 0 a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Record format: 0 is the only one (RECFMT).
    pub record_format: u16,
    /// Queue identifier: 0 is the admin queue (QID).
    pub queue_id: u16,
    /// Entries of the submission queue, 0's based (SQSIZE).
    pub queue_size: u16,
    /// Attributes (CATTR): bit 2 disables submission queue flow control.
    pub attributes: u8,
    /// Keep alive time-out in milliseconds, 0 for none (KATO).
    pub keep_alive_ms: u32,
}

impl Connect {
    /// CATTR bit 2: the host asks for no submission queue flow control.
    pub const DISABLE_FLOW_CONTROL: u8 = 1 << 2;

    /// Reads the command out of `entry`.
    pub fn decode(entry: &SubmissionEntry) -> Self {
        let (cdw10, cdw11) = (entry.cdw10.get(), entry.cdw11.get());
        Self {
            record_format: cdw10 as u16,
            queue_id: (cdw10 >> 16) as u16,
            queue_size: cdw11 as u16,
            attributes: (cdw11 >> 16) as u8,
            keep_alive_ms: entry.cdw12.get(),
        }
    }

    /// The entry of this command, its 1,024 bytes of data within the capsule.
    pub fn encode(&self) -> SubmissionEntry {
        let mut entry = fabrics(fabrics_type::CONNECT);
        entry.data = crate::SglDescriptor::in_capsule(size_of::<ConnectData>() as u32);
        entry.cdw10 = U32::new(u32::from(self.record_format) | u32::from(self.queue_id) << 16);
        entry.cdw11 = U32::new(u32::from(self.queue_size) | u32::from(self.attributes) << 16);
        entry.cdw12 = U32::new(self.keep_alive_ms);
        entry
    }
}

/// Controller identifier that asks for a new controller (dynamic controller model).
pub const CONTROLLER_ID_ANY: u16 = 0xffff;

/// The data of a Connect command, 1,024 bytes (Base 6.3).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// Host identifier (HOSTID).
    pub host_id: [u8; 16],
    /// Controller identifier: `CONTROLLER_ID_ANY` with the admin queue, else the association's (CNTLID).
    pub controller_id: U16,
    reserved: [u8; 238],
    /// NQN of the subsystem, padded with NUL (SUBNQN).
    pub subsystem_nqn: [u8; 256],
    /// NQN of the host, padded with NUL (HOSTNQN).
    pub host_nqn: [u8; 256],
    reserved_end: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == 1024);

impl ConnectData {
    /// Data that connects `host_nqn` to `subsystem_nqn`. Names over 255 bytes are cut, which the target
    /// refuses.
    pub fn new(host_id: [u8; 16], controller_id: u16, subsystem_nqn: &str, host_nqn: &str) -> Self {
        let mut data = Self::new_zeroed();
        data.host_id = host_id;
        data.controller_id = U16::new(controller_id);
        for (field, name) in [(&mut data.subsystem_nqn, subsystem_nqn), (&mut data.host_nqn, host_nqn)] {
            let length = name.len().min(field.len() - 1);
            field[..length].copy_from_slice(&name.as_bytes()[..length]);
        }
        data
    }
}

/// Position of the wrong parameter of a Connect command: the result of "Connect Invalid
/// Parameters".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidParameter {
    /// In the submission entry, at this byte.
    Entry(u16),
    /// In the data, at this byte.
    Data(u16),
}

impl InvalidParameter {
    /// Byte of the record format in the entry.
    pub const RECORD_FORMAT: Self = Self::Entry(40);
    /// Byte of the queue identifier in the entry.
    pub const QUEUE_ID: Self = Self::Entry(42);
    /// Byte of the queue size in the entry.
    pub const QUEUE_SIZE: Self = Self::Entry(44);
    /// Byte of the host identifier in the data.
    pub const HOST_ID: Self = Self::Data(0);
    /// Byte of the controller identifier in the data.
    pub const CONTROLLER_ID: Self = Self::Data(16);
    /// Byte of the subsystem's name in the data.
    pub const SUBSYSTEM_NQN: Self = Self::Data(256);
    /// Byte of the host's name in the data.
    pub const HOST_NQN: Self = Self::Data(512);

    /// The result field: offset (IPO) and whether it is within the data (IATTR).
    pub const fn encode(self) -> u32 {
        match self {
            Self::Entry(offset) => offset as u32,
            Self::Data(offset) => offset as u32 | 1 << 16,
        }
    }

    /// The reverse of `encode`.
    pub const fn decode(result: u32) -> Self {
        if result & (1 << 16) != 0 { Self::Data(result as u16) } else { Self::Entry(result as u16) }
    }

    /// The field's name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RECORD_FORMAT => "record format",
            Self::QUEUE_ID => "queue identifier",
            Self::QUEUE_SIZE => "queue size",
            Self::HOST_ID => "host identifier",
            Self::CONTROLLER_ID => "controller identifier",
            Self::SUBSYSTEM_NQN => "subsystem NQN",
            Self::HOST_NQN => "host NQN",
            _ => "field",
        }
    }
}

/// Property Get and Property Set (Base 6.5, 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyAccess {
    /// Offset of the property in bytes (OFST).
    pub offset: u32,
    /// True if it is 8 bytes wide, else 4 (ATTRIB).
    pub wide: bool,
    /// The value to set; 0 in a get.
    pub value: u64,
}

impl PropertyAccess {
    /// Reads the command out of `entry`.
    ///
    /// # Errors
    /// Invalid Field for a width that is neither 4 nor 8 bytes.
    pub fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let wide = match entry.cdw10.get() & 7 {
            0 => false,
            1 => true,
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        };
        // For a property of 4 bytes the upper half is reserved, and what is reserved is not looked at.
        let high = if wide { u64::from(entry.cdw13.get()) } else { 0 };
        Ok(Self { offset: entry.cdw11.get(), wide, value: u64::from(entry.cdw12.get()) | high << 32 })
    }

    /// The entry of a Property Get.
    pub fn encode_get(&self) -> SubmissionEntry {
        let mut entry = fabrics(fabrics_type::PROPERTY_GET);
        entry.cdw10 = U32::new(u32::from(self.wide));
        entry.cdw11 = U32::new(self.offset);
        entry
    }

    /// The entry of a Property Set.
    pub fn encode_set(&self) -> SubmissionEntry {
        let mut entry = self.encode_get();
        entry.nsid = U32::new(u32::from(fabrics_type::PROPERTY_SET));
        entry.cdw12 = U32::new(self.value as u32);
        entry.cdw13 = U32::new((self.value >> 32) as u32);
        entry
    }
}

/// The entry of a Disconnect command (Base 6.4), which ends one I/O queue.
pub fn disconnect() -> SubmissionEntry {
    fabrics(fabrics_type::DISCONNECT)
}

pub(crate) fn fabrics(kind: u8) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::FABRICS, u32::from(kind));
    entry.metadata = U64::ZERO;
    entry
}
