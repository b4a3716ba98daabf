//! The submission queue entry and its data descriptor, as every command carries them.
//! What the command dwords mean belongs to `io`, `fabrics`, `identify`, `log_page`, `features` and `cross_reset`.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Status;

/// Opcodes of the admin command set (Base 5).
pub mod admin_opcode {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Namespace Management.
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Firmware Image Download.
    pub const FIRMWARE_DOWNLOAD: u8 = 0x11;
    /// Namespace Attachment.
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
    /// Directive Receive.
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    /// Cross-Controller Reset (Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET: u8 = 0x38;
    /// Get LBA Status.
    pub const GET_LBA_STATUS: u8 = 0x86;
    /// Fabrics commands, distinguished by their type (FCTYPE).
    pub const FABRICS: u8 = 0x7f;
}

/// Opcodes of the NVM command set (NVM 3).
pub mod io_opcode {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Uncorrectable.
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    /// Compare.
    pub const COMPARE: u8 = 0x05;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Verify.
    pub const VERIFY: u8 = 0x0c;
    /// Reservation Register.
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    /// Reservation Report.
    pub const RESERVATION_REPORT: u8 = 0x0e;
    /// Reservation Acquire.
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    /// Reservation Release.
    pub const RESERVATION_RELEASE: u8 = 0x15;
    /// Copy.
    pub const COPY: u8 = 0x19;
}

const PSDT_MASK: u8 = 0xc0;
const PSDT_SGL: u8 = 0x40;
const FUSE_MASK: u8 = 0x03;

/// A submission queue entry, 64 bytes (SQE, Base 4.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SubmissionEntry {
    /// Opcode (OPC).
    pub opcode: u8,
    /// Fused operation (FUSE, bits 1:0) and kind of data pointer (PSDT, bits 7:6).
    pub flags: u8,
    /// Command identifier (CID).
    pub command_id: U16,
    /// Namespace identifier (NSID). In a Fabrics command its first byte is the type (FCTYPE).
    pub nsid: U32,
    /// Command dword 2.
    pub cdw2: U32,
    /// Command dword 3.
    pub cdw3: U32,
    /// Metadata pointer (MPTR): unused over TCP.
    pub metadata: U64,
    /// Place of the data (DPTR, SGL1).
    pub data: SglDescriptor,
    /// Command dword 10.
    pub cdw10: U32,
    /// Command dword 11.
    pub cdw11: U32,
    /// Command dword 12.
    pub cdw12: U32,
    /// Command dword 13.
    pub cdw13: U32,
    /// Command dword 14.
    pub cdw14: U32,
    /// Command dword 15.
    pub cdw15: U32,
}

const _: () = assert!(size_of::<SubmissionEntry>() == 64);

/// An SGL descriptor, 16 bytes (Base 4.3.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SglDescriptor {
    /// Address, or offset within the capsule's data.
    pub address: U64,
    /// Length of the data in bytes.
    pub length: U32,
    reserved: [u8; 3],
    /// Type (bits 7:4) and subtype (bits 3:0).
    pub kind: u8,
}

/// Way of a command's data on NVMe/TCP (TCP 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointer {
    /// Within the command capsule, `length` bytes from its data byte number `offset` on.
    InCapsule {
        /// Offset from the first data byte of the capsule: ICDOFF is 0.
        offset: u32,
        /// Length in bytes.
        length: u32,
    },
    /// In data PDUs of its own, `length` bytes.
    Transport {
        /// Length in bytes.
        length: u32,
    },
}

impl DataPointer {
    /// Length of the data in bytes.
    pub const fn length(self) -> u32 {
        match self {
            DataPointer::InCapsule { length, .. } | DataPointer::Transport { length } => length,
        }
    }

