//! Conclusions of a sweep: the bottleneck, the best number of queues and the reason, observations and
//! cautions. Each one follows from a rule that stands beside it; the module measures nothing.

use chart::units;
use serde::{Deserialize, Serialize};

use super::answer::{self, capitalized};
use super::choice::{self, AS_GOOD, Knee, QUEUES_RULE, QueueChoice, knee, knee_points};
use super::family::{Along, Family, Workload, families, workloads};
use super::plan::Plan;
use super::statistics::compare;
use super::summary::{LatencySummary, Summary};
use crate::report::document::{Finding, FindingKind};

/// Busy beyond this is at the limit.
const AT_LIMIT: f64 = 0.90;
/// Share of busy processor time from which on its owner is the cause.
const MOST: f64 = 0.50;
/// Bytes of NVMe/TCP beside a command's data, one way: the header of the data, and the response.
const PDU_BYTES: f64 = 48.0;
/// Least factor that packet headers add to large packets.
const PACKETS: f64 = 1.01;
/// A mean that is less sure than this is worth a warning.
const UNSURE: f64 = 0.10;
/// Part of this machine's processor time from which on others, who took it, make figures doubtful.
const OTHERS: f64 = 0.10;
/// Points that a warning names.
const NAMED_MAX: usize = 5;

/// Facts about the place of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    pub processors: usize,
    /// True if the target is on the same machine.
    pub is_local: bool,
    /// Bits a second that all links to the target carry in one direction, where they say.
    pub link_bits: Option<u64>,
}

/// All there is to say. Where the surroundings are not known, nothing is said of what limits.
pub fn findings(plan: &Plan, summaries: &[Summary], around: Option<Surroundings>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let others = others(summaries);
    let workloads = workloads(plan, summaries);
    let is_brief = answer::is_brief(plan, workloads.len());
    for workload in &workloads {
        findings.extend(queues(plan, workload));
        if !is_brief {
            findings.extend(load(plan, workload));
        }
        findings.extend(around.and_then(|around| limit(plan, (workload, &workloads), around)));
        if !is_brief {
            findings.extend(outstanding(plan, workload));
            findings.extend(queue_effect(plan, workload));
        }
    }
    findings.extend(answer::left_out(plan));
    findings.extend(missing(summaries));
    findings.extend(unsure(plan, summaries));
    findings.sort_by_key(|finding| match finding.kind {
        FindingKind::Advice => 0,
        FindingKind::Observation => 1,
        FindingKind::Caution => 2,
    });
    // The load of others stands before everything that it makes doubtful.
    others.into_iter().chain(answer::finding(plan, summaries)).chain(findings).collect()
}

/// Load of this machine by others, if it was noticeable.
fn others(summaries: &[Summary]) -> Option<Finding> {
    let most = |of: fn(&Summary) -> Option<f64>| {
        let known = summaries.iter().filter_map(|summary| Some((of(summary)?, summary)));
        known.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (share, worst) = most(Summary::taken_by_others).filter(|(share, _)| *share >= OTHERS)?;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let (foreign, stolen) = (worst.foreign.unwrap_or(0.0), worst.stolen.unwrap_or(0.0));
    let (who, advice) = match foreign >= stolen {
        true => ("Other programs", "End them, or measure on a quiet machine"),
        false => ("Other virtual machines", "Measure on another machine, or at another time"),
    };
    let used = summaries.iter().filter(|summary| summary.taken_by_others() >= Some(OTHERS)).count();
    let text = format!(
        "{advice}: with less processor time left for the measurement, its figures are lower and vary more. Other programs had \
         {}, and a hypervisor took {} for other machines{}; {} had {} or more.",
        if worst.foreign.is_some() { percent(foreign) } else { "an unknown part".to_owned() },
        percent(stolen),
        if worst.label.is_empty() { String::new() } else { format!(", at {}", worst.label) },
        units::plural(used as u64, "point"),
        percent(OTHERS)
    );
    let title = format!("{who} took up to {} of this machine's processors", percent(share));
    Some(finding(FindingKind::Caution, title, text, None))
}

/// For a workload that is not the only one, its name.
fn of(workload: &Workload<'_>) -> String {
    if workload.key.is_empty() { String::new() } else { format!("{}: ", workload.label) }
}

fn finding(kind: FindingKind, title: String, text: String, chart_id: Option<String>) -> Finding {
    Finding { kind, title, text, chart_id }
}

fn iops(summary: &Summary) -> String {
    format!("{} IOPS", units::count(summary.iops.mean))
}

fn p99(latency: &LatencySummary) -> String {
    // fio tells none where it was asked for none.
    if latency.p99_ns.count == 0 { "not known".to_owned() } else { units::time_ns(latency.p99_ns.mean) }
}

/// `12 % more`, `as much`.
fn more(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        percent if percent.abs() < 0.5 => "as much".to_owned(),
        percent if percent >= 100.0 => format!("{ratio:.1} times as much"),
        percent if percent > 0.0 => format!("{percent:.0} % more"),
        percent => format!("{:.0} % less", -percent),
    }
}

