//! Rates of a target between two samples: per second, latencies, load of its reactors. A counter
//! that fell, or that is new, has no rate for that time; no rate is negative.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::sample::{
    ControllerSample, Done, NamespaceSample, QueueSample, ReactorSample, Sample, Stages, StreamSample,
    UNBOUNDED,
};

/// Two samples that are closer than this say nothing about a second.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A target over an interval. Where there is no number, `None` says that there was nothing to compare with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    pub version: String,
    /// Start of the target, in seconds since 1970; it does not report its uptime.
    pub(crate) started_s: f64,
    /// The time the rates are over.
    pub interval_s: Option<f64>,
    /// True if the target has restarted since the previous sample.
    pub restarted: bool,
    pub ports: Vec<String>,
    pub all: Load,
    pub subsystems: Vec<SubsystemRates>,
    pub reactors: Vec<ReactorRates>,
    /// Namespaces and queues that the target leaves out, since it has too many.
    pub omitted: u64,
}

/// Rates of commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Load {
    pub read: Flow,
    pub write: Flow,
    /// Reads, writes and everything else.
    pub total: Flow,
    /// Commands that failed.
    pub errors_per_s: Option<f64>,
}

/// Commands of one kind that went well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Flow {
    pub iops: Option<f64>,
    pub bytes_per_s: Option<f64>,
    /// `None` also where there were no commands.
    pub latency: Option<Latency>,
    /// Time at the target by stage, in percent: `receive`, `limits`, `buffer`, `storage`, `others`.
    /// Empty without any.
    pub stages_percent: Stages,
    /// The same of commands of each size that took time: `4k` for up to 4 KiB, `64k` for up to
    /// 64 KiB, `larger`.
    pub sizes_percent: BTreeMap<String, Stages>,
}

/// Latency of commands. The target counts them in buckets, each twice as long as the previous one;
/// a percentile is the end of its bucket, an upper bound. `None` is beyond the last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    pub mean_ns: f64,
    pub p50_ns_max: Option<u64>,
    pub p90_ns_max: Option<u64>,
    pub p99_ns_max: Option<u64>,
    pub p999_ns_max: Option<u64>,
}

/// Rates of a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SubsystemRates {
    pub nqn: String,
    pub load: Load,
    /// Commands under way.
    pub depth: u64,
    pub namespaces: Vec<NamespaceRates>,
    pub controllers: Vec<ControllerRates>,
}

/// Rates of a namespace; number 0 stands for commands without a valid one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NamespaceRates {
    pub nsid: u32,
    pub size_bytes: Option<u64>,
    pub load: Load,
    /// Errors of the storage since the target started.
    pub media_errors: u64,
    /// By name, such as `read`.
    pub operations: BTreeMap<String, Flow>,
}

/// Rates of a controller of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ControllerRates {
    pub cntlid: u16,
    pub host_nqn: String,
    pub port: u16,
    pub ready: bool,
    pub commands_per_s: Option<f64>,
    /// Commands under way.
    pub depth: u64,
    pub received_bytes_per_s: Option<f64>,
    pub sent_bytes_per_s: Option<f64>,
    pub queues: Vec<QueueRates>,
}

/// Rates of a queue, which is a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueueRates {
    /// 0 for the admin queue, whose commands are not counted.
    pub queue_id: u16,
    pub entries: u16,
    pub reactor: usize,
    pub peer: Option<String>,
    pub commands_per_s: Option<f64>,
    pub depth: Option<u64>,
    /// Time of its commands at the target by stage, in percent. Empty without any.
    pub stages_percent: Stages,
    pub received_bytes_per_s: Option<f64>,
    pub sent_bytes_per_s: Option<f64>,
    pub transport: Option<String>,
    pub subflows: usize,
    pub rtt_us: Option<u64>,
    pub retransmits_per_s: Option<f64>,
    pub unread_bytes: Option<u64>,
    pub unsent_bytes: Option<u64>,
}

/// Rates of a reactor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReactorRates {
    pub number: usize,
    pub cpu: Option<usize>,
    pub connections: u64,
    /// Share of a processor that it used, polling included.
    pub busy_percent: Option<f64>,
    /// Commands its queues took.
    pub commands_per_s: Option<f64>,
    pub events_per_s: Option<f64>,
    /// Event loop iterations per second.
    pub rounds_per_s: Option<f64>,
    pub buffer_bytes: u64,
}

/// The sample before, and how long ago it was.
#[derive(Clone, Copy)]
struct Since<'a> {
    sample: &'a Sample,
    seconds: f64,
}

