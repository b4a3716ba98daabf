//! The Identify Namespace data structures, byte for byte as they travel.
//!
//! The bits inside the fields are in [`super::bits`]; what a backend can do is not known here.

use super::{IDENTIFY_BYTES, zeroed_default};
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Identify Namespace data structure of the NVM Command Set (CNS 00h, NVM 4.1.5.1).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Namespace size in logical blocks (NSZE).
    pub size_blocks: U64,
    /// Namespace capacity in logical blocks (NCAP).
    pub capacity_blocks: U64,
    /// Namespace utilization in logical blocks (NUSE).
    pub utilization_blocks: U64,
    /// Namespace features (NSFEAT).
    pub features: u8,
    /// Number of LBA formats, 0's based (NLBAF).
    pub lba_formats_count: u8,
    /// Formatted LBA size: format index 3:0 and 6:5, metadata with the data in bit 4 (FLBAS).
    pub formatted_lba_size: u8,
    /// Metadata capabilities (MC).
    pub metadata_capabilities: u8,
    /// End-to-end data protection capabilities (DPC).
    pub protection_capabilities: u8,
    /// End-to-end data protection type settings (DPS).
    pub protection_settings: u8,
    /// Multi-path I/O and sharing capabilities (NMIC).
    pub sharing: u8,
    /// Reservation capabilities (RESCAP).
    pub reservation_capabilities: u8,
    /// Format progress indicator (FPI).
    pub format_progress: u8,
    /// Deallocate logical block features (DLFEAT).
    pub deallocate_features: u8,
    /// Atomic write unit normal in logical blocks, 0's based (NAWUN).
    pub atomic_write_unit: U16,
    /// Atomic write unit power fail in logical blocks, 0's based (NAWUPF).
    pub atomic_write_unit_power_fail: U16,
    /// Atomic compare and write unit in logical blocks, 0's based (NACWU).
    pub atomic_compare_write_unit: U16,
    /// Atomic boundary size normal in logical blocks, 0's based (NABSN).
    pub atomic_boundary_size: U16,
    /// Atomic boundary offset in logical blocks (NABO).
    pub atomic_boundary_offset: U16,
    /// Atomic boundary size power fail in logical blocks, 0's based (NABSPF).
    pub atomic_boundary_size_power_fail: U16,
    /// Optimal I/O boundary in logical blocks, 0 for none (NOIOB).
    pub optimal_io_boundary: U16,
    /// NVM capacity in bytes (NVMCAP).
    pub capacity_bytes: U128,
    /// Preferred write granularity in logical blocks, 0's based (NPWG).
    pub preferred_write_granularity: U16,
    /// Preferred write alignment in logical blocks, 0's based (NPWA).
    pub preferred_write_alignment: U16,
    /// Preferred deallocate granularity in logical blocks, 0's based (NPDG).
    pub preferred_deallocate_granularity: U16,
    /// Preferred deallocate alignment in logical blocks, 0's based (NPDA).
    pub preferred_deallocate_alignment: U16,
    /// Optimal write size in logical blocks, 0's based (NOWS).
    pub optimal_write_size: U16,
    /// Maximum single source range length of Copy in logical blocks (MSSRL).
    pub copy_range_length_max: U16,
    /// Maximum length of Copy in logical blocks (MCL).
    pub copy_length_max: U32,
    /// Maximum source range count of Copy, 0's based (MSRC).
    pub copy_ranges_max: u8,
    /// Key per I/O status (KPIOS).
    pub key_per_io: u8,
    /// Number of unique capability LBA formats, 0's based (NULBAF).
    pub unique_lba_formats: u8,
    /// Reserved.
    pub reserved_83: u8,
    /// Key per I/O data access alignment and granularity (KPIODAAG).
    pub key_per_io_granularity: U32,
    /// Reserved.
    pub reserved_88: [u8; 4],
    /// ANA group identifier (ANAGRPID).
    pub ana_group_id: U32,
    /// Reserved.
    pub reserved_96: [u8; 3],
    /// Namespace attributes: bit 0 is set while the namespace is write protected (NSATTR).
    pub attributes: u8,
    /// NVM set identifier (NVMSETID).
    pub nvm_set_id: U16,
    /// Endurance group identifier (ENDGID).
    pub endurance_group_id: U16,
    /// Namespace globally unique identifier, big-endian, zero for none (NGUID).
    pub nguid: [u8; 16],
    /// IEEE extended unique identifier, big-endian, zero for none (EUI64).
    pub eui64: [u8; 8],
    /// The LBA formats (LBAF0 to LBAF63).
    pub lba_formats: [LbaFormat; 64],
    /// Vendor specific (VS).
    pub vendor_specific: [u8; 3712],
}

impl IdentifyNamespace {
    /// Index of the LBA format the namespace is formatted with (FLBAS bits 6:5 and 3:0).
    pub const fn format_index(&self) -> usize {
        // Bits 6:5 count only where there are more than 16 formats; older controllers leave them undefined.
        let low = (self.formatted_lba_size & 0xF) as usize;
        let high = ((self.formatted_lba_size >> 5) & 0x3) as usize;
        if self.lba_formats_count.saturating_add(self.unique_lba_formats) > 15 {
            high << 4 | low
        } else {
            low
        }
    }

