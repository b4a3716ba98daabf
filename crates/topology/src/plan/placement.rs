//! Which processor serves each queue: the worker's where that is on the interface's node, else a free one there; another
//! node's only when none is free.

use std::collections::BTreeMap;

use super::PlanOptions;
use super::assignment::Assignment;
use super::group::{Group, PlannedFlow, PlannedWorker};
use crate::{CpuSet, Interrupt, Topology};

/// Processors that queues of this plan already have.
#[derive(Debug)]
pub(super) struct Taken {
    /// Processors that may be chosen.
    may: CpuSet,
    queues: BTreeMap<u32, u32>,
    /// Threads that have their place.
    threads: BTreeMap<u32, u32>,
}

impl Taken {
    /// None is taken. Isolated processors are not chosen, unless the options name them.
    pub(super) fn new(topology: &Topology, options: &PlanOptions) -> Self {
        let processors = &topology.processors;
        let shared = processors.online.difference(&processors.isolated);
        let may = match &options.cpus {
            Some(cpus) => cpus.intersection(&processors.online),
            None if shared.is_empty() => processors.online.clone(),
            None => shared,
        };
        Self { may, queues: BTreeMap::new(), threads: BTreeMap::new() }
    }

    fn count(&self, cpu: u32) -> u32 {
        self.queues.get(&cpu).copied().unwrap_or(0)
    }

    fn is_free(&self, cpu: u32) -> bool {
        self.may.contains(cpu) && self.count(cpu) == 0
    }

    fn take(&mut self, cpu: u32) {
        *self.queues.entry(cpu).or_default() += 1;
    }
}

/// The processor of each queue that is used, and threads with the processor they move to.
#[derive(Debug, Default)]
pub(super) struct Placement {
    pub(super) cpus: BTreeMap<u32, u32>,
    /// Process, thread, processor.
    pub(super) moves: Vec<(u32, u32, u32)>,
    /// Processor of each flow's worker, where it is or will be known.
    pub(super) workers: Vec<Option<u32>>,
}

impl Placement {
    /// Chooses.
    pub(super) fn new(
        topology: &Topology,
        group: &Group,
        assignment: &Assignment,
        options: &PlanOptions,
        taken: &mut Taken,
    ) -> Self {
        let mut placement = Self::default();
        let mut planned_flows: BTreeMap<u32, Vec<&PlannedWorker>> = BTreeMap::new();
        for (planned_flow, queue) in group.planned_flows.iter().zip(&assignment.queues) {
            if let Some(queue) = queue {
                planned_flows.entry(*queue).or_default().push(&planned_flow.worker);
            }
        }
        // Where interrupts follow workers, every processor is as good as one of the node.
        let node = if options.follows_workers { None } else { group.node };
        let near = topology.processors.online_on(node);
        let node = topology.processors.online_on(group.node);
        let may = taken.may.clone();
        let stays = |workers: &[&PlannedWorker]| {
            let mut fixed = workers.iter().filter_map(|worker| match worker {
                // One that the plan may not use serves no queue, also where a worker stays there.
                PlannedWorker::Fixed(cpu) if may.contains(*cpu) => Some(*cpu),
                _ => None,
            });
            fixed.clone().find(|cpu| near.contains(*cpu)).or_else(|| fixed.next())
        };
        // First those whose worker is where it should be, then those that can have any place, then the others.
        let rank = |workers: &[&PlannedWorker]| match stays(workers) {
            Some(cpu) if near.contains(cpu) => 0,
            None => 1,
            Some(_) => 2,
        };
        // RPS that spreads the packets of several flows is intended, and one processor would be
        // less.
        let is_spread =
            |queue: u32, workers: &[&PlannedWorker]| workers.len() > 1 && is_spread(topology, group, queue);
        let mut order: Vec<(u32, Vec<&PlannedWorker>)> =
            planned_flows.into_iter().filter(|(queue, workers)| !is_spread(*queue, workers)).collect();
        order.sort_by_key(|(queue, workers)| (rank(workers), *queue));
        for (queue, workers) in order {
            let stays = stays(&workers);
            let of_thread = workers.iter().find_map(|worker| match worker {
                PlannedWorker::Movable { thread, .. } => taken.threads.get(thread).copied(),
                _ => None,
            });
            let cpu = stays.or(of_thread).filter(|cpu| near.contains(*cpu)).unwrap_or_else(|| {
                let wishes = wishes(topology, group, queue, &workers);
                choose(topology, taken, &node, &wishes, stays)
            });
            taken.take(cpu);
            placement.cpus.insert(queue, cpu);
            placement.move_worker(&workers, cpu, taken);
        }
        placement
    }

