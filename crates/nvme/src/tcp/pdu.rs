//! The headers of the NVMe/TCP PDUs, as they stand on the wire.
//! Which PDU may come when, and what its data is, belongs to `receive` and `transfer`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CompletionEntry, SubmissionEntry};

/// Type of a PDU (PDU-Type, TCP 3.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PduType {
    /// ICReq: the host opens the connection.
    InitializeRequest = 0x00,
    /// ICResp: the controller accepts it.
    InitializeResponse = 0x01,
    /// H2CTermReq: the host ends the connection because of an error.
    HostTerminate = 0x02,
    /// C2HTermReq: the controller ends the connection because of an error.
    ControllerTerminate = 0x03,
    /// CapsuleCmd: a command.
    CapsuleCommand = 0x04,
    /// CapsuleResp: a completion.
    CapsuleResponse = 0x05,
    /// H2CData: data to the controller.
    DataToController = 0x06,
    /// C2HData: data to the host.
    DataToHost = 0x07,
    /// R2T: the controller asks for data.
    ReadyToTransfer = 0x09,
}

impl PduType {
    /// The type with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x00 => Self::InitializeRequest,
            0x01 => Self::InitializeResponse,
            0x02 => Self::HostTerminate,
            0x03 => Self::ControllerTerminate,
            0x04 => Self::CapsuleCommand,
            0x05 => Self::CapsuleResponse,
            0x06 => Self::DataToController,
            0x07 => Self::DataToHost,
            0x09 => Self::ReadyToTransfer,
            _ => return None,
        })
    }

    /// Length of the type's header in bytes, without digest (HLEN).
    pub const fn header_length(self) -> usize {
        match self {
            Self::InitializeRequest | Self::InitializeResponse => size_of::<Initialize>(),
            Self::HostTerminate | Self::ControllerTerminate => size_of::<Terminate>(),
            Self::CapsuleCommand => size_of::<CapsuleCommand>(),
            Self::CapsuleResponse => size_of::<CapsuleResponse>(),
            Self::DataToController | Self::DataToHost => size_of::<DataPdu>(),
            Self::ReadyToTransfer => size_of::<ReadyToTransfer>(),
        }
    }

    /// True if a PDU of this type may carry data.
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::CapsuleCommand | Self::DataToController | Self::DataToHost)
    }

    /// True if digests never apply to the type.
    pub const fn is_without_digest(self) -> bool {
        matches!(
            self,
            Self::InitializeRequest
                | Self::InitializeResponse
                | Self::HostTerminate
                | Self::ControllerTerminate
        )
    }
}

/// Bits of the common header's flags.
pub mod flags {
    /// A header digest follows the header (HDGSTF).
    pub const HEADER_DIGEST: u8 = 1;
    /// A data digest follows the data (DDGSTF).
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last data PDU of a transfer (LAST_PDU).
    pub const LAST: u8 = 1 << 2;
    /// The command succeeded, no response PDU follows (SUCCESS).
    pub const SUCCESS: u8 = 1 << 3;
}

/// The common header of all PDUs, 8 bytes (CH, TCP 3.6.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CommonHeader {
    /// Type (PDU-Type).
    pub kind: u8,
    /// Flags (FLAGS).
    pub flags: u8,
    /// Length of the header without digest (HLEN).
    pub header_length: u8,
    /// Offset of the data within the PDU (PDO).
    pub data_offset: u8,
    /// Length of the whole PDU in bytes (PLEN).
    pub pdu_length: U32,
}

impl CommonHeader {
    /// A header for a PDU of `kind` that has only its header.
    pub const fn new(kind: PduType, flags: u8) -> Self {
        let length = kind.header_length();
        Self {
            kind: kind as u8,
            flags,
            header_length: length as u8,
            data_offset: 0,
            pdu_length: U32::new(length as u32),
        }
    }
}

/// ICReq and ICResp, 128 bytes (TCP 3.6.2.2, 3.6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// Common header.
    pub common: CommonHeader,
    /// PDU format version: 0 (PFV).
    pub format_version: U16,
    /// Alignment of data that the sender wants, 0's based dwords (HPDA, CPDA).
    pub data_alignment: u8,
    /// Digests: bit 0 header, bit 1 data (DGST).
    pub digests: u8,
    /// ICReq: most R2Ts outstanding per command, 0's based (MAXR2T). ICResp: most bytes of an H2CData PDU
    /// (MAXH2CDATA).
    pub limit: U32,
    reserved: [u8; 112],
}

impl Initialize {
    /// An ICReq or ICResp of format version 0.
    pub const fn new(kind: PduType, digests: u8, limit: u32) -> Self {
        Self {
            common: CommonHeader::new(kind, 0),
            format_version: U16::ZERO,
            data_alignment: 0,
            digests,
            limit: U32::new(limit),
            reserved: [0; 112],
        }
    }
}

/// CapsuleCmd, 72 bytes and then in-capsule data (TCP 3.6.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CapsuleCommand {
    /// Common header.
    pub common: CommonHeader,
    /// The submission queue entry.
    pub entry: SubmissionEntry,
}

