//! What was done, by the names of ceph-nvmeof's exporter, for dashboards that are made for them.

use std::time::{Duration, SystemTime};

use engine::backend::BackendConfig;
use engine::limits::NAMESPACES_MAX;
use engine::target::{
    CONTENT_TYPE, Exposition, FabricConfig, Metrics, NamespaceMetrics, Operation, SubsystemConfig,
};

use super::super::ask::{Answer, Ask};
use super::super::refusal::Refusal;
use super::gateway::{VERSION, host_name};
use super::listeners::listeners_of;
use super::namespaces::bdev_name;
use super::subsystems::group_name;

/// Counter of a namespace: its name in ceph-nvmeof, the help of its metric, and its value.
type Count = (&'static str, &'static str, fn(&NamespaceMetrics) -> f64);

const COUNTS: [Count; 6] = [
    ("reads_completed_total", "Read commands that went well", |counted| of(counted, Operation::Read).0),
    ("writes_completed_total", "Write commands that went well", |counted| of(counted, Operation::Write).0),
    ("read_bytes_total", "Bytes read", |counted| of(counted, Operation::Read).1),
    ("written_bytes_total", "Bytes written", |counted| of(counted, Operation::Write).1),
    ("read_seconds_total", "Time that reads took", |counted| of(counted, Operation::Read).2),
    ("write_seconds_total", "Time that writes took", |counted| of(counted, Operation::Write).2),
];

pub(in crate::control) fn answer(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let administration = ask.administration;
    let group = administration.membership().map(gateway::Membership::status);
    let exposed = Exposed {
        fabric: administration.shown(),
        metrics: administration.metrics(),
        gateway: host_name(group.as_ref()),
        group: group.as_ref().map(group_name).unwrap_or_default().to_owned(),
    };
    Ok(Answer::text(CONTENT_TYPE, exposed.text()))
}

/// Commands, bytes and seconds.
fn of(counted: &NamespaceMetrics, operation: Operation) -> (f64, f64, f64) {
    let known = counted.operations.iter().find(|known| known.operation == operation);
    known.map_or((0.0, 0.0, 0.0), |known| {
        let seconds = Duration::from_nanos(known.latency.sum_ns).as_secs_f64();
        (known.commands() as f64, known.bytes as f64, seconds)
    })
}

/// Data of the exposition.
struct Exposed {
    fabric: FabricConfig,
    metrics: Metrics,
    gateway: String,
    group: String,
}

impl Exposed {
    fn text(&self) -> String {
        let mut text = Exposition::default();
        text.family("ceph_nvmeof_gateway_info", "gauge", "Gateway information");
        let address = self.fabric.ports.first().map(|port| port.address);
        let (ip, service) = address.map(|at| (at.ip().to_string(), at.port())).unwrap_or_default();
        let labels: [(&str, &dyn std::fmt::Display); 6] = [
            ("version", &VERSION),
            ("addr", &ip),
            ("port", &service),
            ("name", &self.gateway),
            ("hostname", &self.gateway),
            ("group", &self.group),
        ];
        text.sample("ceph_nvmeof_gateway_info", &labels, 1);
        self.disks(&mut text);
        self.reactors(&mut text);
        self.subsystems(&mut text);
        self.hosts(&mut text);
        text.into_text()
    }