/// Returns advice on `-i`, if the runs tell.
fn queues(plan: &Plan, workload: &Workload<'_>) -> Vec<Finding> {
    let Some((deepest, choice)) = choice::queues(plan, workload, None) else { return Vec::new() };
    let families = families(plan, &workload.at_full_load(), Along::Queues);
    let chosen = choice.fewest;
    let others = deepest.members.iter().filter(|summary| summary.queues != chosen.queues);
    let others: Vec<String> = others
        .map(|other| {
            let ratio = other.iops.mean / chosen.iops.mean;
            format!("-i {} does {} at a p99 of {}", other.queues, more(ratio), p99(&other.latency))
        })
        .collect();
    let mut text = format!(
        "With {} outstanding, -i {} does {} at a p99 of {}; {}. The rule: {QUEUES_RULE}. A queue is a connection, with a \
         thread and buffers on both ends.",
        deepest.members[0].outstanding,
        chosen.queues,
        iops(chosen),
        p99(&chosen.latency),
        others.join(", "),
    );
    let several = families.iter().filter(|family| family.members.len() > 1);
    let each: Vec<String> = several
        .filter(|family| family.label != deepest.label)
        .filter_map(|family| Some((QueueChoice::of(family).filter(|other| other.is_decided)?, family)))
        .map(|(other, family)| format!("-i {} for {}", other.fewest.queues, family.label))
        .collect();
    if !each.is_empty() {
        text.push_str(&format!(" By the same rule: {}.", each.join(", ")));
    }
    if choice.alike.len() > 1 {
        text.push_str(&format!(
            " The runs do not tell -i {} from each other: measure more often (--repeat), or on a quieter machine.",
            choice.alike_in_words()
        ));
    }
    let chart = Some(format!("p99-by-queues{}", workload.key));
    let (kind, title) = match choice.is_decided {
        true => (FindingKind::Advice, format!("{}Use -i {}", of(workload), chosen.queues)),
        false => {
            let numbers = choice.alike_in_words();
            let title = format!("{}No difference is known between -i {numbers}", of(workload));
            (FindingKind::Observation, title)
        }
    };
    vec![finding(kind, title, text, chart)]
}

