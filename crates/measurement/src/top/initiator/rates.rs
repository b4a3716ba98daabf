//! Rates of a run's workers since their last report: commands, bytes and latencies of paths and
//! workers, and the kernel's data about their connections.

use engine::initiator::{ConnectionReport, PathShare, PathStatus, Stage};
use engine::transport::info::StreamInfo;

use crate::bench::histogram::{LatencyNs, Tally};
use crate::bench::sample::{Phase, Sample};

/// Commands in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    pub iops: f64,
    pub(crate) bytes_per_s: f64,
    /// Of those that are measured, where there were any.
    pub latency: Option<LatencyNs>,
}

/// Number of the stages of a command at its host.
const STAGES: usize = Stage::ALL.len();

/// Data carried since the last sample; `None` without an earlier sample, or if counting has
/// restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    pub iops: Option<f64>,
    pub bytes_per_s: Option<f64>,
    /// Share of all commands.
    pub share_percent: Option<f64>,
    pub mean_ns: Option<f64>,
    /// Share of each stage in the time of the commands, in the order of `Stage::ALL`.
    pub stages_percent: Option<[f64; STAGES]>,
}

/// A path.
#[derive(Clone, Debug)]
pub struct PathRates {
    pub status: PathStatus,
    pub(crate) flow: Flow,
    pub(crate) in_flight: u64,
    /// Commands that were sent again, here or elsewhere, since the beginning.
    pub(crate) requeued: u64,
    /// Shares of the workers.
    pub(crate) shares: Vec<ShareRates>,
    pub connections: Vec<ConnectionRates>,
}

/// Share of one worker on one path.
#[derive(Clone, Debug)]
pub struct ShareRates {
    pub(crate) worker: usize,
    pub connections: u64,
    pub(crate) flow: Flow,
    pub(crate) in_flight: u64,
    pub(crate) requeued: u64,
}

/// A connection of a path, which one worker has.
#[derive(Clone, Debug)]
pub struct ConnectionRates {
    pub(crate) worker: usize,
    pub(crate) queue_id: u16,
    pub(crate) outstanding: u64,
    pub(crate) received_bytes_per_s: Option<f64>,
    pub(crate) acknowledged_bytes_per_s: Option<f64>,
    pub(crate) retransmits_per_s: Option<f64>,
    /// Kernel's data about the connection.
    pub(crate) stream: Option<StreamInfo>,
}

/// A worker, on all paths together.
#[derive(Clone, Debug)]
pub struct WorkerRates {
    pub number: usize,
    pub connections: u64,
    pub(crate) flow: Flow,
    pub(crate) in_flight: u64,
    /// Of what it has measured since the last sample.
    pub latency: Option<LatencyNs>,
}

/// A run at one moment.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    pub(crate) phase: Phase,
    /// Since the last sample.
    pub(crate) lately: Option<Done>,
    /// Since measuring began.
    pub(crate) so_far: Option<Done>,
    /// Stages of the commands on all paths since the last sample.
    pub(crate) stages_percent: Option<[f64; STAGES]>,
    pub paths: Vec<PathRates>,
    pub(crate) workers: Vec<WorkerRates>,
    /// IOPS of the last samples, the oldest first.
    pub(crate) history: Vec<f64>,
}

impl Rates {
    /// Compares a sample with the one before it.
    pub fn of(sample: &Sample, earlier: Option<&Sample>) -> Self {
        let seconds = earlier.map_or(0.0, |earlier| sample.at.saturating_sub(earlier.at).as_secs_f64());
        let earlier = earlier.filter(|_| seconds > 0.0);
        let all = Since { seconds, commands: None };
        let everything = |sample: &Sample| Carried::of(sample.shares.iter().flatten());
        let carried = all.carried(everything(sample), earlier.map(everything));
        let since = Since { commands: carried.map(|carried| carried.commands), ..all };
        Self {
            phase: sample.phase,
            lately: lately(sample, earlier, seconds).or_else(|| carried.map(|carried| carried.done(seconds))),
            so_far: so_far(sample),
            stages_percent: carried.and_then(Carried::stages_percent),
            paths: (0..sample.paths.len()).map(|at| path(at, sample, earlier, since)).collect(),
            workers: (0..sample.shares.len()).map(|at| worker(at, sample, earlier, since)).collect(),
            history: Vec::new(),
        }
    }
}

