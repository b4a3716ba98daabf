//! What a client may ask for, each limit with its reason.

/// Bytes of an option's data: a name of the greatest length, and as much again for queries and what comes with them. The names of
/// options that clients send have some dozens.
pub const OPTION_BYTES_MAX: usize = 16 << 10;
/// Bytes of a name, a description or a query: the protocol's own limit.
pub const STRING_BYTES_MAX: usize = 4096;
/// Bytes of the data of one request: what every client may assume, advertised or not.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The greatest minimum block size that may be advertised.
pub const BLOCK_BYTES_MAX: u32 = 1 << 16;
/// Bytes of replies to options that have not been sent at which no more options are taken: a client that does not read them
/// has no more made.
pub const HANDSHAKE_OUTPUT_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(OPTION_BYTES_MAX >= 2 * STRING_BYTES_MAX);