/// Returns the throughput within the latency target.
fn load(plan: &Plan, workload: &Workload<'_>) -> Vec<Finding> {
    let (along, members) = knee_points(workload);
    let chart = if along == Along::Load { "load" } else { "curve" };
    let chart = Some(format!("{chart}{}", workload.key));
    let found = knee(plan, workload);
    let Some(target) = plan.latency_target_ns else {
        let Some(Knee { summary, is_passed }) = found else { return Vec::new() };
        let most = members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
        let (title, beyond) = if is_passed {
            ("The knee is at", "Beyond it, latency grows faster than throughput.")
        } else {
            ("No knee up to", "It is the last point that was measured: more may bring more.")
        };
        let text = format!(
            "At {}, {:.0} % of the most, with a p99 of {}. {beyond} The rule: the point with the most throughput for its \
             mean latency (Kleinrock's power).",
            summary.label,
            100.0 * summary.iops.mean / most.max(1.0),
            p99(summary.seen_latency())
        );
        let title = format!("{}{title} {}", of(workload), iops(summary));
        return vec![finding(FindingKind::Observation, title, text, chart)];
    };
    let within = units::time_ns(target as f64);
    let Some(Knee { summary, .. }) = found else {
        let least = members.iter().map(|summary| summary.seen_latency().p99_ns.mean).fold(f64::MAX, f64::min);
        let title = format!("{}Nothing stays within {within}", of(workload));
        let mean = by_mean(&members, target);
        let text = format!("The shortest p99 of all points is {}.{mean}", units::time_ns(least));
        return vec![finding(FindingKind::Advice, title, text, chart)];
    };
    let title = format!("{}{} within {within}", of(workload), iops(summary));
    let text = format!(
        "At {} it does {} ({}), and 99 of 100 commands take no longer than {} since they were {}.{}",
        summary.label,
        iops(summary),
        units::bandwidth(summary.bw_bytes.mean),
        p99(summary.seen_latency()),
        if summary.response.is_some() { "due" } else { "sent" },
        by_mean(&members, target)
    );
    vec![finding(FindingKind::Advice, title, text, chart)]
}

/// Returns a sentence on the throughput while the mean stays within a time, as other benchmarks
/// count it.
fn by_mean(members: &[&Summary], target_ns: u64) -> String {
    let within = members.iter().filter(|summary| summary.seen_latency().mean_ns.mean <= target_ns as f64);
    within.max_by(|a, b| a.iops.mean.total_cmp(&b.iops.mean)).map_or_else(String::new, |most| {
        let mean = units::time_ns(most.seen_latency().mean_ns.mean);
        format!(" The mean stays within it up to {} ({mean}), at {}.", iops(most), most.label)
    })
}

/// Returns the bottleneck.
fn limit<'a>(
    plan: &Plan,
    (workload, all): (&Workload<'a>, &[Workload<'a>]),
    around: Surroundings,
) -> Option<Finding> {
    let members = workload.at_full_load();
    let best = members.iter().max_by(|a, b| a.iops.mean.total_cmp(&b.iops.mean))?;
    let busy = best.machine_busy.unwrap_or(0.0);
    let processors = around.processors.max(1);
    let workers = best.workers.min(processors).max(1) as f64;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let bytes = (best.bw_bytes.mean + best.iops.mean * PDU_BYTES) * best.point.one_way_share() * PACKETS;
    let link = around.link_bits.map(|bits| bytes * 8.0 / bits as f64);
    let used = processors as f64 * busy;
    // The kernel's work for the network is partly charged to no process: interrupt time is reported separately.
    let own = best.cpus + best.target_cpus.filter(|_| around.is_local).unwrap_or(0.0);
    let network = best.interrupts.unwrap_or(0.0) * processors as f64;
    let others = best.foreign.and_then(|_| best.taken_by_others());
    let others = others.map_or(used - own - network, |share| share * processors as f64);
    let who = || used_processors(best, around, used);
    let (what, why) = if link.is_some_and(|share| share >= AT_LIMIT) {
        let share = percent(link.unwrap_or(0.0));
        ("The network limits", format!("data and headers fill {share} of the links' rate at least"))
    } else if let Some(gain) = last_gain(plan, workload) {
        let why =
            format!("the last step to more outstanding commands still brought {:.0} %", (gain - 1.0) * 100.0);
        ("The load limits", why)
    } else if let Some(why) = same_bandwidth(best, workload, all) {
        ("Bandwidth limits", why)
    } else if busy >= AT_LIMIT && others > (1.0 - MOST) * used {
        let why = format!("{}; the rest is others' work or the kernel's", who());
        ("Other work on this machine limits", why)
    } else if around.is_local && busy >= AT_LIMIT {
        ("This machine's processors limit", format!("{}; initiator and target share them", who()))
    } else if best.cpus >= AT_LIMIT * workers {
        let why = format!(
            "its {} {} {:.2} processors busy; more queues and jobs give it more threads",
            units::plural(best.workers as u64, "worker"),
            if best.workers == 1 { "keeps" } else { "keep" },
            best.cpus
        );
        ("The initiator limits", why)
    } else if busy >= AT_LIMIT {
        ("The initiator's processors limit", who())
    } else {
        let target = best.target_cpus.map_or_else(
            || "its processor time is not known here (--target-pid, --control)".to_owned(),
            |cpus| format!("the target keeps {cpus:.2} processors busy"),
        );
        let why = format!(
            "the initiator's processors are {} busy and more outstanding commands bring no more; {target}",
            percent(busy)
        );
        ("The target, its storage, or the way there limits", why)
    };
    let title = format!("{}{what}, at {}", of(workload), iops(best));
    let text = format!("At {}: {why}.", if best.label.is_empty() { "the only point" } else { &best.label });
    Some(finding(FindingKind::Observation, title, text, None))
}

