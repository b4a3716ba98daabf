//! Counters of commands by namespace, written by each reactor for itself and read by any thread: no
//! shared write per command. Sums over reactors are computed on request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nvme::Status;

use super::size_class::{SIZES, SizeClass};
use super::stage::STAGES;
use crate::histogram::{Histogram, LATENCY_BUCKETS, bucket_of};
use crate::limits::{NAMESPACES_MAX, STATUSES_COUNTED_MAX};
use crate::ring::{self, Moment};
use crate::target::lock::lock;

/// Kind of an I/O command, as counters distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Compare.
    Compare,
    /// Write Zeroes.
    WriteZeroes,
    /// Dataset Management.
    DatasetManagement,
    /// Flush.
    Flush,
    /// Verify.
    Verify,
    /// Copy.
    Copy,
    /// Write Uncorrectable.
    WriteUncorrectable,
    /// Reservation Register, Report, Acquire and Release.
    Reservation,
}

/// Number of operations.
pub(crate) const OPERATIONS: usize = Operation::ALL.len();

impl Operation {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Write,
        Self::Compare,
        Self::WriteZeroes,
        Self::DatasetManagement,
        Self::Flush,
        Self::Verify,
        Self::Copy,
        Self::WriteUncorrectable,
        Self::Reservation,
    ];

    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Compare => "compare",
            Self::WriteZeroes => "write_zeroes",
            Self::DatasetManagement => "dataset_management",
            Self::Flush => "flush",
            Self::Verify => "verify",
            Self::Copy => "copy",
            Self::WriteUncorrectable => "write_uncorrectable",
            Self::Reservation => "reservation",
        }
    }
}

/// A load and a store, not a read-modify-write: there is one writer.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

/// Counters of an operation on a namespace. A command that is answered at once writes to a single
/// cache line: its time is 0, which counts in the first bucket and does not change the sum.
#[derive(Debug, Default)]
struct OperationCounters {
    bytes: AtomicU64,
    latency_ns_sum: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS],
    /// By the size of commands. Made with the first one that takes time.
    stages: OnceLock<Box<[[StageCounters; STAGES]; SIZES]>>,
}

/// Times of commands of one operation in one stage. Commands that skipped the stage are not
/// counted.
#[derive(Debug, Default)]
struct StageCounters {
    sum_ns: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS],
}

impl StageCounters {
    fn add_to(&self, sum: &mut Histogram) {
        sum.sum_ns += self.sum_ns.load(Ordering::Relaxed);
        for (own, sum) in self.buckets.iter().zip(&mut sum.buckets) {
            *sum += own.load(Ordering::Relaxed);
        }
    }
}

/// Counter of a status, identified by type and code; 0, which is success, marks a free place.
#[derive(Debug, Default)]
struct StatusCounter {
    status: AtomicU32,
    count: AtomicU64,
}

/// Counters of one reactor on one namespace.
#[derive(Debug, Default)]
#[repr(align(128))]
struct NamespaceCounters {
    operations: [OperationCounters; OPERATIONS],
    media_errors: AtomicU64,
    differences: AtomicU64,
    different_bytes: AtomicU64,
    /// Storage operations that outlived the Command Quiesce Time: changes, and others.
    late: [AtomicU64; 2],
    /// Start time of the oldest operation at the storage; 0 without one.
    oldest: AtomicU64,
    statuses: [StatusCounter; STATUSES_COUNTED_MAX],
    other_statuses: AtomicU64,
}

impl NamespaceCounters {
    fn count_status(&self, status: Status) {
        let status = u32::from(status.without_flags().bits());
        for known in &self.statuses {
            let here = known.status.load(Ordering::Relaxed);
            if here == 0 {
                known.status.store(status, Ordering::Release);
            } else if here != status {
                continue;
            }
            return add(&known.count, 1);
        }
        add(&self.other_statuses, 1);
    }

