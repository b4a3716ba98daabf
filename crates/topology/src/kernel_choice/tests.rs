//! Each kind of device as a made-up machine, through its recording: what the rule of July 2026 gives, the line that the
//! kernel logs, and what is said of it.

use std::collections::BTreeSet;

use super::*;
use crate::{Machine, Recording, observe, queue_limit, sample};

/// A machine's recording with the holder of its local address, and with the kernel's log.
fn recording(machine: &Topology, holder: &str, log: &[String]) -> Recording {
    let mut recording = sample::recording(machine);
    let address = serde_json::json!([
        { "interface": "other0", "address": "10.9.0.1", "prefix_length": 24 },
        { "interface": holder, "address": "10.3.0.1", "prefix_length": 24 },
    ]);
    recording.file("selvedge/addresses.json", &address.to_string());
    recording.file("selvedge/queue-log.json", &serde_json::to_string(log).unwrap());
    recording
}

fn seen(recording: Recording) -> Topology {
    observe(&Machine::of_recording("x", recording)).unwrap()
}

/// The only controller of a stacked machine beside the kernel's choice, with this log.
fn queues(name: &str, log: &[String]) -> (Topology, KernelQueues) {
    let machine = sample::stacked(name).unwrap();
    let holder = machine.flows[0].interface.clone().unwrap();
    let topology = seen(recording(&machine, &holder, log));
    let [queues] = <[KernelQueues; 1]>::try_from(KernelQueues::all(&topology, &[])).unwrap();
    (topology, queues)
}

#[test]
fn every_kind_of_device_has_the_number_of_july_2026_and_its_meaning() {
    // The name, the rule of July 2026, this tool's number, and a part of the doubt or remark.
    let cases = [
        ("card", 4, 4, ""),
        ("sr-iov", 2, 2, ""),
        ("virtio-net", 4, 4, "queues of its host's card are not seen"),
        ("bond", 8, 4, "its packets use the 4 queues of eth0 and the 6 queues of eth1"),
        ("vlan", 1, 4, "a VLAN has queues of its own in name only; its packets use the 4 queues of eth0"),
        ("bridge", 1, 4, "a bridge has queues in name only; its packets use the 4 queues of eth0"),
        ("macvlan", 1, 4, "top0 has queues in name only; its packets use the 4 queues of eth0"),
        ("tunnel", 1, 8, "top0 is a tunnel: its packets travel inside others"),
        ("veth", 2, 2, "whose other end chooses the queue"),
        ("loopback", 1, 8, "lo is the machine itself"),
    ];
    let names: BTreeSet<&str> = cases.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, sample::STACKED.into_iter().collect());
    for (name, kernels, own, words) in cases {
        let (topology, KernelQueues { controller, choice }) = queues(name, &[]);
        let choice = choice.unwrap();
        assert_eq!(choice.queues, kernels, "{name}");
        assert_eq!(queue_limit(&topology, &choice.device).queues, own, "{name}");
        assert_eq!(controller.as_ref().map(|controller| controller.io_queues), Some(8), "{name}");
        assert_eq!(choice.doubt.is_none(), ["card", "sr-iov", "virtio-net"].contains(&name), "{name}");
        let text = choice.to_string();
        assert!(text.contains(words), "{name}: {text}");
        assert_eq!(text.contains("says nothing here"), choice.doubt.is_some(), "{name}: {text}");
        let line = choice.line().map(|line| line.to_string());
        let nic_queues = choice.nic_queues.unwrap();
        let expected = format!("limiting I/O queues to {kernels} (NIC queues {nic_queues}, CPUs 8)");
        assert_eq!(line, Some(expected).filter(|_| kernels < 8), "{name}");
    }
}

