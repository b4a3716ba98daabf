//! Number of I/O queues that the kernel's initiator chooses with the series "NIC topology aware I/O queue scaling" as it was
//! re-posted in July 2026, unless `nr_io_queues` is given, and whether that number means anything for the packets' way. No
//! released kernel has the series. The tool's own number, of the cards that carry the packets, is in `rule`.

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::{NOTHING_HERE, Queues, counted, without_card};
use super::{Interface, InterfaceKind, LimitLine, QueueCreation, Topology, legs};

/// Controller of the kernel's initiator, with what decides the number of its I/O queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelController {
    /// Name, as in `nvme0`.
    pub name: String,
    /// Transport: `tcp`, or `mptcp` of the kernels that have it.
    pub transport: String,
    /// I/O queues that it has.
    pub io_queues: u32,
    /// Address that its connections come from.
    pub local: Option<IpAddr>,
    /// Interface that it is bound to.
    pub host_iface: Option<String>,
    /// Interface that has the local address.
    pub holder: Option<String>,
    /// Creation of its I/O queues, as the kernel logged it last.
    pub creation: Option<QueueCreation>,
}

/// Number of I/O queues that the kernel chooses over a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelChoice {
    /// Device whose queues the kernel counts.
    pub device: String,
    /// I/O queues that it asks the target for.
    pub queues: u32,
    /// Lesser of the device's receive and transmit queues; absent where they are unknown.
    pub nic_queues: Option<u32>,
    /// CPUs that are online.
    pub cpus: u32,
    /// Reason why the number says nothing about the packets' way; absent where it says something.
    pub doubt: Option<String>,
    /// Limitation of the number, where it says something.
    pub remark: Option<String>,
}

impl KernelChoice {
    /// The choice for connections over a device, of which the kernel counts the device's own queues, not those below it.
    /// Absent where the topology does not have it.
    pub fn of(topology: &Topology, device: &str) -> Option<Self> {
        let interface = topology.interface(device)?;
        let cpus = (topology.processors.online.len() as u32).max(1);
        let nic_queues = Queues::of(interface).count();
        let is_virtio = interface.driver.as_deref() == Some("virtio_net");
        Some(Self {
            device: device.to_owned(),
            queues: nic_queues.map_or(cpus, |queues| queues.min(cpus)),
            nic_queues,
            cpus,
            doubt: doubt(topology, interface),
            remark: is_virtio.then(|| {
                "they are the virtual machine's, and the queues of its host's card are not seen".to_owned()
            }),
        })
    }

    /// The line that the kernel logs, if fewer I/O queues than CPUs come of it.
    pub fn line(&self) -> Option<LimitLine> {
        let Self { queues, cpus, .. } = *self;
        let nic_queues = self.nic_queues.filter(|_| queues < cpus)?;
        Some(LimitLine { queues, nic_queues, cpus })
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, queues, .. } = self;
        let cpus = counted(self.cpus, "CPU");
        match self.nic_queues {
            Some(count) => {
                write!(f, "{queues} (the lesser of {cpus} and {} of {device})", counted(count, "queue"))?;
            }
            None => write!(f, "{queues} ({cpus}; the queues of {device} are not known)")?,
        }
        if let Some(doubt) = &self.doubt {
            write!(f, "; {NOTHING_HERE}: {doubt}")?;
        }
        self.remark.as_ref().map_or(Ok(()), |remark| write!(f, "; {remark}"))
    }
}

/// Reason why a device's own queues are not those that its packets use.
fn doubt(topology: &Topology, interface: &Interface) -> Option<String> {
    let name = &interface.name;
    let below: Vec<String> = legs(topology, name)
        .into_iter()
        .filter(|leg| leg.name != *name)
        .map(|leg| match Queues::of(leg).count() {
            Some(count) if without_card(leg).is_none() => {
                format!("the {} of {}", counted(count, "queue"), leg.name)
            }
            _ => format!("{}, whose queues belong to no card or are unknown", leg.name),
        })
        .collect();
    let used = match below.as_slice() {
        [] => "nothing with queues leads out of it".to_owned(),
        names => format!("its packets use {}", names.join(" and ")),
    };
    match interface.kind {
        InterfaceKind::Device => None,
        InterfaceKind::Veth => {
            Some(format!("{name} is a veth, whose other end chooses the queue, and no card has these queues"))
        }
        InterfaceKind::Bond => {
            Some(format!("a bond has as many queues as it was made with (tx_queues); {used}"))
        }
        InterfaceKind::Vlan => Some(format!("a VLAN has queues of its own in name only; {used}")),
        InterfaceKind::Bridge => Some(format!("a bridge has queues in name only; {used}")),
        InterfaceKind::Virtual if !below.is_empty() => {
            Some(format!("{name} has queues in name only; {used}"))
        }
        InterfaceKind::Loopback | InterfaceKind::Tunnel | InterfaceKind::Virtual => without_card(interface),
    }
}

