//! Plans for topologies made at random, judged by what the topology would be afterwards and not by what the plan says.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::model::{Costs, Load, simulate};
use crate::{
    Flow, FlowOwner, FlowSource, Interrupt, MaskedEnd, Node, Ntuple, NtupleRule, Processors, ReceiveQueue,
    Rss, RssFields, RuleScope, Steering, TransmitQueue, Worker, course, receive_queue, sample,
};

/// Numbers that follow from a seed.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % limit.max(1)
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// A machine with one or two NICs and flows over them.
fn any_topology(seed: u64) -> Topology {
    let mut chance = Chance(seed);
    let processors = any_processors(&mut chance);
    let mut topology = Topology { processors, ..Topology::default() };
    for index in 0..1 + chance.below(2) {
        let interface = any_nic(&mut chance, &topology, index);
        topology.interfaces.push(interface);
    }
    for at in 0..chance.below(3 * topology.processors.online.len() as u32) {
        let flow = any_flow(&mut chance, &topology, at);
        topology.flows.push(flow);
    }
    topology
}

fn any_processors(chance: &mut Chance) -> Processors {
    let (nodes, per_node) = (1 + chance.below(3), 1 + chance.below(9));
    let count = nodes * per_node;
    let node = |id: u32| Node { id: id as u16, cpus: (id * per_node..(id + 1) * per_node).collect() };
    let online: CpuSet = (0..count).filter(|cpu| *cpu == 0 || !chance.one_in(8)).collect();
    let isolated = online.iter().filter(|_| chance.one_in(8)).collect();
    Processors {
        online,
        isolated,
        nodes: (0..nodes).map(node).collect(),
        cores: (0..count).map(CpuSet::one).collect(),
    }
}

fn any_nic(chance: &mut Chance, topology: &Topology, index: u32) -> Interface {
    let queues = 1 + chance.below(24);
    let online: Vec<u32> = topology.processors.online.iter().collect();
    let any_cpu = |chance: &mut Chance| online[chance.below(online.len() as u32) as usize];
    let interrupt = |chance: &mut Chance, queue: u32| Interrupt {
        irq: 100 * (index + 1) + queue,
        affinity: if chance.one_in(3) {
            topology.processors.online.clone()
        } else {
            CpuSet::one(any_cpu(chance))
        },
        ..Interrupt::default()
    };
    let receive = (0..queues)
        .map(|queue| ReceiveQueue {
            index: queue,
            interrupt: Some(interrupt(chance, queue)),
            rps: if chance.one_in(5) { CpuSet::one(any_cpu(chance)) } else { CpuSet::default() },
            rps_flows: 0,
        })
        .collect();
    let transmit: Vec<TransmitQueue> = (0..queues)
        .map(|queue| TransmitQueue {
            index: queue,
            interrupt: None,
            xps: Some(if chance.one_in(2) { CpuSet::one(any_cpu(chance)) } else { CpuSet::default() }),
        })
        .collect();
    let named = 1 + chance.below(queues);
    let table = (0..[16, 128][chance.below(2) as usize]).map(|_| chance.below(named)).collect();
    let foreign = NtupleRule { location: 1, flow: None, queue: None, scope: RuleScope::OtherProtocol };
    let rules = if chance.one_in(2) { Vec::new() } else { vec![foreign] };
    let nodes = topology.processors.nodes.len() as u32;
    Interface {
        name: format!("eth{index}"),
        index: index + 1,
        kind: InterfaceKind::Device,
        node: if chance.one_in(4) { None } else { Some(chance.below(nodes) as u16) },
        channels: Some(Channels {
            combined: QueueCount { now: queues, max: queues + 8 },
            ..Channels::default()
        }),
        rss: Some(Rss { key: (0..40).map(|at| (at * 37 + 11) as u8).collect(), table, ..Rss::default() }),
        ntuple: Some(Ntuple {
            is_supported: chance.one_in(2),
            is_enabled: false,
            is_switchable: true,
            places: Some(64),
            rules,
        }),
        receive,
        transmit,
        ..Interface::default()
    }
}

