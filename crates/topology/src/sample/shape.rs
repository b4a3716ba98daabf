//! The parts that made-up machines are put together of: processors, interfaces with queues, connections. Which machines
//! there are stands beside.

use std::net::{IpAddr, SocketAddr};

use crate::{
    Channels, CpuSet, Flow, FlowOwner, FlowSource, Interface, InterfaceKind, Interrupt, KEY_BYTES, Node,
    Ntuple, Processors, QueueCount, ReceiveQueue, Rss, TransmitQueue, Worker,
};

/// The lowest port that connections are made from here, and the number of even ports from there on.
const PORT_FIRST: u32 = 36_864;
const PORTS: u32 = 8192;

/// Processors in `nodes` nodes of `cores` cores, each of `threads` threads, in the order of most firmware: the first
/// threads of all cores come before the second ones.
pub(super) fn processors(nodes: u32, cores: u32, threads: u32) -> Processors {
    let all = nodes * cores;
    let core = |core: u32| (0..threads).map(|thread| thread * all + core).collect::<CpuSet>();
    let node = |node: u32| Node {
        id: node as u16,
        cpus: (node * cores..(node + 1) * cores).flat_map(|at| core(at).iter().collect::<Vec<_>>()).collect(),
    };
    Processors {
        online: (0..all * threads).collect(),
        isolated: CpuSet::default(),
        nodes: (0..nodes).map(node).collect(),
        cores: (0..all).map(core).collect(),
    }
}

/// A network card's port: its names, and where its queues' interrupts are.
pub(super) struct Card<'a> {
    pub(super) name: &'a str,
    pub(super) index: u32,
    pub(super) driver: &'a str,
    pub(super) bus_address: &'a str,
    pub(super) node: Option<u16>,
    pub(super) speed_mbps: Option<u32>,
    /// Name of a queue's interrupt, with `#` for the queue's number.
    pub(super) interrupt: &'a str,
    pub(super) irq_first: u32,
    /// Processor of each queue's interrupt. Its length is the number of queues.
    pub(super) cpus: Vec<u32>,
    pub(super) queues_max: u32,
    /// Processors of the machine, which XPS shares out among the queues.
    pub(super) cpu_count: u32,
}

impl Card<'_> {
    /// The interface: combined queues, a table of 128 entries that names them in turn, rules that cannot be had.
    pub(super) fn interface(&self) -> Interface {
        let queues = self.cpus.len() as u32;
        let interrupt = |(index, cpu): (u32, &u32)| Interrupt {
            irq: self.irq_first + index,
            name: self.interrupt.replace('#', &index.to_string()),
            affinity: CpuSet::one(*cpu),
            effective: Some(CpuSet::one(*cpu)),
            count: 184_000 + 3_701 * u64::from(index),
        };
        let interrupts: Vec<Interrupt> = (0..).zip(&self.cpus).map(interrupt).collect();
        let receive = |(index, interrupt): (u32, &Interrupt)| ReceiveQueue {
            index,
            interrupt: Some(interrupt.clone()),
            ..ReceiveQueue::default()
        };
        let transmit = |(index, interrupt): (u32, &Interrupt)| TransmitQueue {
            index,
            interrupt: Some(interrupt.clone()),
            xps: Some((index..self.cpu_count).step_by(queues as usize).collect()),
        };
        Interface {
            name: self.name.to_owned(),
            index: self.index,
            kind: InterfaceKind::Device,
            is_up: true,
            mtu_bytes: 1500,
            speed_mbps: self.speed_mbps,
            node: self.node,
            driver: Some(self.driver.to_owned()),
            bus_address: Some(self.bus_address.to_owned()),
            channels: Some(Channels {
                combined: QueueCount { now: queues, max: self.queues_max },
                ..Channels::default()
            }),
            rss: Some(Rss { key: key(self.index), table: in_turn(queues, 128), ..Rss::default() }),
            ntuple: Some(Ntuple::default()),
            receive: (0..).zip(&interrupts).map(receive).collect(),
            transmit: (0..).zip(&interrupts).map(transmit).collect(),
            ..Interface::default()
        }
    }
}

