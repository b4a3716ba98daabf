//! Which receive queue each flow shall come by, so that none shares one while another is free, and as few move as can be.

use std::collections::BTreeMap;

use super::group::Group;
use crate::{Interface, Ntuple, Steering, Topology, receive_queue};

/// Ways to direct flows to queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// A rule for each flow.
    Rules,
    /// Entries of the table: flows that share an entry stay together.
    Table,
    /// The sender chooses: what it sends by a queue goes on by that queue.
    Sender,
    /// Not at all.
    None,
}

/// Queue of each planned flow, and how it gets there.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) method: Method,
    /// Queue of each planned flow; absent where it cannot be known.
    pub(super) queues: Vec<Option<u32>>,
}

impl Assignment {
    /// Chooses.
    pub(super) fn new(topology: &Topology, group: &Group) -> Self {
        let method = method(topology, group);
        let queues = match method {
            Method::None => group.planned_flows.iter().map(|planned_flow| planned_flow.queue_now).collect(),
            // Who comes first has the first queue: what is seen of them does not tell which they use now.
            Method::Sender => {
                let queue = |at: usize| Some(group.queues[at % group.queues.len()]);
                (0..group.planned_flows.len()).map(queue).collect()
            }
            Method::Rules => spread(
                group,
                &(0..group.planned_flows.len()).map(|planned_flow| vec![planned_flow]).collect::<Vec<_>>(),
            ),
            Method::Table => spread(group, &units(topology, group)),
        };
        Self { method, queues }
    }
}

fn method(topology: &Topology, group: &Group) -> Method {
    let legs = group.interfaces(topology);
    let all = |is: &dyn Fn(&Interface) -> bool| legs.iter().all(|leg| is(leg));
    if group.planned_flows.iter().all(|planned_flow| planned_flow.flow.is_none()) {
        // Nothing is there to be led anywhere yet; each queue gets ready for one.
        return Method::Sender;
    }
    if group.queues.len() < 2 {
        return Method::None;
    }
    if all(&|leg| leg.ntuple.as_ref().is_some_and(|ntuple| takes_rules(ntuple, topology, group))) {
        return Method::Rules;
    }
    if all(&|leg| {
        leg.rss.is_some()
            && group
                .planned_flows
                .iter()
                .all(|planned_flow| entry(topology, leg, planned_flow.flow).is_some())
    }) {
        return Method::Table;
    }
    let has_no_steering =
        |leg: &Interface| leg.rss.is_none() && leg.receive.iter().all(|queue| queue.interrupt.is_none());
    if all(&has_no_steering) { Method::Sender } else { Method::None }
}

/// True if each flow can have a rule of its own, before those of others that are for it, too.
fn takes_rules(ntuple: &Ntuple, topology: &Topology, group: &Group) -> bool {
    let flows: Vec<_> = group
        .planned_flows
        .iter()
        .filter_map(|planned_flow| topology.flows.get(planned_flow.flow?))
        .collect();
    let has_room = flows.iter().all(|flow| {
        let own = ntuple.rules.iter().any(|rule| rule.flow == Some((flow.peer, flow.local)));
        let places = if own { 1 } else { flows.len() };
        ntuple.places_for(flow.peer, flow.local).take(places).count() == places
    });
    ntuple.is_supported && (ntuple.is_enabled || ntuple.is_switchable) && has_room
}

/// The entry of the table that a flow's packets take.
pub(super) fn entry(topology: &Topology, leg: &Interface, flow: Option<usize>) -> Option<u32> {
    let flow = flow.and_then(|at| topology.flows.get(at))?;
    match receive_queue(leg, flow.peer, flow.local) {
        (Steering::Rss { entry }, _, _) => Some(entry),
        _ => None,
    }
}

/// Flows that have to stay together, since they share an entry of the table on one of the interfaces.
fn units(topology: &Topology, group: &Group) -> Vec<Vec<usize>> {
    let mut unit: Vec<usize> = (0..group.planned_flows.len()).collect();
    for leg in group.interfaces(topology) {
        let mut first_with: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, planned_flow) in group.planned_flows.iter().enumerate() {
            let Some(entry) = entry(topology, leg, planned_flow.flow) else { continue };
            let first = unit[*first_with.entry(entry).or_insert(at)];
            let old = unit[at];
            unit.iter_mut().filter(|unit| **unit == old).for_each(|unit| *unit = first);
        }
    }
    let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, unit) in unit.into_iter().enumerate() {
        units.entry(unit).or_default().push(at);
    }
    let mut units: Vec<Vec<usize>> = units.into_values().collect();
    // The large ones first: they are the hardest to place.
    units.sort_by_key(|unit| std::cmp::Reverse(unit.len()));
    units
}

