//! Machines of real shapes, made up for tests of whatever looks at a topology; none of them was measured. How they are
//! written as recordings stands in `tree`.

mod shape;
mod stacked;
mod tree;

use shape::{Association, Card, in_turn, kernel_worker, loopback, made, processors, threads};

pub use stacked::{STACKED, stacked};
pub use tree::recording;

use super::{
    CpuSet, Flow, FlowOwner, FlowSource, Interface, InterfaceKind, KernelController, Ntuple, NtupleRule, Rss,
    Topology, Worker,
};

const NQN: &str = "nqn.2026-01.io.selvedge:target";

/// The machines' names, which are those of their recordings too.
pub const NAMES: [&str; 9] = [
    "cpu72-queues32",
    "cpu72-queues72",
    "two-nodes",
    "rss-holes",
    "no-ntuple",
    "virtio-one-queue",
    "bond",
    "vlan",
    "bridge",
];

/// The machine of this name.
pub fn topology(name: &str) -> Option<Topology> {
    let machine = match name {
        "cpu72-queues32" => Some(cpu72(32)),
        "cpu72-queues72" => Some(cpu72(72)),
        "two-nodes" => Some(two_nodes()),
        "rss-holes" => Some(rss_holes()),
        "no-ntuple" => Some(no_ntuple()),
        "virtio-one-queue" => Some(virtio_one_queue()),
        "bond" => Some(bond()),
        "vlan" => Some(vlan()),
        "bridge" => Some(bridge()),
        _ => None,
    };
    machine.map(controlled)
}

/// A machine with the kernel's controllers that its flows belong to.
fn controlled(machine: Topology) -> Topology {
    let mut kernel_controllers: Vec<KernelController> = Vec::new();
    for flow in machine.flows.iter().filter(|flow| flow.owner == FlowOwner::Kernel) {
        let is_io = u32::from(flow.is_io());
        match kernel_controllers.last_mut().filter(|last| last.name == flow.controller) {
            Some(controller) => controller.io_queues += is_io,
            None => kernel_controllers.push(KernelController {
                name: flow.controller.clone(),
                transport: "tcp".to_owned(),
                io_queues: is_io,
                local: Some(flow.local.ip()),
                ..KernelController::default()
            }),
        }
    }
    Topology { kernel_controllers, ..machine }
}

/// A large host: 72 processors of two sockets, a 100 Gbit/s card at the first, and the kernel's initiator on a
/// kernel that tells its queues. `queues` is the number of the card's queues and of the I/O queues.
pub fn cpu72(queues: u32) -> Topology {
    let card = Card {
        name: "eth0",
        index: 2,
        driver: "mlx5_core",
        bus_address: "0000:3b:00.0",
        node: Some(0),
        speed_mbps: Some(100_000),
        interrupt: "mlx5_comp#@pci:0000:3b:00.0",
        irq_first: 130,
        // Spread over all processors, as irqbalance does.
        cpus: (0..queues).map(|queue| queue * 72 / queues).collect(),
        queues_max: if queues > 63 { queues } else { 63 },
        cpu_count: 72,
    };
    let ntuple = Ntuple { is_supported: true, is_switchable: true, ..Ntuple::default() };
    // The block layer gives each queue the processors that are a multiple apart; the first of them has the worker.
    let worker = |cpu: u32| Worker { cpu: Some(cpu), ..kernel_worker((cpu..72).step_by(queues as usize)) };
    let host = Association {
        owner: FlowOwner::Kernel,
        controller: "nvme0",
        nqn: NQN,
        source: FlowSource::Kernel,
        interface: "eth0",
        local: "10.0.0.1",
        peer: "10.0.0.2:4420",
        workers: (0..queues).map(worker).collect(),
        admin: None,
        seed: queues,
    };
    Topology {
        kernel: "7.1.0-rc1".to_owned(),
        processors: processors(2, 18, 2),
        interfaces: vec![loopback(), Interface { mtu_bytes: 9000, ntuple: Some(ntuple), ..card.interface() }],
        flows: host.flows(),
        irqbalance: Some(1187),
        ..Topology::default()
    }
}

/// Two sockets with a card each; the kernel's initiator has a path over both, with a queue for each processor. The
/// second card's interrupts are on the first socket.
pub fn two_nodes() -> Topology {
    let card = |name: &'static str, index: u32, bus_address, node: u16| Card {
        name,
        index,
        driver: "ice",
        bus_address,
        node: Some(node),
        speed_mbps: Some(100_000),
        interrupt: if index == 2 { "ice-eth0-TxRx-#" } else { "ice-eth1-TxRx-#" },
        irq_first: 60 + 20 * index,
        cpus: (0..8).collect(),
        queues_max: 16,
        cpu_count: 16,
    };
    let ntuple = Ntuple { is_supported: true, is_enabled: true, is_switchable: true, ..Ntuple::default() };
    let path = |controller, interface, local, peer, seed| Association {
        owner: FlowOwner::Kernel,
        controller,
        nqn: NQN,
        source: FlowSource::Derived,
        interface,
        local,
        peer,
        workers: (0..16).map(|cpu| kernel_worker([cpu])).collect(),
        admin: None,
        seed,
    };
    let interface = |card: Card<'_>| Interface { ntuple: Some(ntuple.clone()), ..card.interface() };
    Topology {
        kernel: "6.12.48".to_owned(),
        processors: processors(2, 8, 1),
        interfaces: vec![
            loopback(),
            interface(card("eth0", 2, "0000:17:00.0", 0)),
            interface(card("eth1", 3, "0000:98:00.0", 1)),
        ],
        flows: [
            path("nvme0", "eth0", "192.168.1.1", "192.168.1.20:4420", 11).flows(),
            path("nvme1", "eth1", "192.168.2.1", "192.168.2.20:4420", 12).flows(),
        ]
        .concat(),
        ..Topology::default()
    }
}

