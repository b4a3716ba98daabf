//! The Discovery log page, which tells a host where subsystems can be reached, and the names it uses.
//!
//! Which subsystems a host gets to see, and when the generation counter moves, is decided by the target.

mod nqn;

pub use nqn::{DISCOVERY_NQN, NQN_BYTES_MAX, NQN_FIELD_BYTES, Nqn, NqnError, decode_text};

use crate::identify::{ascii, set_ascii, zeroed_default};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header of the log page, and of each of its entries (Base 5.1.12.3.1).
pub const RECORD_BYTES: usize = 1024;

/// The controller ID of an entry where the target picks one at connect (the dynamic model, CNTLID).
pub const CONTROLLER_ID_DYNAMIC: u16 = 0xFFFF;

/// Transport type (TRTYPE, Base 5.1.12.3.1, Figure 294).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct TransportType(pub u8);

impl TransportType {
    /// RDMA (01h).
    pub const RDMA: Self = Self(1);
    /// Fibre Channel (02h).
    pub const FIBRE_CHANNEL: Self = Self(2);
    /// TCP (03h).
    pub const TCP: Self = Self(3);
    /// Inside one host (FEh).
    pub const LOOP: Self = Self(254);
}

/// Address family (ADRFAM, Base 5.1.12.3.1, Figure 294).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct AddressFamily(pub u8);

impl AddressFamily {
    /// IPv4 (01h).
    pub const IPV4: Self = Self(1);
    /// IPv6 (02h).
    pub const IPV6: Self = Self(2);
    /// InfiniBand (03h).
    pub const INFINIBAND: Self = Self(3);
    /// Fibre Channel (04h).
    pub const FIBRE_CHANNEL: Self = Self(4);
    /// Inside one host (FEh).
    pub const LOOP: Self = Self(254);
}

/// Subsystem type (SUBTYPE, Base 5.1.12.3.1, Figure 294).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct SubsystemType(pub u8);

impl SubsystemType {
    /// A referral to another Discovery service (01h).
    pub const REFERRAL: Self = Self(1);
    /// A subsystem that has namespaces (02h).
    pub const NVM: Self = Self(2);
    /// The Discovery subsystem that was asked (03h).
    pub const CURRENT_DISCOVERY: Self = Self(3);
}

/// Transport requirements of an entry (TREQ, Base 5.1.12.3.1, Figure 294).
pub mod transport_requirements {
    /// The bits that say whether a secure channel is required: one of the three below.
    pub const SECURE_CHANNEL: u8 = 0b11;
    /// Secure channels are not specified (00b).
    pub const SECURE_CHANNEL_NOT_SPECIFIED: u8 = 0;
    /// A secure channel is required (01b).
    pub const SECURE_CHANNEL_REQUIRED: u8 = 1;
    /// A secure channel is possible, and not required (10b).
    pub const SECURE_CHANNEL_NOT_REQUIRED: u8 = 2;
    /// Submission queue flow control can be disabled (SQFCD).
    pub const FLOW_CONTROL_DISABLE: u8 = 1 << 2;
    /// A host identifier of zero may connect (ZHIDS).
    pub const ZERO_HOST_ID: u8 = 1 << 3;
}

/// Entry flags (EFLAGS, Base 5.1.12.3.1, Figure 294).
pub mod entry_flags {
    /// Every entry with this flag leads to the same information (DUPRETINFO).
    pub const DUPLICATE_INFORMATION: u16 = 1 << 0;
    /// Discovery controllers take explicit persistent connections (EPCSD).
    pub const PERSISTENT_CONNECTIONS: u16 = 1 << 1;
}

/// Security type of a TCP entry, the first byte of its address subtype (SECTYPE, TCP Transport 3.1.1).
pub mod tcp_security {
    /// No security (00h).
    pub const NONE: u8 = 0;
    /// TLS 1.2 (01h), which the specification no longer allows.
    pub const TLS_1_2: u8 = 1;
    /// TLS 1.3 (02h).
    pub const TLS_1_3: u8 = 2;
}

/// Log specific parameter of Get Log Page for this page (LSP, Base 5.1.12.3.1, Figure 293).
pub mod log_specific {
    /// The host takes extended entries (EXTDLPE).
    pub const EXTENDED_ENTRIES: u8 = 1 << 0;
}

