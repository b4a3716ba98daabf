//! Looks at this machine, or a recording of one, at two moments, and makes of it what the rules see. Nothing is changed, and
//! nothing is sent but packets that open and close a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use topology::plan::{PlanOptions, plan};
use topology::{FlowOwner, InterfaceAddress, InterfaceKind, KernelRoute, Machine, Shortfall, Topology};

use super::counters::counters;
use super::host::{Bond, Host, Link, Moment};
use super::kernel_controllers::{controllers, policies};
use super::path::NetworkPath;
use crate::packet_path::Survey;
use crate::probe::{Probe, probe};
use crate::tune::{PlanReport, Prediction};

/// Ways that are looked at, and of these, ways that a connection is tried on: each may take more than a second.
const PATHS_MAX: usize = 64;
const PROBES_MAX: usize = 8;
/// Threads of a target that are looked at.
const TARGET_THREADS_MAX: usize = 128;

/// Settings of the network that rules look at, below /proc/sys/net.
const SETTINGS: [&str; 7] = [
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_mtu_probing",
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_available_congestion_control",
    "core/rmem_max",
    "core/wmem_max",
];

/// Scope of the inspection: all, or the paths of a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Addresses of the target; several are paths.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The subsystem.
    pub(crate) nqn: Option<String>,
}

/// A machine at the first moment.
#[derive(Debug)]
pub(crate) struct Before {
    host: Host,
    interfaces: Vec<String>,
    threads: Vec<(u32, u32)>,
    ends: BTreeSet<(SocketAddr, SocketAddr)>,
    began: Instant,
}

/// Keeps the flows that are wanted.
fn narrowed(topology: Topology, wanted: &Wanted) -> Topology {
    let mut topology = topology;
    topology.flows.retain(|flow| {
        // A target here does not know what its hosts call it, and is looked at whole.
        let is_targets = matches!(flow.owner, FlowOwner::Target { .. });
        let is_there = wanted.addresses.is_empty()
            || wanted.addresses.iter().any(|address| address.ip() == flow.peer.ip().to_canonical());
        let is_it = match (&wanted.nqn, &flow.subsystem_nqn) {
            (Some(wanted), Some(nqn)) => wanted == nqn,
            _ => true,
        };
        is_targets || is_there && is_it
    });
    topology
}

/// Looks at it for the first time.
pub(crate) fn before(machine: &Machine, topology: Topology, wanted: &Wanted) -> Before {
    let topology = narrowed(topology, wanted);
    let mut host = Host { unseen: topology.shortfalls.clone(), ..Host::default() };
    host.controllers = controllers(machine);
    host.controllers.retain(|controller| {
        let is_there = |target: SocketAddr| wanted.addresses.iter().any(|known| known.ip() == target.ip());
        let is_it = wanted.nqn.as_ref().is_none_or(|nqn| *nqn == controller.subsystem_nqn);
        is_it && (wanted.addresses.is_empty() || controller.target.is_none_or(is_there))
    });
    host.policies = policies(machine);
    let addresses = machine.addresses();
    let addresses = noted(&mut host.unseen, "addresses of this machine", addresses).unwrap_or_default();
    host.survey = Survey::new(topology);
    let mut unseen = std::mem::take(&mut host.unseen);
    host.paths = paths(machine, &host, &addresses, wanted, &mut unseen);
    host.unseen = unseen;
    host.source_validation = source_validation(machine, &addresses);
    let interfaces = interfaces(&host);
    for name in &interfaces {
        let link = link(machine, &mut host.unseen, name);
        host.links.insert(name.clone(), link);
    }
    for name in SETTINGS {
        let path = format!("proc/sys/net/{name}");
        if let Some(text) = noted(&mut host.unseen, &format!("/{path}"), machine.read(&path)) {
            host.settings.insert(name.to_owned(), text.trim().to_owned());
        }
    }
    host.has_aes = machine.kept("selvedge/aes.json", has_aes).ok().flatten();
    let threads = threads(machine, &host);
    let ends = host.flows().map(|flow| (flow.local, flow.peer)).collect();
    let mut before = Before { host, interfaces, threads, ends, began: Instant::now() };
    before.host.before = before.moment(machine, "first");
    before.try_paths(machine);
    before
}

/// Looks at it for the second time.
pub(crate) fn after(machine: &Machine, before: Before) -> Host {
    let mut before = before;
    before.host.now = before.moment(machine, "second");
    let topology = &before.host.survey.topology;
    before.host.plan = plan(topology, &PlanOptions::default()).ok().map(|plan| {
        let prediction = (!plan.steps.is_empty()).then(|| Prediction::of(topology, &plan));
        PlanReport { plan, prediction }
    });
    before.host
}

