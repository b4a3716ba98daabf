//! Tests of seeing: of a machine made up, as a recording and as a directory, of one that refuses, and of this one.

use std::path::Path;

use super::*;
use crate::machine::{Recording, Sockets};
use crate::socket::{Socket, SocketState};
use crate::{CpuSet, FlowOwner, FlowSource, InterfaceKind, RssFields, RssFunction, Steering, course};

const KEY: &str = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";

/// A machine of two cores with a NIC of two queues, the kernel's initiator with two controllers at one address, an
/// initiator of ours and a target.
fn files() -> Vec<(&'static str, String)> {
    let ethtool = format!(
        r#"{{"driver":"mlx5_core","channels":{{"combined":{{"now":2,"max":8}},"receive":{{"now":0,"max":0}},
        "transmit":{{"now":0,"max":0}}}},"rss":{{"key":"{KEY}","table":[0,1,0,1],"function":"toeplitz",
        "tcp4":"addresses-and-ports","tcp6":"addresses-and-ports"}},"ntuple":{{"is_supported":true,
        "is_enabled":false,"is_switchable":true,"places":1024,"rules":[]}}}}"#
    );
    let interrupts = "      CPU0 CPU1\n 9: 0 0 IO-APIC 9-fasteoi acpi\n \
        40: 5 1 IR-PCI-MSIX-0000:3b:00.0 0-edge mlx5_async0@pci:0000:3b:00.0\n \
        41: 700 1 IR-PCI-MSIX-0000:3b:00.0 1-edge mlx5_comp0@pci:0000:3b:00.0\n \
        42: 0 9 IR-PCI-MSIX-0000:3b:00.0 2-edge mlx5_comp1@pci:0000:3b:00.0\nNMI: 0 0 x\n";
    let record = r#"{"pid":77,"start_time":500,"queues":[
        {"nqn":"nqn.2014-08.org.example:b","controller":"cntlid 3","qid":1,"local":"10.0.0.1:50010",
         "peer":"10.0.0.3:4420","thread":78}]}"#;
    let stale = record.replace("500", "499");
    let stat = |cpu: u32| {
        let middle = "0 ".repeat(18);
        format!("77 (a (b) S {middle}500 {}{cpu} 0\n", "0 ".repeat(16))
    };
    let text = |text: &str| format!("{text}\n");
    let mut files = vec![
        ("proc/sys/kernel/osrelease", text("6.18.1")),
        ("sys/devices/system/cpu/online", text("0-1")),
        ("sys/devices/system/cpu/isolated", text("")),
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", text("0-1")),
        ("sys/devices/system/node/node0/cpulist", text("0-1")),
        ("proc/20/comm", text("irqbalance")),
        ("proc/77/comm", text("selvedge")),
        ("proc/interrupts", interrupts.to_owned()),
        ("proc/irq/41/smp_affinity_list", text("0-1")),
        ("proc/irq/41/effective_affinity_list", text("0")),
        ("proc/irq/42/smp_affinity_list", text("1")),
        ("selvedge/ethtool/eth0.json", ethtool),
        ("selvedge/sockets.json", serde_json::to_string(&sockets()).unwrap()),
        (
            "selvedge/routes.json",
            r#"{"routes":[{"destination":"10.0.0.2","source":"10.0.0.1","interface":"eth0"},
                {"destination":"10.0.0.3","source":"10.0.0.1","interface":"vlan5"},
                {"destination":"10.0.0.9","source":"10.0.0.1","interface":"eth0"}]}"#
                .to_owned(),
        ),
        ("run/selvedge/queues/77.json", record.to_owned()),
        ("tmp/selvedge-1000/queues/77.json", stale),
        ("proc/77/stat", stat(0)),
        ("proc/77/task/78/stat", stat(1)),
        ("proc/77/task/78/status", text("Name:\tselvedge\nCpus_allowed_list:\t0-1")),
    ];
    files.extend(interfaces());
    files.extend(controllers());
    files
}