    fn add_to(&self, sum: &mut NamespaceCounts) {
        for (own, sum) in self.operations.iter().zip(&mut sum.operations) {
            sum.bytes += own.bytes.load(Ordering::Relaxed);
            sum.latency.sum_ns += own.latency_ns_sum.load(Ordering::Relaxed);
            for (own, sum) in own.buckets.iter().zip(&mut sum.latency.buckets) {
                *sum += own.load(Ordering::Relaxed);
            }
            let Some(stages) = own.stages.get() else { continue };
            let sums = sum.stages.get_or_insert_default();
            for (own, sum) in stages.iter().flatten().zip(sums.iter_mut().flatten()) {
                own.add_to(sum);
            }
        }
        sum.media_errors += self.media_errors.load(Ordering::Relaxed);
        sum.differences += self.differences.load(Ordering::Relaxed);
        sum.different_bytes += self.different_bytes.load(Ordering::Relaxed);
        sum.late_changes += self.late[1].load(Ordering::Relaxed);
        sum.late_others += self.late[0].load(Ordering::Relaxed);
        let oldest = Some(Moment(self.oldest.load(Ordering::Relaxed))).filter(|oldest| oldest.0 > 0);
        sum.oldest = sum.oldest.into_iter().chain(oldest).min();
        for known in &self.statuses {
            let status = known.status.load(Ordering::Acquire) as u16;
            if status != 0 {
                *sum.statuses.entry(status).or_default() += known.count.load(Ordering::Relaxed);
            }
        }
        sum.other_statuses += self.other_statuses.load(Ordering::Relaxed);
    }
}

/// Namespaces of one chunk of a reactor's table.
const CHUNK: usize = 32;
/// Chunks that hold all namespace identifiers, and 0 for what belongs to no namespace.
const CHUNKS: usize = (NAMESPACES_MAX as usize + 1).div_ceil(CHUNK);

type Chunk = [OnceLock<Box<NamespaceCounters>>; CHUNK];

/// Counters of one reactor on one subsystem, by namespace. Written by this reactor alone. A
/// namespace's counters are created by its first command, and stay when the namespace is removed: a
/// counter never decreases.
#[derive(Debug)]
pub(crate) struct ReactorCounters {
    chunks: [OnceLock<Box<Chunk>>; CHUNKS],
}

impl Default for ReactorCounters {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl ReactorCounters {
    fn find(&self, nsid: u32) -> Option<&NamespaceCounters> {
        let nsid = nsid as usize;
        let chunk = self.chunks.get(nsid / CHUNK)?.get()?;
        chunk[nsid % CHUNK].get().map(|counters| &**counters)
    }

    fn of(&self, nsid: u32) -> &NamespaceCounters {
        self.find(nsid).unwrap_or_else(|| self.make(nsid))
    }

    #[cold]
    fn make(&self, nsid: u32) -> &NamespaceCounters {
        // No namespace has a larger identifier.
        let nsid = if nsid <= NAMESPACES_MAX { nsid as usize } else { 0 };
        self.chunks[nsid / CHUNK].get_or_init(Box::default)[nsid % CHUNK].get_or_init(Box::default)
    }

    /// True if there were commands on the namespace with this identifier.
    pub(crate) fn knows(&self, nsid: u32) -> bool {
        self.find(nsid).is_some()
    }

    /// Counts a command that went well where it was decoded, so that it took no time.
    pub(crate) fn done_at_once(&self, nsid: u32, operation: Operation, length: u32) {
        let counters = &self.of(nsid).operations[operation as usize];
        add(&counters.bytes, u64::from(length));
        add(&counters.buckets[const { bucket_of(0) }], 1);
    }