/// Returns the processor time of this machine at a point, `used` in all, by its users.
fn used_processors(best: &Summary, around: Surroundings, used: f64) -> String {
    let processors = around.processors.max(1);
    let target = best.target_cpus.filter(|_| around.is_local);
    let target = target.map(|cpus| format!(", the target {cpus:.2}")).unwrap_or_default();
    let network = best
        .interrupts
        .map(|share| format!(", interrupts {:.2}", share * processors as f64))
        .unwrap_or_default();
    let has = match processors {
        1 => "its processor is".to_owned(),
        count => format!("its {count} processors are"),
    };
    format!(
        "{has} {:.0} % busy ({used:.2} of {processors}): the initiator's workers take {:.2}{target}{network}",
        100.0 * used / processors as f64,
        best.cpus
    )
}

/// Returns the block sizes that move as many bytes. Larger blocks cost processors less for each byte: where they bring no more
/// bytes, another limit is reached first.
fn same_bandwidth<'a>(best: &Summary, workload: &Workload<'a>, all: &[Workload<'a>]) -> Option<String> {
    let others = choice::same_bandwidth(workload, all);
    let [first, .., last] = others.as_slice() else { return None };
    let [first, last] = [first, last].map(|other| units::bytes(choice::block_bytes(other)));
    let bandwidth = units::bandwidth(best.bw_bytes.mean);
    Some(format!("{bandwidth}, and blocks of {first} and {last} move as many bytes"))
}

/// Returns the gain of the last increase of outstanding commands, in the family with the highest
/// throughput, if it was worth it and is significant.
fn last_gain(plan: &Plan, workload: &Workload<'_>) -> Option<f64> {
    let families = families(plan, &workload.at_full_load(), Along::Outstanding);
    let last = |family: &Family<'_>| family.members.last().map_or(0.0, |summary| summary.iops.mean);
    let best = families.iter().max_by(|a, b| last(a).total_cmp(&last(b)))?;
    let [.., before, last] = best.members.as_slice() else { return None };
    let both = compare(&before.iops.sample(), &last.iops.sample())?;
    (both.ratio > 1.10 && both.differs != Some(false)).then_some(both.ratio)
}