fn interfaces() -> Vec<(&'static str, String)> {
    let text = |text: &str| format!("{text}\n");
    vec![
        ("sys/class/net/bonding_masters", text("")),
        ("sys/class/net/eth0/ifindex", text("2")),
        ("sys/class/net/eth0/iflink", text("2")),
        ("sys/class/net/eth0/type", text("1")),
        ("sys/class/net/eth0/mtu", text("9000")),
        ("sys/class/net/eth0/flags", text("0x1003")),
        ("sys/class/net/eth0/carrier", text("1")),
        ("sys/class/net/eth0/speed", text("100000")),
        ("sys/class/net/eth0/uevent", text("INTERFACE=eth0")),
        ("sys/class/net/eth0/device/numa_node", text("0")),
        ("sys/class/net/eth0/device/msi_irqs/40", text("msix")),
        ("sys/class/net/eth0/device/msi_irqs/41", text("msix")),
        ("sys/class/net/eth0/device/msi_irqs/42", text("msix")),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", text("0")),
        ("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", text("0")),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", text("2")),
        ("sys/class/net/eth0/queues/rx-1/rps_flow_cnt", text("64")),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", text("1")),
        ("sys/class/net/eth0/queues/tx-1/xps_cpus", text("2")),
        ("sys/class/net/vlan5/ifindex", text("3")),
        ("sys/class/net/vlan5/iflink", text("2")),
        ("sys/class/net/vlan5/type", text("1")),
        ("sys/class/net/vlan5/mtu", text("1500")),
        ("sys/class/net/vlan5/flags", text("0x1002")),
        ("sys/class/net/vlan5/uevent", text("DEVTYPE=vlan\nINTERFACE=vlan5")),
    ]
}

fn controllers() -> Vec<(&'static str, String)> {
    let text = |text: &str| format!("{text}\n");
    vec![
        ("sys/class/nvme/nvme0/transport", text("tcp")),
        ("sys/class/nvme/nvme0/address", text("traddr=10.0.0.2,trsvcid=4420,src_addr=10.0.0.1")),
        ("sys/class/nvme/nvme0/subsysnqn", text("nqn.2014-08.org.example:a")),
        ("sys/class/nvme/nvme0/queue_count", text("3")),
        ("sys/class/nvme/nvme0/cntlid", text("1")),
        ("sys/class/nvme/nvme0/nvme0c0n1/mq/0/cpu_list", text("0")),
        ("sys/class/nvme/nvme0/nvme0c0n1/mq/1/cpu_list", text("1")),
        ("sys/class/nvme/nvme1/transport", text("tcp")),
        ("sys/class/nvme/nvme1/address", text("traddr=10.0.0.2,trsvcid=4420,src_addr=10.0.0.1")),
        ("sys/class/nvme/nvme1/subsysnqn", text("nqn.2014-08.org.example:a")),
        ("sys/class/nvme/nvme1/queue_count", text("2")),
        ("sys/class/nvme/nvme1/cntlid", text("2")),
        ("sys/class/nvme/nvme1/nvme0c1n1/mq/0/cpu_list", text("0, 1")),
        ("sys/class/nvme/nvme2/transport", text("pcie")),
    ]
}

fn links() -> Vec<(&'static str, &'static str)> {
    vec![
        ("sys/class/net/eth0/device/driver", "../../bus/pci/drivers/mlx5_core"),
        ("sys/class/net/vlan5/lower_eth0", "../eth0"),
    ]
}

fn socket(local: &str, peer: &str, inode: u32, pid: Option<u32>) -> Socket {
    Socket {
        state: if peer.ends_with(":0") { SocketState::Listen } else { SocketState::Established },
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        receive_queue_bytes: 10,
        send_queue_bytes: 20,
        inode,
        uid: 0,
        interface_index: 0,
        rtt_us: Some(55),
        retransmissions: Some(2),
        received_bytes: None,
        pid,
    }
}

fn sockets() -> Sockets {
    let target = "10.0.0.2:4420";
    let sockets = vec![
        // The second controller's, which the kernel happens to tell first.
        socket("10.0.0.1:40010", target, 1206, None),
        socket("10.0.0.1:40008", target, 1204, None),
        socket("10.0.0.1:40002", target, 1101, None),
        socket("10.0.0.1:40000", target, 1100, None),
        socket("10.0.0.1:40004", target, 1102, None),
        // A process's own connection to the same address is none of the kernel's.
        socket("10.0.0.1:40006", target, 1103, Some(500)),
        socket("10.0.0.1:50010", "10.0.0.3:4420", 1300, Some(77)),
        socket("0.0.0.0:4420", "0.0.0.0:0", 1400, Some(80)),
        socket("10.0.0.1:4420", "10.0.0.9:33333", 1401, Some(80)),
    ];
    Sockets { sockets, ..Sockets::default() }
}

