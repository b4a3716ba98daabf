//! Reading a discovery log while it may change: whole, in pieces, and again when it changed in between.
//! What to connect to is decided by who asked.

use std::fmt::Display;

use nvme::Status;
use nvme::discovery::{DiscoveryEntry, DiscoveryLog, DiscoveryLogHeader, RECORD_BYTES};
use nvme::log_page::LogPageId;
use zerocopy::FromBytes;

use super::controller::Controller;
use crate::initiator::InitiatorError;

/// A log that goes on changing is read this often before it is given up.
const TRIES_MAX: usize = 10;
/// The longest log that is read, in bytes: the number of its records is the target's word.
const LOG_LENGTH_MAX: usize = 16 << 20;
const WHAT: &str = "Get Log Page (Discovery)";

/// Discovery log of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecords {
    /// Changes whenever the records do (GENCTR).
    pub generation_counter: u64,
    /// The subsystems and referrals.
    pub entries: Vec<DiscoveryEntry>,
}

impl Controller {
    /// The discovery log of a discovery controller, all of it from one generation.
    ///
    /// # Errors
    /// When the connection is lost, the controller is not a discovery controller, or the log is invalid, is
    /// over 16 MiB, or never stops changing.
    pub fn discovery_log(&self) -> Result<DiscoveryRecords, InitiatorError> {
        for _ in 0..TRIES_MAX {
            match self.try_discovery_log() {
                Ok(Some(records)) => return Ok(records),
                Ok(None) => {}
                Err(error) => match error.status().map(Status::without_flags) {
                    Some(Status::DISCOVER_RESTART) => {}
                    _ => return Err(error),
                },
            }
        }
        bad(&format!("it changed each of the {TRIES_MAX} times it was read"))
    }

    /// Reads the log once: `None` if it changed meanwhile.
    fn try_discovery_log(&self) -> Result<Option<DiscoveryRecords>, InitiatorError> {
        let before = self.discovery_header()?;
        before.check().or_else(|error| bad(&error))?;
        let length = before.log_bytes().filter(|length| *length <= LOG_LENGTH_MAX);
        let Some(length) = length else {
            return bad(&format!("it announces {} records", before.record_count.get()));
        };
        let bytes = self.read_log(LogPageId::DISCOVERY, 0, 0, length, false)?;
        let after = self.discovery_header()?;
        let log = DiscoveryLog::parse(&bytes).or_else(|error| bad(&error))?;
        let generation_counter = log.header.generation_counter.get();
        let same = before.generation_counter.get() == generation_counter
            && after.generation_counter.get() == generation_counter;
        Ok(same.then(|| DiscoveryRecords { generation_counter, entries: log.entries.to_vec() }))
    }

    fn discovery_header(&self) -> Result<DiscoveryLogHeader, InitiatorError> {
        let bytes = self.read_log(LogPageId::DISCOVERY, 0, 0, RECORD_BYTES, true)?;
        DiscoveryLogHeader::read_from_bytes(&bytes).or_else(|_| bad(&"its header is not whole"))
    }
}

fn bad<T>(reason: &dyn Display) -> Result<T, InitiatorError> {
    Err(InitiatorError::BadAnswer { what: WHAT, reason: reason.to_string() })
}
