//! What a topology would be after changes, so that a plan can be judged by the same reckoning as what was seen.

use super::change::{Change, Step};
use crate::{Channels, Flow, Interface, Interrupt, ReceiveQueue, Topology, TransmitQueue, Worker};

/// The topology after all steps.
pub fn applied(topology: &Topology, steps: &[Step]) -> Topology {
    let mut topology = topology.clone();
    for step in steps {
        apply(&mut topology, &step.change);
    }
    topology
}

fn apply(topology: &mut Topology, change: &Change) {
    if let Some(interface) =
        change.interface().and_then(|name| topology.interfaces.iter_mut().find(|known| known.name == name))
    {
        apply_to_interface(interface, change);
    }
    match change {
        Change::Affinity { irq, cpus, .. } => {
            for interrupt in interrupts(topology).filter(|interrupt| interrupt.irq == *irq) {
                interrupt.affinity = cpus.clone();
                interrupt.effective = interrupt.effective.as_ref().map(|_| cpus.clone());
            }
        }
        Change::Thread { thread, cpus, .. } => {
            for worker in workers(&mut topology.flows).filter(|worker| worker.thread == Some(*thread)) {
                worker.allowed = cpus.clone();
                worker.cpu = cpus.only().or(worker.cpu);
            }
        }
        _ => {}
    }
}

fn interrupts(topology: &mut Topology) -> impl Iterator<Item = &mut Interrupt> {
    topology.interfaces.iter_mut().flat_map(|interface| {
        let receive = interface.receive.iter_mut().map(|queue| &mut queue.interrupt);
        receive.chain(interface.transmit.iter_mut().map(|queue| &mut queue.interrupt)).flatten()
    })
}

fn workers(flows: &mut [Flow]) -> impl Iterator<Item = &mut Worker> {
    flows.iter_mut().filter_map(|flow| flow.worker.as_mut())
}

fn apply_to_interface(interface: &mut Interface, change: &Change) {
    match change {
        Change::Channels { channels, .. } => set_channels(interface, *channels),
        Change::NtupleOn { .. } => {
            if let Some(ntuple) = &mut interface.ntuple {
                ntuple.is_enabled = true;
            }
        }
        Change::Rule { rule, .. } => {
            if let Some(ntuple) = &mut interface.ntuple {
                ntuple.rules.retain(|known| known.location != rule.location);
                ntuple.rules.push(rule.clone());
            }
        }
        Change::RssTable { table, .. } => {
            if let Some(rss) = &mut interface.rss {
                rss.table.clone_from(table);
            }
        }
        Change::Xps { queue, cpus, .. } => {
            for known in interface.transmit.iter_mut().filter(|known| known.index == *queue) {
                known.xps = Some(cpus.clone());
            }
        }
        Change::Rps { queue, cpus, .. } => {
            for known in interface.receive.iter_mut().filter(|known| known.index == *queue) {
                known.rps = cpus.clone();
            }
        }
        Change::Affinity { .. } | Change::Thread { .. } => {}
    }
}

/// Gives an interface these channels: queues that go are gone, queues that come have nothing set.
pub(super) fn set_channels(interface: &mut Interface, channels: Channels) {
    interface.channels = Some(channels);
    let (receive, transmit) = match channels.combined.max {
        0 => (channels.receive.now, channels.transmit.now),
        _ => {
            let combined = channels.combined.now;
            (combined + channels.receive.now, combined + channels.transmit.now)
        }
    };
    interface.receive.retain(|queue| queue.index < receive);
    interface.transmit.retain(|queue| queue.index < transmit);
    for index in interface.receive.len() as u32..receive {
        interface.receive.push(ReceiveQueue { index, ..ReceiveQueue::default() });
    }
    let has_xps = interface.transmit.iter().any(|queue| queue.xps.is_some()) || transmit > 1;
    for index in interface.transmit.len() as u32..transmit {
        let xps = has_xps.then(crate::CpuSet::default);
        interface.transmit.push(TransmitQueue { index, interrupt: None, xps });
    }
}