/// Rounds after which the best that was found is taken.
const ROUNDS_MAX: usize = 16;

/// Spreads units over the queues, until doing it again finds nothing better: so a plan for what is already so is empty.
fn spread(group: &Group, units: &[Vec<usize>]) -> Vec<Option<u32>> {
    let mut now: Vec<Option<u32>> =
        group.planned_flows.iter().map(|planned_flow| planned_flow.queue_now).collect();
    for _ in 0..ROUNDS_MAX {
        let better = spread_from(group, units, &now);
        if is_as_good(group, &now, &better) {
            break;
        }
        now = better;
    }
    now
}

/// Spreads units over the queues. Who is alone on a queue stays there.
fn spread_from(group: &Group, units: &[Vec<usize>], now: &[Option<u32>]) -> Vec<Option<u32>> {
    let share = (group.planned_flows.len() / group.queues.len()).max(1);
    let mut load: BTreeMap<u32, usize> = group.queues.iter().map(|queue| (*queue, 0)).collect();
    let mut queues = vec![None; group.planned_flows.len()];
    let mut waiting = Vec::new();
    for unit in units {
        let own = now[unit[0]];
        let room = own.and_then(|own| load.get_mut(&own));
        match room.filter(|load| **load == 0 || **load + unit.len() <= share) {
            Some(load) => {
                *load += unit.len();
                unit.iter().for_each(|planned_flow| queues[*planned_flow] = own);
            }
            None => waiting.push(unit),
        }
    }
    for unit in waiting {
        let own = now[unit[0]];
        let least = load.iter().min_by_key(|(queue, load)| (**load, Some(**queue) != own, **queue));
        let Some(queue) = least.map(|(queue, _)| *queue) else { break };
        *load.entry(queue).or_default() += unit.len();
        unit.iter().for_each(|planned_flow| queues[*planned_flow] = Some(queue));
    }
    use_free_queues(units, &mut load, &mut queues);
    queues
}

/// Gives each queue that is left free a unit of the fullest queue that has several. Units of different sizes leave some
/// free: several small ones may be a fair share of one queue.
fn use_free_queues(units: &[Vec<usize>], load: &mut BTreeMap<u32, usize>, queues: &mut [Option<u32>]) {
    while let Some(free) = load.iter().find(|(_, load)| **load == 0).map(|(queue, _)| *queue) {
        let has_several = |queue: u32, unit: &[usize]| load[&queue] > unit.len();
        // The smallest one moves, and of those as small the last: who came first stays.
        let candidates = units.iter().enumerate().filter_map(|(at, unit)| {
            let queue = queues[unit[0]].filter(|queue| has_several(*queue, unit))?;
            Some((std::cmp::Reverse(load[&queue]), unit.len(), std::cmp::Reverse(at), queue))
        });
        let Some((_, size, std::cmp::Reverse(at), queue)) = candidates.min() else { break };
        *load.entry(queue).or_default() -= size;
        *load.entry(free).or_default() += size;
        units[at].iter().for_each(|planned_flow| queues[*planned_flow] = Some(free));
    }
}

/// True if the first uses as many of the group's queues as the second, and none more often than
/// that does.
fn is_as_good(group: &Group, first: &[Option<u32>], second: &[Option<u32>]) -> bool {
    let loads = |queues: &[Option<u32>]| {
        let load = |queue: &u32| queues.iter().filter(|other| **other == Some(*queue)).count();
        let loads: Vec<usize> = group.queues.iter().map(load).collect();
        (loads.iter().filter(|load| **load > 0).count(), loads.iter().copied().max().unwrap_or(0))
    };
    let all_known = first.iter().all(|queue| queue.is_some_and(|queue| group.queues.contains(&queue)));
    let (first, second) = (loads(first), loads(second));
    all_known && first.0 >= second.0 && first.1 <= second.1
}
