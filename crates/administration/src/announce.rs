//! Announcement of the discovery service by multicast DNS (TP8009), by which hosts on the same
//! network find it without an address in their configuration. It answers on threads of its own, and
//! opens only multicast sockets.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::target::FabricConfig;
use mdns_sd::{DaemonEvent, IfKind, ServiceDaemon, ServiceInfo};
use nvme::discovery::DISCOVERY_NQN;

use crate::spec::service::DISCOVERY_SERVICE_DEFAULT;

/// The type of service that hosts browse for.
const SERVICE_TYPE: &str = "_nvme-disc._tcp.local.";
/// Longest time until a change of the ports is announced: hosts that browse wait, and looking costs
/// next to nothing.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time to wait until the end of the service is announced. Hosts that miss it get no
/// answer, as after a power cut.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest label of a name in DNS, in bytes (RFC 1035, 2.3.4).
const LABEL_LENGTH_MAX: usize = 63;

/// Announces a target's discovery service until it is dropped.
#[derive(Debug)]
pub struct Announcer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Announcer {
    /// Announces what `served` says, and asks it again now and then.
    pub fn start(served: impl Fn() -> FabricConfig + Send + 'static) -> io::Result<Self> {
        Self::every(FOLLOW_INTERVAL, served)
    }

    fn every(interval: Duration, served: impl Fn() -> FabricConfig + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let follow = move || follow(interval, &served, &stopped);
        let thread = std::thread::Builder::new().name("announce".to_owned()).spawn(follow)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed, and there is nothing left to end.
            let _ = thread.join();
        }
    }
}

fn follow(interval: Duration, served: &dyn Fn() -> FabricConfig, stopped: &Receiver<()>) {
    let mut announced = None;
    let mut responder: Option<Responder> = None;
    loop {
        let notice = Notice::of(&served());
        if notice != announced {
            drop(responder.take());
            responder = notice.as_ref().and_then(|notice| match Responder::start(notice) {
                Ok(responder) => Some(responder),
                Err(error) => {
                    tracing::warn!(%error, "multicast DNS announcement of the discovery service is disabled");
                    None
                }
            });
            announced = notice;
        }
        match stopped.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(responder) = &responder {
            responder.log();
        }
    }
}

/// Content of an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notice {
    addresses: BTreeSet<IpAddr>,
    service: u16,
    nqn: String,
}

impl Notice {
    /// The discovery service is on every port, but an announcement has one service only: the one that IANA assigned
    /// to discovery where the target listens there, else the first port's.
    fn of(fabric: &FabricConfig) -> Option<Self> {
        let mut services = fabric.ports.iter().map(|port| port.address.port());
        let assigned = services.clone().find(|service| *service == DISCOVERY_SERVICE_DEFAULT);
        let service = assigned.or_else(|| services.next())?;
        let here = fabric.ports.iter().filter(|port| port.address.port() == service);
        Some(Self {
            addresses: here.map(|port| port.address.ip().to_canonical()).collect(),
            service,
            nqn: fabric.discovery_nqn.clone().unwrap_or_else(|| DISCOVERY_NQN.to_owned()),
        })
    }

    fn has_wildcard(&self) -> bool {
        self.addresses.iter().any(IpAddr::is_unspecified)
    }

    /// Interfaces for the announcement: those with the addresses listened on. A target that listens
    /// on all addresses of the machine is announced on all networks, and to the machine itself only
    /// if nothing else is listened on.
    fn interfaces(&self) -> Vec<(IfKind, bool)> {
        let mut kinds = vec![(IfKind::All, false)];
        for address in &self.addresses {
            match address {
                IpAddr::V4(any) if any.is_unspecified() => {
                    kinds.extend([(IfKind::IPv4, true), (IfKind::LoopbackV4, false)]);
                }
                // The system gives such a socket the IPv4 connections too.
                IpAddr::V6(any) if any.is_unspecified() => {
                    kinds.extend([
                        (IfKind::All, true),
                        (IfKind::LoopbackV4, false),
                        (IfKind::LoopbackV6, false),
                    ]);
                }
                _ => {}
            }
        }
        for address in self.addresses.iter().filter(|address| !address.is_unspecified()) {
            let kind = match address {
                IpAddr::V4(address) if address.is_loopback() => IfKind::LoopbackV4,
                IpAddr::V6(address) if address.is_loopback() => IfKind::LoopbackV6,
                address => IfKind::Addr(*address),
            };
            kinds.push((kind, true));
        }
        kinds
    }

    /// The records on a machine with this name.
    fn records(&self, machine: &str) -> mdns_sd::Result<ServiceInfo> {
        let properties = [("p", "tcp"), ("nqn", self.nqn.as_str())];
        let host = host_label(machine, self.service) + ".local.";
        let instance = instance_label(machine);
        if self.has_wildcard() {
            let info = ServiceInfo::new(SERVICE_TYPE, &instance, &host, (), self.service, &properties[..])?;
            return Ok(info.enable_addr_auto());
        }
        let addresses: Vec<IpAddr> = self.addresses.iter().copied().collect();
        ServiceInfo::new(SERVICE_TYPE, &instance, &host, &addresses[..], self.service, &properties[..])
    }
}

/// The name that people see in a list of discovery services: the machine's.
fn instance_label(machine: &str) -> String {
    let first = machine.split('.').next().unwrap_or_default();
    let end = (0..=first.len().min(LABEL_LENGTH_MAX)).rev().find(|end| first.is_char_boundary(*end));
    match &first[..end.unwrap_or(0)] {
        "" => "selvedge".to_owned(),
        label => label.to_owned(),
    }
}

/// The name of the address records. It is not the machine's own, which another responder may be answering for with
/// more addresses than a target listens on, and both would take that for a conflict.
fn host_label(machine: &str, service: u16) -> String {
    let suffix = format!("-nvme-{service}");
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let mut label: String = instance_label(machine).chars().map(plain).collect();
    label.truncate(LABEL_LENGTH_MAX - suffix.len());
    label + &suffix
}

/// Responder to the queries of hosts.
struct Responder {
    daemon: ServiceDaemon,
    events: mdns_sd::Receiver<DaemonEvent>,
}

impl Responder {
    fn start(notice: &Notice) -> mdns_sd::Result<Self> {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let records = notice.records(&machine)?;
        let daemon = ServiceDaemon::new()?;
        let events = daemon.monitor()?;
        let responder = Self { daemon, events };
        // Interfaces first, so no unselected one gets the announcement.
        for (kind, selected) in notice.interfaces() {
            match selected {
                true => responder.daemon.enable_interface(kind)?,
                false => responder.daemon.disable_interface(kind)?,
            }
        }
        responder.daemon.register(records)?;
        Ok(responder)
    }

    /// Writes down what the responder has to say.
    fn log(&self) {
        for event in self.events.try_iter() {
            match event {
                DaemonEvent::Error(error) => tracing::warn!(%error, "multicast DNS"),
                DaemonEvent::NameChange(change) => {
                    tracing::warn!(from = change.original, to = change.new_name, "another has this name");
                }
                event => tracing::debug!(?event, "multicast DNS"),
            }
        }
    }
}

impl Drop for Responder {
    /// Tells hosts that the service ends.
    fn drop(&mut self) {
        if let Ok(ended) = self.daemon.shutdown() {
            let _ = ended.recv_timeout(GOODBYE_TIMEOUT);
        }
        self.log();
    }
}

#[cfg(test)]
mod tests;
