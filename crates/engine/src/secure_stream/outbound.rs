//! The sending half of a secure stream: bytes are sealed into a space, several PDUs to a record, and leave from there. What was
//! sealed has left as far as its owner is concerned: its memory may be written again.

use std::fmt;
use std::io;

use secure_channel::{
    ALERT_RECORD_BYTES, Alert, DATA_BYTES_MAX, DirectionState, HEADER_BYTES, KEY_UPDATE_RECORD_BYTES,
    OVERHEAD_BYTES, RecordLimit, SealError, Sealer, TrafficSecret,
};

use crate::limits::SEALED_SPACE_BYTES;
use crate::ring::{Buffer, Socket, Span};

/// The sending half.
pub struct Outbound {
    sealer: Sealer,
    /// Sealed records, as long as some have not left.
    space: Option<Buffer>,
    /// The first of their bytes that has not left, and where they end.
    left: usize,
    end: usize,
    /// A KeyUpdate goes before all that is sealed next: whether it asks for one in return.
    update: Option<bool>,
    /// Alert that is sent behind everything else.
    last_words: Option<Alert>,
}

impl Outbound {
    pub(super) fn new(secret: &TrafficSecret, limit: RecordLimit) -> Self {
        Self {
            sealer: Sealer::new(secret, limit),
            space: None,
            left: 0,
            end: 0,
            update: None,
            last_words: None,
        }
    }

    /// The half of a stream that another process had, which had sent all that it had sealed.
    pub(super) fn going_on(state: &DirectionState, limit: RecordLimit) -> Self {
        Self {
            sealer: Sealer::going_on(state, limit),
            space: None,
            left: 0,
            end: 0,
            update: None,
            last_words: None,
        }
    }

    /// State for another process that continues the stream. `None` as long as something waits for
    /// the socket, or when it has ended.
    pub(super) fn state(&self) -> Option<DirectionState> {
        if self.has_unsent() { None } else { self.sealer.state() }
    }

    /// True if the key should be replaced.
    pub const fn is_due(&self) -> bool {
        self.sealer.is_due()
    }

    /// Bytes that wait for the socket.
    pub const fn length(&self) -> usize {
        self.end - self.left
    }

    /// Has the next record be a KeyUpdate.
    pub fn update(&mut self, asks_back: bool) {
        // One that was asked for already does for both.
        self.update = Some(asks_back || self.update == Some(true));
    }

    /// Sends these bytes first, which are the end of the handshake.
    pub fn begin_behind(&mut self, bytes: &[u8], space: impl FnOnce(usize) -> Buffer) {
        if !bytes.is_empty() {
            let space = self.space.insert(space(SEALED_SPACE_BYTES));
            space[..bytes.len()].copy_from_slice(bytes);
            (self.left, self.end) = (0, bytes.len());
        }
    }

