//! The Asymmetric Namespace Access log page: which groups of namespaces are best reached here.
//!
//! How a host picks a path by it, and who changes a state, is not known here.

use alloc::vec::Vec;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of the Asymmetric Namespace Access log page (LID 0Ch, Base 5.1.12.1.13).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct AnaLogHeader {
    /// Moves whenever the log page changes (CHNGCNT).
    pub change_count: U64,
    /// Number of group descriptors that follow (NAGD).
    pub group_count: U16,
    /// Reserved.
    pub reserved_10: [u8; 6],
}

const _: () = assert!(size_of::<AnaLogHeader>() == 16);

/// ANA Group Descriptor, without the NSIDs that follow it (Base 5.1.12.1.13).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct AnaGroupDescriptor {
    /// ANA group identifier, never zero (AGID).
    pub group_id: U32,
    /// Number of NSIDs that follow (NNV).
    pub namespace_count: U32,
    /// Change count of the log page when this group last changed (CHNGCNT).
    pub change_count: U64,
    /// ANA state in bits 3:0: [`AnaState`] (ANASST).
    pub state: u8,
    /// Reserved.
    pub reserved_17: [u8; 15],
}

const _: () = assert!(size_of::<AnaGroupDescriptor>() == 32);
const _: () = assert!(offset_of!(AnaGroupDescriptor, state) == 16);

/// Asymmetric namespace access state of a group in one controller (ANASST, Base 8.1.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AnaState {
    /// Every command works, and as well as it can.
    Optimized = 0x1,
    /// Every command works, but another controller would do it better.
    NonOptimized = 0x2,
    /// The namespaces cannot be reached through this controller now.
    Inaccessible = 0x3,
    /// The namespaces will not be reached through this controller again.
    PersistentLoss = 0x4,
    /// On the way from one state to another.
    Change = 0xF,
}

impl AnaState {
    /// The state in bits 3:0 of the field, `None` for a reserved value.
    pub const fn from_wire(field: u8) -> Option<Self> {
        match field & 0xF {
            0x1 => Some(Self::Optimized),
            0x2 => Some(Self::NonOptimized),
            0x3 => Some(Self::Inaccessible),
            0x4 => Some(Self::PersistentLoss),
            0xF => Some(Self::Change),
            _ => None,
        }
    }
}

/// An ANA log page that no conforming controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnaParseError {
    /// The header, a descriptor or its NSIDs are not whole.
    #[error("ANA log page ends within {bytes} bytes, before group {group} of {announced}")]
    Truncated {
        /// Index of the group that is not whole.
        group: u16,
        /// Groups the header announces, 0 if the header is not whole.
        announced: u16,
        /// Bytes there are.
        bytes: usize,
    },
    /// A group has a reserved state.
    #[error("ANA group {group_id} is in the reserved state {state:#x}")]
    State {
        /// ANA group identifier.
        group_id: u32,
        /// The state field.
        state: u8,
    },
    /// Zero is not a group.
    #[error("ANA log page has a group of identifier 0")]
    GroupZero,
}

/// Group of an ANA log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnaGroup<'a> {
    /// ANA group identifier, never zero.
    pub id: u32,
    /// Change count of the log page when this group last changed.
    pub change_count: u64,
    /// State of the group in the controller that was asked.
    pub state: AnaState,
    /// The namespaces, none if the host asked for groups only.
    pub nsids: &'a [U32],
}

/// A whole ANA log page, as the host reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnaLog<'a> {
    /// Change count of the log page.
    pub change_count: u64,
    /// The groups, in the order they came.
    pub groups: Vec<AnaGroup<'a>>,
}

impl<'a> AnaLog<'a> {
    /// Reads a log page; bytes after the last group are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AnaParseError> {
        let (header, mut rest) = AnaLogHeader::ref_from_prefix(bytes)
            .map_err(|_| AnaParseError::Truncated { group: 0, announced: 0, bytes: bytes.len() })?;
        let announced = header.group_count.get();
        // Not reserved by the announced count: it is the peer's, and the descriptors may not be there.
        let mut groups = Vec::new();
        for group in 0..announced {
            let truncated = AnaParseError::Truncated { group, announced, bytes: bytes.len() };
            let (descriptor, after) = AnaGroupDescriptor::ref_from_prefix(rest).map_err(|_| truncated)?;
            let count = usize::try_from(descriptor.namespace_count.get()).map_err(|_| truncated)?;
            let (nsids, after) = <[U32]>::ref_from_prefix_with_elems(after, count).map_err(|_| truncated)?;
            groups.push(AnaGroup::new(descriptor, nsids)?);
            rest = after;
        }
        Ok(Self { change_count: header.change_count.get(), groups })
    }
}

impl<'a> AnaGroup<'a> {
    fn new(descriptor: &AnaGroupDescriptor, nsids: &'a [U32]) -> Result<Self, AnaParseError> {
        let id = descriptor.group_id.get();
        if id == 0 {
            return Err(AnaParseError::GroupZero);
        }
        let state = AnaState::from_wire(descriptor.state)
            .ok_or(AnaParseError::State { group_id: id, state: descriptor.state })?;
        Ok(Self { id, change_count: descriptor.change_count.get(), state, nsids })
    }
}

/// Builds a whole ANA log page, to be cut into the pieces a host asks for.
#[derive(Clone, Debug)]
pub struct AnaLogBuilder {
    bytes: Vec<u8>,
    groups: u16,
}

impl AnaLogBuilder {
    /// A log page without groups.
    pub fn new(change_count: u64) -> Self {
        let header = AnaLogHeader { change_count: change_count.into(), ..AnaLogHeader::default() };
        Self { bytes: Vec::from(header.as_bytes()), groups: 0 }
    }

    /// Adds a group; groups come in increasing order, and each names its namespaces in increasing order.
    ///
    /// For a host that asks for groups only (RGO) there are no `nsids`.
    pub fn group(
        &mut self,
        id: u32,
        change_count: u64,
        state: AnaState,
        nsids: impl IntoIterator<Item = u32>,
    ) {
        let start = self.bytes.len();
        self.bytes.resize(start + size_of::<AnaGroupDescriptor>(), 0);
        let mut namespace_count: u32 = 0;
        for nsid in nsids {
            self.bytes.extend_from_slice(&nsid.to_le_bytes());
            namespace_count += 1;
        }
        let descriptor = AnaGroupDescriptor {
            group_id: id.into(),
            namespace_count: namespace_count.into(),
            change_count: change_count.into(),
            state: state as u8,
            reserved_17: [0; 15],
        };
        self.bytes[start..][..size_of::<AnaGroupDescriptor>()].copy_from_slice(descriptor.as_bytes());
        // The header cannot count more groups than this, and a host ignores those it does not count.
        self.groups = self.groups.saturating_add(1);
    }

    /// The bytes of the log page.
    pub fn finish(mut self) -> Vec<u8> {
        let count = offset_of!(AnaLogHeader, group_count);
        self.bytes[count..count + 2].copy_from_slice(&self.groups.to_le_bytes());
        self.bytes
    }
}