impl Before {
    fn moment(&mut self, machine: &Machine, moment: &str) -> Option<Moment> {
        let at_s = self.began.elapsed().as_secs_f64();
        let counters = counters(machine, moment, at_s, &self.interfaces, &self.threads);
        let unseen = &mut self.host.unseen;
        let counters = noted(unseen, "what happens within a second", counters)?;
        for (path, reason) in &counters.unread {
            note(unseen, path, reason, false);
        }
        let queueings = noted(unseen, "queueing disciplines", machine.queueings(moment)).unwrap_or_default();
        let ends = &self.ends;
        let connections = machine.connections(moment, |local, peer| ends.contains(&(local, peer)));
        let connections = noted(unseen, "counters of TCP connections", connections).unwrap_or_default();
        Some(Moment { counters, queueings, connections })
    }

    fn try_paths(&mut self, machine: &Machine) {
        let mut tried = 0;
        for path in self.host.paths.iter_mut().filter(|path| path.way.is_ok()) {
            if tried == PROBES_MAX {
                let reason = format!("only {PROBES_MAX} of the ways to targets are tried");
                note(&mut self.host.unseen, "a connection on each way", &reason, false);
                break;
            }
            let (target, source) = (path.target, path.source);
            let from = source.map_or_else(|| "any".to_owned(), |source| source.to_string());
            let file = format!("selvedge/probe/{target}/{from}.json");
            let found: io::Result<Probe> = machine.kept(&file, || Ok(probe(target, source)));
            path.probe = found.ok();
            tried += usize::from(path.probe.is_some());
        }
    }
}

fn note(unseen: &mut Vec<Shortfall>, what: &str, reason: &str, needs_root: bool) {
    if !unseen.iter().any(|known| known.what == what) {
        unseen.push(Shortfall { what: what.to_owned(), reason: reason.to_owned(), needs_root });
    }
}

/// The system's words for an error, without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// An answer, or a note of why there is none.
fn noted<T>(unseen: &mut Vec<Shortfall>, what: &str, answer: io::Result<T>) -> Option<T> {
    answer
        .inspect_err(|error| {
            note(unseen, what, &words(error), error.kind() == io::ErrorKind::PermissionDenied);
        })
        .ok()
}

/// The ways that are looked at: to the target that is wanted, of connections, of the kernel's controllers; and to each target
/// from every address of this machine that is in the target's network.
fn paths(
    machine: &Machine,
    host: &Host,
    addresses: &[InterfaceAddress],
    wanted: &Wanted,
    unseen: &mut Vec<Shortfall>,
) -> Vec<NetworkPath> {
    let mut asked: BTreeMap<(SocketAddr, Option<IpAddr>), bool> = BTreeMap::new();
    for target in &wanted.addresses {
        asked.insert((*target, None), true);
    }
    for flow in host.initiator_flows() {
        let peer = SocketAddr::new(flow.peer.ip().to_canonical(), flow.peer.port());
        asked.insert((peer, Some(flow.local.ip().to_canonical())), true);
    }
    for controller in &host.controllers {
        asked.extend(controller.target.map(|target| ((target, controller.source), true)));
    }
    let targets: BTreeSet<SocketAddr> = asked.keys().map(|(target, _)| *target).collect();
    for target in targets {
        let near = addresses.iter().filter(|own| own.is_near(target.ip()) && own.address != target.ip());
        let near: Vec<IpAddr> = near.map(|own| own.address).filter(|own| !own.is_loopback()).collect();
        // With one address there is no choice.
        if near.len() > 1 {
            for own in near {
                asked.entry((target, Some(own))).or_insert(false);
            }
        }
    }
    let mut found = Vec::new();
    for ((target, source), is_wanted) in asked.into_iter().take(PATHS_MAX) {
        let own = addresses.iter().find(|own| Some(own.address) == source);
        let way = match way(machine, target.ip(), source) {
            Ok(way) => way,
            Err(error) => {
                let needs_root = error.kind() == io::ErrorKind::PermissionDenied;
                note(unseen, &format!("route to {target}"), &words(&error), needs_root);
                continue;
            }
        };
        let source_interface = own.map(|own| own.interface.clone());
        found.push(NetworkPath { target, source, source_interface, way, probe: None, is_wanted });
    }
    found
}