impl Done {
    fn of(tally: &Tally, seconds: f64) -> Option<Self> {
        (seconds > 0.0).then(|| Self {
            iops: tally.count() as f64 / seconds,
            bytes_per_s: tally.bytes as f64 / seconds,
            latency: latency(tally),
        })
    }
}

impl PathRates {
    fn streams(&self) -> impl Iterator<Item = &StreamInfo> {
        self.connections.iter().filter_map(|connection| connection.stream.as_ref())
    }

    /// The longest round trip time of its connections, in microseconds.
    pub(crate) fn rtt_us(&self) -> Option<u64> {
        self.streams().map(|stream| u64::from(stream.rtt_us)).max()
    }

    /// Bytes that have come and were not read yet, on all connections.
    pub(crate) fn unread_bytes(&self) -> Option<u64> {
        self.streams().map(|stream| stream.unread_bytes).reduce(|a, b| a + b)
    }

    /// Bytes that were written and are not acknowledged yet, on all connections.
    pub(crate) fn unsent_bytes(&self) -> Option<u64> {
        self.streams().map(|stream| stream.unsent_bytes).reduce(|a, b| a + b)
    }

    /// Segments that were sent again, on all connections.
    pub(crate) fn retransmits_per_s(&self) -> Option<f64> {
        self.connections.iter().filter_map(|connection| connection.retransmits_per_s).reduce(|a, b| a + b)
    }
}

/// Totals of shares, since the beginning or in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    commands: u64,
    bytes: u64,
    latency_ns: u64,
    stages_ns: [u64; STAGES],
}

impl Carried {
    fn of<'a>(shares: impl Iterator<Item = &'a PathShare>) -> Self {
        shares.fold(Self::default(), |sum, share| Self {
            commands: sum.commands + share.commands,
            bytes: sum.bytes + share.bytes,
            latency_ns: sum.latency_ns + share.latency_ns,
            stages_ns: std::array::from_fn(|at| sum.stages_ns[at] + share.stages.of(Stage::ALL[at]).sum_ns),
        })
    }

    /// Returns the share of each stage; `None` if no command took time.
    fn stages_percent(self) -> Option<[f64; STAGES]> {
        let all_ns: u64 = self.stages_ns.iter().sum();
        (all_ns > 0).then(|| self.stages_ns.map(|ns| 100.0 * ns as f64 / all_ns as f64))
    }

    fn done(self, seconds: f64) -> Done {
        Done { iops: self.commands as f64 / seconds, bytes_per_s: self.bytes as f64 / seconds, latency: None }
    }
}

/// From one sample to the next.
#[derive(Clone, Copy, Debug)]
struct Since {
    seconds: f64,
    /// All commands that were carried.
    commands: Option<u64>,
}

impl Since {
    fn carried(&self, now: Carried, earlier: Option<Carried>) -> Option<Carried> {
        let earlier = earlier?;
        let mut stages_ns = now.stages_ns;
        for (own, before) in stages_ns.iter_mut().zip(earlier.stages_ns) {
            *own = own.checked_sub(before)?;
        }
        Some(Carried {
            stages_ns,
            commands: now.commands.checked_sub(earlier.commands)?,
            bytes: now.bytes.checked_sub(earlier.bytes)?,
            latency_ns: now.latency_ns.checked_sub(earlier.latency_ns)?,
        })
    }

    fn flow(&self, now: Carried, earlier: Option<Carried>) -> Flow {
        let Some(carried) = self.carried(now, earlier) else { return Flow::default() };
        let over = |value: f64, by: u64| (by > 0).then(|| value / by as f64);
        let commands = carried.commands as f64;
        Flow {
            iops: Some(commands / self.seconds),
            bytes_per_s: Some(carried.bytes as f64 / self.seconds),
            share_percent: self.commands.and_then(|all| over(100.0 * commands, all)),
            mean_ns: over(carried.latency_ns as f64, carried.commands),
            stages_percent: carried.stages_percent(),
        }
    }

