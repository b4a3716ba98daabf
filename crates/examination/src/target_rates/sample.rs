//! Sample of a target as numbers: counters at one moment, from its metrics, and connected hosts,
//! from its status. `rates` compares two samples.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::target::Measured;
use serde::Deserialize;

use super::printable;

/// The end of the bucket that has none.
pub const UNBOUNDED: u64 = u64::MAX;

/// Time in each stage, by its name.
pub type Stages = BTreeMap<String, f64>;

/// A target at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Time of the answer, on a clock that all samples share.
    pub at: Duration,
    /// Start of the target, in seconds since 1970; another start has other counters.
    pub(crate) started_s: f64,
    pub version: String,
    /// Addresses of its ports.
    pub ports: Vec<String>,
    /// By name.
    pub subsystems: BTreeMap<String, BTreeMap<u32, NamespaceSample>>,
    pub controllers: Vec<ControllerSample>,
    pub reactors: BTreeMap<usize, ReactorSample>,
    /// Namespaces and queues that the target leaves out, since it has too many.
    pub omitted: u64,
}

/// Counters of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceSample {
    /// `None` when it is gone.
    pub size_bytes: Option<u64>,
    /// By name, such as `read`.
    pub operations: BTreeMap<String, Done>,
    /// Commands that failed.
    pub errors: u64,
    pub media_errors: u64,
}

/// Commands that went well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    pub commands: u64,
    pub bytes: u64,
    /// Total time of all commands, in seconds.
    pub(crate) took_s: f64,
    /// Of that, how long they were in each stage, by name.
    pub(crate) stages_s: Stages,
    /// The same of commands of each size, by its name.
    pub(crate) sizes_s: BTreeMap<String, Stages>,
    /// Commands that took no longer than this number of nanoseconds.
    pub(crate) no_longer_than: BTreeMap<u64, u64>,
}

/// A controller, which is one host's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerSample {
    pub cntlid: u16,
    pub subsystem: String,
    pub host_nqn: String,
    pub port: u16,
    pub ready: bool,
    pub queues: Vec<QueueSample>,
}

/// A queue, which is a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSample {
    /// 0 for the admin queue.
    pub queue_id: u16,
    pub entries: u16,
    pub reactor: usize,
    pub peer: Option<String>,
    /// Commands taken, `None` for the admin queue.
    pub commands: Option<u64>,
    /// Commands under way, `None` for the admin queue.
    pub depth: Option<u64>,
    /// Time of its commands in each stage, in seconds.
    pub(crate) stages_s: Stages,
    pub stream: Option<StreamSample>,
}

/// Kernel's data about a connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct StreamSample {
    pub transport: String,
    pub rtt_us: u64,
    pub retransmits: u64,
    pub unread_bytes: u64,
    pub unsent_bytes: u64,
    /// Earlier versions do not tell it.
    pub acknowledged_bytes: Option<u64>,
    pub(crate) received_bytes: Option<u64>,
    #[serde(default)]
    pub subflows: Vec<serde::de::IgnoredAny>,
}

/// A reactor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReactorSample {
    /// The processor it is kept on.
    pub cpu: Option<usize>,
    pub connections: u64,
    pub(crate) cpu_s: f64,
    pub(crate) rounds: u64,
    pub events: u64,
    pub buffer_bytes: u64,
}

/// `/v1/status`, as far as it is looked at.
#[derive(Debug, Deserialize)]
pub struct Status {
    ports: Vec<StatusPort>,
    controllers: Vec<StatusController>,
    reactors: Vec<StatusReactor>,
}

#[derive(Debug, Deserialize)]
struct StatusPort {
    address: String,
}

#[derive(Debug, Deserialize)]
struct StatusController {
    cntlid: u16,
    subsystem: String,
    host_nqn: String,
    port: u16,
    ready: bool,
    queues: Vec<StatusQueue>,
}

#[derive(Debug, Deserialize)]
struct StatusQueue {
    queue_id: u16,
    entries: u16,
    reactor: usize,
    peer: Option<String>,
    stream: Option<StreamSample>,
}

#[derive(Debug, Deserialize)]
struct StatusReactor {
    number: usize,
    cpu: Option<usize>,
}

/// Counters of queues, by controller and queue.
type Queues = BTreeMap<(u16, u16), QueueCounts>;

#[derive(Default)]
struct QueueCounts {
    commands: u64,
    depth: u64,
    stages_s: Stages,
}

impl Sample {
    /// Reads a target's answers at `at`: its status, and its metrics as text.
    ///
    /// # Errors
    /// When the metrics are not those of a target.
    pub fn read(at: Duration, status: Status, metrics: &str) -> Result<Self, String> {
        let mut sample = Self { at, started_s: f64::NAN, ..Self::default() };
        let mut queues = Queues::new();
        for measured in Measured::all(metrics) {
            sample.take(&measured, &mut queues);
        }
        if sample.started_s.is_nan() {
            return Err("the metrics have no start time of the target; is its version another one?".into());
        }
        sample.ports = status.ports.into_iter().map(|port| printable(&port.address)).collect();
        sample.controllers =
            status.controllers.into_iter().map(|controller| controller.into_sample(&queues)).collect();
        for reactor in status.reactors {
            sample.reactors.entry(reactor.number).or_default().cpu = reactor.cpu;
        }
        Ok(sample)
    }

