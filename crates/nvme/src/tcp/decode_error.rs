//! The error of bytes that break the transport: what it is called on the wire, and where it stands.
//! Who finds it, and what becomes of the connection, is not known here.

use super::pdu::FatalError;

/// Bytes that no conforming peer sends: the connection ends with a termination request that carries this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} (information {information:#x})", FatalError::name_of(*.error as u16))]
pub struct DecodeError {
    /// Fatal error status (FES).
    pub error: FatalError,
    /// Fatal error information (FEI): the offset of the field, or the digest received.
    pub information: u32,
}

impl DecodeError {
    /// An error with its information.
    pub const fn new(error: FatalError, information: u32) -> Self {
        Self { error, information }
    }

    /// A header field that is invalid, by its offset.
    pub(super) const fn field(at: u32) -> Self {
        Self::new(FatalError::InvalidHeaderField, at)
    }
}
