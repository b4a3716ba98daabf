//! Metrics that have samples for each namespace: names, and values of one namespace.

use nvme::log_page::AnaState;

use super::exposition::{Exposition, Labels, from_ns};
use super::metrics::NamespaceMetrics;

/// A metric with samples for each namespace.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
    /// True if namespaces beyond `limits::METRICS_DETAILED_MAX` have no samples.
    pub(super) is_detailed: bool,
    /// Writes samples of this name, for a namespace of the subsystem with this NQN.
    pub(super) write: fn(&mut Exposition, &str, &str, &NamespaceMetrics),
}

/// Size and states.
pub(super) const SPACE: [Family; 3] = [
    Family {
        name: "selvedge_namespace_size_bytes",
        kind: "gauge",
        help: "Size of the namespace.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            if let Some(size_bytes) = namespace.size_bytes {
                text.sample(name, &[("subsystem", &subsystem), ("nsid", &namespace.nsid)], size_bytes);
            }
        },
    },
    Family {
        name: "selvedge_namespace_ana_state",
        kind: "gauge",
        help: "Asymmetric access through the port: 1 optimized, 2 non-optimized, 3 inaccessible, 4 persistent loss, \
               15 change.",
        is_detailed: true,
        write: |text, name, subsystem, namespace| {
            for (port, state) in &namespace.access {
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("port", port)];
                text.sample(name, labels, AnaState::from(*state) as u8);
            }
        },
    },
    Family {
        name: "selvedge_namespace_failed",
        kind: "gauge",
        help: "1 while the namespace refuses writes and Flush because its storage failed to synchronize.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            if let Some(has_failed) = namespace.has_failed {
                let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &namespace.nsid)];
                text.sample(name, labels, u8::from(has_failed));
            }
        },
    },
];

/// Commands that went well.
pub(super) const OPERATIONS: [Family; 4] = [
    Family {
        name: "selvedge_commands_total",
        kind: "counter",
        help: "I/O commands that succeeded.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            for metrics in &namespace.operations {
                let operation = metrics.operation.name();
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("operation", &operation)];
                text.sample(name, labels, metrics.commands());
            }
        },
    },
    Family {
        name: "selvedge_command_bytes_total",
        kind: "counter",
        help: "Bytes transferred with I/O commands that succeeded, in either direction.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            for metrics in &namespace.operations {
                let operation = metrics.operation.name();
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("operation", &operation)];
                text.sample(name, labels, metrics.bytes);
            }
        },
    },
    Family {
        name: "selvedge_command_duration_seconds",
        kind: "histogram",
        help: "Time from reading an I/O command from the socket to queueing its response, for those that succeeded.",
        is_detailed: true,
        write: |text, name, subsystem, namespace| {
            for metrics in &namespace.operations {
                let operation = metrics.operation.name();
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("operation", &operation)];
                text.histogram(name, labels, &metrics.latency);
            }
        },
    },
    Family {
        name: "selvedge_command_stage_seconds",
        kind: "histogram",
        help: "That time by stage and size; commands that were not in a stage are not in its count.",
        is_detailed: true,
        write: write_stages,
    },
];

/// Commands that failed.
pub(super) const ERRORS: [Family; 2] = [
    Family {
        name: "selvedge_command_errors_total",
        kind: "counter",
        help: "I/O commands that failed, by status type and code; nsid 0 stands for no namespace.",
        is_detailed: false,
        write: write_errors,
    },
    Family {
        name: "selvedge_media_errors_total",
        kind: "counter",
        help: "Errors of the medium, each of which failed a command; full storage and lost paths are not counted.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            if namespace.nsid > 0 {
                let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &namespace.nsid)];
                text.sample(name, labels, namespace.media_errors);
            }
        },
    },
];

/// Operations at the storage.
pub(super) const STORAGE: [Family; 2] = [
    Family {
        name: "selvedge_storage_oldest_operation_seconds",
        kind: "gauge",
        help: "Age of the oldest operation at the storage; 0 without one.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            if let Some(storage) = &namespace.storage {
                let labels: Labels<'_> = &[("subsystem", &subsystem), ("nsid", &namespace.nsid)];
                text.sample(name, labels, from_ns(storage.oldest.as_nanos()));
            }
        },
    },
    Family {
        name: "selvedge_storage_late_operations_total",
        kind: "counter",
        help: "Storage operations that exceeded the Command Quiesce Time.",
        is_detailed: false,
        write: |text, name, subsystem, namespace| {
            let Some(storage) = &namespace.storage else { return };
            for (kind, count) in [("change", storage.late_changes), ("other", storage.late_others)] {
                let labels: Labels<'_> =
                    &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("kind", &kind)];
                text.sample(name, labels, count);
            }
        },
    },
];

fn write_stages(text: &mut Exposition, name: &str, subsystem: &str, namespace: &NamespaceMetrics) {
    for metrics in &namespace.operations {
        let operation = metrics.operation.name();
        for spent in &metrics.stages {
            let (stage, size) = (spent.stage.name(), spent.size.name());
            let labels: Labels<'_> = &[
                ("subsystem", &subsystem),
                ("nsid", &namespace.nsid),
                ("operation", &operation),
                ("stage", &stage),
                ("size", &size),
            ];
            text.histogram(name, labels, &spent.times);
        }
    }
}

fn write_errors(text: &mut Exposition, name: &str, subsystem: &str, namespace: &NamespaceMetrics) {
    for error in &namespace.errors {
        let code = error.status.map_or("other".to_owned(), |status| format!("{:#05x}", status.bits()));
        let status = error.status.map_or("other", |status| status.name().unwrap_or("unknown"));
        let labels: Labels<'_> =
            &[("subsystem", &subsystem), ("nsid", &namespace.nsid), ("code", &code), ("status", &status)];
        text.sample(name, labels, error.commands);
    }
}