fn recording() -> Recording {
    let mut recording = Recording::default();
    files().iter().for_each(|(path, text)| recording.file(path, text));
    links().iter().for_each(|(path, target)| recording.symbolic_link(path, target));
    recording.symbolic_link("sys/class/net/eth0/device", "../../../0000:3b:00.0");
    recording
}

/// The same as a directory, in which the device is a folder of its own.
fn directory(root: &Path) {
    let device = root.join("sys/devices/pci0000:3a/0000:3b:00.0");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
    let target = "/sys/devices/pci0000:3a/0000:3b:00.0";
    std::os::unix::fs::symlink(target, root.join("sys/class/net/eth0/device")).unwrap();
    let place = |path: &str| match path.strip_prefix("sys/class/net/eth0/device/") {
        Some(rest) => device.join(rest),
        None => root.join(path),
    };
    for (path, text) in files() {
        std::fs::create_dir_all(place(path).parent().unwrap()).unwrap();
        std::fs::write(place(path), text).unwrap();
    }
    for (path, target) in links() {
        std::os::unix::fs::symlink(target, place(path)).unwrap();
    }
}

fn seen() -> Topology {
    observe(&Machine::of_recording("x", recording())).unwrap()
}

#[test]
fn processors_and_interfaces_are_seen() {
    let topology = seen();
    assert_eq!(topology.kernel, "6.18.1");
    assert_eq!(topology.irqbalance, Some(20));
    assert_eq!(topology.processors.online.to_string(), "0-1");
    assert_eq!(topology.processors.cores, ["0-1".parse::<CpuSet>().unwrap()]);
    let names: Vec<&str> = topology.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!(names, ["eth0", "vlan5"]);
    let nic = topology.interface("eth0").unwrap();
    assert_eq!(nic.kind, InterfaceKind::Device);
    assert_eq!((nic.index, nic.mtu_bytes, nic.speed_mbps, nic.node), (2, 9000, Some(100_000), Some(0)));
    assert_eq!(
        (nic.driver.as_deref(), nic.bus_address.as_deref()),
        (Some("mlx5_core"), Some("0000:3b:00.0"))
    );
    assert!(
        nic.is_up && nic.channels.unwrap().combined.max == 8 && nic.ntuple.as_ref().unwrap().is_supported
    );
    let rss = nic.rss.as_ref().unwrap();
    assert_eq!(
        (rss.function, rss.tcp4, rss.table.len()),
        (RssFunction::Toeplitz, RssFields::AddressesAndPorts, 4)
    );
    assert_eq!((nic.receive.len(), nic.transmit.len()), (2, 2));
    let first = nic.receive[0].interrupt.as_ref().unwrap();
    assert_eq!((first.irq, first.count, first.cpu()), (41, 701, Some(0)));
    assert_eq!(nic.transmit[1].interrupt.as_ref().unwrap().irq, 42);
    assert_eq!((nic.receive[1].rps.to_string(), nic.receive[1].rps_flows), ("1".to_owned(), 64));
    assert_eq!(nic.transmit[1].xps.as_ref().unwrap().to_string(), "1");
    let vlan = topology.interface("vlan5").unwrap();
    assert_eq!(
        (vlan.kind, vlan.is_up, vlan.lower.as_slice()),
        (InterfaceKind::Vlan, false, &["eth0".to_owned()][..])
    );
    assert_eq!(topology.shortfalls, []);
}

#[test]
fn tunnels_are_known_by_their_hardware_or_device_type() {
    for (hardware, event, kind) in [
        (65_534, "", InterfaceKind::Tunnel),
        (778, "", InterfaceKind::Tunnel),
        (1, "DEVTYPE=vxlan\n", InterfaceKind::Tunnel),
        (1, "DEVTYPE=wlan\n", InterfaceKind::Virtual),
        (1, "", InterfaceKind::Virtual),
    ] {
        let mut recording = recording();
        recording.file("sys/class/net/top0/ifindex", "4\n");
        recording.file("sys/class/net/top0/iflink", "0\n");
        recording.file("sys/class/net/top0/type", &format!("{hardware}\n"));
        recording.file("sys/class/net/top0/uevent", &format!("{event}INTERFACE=top0\n"));
        recording.file("selvedge/ethtool/top0.json", "{}");
        let topology = observe(&Machine::of_recording("x", recording)).unwrap();
        assert_eq!(topology.interface("top0").unwrap().kind, kind, "{hardware} {event}");
    }
}

