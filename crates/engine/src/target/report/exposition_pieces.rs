//! Metrics as text for Prometheus, in pieces: names and their order. Where the numbers come from is in `metrics`. Metrics of each
//! namespace are in `families`.

use std::ops::Deref;
use std::time::SystemTime;

use super::exposition::{Exposition, Labels, from_ns};
use super::families::{ERRORS, Family, OPERATIONS, SPACE, STORAGE};
use super::metrics::Metrics;
use crate::limits::{METRICS_DETAILED_MAX, METRICS_PIECE_BYTES};
use crate::target::telemetry::Stage;

/// Part of the text.
enum Part {
    /// Metrics with few samples.
    Whole(fn(&Metrics, &mut Exposition)),
    /// Metrics with samples for each namespace.
    Each(&'static [Family]),
}

/// The text, in its order.
static PARTS: [Part; 8] = [
    Part::Whole(Metrics::write_target),
    Part::Each(&SPACE),
    Part::Whole(Metrics::write_absent),
    Part::Each(&OPERATIONS),
    Part::Each(&ERRORS),
    Part::Each(&STORAGE),
    Part::Whole(Metrics::write_subsystems),
    Part::Whole(|metrics, text| {
        metrics.write_controllers(text);
        metrics.write_reactors(text);
    }),
];

/// Text that Prometheus scrapes, in pieces: all of it takes far more memory than the numbers.
#[derive(Debug)]
pub struct ExpositionPieces<M> {
    metrics: M,
    /// Next part, and next of its families.
    part: usize,
    family: usize,
    /// Place in that family, once it has begun.
    place: Option<Place>,
}

/// Next namespace of a family.
#[derive(Debug, Default)]
struct Place {
    subsystem: usize,
    namespace: usize,
    /// Number of namespaces before it.
    before: usize,
}

impl<M: Deref<Target = Metrics>> ExpositionPieces<M> {
    /// The text of these numbers.
    pub const fn new(metrics: M) -> Self {
        Self { metrics, part: 0, family: 0, place: None }
    }

    /// Writes the rest of a family, or a piece of it. Returns true if nothing is left.
    fn write_family(&mut self, family: &Family, text: &mut Exposition) -> bool {
        if self.place.is_none() {
            text.family(family.name, family.kind, family.help);
        }
        let place = self.place.get_or_insert_default();
        while text.0.len() < METRICS_PIECE_BYTES {
            let Some(subsystem) = self.metrics.subsystems.get(place.subsystem) else { return true };
            if family.is_detailed && place.before == METRICS_DETAILED_MAX {
                return true;
            }
            match subsystem.namespaces.get(place.namespace) {
                Some(namespace) => {
                    (family.write)(text, family.name, &subsystem.nqn, namespace);
                    (place.namespace, place.before) = (place.namespace + 1, place.before + 1);
                }
                None => (place.subsystem, place.namespace) = (place.subsystem + 1, 0),
            }
        }
        false
    }
}

impl<M: Deref<Target = Metrics>> Iterator for ExpositionPieces<M> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = Exposition::default();
        while text.0.len() < METRICS_PIECE_BYTES {
            let families = match PARTS.get(self.part) {
                Some(Part::Each(families)) => families,
                Some(Part::Whole(write)) => {
                    write(&self.metrics, &mut text);
                    self.part += 1;
                    continue;
                }
                None => break,
            };
            match families.get(self.family) {
                Some(family) if self.write_family(family, &mut text) => {
                    (self.family, self.place) = (self.family + 1, None);
                }
                Some(_) => {}
                None => (self.part, self.family) = (self.part + 1, 0),
            }
        }
        (!text.0.is_empty()).then_some(text.0)
    }
}

impl Metrics {
    /// The text that Prometheus scrapes; `CONTENT_TYPE` is its kind.
    pub fn to_prometheus(&self) -> String {
        ExpositionPieces::new(self).collect()
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
        let reported: usize = self.subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum();
        let brief = reported.saturating_sub(METRICS_DETAILED_MAX);
        text.sample(name, &[("kind", &"namespace")], self.namespaces_omitted);
        text.sample(name, &[("kind", &"namespace_detail")], brief);
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

    fn write_absent(&self, text: &mut Exposition) {
        let name = "selvedge_absent_namespaces";
        text.family(name, "gauge", "Namespaces of the subsystem without their disk or image.");
        for subsystem in &self.subsystems {
            text.sample(name, &[("subsystem", &subsystem.nqn)], subsystem.absent);
        }
    }

    /// Writes the longest times of operations at the storage, and their limit.
    fn write_subsystems(&self, text: &mut Exposition) {
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
        let name = "selvedge_host_changes_refused_total";
        text.family(
            name,
            "counter",
            "Changes of hosts (reservations, namespaces) refused beyond their rate.",
        );
        text.sample(name, &[], self.changes_refused);
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
