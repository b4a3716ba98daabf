//! A disk as clients see it: its name, its size and what it can do.

use crate::handshake::Headers;
use crate::limits::PAYLOAD_BYTES_MAX;

/// Transmission flags (section "Transmission flags").
mod flag {
    pub(super) const HAS_FLAGS: u16 = 1 << 0;
    pub(super) const READ_ONLY: u16 = 1 << 1;
    pub(super) const SEND_FLUSH: u16 = 1 << 2;
    pub(super) const SEND_FUA: u16 = 1 << 3;
    pub(super) const SEND_TRIM: u16 = 1 << 5;
    pub(super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(super) const SEND_DF: u16 = 1 << 7;
    pub(super) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(super) const SEND_CACHE: u16 = 1 << 10;
    pub(super) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Export: a disk offered under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// By which clients ask for it.
    pub name: String,
    /// For people.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Offsets and lengths are multiples of it: a power of two.
    pub block_bytes: u32,
    /// Preferred size and alignment of requests, in bytes: a power of two, and no less than 512 and
    /// `block_bytes`.
    pub preferred_block_bytes: u32,
    /// Set if writes are refused.
    pub is_read_only: bool,
    /// Blocks that are not needed can be said to be so.
    pub can_trim: bool,
    /// Zeroes can be written without being sent, which is always faster than sending them.
    pub can_write_zeroes: bool,
}

impl Default for Export {
    /// An export without a name, without bytes, that can be written.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            size: 0,
            block_bytes: 512,
            preferred_block_bytes: 4096,
            is_read_only: false,
            can_trim: true,
            can_write_zeroes: true,
        }
    }
}

impl Export {
    /// The transmission flags for a client with this form of headers. Several connections are always fine: a server here has no
    /// cache of its own, and its storage's Flush is about all writes that have been answered.
    pub(crate) fn flags(&self, headers: Headers) -> u16 {
        let always = flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN | flag::SEND_CACHE;
        let mut flags = flag::HAS_FLAGS | always;
        for (is_set, flag) in [
            (self.is_read_only, flag::READ_ONLY),
            (self.can_trim && !self.is_read_only, flag::SEND_TRIM),
            (self.can_write_zeroes && !self.is_read_only, flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO),
            (headers != Headers::Simple, flag::SEND_DF),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        flags
    }

    /// Minimum and preferred block size, and the greatest length of data.
    pub(crate) const fn sizes(&self) -> [u32; 3] {
        [self.block_bytes, self.preferred_block_bytes, PAYLOAD_BYTES_MAX]
    }
}
