//! Advice for made-up machines and for a sweep's sample.

use topology::sample;

use super::*;

pub(super) fn case<'a>(topology: &'a Topology, interface: &str, rtt_us: u64) -> Case<'a> {
    let address = "10.0.0.2:4420".parse().unwrap();
    Case {
        topology,
        paths: vec![Path { address, interface: interface.to_owned(), rtt_us: Some(rtt_us) }],
        cores: topology.processors.online.len() as u32,
        block_bytes: 4096,
        outstanding: None,
        goal: Goal::Latency,
        measured: None,
        congestion_available: "reno cubic bbr\n".to_owned(),
        congestion_now: "cubic\n".to_owned(),
        receive_buffer: "4096\t131072\t6291456\n".to_owned(),
        send_buffer: "4096\t16384\t4194304\n".to_owned(),
        governor: Some("powersave\n".to_owned()),
        seal_ns: None,
    }
}

pub(super) fn value<'a>(all: &'a Recommendations, setting: &str) -> Option<&'a Recommendation> {
    all.recommendations.iter().find(|advice| advice.setting.starts_with(setting))
}

#[test]
fn a_large_host_on_a_short_way_has_as_many_queues_as_its_nic() {
    let topology = sample::topology("cpu72-queues32").unwrap();
    let all = Recommendations::of(&case(&topology, "eth0", 50));
    let queues = value(&all, "I/O queues (-i)").unwrap();
    assert_eq!(queues.value, "32");
    assert!(queues.why.contains("32 combined queues") && matches!(queues.basis, Basis::Rule(_)));
    let outstanding = value(&all, "outstanding I/O").unwrap();
    assert!(
        matches!(outstanding.basis, Basis::Rule(_)) && outstanding.value.starts_with("710 "),
        "{outstanding:?}"
    );
    let congestion = value(&all, "congestion").unwrap();
    assert_eq!((congestion.value.as_str(), congestion.now.as_deref()), ("auto", Some("cubic")));
    assert!(value(&all, "MTU").is_none(), "it has large packets already");
    assert!(value(&all, "net.ipv4").is_none(), "the usual buffers are enough for a short way");
    assert_eq!(value(&all, "CPU frequency").unwrap().now.as_deref(), Some("powersave"));
    assert!(all.commands[0].contains("-i 32 --match-hw-queues"), "{:?}", all.commands);
    let text = all.to_string();
    assert!(text.contains("(a published table for this case: high outstanding"), "{text}");
}

#[test]
fn the_choice_of_a_kernel_stands_beside_where_it_differs() {
    for (name, interface, value_is, words) in [
        ("card", "eth0", "4", None),
        ("vlan", "top0", "4", Some("creates 1 (the lesser of 8 CPUs and 1 queue of top0)")),
        ("tunnel", "top0", "8", Some("the number of queues says nothing here: top0 is a tunnel")),
    ] {
        let topology = sample::stacked(name).unwrap();
        let all = Recommendations::of(&case(&topology, interface, 50));
        let queues = value(&all, "I/O queues (-i)").unwrap();
        assert_eq!(queues.value, value_is, "{name}");
        let is_said = queues.why.contains("a kernel with the series of July 2026");
        assert_eq!(is_said, words.is_some(), "{name}: {}", queues.why);
        assert!(words.is_none_or(|words| queues.why.contains(words)), "{name}: {}", queues.why);
    }
}

#[test]
fn a_path_with_losses_differs_from_one_that_had_some() {
    let mut topology = sample::topology("cpu72-queues32").unwrap();
    let congestion = |topology: &Topology| {
        let all = Recommendations::of(&case(topology, "eth0", 50));
        let advice = value(&all, "congestion").unwrap();
        assert_eq!(advice.value, "auto");
        advice.why.clone()
    };
    assert!(topology.flows.iter().any(|flow| flow.retransmissions > Some(0)));
    assert!(congestion(&topology).contains("auto selects cubic there"));
    topology.flows.iter_mut().for_each(|flow| flow.retransmissions = Some(200));
    assert!(congestion(&topology).contains("were retransmitted: where segments are lost auto selects bbr"));
}

#[test]
fn what_is_scarce_limits_the_queues() {
    let topology = sample::topology("cpu72-queues72").unwrap();
    let with = |change: &dyn Fn(&mut Case<'_>)| {
        let mut case = case(&topology, "eth0", 50);
        change(&mut case);
        value(&Recommendations::of(&case), "I/O queues (-i)").unwrap().value.clone()
    };
    assert_eq!(with(&|_| {}), "72");
    assert_eq!(with(&|case| case.goal = Goal::Cpu), "8");
    assert_eq!(with(&|case| case.cores = 16), "16");
    assert_eq!(with(&|case| case.outstanding = Some(64)), "32");
    assert_eq!(with(&|case| case.outstanding = Some(3)), "3");
}