    /// Offset of the data among the `data_length` bytes that the capsule carries, `None` if it is
    /// not there. It has to reach to their end: a capsule that is longer than its descriptor says
    /// is one that its host has got wrong.
    ///
    /// # Errors
    /// The status for a descriptor that does not fit the capsule.
    pub const fn place_in_capsule(self, data_length: usize) -> Result<Option<usize>, Status> {
        let (start, end) = match self {
            DataPointer::InCapsule { offset, length } => (offset as usize, offset as usize + length as usize),
            DataPointer::Transport { .. } => (0, 0),
        };
        if start > 0 && end > data_length {
            return Err(Status::SGL_OFFSET_INVALID.do_not_retry());
        }
        if end != data_length {
            return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        }
        Ok(if matches!(self, DataPointer::InCapsule { .. }) { Some(start) } else { None })
    }
}

impl SglDescriptor {
    const NONE: u8 = 0x00;
    const IN_CAPSULE: u8 = 0x01;
    const TRANSPORT: u8 = 0x5a;

    /// A descriptor of `length` bytes of data within the capsule.
    pub const fn in_capsule(length: u32) -> Self {
        Self::in_capsule_at(0, length)
    }

    /// A descriptor of the `length` bytes of data within the capsule that come after `offset` others.
    pub const fn in_capsule_at(offset: u32, length: u32) -> Self {
        let address = U64::new(offset as u64);
        Self { address, length: U32::new(length), reserved: [0; 3], kind: Self::IN_CAPSULE }
    }

    /// A descriptor of `length` bytes that travel in data PDUs.
    pub const fn transport(length: u32) -> Self {
        Self { address: U64::ZERO, length: U32::new(length), reserved: [0; 3], kind: Self::TRANSPORT }
    }

    /// True if it says "no data" in another way than a Transport SGL Data Block of no length, or a
    /// descriptor that is all zeroes.
    pub const fn is_empty_of_another_type(&self) -> bool {
        self.length.get() == 0 && !matches!(self.kind, Self::TRANSPORT | Self::NONE)
    }

    /// Decodes the descriptor as one of the two. A descriptor of no length may be of any type.
    ///
    /// # Errors
    /// The status for a descriptor of another type, or with an offset that no capsule has.
    pub const fn decode(&self) -> Result<DataPointer, Status> {
        let length = self.length.get();
        match self.kind {
            // Of no bytes it does not matter where they are (Base 4.3.2.1): there are hosts with each type.
            _ if length == 0 => Ok(DataPointer::Transport { length }),
            Self::TRANSPORT => Ok(DataPointer::Transport { length }),
            Self::IN_CAPSULE if self.address.get() > u32::MAX as u64 => {
                Err(Status::SGL_OFFSET_INVALID.do_not_retry())
            }
            Self::IN_CAPSULE => Ok(DataPointer::InCapsule { offset: self.address.get() as u32, length }),
            _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        }
    }
}

impl SubmissionEntry {
    /// An entry with `opcode` for namespace `nsid`, all else zero, its data pointer being an SGL as fabrics
    /// ask.
    pub fn new(opcode: u8, nsid: u32) -> Self {
        Self { opcode, flags: PSDT_SGL, nsid: U32::new(nsid), ..Self::default() }
    }

    /// True if the data pointer is an SGL, the only kind that fabrics know (PSDT 01b).
    pub const fn uses_sgl(&self) -> bool {
        self.flags & PSDT_MASK == PSDT_SGL
    }

    /// The fused operation bits (FUSE): 0 is a command of its own.
    pub const fn fused(&self) -> u8 {
        self.flags & FUSE_MASK
    }

    /// Type of a Fabrics command (FCTYPE).
    pub fn fabrics_type(&self) -> u8 {
        self.nsid.get() as u8
    }

    /// Command dwords 10 and 11 as one number, such as a starting block (SLBA).
    pub const fn cdw10_11(&self) -> u64 {
        self.cdw10.get() as u64 | (self.cdw11.get() as u64) << 32
    }

    /// The descriptor of the data, decoded.
    ///
    /// # Errors
    /// The status for an entry that uses PRPs or a descriptor that NVMe/TCP does not know.
    pub const fn data_pointer(&self) -> Result<DataPointer, Status> {
        if !self.uses_sgl() {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        self.data.decode()
    }
}