/// Returns the gain of more outstanding commands.
fn outstanding(plan: &Plan, workload: &Workload<'_>) -> Vec<Finding> {
    let families = families(plan, &workload.at_full_load(), Along::Outstanding);
    let most =
        |family: &Family<'_>| family.members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
    let best =
        families.iter().filter(|family| family.members.len() > 1).max_by(|a, b| most(a).total_cmp(&most(b)));
    let Some(best) = best else { return Vec::new() };
    let [first, .., last] = best.members.as_slice() else { return Vec::new() };
    let (wider, faster) =
        (last.outstanding as f64 / first.outstanding as f64, last.iops.mean / first.iops.mean);
    let (manner, end) = growth(&best.members);
    let title = format!("{}Throughput {manner}", of(workload));
    let family = Some(best.label.as_str()).filter(|label| !label.is_empty());
    let text = format!(
        "From {} to {} outstanding ({wider:.1} times){}, {} become {} ({faster:.2} times), the mean latency goes from {} to \
         {}, the p99 from {} to {}.{end}",
        first.outstanding,
        last.outstanding,
        family.map(|label| format!(" with {label}")).unwrap_or_default(),
        iops(first),
        iops(last),
        units::time_ns(first.latency.mean_ns.mean),
        units::time_ns(last.latency.mean_ns.mean),
        p99(&first.latency),
        p99(&last.latency),
    );
    vec![finding(FindingKind::Observation, title, text, Some(format!("iops-by-outstanding{}", workload.key)))]
}

/// Describes throughput as a function of outstanding commands, over all points of a family, and the
/// decline after its maximum, if any.
fn growth(members: &[&Summary]) -> (String, String) {
    let most = members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return <_>::default() };
    let top = members.iter().find(|summary| summary.iops.mean >= most * AS_GOOD).unwrap_or(last);
    let wider = top.outstanding as f64 / first.outstanding as f64;
    let faster = top.iops.mean / first.iops.mean.max(f64::MIN_POSITIVE);
    if top.outstanding < last.outstanding {
        let falls = last.iops.mean < most * AT_LIMIT;
        let then = if falls { "and falls beyond" } else { "and no more beyond" };
        let end = format!(" The most, {}, is at {} outstanding.", iops(top), top.outstanding);
        return if faster >= 1.05 {
            (format!("grows up to {} outstanding, {then}", top.outstanding), end)
        } else if falls {
            ("falls with more outstanding I/O".to_owned(), end)
        } else {
            ("does not grow with outstanding I/O".to_owned(), String::new())
        };
    }
    let title = match (faster - 1.0) / (wider - 1.0) {
        share if share >= 0.8 => "grows nearly in proportion with outstanding I/O".to_owned(),
        share if faster >= 1.05 && share > 0.0 => {
            format!("grows {faster:.1} times with {wider:.0} times as much outstanding I/O")
        }
        _ => "does not grow with outstanding I/O".to_owned(),
    };
    (title, String::new())
}

/// Returns the gain of more queues with the same outstanding commands.
fn queue_effect(plan: &Plan, workload: &Workload<'_>) -> Vec<Finding> {
    if !plan.varies("nr-io-queues") {
        return Vec::new();
    }
    let families = families(plan, &workload.at_full_load(), Along::Queues);
    let sentence = |family: &Family<'_>| {
        let [first, .., last] = family.members.as_slice() else { return None };
        let mean = |summary: &Summary| summary.latency.mean_ns.mean;
        let best = family.members.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)))?;
        let label = if family.label.is_empty() { String::new() } else { format!("with {} ", family.label) };
        let mut words =
            format!("{label}the mean latency is {} with -i {}", units::time_ns(mean(first)), first.queues);
        let mut others = vec![best, last];
        others.dedup_by(|a, b| a.queues == b.queues);
        for other in others.into_iter().filter(|other| other.queues != first.queues) {
            words.push_str(&format!(", {}", beside(first, other)?));
        }
        Some(words)
    };
    let mut sentences: Vec<String> = families.iter().filter_map(sentence).collect();
    if sentences.is_empty() {
        return Vec::new();
    }
    let rest = sentences.len().saturating_sub(NAMED_MAX);
    sentences.truncate(NAMED_MAX);
    let mut text = capitalized(&sentences.join("; "));
    text.push_str(&if rest > 0 { format!("; {rest} more in the table.") } else { ".".to_owned() });
    let title = format!("{}What more queues do at the same outstanding I/O", of(workload));
    vec![finding(FindingKind::Observation, title, text, Some(format!("mean-by-queues{}", workload.key)))]
}

