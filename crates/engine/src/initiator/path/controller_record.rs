//! Records of controllers, for quiescing them here or in a later process, and their store.
//! `quiesce` finds out when a controller is quiesced.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nvme::cross_reset::ControllerInstance;
use nvme::identify::bits::controller_attributes::TRAFFIC_BASED_KEEP_ALIVE;
use uuid::Uuid;

use crate::initiator::{ConnectOptions, Controller};

/// A controller that a set of paths has or had: what another one needs to know to bring it to rest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ControllerRecord {
    /// Address on which the target listens.
    pub address: SocketAddr,
    /// The subsystem.
    pub subsystem_nqn: String,
    /// Name of the host whose it is (HOSTNQN).
    pub host_nqn: String,
    /// Identifier of that host (HOSTID).
    pub host_id: Uuid,
    /// Controller identifier (CNTLID).
    pub controller_id: u16,
    /// Number of controllers that have had this identifier (CIU).
    pub uniquifier: u8,
    /// Controller instance random number (CIRN); 0 where the target has none, or it is not known:
    /// then it is quiesced by time alone.
    pub random_number: u64,
    /// The keep alive time-out that it was asked for, in milliseconds.
    pub keep_alive_ms: u32,
    /// Set if any command restarts its keep alive timer (TBKAS).
    pub traffic_based_keep_alive: bool,
    /// In how many milliseconds its last commands end (CQT); 0 where it does not say.
    pub command_quiesce_ms: u16,
}

/// Reason for which a controller cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// As many controllers as a process may have that are not quiesced.
    #[error("{0} controllers have not come to rest")]
    Full(usize),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Store of the records of a set of paths: a later process finds those controllers that are not quiesced. It is called
/// by the threads that keep the paths, never by one that has queues, and may take its time.
pub trait ControllerRecordStore: Debug + Send + Sync {
    /// A controller is connected. Nothing is written through it before this has returned.
    ///
    /// # Errors
    /// Reason for which it cannot be saved: the controller is not used then, and the path is tried again later.
    fn save(&self, controller: &ControllerRecord) -> Result<(), RecordError>;

    /// Records that nothing sent to the controller can take effect now: one that was given to
    /// `save`, or one that an earlier process left.
    fn quiesced(&self, controller: &ControllerRecord);
}

impl ControllerRecord {
    /// Record of a connected controller.
    pub(super) fn of(controller: &Controller) -> Self {
        let (options, identify) = (controller.options(), controller.identify());
        Self {
            address: options.address,
            subsystem_nqn: options.subsystem_nqn.clone(),
            host_nqn: options.host.nqn.clone(),
            host_id: Uuid::from_bytes(options.host.id),
            controller_id: controller.id(),
            uniquifier: identify.instance_uniquifier,
            random_number: identify.instance_random_number.get(),
            keep_alive_ms: options.keep_alive_ms,
            traffic_based_keep_alive: identify.controller_attributes.get() & TRAFFIC_BASED_KEEP_ALIVE != 0,
            command_quiesce_ms: identify.command_quiesce_time_ms.get(),
        }
    }

    /// Record of a controller of which only the keep alive time-out is known: it takes the longest
    /// possible time to quiesce, and cannot be reset.
    pub fn unknown(keep_alive_ms: u32) -> Self {
        Self {
            address: ([0, 0, 0, 0], 0).into(),
            subsystem_nqn: String::new(),
            host_nqn: String::new(),
            host_id: Uuid::nil(),
            controller_id: 0,
            uniquifier: 0,
            random_number: 0,
            keep_alive_ms,
            traffic_based_keep_alive: true,
            command_quiesce_ms: u16::MAX,
        }
    }

    /// Instance of the controller.
    pub(super) const fn instance(&self) -> ControllerInstance {
        ControllerInstance {
            controller_id: self.controller_id,
            uniquifier: self.uniquifier,
            random_number: self.random_number,
        }
    }

    /// True if a host with these options may have it reset: others' controllers are refused.
    pub(super) fn is_resettable_by(&self, options: &ConnectOptions) -> bool {
        self.random_number != 0
            && self.subsystem_nqn == options.subsystem_nqn
            && self.host_nqn == options.host.nqn
            && self.host_id.as_bytes() == &options.host.id
    }

    /// Time for which the controller may still let its commands take effect after it has lost its
    /// host (Base 9.6): its keep alive timer has to run out, which it may notice as late as one
    /// more time-out, or two where any command restarts the timer; and then its commands have to
    /// quiesce, in the time `unknown` where it does not say in which.
    pub(super) fn quiesce_time(&self, unknown: Duration) -> Duration {
        let keep_alives = if self.traffic_based_keep_alive { 3 } else { 2 };
        let quiesce = match self.command_quiesce_ms {
            0 => unknown,
            ms => Duration::from_millis(ms.into()),
        };
        Duration::from_millis(u64::from(self.keep_alive_ms)) * keep_alives + quiesce
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::HostIdentity;

    fn record() -> ControllerRecord {
        ControllerRecord {
            address: ([127, 0, 0, 1], 4420).into(),
            subsystem_nqn: "nqn.2014-08.org.example:a".to_owned(),
            host_nqn: "nqn.2014-08.org.example:host".to_owned(),
            host_id: Uuid::from_u128(7),
            controller_id: 1,
            uniquifier: 2,
            random_number: 3,
            keep_alive_ms: 5000,
            traffic_based_keep_alive: false,
            command_quiesce_ms: 2000,
        }
    }

    #[test]
    fn the_time_follows_the_keep_alive_and_what_the_controller_promises() {
        let time = |keep_alive_ms, traffic_based_keep_alive, command_quiesce_ms| {
            ControllerRecord { keep_alive_ms, traffic_based_keep_alive, command_quiesce_ms, ..record() }
                .quiesce_time(Duration::from_secs(30))
        };
        assert_eq!(time(5000, false, 2000), Duration::from_secs(12));
        assert_eq!(time(5000, true, 2000), Duration::from_secs(17));
        assert_eq!(time(1000, true, 0), Duration::from_secs(33));
    }

    #[test]
    fn an_error_of_a_record_says_what_is_in_the_way() {
        let full = io::Error::other("the disk is full");
        for (error, said) in [
            (RecordError::Full(2), "2 controllers have not come to rest"),
            (RecordError::Write(full), "the disk is full"),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn only_its_own_host_has_a_controller_reset() {
        let own = ConnectOptions {
            host: HostIdentity { nqn: record().host_nqn, id: *record().host_id.as_bytes() },
            ..ConnectOptions::new(record().address, record().subsystem_nqn)
        };
        assert!(record().is_resettable_by(&own));
        assert!(!ControllerRecord { random_number: 0, ..record() }.is_resettable_by(&own));
        let host = |nqn: &str, id| HostIdentity { nqn: nqn.to_owned(), id };
        for host in [host(&own.host.nqn, [1; 16]), host("nqn.2014-08.org.example:other", own.host.id)] {
            assert!(!record().is_resettable_by(&ConnectOptions { host, ..own.clone() }));
        }
        let elsewhere = ConnectOptions { subsystem_nqn: "nqn.2014-08.org.example:b".to_owned(), ..own };
        assert!(!record().is_resettable_by(&elsewhere));
    }
}