    fn take(&mut self, measured: &Measured<'_>, queues: &mut Queues) {
        match measured.name {
            "selvedge_start_time_seconds" => self.started_s = measured.value,
            "selvedge_build_info" => self.version = printable(measured.label("version")),
            // Namespaces without details are shown, without latencies.
            "selvedge_omitted" if measured.label("kind") != "namespace_detail" => {
                self.omitted += measured.count();
            }
            "selvedge_controllers" => {
                self.subsystems.entry(printable(measured.label("subsystem"))).or_default();
            }
            name if name.starts_with("selvedge_queue_") => {
                let (Some(cntlid), Some(queue)) = (measured.number("controller"), measured.number("queue"))
                else {
                    return;
                };
                let counts = queues.entry((cntlid, queue)).or_default();
                match name {
                    "selvedge_queue_commands_total" => counts.commands = measured.count(),
                    "selvedge_queue_depth" => counts.depth = measured.count(),
                    "selvedge_queue_stage_seconds_total" => {
                        counts.stages_s.insert(printable(measured.label("stage")), measured.value);
                    }
                    _ => {}
                }
            }
            _ if measured.labels.contains_key("nsid") => self.take_namespace(measured),
            _ => self.take_reactor(measured),
        }
    }

    fn take_namespace(&mut self, measured: &Measured<'_>) {
        let Some(nsid) = measured.number("nsid") else { return };
        let subsystem = self.subsystems.entry(printable(measured.label("subsystem"))).or_default();
        let namespace = subsystem.entry(nsid).or_default();
        match measured.name {
            "selvedge_namespace_size_bytes" => namespace.size_bytes = Some(measured.count()),
            "selvedge_command_errors_total" => namespace.errors += measured.count(),
            "selvedge_media_errors_total" => namespace.media_errors = measured.count(),
            name => {
                let operation = measured.label("operation");
                if !operation.is_empty() {
                    namespace.operations.entry(printable(operation)).or_default().take(name, measured);
                }
            }
        }
    }

    fn take_reactor(&mut self, measured: &Measured<'_>) {
        let Some(number) = measured.number("reactor") else { return };
        let reactor = self.reactors.entry(number).or_default();
        match measured.name {
            "selvedge_connections" => reactor.connections = measured.count(),
            "selvedge_reactor_cpu_seconds_total" => reactor.cpu_s = measured.value,
            "selvedge_reactor_rounds_total" => reactor.rounds = measured.count(),
            "selvedge_reactor_events_total" => reactor.events = measured.count(),
            "selvedge_reactor_buffer_bytes" => reactor.buffer_bytes = measured.count(),
            _ => {}
        }
    }
}

impl Done {
    fn take(&mut self, name: &str, measured: &Measured<'_>) {
        match name {
            "selvedge_commands_total" => self.commands = measured.count(),
            "selvedge_command_bytes_total" => self.bytes = measured.count(),
            "selvedge_command_duration_seconds_sum" => self.took_s = measured.value,
            "selvedge_command_stage_seconds_sum" => {
                let (stage, size) = (printable(measured.label("stage")), printable(measured.label("size")));
                // Once for each size.
                *self.stages_s.entry(stage.clone()).or_default() += measured.value;
                *self.sizes_s.entry(size).or_default().entry(stage).or_default() += measured.value;
            }
            "selvedge_command_duration_seconds_bucket" => {
                let end = match measured.label("le") {
                    "+Inf" => UNBOUNDED,
                    end => match end.parse::<f64>() {
                        Ok(seconds) => (seconds * 1e9).round() as u64,
                        Err(_) => return,
                    },
                };
                self.no_longer_than.insert(end, measured.count());
            }
            _ => {}
        }
    }
}

impl StatusController {
    fn into_sample(self, counted: &Queues) -> ControllerSample {
        let cntlid = self.cntlid;
        let queues = self.queues.into_iter().map(|queue| {
            let counts = counted.get(&(cntlid, queue.queue_id));
            QueueSample {
                queue_id: queue.queue_id,
                entries: queue.entries,
                reactor: queue.reactor,
                peer: queue.peer.as_deref().map(printable),
                commands: counts.map(|counts| counts.commands),
                depth: counts.map(|counts| counts.depth),
                stages_s: counts.map(|counts| counts.stages_s.clone()).unwrap_or_default(),
                stream: queue.stream,
            }
        });
        ControllerSample {
            cntlid,
            subsystem: printable(&self.subsystem),
            host_nqn: printable(&self.host_nqn),
            port: self.port,
            ready: self.ready,
            queues: queues.collect(),
        }
    }
}
