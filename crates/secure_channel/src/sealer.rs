//! The sending half of a channel: seals data into records, counts them, and changes keys. Where records go is not known here.

use std::fmt;

use crate::Alert;
use crate::record::{ContentType, DATA_BYTES_MAX, HEADER_BYTES, OVERHEAD_BYTES, TAG_BYTES, header};
use crate::traffic_secret::{DirectionState, Protection, TrafficSecret};

/// Records that may be sealed with one key of AES-GCM: 2^24.5 (RFC 8446, 5.5).
pub const RECORDS_MAX: u64 = 23_726_566;
/// Records that are kept for what ends a key or the connection: a KeyUpdate and an alert.
const RECORDS_KEPT: u64 = 2;

/// Bytes of the record of an alert.
pub const ALERT_RECORD_BYTES: usize = Alert::BYTES + OVERHEAD_BYTES;
/// Bytes of the record of a KeyUpdate.
pub const KEY_UPDATE_RECORD_BYTES: usize = 5 + OVERHEAD_BYTES;

/// The number of records after which a key should be replaced. What follows depends on the peer: a KeyUpdate, or another
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordLimit(u64);

impl RecordLimit {
    /// This number, if a key can be used so often.
    pub const fn new(records: u64) -> Option<Self> {
        if records > 0 && records <= RECORDS_MAX - RECORDS_KEPT { Some(Self(records)) } else { None }
    }

    /// The number.
    pub const fn records(self) -> u64 {
        self.0
    }
}

impl Default for RecordLimit {
    /// 2^24: 7 million records before the suite's own limit, which is 4 s at 7 GB/s in records of 4
    /// KiB, so that a peer that cannot change keys has the time to reconnect.
    fn default() -> Self {
        Self(1 << 24)
    }
}

/// Why a record was not sealed. It is the caller's fault, and the channel is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The record has no room for the data, or more than a record has.
    #[error("{data_bytes} bytes of data do not go into a record of {record_bytes} bytes")]
    Length {
        /// Bytes of data.
        data_bytes: usize,
        /// Bytes of the record.
        record_bytes: usize,
    },
    /// The key was used as often as the suite allows.
    #[error("the key was used for {0} records, and no more are safe")]
    UsedUp(u64),
    /// An alert was sealed, and nothing may follow it.
    #[error("the channel was closed")]
    Closed,
}

/// The sending half of a channel.
pub struct Sealer {
    protection: Protection,
    /// The secret of the key, which another process may need to go on. The key itself is in memory too, and the secret after it
    /// follows from it, so that it gives nothing more away.
    secret: TrafficSecret,
    limit: RecordLimit,
    updates: u64,
    is_closed: bool,
}

impl Sealer {
    /// Sealer that begins with this secret.
    pub fn new(secret: &TrafficSecret, limit: RecordLimit) -> Self {
        Self::going_on(&DirectionState { secret: secret.clone(), records: 0, updates: 0 }, limit)
    }

    /// Sealer that continues from the state of another one, which seals nothing more.
    pub fn going_on(state: &DirectionState, limit: RecordLimit) -> Self {
        let DirectionState { secret, records, updates } = state;
        let protection = secret.protection_from(*records);
        Self { protection, secret: secret.clone(), limit, updates: *updates, is_closed: false }
    }

    /// State from which another sealer can continue. `None` when an alert was sealed, which nothing
    /// may follow.
    pub fn state(&self) -> Option<DirectionState> {
        let (secret, records, updates) = (self.secret.clone(), self.records(), self.updates);
        (!self.is_closed).then_some(DirectionState { secret, records, updates })
    }

    /// Records that were sealed with the present key.
    pub const fn records(&self) -> u64 {
        self.protection.records()
    }

    /// Number of key changes.
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// True if the key has reached its limit and should be replaced.
    pub const fn is_due(&self) -> bool {
        self.protection.records() >= self.limit.records()
    }

    /// Seals a record in place. The data is behind room for the header, and all bytes behind the
    /// data are overwritten: if there are more than [`OVERHEAD_BYTES`] besides the data, the rest
    /// is padding, which an observer cannot tell from data.
    ///
    /// # Errors
    /// When the lengths do not fit, the key is used up, or the channel was closed.
    pub fn seal(&mut self, record: &mut [u8], data_bytes: usize) -> Result<(), SealError> {
        self.check(data_bytes, record.len())?;
        self.seal_content(ContentType::Data as u8, record, data_bytes)
    }

