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

/// Violation of a transfer by a data PDU.
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
        let mut taken = *self;
        let (range, true) = taken.accept_with_any_last(pdu)? else { return Err(TransferError::WrongLast) };
        *self = taken;
        Ok(range)
    }

    /// Takes the next data PDU wherever its LAST_PDU flag stands, since offset and length say all that there is to know: its
    /// place within the command's data, and whether the flag is right.
    ///
    /// # Errors
    /// When it does not continue the transfer otherwise; the transfer stays as it was.
    pub fn accept_with_any_last(&mut self, pdu: &DataPdu) -> Result<(Range<usize>, bool), TransferError> {
        if pdu.transfer_tag.get() != self.tag {
            return Err(TransferError::WrongTag);
        }
        let (offset, length) = (pdu.offset.get(), pdu.length.get());
        if offset != self.next || length == 0 || length > self.remaining() {
            return Err(TransferError::OutOfRange);
        }
        let next = offset + length;
        let is_right = pdu.is_last() == (next == self.end);
        self.next = next;
        Ok((offset as usize..next as usize, is_right))
    }
}