    /// The first worker of a queue that can be moved moves to the queue's processor; others of it stay where they are.
    fn move_worker(&mut self, workers: &[&PlannedWorker], cpu: u32, taken: &mut Taken) {
        let first = workers.iter().find_map(|worker| match worker {
            PlannedWorker::Movable { pid, thread, allowed } => Some((*pid, *thread, allowed)),
            _ => None,
        });
        let Some((pid, thread, allowed)) = first.filter(|(_, thread, _)| !taken.threads.contains_key(thread))
        else {
            return;
        };
        taken.threads.insert(thread, cpu);
        if allowed.only() != Some(cpu) {
            self.moves.push((pid, thread, cpu));
        }
    }

    /// Determines the processor of each flow's worker, once all threads are placed.
    pub(super) fn follow(&mut self, group: &Group, assignment: &Assignment, taken: &Taken) {
        let cpu = |(planned_flow, queue): (&PlannedFlow, &Option<u32>)| match &planned_flow.worker {
            PlannedWorker::Fixed(cpu) => Some(*cpu),
            PlannedWorker::Movable { thread, allowed, .. } => {
                taken.threads.get(thread).copied().or_else(|| allowed.only())
            }
            PlannedWorker::Unknown(_) => queue.and_then(|queue| self.cpus.get(&queue).copied()),
        };
        self.workers = group.planned_flows.iter().zip(&assignment.queues).map(cpu).collect();
    }
}

/// True if RPS moves the packets of this queue to other processors than its interrupt's.
fn is_spread(topology: &Topology, group: &Group, queue: u32) -> bool {
    let mut receive = group.interfaces(topology).into_iter().flat_map(|leg| &leg.receive);
    receive.any(|receive| receive.index == queue && receive.interrupt.is_some() && !receive.rps.is_empty())
}

/// Processors that a queue would rather have, the best first: those its workers may be on, and its own now.
fn wishes(topology: &Topology, group: &Group, queue: u32, workers: &[&PlannedWorker]) -> Vec<u32> {
    let mut wishes: Vec<u32> = Vec::new();
    let receive = group.interfaces(topology).into_iter().flat_map(|leg| &leg.receive);
    for receive in receive.filter(|receive| receive.index == queue) {
        wishes.extend(receive.interrupt.as_ref().and_then(Interrupt::cpu).or_else(|| receive.rps.only()));
    }
    let likely = workers.iter().filter_map(|worker| match worker {
        PlannedWorker::Unknown(cpus) => Some(cpus),
        _ => None,
    });
    let likely: Vec<u32> = likely.flat_map(CpuSet::iter).collect();
    // Its own now is better than another that is as likely; one that is likely is better than its own that is not.
    wishes.sort_by_key(|cpu| !likely.is_empty() && !likely.contains(cpu));
    let at =
        wishes.iter().position(|cpu| !likely.is_empty() && !likely.contains(cpu)).unwrap_or(wishes.len());
    wishes.splice(at..at, likely);
    let pinned = workers.iter().filter_map(|worker| match worker {
        PlannedWorker::Movable { allowed, .. } => allowed.only(),
        _ => None,
    });
    wishes.extend(pinned);
    wishes
}

/// A free processor of the node; else the one of the worker that stays, or a free one elsewhere; else the one with the
/// fewest queues.
fn choose(topology: &Topology, taken: &Taken, node: &CpuSet, wishes: &[u32], stays: Option<u32>) -> u32 {
    let may_here = node.intersection(&taken.may);
    let free_in = |cpus: &CpuSet| {
        let wish = wishes.iter().copied().find(|cpu| cpus.contains(*cpu) && taken.is_free(*cpu));
        let ordered = topology.processors.cores_first(cpus);
        wish.or_else(|| ordered.into_iter().find(|cpu| taken.is_free(*cpu)))
    };
    if let Some(cpu) = free_in(&may_here).or(stays).or_else(|| free_in(&taken.may)) {
        return cpu;
    }
    let all = if may_here.is_empty() { &taken.may } else { &may_here };
    let ordered = topology.processors.cores_first(all);
    let least = ordered.iter().map(|cpu| taken.count(*cpu)).min().unwrap_or(0);
    let wish = wishes.iter().copied().find(|cpu| all.contains(*cpu) && taken.count(*cpu) == least);
    wish.or_else(|| ordered.into_iter().find(|cpu| taken.count(*cpu) == least)).unwrap_or(0)
}