    /// The LBA format the namespace is formatted with.
    pub const fn format(&self) -> LbaFormat {
        self.lba_formats[self.format_index()]
    }
}

const _: () = assert!(size_of::<IdentifyNamespace>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(IdentifyNamespace, sharing) == 30);
const _: () = assert!(offset_of!(IdentifyNamespace, capacity_bytes) == 48);
const _: () = assert!(offset_of!(IdentifyNamespace, preferred_write_granularity) == 64);
const _: () = assert!(offset_of!(IdentifyNamespace, copy_length_max) == 76);
const _: () = assert!(offset_of!(IdentifyNamespace, ana_group_id) == 92);
const _: () = assert!(offset_of!(IdentifyNamespace, nguid) == 104);
const _: () = assert!(offset_of!(IdentifyNamespace, lba_formats) == 128);
const _: () = assert!(offset_of!(IdentifyNamespace, vendor_specific) == 384);

/// LBA Format data structure (LBAF, NVM 4.1.5.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LbaFormat {
    /// Metadata bytes of each logical block (MS).
    pub metadata_bytes: U16,
    /// Size of a logical block as a power of two, 0 if the format does not exist (LBADS).
    pub data_size_exponent: u8,
    /// Relative performance in bits 1:0, 0 is best (RP).
    pub relative_performance: u8,
}

impl LbaFormat {
    /// A format without metadata whose logical blocks are two to the power of `exponent` bytes long.
    pub const fn new(exponent: u8) -> Self {
        Self { metadata_bytes: U16::ZERO, data_size_exponent: exponent, relative_performance: 0 }
    }

    /// Bytes of data in a logical block, `None` if no conforming controller reports this.
    pub const fn block_bytes(&self) -> Option<u64> {
        // A logical block has at least 512 bytes, and no command could carry one of 2^63.
        match self.data_size_exponent {
            exponent @ 9..=31 => Some(1 << exponent),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<LbaFormat>() == 4);

/// I/O Command Set Independent Identify Namespace data structure (CNS 08h, Base 5.1.13, Figure 319).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespaceIndependent {
    /// Common namespace features (NSFEAT).
    pub features: u8,
    /// Multi-path I/O and sharing capabilities (NMIC).
    pub sharing: u8,
    /// Reservation capabilities (RESCAP).
    pub reservation_capabilities: u8,
    /// Format progress indicator (FPI).
    pub format_progress: u8,
    /// ANA group identifier (ANAGRPID).
    pub ana_group_id: U32,
    /// Namespace attributes: bit 0 is set while the namespace is write protected (NSATTR).
    pub attributes: u8,
    /// Reserved.
    pub reserved_9: u8,
    /// NVM set identifier (NVMSETID).
    pub nvm_set_id: U16,
    /// Endurance group identifier (ENDGID).
    pub endurance_group_id: U16,
    /// Namespace status: bit 0 is set once the namespace is ready (NSTAT).
    pub status: u8,
    /// Key per I/O status (KPIOS).
    pub key_per_io: u8,
    /// Maximum key tag (MAXKT).
    pub key_tag_max: U16,
    /// Reserved.
    pub reserved_18: [u8; 2],
    /// Reachability group identifier (RGRPID).
    pub reachability_group_id: U32,
    /// Reserved.
    pub reserved_24: [u8; 4072],
}

const _: () = assert!(size_of::<IdentifyNamespaceIndependent>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(IdentifyNamespaceIndependent, status) == 14);
const _: () = assert!(offset_of!(IdentifyNamespaceIndependent, reachability_group_id) == 20);

/// I/O Command Set specific Identify Namespace for the NVM Command Set (CNS 05h with CSI 00h, NVM 4.1.5).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespaceNvm {
    /// Logical block storage tag mask (LBSTM).
    pub storage_tag_mask: U64,
    /// Protection information capabilities (PIC).
    pub protection_capabilities: u8,
    /// Protection information format attribute (PIFA).
    pub protection_format: u8,
    /// Reserved.
    pub reserved_10: [u8; 2],
    /// Extended LBA formats: storage tag size 6:0, protection information format 8:7 (ELBAF0 to ELBAF63).
    pub extended_lba_formats: [U32; 64],
    /// Preferred deallocate granularity large in logical blocks (NPDGL).
    pub preferred_deallocate_granularity: U32,
    /// Preferred read granularity in logical blocks (NPRG).
    pub preferred_read_granularity: U32,
    /// Preferred read alignment in logical blocks (NPRA).
    pub preferred_read_alignment: U32,
    /// Optimal read size in logical blocks (NORS).
    pub optimal_read_size: U32,
    /// Preferred deallocate alignment large in logical blocks (NPDAL).
    pub preferred_deallocate_alignment: U32,
    /// LBA format placement shard size (LBAPSS).
    pub placement_shard_size: U32,
    /// Tracked LBA allocation granularity (TLBAAG).
    pub tracked_allocation_granularity: U32,
    /// Reserved.
    pub reserved_296: [u8; 3800],
}

const _: () = assert!(size_of::<IdentifyNamespaceNvm>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(IdentifyNamespaceNvm, extended_lba_formats) == 12);
const _: () = assert!(offset_of!(IdentifyNamespaceNvm, preferred_deallocate_granularity) == 268);

zeroed_default!(IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm);