    /// Returns the rate of a counter; `None` if it has restarted.
    fn rate(&self, now: u64, earlier: u64) -> Option<f64> {
        now.checked_sub(earlier).map(|difference| difference as f64 / self.seconds)
    }
}

fn latency(tally: &Tally) -> Option<LatencyNs> {
    (tally.count() > 0).then(|| tally.latency())
}

fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    let mut sum = Tally::default();
    tallies.for_each(|tally| sum.merge(tally));
    sum
}

/// Returns the work since the last sample, if it was measured.
fn lately(sample: &Sample, earlier: Option<&Sample>, seconds: f64) -> Option<Done> {
    let earlier =
        earlier.filter(|earlier| earlier.phase == sample.phase && sample.phase == Phase::Measuring)?;
    Done::of(&sum(sample.totals.iter()).since(&sum(earlier.totals.iter()))?, seconds)
}

fn so_far(sample: &Sample) -> Option<Done> {
    Done::of(&sum(sample.totals.iter()), sample.measured.as_secs_f64())
}

fn path(at: usize, sample: &Sample, earlier: Option<&Sample>, since: Since) -> PathRates {
    let on_path = |sample: &Sample| Carried::of(sample.shares.iter().filter_map(|shares| shares.get(at)));
    let mut shares = Vec::new();
    let mut connections = Vec::new();
    for (worker, share) in
        sample.shares.iter().enumerate().filter_map(|(at_worker, of)| Some((at_worker, of.get(at)?)))
    {
        let before = earlier.and_then(|earlier| earlier.shares.get(worker)?.get(at));
        let carried = |share: &PathShare| Carried::of(std::iter::once(share));
        shares.push(ShareRates {
            worker,
            connections: share.connections.len() as u64,
            flow: since.flow(carried(share), before.map(carried)),
            in_flight: share.in_flight.into(),
            requeued: share.requeued,
        });
        connections.extend(share.connections.iter().map(|now| {
            let mut all = before.into_iter().flat_map(|before| &before.connections);
            connection(worker, now, all.find(|before| before.queue_id == now.queue_id), since)
        }));
    }
    PathRates {
        status: sample.paths[at].clone(),
        flow: since.flow(on_path(sample), earlier.map(on_path)),
        in_flight: shares.iter().map(|share| share.in_flight).sum(),
        requeued: shares.iter().map(|share| share.requeued).sum(),
        shares,
        connections,
    }
}

fn connection(
    worker: usize,
    now: &ConnectionReport,
    earlier: Option<&ConnectionReport>,
    since: Since,
) -> ConnectionRates {
    let local = |stream: &StreamInfo| stream.subflows.first().map(|subflow| subflow.local);
    let before = earlier.and_then(|earlier| earlier.stream.as_ref());
    let rate = |of: fn(&StreamInfo) -> u64| match (&now.stream, before) {
        // Another socket is another connection, whatever its counters say.
        (Some(now), Some(before)) if local(now) == local(before) => since.rate(of(now), of(before)),
        _ => None,
    };
    ConnectionRates {
        worker,
        queue_id: now.queue_id,
        outstanding: now.outstanding as u64,
        received_bytes_per_s: rate(|stream| stream.received_bytes),
        acknowledged_bytes_per_s: rate(|stream| stream.acknowledged_bytes),
        retransmits_per_s: rate(|stream| stream.retransmits),
        stream: now.stream.clone(),
    }
}

