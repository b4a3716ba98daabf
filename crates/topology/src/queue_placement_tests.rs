//! What holds of every placement, on machines made up at random and on a few that are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::limits::SOURCE_PORTS_MAX;

const LOCAL: &str = "10.0.0.1";
const PEER: &str = "10.0.0.2:4420";
const PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

fn receive_queue_with(index: u32, cpus: CpuSet, rps: CpuSet) -> ReceiveQueue {
    let interrupt = (!cpus.is_empty()).then(|| Interrupt {
        irq: 100 + index,
        name: format!("eth0-{index}"),
        affinity: cpus,
        ..Interrupt::default()
    });
    ReceiveQueue { index, interrupt, rps, rps_flows: 0 }
}

fn nic(receive: Vec<ReceiveQueue>, table: Vec<u32>, key: Vec<u8>) -> Interface {
    Interface {
        name: "eth0".to_owned(),
        kind: InterfaceKind::Device,
        node: Some(0),
        rss: Some(Rss { key, table, ..Rss::default() }),
        receive,
        ..Interface::default()
    }
}

/// `cpus` processors, two threads to a core, the first half on node 0.
fn processors(cpus: u32) -> Processors {
    let half = cpus.div_ceil(2);
    Processors {
        online: (0..cpus).collect(),
        isolated: CpuSet::default(),
        nodes: vec![Node { id: 0, cpus: (0..half).collect() }, Node { id: 1, cpus: (half..cpus).collect() }],
        cores: (0..cpus.div_ceil(2)).map(|core| (core * 2..(core * 2 + 2).min(cpus)).collect()).collect(),
    }
}

fn request(queues: u16, allowed: &CpuSet) -> PlaceRequest<'_> {
    PlaceRequest {
        interface: "eth0",
        local: LOCAL.parse().unwrap(),
        peer: PEER.parse().unwrap(),
        queues,
        ports: Some(PORTS),
        allowed,
        seed: 7,
    }
}

fn flow(port: u16) -> Flow {
    Flow {
        owner: FlowOwner::Kernel,
        controller: "nvme0".to_owned(),
        subsystem_nqn: None,
        queue_id: Some(1),
        source: FlowSource::Derived,
        worker: None,
        local: SocketAddr::new(LOCAL.parse().unwrap(), port),
        peer: PEER.parse().unwrap(),
        interface: Some("eth0".to_owned()),
        receive_queue_bytes: 0,
        send_queue_bytes: 0,
        rtt_us: None,
        retransmissions: None,
    }
}

/// Machine with one queue for each of eight processors on two nodes.
fn eight() -> Topology {
    let receive = (0..8).map(|index| receive_queue_with(index, CpuSet::one(index), CpuSet::default()));
    let key: Vec<u8> = (0..40_u8).map(|byte| byte.wrapping_mul(37).wrapping_add(11)).collect();
    let interface = nic(receive.collect(), (0..128).map(|entry| entry % 8).collect(), key);
    Topology { processors: processors(8), interfaces: vec![interface], ..Topology::default() }
}

fn all() -> CpuSet {
    (0..crate::limits::CPUS_MAX).collect()
}

#[test]
fn each_queue_has_a_receive_queue_and_its_processor() {
    let placement = place(&eight(), &request(8, &all()));
    let queues: BTreeSet<u32> = placement.queues.iter().filter_map(|placed| placed.receive_queue).collect();
    assert_eq!(queues, (0..8).collect());
    for placed in &placement.queues {
        assert_eq!(placed.cpu, placed.receive_queue);
        assert_eq!(placed.source_ports.len(), SOURCE_PORTS_MAX);
    }
    let four = place(&eight(), &request(4, &all()));
    let cpus: Vec<u32> = four.queues.iter().filter_map(|placed| placed.cpu).collect();
    assert_eq!(cpus, [0, 1, 2, 3], "those of the NIC's node come first");
}

#[test]
fn two_initiators_choose_different_ports() {
    let (allowed, topology) = (all(), eight());
    let one = place(&topology, &request(4, &allowed));
    assert_eq!(one, place(&topology, &request(4, &allowed)));
    let other = place(&topology, &PlaceRequest { seed: 8, ..request(4, &allowed) });
    let ports = |of: &Placement| -> BTreeSet<u16> {
        of.queues.iter().flat_map(|placed| placed.source_ports.clone()).collect()
    };
    assert!(ports(&one).is_disjoint(&ports(&other)));
}

#[test]
fn queues_that_others_use_come_last() {
    let mut topology = eight();
    let taken = place(&topology, &request(1, &all())).queues[0].clone();
    assert_eq!(taken.receive_queue, Some(0));
    topology.flows.push(flow(taken.source_ports[0]));
    let placement = place(&topology, &request(7, &all()));
    let queues: BTreeSet<u32> = placement.queues.iter().filter_map(|placed| placed.receive_queue).collect();
    assert_eq!(queues, (1..8).collect());
    let ports = placement.queues.iter().flat_map(|placed| &placed.source_ports);
    assert!(ports.into_iter().all(|port| *port != taken.source_ports[0]));
}

