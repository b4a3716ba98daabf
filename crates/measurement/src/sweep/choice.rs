//! Choice of a sweep's point to use: the one set of rules for the report's words, its pictures and `tune advise`, which only
//! word the choice.

use super::family::{Along, Family, Workload, families};
use super::plan::Plan;
use super::statistics::compare;
use super::summary::{Quantity, Summary};
use crate::spec::size::Size;

/// Share of the best result from which on a result counts as equally good.
pub(crate) const AS_GOOD: f64 = 0.95;
/// And so is a tail that is this little longer.
const TAIL_AS_GOOD: f64 = 1.10;
/// Relative difference up to which two bandwidths count as the same.
const SAME_BANDWIDTH: f64 = 0.02;
/// Factor between block sizes whose commands cost processors a different time for each byte.
const SIZES_APART: f64 = 4.0;
/// Points of a line from which on it can have a knee.
const KNEE_POINTS_MIN: usize = 3;

/// The rule by which queues are chosen, in words.
pub const QUEUES_RULE: &str = "the fewest queues whose throughput comes within 5 % of the best and whose p99 is within \
     10 % of the shortest among those, or which the runs do not tell from these";

/// Number of queues to use, of a family that differs in it.
#[derive(Debug)]
pub struct QueueChoice<'a> {
    /// The fewest that the runs do not tell from those that are as good as any by their means.
    pub fewest: &'a Summary,
    /// Numbers that the runs do not tell from the best, which is among them.
    pub(crate) alike: Vec<u64>,
    /// True if the runs tell the best from any other number. Without it, nothing is to be advised.
    pub is_decided: bool,
}

impl<'a> QueueChoice<'a> {
    /// Of this family, in the order of its numbers of queues.
    pub fn of(family: &Family<'a>) -> Option<Self> {
        let best = fewest_queues(family)?;
        let is_alike = |other: &&&Summary| other.queues == best.queues || !is_significant(best, other);
        let alike: Vec<&Summary> = family.members.iter().filter(is_alike).copied().collect();
        Some(Self {
            fewest: alike.first().copied().unwrap_or(best),
            is_decided: alike.len() < family.members.len(),
            alike: alike.iter().map(|summary| summary.queues).collect(),
        })
    }

    /// The numbers of queues that are alike, as in `1, 2 and 4`.
    pub(crate) fn alike_in_words(&self) -> String {
        let names: Vec<String> = self.alike.iter().map(u64::to_string).collect();
        match names.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        }
    }
}

/// True if the runs of two points show that one does more, or has another tail.
fn is_significant(one: &Summary, other: &Summary) -> bool {
    let differs = |of: fn(&Summary) -> &Quantity| {
        compare(&of(one).sample(), &of(other).sample()).is_some_and(|both| both.differs == Some(true))
    };
    differs(|summary| &summary.iops) || differs(|summary| &summary.latency.p99_ns)
}

/// The family by which queues are chosen: that with the most outstanding commands, or with a number that is nearest to one that
/// was asked for.
fn queue_family(families: Vec<Family<'_>>, outstanding: Option<u64>) -> Option<Family<'_>> {
    let mut several = families.into_iter().filter(|family| family.members.len() > 1);
    let of = |family: &Family<'_>| family.members[0].outstanding;
    match outstanding {
        Some(wanted) => several.min_by_key(|family| of(family).abs_diff(wanted)),
        None => {
            // The first of several with the same number.
            let first = several.next()?;
            Some(several.fold(first, |most, family| if of(&family) > of(&most) { family } else { most }))
        }
    }
}

/// The fewest queues of a family that are as good as any, by their means.
fn fewest_queues<'a>(family: &Family<'a>) -> Option<&'a Summary> {
    let best = family.members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
    let good: Vec<&&Summary> =
        family.members.iter().filter(|summary| summary.iops.mean >= best * AS_GOOD).collect();
    let tail = good.iter().map(|summary| summary.latency.p99_ns.mean).fold(f64::MAX, f64::min);
    good.into_iter().find(|summary| summary.latency.p99_ns.mean <= tail * TAIL_AS_GOOD).copied()
}

/// The knee of a workload, and true if points beyond it were measured.
#[derive(Clone, Copy, Debug)]
pub struct Knee<'a> {
    pub summary: &'a Summary,
    pub is_passed: bool,
}

/// Points among which the knee of a workload is, and their order: those with a load of their own, else those at full load.
pub fn knee_points<'a>(workload: &Workload<'a>) -> (Along, Vec<&'a Summary>) {
    let with_loads = workload.with_loads();
    let loaded: Vec<&Summary> = with_loads.into_iter().filter(|summary| summary.response.is_some()).collect();
    if loaded.is_empty() { (Along::Outstanding, workload.at_full_load()) } else { (Along::Load, loaded) }
}