impl Rates {
    /// Compares the sample `now` with the sample `before`.
    pub fn of(now: &Sample, before: Option<&Sample>) -> Self {
        let restarted = before.is_some_and(|before| before.started_s != now.started_s);
        let since = before.filter(|_| !restarted).and_then(|sample| {
            let passed = now.at.checked_sub(sample.at).filter(|passed| *passed >= INTERVAL_MIN)?;
            Some(Since { sample, seconds: passed.as_secs_f64() })
        });
        let mut subsystems: BTreeMap<&str, SubsystemRates> = BTreeMap::new();
        let mut all = Sum::new(since.is_some());
        for (nqn, namespaces) in &now.subsystems {
            let mut sum = Sum::new(since.is_some());
            let of = |(nsid, namespace): (&u32, _)| namespace_rates(nqn, *nsid, namespace, since, &mut sum);
            let namespaces = namespaces.iter().map(of).collect();
            let load = sum.load(since);
            all.add(&sum);
            let rates = SubsystemRates { nqn: nqn.clone(), load, namespaces, ..SubsystemRates::default() };
            subsystems.insert(nqn, rates);
        }
        for controller in &now.controllers {
            let rates = controller_rates(controller, since);
            // Discovery services have hosts too, and nothing else that is counted.
            let subsystem = subsystems.entry(&controller.subsystem).or_insert_with(|| SubsystemRates {
                nqn: controller.subsystem.clone(),
                ..SubsystemRates::default()
            });
            subsystem.depth += rates.depth;
            subsystem.controllers.push(rates);
        }
        let subsystems: Vec<SubsystemRates> = subsystems.into_values().collect();
        let reactor =
            |(number, reactor): (&usize, &ReactorSample)| reactor_rates(*number, reactor, since, &subsystems);
        Self {
            version: now.version.clone(),
            started_s: now.started_s,
            interval_s: since.map(|since| since.seconds),
            restarted,
            ports: now.ports.clone(),
            all: all.load(since),
            reactors: now.reactors.iter().map(reactor).collect(),
            subsystems,
            omitted: now.omitted,
        }
    }

    /// Controllers of all subsystems.
    pub fn controllers(&self) -> impl Iterator<Item = &ControllerRates> {
        self.subsystems.iter().flat_map(|subsystem| &subsystem.controllers)
    }

    /// Commands under way.
    pub fn depth(&self) -> u64 {
        self.subsystems.iter().map(|subsystem| subsystem.depth).sum()
    }

    /// The subsystem of this name.
    pub fn subsystem(&self, nqn: &str) -> Option<&SubsystemRates> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }
}

/// Growth of a counter; `None` if it fell.
fn grown(now: u64, before: u64) -> Option<u64> {
    now.checked_sub(before)
}

/// Growth per second of a counter that may not have been there.
fn per_second(now: Option<u64>, before: Option<u64>, seconds: f64) -> Option<f64> {
    Some(grown(now?, before?)? as f64 / seconds)
}

/// Differences as they are added up, before they become rates.
struct Sum {
    read: Option<Done>,
    write: Option<Done>,
    total: Option<Done>,
    errors: Option<u64>,
}

impl Sum {
    fn new(comparable: bool) -> Self {
        let none = comparable.then(Done::default);
        Self { read: none.clone(), write: none.clone(), total: none, errors: comparable.then_some(0) }
    }

    /// Adds the values that both have; others are left out.
    fn add(&mut self, other: &Self) {
        for (sum, more) in
            [(&mut self.read, &other.read), (&mut self.write, &other.write), (&mut self.total, &other.total)]
        {
            if let (Some(sum), Some(more)) = (sum, more) {
                sum.add(more);
            }
        }
        if let (Some(sum), Some(more)) = (&mut self.errors, other.errors) {
            *sum += more;
        }
    }

    fn load(&self, since: Option<Since<'_>>) -> Load {
        let flow = |done: &Option<Done>| done.as_ref().zip(since).map_or(Flow::default(), flow);
        Load {
            read: flow(&self.read),
            write: flow(&self.write),
            total: flow(&self.total),
            errors_per_s: self.errors.zip(since).map(|(errors, since)| errors as f64 / since.seconds),
        }
    }
}

