//! Matching a run's I/O queues to the queues of the NICs that it goes over: how many make sense, where each goes, and which
//! processors its workers keep to. It looks at the machine once; what it reads there is `topology`'s to know.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

use engine::initiator::{ConnectOptions, PathShare, PathStatus};
use engine::limits::IO_QUEUES_MAX;
use engine::ring::core;
use serde::Serialize;
use topology::{
    CpuSet, InterfaceKind, KernelChoice, KernelController, Machine, PlaceRequest, Placement, QueueLimit,
    Shortfall, Topology, legs, place, queue_limit,
};

/// Ports that the system chooses from where it does not say (Linux's own default).
const PORTS_DEFAULT: RangeInclusive<u16> = 32_768..=60_999;
/// File with the system's range of ports.
const PORTS_FILE: &str = "proc/sys/net/ipv4/ip_local_port_range";

/// Data about the paths to a target, read before the first connection.
#[derive(Debug)]
pub struct Matching {
    topology: Topology,
    /// Processors that this process may use.
    allowed: CpuSet,
    ports: RangeInclusive<u16>,
    paths: Vec<ObservedPath>,
    warnings: Vec<String>,
}

/// Interface and limits of one path.
#[derive(Debug)]
struct ObservedPath {
    peer: SocketAddr,
    local: Option<IpAddr>,
    interface: Option<String>,
    limit: QueueLimit,
    /// Choice of a kernel with the series of July 2026, for comparison.
    kernel_choice: Option<KernelChoice>,
    /// True if connections may come from ports of our choice.
    chooses_ports: bool,
}

impl Matching {
    /// Inspects this machine for these paths. Missing data leads to a warning.
    pub fn look(paths: &[ConnectOptions]) -> Self {
        let machine = Machine::live();
        let allowed: CpuSet = core::available().into_iter().map(|cpu| cpu as u32).collect();
        let (topology, mut warnings) = match topology::observe(&machine) {
            Ok(topology) => (topology, Vec::new()),
            Err(error) => {
                let processors = topology::Processors { online: allowed.clone(), ..Default::default() };
                let text = format!(
                    "cannot read this machine's packet paths, and only its CPUs are counted: {error}"
                );
                (Topology { processors, ..Topology::default() }, vec![text])
            }
        };
        let ports = machine.read(PORTS_FILE).ok().and_then(|text| port_range(&text)).unwrap_or(PORTS_DEFAULT);
        let paths =
            paths.iter().map(|path| ObservedPath::look(&machine, &topology, path, &mut warnings)).collect();
        Self { topology, allowed, ports, paths, warnings }
    }

    /// The I/O queues of each path that make sense: no more than `asked`, and on no path more than its interface is good
    /// for.
    pub fn queues(&self, asked: Option<u16>) -> u16 {
        let limits = self.paths.iter().map(|path| u16::try_from(path.limit.queues).unwrap_or(IO_QUEUES_MAX));
        let most = limits.min().unwrap_or(1).clamp(1, IO_QUEUES_MAX);
        asked.map_or(most, |asked| asked.min(most))
    }

    /// The rule's number of each path with its reason, beside the number that a kernel with the series of July 2026
    /// creates.
    pub fn rules(&self) -> Vec<String> {
        self.paths.iter().map(ObservedPath::rule).collect()
    }

    /// Places this number of queues on each path. `seed` tells this choice of ports from others.
    pub fn place(&self, queues: u16, seed: u64) -> Placements {
        let placed = |(path, at): (&ObservedPath, u64)| PlacedPath {
            peer: path.peer,
            interface: path.interface.clone(),
            limit: path.limit.clone(),
            kernel_choice: path.kernel_choice.clone(),
            placement: self.place_path(path, queues, seed.wrapping_add(at)),
        };
        let paths: Vec<PlacedPath> = self.paths.iter().zip(0..).map(placed).collect();
        let mut warnings = self.warnings.clone();
        warnings.extend(paths.iter().filter_map(|path| self.blindness(path)));
        Placements { paths, warnings }
    }

    fn place_path(&self, path: &ObservedPath, queues: u16, seed: u64) -> Placement {
        let request = PlaceRequest {
            interface: path.interface.as_deref().unwrap_or_default(),
            local: path.local.unwrap_or(path.peer.ip()),
            peer: path.peer,
            queues,
            ports: Some(self.ports.clone()).filter(|_| path.chooses_ports && path.local.is_some()),
            allowed: &self.allowed,
            seed,
        };
        place(&self.topology, &request)
    }