    /// Counts a command that went well: `length` bytes travelled with it, it took this number of nanoseconds, and of that so much
    /// in each stage.
    pub(crate) fn done(
        &self,
        nsid: u32,
        operation: Operation,
        length: u32,
        (took_ns, times): (u64, [u64; STAGES]),
    ) {
        let counters = &self.of(nsid).operations[operation as usize];
        add(&counters.bytes, u64::from(length));
        add(&counters.buckets[bucket_of(took_ns)], 1);
        if took_ns > 0 {
            add(&counters.latency_ns_sum, took_ns);
            let stages = &counters.stages.get_or_init(Box::default)[SizeClass::of(length) as usize];
            for (stage, took_ns) in stages.iter().zip(times).filter(|(_, took_ns)| *took_ns > 0) {
                add(&stage.buckets[bucket_of(took_ns)], 1);
                add(&stage.sum_ns, took_ns);
            }
        }
    }

    /// Counts a command that failed, under 0 when it named no namespace there is.
    pub(crate) fn failed(&self, nsid: u32, status: Status) {
        self.of(nsid).count_status(status);
    }

    /// Counts a Compare of `length` bytes that found a difference: it failed, but it has read like any other.
    pub(crate) fn differed(&self, nsid: u32, length: u32) {
        add(&self.of(nsid).differences, 1);
        add(&self.of(nsid).different_bytes, u64::from(length));
    }

    /// Counts a storage operation that outlived the Command Quiesce Time.
    pub(crate) fn late(&self, nsid: u32, changes: bool) {
        add(&self.of(nsid).late[usize::from(changes)], 1);
    }

    /// Records since when the oldest operation has been at the storage.
    pub(crate) fn set_oldest(&self, nsid: u32, since: Option<Moment>) {
        self.of(nsid).oldest.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    /// Counts an error of the storage.
    pub(crate) fn media_error(&self, nsid: u32) {
        add(&self.of(nsid).media_errors, 1);
    }

    fn add_to(&self, sums: &mut BTreeMap<u32, NamespaceCounts>) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk.get() else { continue };
            for (at, counters) in chunk.iter().enumerate() {
                if let Some(counters) = counters.get() {
                    counters.add_to(sums.entry((number * CHUNK + at) as u32).or_default());
                }
            }
        }
    }
}

/// Counters of one namespace, summed over all reactors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceCounts {
    pub(crate) operations: [OperationCounts; OPERATIONS],
    pub(crate) media_errors: u64,
    /// Compares that found one, and their bytes.
    pub(crate) differences: u64,
    pub(crate) different_bytes: u64,
    /// Storage operations that outlived the Command Quiesce Time.
    pub(crate) late_changes: u64,
    pub(crate) late_others: u64,
    /// Since when the oldest one is at the storage.
    pub(crate) oldest: Option<Moment>,
    /// By status type and code.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) other_statuses: u64,
}

/// Counters of an operation on a namespace, summed over all reactors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperationCounts {
    pub(crate) bytes: u64,
    pub(crate) latency: Histogram,
    /// By the size of commands; there once one has taken time.
    pub(crate) stages: Option<Box<[[Histogram; STAGES]; SIZES]>>,
}

impl OperationCounts {
    /// Time of commands of all sizes in each stage, in nanoseconds.
    pub(crate) fn stages_ns(&self) -> [u64; STAGES] {
        let mut sums = [0; STAGES];
        for stages in self.stages.iter().flat_map(|stages| stages.iter()) {
            sums.iter_mut().zip(stages).for_each(|(sum, stage)| *sum += stage.sum_ns);
        }
        sums
    }
}

/// Counters in the health log, summed over all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) read_commands: u64,
    pub(crate) write_commands: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) media_errors: u64,
}

/// The counters of one subsystem, by reactor.
#[derive(Debug, Default)]
pub(crate) struct SubsystemCounters {
    by_reactor: Mutex<BTreeMap<usize, Arc<ReactorCounters>>>,
    /// Number that no other counters have; chosen for its first reader.
    number: OnceLock<u64>,
}

impl SubsystemCounters {
    /// Returns the number of these counters, by which a host tells them from those of other targets.
    pub(crate) fn number(&self) -> u64 {
        *self.number.get_or_init(|| ring::random().max(1))
    }