/// CapsuleResp, 24 bytes (TCP 3.6.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CapsuleResponse {
    /// Common header.
    pub common: CommonHeader,
    /// The completion queue entry.
    pub entry: CompletionEntry,
}

/// The header of H2CData and C2HData, 24 bytes (TCP 3.6.2.8, 3.6.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataPdu {
    /// Common header.
    pub common: CommonHeader,
    /// The command whose data this is (CCCID).
    pub command_id: U16,
    /// H2CData: the tag of the R2T it answers (TTAG).
    pub transfer_tag: U16,
    /// Offset of the data from the start of the command's data (DATAO).
    pub offset: U32,
    /// Length of the data in bytes (DATAL).
    pub length: U32,
    reserved: [u8; 4],
}

impl DataPdu {
    /// A data header; lengths of the common header are filled in when it is framed.
    pub const fn new(kind: PduType, flags: u8, command_id: u16, tag: u16, offset: u32, length: u32) -> Self {
        Self {
            common: CommonHeader::new(kind, flags),
            command_id: U16::new(command_id),
            transfer_tag: U16::new(tag),
            offset: U32::new(offset),
            length: U32::new(length),
            reserved: [0; 4],
        }
    }

    /// True if it is the last of its transfer.
    pub const fn is_last(&self) -> bool {
        self.common.flags & flags::LAST != 0
    }

    /// True if it completes its command with success.
    pub const fn is_success(&self) -> bool {
        self.common.flags & flags::SUCCESS != 0
    }
}

/// R2T, 24 bytes (TCP 3.6.2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ReadyToTransfer {
    /// Common header.
    pub common: CommonHeader,
    /// The command whose data is asked for (CCCID).
    pub command_id: U16,
    /// The tag that the data has to carry (TTAG).
    pub transfer_tag: U16,
    /// Offset of the asked data (R2TO).
    pub offset: U32,
    /// Length of the asked data in bytes (R2TL).
    pub length: U32,
    reserved: [u8; 4],
}

impl ReadyToTransfer {
    /// Asks for `length` bytes at `offset` of the data of `command_id`.
    pub const fn new(command_id: u16, transfer_tag: u16, offset: u32, length: u32) -> Self {
        Self {
            common: CommonHeader::new(PduType::ReadyToTransfer, 0),
            command_id: U16::new(command_id),
            transfer_tag: U16::new(transfer_tag),
            offset: U32::new(offset),
            length: U32::new(length),
            reserved: [0; 4],
        }
    }
}

/// Why a connection is ended (FES, TCP 3.6.2.4 and 3.6.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FatalError {
    /// A header field is invalid; the information is its offset.
    InvalidHeaderField = 0x01,
    /// A PDU came that may not come now.
    PduSequence = 0x02,
    /// The header digest does not fit the header; the information is the digest received.
    HeaderDigest = 0x03,
    /// Data lies outside of what was asked for.
    DataTransferOutOfRange = 0x04,
    /// More data (to a controller) or more R2Ts (to a host) than agreed.
    TransferLimitExceeded = 0x05,
    /// A parameter that is not supported; the information is its offset.
    UnsupportedParameter = 0x06,
}

impl FatalError {
    /// The name in the specification, or a word for a number that it does not have.
    pub const fn name_of(number: u16) -> &'static str {
        match number {
            0x01 => "Invalid PDU Header Field",
            0x02 => "PDU Sequence Error",
            0x03 => "Header Digest Error",
            0x04 => "Data Transfer Out of Range",
            0x05 => "Data Transfer or R2T Limit Exceeded",
            0x06 => "Unsupported Parameter",
            _ => "unknown error",
        }
    }
}

/// The header of H2CTermReq and C2HTermReq, 24 bytes; the header of the faulty PDU follows as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Terminate {
    /// Common header.
    pub common: CommonHeader,
    /// Fatal error status (FES).
    pub error: U16,
    /// Fatal error information (FEI).
    pub information: U32,
    reserved: [u8; 10],
}

impl Terminate {
    /// The most bytes of the faulty PDU's header that are sent along.
    pub const HEADER_LENGTH_MAX: usize = 128;

    /// A termination request that carries `data_length` bytes of the faulty header.
    pub const fn new(kind: PduType, error: FatalError, information: u32, data_length: usize) -> Self {
        let mut common = CommonHeader::new(kind, 0);
        common.pdu_length = U32::new((size_of::<Terminate>() + data_length) as u32);
        Self { common, error: U16::new(error as u16), information: U32::new(information), reserved: [0; 10] }
    }
}

const _: () = {
    assert!(size_of::<CommonHeader>() == 8);
    assert!(size_of::<Initialize>() == 128);
    assert!(size_of::<CapsuleCommand>() == 72);
    assert!(size_of::<CapsuleResponse>() == 24);
    assert!(size_of::<DataPdu>() == 24);
    assert!(size_of::<ReadyToTransfer>() == 24);
    assert!(size_of::<Terminate>() == 24);
};