/// A number of queues beside the fewest: what becomes of latency and throughput, and how sure that is.
fn beside(fewest: &Summary, other: &Summary) -> Option<String> {
    let mean = compare(&fewest.latency.mean_ns.sample(), &other.latency.mean_ns.sample())?;
    let sure = match mean.differs {
        Some(true) => "",
        Some(false) => ", which may be chance",
        None => ", measured once each",
    };
    Some(format!(
        "{} with -i {} ({:+.0} %{sure}; throughput {:+.0} %)",
        units::time_ns(other.latency.mean_ns.mean),
        other.queues,
        (mean.ratio - 1.0) * 100.0,
        (other.iops.mean / fewest.iops.mean - 1.0) * 100.0
    ))
}

/// Points that could not be measured.
fn missing(summaries: &[Summary]) -> Option<Finding> {
    let missing: Vec<&Summary> = summaries.iter().filter(|summary| !summary.is_measured()).collect();
    let first = missing.first()?;
    let are = verb(missing.len(), "is", "are");
    let title = format!("{} of {} points {are} missing", missing.len(), summaries.len());
    let reason = missing.iter().find_map(|summary| summary.failures.first());
    let reason = reason.map_or_else(|| "the sweep ended before".to_owned(), Clone::clone);
    let names = named(&missing);
    let name = if first.label.is_empty() { "the only one".to_owned() } else { names };
    Some(finding(FindingKind::Caution, title, format!("{name}: {reason}."), None))
}

/// Points that are less sure than they look.
fn unsure(plan: &Plan, summaries: &[Summary]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unsteady: Vec<&Summary> =
        summaries.iter().filter(|summary| summary.unsteady * 2 > summary.runs).collect();
    if !unsteady.is_empty() {
        let points = units::plural(unsteady.len() as u64, "point");
        let title = format!("{points} {} not steady", verb(unsteady.len(), "was", "were"));
        let text = format!(
            "{}: within most of their runs, throughput varied by more than 20 % or rose or fell by more than 10 % (the \
             SNIA's rule for steady state). A longer --ramp_time, or --steady, may help.",
            named(&unsteady)
        );
        findings.push(finding(FindingKind::Caution, title, text, None));
    }
    let is_unsure =
        |summary: &&Summary| summary.iops.sample().uncertainty().is_some_and(|share| share > UNSURE);
    let unsure: Vec<&Summary> = summaries.iter().filter(is_unsure).collect();
    if !unsure.is_empty() {
        let points = units::plural(unsure.len() as u64, "point");
        let title = format!("{points} {} less certain than ± 10 %", verb(unsure.len(), "is", "are"));
        let text = format!(
            "{}: the throughput of their runs differs so much that its mean is not known better. More repetitions \
             (--repeat), or a quieter machine, may help.",
            named(&unsure)
        );
        findings.push(finding(FindingKind::Caution, title, text, None));
    }
    if plan.repeat == 1 {
        let text = "Each point was measured once, so its variation from run to run is unknown (--repeat).";
        let title = "No confidence intervals".to_owned();
        findings.push(finding(FindingKind::Caution, title, text.to_owned(), None));
    }
    findings
}

/// Returns the form of a verb for a number of subjects.
pub(super) const fn verb(count: usize, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

fn named(summaries: &[&Summary]) -> String {
    let names: Vec<&str> = summaries.iter().take(NAMED_MAX).map(|summary| summary.label.as_str()).collect();
    match summaries.len().saturating_sub(NAMED_MAX) {
        0 => names.join("; "),
        more => format!("{}; and {more} more", names.join("; ")),
    }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
