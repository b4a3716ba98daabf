//! Records as they stand in the stream (RFC 8446, 5): headers, content types and lengths. Keys are not here.

/// Bytes before each record.
pub const HEADER_BYTES: usize = 5;
/// Bytes behind it that prove that nobody has changed it.
pub const TAG_BYTES: usize = 16;
/// The most data of a record.
pub const DATA_BYTES_MAX: usize = 1 << 14;
/// What a record has beside its data: header, content type and tag.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    Alert = 21,
    Handshake = 22,
    Data = 23,
}

/// The header of a record. Its version is that of TLS 1.2, as RFC 8446, 5.1 has it.
pub(crate) fn header(kind: ContentType, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = (body_bytes as u16).to_be_bytes();
    [kind as u8, 3, 3, high, low]
}