fn worker(number: usize, sample: &Sample, earlier: Option<&Sample>, since: Since) -> WorkerRates {
    let shares = &sample.shares[number];
    let before = earlier.and_then(|earlier| earlier.shares.get(number));
    let carried = |shares: &Vec<PathShare>| Carried::of(shares.iter());
    let measured = match (sample.totals.get(number), earlier.and_then(|earlier| earlier.totals.get(number))) {
        (Some(now), Some(before)) => now.since(before),
        _ => None,
    };
    WorkerRates {
        number,
        connections: shares.iter().map(|share| share.connections.len() as u64).sum(),
        flow: since.flow(carried(shares), before.map(carried)),
        in_flight: shares.iter().map(|share| u64::from(share.in_flight)).sum(),
        latency: measured.as_ref().and_then(latency),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{STAGES_PERCENT, lost, rates, sample};
    use super::*;

    #[test]
    fn rates_are_differences_and_shares_are_of_what_was_carried() {
        let rates = rates(2);
        let lately = rates.lately.unwrap();
        assert_eq!((lately.iops, lately.bytes_per_s), (3000.0, 3000.0 * 4096.0));
        let flow = rates.paths[1].flow;
        assert_eq!(
            (flow.iops, flow.share_percent, flow.mean_ns),
            (Some(1500.0), Some(50.0), Some(100_000.0))
        );
        assert_eq!((flow.stages_percent, rates.stages_percent), (Some(STAGES_PERCENT), Some(STAGES_PERCENT)));
        assert_eq!((rates.workers[0].flow.iops, rates.workers[0].in_flight), (Some(1500.0), 32));
        assert_eq!(rates.paths[0].rtt_us(), Some(46), "the longest of its connections");
        assert_eq!(rates.paths[0].connections[0].received_bytes_per_s, Some(750.0 * 5000.0));
    }

    #[test]
    fn of_a_first_sample_only_sums_are_known() {
        let rates = Rates::of(&sample(1, 3, 6000), None);
        assert!(rates.lately.is_none() && rates.paths[0].flow == Flow::default());
        assert_eq!(rates.so_far.unwrap().iops, 3000.0);
        assert_eq!((rates.paths[0].in_flight, rates.paths[0].connections[0].outstanding), (32, 16));
        // Two samples at the same time are not an interval.
        let same = Rates::of(&sample(1, 3, 6000), Some(&sample(1, 3, 3000)));
        assert!(same.lately.is_none() && same.paths[0].flow == Flow::default());
    }

    #[test]
    fn counters_that_restarted_have_no_rate() {
        let (before, after) = (sample(1, 2, 6000), sample(1, 3, 3000));
        let restarted = Rates::of(&after, Some(&before));
        assert!(restarted.lately.is_none() && restarted.paths[0].flow == Flow::default());
        assert_eq!(restarted.paths[0].connections[0].received_bytes_per_s, None);
        assert!(restarted.workers[0].latency.is_none());
        // Another socket of the same queue is not compared with the one before, though its counters are higher.
        let mut again = sample(1, 3, 9000);
        let stream = again.shares[0][0].connections[0].stream.as_mut().unwrap();
        stream.subflows[0].local.set_port(50_000);
        let again = Rates::of(&again, Some(&before));
        assert_eq!(again.paths[0].connections[0].retransmits_per_s, None);
        assert_eq!(again.paths[0].connections[1].retransmits_per_s, Some(3.0));
    }

    #[test]
    fn while_nothing_is_measured_the_paths_tell_what_is_done() {
        let ramp = |at, commands| Sample { phase: Phase::Ramp, ..sample(1, at, commands) };
        let lately = Rates::of(&ramp(3, 6000), Some(&ramp(2, 3000))).lately.unwrap();
        assert_eq!((lately.iops, lately.latency), (3000.0, None));
    }

    #[test]
    fn a_lost_path_has_no_connections_and_no_part() {
        let before = sample(4, 3, 6000);
        let rates = Rates::of(&lost(sample(4, 4, 9000), &before, 3), Some(&before));
        let path = &rates.paths[3];
        assert_eq!(
            (path.flow.iops, path.flow.share_percent, path.flow.mean_ns),
            (Some(0.0), Some(0.0), None)
        );
        assert_eq!((path.rtt_us(), path.unsent_bytes(), path.retransmits_per_s()), (None, None, None));
        assert_eq!(path.requeued, 16);
        assert_eq!(rates.paths[0].flow.share_percent, Some(60.0));
    }
}
