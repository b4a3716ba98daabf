//! Handshake messages after the handshake: KeyUpdate, and tickets, which this end ignores. They may
//! be split over records anywhere; only the position within the present one is kept.

use crate::record::RecordError;

/// NewSessionTicket and KeyUpdate (RFC 8446, 4).
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// Type and length before each message.
const HEADER_BYTES: usize = 4;
/// Tickets are passed over, and some servers' have certificates in them; none is as long as this.
const TICKET_BYTES_MAX: u32 = 1 << 16;

/// A KeyUpdate, if it is what a record ends with: whether the peer asks for one in return.
pub(crate) type KeyUpdate = Option<bool>;

/// Position in the stream of messages.
#[derive(Default)]
pub(crate) struct PostHandshake {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    body_bytes_left: u32,
    takes_tickets: bool,
}

impl PostHandshake {
    /// Of a server: only servers send tickets.
    pub(crate) fn new(takes_tickets: bool) -> Self {
        Self { takes_tickets, ..Self::default() }
    }

    /// True if no message is under way.
    pub(crate) const fn is_between(&self) -> bool {
        self.header_bytes == 0
    }

    /// Takes what one record has of them. Keys change behind a KeyUpdate, so nothing may follow it in its record.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<KeyUpdate, RecordError> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.header_bytes < HEADER_BYTES {
                self.header[self.header_bytes] = *first;
                self.header_bytes += 1;
                bytes = rest;
                if self.header_bytes == HEADER_BYTES {
                    self.begin()?;
                }
                continue;
            }
            if self.header[0] == KEY_UPDATE {
                self.header_bytes = 0;
                return match first {
                    _ if !rest.is_empty() => Err(RecordError::Torn),
                    0 | 1 => Ok(Some(*first == 1)),
                    value => Err(RecordError::KeyUpdate(*value)),
                };
            }
            let passed = bytes.len().min(self.body_bytes_left as usize);
            self.body_bytes_left -= passed as u32;
            bytes = &bytes[passed..];
            if self.body_bytes_left == 0 {
                self.header_bytes = 0;
            }
        }
        Ok(None)
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        let [kind, length @ ..] = self.header;
        let bytes = length.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        match kind {
            KEY_UPDATE if bytes == 1 => {}
            NEW_SESSION_TICKET if self.takes_tickets && (1..=TICKET_BYTES_MAX).contains(&bytes) => {}
            KEY_UPDATE => return Err(RecordError::MessageLength { kind, bytes }),
            NEW_SESSION_TICKET if self.takes_tickets => {
                return Err(RecordError::MessageLength { kind, bytes });
            }
            _ => return Err(RecordError::Message(kind)),
        }
        self.body_bytes_left = bytes;
        Ok(())
    }
}