/// The knee of a workload, for words, pictures and advice alike. Within a latency that was set it is the most that any point
/// does. Without one it is the point with the most throughput for its mean latency (Kleinrock's power), in the family that does
/// most.
pub fn knee<'a>(plan: &Plan, workload: &Workload<'a>) -> Option<Knee<'a>> {
    let (along, members) = knee_points(workload);
    if let Some(target) = plan.latency_target_ns {
        let within =
            members.into_iter().filter(|summary| summary.seen_latency().p99_ns.mean <= target as f64);
        let summary = within.max_by(|a, b| a.iops.mean.total_cmp(&b.iops.mean))?;
        return Some(Knee { summary, is_passed: true });
    }
    let families = families(plan, &members, along);
    let family = best_family(&families).filter(|family| family.members.len() >= KNEE_POINTS_MIN)?;
    let power = |summary: &Summary| summary.iops.mean / summary.seen_latency().mean_ns.mean.max(1.0);
    let summary = family.members.iter().copied().max_by(|a, b| power(a).total_cmp(&power(b)))?;
    let is_passed = family.members.iter().any(|other| along.of(other) > along.of(summary));
    Some(Knee { summary, is_passed })
}

/// Number of queues to use for a workload: with the most outstanding commands, or a number nearest to `outstanding`.
pub fn queues<'a>(
    plan: &Plan,
    workload: &Workload<'a>,
    outstanding: Option<u64>,
) -> Option<(Family<'a>, QueueChoice<'a>)> {
    if !plan.varies("nr-io-queues") {
        return None;
    }
    let family = queue_family(families(plan, &workload.at_full_load(), Along::Queues), outstanding)?;
    let choice = QueueChoice::of(&family)?;
    Some((family, choice))
}

/// The family with the highest throughput.
fn best_family<'a, 'b>(families: &'b [Family<'a>]) -> Option<&'b Family<'a>> {
    let most =
        |family: &&Family<'_>| family.members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
    families.iter().max_by(|a, b| most(a).total_cmp(&most(b)))
}

/// The rule by which the limit of writes is found, in words.
pub(crate) const WRITE_LIMIT_RULE: &str = "of the gain by volatile writes and the gain by more queues, each at the number of \
     queues that does most, the larger one is the limit, if it is more than 5 % and the runs tell it";

/// Ratio of throughput above which a gain counts.
const GAIN_MIN: f64 = 1.05;

/// Limit of writes at a number of outstanding commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteLimit {
    Acknowledgement,
    Queues,
    Neither,
}

/// Writes with a number of outstanding commands, beside volatile ones.
#[derive(Debug)]
pub(crate) struct WriteCell<'a> {
    pub(crate) outstanding: u64,
    /// Volatile writes, with the queues that do most.
    pub(crate) volatile: &'a Summary,
    /// Writes with an acknowledgement, with the queues that do most.
    pub(crate) best: &'a Summary,
    /// The same with the fewest queues.
    pub(crate) fewest: &'a Summary,
}

impl WriteCell<'_> {
    /// The limit, by [`WRITE_LIMIT_RULE`].
    pub(crate) fn limit(&self) -> WriteLimit {
        let by_acknowledgement = gain(self.best, self.volatile);
        let by_queues = gain(self.fewest, self.best);
        match (by_acknowledgement, by_queues) {
            (None, None) => WriteLimit::Neither,
            (Some(ratio), other) if other.is_none_or(|other| ratio >= other) => WriteLimit::Acknowledgement,
            _ => WriteLimit::Queues,
        }
    }
}

/// Ratio of throughput, if the second point does more than 5 % more and the runs tell it.
fn gain(from: &Summary, to: &Summary) -> Option<f64> {
    let both = compare(&from.iops.sample(), &to.iops.sample())?;
    (both.ratio > GAIN_MIN && both.differs == Some(true)).then_some(both.ratio)
}

/// The cells of writes beside volatile ones of the same kind, by outstanding commands.
pub(crate) fn write_cells<'a>(
    plan: &Plan,
    volatile: &Workload<'a>,
    writes: &Workload<'a>,
) -> Vec<WriteCell<'a>> {
    let volatile = families(plan, &volatile.at_full_load(), Along::Queues);
    let mut cells = Vec::new();
    for family in families(plan, &writes.at_full_load(), Along::Queues) {
        let other = volatile.iter().find(|other| other.label == family.label);
        let Some(volatile) = other.and_then(most) else { continue };
        let (Some(best), Some(fewest)) = (most(&family), family.members.first().copied()) else { continue };
        cells.push(WriteCell { outstanding: best.outstanding, volatile, best, fewest });
    }
    cells.sort_by_key(|cell| cell.outstanding);
    cells
}