    /// Begins to seal into a space of the length that is asked for, which this number of bytes goes into, or as many as one
    /// space takes. What was sealed before has left.
    pub fn begin(&mut self, bytes: usize, space: impl FnOnce(usize) -> Buffer) -> Sealing<'_> {
        debug_assert!(self.space.is_none(), "what was sealed before has not left");
        let buffer = self.space.insert(space(space_for(bytes)));
        (self.left, self.end) = (0, 0);
        let mut error = None;
        if let Some(asks_back) = self.update.take() {
            match self.sealer.update(asks_back) {
                Ok(record) => {
                    buffer[..KEY_UPDATE_RECORD_BYTES].copy_from_slice(&record);
                    self.end = KEY_UPDATE_RECORD_BYTES;
                }
                Err(why) => error = Some(why),
            }
        }
        let Self { sealer, end, last_words, .. } = self;
        Sealing { sealer, space: buffer, end, last_words, data_bytes: 0, error }
    }

    /// Says why the stream ends, or that it does, as soon as all that is queued was sealed.
    pub const fn close_with(&mut self, alert: Alert) {
        if self.last_words.is_none() {
            self.last_words = Some(alert);
        }
    }

    /// True if there is something for the socket that was sealed, or an update or alert that is not
    /// queued.
    pub fn has_unsent(&self) -> bool {
        self.space.is_some() || self.wants_turn()
    }

    /// True if there is an update or alert that is not queued.
    pub const fn wants_turn(&self) -> bool {
        self.update.is_some() || self.last_words.is_some()
    }

    /// Makes one send call; true if all that was sealed has left. The space is given back then.
    ///
    /// # Errors
    /// Those of the socket, but for having no room.
    pub fn send(&mut self, socket: &Socket, give_back: impl FnOnce(Buffer)) -> io::Result<bool> {
        let Some(space) = &self.space else { return Ok(true) };
        if self.left < self.end {
            match socket.send(&[Span::new(&space[self.left..self.end])]) {
                Ok(sent) => self.left += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if self.left < self.end {
            return Ok(false);
        }
        (self.left, self.end) = (0, 0);
        if let Some(space) = self.space.take() {
            give_back(space);
        }
        Ok(true)
    }
}

/// The space that this number of bytes takes, sealed, with a KeyUpdate before and an alert behind, up to the greatest. A
/// completion now and then, as of a host that is idle, is not worth the greatest.
const fn space_for(bytes: usize) -> usize {
    let records = bytes / DATA_BYTES_MAX + 1;
    let space = bytes + records * OVERHEAD_BYTES + KEY_UPDATE_RECORD_BYTES + ALERT_RECORD_BYTES;
    if space < SEALED_SPACE_BYTES { space } else { SEALED_SPACE_BYTES }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("sealer", &self.sealer).field("unsent", &self.length()).finish()
    }
}

/// Sealing that is under way: its last record may be open, and [`Self::finish`] closes it.
#[must_use = "the last record is not sealed before `finish`"]
pub struct Sealing<'a> {
    sealer: &'a mut Sealer,
    space: &'a mut Buffer,
    /// End of what is sealed, and start of an open record.
    end: &'a mut usize,
    last_words: &'a mut Option<Alert>,
    /// Data in the open record.
    data_bytes: usize,
    error: Option<SealError>,
}