#[test]
fn a_long_way_needs_windows_and_buffers() {
    let topology = sample::topology("cpu72-queues32").unwrap();
    let mut long = case(&topology, "eth0", 10_000);
    let second = Path { address: "10.0.1.2:4420".parse().unwrap(), ..long.paths[0].clone() };
    long.paths.push(second);
    let all = Recommendations::of(&long);
    let congestion = value(&all, "congestion").unwrap();
    assert_eq!((congestion.value.as_str(), congestion.now.as_deref()), ("auto", Some("cubic")));
    assert_eq!(value(&all, "I/O queues of each path").unwrap().value, "16");
    // 100 Gbit/s for 10 ms are 125 MB.
    assert_eq!(value(&all, "net.ipv4.tcp_rmem").unwrap().value, (1_u64 << 28).to_string());
    assert_eq!(value(&all, "net.ipv4.tcp_wmem").unwrap().now.as_deref(), Some("4194304"));
    assert_eq!(buffer_wanted_bytes(400_000, 300_000), BUFFER_BYTES_MAX);
    long.congestion_available = "reno cubic".to_owned();
    let all = Recommendations::of(&long);
    let command = value(&all, "congestion").unwrap().command.clone().unwrap();
    assert!(command.starts_with("modprobe tcp_bbr; selvedge bench --congestion auto"), "{command}");
}

#[test]
fn a_value_that_is_set_already_is_not_advised() {
    let topology = sample::topology("cpu72-queues32").unwrap();
    let mut case = case(&topology, "eth0", 50);
    for (now, is_advised) in [("cubic", true), ("bbr", true), ("auto", false)] {
        case.congestion_now = now.to_owned();
        let all = Recommendations::of(&case);
        assert_eq!(value(&all, "congestion").is_some(), is_advised, "{now}");
        assert!(all.recommendations.iter().all(|advice| advice.now.as_ref() != Some(&advice.value)));
    }
}

#[test]
fn tls_takes_as_many_queues_as_sealing_takes_processors() {
    let topology = sample::topology("cpu72-queues32").unwrap();
    let mut case = case(&topology, "eth0", 50);
    let tls = |case: &Case<'_>| value(&Recommendations::of(case), "I/O queues at least, with TLS").cloned();
    assert_eq!(tls(&case), None, "a recording seals nothing");
    // 4096 bytes in 1 us are 4.1 GB/s, of which 100 Gbit/s are three times as many and a bit.
    case.seal_ns = Some(1000.0);
    let advice = tls(&case).unwrap();
    assert_eq!(advice.value, "4");
    assert!(advice.why.contains("for each 4 KiB"), "{advice:?}");
    // Both ways by one interface are one link.
    case.paths.push(case.paths[0].clone());
    assert_eq!(tls(&case).unwrap().value, "4");
    case.paths.iter_mut().for_each(|path| path.interface = "none".to_owned());
    assert!(tls(&case).unwrap().value.contains("unknown"));
}

#[test]
fn sealing_is_timed_for_any_block() {
    for bytes in [512, 4 << 10, 1 << 20] {
        assert!(tls::seal_ns(bytes).is_some_and(|time| time.is_finite() && time > 0.0), "{bytes}");
    }
}

fn device(name: &str, speed_mbps: u32, queues: u32) -> topology::Interface {
    let count = topology::QueueCount { now: queues, max: queues };
    topology::Interface {
        name: name.to_owned(),
        kind: topology::InterfaceKind::Device,
        speed_mbps: Some(speed_mbps),
        mtu_bytes: 1500,
        channels: Some(topology::Channels { combined: count, ..topology::Channels::default() }),
        ..topology::Interface::default()
    }
}

fn machine(interfaces: Vec<topology::Interface>) -> Topology {
    let online: topology::CpuSet = (0..16).collect();
    let processors = topology::Processors { online, ..topology::Processors::default() };
    Topology { processors, interfaces, ..Topology::default() }
}