    /// Returns a warning if the receive queues of a NIC that has several are unknown.
    fn blindness(&self, path: &PlacedPath) -> Option<String> {
        let interface = path.interface.as_deref()?;
        let legs = legs(&self.topology, interface);
        let has_several = legs.iter().any(|leg| leg.kind == InterfaceKind::Device && leg.receive.len() > 1);
        if !has_several || path.placement.queues.iter().any(|place| place.receive_queue.is_some()) {
            return None;
        }
        let is_about = |shortfall: &&Shortfall| {
            shortfall.needs_root && legs.iter().any(|leg| shortfall.what.contains(&leg.name))
        };
        let root = match self.topology.shortfalls.iter().find(is_about) {
            Some(shortfall) => format!(" (root could read {}: {})", shortfall.what, shortfall.reason),
            None => String::new(),
        };
        let reason = path.placement.reasons.first().map_or("", String::as_str);
        Some(format!("{reason}{root}; workers are placed all the same"))
    }
}

impl ObservedPath {
    fn look(
        machine: &Machine,
        topology: &Topology,
        path: &ConnectOptions,
        warnings: &mut Vec<String>,
    ) -> Self {
        let peer = path.address;
        let interface = match &path.host_iface {
            Some(interface) => Some(interface.clone()),
            None => match machine.route(peer.ip(), path.host_traddr) {
                Ok(interface) => Some(interface),
                Err(error) => {
                    warnings.push(format!("the interface of the way to {peer} is not known: {error}"));
                    None
                }
            },
        };
        let limit = queue_limit(topology, interface.as_deref().unwrap_or_default());
        let local = path.host_traddr.or_else(|| own_address(peer));
        let kernel_choice = kernel_choice(machine, topology, path, local, interface.as_deref());
        Self { peer, local, interface, limit, kernel_choice, chooses_ports: path.transport.is_tcp() }
    }

    /// The rule's number and the kernel's, with their reasons.
    fn rule(&self) -> String {
        let Self { peer, limit, .. } = self;
        let kernels = self.kernel_choice.as_ref().map_or_else(String::new, |choice| {
            format!("; a kernel with the series of July 2026 creates {choice}")
        });
        format!("{peer}: at most {} by the rule ({}){kernels}", limit.queues, limit.reason)
    }
}

/// The choice of a kernel with the series of July 2026 for a path from a local address.
fn kernel_choice(
    machine: &Machine,
    topology: &Topology,
    path: &ConnectOptions,
    local: Option<IpAddr>,
    route: Option<&str>,
) -> Option<KernelChoice> {
    let addresses = machine.addresses().unwrap_or_default();
    let holder = addresses.into_iter().find(|address| Some(address.address) == local);
    let controller = KernelController {
        name: path.address.to_string(),
        transport: path.transport.to_string(),
        host_iface: path.host_iface.clone(),
        holder: holder.map(|address| address.interface),
        local,
        ..KernelController::default()
    };
    controller.choice(topology, route)
}

/// The address that the system would take to talk to `peer`. Nothing is sent.
pub(crate) fn own_address(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().ok()?;
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Two numbers, the first and the last port.
fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = text.split_whitespace().map(|number| number.parse::<u16>().ok());
    let (first, last) = (numbers.next()??, numbers.next()??);
    (first > 0 && first <= last && numbers.next().is_none()).then_some(first..=last)
}

/// Placement of a run's queues.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    paths: Vec<PlacedPath>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct PlacedPath {
    peer: SocketAddr,
    interface: Option<String>,
    limit: QueueLimit,
    kernel_choice: Option<KernelChoice>,
    placement: Placement,
}

impl Placements {
    /// The ports of each queue of a path, in the order of the queues.
    pub fn ports(&self, path: usize) -> Vec<Vec<u16>> {
        let places = self.paths.get(path).map(|path| path.placement.queues.as_slice()).unwrap_or_default();
        places.iter().map(|place| place.source_ports.clone()).collect()
    }

    /// The processors of worker `number` of `workers`: those of all its queues, which are each `workers`th of every path.
    pub(crate) fn cpus_of_worker(&self, number: usize, workers: usize) -> Vec<u32> {
        let theirs = |path: &PlacedPath| -> Vec<u32> {
            let places = path.placement.queues.iter().skip(number).step_by(workers.max(1));
            places.filter_map(|place| place.cpu).collect()
        };
        let cpus: CpuSet = self.paths.iter().flat_map(theirs).collect();
        cpus.iter().collect()
    }