#[test]
fn times_that_threads_waited_are_those_of_their_running_process() {
    let waited = Waited { at_ns: 9, waited_ns: 4 };
    let with = |pid: u32, started: u32| {
        let queue = serde_json::json!({
            "controller": "c", "qid": 1, "local": "10.0.0.1:5", "peer": "10.0.0.2:4420",
            "thread": 78, "waited": waited,
        });
        let record = serde_json::json!({ "pid": pid, "start_time": started, "queues": [queue] });
        let mut recording = recording();
        recording.file("run/selvedge/queues/77.json", &record.to_string());
        Machine::of_recording("x", recording)
    };
    let seen: Vec<_> = waited_times(&with(77, 500), &[(77, 78)]).into_iter().collect();
    assert_eq!(seen, [(78, waited)]);
    for (machine, threads) in [
        (with(77, 499), [(77, 78)]),
        (with(76, 500), [(77, 78)]),
        (with(77, 500), [(77, 79)]),
        (Machine::of_recording("x", recording()), [(77, 78)]),
    ] {
        assert!(waited_times(&machine, &threads).is_empty());
    }
    let later = Waited { at_ns: 19, waited_ns: 5 };
    assert_eq!((later.worked_since(waited), waited.worked_since(later)), (Some(0.9), None));
    assert_eq!(waited.worked_since(waited), None);
}

#[test]
fn flows_of_programs_the_kernel_and_targets_are_seen() {
    let topology = seen();
    let [program, kernel @ .., target] = topology.flows.as_slice() else { panic!("{:?}", topology.flows) };
    assert_eq!(program.owner, FlowOwner::Initiator { pid: 77 });
    assert_eq!((program.controller.as_str(), program.queue_id), ("cntlid 3", Some(1)));
    assert_eq!(program.interface.as_deref(), Some("vlan5"));
    let worker = program.worker.as_ref().unwrap();
    assert_eq!((worker.thread, worker.cpu, worker.is_movable), (Some(78), Some(1), true));
    assert_eq!((program.receive_queue_bytes, program.send_queue_bytes), (10, 20));
    assert_eq!((program.rtt_us, program.retransmissions), (Some(55), Some(2)));

    let queues: Vec<(&str, u16, u16)> = kernel
        .iter()
        .map(|flow| (flow.controller.as_str(), flow.queue_id.unwrap(), flow.local.port()))
        .collect();
    let expected = [
        ("nvme0", 0, 40000),
        ("nvme0", 1, 40002),
        ("nvme0", 2, 40004),
        ("nvme1", 0, 40008),
        ("nvme1", 1, 40010),
    ];
    assert_eq!(queues, expected);
    assert!(kernel.iter().all(|flow| flow.source == FlowSource::Derived && flow.owner == FlowOwner::Kernel));
    assert!(kernel.iter().all(|flow| flow.interface.as_deref() == Some("eth0")));
    assert_eq!(kernel[0].worker, None);
    let worker = kernel[2].worker.as_ref().unwrap();
    assert_eq!((worker.cpu, worker.allowed.to_string().as_str(), worker.is_movable), (Some(1), "1", false));
    assert_eq!(kernel[4].worker.as_ref().unwrap().cpu, None);
    let legs = course(&topology, &kernel[1]);
    assert!(matches!(legs[0].steering, Steering::Rss { .. }) && legs[0].queue.is_some());

    assert_eq!(target.owner, FlowOwner::Target { pid: Some(80) });
    assert_eq!((target.local.port(), target.queue_id), (4420, None));
    assert_eq!(target.interface.as_deref(), Some("eth0"));
}

