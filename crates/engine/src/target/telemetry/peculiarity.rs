//! Harmless behaviour of hosts that the specification does not provide for: it is accepted, and counted.
//! Each kind is described in `docs/interoperability.md`, with its hosts and the reason why it is harmless.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that a host does differently from what the specification says, and that the target accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peculiarity {
    /// A command without data whose descriptor has no length, but is not the Transport Data Block it should be.
    EmptyDescriptor,
    /// Connect without a HOSTNQN, to a subsystem that any host may use.
    EmptyHostNqn,
    /// Connect with a HOSTNQN that does not begin as every NQN does, to a subsystem that any host may use.
    OddHostNqn,
    /// Connect of an I/O queue with another HOSTID than the admin queue's.
    IoQueueHostId,
    /// Connect of an I/O queue beyond the number that was granted.
    UngrantedQueue,
    /// A keep alive time-out of more than a day.
    LongKeepAlive,
    /// More commands outstanding than the queue has entries.
    QueueOverrun,
    /// ICReq that asks for digests which this version of the specification does not have.
    UnknownDigests,
    /// Flags of digests that were not agreed on, and that are not there.
    StrayDigestFlags,
    /// LAST_PDU set before the end of what was asked for, or missing there.
    LastFlag,
    /// Checks of protection information on a namespace that has none.
    ProtectionInformation,
    /// The identifier of an Asynchronous Event Request that waits, used for another command.
    ForgottenEventRequest,
    /// Get Features of interrupts, which there are not over fabrics.
    InterruptFeature,
    /// Data in a PDU that does not say where it begins (PDO 0).
    UnsetDataOffset,
    /// A TLS key that was derived in the way of libnvme before 2025, and of Linux' hosts with it.
    CompatTlsKey,
    /// Write Zeroes of more than the controller says (WZSL).
    LongWriteZeroes,
}

const KINDS: usize = Peculiarity::ALL.len();

// A connection remembers which it has shown in the bits of one number.
const _: () = assert!(KINDS <= u32::BITS as usize);

impl Peculiarity {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 16] = [
        Self::EmptyDescriptor,
        Self::EmptyHostNqn,
        Self::OddHostNqn,
        Self::IoQueueHostId,
        Self::UngrantedQueue,
        Self::LongKeepAlive,
        Self::QueueOverrun,
        Self::UnknownDigests,
        Self::StrayDigestFlags,
        Self::LastFlag,
        Self::ProtectionInformation,
        Self::ForgottenEventRequest,
        Self::InterruptFeature,
        Self::UnsetDataOffset,
        Self::CompatTlsKey,
        Self::LongWriteZeroes,
    ];

    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EmptyDescriptor => "empty_descriptor",
            Self::EmptyHostNqn => "empty_host_nqn",
            Self::OddHostNqn => "odd_host_nqn",
            Self::IoQueueHostId => "io_queue_host_id",
            Self::UngrantedQueue => "ungranted_queue",
            Self::LongKeepAlive => "long_keep_alive",
            Self::QueueOverrun => "queue_overrun",
            Self::UnknownDigests => "unknown_digests",
            Self::StrayDigestFlags => "stray_digest_flags",
            Self::LastFlag => "last_flag",
            Self::ProtectionInformation => "protection_information",
            Self::ForgottenEventRequest => "forgotten_event_request",
            Self::InterruptFeature => "interrupt_feature",
            Self::UnsetDataOffset => "unset_data_offset",
            Self::CompatTlsKey => "compat_tls_key",
            Self::LongWriteZeroes => "long_write_zeroes",
        }
    }
}

/// On how many connections of a target each of them was seen.
#[derive(Debug)]
pub(crate) struct Peculiarities([AtomicU64; KINDS]);

impl Default for Peculiarities {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }
}

impl Peculiarities {
    /// Another connection has shown this one.
    pub(crate) fn count(&self, peculiarity: Peculiarity) {
        self.0[peculiarity as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of connections that have shown each peculiarity.
    pub(crate) fn counts(&self) -> Vec<(Peculiarity, u64)> {
        let counts = Peculiarity::ALL.into_iter().zip(&self.0);
        counts.map(|(peculiarity, count)| (peculiarity, count.load(Ordering::Relaxed))).collect()
    }
}

/// Peculiarities that the host of one connection has shown. Only the first occurrence is counted
/// and logged, which avoids shared writes per command.
#[derive(Debug)]
pub(crate) struct Seen {
    /// As bits by their numbers.
    bits: u32,
    counts: Arc<Peculiarities>,
    peer: SocketAddr,
    /// Name of the host, once it is known.
    host: Option<String>,
}

impl Seen {
    /// Creates the empty record of a connection.
    pub(crate) const fn new(counts: Arc<Peculiarities>, peer: SocketAddr) -> Self {
        Self { bits: 0, counts, peer, host: None }
    }

    /// The host has said its name.
    pub(crate) fn introduce(&mut self, host: &str) {
        self.host = Some(host.to_owned());
    }

    /// Records that the host has done this.
    #[inline]
    pub(crate) fn note(&mut self, peculiarity: Peculiarity) {
        if self.bits & 1 << peculiarity as u32 == 0 {
            self.count(peculiarity);
        }
    }

    #[cold]
    fn count(&mut self, peculiarity: Peculiarity) {
        self.bits |= 1 << peculiarity as u32;
        self.counts.count(peculiarity);
        tracing::info!(
            peer = %self.peer,
            host = self.host,
            kind = peculiarity.name(),
            "accepted what the specification does not provide for"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peculiarities_stand_at_their_numbers() {
        for (number, peculiarity) in Peculiarity::ALL.into_iter().enumerate() {
            assert_eq!(peculiarity as usize, number);
        }
    }
}