    /// Seals data into a record elsewhere, without copying it first.
    ///
    /// # Errors
    /// When the record is not [`OVERHEAD_BYTES`] longer than the data, the key is used up, or the channel was closed.
    pub fn seal_from(&mut self, data: &[u8], record: &mut [u8]) -> Result<(), SealError> {
        let (data_bytes, record_bytes) = (data.len(), record.len());
        self.check(data_bytes, record_bytes)?;
        let length = SealError::Length { data_bytes, record_bytes };
        if record_bytes != data_bytes + OVERHEAD_BYTES {
            return Err(length);
        }
        let header = header(ContentType::Data, record_bytes - HEADER_BYTES);
        let (front, body) = record.split_at_mut(HEADER_BYTES);
        front.copy_from_slice(&header);
        let parts = body.split_at_mut(data_bytes);
        self.protection.seal_from(header, (data, ContentType::Data as u8), parts).ok_or(length)
    }

    /// The record of an alert. Nothing can be sealed behind it.
    ///
    /// # Errors
    /// When the key is used up, or the channel was closed.
    pub fn alert(&mut self, alert: Alert) -> Result<[u8; ALERT_RECORD_BYTES], SealError> {
        let mut record = [0; ALERT_RECORD_BYTES];
        record[HEADER_BYTES..][..Alert::BYTES].copy_from_slice(&alert.encode());
        self.check_kept(0)?;
        self.seal_content(ContentType::Alert as u8, &mut record, Alert::BYTES)?;
        self.is_closed = true;
        Ok(record)
    }

    /// The record of a KeyUpdate, behind which the next key is used. It says whether the peer is to change its key too; the
    /// answer to one that asks does not ask.
    ///
    /// # Errors
    /// When the key is used up, or the channel was closed.
    pub fn update(&mut self, asks_back: bool) -> Result<[u8; KEY_UPDATE_RECORD_BYTES], SealError> {
        let message = [24, 0, 0, 1, u8::from(asks_back)];
        let mut record = [0; KEY_UPDATE_RECORD_BYTES];
        record[HEADER_BYTES..][..message.len()].copy_from_slice(&message);
        self.check_kept(1)?;
        self.seal_content(ContentType::Handshake as u8, &mut record, message.len())?;
        self.secret = self.secret.next();
        self.protection = self.secret.protection();
        self.updates += 1;
        Ok(record)
    }

    /// As if this number of records had been sealed with the present key.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, records: u64) {
        self.protection.skip_to(records);
    }

    fn check(&self, data_bytes: usize, record_bytes: usize) -> Result<(), SealError> {
        let shortest = data_bytes.saturating_add(OVERHEAD_BYTES);
        if !(shortest..=DATA_BYTES_MAX + OVERHEAD_BYTES).contains(&record_bytes) {
            return Err(SealError::Length { data_bytes, record_bytes });
        }
        self.check_kept(RECORDS_KEPT)
    }

    /// Checks that one more record leaves the number that has to be kept.
    fn check_kept(&self, kept: u64) -> Result<(), SealError> {
        let records = self.protection.records();
        if self.is_closed {
            Err(SealError::Closed)
        } else if records >= RECORDS_MAX - kept {
            Err(SealError::UsedUp(records))
        } else {
            Ok(())
        }
    }

    /// Seals content of any type; the lengths were checked.
    pub(crate) fn seal_content(
        &mut self,
        kind: u8,
        record: &mut [u8],
        data_bytes: usize,
    ) -> Result<(), SealError> {
        let record_bytes = record.len();
        // All sealed records look like data.
        let header = header(ContentType::Data, record_bytes - HEADER_BYTES);
        let (front, body) = record.split_at_mut(HEADER_BYTES);
        front.copy_from_slice(&header);
        let (inner, tag) = body.split_at_mut(body.len() - TAG_BYTES);
        inner[data_bytes] = kind;
        inner[data_bytes + 1..].fill(0);
        let length = SealError::Length { data_bytes, record_bytes };
        self.protection.seal(header, inner, tag).ok_or(length)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, {} records, {} updates)", self.secret.suite(), self.records(), self.updates)
    }
}