fn any_flow(chance: &mut Chance, topology: &Topology, at: u32) -> Flow {
    let cpus: Vec<u32> = topology.processors.online.iter().collect();
    let cpu = cpus[chance.below(cpus.len() as u32) as usize];
    let name = topology.interfaces[chance.below(topology.interfaces.len() as u32) as usize].name.clone();
    let (owner, worker) = match chance.below(3) {
        0 => (FlowOwner::Kernel, None),
        1 => (
            FlowOwner::Kernel,
            Some(Worker { thread: None, cpu: Some(cpu), allowed: CpuSet::one(cpu), is_movable: false }),
        ),
        _ => {
            let thread = Some(1000 + at / (1 + chance.below(2)));
            let allowed = topology.processors.online.clone();
            (
                FlowOwner::Initiator { pid: 1 },
                Some(Worker { thread, cpu: Some(cpu), allowed, is_movable: true }),
            )
        }
    };
    Flow {
        owner,
        controller: "nvme0".to_owned(),
        subsystem_nqn: None,
        queue_id: Some(at as u16),
        source: FlowSource::Program,
        worker,
        local: format!("10.0.0.1:{}", 32_768 + at).parse().unwrap(),
        peer: "10.0.0.2:4420".parse().unwrap(),
        interface: Some(name),
        receive_queue_bytes: 0,
        send_queue_bytes: 0,
        rtt_us: None,
        retransmissions: None,
    }
}

/// The plan, whatever the model says of it.
fn planned(topology: &Topology) -> Option<Plan> {
    match plan_as_asked(topology, &PlanOptions::default()) {
        Ok(plan) => Some(plan),
        Err(error) => {
            assert_eq!(error, PlanError::NothingToPlanFor);
            assert!(topology.flows.is_empty());
            None
        }
    }
}

/// No two flows on a queue while another that may be used is free, unless they share an entry of the table of an
/// interface that takes no rules.
fn flows_are_spread(before: &Topology, after: &Topology) {
    for interface in &after.interfaces {
        let table = &before.interface(&interface.name).unwrap().rss.as_ref().unwrap().table;
        let usable: BTreeSet<u32> = table.iter().copied().collect();
        let flows = after
            .flows
            .iter()
            .filter(|flow| flow.is_io() && flow.interface.as_ref() == Some(&interface.name));
        let mut on_queue: BTreeMap<u32, Vec<Steering>> = BTreeMap::new();
        for flow in flows {
            let (_, _, queue) = receive_queue(interface, flow.peer, flow.local);
            let by_hash =
                receive_queue(&Interface { ntuple: None, ..interface.clone() }, flow.peer, flow.local).0;
            on_queue.entry(queue.unwrap()).or_default().push(by_hash);
        }
        let has_free = usable.iter().any(|queue| !on_queue.contains_key(queue));
        let takes_rules = interface.ntuple.as_ref().unwrap().is_supported;
        for (queue, entries) in &on_queue {
            let alone =
                entries.len() == 1 || !takes_rules && entries.iter().all(|entry| *entry == entries[0]);
            assert!(alone || !has_free, "{} flows on queue {queue} of {}", entries.len(), interface.name);
        }
    }
}

/// No interrupt that the plan moved is off its interface's node while a processor there serves no queue of a flow.
fn processors_are_near(before: &Topology, plan: &Plan, after: &Topology) {
    let may = before.processors.online.difference(&before.processors.isolated);
    let may = if may.is_empty() { before.processors.online.clone() } else { may };
    let flows = after.flows.iter().filter(|flow| flow.is_io()).flat_map(|flow| course(after, flow));
    let mut serving: BTreeSet<u32> = flows.filter_map(|leg| leg.cpu).collect();
    // An interface without flows gets ready for some.
    let has_flows =
        |name: &str| after.flows.iter().any(|flow| flow.is_io() && flow.interface.as_deref() == Some(name));
    for interface in after.interfaces.iter().filter(|interface| !has_flows(&interface.name)) {
        let interrupts = interface.receive.iter().filter_map(|queue| queue.interrupt.as_ref());
        serving.extend(interrupts.filter_map(|interrupt| interrupt.affinity.only()));
    }
    for step in &plan.steps {
        let Change::Affinity { irq, cpus, .. } = &step.change else { continue };
        let has = |interface: &&Interface| {
            interface.receive.iter().any(|queue| queue.interrupt.as_ref().is_some_and(|own| own.irq == *irq))
        };
        let Some(node) = after.interfaces.iter().find(has).unwrap().node else { continue };
        let cpu = cpus.only().expect("one processor for each interrupt");
        let here = after.processors.online_on(Some(node));
        let is_free = here.intersection(&may).iter().any(|cpu| !serving.contains(&cpu));
        assert!(
            here.contains(cpu) || !is_free,
            "interrupt {irq} on CPU {cpu}, off node {node}; {serving:?} {here} {may} {:#?}",
            plan.steps
        );
    }
}