#[test]
fn what_was_not_recorded_is_a_shortfall() {
    let mut recording = recording();
    recording.file("selvedge/routes.json", "{\"routes\":[]}");
    recording.file("sys/class/nvme/nvme1/address", "traddr=10.0.0.7,trsvcid=4420");
    recording.file("sys/class/net/eth0/device/msi_irqs/43", "msix");
    let table =
        "CPU0\n 41: 5 PCI 1 gve-ntfy-blk0@pci:0000:3b:00.0\n 43: 1 PCI 2 gve-ntfy-blk1@pci:0000:3b:00.0\n";
    recording.file("proc/interrupts", table);
    let topology = observe(&Machine::of_recording("x", recording)).unwrap();
    let shortfalls: Vec<String> =
        topology.shortfalls.iter().map(|it| format!("{}: {}", it.what, it.reason)).collect();
    let expected = [
        "interrupts of eth0: their names (`gve-ntfy-blk0@pci:0000:3b:00.0`, `gve-ntfy-blk1@pci:0000:3b:00.0`) do not \
         contain a queue number",
        "connections of nvme1: no socket of this network namespace goes to 10.0.0.7:4420: it may be in another \
         namespace, or be connecting",
        "route from 10.0.0.1 to 10.0.0.3: not in the recording",
        "route from 10.0.0.1 to 10.0.0.2: not in the recording",
        "route from 10.0.0.1 to 10.0.0.9: not in the recording",
    ];
    assert_eq!(shortfalls, expected);
    let nic = topology.interface("eth0").unwrap();
    assert!(nic.receive.iter().all(|queue| queue.interrupt.is_none()));
    // Three queues of nvme0 and five connections: any of them may be any.
    let kernels: Vec<_> = topology.flows.iter().filter(|flow| flow.owner == FlowOwner::Kernel).collect();
    assert!(kernels.len() == 5 && kernels.iter().all(|flow| flow.source == FlowSource::Guessed));
}

#[test]
fn a_directory_shows_the_same() {
    let root = tempfile::tempdir().unwrap();
    directory(root.path());
    assert_eq!(observe(&Machine::open(root.path()).unwrap()).unwrap(), seen());
}

#[test]
fn what_was_recorded_shows_the_same() {
    let machine = Machine::of_recording("x", recording()).record();
    let topology = observe(&machine).unwrap();
    let text = machine.recording().unwrap().to_string();
    let again = observe(&Machine::of_recording("y", text.parse().unwrap())).unwrap();
    assert_eq!(again, topology);
}

#[test]
fn the_kernels_own_words_are_taken_for_its_queues() {
    let mut recording = recording();
    let text = "qid=1 cpu=1 src_ip=10.0.0.1 src_port=40004 dst_ip=10.0.0.2 dst_port=4420\n\
        qid=2 cpu=-1 src_ip=10.0.0.1 src_port=40002 dst_ip=10.0.0.2 dst_port=4420\n";
    recording.file("sys/kernel/debug/block/nvme0c0n1/io_queue_info", text);
    let topology = observe(&Machine::of_recording("x", recording)).unwrap();
    let of = |port: u16| topology.flows.iter().find(|flow| flow.local.port() == port).unwrap();
    assert_eq!((of(40004).queue_id, of(40004).source), (Some(1), FlowSource::Kernel));
    assert_eq!(of(40004).worker.as_ref().unwrap().cpu, Some(1));
    assert_eq!((of(40002).queue_id, of(40002).source), (Some(2), FlowSource::Kernel));
    // A queue without a CPU of its own is on the one that the block layer gives it.
    assert_eq!(of(40002).worker.as_ref().unwrap().cpu, Some(1));
    // What it does not tell is still found by its order.
    assert_eq!((of(40000).queue_id, of(40000).source), (Some(0), FlowSource::Derived));
    assert_eq!(of(40010).controller, "nvme1");
}

#[test]
fn queues_in_another_form_are_skipped() {
    let mut recording = recording();
    let path = "sys/kernel/debug/block/nvme0c0n1/io_queue_info";
    let text = "qid=1 cpu=1 src=10.0.0.1:40004 dst=10.0.0.2:4420\n\
        qid=2 cpu=-1 src_ip=10.0.0.1 src_port=40002 dst_ip=10.0.0.2 dst_port=4420\n";
    recording.file(path, text);
    let topology = observe(&Machine::of_recording("x", recording)).unwrap();
    let of = |port: u16| topology.flows.iter().find(|flow| flow.local.port() == port).unwrap();
    assert_eq!((of(40002).queue_id, of(40002).source), (Some(2), FlowSource::Kernel));
    assert_ne!(of(40004).source, FlowSource::Kernel);
    let shortfall = topology.shortfalls.iter().find(|shortfall| shortfall.what.ends_with(path)).unwrap();
    assert!(shortfall.reason.contains("`qid=1 cpu=1 src="), "{shortfall:?}");
}

#[test]
fn a_record_is_believed_of_its_own_connections_only() {
    let mut others = sockets();
    others.sockets.iter_mut().filter(|socket| socket.pid == Some(77)).for_each(|socket| socket.pid = Some(9));
    let mut recording = recording();
    recording.file("selvedge/sockets.json", &serde_json::to_string(&others).unwrap());
    recording.file("tmp/selvedge-1000/queues/broken.json", "{\"pid\":");
    let topology = observe(&Machine::of_recording("x", recording)).unwrap();
    let is_program = |flow: &crate::Flow| matches!(flow.owner, FlowOwner::Initiator { .. });
    assert!(!topology.flows.iter().any(is_program));
    assert_eq!(topology.shortfalls.len(), 1);
    assert!(topology.shortfalls[0].what.ends_with("broken.json"));
}

