//! Where records end in what a peer sends during a handshake, and how much of it there may be. The library gets one record at a
//! time, so that each of its steps can be looked at before the next. What is in a record is not known here.

use secure_channel::{Alert, DATA_BYTES_MAX, HEADER_BYTES, TAG_BYTES};

/// The most that a peer may send: a host two ClientHellos of 8 KiB, a controller less than 4 KiB. Certificates are refused.
pub(crate) const INPUT_BYTES_MAX: usize = 32 << 10;
/// The most records, of which no peer needs more than eight.
pub(crate) const RECORDS_MAX: usize = 32;

const CHANGE_CIPHER_SPEC: u8 = 20;
const DATA: u8 = 23;
/// Inner content type, tag, and data of a sealed record.
const BODY_BYTES_MAX: usize = DATA_BYTES_MAX + 1 + TAG_BYTES;

/// Position in a stream of records.
#[derive(Debug, Default)]
pub struct Framing {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Of the present record.
    body_bytes_left: usize,
    records: usize,
    bytes: usize,
}

/// Violation by a peer, and the alert to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rest of a sentence that begins with the peer.
    pub what: &'static str,
    /// Alert to send.
    pub alert: Alert,
}

impl Framing {
    /// Number of these bytes that belong to the present record. They count as taken.
    ///
    /// # Errors
    /// When the present record is not one of a handshake, or there were too many.
    pub fn next(&mut self, stream: &[u8]) -> Result<usize, Violation> {
        let mut bytes = 0;
        if self.body_bytes_left == 0 {
            for byte in stream.iter().take(HEADER_BYTES - self.header_bytes) {
                self.header[self.header_bytes] = *byte;
                self.header_bytes += 1;
                bytes += 1;
            }
            if self.header_bytes < HEADER_BYTES {
                return Ok(bytes);
            }
            self.body_bytes_left = self.begin_record()?;
        }
        let of_body = self.body_bytes_left.min(stream.len() - bytes);
        self.body_bytes_left -= of_body;
        if self.body_bytes_left == 0 {
            self.header_bytes = 0;
        }
        Ok(bytes + of_body)
    }

    /// Checks a header, and says how long the record's body is.
    fn begin_record(&mut self) -> Result<usize, Violation> {
        let [kind, major, _, high, low] = self.header;
        let body_bytes = usize::from(u16::from_be_bytes([high, low]));
        self.records += 1;
        self.bytes += HEADER_BYTES + body_bytes;
        if !(CHANGE_CIPHER_SPEC..=DATA).contains(&kind) || major != 3 {
            Err(Violation { what: "sent something that is not TLS", alert: Alert::UNEXPECTED_MESSAGE })
        } else if body_bytes == 0 {
            Err(Violation { what: "sent an empty record", alert: Alert::UNEXPECTED_MESSAGE })
        } else if body_bytes > BODY_BYTES_MAX {
            Err(Violation { what: "sent a record that is too long", alert: Alert::RECORD_OVERFLOW })
        } else if self.records > RECORDS_MAX || self.bytes > INPUT_BYTES_MAX {
            Err(Violation { what: "sent more than a handshake needs", alert: Alert::UNEXPECTED_MESSAGE })
        } else {
            Ok(body_bytes)
        }
    }
}