/// A table that names `queues` queues in turn.
pub(super) fn in_turn(queues: u32, entries: usize) -> Vec<u32> {
    (0..queues).cycle().take(entries).collect()
}

/// A random key, as drivers make them; the same number always gives the same key.
fn key(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) ^ 0x9e37_79b9_7f4a_7c15;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..KEY_BYTES).map(|_| byte()).collect()
}

/// An interface without a device that has one queue, or several without interrupts.
pub(super) fn made(name: &str, index: u32, kind: InterfaceKind, queues: u32) -> Interface {
    let xps = (queues > 1).then(CpuSet::default);
    Interface {
        name: name.to_owned(),
        index,
        kind,
        is_up: true,
        mtu_bytes: 1500,
        ntuple: Some(Ntuple::default()),
        receive: (0..queues).map(|index| ReceiveQueue { index, ..ReceiveQueue::default() }).collect(),
        transmit: (0..queues)
            .map(|index| TransmitQueue { index, interrupt: None, xps: xps.clone() })
            .collect(),
        ..Interface::default()
    }
}

/// The machine itself.
pub(super) fn loopback() -> Interface {
    Interface { mtu_bytes: 65_536, ..made("lo", 1, InterfaceKind::Loopback, 1) }
}

/// Association of a host with a subsystem.
pub(super) struct Association<'a> {
    pub(super) owner: FlowOwner,
    pub(super) controller: &'a str,
    pub(super) nqn: &'a str,
    pub(super) source: FlowSource,
    pub(super) interface: &'a str,
    pub(super) local: &'a str,
    pub(super) peer: &'a str,
    /// Worker of each I/O queue. Its length is the number of I/O queues.
    pub(super) workers: Vec<Worker>,
    /// Worker of the admin queue.
    pub(super) admin: Option<Worker>,
    /// Of its ports.
    pub(super) seed: u32,
}

impl Association<'_> {
    /// Connections of the association: the admin queue, then one for each worker.
    pub(super) fn flows(&self) -> Vec<Flow> {
        let local: IpAddr = self.local.parse().expect("an address");
        let peer: SocketAddr = self.peer.parse().expect("an address with its port");
        let workers = std::iter::once(self.admin.clone()).chain(self.workers.iter().cloned().map(Some));
        let flow = |(queue, (port, worker)): (u16, (u16, Option<Worker>))| Flow {
            owner: self.owner.clone(),
            controller: self.controller.to_owned(),
            subsystem_nqn: Some(self.nqn.to_owned()),
            queue_id: Some(queue),
            // The kernel does not list the admin queue.
            source: match self.source {
                FlowSource::Kernel if queue == 0 => FlowSource::Derived,
                source => source,
            },
            worker,
            local: SocketAddr::new(local, port),
            peer,
            interface: Some(self.interface.to_owned()),
            receive_queue_bytes: if queue % 7 == 3 { 4_120 } else { 0 },
            send_queue_bytes: 0,
            rtt_us: Some(41 + u32::from(queue) * 13 % 30),
            retransmissions: Some(u32::from(queue % 16 == 5) * 2),
        };
        (0..).zip(ports(self.seed).zip(workers)).map(flow).collect()
    }
}

/// Even ports, as the kernel prefers them for connections that it makes: no port comes twice before all have come.
pub(super) fn ports(seed: u32) -> impl Iterator<Item = u16> {
    let next = |state: &u32| Some((state * 1021 + 353) % PORTS);
    std::iter::successors(Some(seed % PORTS), next).map(|state| (PORT_FIRST + 2 * state) as u16)
}

/// A worker of the kernel's, which stays where it is.
pub(super) fn kernel_worker(cpus: impl IntoIterator<Item = u32>) -> Worker {
    let allowed: CpuSet = cpus.into_iter().collect();
    Worker { thread: None, cpu: allowed.only(), allowed, is_movable: false }
}

/// The threads of a program that may run anywhere, and run on these.
pub(super) fn threads(first: u32, cpus: &[u32], allowed: &CpuSet) -> Vec<Worker> {
    let worker = |(thread, cpu): (u32, &u32)| Worker {
        thread: Some(thread),
        cpu: Some(*cpu),
        allowed: allowed.clone(),
        is_movable: true,
    };
    (first..).zip(cpus).map(worker).collect()
}