#[test]
fn nonsense_names_its_file_and_what_it_should_hold() {
    for (path, text, expected) in [
        ("sys/class/net/eth0/mtu", "many", "a number of bytes"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "xyz", "a mask of CPUs"),
        ("sys/devices/system/cpu/online", "0-", "a list of CPUs"),
        ("proc/irq/41/smp_affinity_list", "one", "a list of CPUs"),
        ("proc/interrupts", "nonsense", "a column for each CPU"),
        ("sys/class/nvme/nvme0/address", "there", "traddr=ADDRESS"),
        ("sys/class/nvme/nvme0/nvme0c0n1/mq/0/cpu_list", "first", "a list of CPUs"),
        ("selvedge/sockets.json", "[]x", "sockets.json"),
        ("selvedge/ethtool/eth0.json", "{\"channels\":7}", "eth0.json"),
        ("selvedge/routes.json", "{\"routes\":7}", "routes.json"),
    ] {
        let mut recording = recording();
        recording.file(path, text);
        let error = observe(&Machine::of_recording("x", recording)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains(expected), "{error}");
    }
    let error = observe(&Machine::of_recording("x", Recording::default())).unwrap_err().to_string();
    assert!(error.contains("sys/devices/system/cpu/online in x is missing"), "{error}");
}

#[test]
fn a_machine_that_refuses_is_seen_as_far_as_it_lets() {
    let mut refusing = Recording::default();
    for path in ["sys/devices/system/cpu", "sys/devices/system/node", "sys/class", "proc", "run", "tmp"] {
        refusing.refusal(path, 13);
    }
    let topology = observe(&Machine::of_recording("x", refusing)).unwrap();
    assert!(topology.interfaces.is_empty() && topology.flows.is_empty());
    assert!(
        topology.shortfalls.len() > 5 && topology.shortfalls.iter().all(|shortfall| shortfall.needs_root)
    );

    let mut some = recording();
    some.refusal("sys/kernel/debug", 13);
    some.refusal("proc/irq/41/smp_affinity_list", 13);
    let answers = r#"{"refusals":[{"question":"rss","errno":1}]}"#;
    some.file("selvedge/ethtool/eth0.json", answers);
    let topology = observe(&Machine::of_recording("x", some)).unwrap();
    let what: Vec<&str> = topology.shortfalls.iter().map(|shortfall| shortfall.what.as_str()).collect();
    let expected =
        ["ethtool rss of eth0", "/proc/irq/41/smp_affinity_list", "/sys/kernel/debug/block/*/io_queue_info"];
    assert_eq!(what, expected);
    assert!(topology.shortfalls.iter().all(|shortfall| shortfall.needs_root));
    assert_eq!(topology.flows.len(), seen().flows.len());
}

#[test]
fn this_machine_is_seen_and_its_recording_shows_the_same() {
    // A connection that must be found: to a port where targets are. Where another test or program has it, the port is
    // served too.
    let listener = std::net::TcpListener::bind("127.0.0.1:8009");
    let stream = listener.as_ref().ok().map(|_| std::net::TcpStream::connect("127.0.0.1:8009").unwrap());
    let machine = Machine::live().record();
    let topology = observe(&machine).unwrap();
    assert!(!topology.kernel.is_empty() && !topology.processors.online.is_empty());
    assert!(!topology.processors.nodes.is_empty() && !topology.processors.cores.is_empty());
    let loopback = topology.interface("lo").unwrap();
    assert_eq!((loopback.kind, loopback.lower.len()), (InterfaceKind::Loopback, 0));
    if let Some(stream) = stream {
        let peer = stream.local_addr().unwrap();
        let flow = topology.flows.iter().find(|flow| flow.peer == peer).unwrap();
        assert_eq!(flow.owner, FlowOwner::Target { pid: Some(std::process::id()) });
        assert_eq!(flow.interface.as_deref(), Some("lo"));
        assert!(flow.rtt_us.is_some());
    }
    let text = machine.recording().unwrap().to_string();
    let again = observe(&Machine::of_recording("y", text.parse().unwrap())).unwrap();
    assert_eq!(again, topology);
}