/// Header of the Discovery log page (Base 5.1.12.3.1, Figure 296).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DiscoveryLogHeader {
    /// Changes whenever the log page does, so that a host notices a change between two reads (GENCTR).
    pub generation_counter: U64,
    /// Number of records that follow (NUMREC).
    pub record_count: U64,
    /// Format of the records, always 0 (RECFMT).
    pub record_format: U16,
    /// Answers the bits of the log specific parameter: [`log_specific`] (DLPF).
    pub flags: u8,
    /// Reserved.
    pub reserved_19: u8,
    /// Bytes of the log page, header and all, or zero where it is not reported (TDLPL).
    pub total_length: U32,
    /// Reserved.
    pub reserved_24: [u8; 1000],
}

const _: () = assert!(size_of::<DiscoveryLogHeader>() == RECORD_BYTES);
const _: () = assert!(offset_of!(DiscoveryLogHeader, total_length) == 20);

impl DiscoveryLogHeader {
    /// The header of a log with `record_count` records.
    pub fn new(generation_counter: u64, record_count: u64) -> Self {
        let length = record_count.saturating_add(1).saturating_mul(RECORD_BYTES as u64);
        Self {
            generation_counter: generation_counter.into(),
            record_count: record_count.into(),
            // Zero stands for "not reported", which is all one can say of a page longer than the field counts.
            total_length: u32::try_from(length).unwrap_or(0).into(),
            ..Self::default()
        }
    }
}

/// Discovery Log Page Entry (Base 5.1.12.3.1, Figure 294).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DiscoveryEntry {
    /// Transport type (TRTYPE).
    pub transport_type: TransportType,
    /// Address family (ADRFAM).
    pub address_family: AddressFamily,
    /// Kind of subsystem that the entry leads to (SUBTYPE).
    pub subsystem_type: SubsystemType,
    /// Transport requirements (TREQ).
    pub transport_requirements: u8,
    /// Port identifier (PORTID).
    pub port_id: U16,
    /// Controller identifier, or how one is found (CNTLID).
    pub controller_id: U16,
    /// Maximum size of an Admin Submission Queue, at least 32 (ASQSZ).
    pub admin_queue_size_max: U16,
    /// Entry flags (EFLAGS).
    pub flags: U16,
    /// Reserved.
    pub reserved_12: [u8; 20],
    /// Transport service identifier: for TCP the port number in decimal, ASCII (TRSVCID).
    pub service_id: [u8; 32],
    /// Reserved.
    pub reserved_64: [u8; 192],
    /// NVM subsystem NQN, UTF-8 ended by NUL (SUBNQN).
    pub subsystem_nqn: [u8; NQN_FIELD_BYTES],
    /// Transport address, ASCII (TRADDR).
    pub address: [u8; 256],
    /// Transport specific address subtype; for TCP the first byte is the security type (TSAS).
    pub address_subtype: [u8; 256],
}

const _: () = assert!(size_of::<DiscoveryEntry>() == RECORD_BYTES);
const _: () = assert!(offset_of!(DiscoveryEntry, service_id) == 32);
const _: () = assert!(offset_of!(DiscoveryEntry, subsystem_nqn) == 256);
const _: () = assert!(offset_of!(DiscoveryEntry, address) == 512);
const _: () = assert!(offset_of!(DiscoveryEntry, address_subtype) == 768);

zeroed_default!(DiscoveryLogHeader, DiscoveryEntry);

impl DiscoveryEntry {
    /// An entry for `nqn` at a TCP address, with any controller and no security.
    pub fn tcp(
        subsystem_type: SubsystemType,
        nqn: &Nqn,
        family: AddressFamily,
        address: &str,
        service_id: &str,
    ) -> Self {
        let mut entry = Self {
            transport_type: TransportType::TCP,
            address_family: family,
            subsystem_type,
            controller_id: CONTROLLER_ID_DYNAMIC.into(),
            subsystem_nqn: nqn.encode(),
            ..Self::default()
        };
        set_ascii(&mut entry.address, address);
        set_ascii(&mut entry.service_id, service_id);
        entry
    }