    /// Warnings, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the placement on each path, with the ports of its connections.
    pub fn report(&self, paths: &[(PathStatus, Vec<PathShare>)], workers: usize) -> Vec<MatchReport> {
        let shares = |at: usize| paths.get(at).map(|(_, shares)| shares.as_slice()).unwrap_or_default();
        let report = |(at, path): (usize, &PlacedPath)| MatchReport {
            address: path.peer,
            interface: path.interface.clone(),
            limit: path.limit.queues,
            reason: path.limit.reason.clone(),
            hint: path.limit.hint.clone(),
            kernel_choice: path.kernel_choice.clone(),
            placement: path.placement.reasons.clone(),
            queues: self.queue_reports(path, shares(at), workers),
        };
        self.paths.iter().enumerate().map(report).collect()
    }

    fn queue_reports(&self, path: &PlacedPath, shares: &[PathShare], workers: usize) -> Vec<MatchedQueue> {
        let connections = || shares.iter().flat_map(|share| &share.connections);
        let report = |place: &topology::QueuePlacement| {
            let connection = connections().find(|connection| connection.queue_id == place.queue_id)?;
            let stream = connection.stream.as_ref();
            let port = stream.and_then(|stream| stream.subflows.first()).map(|subflow| subflow.local.port());
            // From another port than those, packets may come by another queue.
            let is_placed =
                place.source_ports.is_empty() || port.is_some_and(|port| place.source_ports.contains(&port));
            let worker = usize::from(place.queue_id - 1) % workers.max(1);
            Some(MatchedQueue {
                qid: place.queue_id,
                receive_queue: place.receive_queue.filter(|_| is_placed),
                cpu: place.cpu,
                worker_cpus: self.cpus_of_worker(worker, workers),
                port,
            })
        };
        path.placement.queues.iter().filter_map(report).collect()
    }
}

/// Placement of a path's queues on those of its interface.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct MatchReport {
    /// The target's address.
    pub address: SocketAddr,
    pub interface: Option<String>,
    /// I/O queues that the interface is good for, why, and what would make it more.
    pub limit: u32,
    pub reason: String,
    pub hint: Option<String>,
    /// I/O queues that a kernel with the series of July 2026 creates.
    pub(crate) kernel_choice: Option<KernelChoice>,
    /// Why queues are where they are.
    pub(crate) placement: Vec<String>,
    pub queues: Vec<MatchedQueue>,
}

/// Placement of one queue of a path.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct MatchedQueue {
    pub(crate) qid: u16,
    /// Receive queue that its packets come by, where it is known.
    pub(crate) receive_queue: Option<u32>,
    /// The processor that was found for it.
    pub cpu: Option<u32>,
    /// Processors that its worker keeps to, which are those of all its queues.
    pub(crate) worker_cpus: Vec<u32>,
    /// Port that it was connected from.
    pub port: Option<u16>,
}

#[cfg(test)]
mod tests {
    use topology::{Interface, Interrupt, Processors, ReceiveQueue, Rss};

    use super::*;

    /// A machine with eight processors and one NIC for each path, with four queues on processors of their own.
    fn matching(paths: usize) -> Matching {
        let nic = |at: usize| Interface {
            name: format!("eth{at}"),
            kind: InterfaceKind::Device,
            rss: Some(Rss {
                key: (0..40).collect(),
                table: (0..64).map(|entry| entry % 4).collect(),
                ..Rss::default()
            }),
            receive: (0..4)
                .map(|index| {
                    let affinity = CpuSet::one(index + 4 * at as u32);
                    let interrupt = Some(Interrupt { affinity, ..Interrupt::default() });
                    ReceiveQueue { index, interrupt, ..ReceiveQueue::default() }
                })
                .collect(),
            ..Interface::default()
        };
        let processors = Processors { online: (0..8).collect(), ..Processors::default() };
        let interfaces = (0..paths).map(nic).collect();
        let topology = Topology { processors, interfaces, ..Topology::default() };
        let path = |at: usize| ObservedPath {
            peer: format!("10.0.{at}.2:4420").parse().unwrap(),
            local: Some(format!("10.0.{at}.1").parse().unwrap()),
            interface: Some(format!("eth{at}")),
            limit: QueueLimit { queues: 4 + at as u32, reason: "so".to_owned(), hint: None },
            kernel_choice: None,
            chooses_ports: true,
        };
        let paths = (0..paths).map(path).collect();
        let allowed = (0..8).collect();
        Matching { topology, allowed, ports: PORTS_DEFAULT, paths, warnings: Vec::new() }
    }