/// The kernel's choice of a way, or its reason for none.
///
/// # Errors
/// When it is not known what the kernel would say.
fn way(machine: &Machine, target: IpAddr, source: Option<IpAddr>) -> io::Result<Result<KernelRoute, String>> {
    match machine.kernel_route(target, source) {
        Ok(way) => Ok(Ok(way)),
        // Recordings of the tuner's have the interface alone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => machine
            .route(target, source)
            .map(|interface| Ok(KernelRoute { interface, ..KernelRoute::default() })),
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => Err(error),
            _ => Ok(Err(words(&error))),
        },
    }
}

/// The interfaces of all ways, and what they stand on.
fn interfaces(host: &Host) -> Vec<String> {
    let topology = &host.survey.topology;
    let flows = host.flows().filter_map(|flow| flow.interface.clone());
    let ways = host.paths.iter().filter(|path| path.is_wanted);
    let ways = ways.filter_map(|path| path.interface().map(str::to_owned));
    let mut found: BTreeSet<String> = flows.chain(ways).collect();
    if found.is_empty() {
        // With nothing connected yet, a card can still be what will cost.
        let cards = topology.interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Device);
        found.extend(cards.map(|interface| interface.name.clone()));
    }
    let mut left: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = left.pop() {
        let lower = topology.interface(&name).map(|interface| interface.lower.clone()).unwrap_or_default();
        left.extend(lower.into_iter().filter(|name| found.insert(name.clone())));
    }
    found.into_iter().collect()
}

fn link(machine: &Machine, unseen: &mut Vec<Shortfall>, name: &str) -> Link {
    let settings = noted(unseen, &format!("offloads and modes of {name}"), machine.link_settings(name));
    for refusal in settings.iter().flat_map(|settings| &settings.refusals) {
        let error = refusal.error();
        let what = format!("ethtool {} of {name}", refusal.question);
        note(unseen, &what, &words(&error), error.kind() == io::ErrorKind::PermissionDenied);
    }
    let text = |path: &str| machine.read(path).ok().map(|text| text.trim().to_owned());
    let first = |file: &str| {
        let text = text(&format!("sys/class/net/{name}/bonding/{file}"))?;
        text.split_whitespace().next().map(str::to_owned)
    };
    let bond = first("mode").map(|mode| Bond { mode, hash: first("xmit_hash_policy").unwrap_or_default() });
    Link { settings, bond }
}

/// Returns the strictness of source validation by interface.
fn source_validation(machine: &Machine, addresses: &[InterfaceAddress]) -> BTreeMap<String, u32> {
    let filter = |of: &str| -> Option<u32> {
        machine.read(&format!("proc/sys/net/ipv4/conf/{of}/rp_filter")).ok()?.trim().parse().ok()
    };
    let all = filter("all").unwrap_or(0);
    let names: BTreeSet<&str> =
        addresses.iter().filter(|own| own.address.is_ipv4()).map(|own| own.interface.as_str()).collect();
    // The larger of both is in effect (ip-sysctl).
    let names = names.into_iter().take(PATHS_MAX);
    names.filter_map(|name| Some((name.to_owned(), filter(name)?.max(all)))).collect()
}

/// True if the processors have instructions for AES; `None` if unknown.
fn has_aes() -> io::Result<Option<bool>> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let is_list = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let list = text.lines().find(is_list).and_then(|line| line.split_once(':'));
    Ok(list.map(|(_, names)| names.split_whitespace().any(|name| name == "aes")))
}

/// Threads that work on queues, each with its process.
fn threads(machine: &Machine, host: &Host) -> Vec<(u32, u32)> {
    let mut found = BTreeSet::new();
    let mut targets = BTreeSet::new();
    for flow in host.flows() {
        let thread = flow.worker.as_ref().and_then(|worker| worker.thread);
        match (&flow.owner, thread) {
            (FlowOwner::Initiator { pid } | FlowOwner::Target { pid: Some(pid) }, Some(thread)) => {
                found.insert((*pid, thread));
            }
            (FlowOwner::Target { pid: Some(pid) }, None) => {
                targets.insert(*pid);
            }
            _ => {}
        }
    }
    for pid in targets.into_iter().filter(|_| machine.is_live()) {
        let threads = Machine::live().list(&format!("proc/{pid}/task")).unwrap_or_default();
        let numbers = threads.iter().filter_map(|name| name.parse().ok()).take(TARGET_THREADS_MAX);
        found.extend(numbers.map(|thread: u32| (pid, thread)));
    }
    found.into_iter().collect()
}