    /// The name of the subsystem.
    pub fn nqn(&self) -> Result<Nqn, NqnError> {
        Nqn::decode(&self.subsystem_nqn)
    }

    /// The transport address as text.
    pub fn address(&self) -> String {
        ascii(&self.address)
    }

    /// The transport service identifier as text.
    pub fn service_id(&self) -> String {
        ascii(&self.service_id)
    }

    /// Requirement of a secure channel: one of the values of [`transport_requirements`].
    pub const fn secure_channel(&self) -> u8 {
        self.transport_requirements & transport_requirements::SECURE_CHANNEL
    }

    /// Says that connections are TLS 1.3, all of them or those of hosts that want it.
    pub const fn set_tls(&mut self, is_required: bool) {
        self.address_subtype[0] = tcp_security::TLS_1_3;
        self.transport_requirements &= !transport_requirements::SECURE_CHANNEL;
        self.transport_requirements |= if is_required {
            transport_requirements::SECURE_CHANNEL_REQUIRED
        } else {
            transport_requirements::SECURE_CHANNEL_NOT_REQUIRED
        };
    }

    /// True for an NVM subsystem that a host can connect to over TCP: it has a name, and is not to be reached by TLS 1.2,
    /// which no host offers.
    pub fn is_tcp_subsystem(&self) -> bool {
        self.transport_type == TransportType::TCP
            && self.subsystem_type == SubsystemType::NVM
            && self.tcp_security() != tcp_security::TLS_1_2
            && self.nqn().is_ok()
    }

    /// The security type of a TCP entry: one of [`tcp_security`].
    pub const fn tcp_security(&self) -> u8 {
        self.address_subtype[0]
    }
}

/// A Discovery log page that a host cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the header, or than the records it announces.
    #[error("discovery log page announces {announced} records, but {bytes} bytes are here")]
    Truncated {
        /// Number of records in the header, 0 if the header is not whole.
        announced: u64,
        /// Bytes there are.
        bytes: usize,
    },
    /// A record format that did not exist when this was written.
    #[error("discovery log page has record format {0}")]
    RecordFormat(u16),
    /// Extended entries, which are longer, and which a host gets only if it asks for them.
    #[error("discovery log page has extended entries that were not asked for")]
    Extended,
}

/// A whole Discovery log page, as the host reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryLog<'a> {
    /// The header.
    pub header: &'a DiscoveryLogHeader,
    /// As many entries as the header announces.
    pub entries: &'a [DiscoveryEntry],
}

impl<'a> DiscoveryLog<'a> {
    /// Reads a log page; bytes after the last record are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = DiscoveryLogHeader::ref_from_prefix(bytes)
            .map_err(|_| ParseError::Truncated { announced: 0, bytes: bytes.len() })?;
        header.check()?;
        let announced = header.record_count.get();
        let entries = usize::try_from(announced)
            .ok()
            .and_then(|count| <[DiscoveryEntry]>::ref_from_prefix_with_elems(rest, count).ok())
            .ok_or(ParseError::Truncated { announced, bytes: bytes.len() })?;
        Ok(Self { header, entries: entries.0 })
    }
}

impl DiscoveryLogHeader {
    /// Length of the whole log page in bytes, `None` if that is more than memory holds.
    ///
    /// A host that allocates this much must set its own limit first: the number is the target's.
    pub fn log_bytes(&self) -> Option<usize> {
        usize::try_from(self.record_count.get()).ok()?.checked_add(1)?.checked_mul(RECORD_BYTES)
    }

    /// Checks that the records after the header are of the kind this module reads.
    pub fn check(&self) -> Result<(), ParseError> {
        match self.record_format.get() {
            0 if self.flags & log_specific::EXTENDED_ENTRIES == 0 => Ok(()),
            0 => Err(ParseError::Extended),
            format => Err(ParseError::RecordFormat(format)),
        }
    }
}

/// The bytes of a whole Discovery log page.
pub fn encode_discovery_log(generation_counter: u64, entries: &[DiscoveryEntry]) -> Vec<u8> {
    let header = DiscoveryLogHeader::new(generation_counter, entries.len() as u64);
    let length = RECORD_BYTES + size_of_val(entries);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(entries.as_bytes());
    bytes
}