/// The member that does most; the one with the fewest queues of several.
fn most<'a>(family: &Family<'a>) -> Option<&'a Summary> {
    let members = family.members.iter().copied();
    members.reduce(|best, other| if other.iops.mean > best.iops.mean { other } else { best })
}

/// The rule by which bandwidth is the limit, in words.
pub(crate) const BANDWIDTH_RULE: &str = "bandwidth is the limit from the size on from which four times the block brings less than \
     twice the bandwidth, at the point of each size with the most bandwidth";

/// First of some ascending sizes from which bandwidth is the limit, by [`BANDWIDTH_RULE`]; each is its bytes and bandwidth. `None`
/// if commands are the limit up to the largest.
pub(crate) fn bandwidth_from(sizes: &[(f64, f64)]) -> Option<usize> {
    // For other factors than four it is the same: bandwidth grows by less than their square root.
    let is_limited = |pair: &[(f64, f64)]| {
        let ((size, bandwidth), (larger, more)) = (pair[0], pair[1]);
        more < bandwidth * (larger / size).sqrt()
    };
    let steps: Vec<bool> = sizes.windows(2).map(is_limited).collect();
    let limited = steps.iter().rev().take_while(|is_limited| **is_limited).count();
    (limited > 0).then(|| steps.len() - limited)
}

/// Bytes of a point's commands, as they were moved.
pub(crate) fn block_bytes(summary: &Summary) -> f64 {
    let typed = summary.point.value("bs").and_then(|size| size.parse::<Size>().ok());
    typed.map_or_else(|| summary.bw_bytes.mean / summary.iops.mean.max(1.0), |size| size.0 as f64)
}

/// The point with the most bandwidth among some of a workload's.
pub(crate) fn best_by_bandwidth<'a>(
    workload: &Workload<'a>,
    is_wanted: impl Fn(&Summary) -> bool,
) -> Option<&'a Summary> {
    let members = workload.at_full_load().into_iter().filter(|summary| is_wanted(summary));
    members.reduce(|best, other| if other.bw_bytes.mean > best.bw_bytes.mean { other } else { best })
}

/// Points of other block sizes with the bandwidth of this workload: the most of theirs, where it differs by 2 % at most and the
/// sizes by a factor of four at least.
pub(crate) fn same_bandwidth<'a>(workload: &Workload<'a>, all: &[Workload<'a>]) -> Vec<&'a Summary> {
    let most = |workload: &Workload<'a>| best_by_bandwidth(workload, |_| true);
    let Some(best) = most(workload) else { return Vec::new() };
    let kind = workload.label_without(&["bs"]);
    let alike = all.iter().filter(|other| other.label_without(&["bs"]) == kind).filter_map(most);
    let is_level = |other: &&Summary| {
        let (size, other_size) = (block_bytes(best), block_bytes(other));
        let is_apart = size >= SIZES_APART * other_size || other_size >= SIZES_APART * size;
        is_apart && (other.bw_bytes.mean / best.bw_bytes.mean.max(1.0) - 1.0).abs() <= SAME_BANDWIDTH
    };
    alike.filter(is_level).collect()
}

/// Number of queues to use for several workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommonQueues {
    pub(crate) queues: u64,
    /// True if the runs tell it from another number for any of them.
    pub(crate) is_decided: bool,
}

/// The fewest queues that the runs do not tell from the best for any of these workloads; without such a number, the one whose
/// lowest share of the best throughput is the highest.
pub(crate) fn common_queues(plan: &Plan, workloads: &[&Workload<'_>]) -> Option<CommonQueues> {
    let mut chosen = Vec::new();
    for workload in workloads {
        chosen.push(queues(plan, workload, None)?);
    }
    let share = |queues: u64| {
        let shares = chosen.iter().map(|(family, _)| {
            let best = most(family).map_or(0.0, |best| best.iops.mean);
            let own = family.members.iter().find(|summary| summary.queues == queues);
            own.map_or(0.0, |own| own.iops.mean / best.max(f64::MIN_POSITIVE))
        });
        shares.fold(1.0, f64::min)
    };
    let (family, _) = chosen.first()?;
    let numbers: Vec<u64> = family.members.iter().map(|summary| summary.queues).collect();
    let is_alike = |number: &&u64| chosen.iter().all(|(_, choice)| choice.alike.contains(*number));
    let alike = numbers.iter().find(is_alike).copied();
    // The fewest of several with the same share: the last one of equals is the greatest.
    let best = || numbers.iter().rev().copied().max_by(|a, b| share(*a).total_cmp(&share(*b)));
    let is_decided = chosen.iter().any(|(_, choice)| choice.is_decided);
    Some(CommonQueues { queues: alike.or_else(best)?, is_decided })
}
