//! Metrics as text for Prometheus (text format 0.0.4): names, units, labels and how they are escaped.
//! Where the numbers come from is in `metrics`.

use std::fmt::{self, Display, Write};
use std::time::SystemTime;

use nvme::log_page::AnaState;

use super::metrics::{Metrics, NamespaceMetrics, OperationMetrics};
use crate::target::telemetry::{Histogram, Stage};

/// The text format's name, as an HTTP answer has it in its Content-Type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of a sample, by name.
type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// Escapes what is written through it, as a label's value wants it.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                _ => self.0.push(character),
            }
        }
        Ok(())
    }
}

/// A whole number of `1 / 10^digits` seconds, written in seconds without rounding.
struct Seconds {
    count: u128,
    digits: u32,
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u128.pow(self.digits);
        write!(f, "{}.{:0digits$}", self.count / unit, self.count % unit, digits = self.digits as usize)
    }
}

const fn from_ns(nanoseconds: u128) -> Seconds {
    Seconds { count: nanoseconds, digits: 9 }
}

/// The text as it grows. Writing to a string cannot fail, so that errors are left alone.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric, whose samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a value with its labels.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            let _ = write!(Escaping(&mut self.0), "{text}");
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Writes a histogram with its labels, in seconds.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let (bucket, count) = (format!("{name}_bucket"), histogram.count());
        let ends = histogram.cumulative().map(|(end_us, commands)| {
            let end = Seconds { count: u128::from(end_us), digits: 6 };
            (end.to_string(), commands)
        });
        for (end, commands) in ends.chain([("+Inf".to_owned(), count)]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &end as &dyn Display)]).collect();
            self.sample(&bucket, &labels, commands);
        }
        self.sample(&format!("{name}_sum"), labels, from_ns(histogram.sum_ns.into()));
        self.sample(&format!("{name}_count"), labels, count);
    }
}

impl Metrics {
    /// The text that Prometheus scrapes; `CONTENT_TYPE` is its kind.
    pub fn to_prometheus(&self) -> String {
        let mut text = Exposition::default();
        self.write_target(&mut text);
        self.write_namespaces(&mut text);
        self.write_states(&mut text);
        self.write_absent(&mut text);
        self.write_operations(&mut text);
        self.write_errors(&mut text);
        self.write_storage(&mut text);
        self.write_controllers(&mut text);
        self.write_reactors(&mut text);
        text.0
    }

    fn write_target(&self, text: &mut Exposition) {
        let name = "selvedge_build_info";
        text.family(name, "gauge", "Running version; the value is always 1.");
        text.sample(name, &[("version", &env!("CARGO_PKG_VERSION"))], 1);
        let name = "selvedge_start_time_seconds";
        text.family(name, "gauge", "Start of the target, in seconds since 1970.");
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        text.sample(name, &[], from_ns(since.as_nanos()));
        let name = "selvedge_omitted";
        text.family(name, "gauge", "Namespaces and queues without series, beyond the limit of series.");
        text.sample(name, &[("kind", &"namespace")], self.namespaces_omitted);
        text.sample(name, &[("kind", &"queue")], self.queues_omitted);
        let name = "selvedge_peculiarities_total";
        text.family(name, "counter", "Connections with accepted deviations from the specification.");
        for (peculiarity, connections) in &self.peculiarities {
            text.sample(name, &[("kind", &peculiarity.name())], connections);
        }
        let name = "selvedge_congestion_changes_total";
        text.family(name, "counter", "Changes of a connection's congestion control.");
        for (to, connections) in &self.congestion_changes {
            text.sample(name, &[("to", to)], connections);
        }
    }

    /// All namespaces, each with its subsystem's name.
    fn namespaces(&self) -> impl Iterator<Item = (&str, &NamespaceMetrics)> {
        let subsystems = self.subsystems.iter();
        subsystems.flat_map(|subsystem| subsystem.namespaces.iter().map(|n| (&*subsystem.nqn, n)))
    }

    fn operations(&self) -> impl Iterator<Item = (&str, u32, &OperationMetrics)> {
        self.namespaces().flat_map(|(subsystem, namespace)| {
            namespace.operations.iter().map(move |operation| (subsystem, namespace.nsid, operation))
        })
    }