#[test]
fn a_kernel_that_logs_its_limit_is_compared_with_the_rule() {
    for name in sample::STACKED {
        let choice = queues(name, &[]).1.choice.unwrap();
        let Some(line) = choice.line() else { continue };
        let creating = |count: u32| format!("nvme nvme0: creating {count} I/O queues.");
        let said = |log: &[String]| queues(name, log).1.to_string();
        let limiting = format!("nvme nvme0: {line}");
        let same = said(&[limiting.clone(), creating(line.queues)]);
        assert!(same.ends_with(&format!(". This one has it: `{line}`")), "{name}: {same}");
        let earlier = LimitLine { queues: 3, nic_queues: 3, cpus: 8 };
        let other = said(&[format!("nvme nvme0: {earlier}"), creating(3)]);
        assert!(
            other.ends_with(&format!("counted otherwise when it connected: `{earlier}`")),
            "{name}: {other}"
        );
        let without = said(&[limiting, creating(line.queues), creating(8)]);
        assert!(without.contains(&format!("did not log `{line}`")), "{name}: {without}");
        let unread = said(&[]);
        assert!(unread.ends_with(&format!("It logs `{line}`")), "{name}: {unread}");
    }
}

#[test]
fn the_device_is_the_bound_one_or_the_holder_of_the_address() {
    let machine = sample::stacked("bond").unwrap();
    let device = |recording| {
        let topology = seen(recording);
        let found = KernelQueues::all(&topology, &[]).remove(0);
        (found.choice.as_ref().map(|choice| choice.device.clone()), found.to_string())
    };
    let (found, _) = device(recording(&machine, "top0", &[]));
    assert_eq!(found.as_deref(), Some("top0"));
    // A routed host has its address on the loopback, and a kernel that counts that takes one queue.
    let (found, text) = device(recording(&machine, "lo", &[]));
    assert_eq!(found.as_deref(), Some("lo"));
    assert!(text.contains("nvme0 has its address on lo, but its packets leave by top0"), "{text}");
    assert!(text.contains("creates 1 (the lesser of 8 CPUs and 1 queue of lo)"), "{text}");
    let mut bound = recording(&machine, "top0", &[]);
    let address = "traddr=10.3.0.2,trsvcid=4420,host_iface=eth1,src_addr=10.3.0.1";
    bound.file("sys/class/nvme/nvme0/address", address);
    let (found, text) = device(bound);
    assert_eq!(found.as_deref(), Some("eth1"));
    assert!(text.contains("nvme0 is bound to eth1"), "{text}");
    // Without the addresses, as in older recordings, the route stands in.
    let (found, _) = device(sample::recording(&machine));
    assert_eq!(found.as_deref(), Some("top0"));
}

#[test]
fn subflows_of_mptcp_make_the_number_doubtful() {
    let machine = sample::stacked("card").unwrap();
    let mut over_mptcp = recording(&machine, "eth0", &[]);
    over_mptcp.file("sys/class/nvme/nvme0/transport", "mptcp\n");
    let topology = seen(over_mptcp);
    let found = KernelQueues::all(&topology, &[]).remove(0);
    let choice = found.choice.as_ref().unwrap();
    assert_eq!((choice.queues, choice.device.as_str()), (4, "eth0"));
    let doubt = choice.doubt.as_deref().unwrap();
    assert!(doubt.contains("MPTCP's further subflows may use other interfaces than eth0"), "{doubt}");
    assert!(found.to_string().contains("says nothing here: MPTCP"), "{found}");
}

#[test]
fn controllers_and_interfaces_without_one_are_listed_once() {
    let machine = sample::stacked("bond").unwrap();
    let names = |wanted: &[&str]| -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let described = |queues: KernelQueues| {
            let controller = queues.controller.map_or("-".to_owned(), |controller| controller.name);
            format!("{controller} {}", queues.choice.unwrap().device)
        };
        KernelQueues::all(&machine, &wanted).into_iter().map(described).collect()
    };
    assert_eq!(names(&[]), ["nvme0 top0"]);
    assert_eq!(names(&["top0", "top0"]), ["nvme0 top0"]);
    assert_eq!(names(&["eth1"]), ["- eth1"]);
    assert!(KernelQueues::all(&Topology::default(), &["eth9".to_owned()]).is_empty());
}

#[test]
fn a_log_that_only_root_reads_is_a_shortfall() {
    let machine = sample::stacked("card").unwrap();
    let mut forbidden = recording(&machine, "eth0", &[]);
    forbidden.refusal("selvedge/queue-log.json", libc::EPERM);
    let topology = seen(forbidden);
    let [shortfall] = topology.shortfalls.as_slice() else { panic!("{:?}", topology.shortfalls) };
    assert!(shortfall.needs_root && shortfall.what.contains("/dev/kmsg"), "{shortfall:?}");
    assert_eq!(topology.kernel_controllers[0].creation, None);
}