fn limits_hold(topology: &Topology, plan: &Plan) {
    for interface in &plan.interfaces {
        let combined = topology.interface(&interface.interface).unwrap().channels.unwrap().combined.now;
        assert_eq!(interface.limit.queues, combined.min(topology.processors.online.len() as u32));
    }
}

/// A worker that can be moved and has one flow, which has its queue alone, is where the queue is served.
fn workers_are_with_their_queues(after: &Topology) {
    let io = || after.flows.iter().filter(|flow| flow.is_io());
    let thread = |flow: &Flow| {
        flow.worker.as_ref().filter(|worker| worker.is_movable).and_then(|worker| worker.thread)
    };
    for flow in io().filter(|flow| thread(flow).is_some()) {
        let leg = &course(after, flow)[0];
        let shares = |other: &&Flow| {
            let theirs = &course(after, other)[0];
            thread(other) == thread(flow) || (&theirs.interface, theirs.queue) == (&leg.interface, leg.queue)
        };
        if io().filter(shares).count() == 1 {
            assert_eq!(leg.is_workers, Some(true), "{flow:?} {leg:?}");
        }
    }
}

/// Checks that everything outside the plan is as it was, and that each change says why and how.
fn nothing_else_changes(before: &Topology, plan: &Plan, after: &Topology) {
    let used: BTreeSet<&String> = before.flows.iter().filter_map(|flow| flow.interface.as_ref()).collect();
    for interface in before.interfaces.iter().filter(|interface| !used.contains(&interface.name)) {
        assert_eq!(Some(interface), after.interface(&interface.name));
    }
    assert!(plan.after.most_on_a_queue <= plan.before.most_on_a_queue);
    for step in &plan.steps {
        assert!(!step.why.is_empty() && !step.change.shell().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_plan_spreads_flows_and_keeps_them_near(seed: u64) {
        is_planned_well(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_plan_is_slower_by_the_model_or_leaves_workers_alone_for_nothing(seed: u64) {
        is_no_worse(seed);
    }
}

fn is_no_worse(seed: u64) {
    let before = any_topology(seed);
    let Some(asked) = planned(&before) else { return };
    let made = plan(&before, &PlanOptions::default()).unwrap();
    let iops = |topology: &Topology| simulate(topology, &Costs::FITTED, &Load::SEED).iops;
    let after = applied(&before, &made.steps);
    let (now, then) = (iops(&before), iops(&after));
    let slack = before.flows.iter().filter(|flow| flow.is_io()).count() as f64;
    assert!(then >= 0.99 * now - slack, "{then} instead of {now}: {:#?}", made.steps);
    if made.steps.is_empty() && !asked.steps.is_empty() {
        assert_eq!(made.before, made.after);
        assert!(made.notes.iter().any(|note| note.starts_with("nothing is changed")), "{:?}", made.notes);
    }
}

/// Workers of the kernel and their interrupts on one processor each, off the card's node: bringing the interrupts to the card
/// would hand each packet over to another node.
#[test]
fn interrupts_that_are_with_their_workers_stay_there() {
    let mut machine = sample::vlan();
    machine.processors.nodes =
        vec![Node { id: 0, cpus: (0..4).collect() }, Node { id: 1, cpus: (4..8).collect() }];
    for interface in &mut machine.interfaces {
        if let Some(ntuple) = &mut interface.ntuple {
            ntuple.rules.clear();
        }
        let interrupts = interface.receive.iter_mut().filter_map(|queue| queue.interrupt.as_mut());
        for (at, interrupt) in interrupts.enumerate() {
            interrupt.affinity = CpuSet::one(4 + at as u32 % 4);
            interrupt.effective = None;
        }
    }
    machine.flows.retain(Flow::is_io);
    machine.flows.truncate(4);
    for (at, flow) in machine.flows.iter_mut().enumerate() {
        let cpu = Some(4 + at as u32);
        flow.worker = Some(Worker { thread: None, cpu, allowed: CpuSet::default(), is_movable: false });
    }
    let follows = PlanOptions { follows_workers: true, ..PlanOptions::default() };
    let matched = applied(&machine, &plan(&machine, &follows).unwrap().steps);
    let asked = planned(&matched).unwrap();
    assert_eq!((asked.before.on_workers_cpu, asked.after.on_workers_cpu), (4, 0), "{asked:#?}");
    let made = plan(&matched, &PlanOptions::default()).unwrap();
    assert_eq!(made.after, made.before, "{made:#?}");
    assert!(made.notes.iter().any(|note| note.starts_with("interrupts stay with")), "{:?}", made.notes);
    // A caller that may not use their processors is not offered a better place.
    let options = PlanOptions { cpus: Some((0..4).collect()), ..PlanOptions::default() };
    let refused = plan(&matched, &options).unwrap();
    assert_eq!(refused.steps, []);
    assert!(refused.notes.iter().any(|note| note.starts_with("nothing is changed")), "{:?}", refused.notes);
    // Without workers at their places, only the processors that it may use have interrupts.
    let free = Topology { flows: Vec::new(), ..matched };
    let options = PlanOptions { interfaces: vec!["eth0".to_owned()], ..options };
    let made = plan(&free, &options).unwrap();
    let used = made.steps.iter().filter_map(|step| match &step.change {
        Change::Affinity { cpus, .. } => cpus.only(),
        _ => None,
    });
    assert!(!made.steps.is_empty() && used.into_iter().all(|cpu| cpu < 4), "{made:#?}");
}

/// An administrator's rule for all that comes from port 4420: it decides where flows arrive, it
/// stays, and rules for single flows go before it where there is room.
#[test]
fn an_administrators_rule_for_several_flows_is_not_ignored() {
    let any =
        MaskedEnd { address: [0, 0, 0, 0].into(), address_mask: [0, 0, 0, 0].into(), port: 0, port_mask: 0 };
    let from_4420 = MaskedEnd { port: 4420, port_mask: u16::MAX, ..any };
    let masked = RuleScope::Masked { source: from_4420, destination: any };
    let machine = |scope: RuleScope, location: u32| {
        let mut machine = sample::vlan();
        for ntuple in machine.interfaces.iter_mut().filter_map(|interface| interface.ntuple.as_mut()) {
            ntuple.rules = vec![NtupleRule { location, flow: None, queue: Some(2), scope }];
        }
        machine
    };
    let led = Standing::of(&machine(masked, 100));
    assert_eq!((led.queue_known, led.share_a_queue, led.most_on_a_queue), (led.flows, led.flows, led.flows));
    assert_eq!(Standing::of(&machine(RuleScope::Unknown, 100)).queue_known, 0);
    assert_ne!(Standing::of(&machine(RuleScope::OtherProtocol, 100)), led);
    for scope in [masked, RuleScope::Unknown] {
        let before = machine(scope, 100);
        let roomy = plan(&before, &PlanOptions::default()).unwrap();
        assert_eq!(roomy.after.share_a_queue, 0, "{roomy:#?}");
        let after = applied(&before, &roomy.steps);
        let kept = after.interfaces.iter().filter_map(|interface| interface.ntuple.as_ref());
        assert!(
            kept.flat_map(|ntuple| &ntuple.rules).any(|rule| rule.location == 100 && rule.flow.is_none())
        );
        let full = plan(&machine(scope, 1), &PlanOptions::default()).unwrap();
        assert!(full.steps.iter().all(|step| !matches!(step.change, Change::Rule { .. })), "{full:#?}");
        assert!(full.notes.iter().any(|note| note.contains("delete 1")), "{:?}", full.notes);
    }
}

/// Flows that come by one queue since ports are not hashed: their senders keep their own transmit queues.
#[test]
fn senders_do_not_crowd_where_receivers_have_to() {
    let mut machine = sample::vlan();
    for interface in &mut machine.interfaces {
        interface.ntuple = interface.ntuple.take().map(|_| Ntuple::default());
        if let Some(rss) = &mut interface.rss {
            rss.tcp4 = RssFields::Addresses;
        }
    }
    let made = plan(&machine, &PlanOptions::default()).unwrap();
    assert!(made.before.most_on_a_queue > 2, "{:?}", made.before);
    assert!(made.steps.iter().all(|step| !matches!(step.change, Change::Xps { .. })), "{:#?}", made.steps);
    assert!(made.notes.iter().any(|note| note.contains("rx-flow-hash tcp4 sdfn")), "{:?}", made.notes);
}

/// Entries of the table with several flows, two of which were a fair share of one queue while another had none. One
/// topology in 400,000 has it.
#[test]
fn no_queue_is_left_free_where_entries_have_several_flows() {
    for seed in [5486331410740745925, 17779164349388020297, 5626093396925519525, 14660658244863342045] {
        is_planned_well(seed);
    }
}

fn is_planned_well(seed: u64) {
    let before = any_topology(seed);
    let Some(plan) = planned(&before) else { return };
    let after = applied(&before, &plan.steps);
    flows_are_spread(&before, &after);
    processors_are_near(&before, &plan, &after);
    limits_hold(&before, &plan);
    workers_are_with_their_queues(&after);
    nothing_else_changes(&before, &plan, &after);
    let again = planned(&after).unwrap();
    assert!(again.steps.is_empty(), "a second plan changes more: {:?}", again.steps);
}

#[test]
fn what_cannot_be_planned_is_said() {
    let none = Topology::default();
    assert_eq!(plan(&none, &PlanOptions::default()), Err(PlanError::NothingToPlanFor));
    let mut chance = Chance(7);
    let topology = (1..).map(any_topology).find(|topology| !topology.flows.is_empty()).unwrap();
    let with = |change: &dyn Fn(&mut PlanOptions)| {
        let mut options = PlanOptions::default();
        change(&mut options);
        plan(&topology, &options).unwrap_err().to_string()
    };
    let nowhere = with(&|options| options.interfaces = vec!["eth9".to_owned()]);
    assert!(nowhere.contains("`eth9`") && nowhere.contains("eth0"), "{nowhere}");
    let offline = with(&|options| options.cpus = Some(CpuSet::one(4000)));
    assert!(offline.contains("4000"), "{offline}");
    let queues = with(&|options| options.queues = Some(QueuesWanted::Count(1000)));
    assert!(queues.contains("not 1000"), "{queues}");
    let loopback = Interface { name: "lo".to_owned(), kind: InterfaceKind::Loopback, ..Interface::default() };
    let mut alone = Topology { interfaces: vec![loopback], flows: Vec::new(), ..topology.clone() };
    let mut flow = any_flow(&mut chance, &topology, 1);
    flow.interface = Some("lo".to_owned());
    alone.flows.push(flow);
    let plan = planned(&alone).unwrap();
    assert!(plan.steps.is_empty() && plan.notes[0].contains("machine itself"), "{plan:?}");
}

#[test]
fn the_number_of_queues_is_changed_and_what_depends_on_it_waits() {
    let topology = (1..).map(any_topology).find(|topology| !topology.flows.is_empty()).unwrap();
    let options = PlanOptions { queues: Some(QueuesWanted::Count(1)), ..PlanOptions::default() };
    let made = plan(&topology, &options).unwrap();
    assert!(made.steps.iter().all(|step| matches!(step.change, Change::Channels { .. })), "{:?}", made.steps);
    assert!(made.notes.iter().any(|note| note.contains("plan again")), "{:?}", made.notes);
    // A cable without interrupts has nothing that is known only afterwards.
    let queues = |count: u32| 0..count;
    let veth = Interface {
        name: "veth0".to_owned(),
        kind: InterfaceKind::Veth,
        channels: Some(Channels {
            receive: QueueCount { now: 1, max: 4 },
            transmit: QueueCount { now: 1, max: 4 },
            ..Channels::default()
        }),
        receive: queues(1).map(|index| ReceiveQueue { index, ..ReceiveQueue::default() }).collect(),
        transmit: queues(1).map(|index| TransmitQueue { index, ..TransmitQueue::default() }).collect(),
        ..Interface::default()
    };
    let online = (0..4).collect();
    let processors = Processors { online, cores: (0..4).map(CpuSet::one).collect(), ..Processors::default() };
    let cable = Topology { processors, interfaces: vec![veth], ..Topology::default() };
    let options = PlanOptions {
        interfaces: vec!["veth0".to_owned()],
        queues: Some(QueuesWanted::Most),
        ..PlanOptions::default()
    };
    let made = plan(&cable, &options).unwrap();
    let shell: Vec<String> = made.steps.iter().map(|step| step.change.shell()).collect();
    assert_eq!(shell[0], "ethtool -L veth0 rx 4 tx 4");
    assert!(shell.contains(&"echo 8 > /sys/class/net/veth0/queues/rx-3/rps_cpus".to_owned()), "{shell:?}");
    assert!(shell.contains(&"echo 8 > /sys/class/net/veth0/queues/tx-3/xps_cpus".to_owned()), "{shell:?}");
    assert_eq!(plan(&applied(&cable, &made.steps), &options).unwrap().steps, []);
}
