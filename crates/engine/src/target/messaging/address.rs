//! Address of a connection for messages: its reactor, its slot there, and a serial number that
//! tells it from earlier users of the slot.

/// Address of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The number of its reactor.
    pub(crate) reactor: usize,
    /// Token of the connection on its reactor, which is reused.
    pub(crate) connection: u32,
    /// Serial number of the connection, unique in the target.
    pub(crate) serial: u64,
}
