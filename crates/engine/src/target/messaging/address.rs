//! Where a connection is, as others name it: a reactor, a place there, and which of those that had the place it is.

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The number of its reactor.
    pub(crate) reactor: usize,
    /// Its token there, which is used again.
    pub(crate) connection: u32,
    /// Its serial number, which no other connection of the target has had.
    pub(crate) serial: u64,
}