    fn write_namespaces(&self, text: &mut Exposition) {
        let name = "selvedge_namespace_size_bytes";
        text.family(name, "gauge", "Size of the namespace.");
        for (subsystem, namespace) in self.namespaces() {
            if let Some(size_bytes) = namespace.size_bytes {
                text.sample(name, &[("subsystem", &subsystem), ("nsid", &namespace.nsid)], size_bytes);
            }
        }
        let name = "selvedge_namespace_ana_state";
        text.family(
            name,
            "gauge",
            "Asymmetric access through the port: 1 optimized, 2 non-optimized, 3 inaccessible, 4 persistent loss, \
             15 change.",
        );
        for (subsystem, namespace) in self.namespaces() {
            for (port, state) in &namespace.access {
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("port", port)];
                text.sample(name, labels, AnaState::from(*state) as u8);
            }
        }
    }

    fn write_states(&self, text: &mut Exposition) {
        let name = "selvedge_namespace_failed";
        text.family(
            name,
            "gauge",
            "1 while the namespace refuses writes and Flush because its storage failed to synchronize.",
        );
        for (subsystem, namespace) in self.namespaces() {
            if let Some(has_failed) = namespace.has_failed {
                let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &namespace.nsid)];
                text.sample(name, labels, u8::from(has_failed));
            }
        }
    }

    fn write_absent(&self, text: &mut Exposition) {
        let name = "selvedge_absent_namespaces";
        text.family(name, "gauge", "Namespaces of the subsystem without their disk or image.");
        for subsystem in &self.subsystems {
            text.sample(name, &[("subsystem", &subsystem.nqn)], subsystem.absent);
        }
    }

    /// Writes the times of operations at the storage, and their limit.
    fn write_storage(&self, text: &mut Exposition) {
        let storages = || {
            self.namespaces().filter_map(|(nqn, namespace)| Some((nqn, namespace.nsid, namespace.storage?)))
        };
        let name = "selvedge_storage_oldest_operation_seconds";
        text.family(name, "gauge", "Age of the oldest operation at the storage; 0 without one.");
        for (subsystem, nsid, storage) in storages() {
            text.sample(
                name,
                &[("subsystem", &subsystem), ("nsid", &nsid)],
                from_ns(storage.oldest.as_nanos()),
            );
        }
        let name = "selvedge_storage_late_operations_total";
        text.family(name, "counter", "Storage operations that exceeded the Command Quiesce Time.");
        for (subsystem, nsid, storage) in storages() {
            for (kind, count) in [("change", storage.late_changes), ("other", storage.late_others)] {
                text.sample(name, &[("subsystem", &subsystem), ("nsid", &nsid), ("kind", &kind)], count);
            }
        }
        let name = "selvedge_storage_longest_operation_seconds";
        text.family(name, "gauge", "Longest time of an operation at the storage.");
        for subsystem in &self.subsystems {
            text.sample(
                name,
                &[("subsystem", &subsystem.nqn)],
                from_ns(subsystem.longest_operation.as_nanos()),
            );
        }
        let name = "selvedge_command_quiesce_seconds";
        text.family(name, "gauge", "Command Quiesce Time reported to hosts.");
        for subsystem in &self.subsystems {
            text.sample(
                name,
                &[("subsystem", &subsystem.nqn)],
                from_ns(subsystem.command_quiesce.as_nanos()),
            );
        }
    }

    fn write_operations(&self, text: &mut Exposition) {
        let name = "selvedge_commands_total";
        text.family(name, "counter", "I/O commands that succeeded.");
        for (subsystem, nsid, metrics) in self.operations() {
            let operation = metrics.operation.name();
            let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &nsid), ("operation", &operation)];
            text.sample(name, labels, metrics.commands());
        }
        let name = "selvedge_command_bytes_total";
        text.family(
            name,
            "counter",
            "Bytes transferred with I/O commands that succeeded, in either direction.",
        );
        for (subsystem, nsid, metrics) in self.operations() {
            let operation = metrics.operation.name();
            let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &nsid), ("operation", &operation)];
            text.sample(name, labels, metrics.bytes);
        }
        let name = "selvedge_command_duration_seconds";
        text.family(
            name,
            "histogram",
            "Time from reading an I/O command from the socket to queueing its response, for those that succeeded.",
        );
        for (subsystem, nsid, metrics) in self.operations() {
            let operation = metrics.operation.name();
            let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &nsid), ("operation", &operation)];
            text.histogram(name, labels, &metrics.latency);
        }
        let name = "selvedge_command_stage_seconds";
        text.family(
            name,
            "histogram",
            "That time by stage and size; commands that were not in a stage are not in its count.",
        );
        for (subsystem, nsid, metrics) in self.operations() {
            let operation = metrics.operation.name();
            for spent in &metrics.stages {
                let (stage, size) = (spent.stage.name(), spent.size.name());
                let labels: Labels<'_> = &[
                    ("subsystem", &subsystem),
                    ("nsid", &nsid),
                    ("operation", &operation),
                    ("stage", &stage),
                    ("size", &size),
                ];
                text.histogram(name, labels, &spent.times);
            }
        }
    }

    fn write_errors(&self, text: &mut Exposition) {
        let name = "selvedge_command_errors_total";
        text.family(
            name,
            "counter",
            "I/O commands that failed, by status type and code; nsid 0 stands for no namespace.",
        );
        for (subsystem, namespace) in self.namespaces() {
            for error in &namespace.errors {
                let code =
                    error.status.map_or("other".to_owned(), |status| format!("{:#05x}", status.bits()));
                let status = error.status.map_or("other", |status| status.name().unwrap_or("unknown"));
                let labels: Labels<'_> = &[
                    ("subsystem", &subsystem),
                    ("nsid", &namespace.nsid),
                    ("code", &code),
                    ("status", &status),
                ];
                text.sample(name, labels, error.commands);
            }
        }
        let name = "selvedge_media_errors_total";
        text.family(
            name,
            "counter",
            "Errors of the medium, each of which failed a command; full storage and lost paths are not counted.",
        );
        for (subsystem, namespace) in self.namespaces().filter(|(_, namespace)| namespace.nsid > 0) {
            text.sample(
                name,
                &[("subsystem", &subsystem), ("nsid", &namespace.nsid)],
                namespace.media_errors,
            );
        }
    }

    /// Writes the counters of refused and ended connections.
    fn write_admission(&self, text: &mut Exposition) {
        let name = "selvedge_connect_refusals_total";
        text.family(
            name,
            "counter",
            "Connect commands refused, by the rule in their way: a quota, not_allowed for a host that is on no list, \
             unknown_subsystem, host_id_in_use, or invalid.",
        );
        for (rule, count) in &self.refusals {
            text.sample(name, &[("rule", rule)], count);
        }
        let name = "selvedge_tls_handshakes_total";
        text.family(
            name,
            "counter",
            "TLS handshakes that succeeded, by cipher suite, version of the PSK identity, and derivation.",
        );
        for (kind, count) in &self.tls_handshakes {
            let (cipher, identity) = (kind.suite.name(), kind.identity.digit());
            let labels: Labels<'_> =
                &[("cipher", &cipher), ("identity", &identity), ("derivation", &kind.derivation.name())];
            text.sample(name, labels, count);
        }
        let name = "selvedge_host_key_written_timestamp_seconds";
        text.family(
            name,
            "gauge",
            "Modification time of the file of a host's secret or TLS key, in seconds since 1970.",
        );
        for key in &self.host_keys {
            let labels: Labels<'_> =
                &[("subsystem", &key.subsystem), ("host", &key.host), ("kind", &key.kind.name())];
            text.sample(name, labels, key.written_s);
        }
    }

    fn write_controllers(&self, text: &mut Exposition) {
        let name = "selvedge_controllers";
        text.family(name, "gauge", "Controllers of the subsystem; each belongs to one host.");
        for subsystem in &self.subsystems {
            let own = self.controllers.iter().filter(|controller| controller.subsystem == subsystem.nqn);
            text.sample(name, &[("subsystem", &subsystem.nqn)], own.count());
        }
        let name = "selvedge_controller_info";
        text.family(name, "gauge", "Host that uses the controller; the value is always 1.");
        for controller in &self.controllers {
            let labels: Labels<'_> = &[
                ("subsystem", &controller.subsystem),
                ("controller", &controller.cntlid),
                ("host", &controller.host_nqn),
                ("port", &controller.port),
            ];
            text.sample(name, labels, 1);
        }
        let queues = || self.controllers.iter().flat_map(|c| c.queues.iter().map(move |queue| (c, queue)));
        self.write_admission(text);
        self.write_ended_controllers(text);
        let name = "selvedge_queue_depth";
        text.family(name, "gauge", "I/O commands in progress on the queue.");
        for (controller, queue) in queues() {
            let labels: Labels<'_> = &[
                ("subsystem", &controller.subsystem),
                ("controller", &controller.cntlid),
                ("queue", &queue.queue_id),
            ];
            text.sample(name, labels, queue.depth);
        }
        let name = "selvedge_queue_commands_total";
        text.family(name, "counter", "I/O commands received, successful or not.");
        for (controller, queue) in queues() {
            let labels: Labels<'_> = &[
                ("subsystem", &controller.subsystem),
                ("controller", &controller.cntlid),
                ("queue", &queue.queue_id),
            ];
            text.sample(name, labels, queue.commands);
        }
        let name = "selvedge_queue_stage_seconds_total";
        text.family(name, "counter", "Time of the queue's commands by stage.");
        for (controller, queue) in queues() {
            for (stage, sum_ns) in Stage::ALL.into_iter().zip(queue.stages_ns).filter(|(_, ns)| *ns > 0) {
                let labels: Labels<'_> = &[
                    ("subsystem", &controller.subsystem),
                    ("controller", &controller.cntlid),
                    ("queue", &queue.queue_id),
                    ("stage", &stage.name()),
                ];
                text.sample(name, labels, from_ns(sum_ns.into()));
            }
        }
    }

    fn write_ended_controllers(&self, text: &mut Exposition) {
        let name = "selvedge_keep_alive_expiries_total";
        text.family(name, "counter", "Controllers ended by an expired keep alive timer.");
        text.sample(name, &[], self.keep_alive_expiries);
        let name = "selvedge_discovery_controllers_ended_total";
        text.family(name, "counter", "Discovery controllers ended to admit others.");
        text.sample(name, &[], self.discovery_ended);
        let name = "selvedge_displaced_controllers_total";
        text.family(
            name,
            "counter",
            "Controllers of hosts without proof of their name, ended for a proved host with the same HOSTID.",
        );
        text.sample(name, &[], self.displaced);
    }

    fn write_reactors(&self, text: &mut Exposition) {
        let name = "selvedge_connections";
        text.family(name, "gauge", "Connections of the reactor.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.connections);
        }
        let name = "selvedge_half_open_connections";
        text.family(name, "gauge", "Connections of the reactor that have not become a queue.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.half_open);
        }
        let name = "selvedge_half_open_connections_dropped_total";
        text.family(name, "counter", "Connections closed before they became a queue, to admit others.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.half_open_dropped);
        }
        let name = "selvedge_reactor_cpu_seconds_total";
        text.family(name, "counter", "Processor time of the reactor, polling included.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], from_ns(reactor.cpu_time.as_nanos()));
        }
        let name = "selvedge_reactor_waited_seconds_total";
        text.family(name, "counter", "Time of the reactor without events, polling and asleep.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], from_ns(reactor.waited.as_nanos()));
        }
        let name = "selvedge_reactor_rounds_total";
        text.family(name, "counter", "Iterations of the event loop.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.rounds);
        }
        let name = "selvedge_reactor_events_total";
        text.family(name, "counter", "Events processed by the reactor.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.events);
        }
        let name = "selvedge_reactor_buffer_bytes";
        text.family(name, "gauge", "Bytes of free buffers that the reactor keeps for reuse.");
        for reactor in &self.reactors {
            text.sample(name, &[("reactor", &reactor.number)], reactor.buffer_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.sample("a", &[("b", &"x\\y\"z\nw é{},="), ("c", &7)], 1);
        assert_eq!(text.0, "a{b=\"x\\\\y\\\"z\\nw é{},=\",c=\"7\"} 1\n");
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds { count: 1, digits: 6 }.to_string(), "0.000001");
        assert_eq!(Seconds { count: 1 << 24, digits: 6 }.to_string(), "16.777216");
        assert_eq!(from_ns(1_000_000_007).to_string(), "1.000000007");
    }
}
