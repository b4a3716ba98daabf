//! Advice for made-up machines and for a sweep's sample.

use topology::sample;

use super::*;

fn case<'a>(topology: &'a Topology, interface: &str, rtt_us: u64) -> Case<'a> {
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

fn value<'a>(all: &'a Recommendations, setting: &str) -> Option<&'a Recommendation> {
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
    assert_eq!((congestion.value.as_str(), &congestion.now), ("cubic", &None));
    assert!(value(&all, "MTU").is_none(), "it has large packets already");
    assert!(value(&all, "net.ipv4").is_none(), "the usual buffers are enough for a short way");
    assert_eq!(value(&all, "CPU frequency").unwrap().now.as_deref(), Some("powersave"));
    assert!(all.commands[0].contains("-i 32 --match-hw-queues"), "{:?}", all.commands);
    let text = all.to_string();
    assert!(text.contains("(a published table has for such a case: high outstanding"), "{text}");
}

#[test]
fn a_way_that_loses_is_told_from_one_that_lost() {
    let mut topology = sample::topology("cpu72-queues32").unwrap();
    let congestion = |topology: &Topology| {
        value(&Recommendations::of(&case(topology, "eth0", 50)), "congestion").unwrap().value.clone()
    };
    assert!(topology.flows.iter().any(|flow| flow.retransmissions > Some(0)));
    assert_eq!(congestion(&topology), "cubic");
    topology.flows.iter_mut().for_each(|flow| flow.retransmissions = Some(200));
    assert_eq!(congestion(&topology), "bbr");
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
    assert_eq!((congestion.value.as_str(), congestion.now.as_deref()), ("bbr", Some("cubic")));
    assert_eq!(value(&all, "I/O queues of each path").unwrap().value, "16");
    // 100 Gbit/s for 10 ms are 125 MB.
    assert_eq!(value(&all, "net.ipv4.tcp_rmem").unwrap().value, (1_u64 << 28).to_string());
    assert_eq!(value(&all, "net.ipv4.tcp_wmem").unwrap().now.as_deref(), Some("4194304"));
    long.congestion_available = "reno cubic".to_owned();
    let all = Recommendations::of(&long);
    assert_eq!(value(&all, "congestion").unwrap().command.as_deref(), Some("modprobe tcp_bbr"));
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
    assert!(tls(&case).unwrap().value.contains("not known"));
}

#[test]
fn sealing_is_timed_for_any_block() {
    for bytes in [512, 4 << 10, 1 << 20] {
        assert!(tls::seal_ns(bytes).is_some_and(|time| time.is_finite() && time > 0.0), "{bytes}");
    }
}
