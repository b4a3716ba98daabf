//! Points that belong together: those of one workload make pictures of their own, and those that differ in one number
//! only make a line. It measures and draws nothing.

use super::plan::Plan;
use super::point::{Load, in_words};
use super::summary::Summary;

/// The options that make a workload.
const WORKLOAD: [&str; 5] = ["rw", "rwmixread", "bs", "sync", "fsync"];
/// Columns that make the acknowledgement of writes.
pub(crate) const ACKNOWLEDGEMENT: [&str; 2] = ["sync", "fsync"];

/// All measured points of one workload.
pub struct Workload<'a> {
    /// `randread, 4 KiB`; also where there is no other.
    pub label: String,
    /// Unique among the sweep's workloads, for names of pictures; empty where there is only one.
    pub key: String,
    pub members: Vec<&'a Summary>,
}

/// Points that differ in one number only.
pub struct Family<'a> {
    /// Label with the values that the members share and others do not.
    pub label: String,
    pub members: Vec<&'a Summary>,
}

/// The workloads of a sweep, in the order of its points.
pub fn workloads<'a>(plan: &Plan, summaries: &'a [Summary]) -> Vec<Workload<'a>> {
    let mut workloads: Vec<Workload<'a>> = Vec::new();
    for summary in summaries.iter().filter(|summary| summary.is_measured()) {
        let label = summary.point.label(|option| WORKLOAD.contains(&option));
        match workloads.iter_mut().find(|workload| workload.label == label) {
            Some(workload) => workload.members.push(summary),
            None => workloads.push(Workload { label, key: String::new(), members: vec![summary] }),
        }
    }
    if workloads.len() > 1 {
        for workload in &mut workloads {
            let point = &workload.members[0].point;
            let varying = WORKLOAD.into_iter().filter(|option| plan.varies(option));
            let words = varying.filter_map(|option| point.value(option));
            workload.key =
                words.map(|word| format!("-{}", word.to_lowercase().replace(['.', '%'], "-"))).collect();
        }
    }
    workloads
}

impl<'a> Workload<'a> {
    /// Label without some of the options, for workloads that differ in these only.
    pub(crate) fn label_without(&self, options: &[&str]) -> String {
        let point = self.members.first().map(|summary| &summary.point);
        let is_wanted = |option: &str| WORKLOAD.contains(&option) && !options.contains(&option);
        point.map(|point| point.label(is_wanted)).unwrap_or_default()
    }

    /// Points with full load.
    pub(crate) fn at_full_load(&self) -> Vec<&'a Summary> {
        let is_full = |summary: &&&Summary| summary.point.load() == Ok(Load::Full);
        self.members.iter().filter(is_full).copied().collect()
    }

    /// Points with a load of their own, and the points with full load to which shares refer.
    pub(crate) fn with_loads(&self) -> Vec<&'a Summary> {
        let has_load =
            |summary: &&Summary| matches!(summary.point.load(), Ok(Load::Rate(_) | Load::Share(_)));
        if self.members.iter().any(has_load) { self.members.clone() } else { Vec::new() }
    }
}

/// Divides points into families whose members differ in `along` only. The value of `along` is given by `names`: a
/// number of outstanding commands follows from depth and jobs.
pub fn families<'a>(plan: &Plan, members: &[&'a Summary], along: Along) -> Vec<Family<'a>> {
    let mut families: Vec<Family<'a>> = Vec::new();
    for summary in members {
        let label = label(plan, summary, along);
        match families.iter_mut().find(|family| family.label == label) {
            Some(family) => family.members.push(summary),
            None => families.push(Family { label, members: vec![summary] }),
        }
    }
    for family in &mut families {
        family.members.sort_by(|a, b| along.of(a).total_cmp(&along.of(b)));
    }
    families
}

/// Label of a point by options that make neither its workload nor its number of queues or outstanding commands, such as the
/// transport. Where depth and jobs both vary, jobs are among them.
pub fn setting(plan: &Plan, summary: &Summary) -> String {
    let both = plan.varies("iodepth") && plan.varies("numjobs");
    let tells = |option: &str| match option {
        "iodepth" | "nr-io-queues" | "rate_iops" => false,
        "numjobs" => both,
        _ => plan.varies(option) && !WORKLOAD.contains(&option),
    };
    summary.point.label(tells)
}

/// The number that members of a family differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    Outstanding,
    Queues,
    Load,
}

impl Along {
    /// Value of the quantity at a point.
    pub fn of(self, summary: &Summary) -> f64 {
        match self {
            Self::Outstanding => summary.outstanding as f64,
            Self::Queues => summary.queues as f64,
            Self::Load => match summary.point.load() {
                Ok(Load::Rate(_) | Load::Share(_)) => summary.offered_iops.unwrap_or(0.0),
                _ => f64::MAX,
            },
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Outstanding => &["iodepth", "numjobs"],
            Self::Queues => &["nr-io-queues"],
            Self::Load => &["rate_iops"],
        }
    }
}

fn label(plan: &Plan, summary: &Summary, along: Along) -> String {
    let both = plan.varies("iodepth") && plan.varies("numjobs");
    let mut words = Vec::new();
    for (option, value) in &summary.point.values {
        let tells = plan.varies(option) && !WORKLOAD.contains(&option.as_str());
        match (along, option.as_str()) {
            // Where both vary, a number of outstanding commands comes about in several ways, and each is a line.
            (Along::Outstanding, "numjobs") if both => words.push(in_words(option, value)),
            _ if !tells || along.options().contains(&option.as_str()) => {}
            // Outstanding commands are named once, whichever option sets them.
            (_, "iodepth") if both => {}
            (_, "iodepth") => words.push(format!("{} outstanding", summary.outstanding)),
            (_, "numjobs") if both => {
                words.push(format!("{} outstanding of {}", summary.outstanding, in_words(option, value)));
            }
            (_, "numjobs") => words.push(format!("{} outstanding", summary.outstanding)),
            _ => words.push(in_words(option, value)),
        }
    }
    words.join(", ")
}