fn flow((done, since): (&Done, Since<'_>)) -> Flow {
    Flow {
        iops: Some(done.commands as f64 / since.seconds),
        bytes_per_s: Some(done.bytes as f64 / since.seconds),
        latency: done.latency(),
        stages_percent: percents(&done.stages_s),
        sizes_percent: done.sizes_percent(),
    }
}

/// Returns the time in each stage after `before`.
fn stages_since(now: &Stages, before: Option<&Stages>) -> Stages {
    let earlier = |stage: &String| before.and_then(|before| before.get(stage)).copied().unwrap_or(0.0);
    now.iter().map(|(stage, seconds)| (stage.clone(), (seconds - earlier(stage)).max(0.0))).collect()
}

/// Returns the share of each stage that took time, in percent.
fn percents(stages_s: &Stages) -> Stages {
    let sum: f64 = stages_s.values().sum();
    let spent = stages_s.iter().filter(|(_, seconds)| sum > 0.0 && **seconds > 0.0);
    spent.map(|(stage, seconds)| (stage.clone(), seconds / sum * 100.0)).collect()
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
        self.took_s += other.took_s;
        for (stage, seconds) in &other.stages_s {
            *self.stages_s.entry(stage.clone()).or_default() += seconds;
        }
        for (size, stages) in &other.sizes_s {
            let own = self.sizes_s.entry(size.clone()).or_default();
            stages.iter().for_each(|(stage, seconds)| *own.entry(stage.clone()).or_default() += seconds);
        }
        for (end, commands) in &other.no_longer_than {
            *self.no_longer_than.entry(*end).or_default() += commands;
        }
    }

    /// Returns the commands after `before`; `None` if a counter fell.
    fn since(&self, before: &Self) -> Option<Self> {
        let mut no_longer_than = BTreeMap::new();
        for (end, commands) in &self.no_longer_than {
            let earlier = before.no_longer_than.get(end).copied().unwrap_or(0);
            no_longer_than.insert(*end, grown(*commands, earlier)?);
        }
        let size = |(size, stages): (&String, &Stages)| {
            (size.clone(), stages_since(stages, before.sizes_s.get(size)))
        };
        Some(Self {
            stages_s: stages_since(&self.stages_s, Some(&before.stages_s)),
            sizes_s: self.sizes_s.iter().map(size).collect(),
            commands: grown(self.commands, before.commands)?,
            bytes: grown(self.bytes, before.bytes)?,
            took_s: (self.took_s - before.took_s).max(0.0),
            no_longer_than,
        })
    }

    fn sizes_percent(&self) -> BTreeMap<String, Stages> {
        let sizes = self.sizes_s.iter().map(|(size, stages)| (size.clone(), percents(stages)));
        sizes.filter(|(size, stages)| !size.is_empty() && !stages.is_empty()).collect()
    }

    fn latency(&self) -> Option<Latency> {
        // Namespaces beyond a limit of the target count commands without their durations.
        let timed = *self.no_longer_than.get(&UNBOUNDED)?;
        if timed == 0 {
            return None;
        }
        let within = |share: f64| {
            let enough = (timed as f64 * share).ceil() as u64;
            let mut ends = self.no_longer_than.iter();
            let end = ends.find(|(_, commands)| **commands >= enough).map(|(end, _)| *end);
            end.filter(|end| *end != UNBOUNDED)
        };
        Some(Latency {
            mean_ns: self.took_s * 1e9 / timed as f64,
            p50_ns_max: within(0.5),
            p90_ns_max: within(0.9),
            p99_ns_max: within(0.99),
            p999_ns_max: within(0.999),
        })
    }
}

fn namespace_rates(
    nqn: &str,
    nsid: u32,
    now: &NamespaceSample,
    since: Option<Since<'_>>,
    subsystem: &mut Sum,
) -> NamespaceRates {
    let before = since.and_then(|since| since.sample.subsystems.get(nqn)?.get(&nsid));
    let mut sum = Sum::new(before.is_some());
    let mut operations = BTreeMap::new();
    for (name, done) in &now.operations {
        let nothing = Done::default();
        // An operation is reported from its first command on.
        let grown = before.and_then(|before| done.since(before.operations.get(name).unwrap_or(&nothing)));
        let mut own = Sum::new(false);
        own.total.clone_from(&grown);
        match name.as_str() {
            "read" => own.read.clone_from(&grown),
            "write" => own.write.clone_from(&grown),
            _ => {}
        }
        sum.add(&own);
        operations.insert(name.clone(), grown.as_ref().zip(since).map_or(Flow::default(), flow));
    }
    sum.errors = before.and_then(|before| grown(now.errors, before.errors));
    subsystem.add(&sum);
    NamespaceRates {
        nsid,
        size_bytes: now.size_bytes,
        load: sum.load(since),
        media_errors: now.media_errors,
        operations,
    }
}