#[test]
fn interrupts_on_one_processor_do_not_draw_all_workers_there() {
    let mut topology = eight();
    topology.interfaces[0].receive =
        (0..8).map(|index| receive_queue_with(index, CpuSet::one(0), CpuSet::default())).collect();
    let placement = place(&topology, &request(8, &all()));
    let cpus: BTreeSet<u32> = placement.queues.iter().filter_map(|placed| placed.cpu).collect();
    assert_eq!(cpus, (0..8).collect());
    assert!(placement.reasons.iter().any(|reason| reason.starts_with("1 of 8 sit")), "{placement:?}");
}

#[test]
fn a_bond_leaves_ports_to_the_system() {
    let mut topology = eight();
    let mut second = topology.interfaces[0].clone();
    second.name = "eth1".to_owned();
    let bond = Interface {
        name: "bond0".to_owned(),
        kind: InterfaceKind::Bond,
        lower: vec!["eth0".to_owned(), "eth1".to_owned()],
        ..Interface::default()
    };
    topology.interfaces.extend([second, bond]);
    let allowed = all();
    let placement = place(&topology, &PlaceRequest { interface: "bond0", ..request(4, &allowed) });
    assert!(
        placement
            .queues
            .iter()
            .all(|placed| placed.source_ports.is_empty() && placed.receive_queue.is_none())
    );
    assert!(placement.reasons[0].contains("eth0, eth1"), "{placement:?}");
    let cpus: Vec<u32> = placement.queues.iter().filter_map(|placed| placed.cpu).collect();
    assert_eq!(cpus, [0, 2, 1, 3], "one of each core of the node before its siblings");
}

#[test]
fn without_interrupts_workers_are_spread() {
    let receive = vec![ReceiveQueue::default()];
    let lone =
        Interface { name: "lo".to_owned(), kind: InterfaceKind::Loopback, receive, ..Interface::default() };
    let mut topology = Topology { processors: processors(4), interfaces: vec![lone], ..Topology::default() };
    topology.processors.isolated = CpuSet::one(2);
    let allowed = all();
    let placement = place(&topology, &PlaceRequest { interface: "lo", ..request(5, &allowed) });
    let cpus: Vec<u32> = placement.queues.iter().filter_map(|placed| placed.cpu).collect();
    assert_eq!(cpus, [0, 3, 1, 3, 0], "2 is isolated");
    assert!(
        placement
            .queues
            .iter()
            .all(|placed| placed.source_ports.is_empty() && placed.receive_queue.is_none())
    );
}

#[test]
fn hashes_without_ports_leave_no_choice() {
    let mut topology = eight();
    topology.interfaces[0].rss.as_mut().unwrap().tcp4 = RssFields::Addresses;
    let placement = place(&topology, &request(3, &all()));
    let first = placement.queues[0].receive_queue;
    assert!(first.is_some() && placement.queues.iter().all(|placed| placed.receive_queue == first));
    assert!(placement.queues.iter().all(|placed| placed.source_ports.is_empty()));
}

/// A machine with one NIC, made up.
fn machines() -> impl Strategy<Value = Topology> {
    let queue =
        (proptest::collection::btree_set(0_u32..28, 0..3), proptest::collection::btree_set(0_u32..28, 0..2));
    let queues = proptest::collection::vec(queue, 1..17);
    let table = proptest::collection::vec(any::<u32>(), 1..65);
    let key = proptest::collection::vec(any::<u8>(), 40);
    let cpus = (1_u32..25, proptest::collection::btree_set(0_u32..25, 0..6), proptest::option::of(0_u16..3));
    let flows = proptest::collection::btree_set(PORTS, 0..12);
    (queues, table, key, cpus, flows).prop_map(|(queues, table, key, (cpus, isolated, node), flows)| {
        let count = queues.len() as u32;
        let receive = queues.into_iter().enumerate().map(|(index, (cpus, rps))| {
            receive_queue_with(index as u32, cpus.into_iter().collect(), rps.into_iter().collect())
        });
        let mut interface =
            nic(receive.collect(), table.into_iter().map(|entry| entry % count).collect(), key);
        interface.node = node;
        let isolated = isolated.into_iter().filter(|cpu| *cpu < cpus).collect();
        Topology {
            processors: Processors { isolated, ..processors(cpus) },
            interfaces: vec![interface],
            flows: flows.into_iter().map(flow).collect(),
            ..Topology::default()
        }
    })
}

/// Number of occurrences of each value.
fn counts<T: Ord>(of: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    of.fold(BTreeMap::new(), |mut counts, one| {
        *counts.entry(one).or_default() += 1;
        counts
    })
}

