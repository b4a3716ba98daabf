//! The check that data PDUs stay within what was asked for: in order, without gap or overlap, and no more.
//! It holds numbers only, not the data.

use core::ops::Range;

use super::pdu::DataPdu;

/// A stretch of a command's data on its way: from the start of an R2T (or of a read) to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    next: u32,
    end: u32,
    tag: u16,
}

/// How a data PDU breaks a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The transfer tag is not the one of the R2T; its offset in the header is 10.
    #[error("the transfer tag is not the one asked for")]
    WrongTag,
    /// The offset is not the next one, or the data goes past the end.
    #[error("the data lies outside of what was asked for")]
    OutOfRange,
    /// LAST_PDU is set before the end, or missing at it.
    #[error("the last-PDU flag does not stand where the data ends")]
    WrongLast,
}

impl Transfer {
    /// A transfer of `range` of the command's data, with the R2T's `tag` (0 for data to a host).
    pub const fn new(range: Range<u32>, tag: u16) -> Self {
        Self { next: range.start, end: range.end, tag }
    }

    /// Bytes still to come.
    pub const fn remaining(&self) -> u32 {
        self.end - self.next
    }

    /// Takes the next data PDU: its place within the command's data.
    ///
    /// # Errors
    /// When it does not continue the transfer; the transfer stays as it was.
    pub fn accept(&mut self, pdu: &DataPdu) -> Result<Range<usize>, TransferError> {
        if pdu.transfer_tag.get() != self.tag {
            return Err(TransferError::WrongTag);
        }
        let (offset, length) = (pdu.offset.get(), pdu.length.get());
        if offset != self.next || length == 0 || length > self.remaining() {
            return Err(TransferError::OutOfRange);
        }
        let next = offset + length;
        if pdu.is_last() != (next == self.end) {
            return Err(TransferError::WrongLast);
        }
        self.next = next;
        Ok(offset as usize..next as usize)
    }
}