    /// Counters that the reactor with this number writes.
    pub(crate) fn of_reactor(&self, number: usize) -> Arc<ReactorCounters> {
        lock(&self.by_reactor).entry(number).or_default().clone()
    }

    /// Sums over all reactors, by namespace.
    pub(crate) fn by_namespace(&self) -> BTreeMap<u32, NamespaceCounts> {
        let reactors: Vec<Arc<ReactorCounters>> = lock(&self.by_reactor).values().cloned().collect();
        let mut sums = BTreeMap::new();
        for reactor in reactors {
            reactor.add_to(&mut sums);
        }
        sums
    }

    /// Latencies of all commands on a namespace, and their time in each stage, in nanoseconds.
    pub(crate) fn command_stages(&self, nsid: u32) -> (Histogram, [u64; STAGES]) {
        let reactors: Vec<Arc<ReactorCounters>> = lock(&self.by_reactor).values().cloned().collect();
        let mut counts = NamespaceCounts::default();
        reactors.iter().filter_map(|reactor| reactor.find(nsid)).for_each(|one| one.add_to(&mut counts));
        let (mut latency, mut stages_ns) = (Histogram::default(), [0; STAGES]);
        for operation in &counts.operations {
            latency.merge(&operation.latency);
            stages_ns.iter_mut().zip(operation.stages_ns()).for_each(|(sum, own)| *sum += own);
        }
        (latency, stages_ns)
    }

    /// Sums over everything.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.by_namespace().values() {
            let of = |operation: Operation| &counts.operations[operation as usize];
            let (read, compared) = (of(Operation::Read), of(Operation::Compare));
            let written = of(Operation::Write);
            sum.read_commands += read.latency.count() + compared.latency.count() + counts.differences;
            sum.read_bytes += read.bytes + compared.bytes + counts.different_bytes;
            sum.write_commands += written.latency.count();
            sum.write_bytes += written.bytes;
            sum.media_errors += counts.media_errors;
        }
        sum
    }
}

/// In front of a moment.
const SINCE: u64 = 1 << 63;

/// Counters that a reactor updates with every round. Written by the reactor alone, except for
/// `reported_ns`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReactorTally {
    rounds: AtomicU64,
    events: AtomicU64,
    buffer_bytes: AtomicU64,
    /// Total time spent waiting, in nanoseconds. During a wait: `SINCE` and the start of a wait as
    /// long as the total. A single word, of which a reader never sees halves of two rounds.
    waited_ns: AtomicU64,
    /// The most of that which was reported: by two clock readings the next round may come to less.
    reported_ns: AtomicU64,
    half_open_dropped: AtomicU64,
}

