//! A topology as a recording of a machine that has it: the files, links and answers of the kernel from which it is read.
//! Who reads them is `observe`, and decides on every path here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::json;

use crate::{
    EthtoolAnswers, Flow, FlowOwner, FlowSource, Interface, InterfaceKind, Interrupt, Node, Recording,
    Socket, SocketState, Sockets, Topology,
};

/// Start of every process, in ticks since the system's.
const START_TIME: u64 = 4321;
/// The first connection's inode. The kernel numbers them in the order in which connections are made.
const INODE_FIRST: u32 = 50_000;
/// The only virtio device with queues that a machine has here.
const VIRTIO: &str = "virtio2";

/// The recording. What a topology does not have is not in it.
pub fn recording(topology: &Topology) -> Recording {
    let mut recording = Recording::default();
    let kept = &mut recording;
    file(kept, "proc/sys/kernel/osrelease", &topology.kernel);
    processors(kept, topology);
    interrupts(kept, topology);
    for interface in &topology.interfaces {
        network_interface(kept, interface);
    }
    if let Some(pid) = topology.irqbalance {
        process(kept, pid, "irqbalance");
    }
    sockets(kept, topology);
    kernel_controllers(kept, topology);
    programs(kept, topology);
    recording
}

/// A file of the system, whose text ends with a newline.
fn file(recording: &mut Recording, path: &str, value: &impl ToString) {
    recording.file(path, &format!("{}\n", value.to_string()));
}

fn answer(recording: &mut Recording, path: &str, value: &impl serde::Serialize) {
    let text = serde_json::to_string(value).expect("made of what JSON has");
    recording.file(path, &(text + "\n"));
}

fn processors(recording: &mut Recording, topology: &Topology) {
    let processors = &topology.processors;
    file(recording, "sys/devices/system/cpu/online", &processors.online);
    file(recording, "sys/devices/system/cpu/isolated", &processors.isolated);
    for core in &processors.cores {
        for cpu in core.iter() {
            file(recording, &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), core);
        }
    }
    for node in &processors.nodes {
        let folder = format!("sys/devices/system/node/node{}", node.id);
        file(recording, &format!("{folder}/cpulist"), &node.cpus);
        // As the firmware of machines with two processors says most often.
        let distance = |other: &Node| if other.id == node.id { "10" } else { "21" };
        let distances: Vec<&str> = processors.nodes.iter().map(distance).collect();
        file(recording, &format!("{folder}/distance"), &distances.join(" "));
    }
}

/// Every interrupt once: a receive and a transmit queue may share one.
fn all_interrupts(interface: &Interface) -> BTreeMap<u32, &Interrupt> {
    let receive = interface.receive.iter().filter_map(|queue| queue.interrupt.as_ref());
    let transmit = interface.transmit.iter().filter_map(|queue| queue.interrupt.as_ref());
    receive.chain(transmit).map(|interrupt| (interrupt.irq, interrupt)).collect()
}

fn interrupts(recording: &mut Recording, topology: &Topology) {
    let cpus: Vec<u32> = topology.processors.online.iter().collect();
    let head: String = cpus.iter().map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
    let mut table = format!("     {head}\n");
    for (irq, interrupt) in topology.interfaces.iter().flat_map(all_interrupts) {
        let server = interrupt.cpu().or_else(|| interrupt.affinity.first());
        let count = |cpu: &u32| if Some(*cpu) == server { interrupt.count } else { 0 };
        let counts: String = cpus.iter().map(|cpu| format!("{:>11}", count(cpu))).collect();
        table += &format!("{irq:>4}:{counts}  PCI-MSIX  edge      {}\n", interrupt.name);
        file(recording, &format!("proc/irq/{irq}/smp_affinity_list"), &interrupt.affinity);
        if let Some(effective) = &interrupt.effective {
            file(recording, &format!("proc/irq/{irq}/effective_affinity_list"), effective);
        }
    }
    let nmi: String = cpus.iter().map(|_| format!("{:>11}", 0)).collect();
    recording.file("proc/interrupts", &format!("{table} NMI:{nmi}   Non-maskable interrupts\n"));
}