/// Eight queues of which the table names four, no rules, and fewer I/O queues than processors, so that each serves two.
pub fn rss_holes() -> Topology {
    let card = Card {
        name: "eth0",
        index: 2,
        driver: "bnxt_en",
        bus_address: "0000:65:00.0",
        node: None,
        speed_mbps: Some(25_000),
        interrupt: "eth0-TxRx-#",
        irq_first: 88,
        cpus: (0..8).collect(),
        queues_max: 8,
        cpu_count: 16,
    };
    let interface = card.interface();
    let table = [0, 1, 4, 5].into_iter().cycle().take(128).collect();
    let rss = interface.rss.clone().map(|rss| Rss { table, ..rss });
    let host = Association {
        owner: FlowOwner::Kernel,
        controller: "nvme0",
        nqn: NQN,
        source: FlowSource::Derived,
        interface: "eth0",
        local: "10.1.0.1",
        peer: "10.1.0.2:4420",
        workers: (0..8).map(|cpu| kernel_worker([cpu, cpu + 8])).collect(),
        admin: None,
        seed: 3,
    };
    Topology {
        kernel: "6.8.0-85-generic".to_owned(),
        processors: processors(1, 8, 2),
        interfaces: vec![loopback(), Interface { rss, ..interface }],
        flows: host.flows(),
        ..Topology::default()
    }
}

/// A card that cannot have rules, and an initiator of ours whose threads can be moved.
pub fn no_ntuple() -> Topology {
    let card = Card {
        name: "eth0",
        index: 2,
        driver: "ixgbevf",
        bus_address: "0000:01:10.0",
        node: Some(0),
        speed_mbps: Some(10_000),
        interrupt: "eth0-TxRx-#",
        irq_first: 40,
        cpus: (0..8).collect(),
        queues_max: 8,
        cpu_count: 16,
    };
    let everywhere: CpuSet = (0..16).collect();
    let host = Association {
        owner: FlowOwner::Initiator { pid: 5120 },
        controller: "cntlid 7",
        nqn: NQN,
        source: FlowSource::Program,
        interface: "eth0",
        local: "10.2.0.1",
        peer: "10.2.0.2:4420",
        workers: threads(5122, &[9, 2, 14, 3, 3, 11, 6, 0], &everywhere),
        admin: threads(5121, &[12], &everywhere).pop(),
        seed: 77,
    };
    Topology {
        kernel: "6.12.48".to_owned(),
        processors: processors(1, 8, 2),
        interfaces: vec![loopback(), card.interface()],
        flows: host.flows(),
        ..Topology::default()
    }
}

/// A small virtual machine whose only receive queue is spread by RPS; an initiator and a target of ours.
pub fn virtio_one_queue() -> Topology {
    let card = Card {
        name: "eth0",
        index: 2,
        driver: "virtio_net",
        bus_address: "0000:00:03.0",
        node: None,
        speed_mbps: None,
        interrupt: "virtio2-input.#",
        irq_first: 27,
        cpus: vec![1],
        queues_max: 1,
        cpu_count: 2,
    };
    let mut interface = Interface { rss: None, ..card.interface() };
    let both: CpuSet = (0..2).collect();
    interface.receive[0].rps = both.clone();
    interface.transmit[0].xps = None;
    if let Some(interrupt) = interface.transmit[0].interrupt.as_mut() {
        interrupt.irq = 28;
        interrupt.name = "virtio2-output.0".to_owned();
        interrupt.affinity = CpuSet::one(0);
        interrupt.effective = Some(CpuSet::one(0));
        interrupt.count = 52_009;
    }
    let host = Association {
        owner: FlowOwner::Initiator { pid: 901 },
        controller: "cntlid 1",
        nqn: NQN,
        source: FlowSource::Program,
        interface: "eth0",
        local: "10.0.2.15",
        peer: "10.0.2.2:4420",
        workers: threads(903, &[0, 1], &both),
        admin: threads(902, &[1], &both).pop(),
        seed: 5,
    };
    Topology {
        kernel: "6.12.48-cloud".to_owned(),
        processors: processors(1, 2, 1),
        interfaces: vec![loopback(), interface],
        flows: [host.flows(), served("eth0", "10.0.2.15:4420", "10.0.2.9", 733)].concat(),
        ..Topology::default()
    }
}