#[test]
fn each_interface_brings_its_queues_and_the_processors_are_the_limit() {
    let topology = machine((0..4).map(|at| device(&format!("eth{at}"), 25_000, 4)).collect());
    let mut four = case(&topology, "eth0", 50);
    for name in ["eth1", "eth2", "eth3"] {
        four.paths.push(Path { interface: name.to_owned(), ..four.paths[0].clone() });
    }
    let all = Recommendations::of(&four);
    assert_eq!(value(&all, "I/O queues (-i)").unwrap().value, "16");
    assert_eq!(value(&all, "I/O queues of each path").unwrap().value, "4");
    assert!(all.commands.iter().all(|command| !command.contains("-i") || command.contains("-i 4")));
    four.paths.truncate(2);
    let all = Recommendations::of(&four);
    assert_eq!(value(&all, "I/O queues (-i)").unwrap().value, "8");
    assert_eq!(value(&all, "I/O queues of each path").unwrap().value, "4");
}

#[test]
fn a_link_of_two_paths_counts_once_and_is_named() {
    let vlan = |name: &str| topology::Interface {
        name: name.to_owned(),
        kind: topology::InterfaceKind::Vlan,
        lower: vec!["eth0".to_owned()],
        speed_mbps: Some(25_000),
        ..topology::Interface::default()
    };
    let topology = machine(vec![device("eth0", 25_000, 8), device("eth1", 25_000, 8), vlan("a"), vlan("b")]);
    let with = |names: &[&str]| {
        let mut case = case(&topology, names[0], 50);
        case.paths = names
            .iter()
            .map(|name| Path { interface: (*name).to_owned(), ..case.paths[0].clone() })
            .collect();
        let all = Recommendations::of(&case);
        let outstanding = value(&all, "outstanding I/O").unwrap().why.clone();
        let is_named =
            value(&all, "I/O queues of each path").is_some_and(|advice| advice.why.contains("go by eth0"));
        (outstanding, is_named)
    };
    let (alone, _) = with(&["eth0"]);
    assert_eq!(with(&["eth0", "eth0"]), (alone.clone(), true));
    assert_eq!(with(&["a", "b"]), (alone.clone(), true));
    let (both, is_named) = with(&["eth0", "eth1"]);
    assert!(both != alone && !is_named);
}

#[test]
fn a_bond_is_as_fast_as_the_members_that_carry() {
    let upper = |name: &str, lower: &[&str], kind, speed_mbps| topology::Interface {
        name: name.to_owned(),
        kind,
        lower: lower.iter().map(|name| (*name).to_owned()).collect(),
        speed_mbps,
        ..topology::Interface::default()
    };
    let (bond, vlan) = (topology::InterfaceKind::Bond, topology::InterfaceKind::Vlan);
    let members = ["eth0", "eth1"];
    let topology = machine(vec![
        device("eth0", 25_000, 8),
        device("eth1", 25_000, 8),
        upper("backup", &members, bond, Some(25_000)),
        upper("shared", &members, bond, Some(50_000)),
        upper("silent", &members, bond, None),
        upper("a", &["backup"], vlan, Some(25_000)),
        upper("b", &["backup"], vlan, Some(25_000)),
    ]);
    for (names, mbps) in [
        (&["backup"][..], 25_000),
        (&["shared"], 50_000),
        (&["silent"], 50_000),
        (&["a", "b"], 25_000),
        (&["eth0", "eth1"], 50_000),
    ] {
        let mut paths = case(&topology, names[0], 50);
        let first = paths.paths[0].clone();
        let path = |name: &&str| Path { interface: (*name).to_owned(), ..first.clone() };
        paths.paths = names.iter().map(path).collect();
        assert_eq!(queues::links_mbps(&paths), Some(mbps), "{names:?}");
    }
}

#[test]
fn what_a_cable_without_a_device_says_of_its_speed_is_not_believed() {
    for kind in [topology::InterfaceKind::Veth, topology::InterfaceKind::Virtual] {
        let topology = machine(vec![topology::Interface { kind, ..device("veth0", 10_000, 4) }]);
        let all = Recommendations::of(&case(&topology, "veth0", 50));
        let outstanding = value(&all, "outstanding I/O").unwrap();
        assert!(outstanding.why.contains("speed of the link is unknown"), "{outstanding:?}");
    }
}

#[test]
fn losses_without_figures_lead_to_no_advice() {
    let topology = machine(vec![device("eth0", 25_000, 8)]);
    let why = |topology: &Topology| {
        let all = Recommendations::of(&case(topology, "eth0", 50));
        value(&all, "congestion").unwrap().why.clone()
    };
    assert!(why(&topology).contains("no connection exists that would show losses"), "{}", why(&topology));
    let large = sample::topology("cpu72-queues32").unwrap();
    assert!(why(&large).contains("retransmissions of the target are not visible"), "{}", why(&large));
}
