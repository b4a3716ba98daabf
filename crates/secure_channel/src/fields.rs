//! Fields of handshake messages, one behind the other (RFC 8446, 3). Every length is checked against what is there.

use std::ops::Range;

/// Unread rest of a message, with its offset.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A length that goes beyond what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutOff;

impl<'a> Fields<'a> {
    /// All of a message.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// True if nothing is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Offset of the next field in the message.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Range of the unread rest in the message.
    pub(crate) const fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes.len()
    }

    /// The bytes that are left.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next bytes, as fields of their own.
    pub(crate) fn take(&mut self, length: usize) -> Result<Self, CutOff> {
        let (taken, left) = self.bytes.split_at_checked(length).ok_or(CutOff)?;
        let field = Self { bytes: taken, at: self.at };
        *self = Self { bytes: left, at: self.at + length };
        Ok(field)
    }

    /// The next number of as many bytes, at most three.
    pub(crate) fn number(&mut self, length: usize) -> Result<usize, CutOff> {
        let field = self.take(length)?;
        Ok(field.bytes.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)))
    }

    /// The next bytes that a length of as many bytes stands before.
    pub(crate) fn counted(&mut self, length_bytes: usize) -> Result<Self, CutOff> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}
