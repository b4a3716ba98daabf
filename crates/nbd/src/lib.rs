//! The server's side of NBD, the network block device (doc/proto.md of the NBD project, and its extension of extended
//! headers): what a client's bytes mean, and the bytes of replies. It does no I/O, reads no clock and keeps no data, so that a
//! connection is tried in memory. Where blocks are is its user's to know.
//!
//! A connection begins with a [`Handshake`], in which the client chooses an [`Export`] and the form of replies. What follows are
//! [`Request`]s, each answered by a [`Head`] that [`Replies`] makes, and the data that goes behind it.
//!
//! ```
//! use nbd::{Export, Handshake, Step};
//!
//! let exports = [Export { name: "disk".to_owned(), size: 1 << 20, ..Export::default() }];
//! let (mut handshake, mut output) = (Handshake::default(), Vec::new());
//! handshake.greet(&mut output);
//! assert_eq!(&output[..16], b"NBDMAGICIHAVEOPT");
//!
//! // The client's flags, and NBD_OPT_EXPORT_NAME.
//! let flags = 3u32.to_be_bytes();
//! assert_eq!(handshake.step(&flags, &exports, &mut output)?, Step::Took(4));
//! let option = [b"IHAVEOPT".as_slice(), &1u32.to_be_bytes(), &4u32.to_be_bytes(), b"disk"].concat();
//! let Step::Chosen(20, session) = handshake.step(&option, &exports, &mut output)? else { panic!() };
//! assert_eq!(session.export, 0);
//! # Ok::<(), nbd::ProtocolError>(())
//! ```

mod context_query;
mod error;
mod export;
mod export_option;
mod fields;
mod handshake;
pub mod limits;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use error::{Errno, ProtocolError};
pub use export::Export;
pub use handshake::{Handshake, HandshakeState, Headers, Session, Step, Tls};
pub use reply::{HEAD_BYTES_MAX, Head, Replies};
pub use request::{Command, REQUEST_BYTES_MAX, Request};