/// Three connections of a host that a target of this machine serves; which queues they are is not known from outside.
fn served(interface: &str, local: &str, host: &str, pid: u32) -> Vec<Flow> {
    let association = Association {
        owner: FlowOwner::Target { pid: Some(pid) },
        controller: "",
        nqn: NQN,
        source: FlowSource::Guessed,
        interface,
        local: host,
        peer: local,
        workers: vec![kernel_worker([]); 2],
        admin: None,
        seed: pid,
    };
    // The same connections, seen from the other end.
    let turned = |flow: Flow| Flow {
        local: flow.peer,
        peer: flow.local,
        subsystem_nqn: None,
        queue_id: None,
        worker: None,
        ..flow
    };
    let mut flows: Vec<Flow> = association.flows().into_iter().map(turned).collect();
    flows.sort_by_key(|flow| (flow.local, flow.peer));
    flows
}

/// Two ports of a card as one interface.
pub fn bond() -> Topology {
    let card = |name: &'static str, index: u32, bus_address, interrupt| Card {
        name,
        index,
        driver: "mlx5_core",
        bus_address,
        node: Some(0),
        speed_mbps: Some(25_000),
        interrupt,
        irq_first: 70 + 10 * index,
        cpus: (0..8).collect(),
        queues_max: 8,
        cpu_count: 8,
    };
    let bond = Interface {
        lower: vec!["eth0".to_owned(), "eth1".to_owned()],
        speed_mbps: Some(50_000),
        ..made("bond0", 4, InterfaceKind::Bond, 16)
    };
    Topology {
        interfaces: vec![
            loopback(),
            card("eth0", 2, "0000:5e:00.0", "mlx5_comp#@pci:0000:5e:00.0").interface(),
            card("eth1", 3, "0000:5e:00.1", "mlx5_comp#@pci:0000:5e:00.1").interface(),
            bond,
        ],
        ..eight("bond0", 21)
    }
}

/// A VLAN on a card that has rules for two of the flows.
pub fn vlan() -> Topology {
    let card = Card {
        name: "eth0",
        index: 2,
        driver: "i40e",
        bus_address: "0000:af:00.0",
        node: Some(0),
        speed_mbps: Some(40_000),
        interrupt: "i40e-eth0-TxRx-#",
        irq_first: 51,
        cpus: (0..8).collect(),
        queues_max: 64,
        cpu_count: 8,
    };
    let machine = eight("eth0.100", 31);
    let rule = |(location, flow): (u32, &Flow)| NtupleRule {
        location,
        flow: Some((flow.peer, flow.local)),
        queue: Some(location),
        scope: crate::RuleScope::Unknown,
    };
    let ntuple = Ntuple {
        is_supported: true,
        is_enabled: true,
        is_switchable: true,
        places: Some(8192),
        rules: (0..).zip(&machine.flows[1..3]).map(rule).collect(),
    };
    let vlan = Interface {
        lower: vec!["eth0".to_owned()],
        speed_mbps: Some(40_000),
        ..made("eth0.100", 3, InterfaceKind::Vlan, 8)
    };
    Topology {
        interfaces: vec![loopback(), Interface { ntuple: Some(ntuple), ..card.interface() }, vlan],
        ..machine
    }
}

/// A bridge of a card and two containers; the machine itself speaks over the bridge.
pub fn bridge() -> Topology {
    let card = Card {
        name: "enp1s0",
        index: 2,
        driver: "igb",
        bus_address: "0000:01:00.0",
        node: None,
        speed_mbps: Some(1000),
        interrupt: "enp1s0-TxRx-#",
        irq_first: 33,
        cpus: vec![0, 2, 4, 6],
        queues_max: 4,
        cpu_count: 8,
    };
    let interface = card.interface();
    let rss = interface.rss.clone().map(|rss| Rss { table: in_turn(4, 64), ..rss });
    let veth = |name, index| made(name, index, InterfaceKind::Veth, 1);
    let bridge = Interface {
        lower: ["enp1s0", "veth1a2b", "veth3c4d"].map(str::to_owned).to_vec(),
        ..made("br0", 3, InterfaceKind::Bridge, 1)
    };
    Topology {
        interfaces: vec![
            loopback(),
            Interface { rss, ..interface },
            bridge,
            veth("veth1a2b", 5),
            veth("veth3c4d", 7),
        ],
        ..eight("br0", 41)
    }
}

/// Eight processors, and the kernel's initiator with a queue for each over an interface that is added.
fn eight(interface: &str, seed: u32) -> Topology {
    let host = Association {
        owner: FlowOwner::Kernel,
        controller: "nvme0",
        nqn: NQN,
        source: FlowSource::Derived,
        interface,
        local: "10.3.0.1",
        peer: "10.3.0.2:4420",
        workers: (0..8).map(|cpu| kernel_worker([cpu])).collect(),
        admin: None,
        seed,
    };
    Topology {
        kernel: "6.12.48".to_owned(),
        processors: processors(1, 8, 1),
        flows: host.flows(),
        ..Topology::default()
    }
}

#[cfg(test)]
mod tests;
