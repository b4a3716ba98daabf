//! Tests of the statements: what is said of the made-up machines, and that nothing is said of one that is as it should be.

use topology::{Flow, Ntuple, NtupleRule, RuleScope, sample};

use super::*;
use crate::packet_path::{Survey, narrowed};

fn kinds(name: &str) -> Vec<FindingKind> {
    let survey = Survey::new(sample::topology(name).unwrap());
    survey.findings.iter().map(|finding| finding.kind).collect()
}

/// The machine with a VLAN, where a rule gives each flow the queue of its worker's processor.
pub(crate) fn tuned() -> Topology {
    let mut machine = sample::vlan();
    let rule = |flow: &Flow| {
        let worker = flow.worker.as_ref().and_then(|worker| worker.cpu)?;
        let flow = Some((flow.peer, flow.local));
        Some(NtupleRule { location: worker, flow, queue: Some(worker), scope: RuleScope::Unknown })
    };
    let rules = machine.flows.iter().filter_map(rule).collect();
    for interface in &mut machine.interfaces {
        if let Some(ntuple) = interface.ntuple.as_mut().filter(|ntuple| ntuple.is_enabled) {
            *ntuple = Ntuple { rules, ..ntuple.clone() };
            break;
        }
    }
    machine
}

#[test]
fn each_machine_has_its_faults() {
    use FindingKind::{
        InterruptOffNode, Irqbalance, PacketSteering, QueueUnreached, SharedQueue, TooFewQueues,
        WorkerElsewhere, WorkerOffNode,
    };
    let seed = [SharedQueue, WorkerElsewhere, WorkerOffNode, InterruptOffNode, Irqbalance];
    assert_eq!(kinds("cpu72-queues32"), seed);
    assert_eq!(kinds("cpu72-queues72"), seed);
    assert_eq!(
        kinds("two-nodes"),
        [
            SharedQueue,
            SharedQueue,
            WorkerElsewhere,
            WorkerElsewhere,
            WorkerOffNode,
            WorkerOffNode,
            InterruptOffNode,
            TooFewQueues,
            TooFewQueues
        ]
    );
    assert_eq!(kinds("rss-holes"), [SharedQueue, WorkerElsewhere, QueueUnreached]);
    assert_eq!(kinds("no-ntuple"), [SharedQueue, WorkerElsewhere]);
    assert_eq!(kinds("virtio-one-queue"), [TooFewQueues, PacketSteering]);
    assert_eq!(kinds("bond"), [SharedQueue, SharedQueue, WorkerElsewhere, WorkerElsewhere]);
}

#[test]
fn a_machine_that_is_as_it_should_be_has_no_faults() {
    let survey = Survey::new(tuned());
    assert_eq!(survey.findings, []);
}

#[test]
fn a_finding_names_its_flows_and_queues() {
    let survey = Survey::new(sample::rss_holes());
    let shared = &survey.findings[0];
    assert_eq!(shared.interface.as_deref(), Some("eth0"));
    assert_eq!(shared.queues, [1, 4, 5]);
    for place in &shared.flows {
        let queue = survey.courses[*place].legs[0].queue.unwrap();
        assert!(shared.queues.contains(&queue), "{place}");
    }
    assert!(shared.text.contains("Free: queues 2-3,6-7."), "{}", shared.text);
    let unreached = survey.findings.last().unwrap();
    assert_eq!(unreached.queues, [2, 3, 6, 7]);
}

#[test]
fn two_flows_in_one_of_two_queues_are_reported_and_three_in_two_are_not_when_none_is_free() {
    let mut machine = tuned();
    let busy: Vec<Flow> = machine.flows.drain(..).filter(Flow::is_io).collect();
    machine.flows = busy;
    // All queues taken, one of them twice: nothing is free, and so the placement is not at fault.
    let mut again = machine.flows[0].clone();
    again.local.set_port(1);
    for interface in &mut machine.interfaces {
        if let Some(ntuple) = interface.ntuple.as_mut().filter(|ntuple| ntuple.is_enabled) {
            ntuple.rules.push(NtupleRule {
                location: 100,
                flow: Some((again.peer, again.local)),
                queue: Some(0),
                scope: RuleScope::Unknown,
            });
        }
    }
    machine.flows.push(again);
    let is_reported = |machine: &Topology| {
        let survey = Survey::new(machine.clone());
        survey.findings.iter().any(|finding| finding.kind == FindingKind::SharedQueue)
    };
    assert!(!is_reported(&machine));
    machine.flows.remove(3);
    assert!(is_reported(&machine));
}

#[test]
fn without_flows_the_interrupts_are_still_judged() {
    let machine = Topology { flows: Vec::new(), ..sample::two_nodes() };
    let found = Survey::new(machine).findings;
    let kinds: Vec<FindingKind> = found.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::InterruptOffNode]);
    assert!(found[0].text.contains("eth1's 8 receive queues"), "{}", found[0].text);
}

#[test]
fn names_in_a_row_are_few() {
    let names = |count: usize| (1..=count).map(|at| at.to_string()).collect::<Vec<_>>();
    assert_eq!(listed(&names(1)), "1");
    assert_eq!(listed(&names(2)), "1 and 2");
    assert_eq!(listed(&names(4)), "1, 2, 3 and 4");
    assert_eq!(listed(&names(9)), "1, 2, 3 and 6 more");
}

#[test]
fn an_interface_brings_what_it_stands_on_and_what_uses_it() {
    let names = |machine: &Topology| -> Vec<String> {
        machine.interfaces.iter().map(|interface| interface.name.clone()).collect()
    };
    let one = narrowed(sample::two_nodes(), &["eth1".to_owned()]).unwrap();
    assert_eq!(names(&one), ["eth1"]);
    assert_eq!(one.flows.len(), 17);
    assert!(one.flows.iter().all(|flow| flow.controller == "nvme1"));
    let member = narrowed(sample::bond(), &["eth1".to_owned()]).unwrap();
    assert_eq!(names(&member), ["eth0", "eth1", "bond0"]);
    assert_eq!(member.flows.len(), 9);
    let failure = narrowed(sample::bond(), &["eth7".to_owned()]).unwrap_err();
    assert!(failure.line().is_some_and(|line| line.contains("eth7") && line.contains("bond0")));
}

#[test]
fn json_has_its_names() {
    let survey = Survey::new(sample::cpu72(32));
    let json = serde_json::to_value(&survey).unwrap();
    assert_eq!(json["topology"]["interfaces"][1]["name"], "eth0");
    assert_eq!(json["topology"]["flows"][1]["queue_id"], 1);
    assert_eq!(json["courses"][1]["flow"], 1);
    let leg = &json["courses"][1]["legs"][0];
    for name in
        ["interface", "hash", "steering", "queue", "irq", "cpus", "cpu", "transmit_queue", "is_workers"]
    {
        assert!(leg.get(name).is_some_and(|value| !value.is_null()), "{name}");
    }
    assert_eq!(leg["steering"]["by"], "rss");
    assert_eq!(json["findings"][0]["kind"], "shared-queue");
    for name in ["interface", "text", "flows", "queues"] {
        assert!(json["findings"][0].get(name).is_some(), "{name}");
    }
    let back: Topology = serde_json::from_value(json["topology"].clone()).unwrap();
    assert_eq!(back, sample::cpu72(32));
}
