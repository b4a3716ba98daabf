//! Replies: the bytes before their data. The caller sends the data after them.

use std::ops::Deref;

use crate::context_query::ALLOCATION_ID;
use crate::{Errno, Headers};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;
const DONE: u16 = 1;
/// States of an extent in `base:allocation`.
const STATE_HOLE: u32 = 1 << 0;
const STATE_ZERO: u32 = 1 << 1;

/// The most bytes of a head: a block status of one extent with extended headers.
pub const HEAD_BYTES_MAX: usize = 56;

mod chunk {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const BLOCK_STATUS_EXTENDED: u16 = 6;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
}

/// A reply without its data.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Head {
    const EMPTY: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };

    #[must_use]
    fn with(mut self, field: &[u8]) -> Self {
        self.bytes[self.length..][..field.len()].copy_from_slice(field);
        self.length += field.len();
        self
    }
}

impl Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The replies to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// Form of the replies.
    pub headers: Headers,
    /// The request's.
    pub cookie: u64,
    /// The request's.
    pub offset: u64,
}

impl Replies {
    /// Last reply of a request that succeeded and has no data, or none left.
    pub fn done(&self) -> Head {
        match self.headers {
            Headers::Simple => self.simple(0),
            _ => self.chunk(DONE, chunk::NONE, 0),
        }
    }

    /// Reply of a request that failed.
    pub fn failed(&self, error: Errno) -> Head {
        match self.headers {
            Headers::Simple => self.simple(error.code()),
            // No text comes with it.
            _ => self.chunk(DONE, chunk::ERROR, 6).with(&error.code().to_be_bytes()).with(&[0; 2]),
        }
    }

    /// Head of `length` bytes from `offset` on; `is_last` if no others follow. With simple headers
    /// the reply covers the whole request.
    pub fn data(&self, offset: u64, length: u32, is_last: bool) -> Head {
        match self.headers {
            Headers::Simple => self.simple(0),
            _ => {
                let flags = if is_last { DONE } else { 0 };
                let length = u64::from(length) + 8;
                self.chunk(flags, chunk::OFFSET_DATA, length).with(&offset.to_be_bytes())
            }
        }
    }

    /// `length` bytes from the request's offset on are alike: they are a hole that reads as zeroes, or hold data, or may. More than
    /// 32 bits can say with structured replies is not said; the client asks again from there.
    pub fn extent(&self, length: u64, is_hole: bool, block_bytes: u32) -> Head {
        let id = ALLOCATION_ID.to_be_bytes();
        let state = if is_hole { STATE_HOLE | STATE_ZERO } else { 0 };
        if self.headers == Headers::Extended {
            let head = self.chunk(DONE, chunk::BLOCK_STATUS_EXTENDED, 24).with(&id).with(&1u32.to_be_bytes());
            return head.with(&length.to_be_bytes()).with(&u64::from(state).to_be_bytes());
        }
        let most = u32::MAX - u32::MAX % block_bytes.max(1);
        let length = u32::try_from(length).unwrap_or(most);
        let head = self.chunk(DONE, chunk::BLOCK_STATUS, 12).with(&id).with(&length.to_be_bytes());
        head.with(&state.to_be_bytes())
    }

    fn simple(&self, error: u32) -> Head {
        let head = Head::EMPTY.with(&SIMPLE_MAGIC.to_be_bytes());
        head.with(&error.to_be_bytes()).with(&self.cookie.to_be_bytes())
    }

    fn chunk(&self, flags: u16, kind: u16, length: u64) -> Head {
        let is_extended = self.headers == Headers::Extended;
        let magic = if is_extended { EXTENDED_MAGIC } else { STRUCTURED_MAGIC };
        let head = Head::EMPTY.with(&magic.to_be_bytes()).with(&flags.to_be_bytes());
        let head = head.with(&kind.to_be_bytes()).with(&self.cookie.to_be_bytes());
        if is_extended {
            head.with(&self.offset.to_be_bytes()).with(&length.to_be_bytes())
        } else {
            head.with(&(length as u32).to_be_bytes())
        }
    }
}
