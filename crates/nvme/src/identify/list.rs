//! The fixed-size lists that Identify answers with: namespaces, controllers, command set combinations.
//!
//! The caller decides which namespaces or controllers belong on a list.

use super::{CommandSet, IDENTIFY_BYTES, NSID_ALL, zeroed_default};
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A list no conforming controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Namespace IDs must increase, and be greater than the one the request named.
    #[error("namespace list has NSID {found} after {previous}")]
    NotIncreasing {
        /// The ID before it on the list, or that of the request.
        previous: u32,
        /// The ID that is not greater.
        found: u32,
    },
    /// FFFFFFFEh is reserved and FFFFFFFFh means all namespaces: neither is a namespace.
    #[error("namespace list has the reserved NSID {0:#x}")]
    ReservedNamespace(u32),
    /// The list announces more controllers than fit in it.
    #[error("controller list announces {0} controllers, but only 2047 fit")]
    ControllerCount(u16),
}

/// Namespace List: up to 1,024 increasing NSIDs, ended by a zero (Base 4.6.2).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NamespaceList {
    /// The identifiers; unused entries are zero.
    pub entries: [U32; Self::CAPACITY],
}

impl NamespaceList {
    /// Number of namespaces that one list holds.
    pub const CAPACITY: usize = 1024;

    /// The first 1,024 of `nsids` that are greater than `after`, where `nsids` come in increasing order.
    pub fn after(after: u32, nsids: impl IntoIterator<Item = u32>) -> Self {
        let mut list = Self::default();
        for (entry, nsid) in list.entries.iter_mut().zip(nsids.into_iter().filter(|&nsid| nsid > after)) {
            *entry = nsid.into();
        }
        list
    }

    /// The identifiers before the first zero, as they stand: a peer can repeat them, or not sort them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.get()).take_while(|&nsid| nsid != 0)
    }

    /// The identifiers, checked against the request for namespaces after `after`.
    ///
    /// A host that asks for the namespaces after the last one of a full list would never end if they did
    /// not increase.
    pub fn decode(&self, after: u32) -> Result<Vec<u32>, ListError> {
        let mut nsids = Vec::new();
        let mut previous = after;
        for found in self.iter() {
            if found >= NSID_ALL - 1 {
                return Err(ListError::ReservedNamespace(found));
            }
            if found <= previous {
                return Err(ListError::NotIncreasing { previous, found });
            }
            nsids.push(found);
            previous = found;
        }
        Ok(nsids)
    }
}

/// Controller List: up to 2,047 increasing controller identifiers (Base 4.6.1).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ControllerList {
    /// Number of identifiers that follow (NUMID).
    pub count: U16,
    /// The identifiers; those after `count` are zero.
    pub entries: [U16; Self::CAPACITY],
}

impl ControllerList {
    /// Number of controllers that one list holds.
    pub const CAPACITY: usize = 2047;

    /// The first 2,047 of `ids` that are not less than `first`, where `ids` come in increasing order.
    pub fn starting_at(first: u16, ids: impl IntoIterator<Item = u16>) -> Self {
        let mut list = Self::default();
        let mut count: u16 = 0;
        for (entry, id) in list.entries.iter_mut().zip(ids.into_iter().filter(|&id| id >= first)) {
            *entry = id.into();
            count += 1;
        }
        list.count = count.into();
        list
    }

    /// The identifiers on the list.
    pub fn decode(&self) -> Result<Vec<u16>, ListError> {
        let count = self.count.get();
        let ids = self.entries.get(..usize::from(count)).ok_or(ListError::ControllerCount(count))?;
        Ok(ids.iter().map(|id| id.get()).collect())
    }
}

/// I/O Command Set data structure: the combinations of command sets a controller supports (CNS 1Ch,
/// Base 5.1.13).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IoCommandSetList {
    /// Each a set of bits, one a command set; the first that is zero ends the list (IOCSC).
    pub combinations: [U64; Self::CAPACITY],
}

impl IoCommandSetList {
    /// Number of combinations that there is room for.
    pub const CAPACITY: usize = 512;

    /// The list of a controller that supports the NVM Command Set and nothing else.
    pub fn nvm_only() -> Self {
        let mut list = Self::default();
        list.combinations[0] = Self::bit(CommandSet::NVM).into();
        list
    }

    /// The combinations before the first zero.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.combinations.iter().map(|combination| combination.get()).take_while(|&bits| bits != 0)
    }

    /// The bit of a command set in a combination, zero if there is none.
    pub const fn bit(command_set: CommandSet) -> u64 {
        match 1_u64.checked_shl(command_set.0 as u32) {
            Some(bit) => bit,
            None => 0,
        }
    }
}

zeroed_default!(NamespaceList, ControllerList, IoCommandSetList);

const _: () = assert!(size_of::<NamespaceList>() == IDENTIFY_BYTES);
const _: () = assert!(size_of::<ControllerList>() == IDENTIFY_BYTES);
const _: () = assert!(size_of::<IoCommandSetList>() == IDENTIFY_BYTES);