/// Checks that no two queues share a receive queue while a port leads to one that has fewer, that
/// ports lead to the stated queue, and that they are free.
fn check_ports(topology: &Topology, placement: &Placement) {
    let (interface, peer): (_, SocketAddr) = (&topology.interfaces[0], PEER.parse().unwrap());
    let leads_to =
        |port| super::receive_queue(interface, peer, SocketAddr::new(LOCAL.parse().unwrap(), port)).2;
    let mut seen: BTreeSet<u16> = topology.flows.iter().map(|flow| flow.local.port()).collect();
    for placed in &placement.queues {
        assert!(placed.source_ports.len() <= SOURCE_PORTS_MAX);
        for port in &placed.source_ports {
            assert!(PORTS.contains(port) && seen.insert(*port), "port {port} is another's");
            assert_eq!(leads_to(*port), placed.receive_queue);
        }
    }
    let reachable: BTreeSet<u32> = PORTS.filter_map(leads_to).collect();
    let own = counts(placement.queues.iter().map(|placed| placed.receive_queue.unwrap()));
    let of = |queue: &u32| own.get(queue).copied().unwrap_or(0);
    let (least, most) = (reachable.iter().map(of).min().unwrap(), reachable.iter().map(of).max().unwrap());
    assert!(most - least <= 1, "{own:?} of {reachable:?}");
    assert!(reachable.len() == 1 || placement.queues.iter().all(|placed| !placed.source_ports.is_empty()));
}

/// No processor has two workers while another may be used and has none, none off the node has one while one on it has
/// none, and none is used that may not be.
fn check_worker_cpus(topology: &Topology, placement: &Placement, allowed: &CpuSet) {
    let runs = topology.processors.online.intersection(allowed);
    let open = runs.difference(&topology.processors.isolated);
    let usable = if open.is_empty() { runs } else { open };
    let near = topology.processors.online_on(topology.interfaces[0].node).intersection(&usable);
    let workers = counts(placement.queues.iter().filter_map(|placed| placed.cpu));
    if usable.is_empty() {
        assert!(workers.is_empty());
        return;
    }
    assert_eq!(workers.values().sum::<usize>(), placement.queues.len());
    assert!(workers.keys().all(|cpu| usable.contains(*cpu)));
    let of = |cpu: u32| workers.get(&cpu).copied().unwrap_or(0);
    let (least, most) = (usable.iter().map(of).min().unwrap(), usable.iter().map(of).max().unwrap());
    assert!(most - least <= 1, "{workers:?} of {usable}");
    let is_free_near = near.iter().any(|cpu| of(cpu) == 0);
    assert!(!is_free_near || workers.keys().all(|cpu| near.contains(*cpu)), "{workers:?}, near {near}");
}

proptest! {
    #[test]
    fn every_placement_is_even_and_near(
        topology in machines(),
        queues in 1_u16..40,
        allowed in proptest::collection::btree_set(0_u32..25, 0..25),
        seed: u64,
    ) {
        let allowed: CpuSet = allowed.into_iter().collect();
        let placement = place(&topology, &PlaceRequest { seed, ..request(queues, &allowed) });
        prop_assert_eq!(placement.queues.len(), usize::from(queues));
        prop_assert!(!placement.reasons.is_empty());
        check_ports(&topology, &placement);
        check_worker_cpus(&topology, &placement, &allowed);
        // Where ports cannot be chosen, nothing is claimed that depends on them.
        let unchosen = place(&topology, &PlaceRequest { ports: None, ..request(queues, &allowed) });
        let single = topology.interfaces[0].receive.len() == 1;
        prop_assert!(unchosen.queues.iter().all(|placed| placed.source_ports.is_empty()));
        prop_assert!(single || unchosen.queues.iter().all(|placed| placed.receive_queue.is_none()));
        check_worker_cpus(&topology, &unchosen, &allowed);
    }

    #[test]
    fn any_range_of_ports_is_used_once(first: u16, last: u16, seed: u64) {
        let (first, last) = (first.min(last), first.max(last));
        let ports: Vec<u16> = super::queue_placement::from_anywhere(first..=last, seed).collect();
        prop_assert_eq!(ports.len(), usize::from(last - first) + 1);
        prop_assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        prop_assert!(ports.iter().all(|port| (first..=last).contains(port)));
    }
}

#[test]
fn addresses_of_both_families_are_placed() {
    let (allowed, topology) = (all(), eight());
    let request = PlaceRequest {
        local: "fd00::1".parse::<IpAddr>().unwrap(),
        peer: "[fd00::2]:4420".parse().unwrap(),
        ..request(8, &allowed)
    };
    let placement = place(&topology, &request);
    assert!(placement.queues.iter().all(|placed| placed.receive_queue.is_some()));
}
