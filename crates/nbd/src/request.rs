//! A request of the transmission phase: its header, and what it comes to where it is one that can be done.

use crate::fields::Fields;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::{Errno, Export, Headers, ProtocolError, Session};

const COMPACT_MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;
const COMPACT_BYTES: usize = 28;
/// The most bytes of a request before its data.
pub const REQUEST_BYTES_MAX: usize = 32;

/// Command flags (section "Command flags").
mod flag {
    pub(super) const FUA: u16 = 1 << 0;
    pub(super) const NO_HOLE: u16 = 1 << 1;
    pub(super) const DF: u16 = 1 << 2;
    pub(super) const REQ_ONE: u16 = 1 << 3;
    pub(super) const FAST_ZERO: u16 = 1 << 4;
    pub(super) const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Request types (section "Request types").
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISC: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const CACHE: u16 = 5;
    pub(super) const WRITE_ZEROES: u16 = 6;
    pub(super) const BLOCK_STATUS: u16 = 7;
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    flags: u16,
    kind: u16,
    /// Identifier that the client gave it.
    pub cookie: u64,
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes that it covers, or that follow it.
    pub length: u64,
    /// Bytes of data that come behind it, whatever becomes of it.
    pub payload_bytes: u32,
}

/// Operation of a request that lies within the export and consists of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read {
        /// As one chunk.
        is_whole: bool,
    },
    /// Write the data.
    Write {
        /// Durable before the reply.
        is_durable: bool,
    },
    /// The client sends no more; what is outstanding is still answered.
    Disconnect,
    /// Make all writes durable that have been answered.
    Flush,
    /// The blocks are not needed.
    Trim {
        /// Durable before the reply.
        is_durable: bool,
    },
    /// The blocks will be needed soon.
    Cache,
    /// Write zeroes.
    WriteZeroes {
        /// Durable before the reply.
        is_durable: bool,
        /// The blocks may be deallocated.
        may_deallocate: bool,
    },
    /// Say what the blocks are.
    BlockStatus,
}

impl Request {
    /// Reads a request from the front of `input`, and says how long it is; `None` when it has not all come.
    ///
    /// # Errors
    /// When it is not one, or has more data than is read.
    pub fn read(input: &[u8], headers: Headers) -> Result<Option<(usize, Self)>, ProtocolError> {
        let is_extended = headers == Headers::Extended;
        let mut fields = Fields(input);
        let Some(magic) = fields.u32() else { return Ok(None) };
        if magic != if is_extended { EXTENDED_MAGIC } else { COMPACT_MAGIC } {
            return Err(ProtocolError::RequestMagic(magic));
        }
        Self::fields(&mut fields, is_extended).map(|request| request.checked(is_extended)).transpose()
    }

    fn fields(fields: &mut Fields<'_>, is_extended: bool) -> Option<Self> {
        let (flags, kind) = (fields.u16()?, fields.u16()?);
        let (cookie, offset) = (fields.u64()?, fields.u64()?);
        let length = if is_extended { fields.u64()? } else { fields.u32()?.into() };
        Some(Self { flags, kind, cookie, offset, length, payload_bytes: 0 })
    }

    fn checked(mut self, is_extended: bool) -> Result<(usize, Self), ProtocolError> {
        let has_payload =
            if is_extended { self.flags & flag::PAYLOAD_LEN != 0 } else { self.kind == kind::WRITE };
        if has_payload {
            let length = u32::try_from(self.length).ok().filter(|length| *length <= PAYLOAD_BYTES_MAX);
            self.payload_bytes = length.ok_or(ProtocolError::PayloadLength { length: self.length })?;
        }
        Ok((if is_extended { REQUEST_BYTES_MAX } else { COMPACT_BYTES }, self))
    }

    /// Converts the request into a command for an export whose size is now `size` bytes.
    ///
    /// # Errors
    /// What to answer where it cannot be done.
    pub fn command(&self, session: &Session, export: &Export, size: u64) -> Result<Command, Errno> {
        let command = self.meant(session, export)?;
        match command {
            Command::Disconnect => return Ok(command),
            Command::Flush if self.offset == 0 && self.length == 0 => return Ok(command),
            Command::Flush => return Err(Errno::Invalid),
            _ => {}
        }
        let writes =
            matches!(command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
        if writes && export.is_read_only {
            return Err(Errno::NotPermitted);
        }
        let is_inside = self.offset.checked_add(self.length).is_some_and(|end| end <= size);
        if !is_inside {
            let grows = matches!(command, Command::Write { .. } | Command::WriteZeroes { .. });
            return Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        }
        let block = u64::from(export.block_bytes);
        if self.length == 0 || !self.offset.is_multiple_of(block) || !self.length.is_multiple_of(block) {
            return Err(Errno::Invalid);
        }
        match command {
            // A reply of one piece has one length of 32 bits, and one of any form has to be kept until all of it is there.
            Command::Read { .. } if self.length > PAYLOAD_BYTES_MAX.into() => Err(Errno::Overflow),
            _ => Ok(command),
        }
    }

    /// The command by its number and flags alone.
    fn meant(&self, session: &Session, export: &Export) -> Result<Command, Errno> {
        let is_extended = session.headers == Headers::Extended;
        let has = |flag| self.flags & flag != 0;
        let is_durable = has(flag::FUA);
        let (command, allowed) = match self.kind {
            kind::READ if session.headers == Headers::Simple => (Command::Read { is_whole: true }, 0),
            kind::READ => (Command::Read { is_whole: has(flag::DF) }, flag::DF),
            kind::WRITE if is_extended && !has(flag::PAYLOAD_LEN) => return Err(Errno::Invalid),
            kind::WRITE => (Command::Write { is_durable }, if is_extended { flag::PAYLOAD_LEN } else { 0 }),
            kind::DISC => (Command::Disconnect, 0),
            kind::FLUSH => (Command::Flush, 0),
            kind::TRIM if export.can_trim => (Command::Trim { is_durable }, 0),
            kind::CACHE => (Command::Cache, 0),
            kind::WRITE_ZEROES if export.can_write_zeroes => (
                Command::WriteZeroes { is_durable, may_deallocate: !has(flag::NO_HOLE) },
                flag::NO_HOLE | flag::FAST_ZERO,
            ),
            kind::BLOCK_STATUS if session.has_allocation => (Command::BlockStatus, flag::REQ_ONE),
            _ => return Err(Errno::Invalid),
        };
        // FUA goes with all commands, and means something with those that write.
        if self.flags & !(allowed | flag::FUA) == 0 { Ok(command) } else { Err(Errno::Invalid) }
    }
}