fn network_interface(recording: &mut Recording, interface: &Interface) {
    let folder = format!("sys/class/net/{}", interface.name);
    let path = |name: &str| format!("{folder}/{name}");
    let hardware = match interface.kind {
        InterfaceKind::Loopback => 772,
        InterfaceKind::Tunnel => 65_534,
        _ => 1,
    };
    file(recording, &path("ifindex"), &interface.index);
    // The other end of a veth pair is in another namespace; everything else is its own link.
    let is_veth = interface.kind == InterfaceKind::Veth;
    file(recording, &path("iflink"), &if is_veth { interface.index + 1 } else { interface.index });
    file(recording, &path("type"), &hardware);
    file(recording, &path("mtu"), &interface.mtu_bytes);
    file(recording, &path("flags"), &if interface.is_up { "0x1003" } else { "0x1002" });
    if interface.is_up {
        file(recording, &path("carrier"), &1);
    }
    if let Some(speed) = interface.speed_mbps {
        file(recording, &path("speed"), &speed);
    }
    let (name, index) = (&interface.name, interface.index);
    let kind = match interface.kind {
        InterfaceKind::Bond => Some("bond"),
        InterfaceKind::Vlan => Some("vlan"),
        InterfaceKind::Bridge => Some("bridge"),
        _ => None,
    };
    let kind = kind.map_or_else(String::new, |kind| format!("DEVTYPE={kind}\n"));
    recording.file(&path("uevent"), &format!("{kind}INTERFACE={name}\nIFINDEX={index}\n"));
    match interface.kind {
        InterfaceKind::Bond => file(recording, &path("bonding/slaves"), &interface.lower.join(" ")),
        InterfaceKind::Bridge => file(recording, &path("bridge/stp_state"), &0),
        InterfaceKind::Vlan => {
            file(recording, &format!("proc/net/vlan/{name}"), &format!("{name}  VID: 100"));
        }
        _ => {}
    }
    for lower in &interface.lower {
        recording.symbolic_link(&path(&format!("lower_{lower}")), &format!("../{lower}"));
    }
    device(recording, interface, &folder);
    queues(recording, interface, &folder);
    let answers = EthtoolAnswers {
        channels: interface.channels,
        rss: interface.rss.clone(),
        ntuple: interface.ntuple.clone(),
        ..EthtoolAnswers::default()
    };
    answer(recording, &format!("selvedge/ethtool/{name}.json"), &answers);
}

fn device(recording: &mut Recording, interface: &Interface, folder: &str) {
    let Some(address) = &interface.bus_address else { return };
    let is_virtio = interface.driver.as_deref() == Some("virtio_net");
    let (bus, name) = if is_virtio { ("virtio", VIRTIO) } else { ("pci", address.as_str()) };
    recording.symbolic_link(&format!("{folder}/device"), &format!("../../../{name}"));
    if let Some(driver) = &interface.driver {
        let target = format!("../../../../bus/{bus}/drivers/{driver}");
        recording.symbolic_link(&format!("{folder}/device/driver"), &target);
    }
    // A virtio device stands on another, which has the interrupts.
    let vectors = if is_virtio {
        let target = format!("../../../devices/pci0000:00/{address}/{name}");
        recording.symbolic_link(&format!("sys/bus/virtio/devices/{name}"), &target);
        format!("sys/bus/pci/devices/{address}/msi_irqs")
    } else {
        file(recording, &format!("{folder}/device/numa_node"), &interface.node.map_or(-1, i32::from));
        format!("{folder}/device/msi_irqs")
    };
    for irq in all_interrupts(interface).into_keys() {
        file(recording, &format!("{vectors}/{irq}"), &"msix");
    }
}

fn queues(recording: &mut Recording, interface: &Interface, folder: &str) {
    for queue in &interface.receive {
        let path = format!("{folder}/queues/rx-{}", queue.index);
        file(recording, &format!("{path}/rps_cpus"), &queue.rps.mask());
        file(recording, &format!("{path}/rps_flow_cnt"), &queue.rps_flows);
    }
    for queue in &interface.transmit {
        let path = format!("{folder}/queues/tx-{}", queue.index);
        file(recording, &format!("{path}/tx_timeout"), &0);
        if let Some(cpus) = &queue.xps {
            file(recording, &format!("{path}/xps_cpus"), &cpus.mask());
        }
    }
}

fn sockets(recording: &mut Recording, topology: &Topology) {
    let socket = |(inode, flow): (u32, &Flow)| Socket {
        state: SocketState::Established,
        local: flow.local,
        peer: flow.peer,
        receive_queue_bytes: flow.receive_queue_bytes,
        send_queue_bytes: flow.send_queue_bytes,
        inode,
        uid: 0,
        interface_index: 0,
        rtt_us: flow.rtt_us,
        retransmissions: flow.retransmissions,
        received_bytes: None,
        pid: pid(flow),
    };
    let mut all: Vec<Socket> = (INODE_FIRST..).zip(&topology.flows).map(socket).collect();
    let served = topology.flows.iter().filter(|flow| matches!(flow.owner, FlowOwner::Target { .. }));
    let listening: BTreeSet<_> = served.map(|flow| (flow.local, pid(flow))).collect();
    all.extend(listening.into_iter().map(|(local, pid)| Socket {
        state: SocketState::Listen,
        local,
        peer: (if local.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).parse().expect("an address"),
        receive_queue_bytes: 0,
        send_queue_bytes: 0,
        inode: INODE_FIRST - 1,
        uid: 0,
        interface_index: 0,
        rtt_us: None,
        retransmissions: None,
        received_bytes: None,
        pid,
    }));
    answer(recording, "selvedge/sockets.json", &Sockets { sockets: all, ..Sockets::default() });
    let route = |flow: &Flow| Some((flow.peer.ip(), flow.local.ip(), flow.interface.clone()?));
    let routes: BTreeSet<_> = topology.flows.iter().filter_map(route).collect();
    let routes: Vec<_> = routes
        .into_iter()
        .map(|(destination, source, interface)| {
            json!({ "destination": destination, "source": source, "interface": interface })
        })
        .collect();
    answer(recording, "selvedge/routes.json", &json!({ "routes": routes }));
}