impl ReactorTally {
    /// Records a round with this number of events, before which this number of bytes of free buffers was kept, and how long
    /// the reactor has waited for events since its start.
    pub(crate) fn round(&self, events: usize, buffer_bytes: usize, waited: Duration) {
        add(&self.rounds, 1);
        add(&self.events, events as u64);
        self.buffer_bytes.store(buffer_bytes as u64, Ordering::Relaxed);
        self.waited_ns.store(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Records that the reactor is about to wait, maybe for long.
    pub(crate) fn sleeps(&self, now: Moment, waited: Duration) {
        let since = now.0.saturating_sub(waited.as_nanos() as u64);
        self.waited_ns.store(SINCE | since, Ordering::Relaxed);
    }

    /// Time that the reactor has waited for events until `now`. Never decreases.
    pub(crate) fn waited(&self, now: Moment) -> Duration {
        let waited_ns = match self.waited_ns.load(Ordering::Relaxed) {
            since if since & SINCE != 0 => now.0.saturating_sub(since & !SINCE),
            waited_ns => waited_ns,
        };
        Duration::from_nanos(self.reported_ns.fetch_max(waited_ns, Ordering::Relaxed).max(waited_ns))
    }

    /// Records that a connection had to go before it was a queue.
    pub(crate) fn count_dropped(&self) {
        add(&self.half_open_dropped, 1);
    }

    /// Connections that had to go before they were queues, since others came.
    pub(crate) fn half_open_dropped(&self) -> u64 {
        self.half_open_dropped.load(Ordering::Relaxed)
    }

    /// Rounds, events, and bytes of free buffers.
    pub(crate) fn read(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.rounds), load(&self.events), load(&self.buffer_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_beyond_the_table_are_counted_together() {
        let counters = SubsystemCounters::default();
        let own = counters.of_reactor(0);
        for round in 1..=3 {
            for code in 1..=STATUSES_COUNTED_MAX as u8 + 4 {
                own.failed(1, Status::new(2, code).do_not_retry());
            }
            let counts = &counters.by_namespace()[&1];
            assert_eq!(counts.statuses.len(), STATUSES_COUNTED_MAX);
            assert!(counts.statuses.values().all(|count| *count == round));
            assert_eq!(counts.other_statuses, 4 * round);
        }
    }

    #[test]
    fn reactors_are_summed_by_namespace() {
        let counters = SubsystemCounters::default();
        for (reactor, nsid, length) in [(0, 1, 512), (1, 1, 4096), (1, NAMESPACES_MAX, 1024)] {
            counters.of_reactor(reactor).done(nsid, Operation::Flush, length, (2_000_000, [0; STAGES]));
        }
        let sums = counters.by_namespace();
        assert_eq!(sums.keys().copied().collect::<Vec<_>>(), [1, NAMESPACES_MAX]);
        let flushes = &sums[&1].operations[Operation::Flush as usize];
        assert_eq!((flushes.bytes, flushes.latency.count(), flushes.latency.sum_ns), (4608, 2, 4_000_000));
    }

    #[test]
    fn stages_are_counted_by_the_size_of_commands() {
        let counters = SubsystemCounters::default();
        for (length, storage_ns) in [(512, 1000), (4096, 2000), (8192, 10_000), (128 << 10, 500_000)] {
            let times = [0, 0, 0, storage_ns, 0];
            counters.of_reactor(0).done(1, Operation::Read, length, (storage_ns, times));
        }
        let counts = &counters.by_namespace()[&1].operations[Operation::Read as usize];
        let by_size = counts.stages.as_ref().expect("they took time");
        let storage = by_size.map(|stages| (stages[3].count(), stages[3].sum_ns));
        assert_eq!(storage, [(2, 3000), (1, 10_000), (1, 500_000)]);
        assert_eq!(counts.stages_ns(), [0, 0, 0, 513_000, 0]);
        assert_eq!(counters.command_stages(1).1, [0, 0, 0, 513_000, 0]);
    }

    #[test]
    fn identifiers_that_no_namespace_has_count_as_none() {
        let counters = SubsystemCounters::default();
        counters.of_reactor(0).failed(u32::MAX, Status::INVALID_NAMESPACE);
        counters.of_reactor(0).failed(0, Status::INVALID_NAMESPACE);
        let sums = counters.by_namespace();
        assert_eq!(sums.keys().copied().collect::<Vec<_>>(), [0]);
        assert_eq!(sums[&0].statuses.values().sum::<u64>(), 2);
    }

    #[test]
    fn a_reactor_that_sleeps_counts_on() {
        let (tally, second) = (ReactorTally::default(), Duration::from_secs(1));
        let at = |seconds| Moment(0).after(seconds * second);
        tally.round(1, 0, 2 * second);
        assert_eq!(tally.waited(at(9)), 2 * second, "it works");
        tally.sleeps(at(10), 2 * second);
        assert_eq!((tally.waited(at(10)), tally.waited(at(13))), (2 * second, 5 * second));
        tally.round(1, 0, 4 * second);
        assert_eq!(tally.waited(at(14)), 5 * second, "what was reported stays");
        tally.round(1, 0, 6 * second);
        assert_eq!(tally.waited(at(16)), 6 * second);
    }

    #[test]
    fn operations_stand_at_their_numbers() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }
}