    #[test]
    fn the_least_limit_of_all_paths_counts() {
        assert_eq!(matching(2).queues(None), 4);
        assert_eq!(matching(2).queues(Some(9)), 4);
        assert_eq!(matching(2).queues(Some(3)), 3);
        let mut none = matching(1);
        none.paths[0].limit.queues = 5000;
        assert_eq!(none.queues(None), IO_QUEUES_MAX);
    }

    #[test]
    fn workers_keep_to_the_processors_of_their_queues() {
        let placed = matching(2).place(4, 1);
        assert_eq!(placed.ports(0).len(), 4);
        assert!(placed.ports(1).iter().all(|ports| !ports.is_empty()));
        assert!(placed.ports(2).is_empty());
        assert_eq!(placed.cpus_of_worker(1, 4), [1, 5], "one of each path");
        assert_eq!(placed.cpus_of_worker(0, 2), [0, 2, 4, 6], "two of each path");
        assert!(Placements::default().cpus_of_worker(0, 1).is_empty());
        assert!(placed.warnings().is_empty());
    }

    #[test]
    fn what_cannot_be_known_is_said_in_a_line() {
        let mut blind = matching(1);
        blind.topology.interfaces[0].rss = None;
        blind.topology.shortfalls.push(Shortfall {
            what: "the table of eth0".to_owned(),
            reason: "Operation not permitted".to_owned(),
            needs_root: true,
        });
        let placed = blind.place(4, 1);
        let [warning] = placed.warnings() else { panic!("{placed:?}") };
        assert!(warning.contains("eth0") && warning.contains("root could read"), "{warning}");
        assert_eq!(placed.cpus_of_worker(3, 4).len(), 1, "workers are placed all the same");
        // A virtual interface has no receive queues to read: a warning would not help.
        blind.topology.interfaces[0].kind = InterfaceKind::Veth;
        assert!(blind.place(4, 1).warnings().is_empty());
    }

    #[test]
    fn ports_are_the_systems_where_others_carry_the_connection() {
        let mut over_mptcp = matching(1);
        over_mptcp.paths[0].chooses_ports = false;
        let placed = over_mptcp.place(4, 1);
        assert!(placed.ports(0).iter().all(Vec::is_empty));
        assert_eq!(placed.cpus_of_worker(0, 4).len(), 1);
    }

    #[test]
    fn the_queues_of_one_interface_say_nothing_of_mptcps_subflows() {
        let Matching { topology, .. } = matching(1);
        let mut path = ConnectOptions::new("10.0.0.2:4420".parse().unwrap(), "nqn.a");
        let machine = Machine::of_recording("a", topology::Recording::default());
        let choice =
            |path: &ConnectOptions| kernel_choice(&machine, &topology, path, None, Some("eth0")).unwrap();
        assert_eq!(choice(&path).doubt, None);
        path.transport = engine::transport::Transport::Mptcp;
        assert!(choice(&path).doubt.unwrap().starts_with("MPTCP's further subflows"));
    }

    #[test]
    fn the_systems_range_of_ports_is_read() {
        assert_eq!(port_range("32768\t60999\n"), Some(32_768..=60_999));
        for wrong in ["", "5", "9 5", "0 70", "a b", "1 2 3", "1 70000"] {
            assert_eq!(port_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_machine_is_looked_at() {
        let path = ConnectOptions::new("127.0.0.1:4420".parse().unwrap(), "nqn.a");
        let matching = Matching::look(&[path]);
        assert_eq!(matching.paths[0].interface.as_deref(), Some("lo"));
        assert!(matching.queues(None) >= 1);
        let placed = matching.place(2, 1);
        assert!(!placed.cpus_of_worker(0, 2).is_empty());
        let report = placed.report(&[], 2);
        assert_eq!(report[0].interface.as_deref(), Some("lo"));
        assert!(report[0].reason.contains("lo is the machine itself"), "{report:?}");
        let choice = report[0].kernel_choice.as_ref().unwrap();
        assert!(choice.device == "lo" && choice.doubt.is_some(), "{choice:?}");
        let [rule] = <[String; 1]>::try_from(matching.rules()).unwrap();
        assert!(rule.starts_with("127.0.0.1:4420: at most ") && rule.contains("July 2026"), "{rule}");
    }
}