fn controller_rates(now: &ControllerSample, since: Option<Since<'_>>) -> ControllerRates {
    let before = since.and_then(|since| {
        let same = |before: &&ControllerSample| {
            (before.cntlid, &before.subsystem, &before.host_nqn)
                == (now.cntlid, &now.subsystem, &now.host_nqn)
        };
        since.sample.controllers.iter().find(same)
    });
    let queue = |queue: &QueueSample| {
        let before =
            before.and_then(|before| before.queues.iter().find(|before| before.queue_id == queue.queue_id));
        queue_rates(queue, before.zip(since.map(|since| since.seconds)))
    };
    let queues: Vec<QueueRates> = now.queues.iter().map(queue).collect();
    let sum = |of: fn(&QueueRates) -> Option<f64>| queues.iter().filter_map(of).reduce(|a, b| a + b);
    ControllerRates {
        cntlid: now.cntlid,
        host_nqn: now.host_nqn.clone(),
        port: now.port,
        ready: now.ready,
        commands_per_s: sum(|queue| queue.commands_per_s),
        depth: queues.iter().filter_map(|queue| queue.depth).sum(),
        received_bytes_per_s: sum(|queue| queue.received_bytes_per_s),
        sent_bytes_per_s: sum(|queue| queue.sent_bytes_per_s),
        queues,
    }
}

fn queue_rates(now: &QueueSample, before: Option<(&QueueSample, f64)>) -> QueueRates {
    // The kernel counts a connection's bytes, and a new connection starts at 0.
    let same = before.filter(|(before, _)| before.peer == now.peer);
    let stream = |of: fn(&StreamSample) -> Option<u64>| {
        let (before, seconds) = same?;
        per_second(now.stream.as_ref().and_then(of), before.stream.as_ref().and_then(of), seconds)
    };
    let stream_now = now.stream.as_ref();
    QueueRates {
        queue_id: now.queue_id,
        entries: now.entries,
        reactor: now.reactor,
        peer: now.peer.clone(),
        commands_per_s: before
            .and_then(|(before, seconds)| per_second(now.commands, before.commands, seconds)),
        depth: now.depth,
        stages_percent: before
            .map(|(before, _)| percents(&stages_since(&now.stages_s, Some(&before.stages_s))))
            .unwrap_or_default(),
        received_bytes_per_s: stream(|stream| stream.received_bytes),
        sent_bytes_per_s: stream(|stream| stream.acknowledged_bytes),
        transport: stream_now.map(|stream| stream.transport.clone()),
        subflows: stream_now.map_or(0, |stream| stream.subflows.len()),
        rtt_us: stream_now.map(|stream| stream.rtt_us),
        retransmits_per_s: stream(|stream| Some(stream.retransmits)),
        unread_bytes: stream_now.map(|stream| stream.unread_bytes),
        unsent_bytes: stream_now.map(|stream| stream.unsent_bytes),
    }
}

fn reactor_rates(
    number: usize,
    now: &ReactorSample,
    since: Option<Since<'_>>,
    subsystems: &[SubsystemRates],
) -> ReactorRates {
    let before = since.and_then(|since| Some((since.sample.reactors.get(&number)?, since.seconds)));
    let rate = |of: fn(&ReactorSample) -> u64| {
        before.and_then(|(before, seconds)| per_second(Some(of(now)), Some(of(before)), seconds))
    };
    let busy = |(before, seconds): (&ReactorSample, f64)| {
        let used = now.cpu_s - before.cpu_s;
        // The two clocks are not read at the same moment, so that the share may come out as a little over one.
        (used >= 0.0).then(|| (100.0 * used / seconds).min(100.0))
    };
    let queues = subsystems.iter().flat_map(|subsystem| &subsystem.controllers).flat_map(|c| &c.queues);
    ReactorRates {
        number,
        cpu: now.cpu,
        connections: now.connections,
        busy_percent: before.and_then(busy),
        commands_per_s: before.map(|_| {
            let rates =
                queues.filter(|queue| queue.reactor == number).filter_map(|queue| queue.commands_per_s);
            // The sum of no numbers is -0.
            0.0 + rates.sum::<f64>()
        }),
        events_per_s: rate(|reactor| reactor.events),
        rounds_per_s: rate(|reactor| reactor.rounds),
        buffer_bytes: now.buffer_bytes,
    }
}