    fn disks(&self, text: &mut Exposition) {
        text.family("ceph_nvmeof_bdev_metadata", "gauge", "Images behind namespaces");
        for namespace in self.fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces) {
            let BackendConfig::Rbd(image) = &namespace.backend else { continue };
            let labels: [(&str, &dyn std::fmt::Display); 5] = [
                ("bdev_name", &bdev_name(namespace)),
                ("pool_name", &image.pool),
                ("namespace", &image.namespace),
                ("rbd_name", &image.image),
                ("block_size", &namespace.block_size),
            ];
            text.sample("ceph_nvmeof_bdev_metadata", &labels, 1);
        }
        text.family("ceph_nvmeof_bdev_capacity_bytes", "gauge", "Bytes of a namespace");
        self.each_disk(|name, counted| {
            if let Some(bytes) = counted.size_bytes {
                text.sample("ceph_nvmeof_bdev_capacity_bytes", &[("bdev_name", &name)], bytes);
            }
        });
        for (name, help, count) in COUNTS {
            let family = format!("ceph_nvmeof_bdev_{name}");
            text.family(&family, "counter", help);
            self.each_disk(|name, counted| text.sample(&family, &[("bdev_name", &name)], count(counted)));
        }
    }

    /// Each namespace by the name of what is behind it, with what it has done.
    fn each_disk(&self, mut tell: impl FnMut(String, &NamespaceMetrics)) {
        for counted in &self.metrics.subsystems {
            let Some(subsystem) = self.fabric.subsystem(&counted.nqn) else { continue };
            for namespace in &subsystem.namespaces {
                if let Some(known) = counted.namespace(namespace.nsid) {
                    tell(bdev_name(namespace), known);
                }
            }
        }
    }

    fn reactors(&self, text: &mut Exposition) {
        let name = "ceph_nvmeof_reactor_seconds_total";
        text.family(name, "counter", "Time that a reactor has worked, and waited");
        let since = SystemTime::now().duration_since(self.metrics.started).unwrap_or_default();
        for reactor in &self.metrics.reactors {
            let thread = format!("reactor-{}", reactor.number);
            let busy = since.saturating_sub(reactor.waited);
            for (mode, time) in [("busy", busy), ("idle", reactor.waited)] {
                text.sample(name, &[("name", &thread), ("mode", &mode)], time.as_secs_f64());
            }
        }
    }

    fn subsystems(&self, text: &mut Exposition) {
        text.family("ceph_nvmeof_subsystem_metadata", "gauge", "Subsystems");
        for subsystem in &self.fabric.subsystems {
            let labels: [(&str, &dyn std::fmt::Display); 6] = [
                ("nqn", &subsystem.nqn),
                ("serial_number", &subsystem.serial),
                ("model_number", &subsystem.model),
                ("allow_any_host", &if subsystem.allow_any_host { "yes" } else { "no" }),
                ("ha_enabled", &"yes"),
                ("group", &self.group),
            ];
            text.sample("ceph_nvmeof_subsystem_metadata", &labels, 1);
        }
        type Number<'a> = (&'a str, &'a str, &'a dyn Fn(&SubsystemConfig) -> usize);
        let numbers: [Number<'_>; 4] = [
            ("listener_count", "Addresses that a subsystem is found at", &|subsystem| {
                listeners_of(&self.fabric.ports, "", subsystem).len()
            }),
            ("host_count", "Hosts that may use a subsystem", &|subsystem| subsystem.hosts.len()),
            ("namespace_limit", "Namespaces that a subsystem can have", &|_| NAMESPACES_MAX as usize),
            ("namespace_count", "Namespaces that it has", &|subsystem| subsystem.namespaces.len()),
        ];
        for (name, help, number) in numbers {
            let family = format!("ceph_nvmeof_subsystem_{name}");
            text.family(&family, "gauge", help);
            for subsystem in &self.fabric.subsystems {
                text.sample(&family, &[("nqn", &subsystem.nqn)], number(subsystem));
            }
        }
        let name = "ceph_nvmeof_subsystem_namespace_metadata";
        text.family(name, "gauge", "Namespaces, by what is behind them");
        for subsystem in &self.fabric.subsystems {
            for namespace in &subsystem.namespaces {
                let labels: [(&str, &dyn std::fmt::Display); 4] = [
                    ("nqn", &subsystem.nqn),
                    ("nsid", &namespace.nsid),
                    ("bdev_name", &bdev_name(namespace)),
                    ("anagrpid", &namespace.ana_group),
                ];
                text.sample(name, &labels, 1);
            }
        }
    }

    fn hosts(&self, text: &mut Exposition) {
        let name = "ceph_nvmeof_host_connection_state";
        text.family(name, "gauge", "Whether a host is connected");
        for subsystem in &self.fabric.subsystems {
            let here: Vec<_> =
                self.metrics.controllers.iter().filter(|known| known.subsystem == subsystem.nqn).collect();
            for controller in &here {
                let port: Vec<_> =
                    self.fabric.ports.iter().filter(|port| port.id == controller.port).cloned().collect();
                let at = listeners_of(&port, "", subsystem).pop().unwrap_or_default();
                let at = format!("{}:{}", at.traddr, at.trsvcid);
                self.host(text, &subsystem.nqn, &controller.host_nqn, &at, 1);
            }
            for host in &subsystem.hosts {
                if !here.iter().any(|controller| controller.host_nqn == *host) {
                    self.host(text, &subsystem.nqn, host, "<n/a>", 0);
                }
            }
        }
    }

    fn host(&self, text: &mut Exposition, nqn: &str, host: &str, at: &str, state: u8) {
        let labels: [(&str, &dyn std::fmt::Display); 4] =
            [("gw_name", &self.gateway), ("nqn", &nqn), ("host_nqn", &host), ("host_addr", &at)];
        text.sample("ceph_nvmeof_host_connection_state", &labels, state);
    }
}
