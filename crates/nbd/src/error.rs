//! What goes wrong: errors that a reply reports, and those that end its connection.

use thiserror::Error;

/// An error in a reply (section "Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// The export is read only, or reserved by another host.
    NotPermitted = 1,
    /// The storage failed.
    InputOutput = 5,
    /// The request is not one that can be done.
    Invalid = 22,
    /// No space, or past the end.
    NoSpace = 28,
    /// Too long to be answered as asked.
    Overflow = 75,
    /// Not faster than writing.
    NotSupported = 95,
    /// The server is about to end.
    ShuttingDown = 108,
}

impl Errno {
    /// The error of this code.
    pub fn of(code: u32) -> Option<Self> {
        let all = [
            Self::NotPermitted,
            Self::InputOutput,
            Self::Invalid,
            Self::NoSpace,
            Self::Overflow,
            Self::NotSupported,
            Self::ShuttingDown,
        ];
        all.into_iter().find(|error| error.code() == code)
    }

    /// Value in replies.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The client knows other flags than the server offers.
    #[error("client flags {0:#x} were not offered")]
    ClientFlags(u32),
    /// The bytes at the place of an option do not begin one.
    #[error("an option begins with {0:#018x} instead of IHAVEOPT")]
    OptionMagic(u64),
    /// An option with more data than is read.
    #[error(
        "option {option} has {length} bytes of data; at most {} are read",
        crate::limits::OPTION_BYTES_MAX
    )]
    OptionLength {
        /// Number of the option.
        option: u32,
        /// Length of its data.
        length: u32,
    },
    /// The one way to choose an export that has no reply for an error.
    #[error("there is no export {0:?}")]
    NoExport(String),
    /// NBD_OPT_EXPORT_NAME, which has no reply for an error, before TLS that is required.
    #[error("TLS is required, and the client chose an export without it")]
    TlsRequired,
    /// NBD_OPT_EXPORT_NAME after extended headers, which it must not follow.
    #[error("NBD_OPT_EXPORT_NAME does not go with extended headers")]
    ExtendedExportName,
    /// The bytes at the place of a request do not begin one.
    #[error("a request begins with {0:#010x} instead of its magic number")]
    RequestMagic(u32),
    /// A request with more data than is read.
    #[error("a request has {length} bytes of data; at most {} are read", crate::limits::PAYLOAD_BYTES_MAX)]
    PayloadLength {
        /// Length of its data.
        length: u64,
    },
}