/// I/O queues of a controller beside those that a kernel with the series chooses; or, without a controller, those of one
/// that connects over an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelQueues {
    /// Controller with the queues that this kernel created.
    pub controller: Option<KernelController>,
    /// Choice of a kernel with the series. Absent where the device is not known.
    pub choice: Option<KernelChoice>,
}

impl KernelQueues {
    /// All controllers by the interfaces with these names, then those interfaces without a controller. Without names, all
    /// controllers and the interfaces of all flows.
    pub fn all(topology: &Topology, names: &[String]) -> Vec<Self> {
        let route = |controller: &KernelController| {
            let mut flows = topology.flows.iter().filter(|flow| flow.controller == controller.name);
            flows.find_map(|flow| flow.interface.as_deref())
        };
        let is_wanted = |name: &&str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let (mut found, mut done) = (Vec::new(), Vec::new());
        for controller in &topology.kernel_controllers {
            let ways: Vec<&str> = controller.device().into_iter().chain(route(controller)).collect();
            if names.is_empty() || ways.iter().any(is_wanted) {
                let choice = controller.choice(topology, route(controller));
                found.push(Self { controller: Some(controller.clone()), choice });
                done.extend(ways);
            }
        }
        let used = topology.flows.iter().filter_map(|flow| flow.interface.as_deref());
        for name in names.iter().map(String::as_str).chain(used).filter(is_wanted) {
            if !done.contains(&name) {
                done.push(name);
                let choice = KernelChoice::of(topology, name);
                found.extend(choice.map(|choice| Self { controller: None, choice: Some(choice) }));
            }
        }
        found
    }
}

impl KernelController {
    /// The choice of a kernel with the series. `route` is the interface that the packets leave by, which stands in where
    /// it is not known which one has the address.
    pub fn choice(&self, topology: &Topology, route: Option<&str>) -> Option<KernelChoice> {
        let choice = KernelChoice::of(topology, self.device().or(route)?)?;
        let device = &choice.device;
        // The reasons that lie in the controller go before those of the device.
        let doubt = match route.filter(|route| *route != device) {
            _ if self.transport == "mptcp" => Some(format!(
                "MPTCP's further subflows may use other interfaces than {device}, whose queues are not counted"
            )),
            Some(route) => {
                let found = if self.host_iface.is_some() { "is bound to" } else { "has its address on" };
                Some(format!("{} {found} {device}, but its packets leave by {route}", self.name))
            }
            None => None,
        };
        Some(KernelChoice { doubt: doubt.or(choice.doubt.clone()), ..choice })
    }

    /// Device whose queues a kernel with the series counts: the interface that it is bound to, or the one that has its
    /// address.
    pub fn device(&self) -> Option<&str> {
        self.host_iface.as_deref().or(self.holder.as_deref())
    }
}

impl fmt::Display for KernelQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(controller) = &self.controller {
            write!(
                f,
                "{}: this kernel created {}",
                controller.name,
                counted(controller.io_queues, "I/O queue")
            )?;
        }
        let Some(choice) = &self.choice else {
            return write!(
                f,
                "; the device with its address is not known, whose queues the series of July 2026 counts"
            );
        };
        match &self.controller {
            Some(_) => write!(f, ", one")?,
            None => write!(f, "{}: a kernel", choice.device)?,
        }
        write!(f, " with the series of July 2026 creates {choice}")?;
        let Some(creation) = self.controller.as_ref().and_then(|controller| controller.creation) else {
            return match choice.line() {
                Some(line) => write!(f, ". It logs `{line}`"),
                None => Ok(()),
            };
        };
        match (creation.limited, choice.line()) {
            (Some(logged), Some(line)) if logged == line => write!(f, ". This one has it: `{logged}`"),
            (Some(logged), _) => {
                write!(f, ". This one has it, and counted otherwise when it connected: `{logged}`")
            }
            (None, Some(line)) => write!(
                f,
                ". This one did not log `{line}`: it lacks the series, or the number was given (nr_io_queues)"
            ),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