impl Sealing<'_> {
    /// Data that there is room for in all.
    pub fn capacity(&self) -> usize {
        const RECORD: usize = DATA_BYTES_MAX + OVERHEAD_BYTES;
        let free = self.free_bytes();
        let whole = free / RECORD * DATA_BYTES_MAX;
        (whole + (free % RECORD).saturating_sub(OVERHEAD_BYTES)).saturating_sub(self.data_bytes)
    }

    /// Room for data in the open record, or in the next one.
    fn room(&self) -> usize {
        self.free_bytes().saturating_sub(OVERHEAD_BYTES).min(DATA_BYTES_MAX).saturating_sub(self.data_bytes)
    }

    /// The space that is left; that of an alert stays free.
    fn free_bytes(&self) -> usize {
        self.space.len().saturating_sub(*self.end + ALERT_RECORD_BYTES)
    }

    /// Takes bytes, as many as there is room for: how many those are. None when the key is used up, which the end says.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.error.is_none() {
            let left = &bytes[taken..];
            let room = self.room();
            if self.data_bytes == 0 && room == DATA_BYTES_MAX && left.len() >= DATA_BYTES_MAX {
                // A record of its own needs no copy first.
                let record = *self.end..*self.end + DATA_BYTES_MAX + OVERHEAD_BYTES;
                let sealed = self.sealer.seal_from(&left[..DATA_BYTES_MAX], &mut self.space[record]);
                self.sealed(sealed, DATA_BYTES_MAX);
                taken += DATA_BYTES_MAX;
            } else if room > 0 {
                let copied = room.min(left.len());
                let at = *self.end + HEADER_BYTES + self.data_bytes;
                self.space[at..at + copied].copy_from_slice(&left[..copied]);
                self.data_bytes += copied;
                taken += copied;
            } else if self.data_bytes > 0 {
                self.close();
            } else {
                break;
            }
        }
        taken
    }

    /// Seals the record that is open.
    fn close(&mut self) {
        if self.data_bytes > 0 {
            let record = *self.end..*self.end + self.data_bytes + OVERHEAD_BYTES;
            let sealed = self.sealer.seal(&mut self.space[record], self.data_bytes);
            self.sealed(sealed, self.data_bytes);
            self.data_bytes = 0;
        }
    }

    fn sealed(&mut self, outcome: Result<(), SealError>, data_bytes: usize) {
        match outcome {
            Ok(()) => *self.end += data_bytes + OVERHEAD_BYTES,
            Err(error) => self.error = Some(error),
        }
    }

    /// Seals what is left, and behind it the last words, where that is all there will be.
    ///
    /// # Errors
    /// When the key is used up: what was taken last is lost, and the stream has to end.
    pub fn finish(mut self, is_all: bool) -> Result<(), SealError> {
        self.close();
        if let Some(error) = self.error {
            return Err(error);
        }
        if is_all
            && let Some(alert) = self.last_words.take()
            && let Some(room) = self.space.get_mut(*self.end..*self.end + ALERT_RECORD_BYTES)
        {
            room.copy_from_slice(&self.sealer.alert(alert)?);
            *self.end += ALERT_RECORD_BYTES;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use secure_channel::{Opened, Opener, Peer, Suite};

    use super::*;

    /// Seals this number of bytes in pieces of this length, and opens them: how many were taken in the first space.
    fn sealed(bytes: usize, piece: usize, is_last: bool) -> usize {
        let secret = TrafficSecret::new(Suite::Aes128Gcm, &[7; 32]).unwrap();
        let mut outbound = Outbound::new(&secret, RecordLimit::default());
        outbound.update(false);
        if is_last {
            outbound.close_with(Alert::CLOSE_NOTIFY);
        }
        let data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut sealing = outbound.begin(bytes, Buffer::zeroed);
        let mut taken = 0;
        for piece in data.chunks(piece) {
            let came = sealing.push(piece);
            taken += came;
            if came < piece.len() {
                break;
            }
        }
        sealing.finish(taken == bytes).unwrap();
        let (mut stream, mut opener) = (outbound.space.unwrap(), Opener::new(&secret, Peer::Host));
        let (mut at, mut opened, mut has_ended) = (0, Vec::new(), false);
        while at < outbound.end && !has_ended {
            match opener.open(&mut stream[at..outbound.end]).unwrap() {
                Opened::Data { record_bytes, data } => {
                    opened.extend_from_slice(&stream[at + data.start..at + data.end]);
                    at += record_bytes;
                }
                Opened::KeyUpdate { record_bytes, .. } => at += record_bytes,
                Opened::Closed => has_ended = true,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((has_ended, opener.updates()), (is_last && taken == bytes, 1));
        assert!(opened == data[..taken]);
        taken
    }

    #[test]
    fn what_is_queued_goes_into_one_space_up_to_the_greatest() {
        const DATA: usize = DATA_BYTES_MAX;
        for bytes in [1, 24, 4096, 4120, DATA - 1, DATA, DATA + 1, 2 * DATA, 3 * DATA + 4077, 15 * DATA - 1] {
            for piece in [1 + bytes / 7, 4096, DATA, bytes] {
                for is_last in [false, true] {
                    assert_eq!(sealed(bytes, piece, is_last), bytes, "{bytes} in pieces of {piece}");
                }
            }
        }
        let taken = sealed(SEALED_SPACE_BYTES, SEALED_SPACE_BYTES, true);
        assert!((15 * DATA..SEALED_SPACE_BYTES).contains(&taken), "{taken}");
    }
}