fn pid(flow: &Flow) -> Option<u32> {
    match flow.owner {
        FlowOwner::Kernel => None,
        FlowOwner::Initiator { pid } => Some(pid),
        FlowOwner::Target { pid } => pid,
    }
}

/// The kernel's initiator: its controllers, and which processors use which queue.
fn kernel_controllers(recording: &mut Recording, topology: &Topology) {
    let mut controllers: BTreeMap<&str, Vec<&Flow>> = BTreeMap::new();
    for flow in topology.flows.iter().filter(|flow| flow.owner == FlowOwner::Kernel) {
        controllers.entry(&flow.controller).or_default().push(flow);
    }
    for (at, (name, flows)) in controllers.into_iter().enumerate() {
        let folder = format!("sys/class/nvme/{name}");
        let Some(first) = flows.first() else { continue };
        let (peer, local) = (first.peer, first.local.ip());
        let address = format!("traddr={},trsvcid={},src_addr={local}", peer.ip(), peer.port());
        file(recording, &format!("{folder}/transport"), &"tcp");
        file(recording, &format!("{folder}/address"), &address);
        file(recording, &format!("{folder}/state"), &"live");
        file(recording, &format!("{folder}/cntlid"), &(at + 1));
        file(recording, &format!("{folder}/queue_count"), &flows.len());
        if let Some(nqn) = &first.subsystem_nqn {
            file(recording, &format!("{folder}/subsysnqn"), nqn);
        }
        let mut lines = String::new();
        let disk = format!("nvme0c{}n1", name.trim_start_matches("nvme"));
        for flow in flows.iter().filter(|flow| flow.is_io()) {
            let (Some(queue), Some(worker)) = (flow.queue_id, &flow.worker) else { continue };
            if let Some(cpu) = worker.cpu.filter(|_| flow.source == FlowSource::Kernel) {
                let end = |end: SocketAddr| (end.ip(), end.port());
                let ((source, port), (peer, service)) = (end(flow.local), end(flow.peer));
                lines += &format!(
                    "qid={queue} cpu={cpu} src_ip={source} src_port={port} dst_ip={peer} dst_port={service}\n"
                );
            }
            let cpus: Vec<String> = worker.allowed.iter().map(|cpu| cpu.to_string()).collect();
            let path = format!("{folder}/{disk}/mq/{}/cpu_list", queue - 1);
            file(recording, &path, &cpus.join(", "));
        }
        if !lines.is_empty() {
            recording.file(&format!("sys/kernel/debug/block/{disk}/io_queue_info"), &lines);
        }
    }
}

/// Writes the queues that Selvedge's initiators publish, and the processes and threads that these
/// name.
fn programs(recording: &mut Recording, topology: &Topology) {
    let mut queues: BTreeMap<u32, Vec<serde_json::Value>> = BTreeMap::new();
    for flow in &topology.flows {
        if let (FlowOwner::Initiator { pid }, Some(worker)) = (&flow.owner, &flow.worker) {
            queues.entry(*pid).or_default().push(json!({
                "nqn": flow.subsystem_nqn, "controller": flow.controller, "qid": flow.queue_id,
                "local": flow.local, "peer": flow.peer, "thread": worker.thread,
            }));
            let thread = worker.thread.unwrap_or(*pid);
            let folder = format!("proc/{pid}/task/{thread}");
            let allowed = format!("Name:\tselvedge\nCpus_allowed_list:\t{}", worker.allowed);
            file(recording, &format!("{folder}/status"), &allowed);
            file(recording, &format!("{folder}/stat"), &stat(thread, "selvedge", worker.cpu.unwrap_or(0)));
        }
    }
    for (pid, queues) in queues {
        process(recording, pid, "selvedge");
        let record = json!({ "pid": pid, "start_time": START_TIME, "queues": queues });
        answer(recording, &format!("run/selvedge/queues/{pid}.json"), &record);
    }
    let targets: BTreeSet<u32> = topology
        .flows
        .iter()
        .filter(|flow| matches!(flow.owner, FlowOwner::Target { .. }))
        .filter_map(pid)
        .collect();
    for pid in targets {
        process(recording, pid, "selvedge");
    }
}

fn process(recording: &mut Recording, pid: u32, name: &str) {
    file(recording, &format!("proc/{pid}/comm"), &name);
    file(recording, &format!("proc/{pid}/stat"), &stat(pid, name, 0));
}

/// The 52 fields of proc_pid_stat(5), of which the 22nd and the 39th are read.
fn stat(id: u32, name: &str, cpu: u32) -> String {
    let field = |number: u32| match number {
        22 => START_TIME.to_string(),
        39 => cpu.to_string(),
        _ => "0".to_owned(),
    };
    let rest: Vec<String> = (4..=52).map(field).collect();
    format!("{id} ({name}) S {}", rest.join(" "))
}
