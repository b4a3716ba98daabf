//! Advice on the number of I/O queues and of outstanding commands: by measurement if there is one,
//! else by rules and a table.

use chart::units;
use engine::limits::IO_QUEUES_MAX;
use topology::{Interface, InterfaceKind, KernelChoice, QueueLimit, Topology, queue_limit};

use super::{Basis, Case, Measured, Path, Recommendation};
use crate::flags::tune::Goal;
use crate::sweep::choice::{self, Knee, QUEUES_RULE, knee, knee_points};
use crate::sweep::family::{Workload, workloads};

/// The window in which the published study saw throughput grow with what is outstanding, at latencies below 400 us.
const WINDOW: (u32, u32) = (128, 512);
/// Time that a fast target takes for a command, besides the round trip, in microseconds: the study's least is 240 us with
/// everything.
const SERVICE_US: u64 = 200;
/// Bytes of a command's PDUs besides its data: capsule one way, data header and response the other.
const PDU_BYTES: u64 = 24 + 24;
/// More processors than this are "very high core count systems".
const MANY_CORES: u32 = 64;

/// Recommended queues and outstanding commands.
#[derive(Debug)]
pub(super) struct Load {
    queues: u32,
    queues_why: String,
    queues_basis: Basis,
    outstanding: u32,
    outstanding_why: String,
    outstanding_basis: Basis,
    paths: u32,
}

/// Finds both; what is outstanding first, since more queues than that would be idle.
pub(super) fn load(case: &Case<'_>) -> Load {
    let (outstanding, outstanding_why, outstanding_basis) = outstanding(case);
    let measured = case.measured.as_ref().and_then(|measured| measured_queues(measured, case));
    let (queues, queues_why, queues_basis) = measured.unwrap_or_else(|| queues(case, outstanding));
    let paths = case.paths.len() as u32;
    Load { queues, queues_why, queues_basis, outstanding, outstanding_why, outstanding_basis, paths }
}

fn outstanding(case: &Case<'_>) -> (u32, String, Basis) {
    if let Some(given) = case.outstanding {
        return (given, "the outstanding I/O of the workload".to_owned(), Basis::Rule("as given".to_owned()));
    }
    let measured = case.measured.as_ref();
    if let Some(found) = measured.and_then(|measured| measured_outstanding(measured, case.block_bytes)) {
        return found;
    }
    let window =
        format!("{} to {} outstanding was the efficient window with 4 KiB reads", WINDOW.0, WINDOW.1);
    match link_iops(case) {
        Some(iops) => {
            let rtt_us = case.paths.iter().filter_map(|path| path.rtt_us).max().unwrap_or(0);
            let needed = (iops as f64 * (rtt_us + SERVICE_US) as f64 / 1e6).ceil() as u32;
            let value = needed.clamp(1, 4 * WINDOW.1);
            let why = format!(
                "the links carry {} IOPS of {}, and a command takes about {} µs: this number outstanding fills them",
                units::count(iops as f64),
                units::bytes(case.block_bytes as f64),
                rtt_us + SERVICE_US
            );
            (value, why, Basis::Rule("Little's law: outstanding = rate x time".to_owned()))
        }
        None => (WINDOW.0, format!("the speed of the link is unknown; {window}"), Basis::Table(window)),
    }
}

/// Commands a second that all links carry, where they say their speed.
fn link_iops(case: &Case<'_>) -> Option<u64> {
    let mbps = links_mbps(case)?;
    // A packet of the usual size carries 1,448 bytes and takes 1,538 on the wire.
    let bits = (case.block_bytes + PDU_BYTES) * 8 * 1_538 / 1_448;
    Some(mbps * 1_000_000 / bits.max(1))
}

/// The speed of an interface: what a bond, or a VLAN, says of itself, since a bond knows which of its members carry packets; else
/// that of the devices that it stands on. What a cable between two namespaces or a tunnel says of itself means nothing.
pub(crate) fn link_mbps(topology: &Topology, interface: &str) -> Option<u64> {
    let own = topology.interface(interface)?;
    let is_link = matches!(own.kind, InterfaceKind::Bond | InterfaceKind::Vlan);
    if let Some(mbps) = own.speed_mbps.filter(|_| is_link) {
        return Some(mbps.into());
    }
    let devices = devices(topology, interface);
    if devices.is_empty() { None } else { sum_mbps(&devices) }
}

/// The speed of devices together, where all of them tell it.
fn sum_mbps(devices: &[&Interface]) -> Option<u64> {
    devices.iter().map(|device| device.speed_mbps.map(u64::from)).sum()
}

/// The devices with a link that an interface stands on.
pub(super) fn devices<'a>(topology: &'a Topology, interface: &str) -> Vec<&'a Interface> {
    let legs = topology::legs(topology, interface);
    legs.into_iter().filter(|leg| leg.kind == InterfaceKind::Device).collect()
}

/// The speed of all links together, where all of them tell it. A link that several paths use counts once.
pub(super) fn links_mbps(case: &Case<'_>) -> Option<u64> {
    let mut counted: Vec<&str> = Vec::new();
    let mut sum = 0;
    for name in interfaces(case) {
        let devices = devices(case.topology, name);
        let is_new = |device: &&&Interface| !counted.contains(&device.name.as_str());
        let new: Vec<&Interface> = devices.iter().filter(is_new).copied().collect();
        // Of an interface that shares devices with one before it, those that are its own count.
        let is_apart = new.len() == devices.len();
        sum += if is_apart { link_mbps(case.topology, name)? } else { sum_mbps(&new)? };
        counted.extend(new.iter().map(|device| device.name.as_str()));
    }
    Some(sum)
}

/// The interfaces of all paths, each once.
fn interfaces<'a>(case: &'a Case<'_>) -> Vec<&'a str> {
    let mut names: Vec<&str> = case.paths.iter().map(|path| path.interface.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The knee of what was measured.
fn measured_outstanding(measured: &Measured<'_>, block_bytes: u64) -> Option<(u32, String, Basis)> {
    let (workload, of) = workload(measured, block_bytes)?;
    let Knee { summary: best, is_passed } = knee(measured.plan, &workload)?;
    let (_, members) = knee_points(&workload);
    let most = members.iter().map(|summary| summary.iops.mean).fold(0.0, f64::max);
    let why = format!(
        "{of}it did {} IOPS at a p99 of {} ({:.0} % of the most that was seen): {}",
        units::count(best.iops.mean),
        units::time_ns(best.seen_latency().p99_ns.mean),
        best.iops.mean / most.max(1.0) * 100.0,
        match (measured.plan.latency_target_ns, is_passed) {
            (Some(target), _) =>
                format!("the most within the sweep's latency target of {}", units::time_ns(target as f64)),
            (None, true) => "beyond, waiting grows faster than throughput".to_owned(),
            (None, false) => "no more was measured, and more may bring more".to_owned(),
        }
    );
    Some((u32::try_from(best.outstanding).ok()?, why, Basis::Measured(measured.folder.clone())))
}

/// The measured workload that comes nearest to the one that advice is asked for, and its name, if there were several.
fn workload<'a>(measured: &Measured<'a>, block_bytes: u64) -> Option<(Workload<'a>, String)> {
    let all = workloads(measured.plan, measured.summaries);
    let are_several = all.len() > 1;
    let bytes = |workload: &Workload<'_>| {
        let bandwidth = workload.members.first().map(|at| at.bw_bytes.mean / at.iops.mean.max(1.0));
        (bandwidth.unwrap_or(0.0) - block_bytes as f64).abs()
    };
    let nearest = all.into_iter().min_by(|a, b| bytes(a).total_cmp(&bytes(b)))?;
    let of = if are_several { format!("with {} ", nearest.label) } else { String::new() };
    Some((nearest, of))
}

/// The queues that the sweep's report advises, or those for the outstanding commands that were asked for.
fn measured_queues(measured: &Measured<'_>, case: &Case<'_>) -> Option<(u32, String, Basis)> {
    let (workload, of) = workload(measured, case.block_bytes)?;
    let (family, choice) = choice::queues(measured.plan, &workload, case.outstanding.map(u64::from))?;
    // Where the runs tell no difference, nothing follows from them.
    if !choice.is_decided {
        return None;
    }
    let best = choice.fewest;
    let tried: Vec<String> = family.members.iter().map(|summary| summary.queues.to_string()).collect();
    let why = format!(
        "{of}with {} outstanding it did {} IOPS at a p99 of {}; of -i {} it is {QUEUES_RULE}",
        best.outstanding,
        units::count(best.iops.mean),
        units::time_ns(best.latency.p99_ns.mean),
        tried.join(", ")
    );
    Some((u32::try_from(best.queues).ok()?, why, Basis::Measured(measured.folder.clone())))
}

/// The most I/O queues over all paths: as many as their interfaces are good for together, and no more than processors run.
fn limit(case: &Case<'_>) -> Option<QueueLimit> {
    let limits: Vec<QueueLimit> =
        interfaces(case).iter().map(|name| queue_limit(case.topology, name)).collect();
    if limits.len() < 2 {
        return limits.into_iter().next();
    }
    let cpus = (case.topology.processors.online.len() as u32).max(1);
    let sum: u32 = limits.iter().map(|limit| limit.queues).sum();
    let each: Vec<&str> = limits.iter().map(|limit| limit.reason.as_str()).collect();
    let hints: Vec<String> = limits.iter().filter_map(|limit| limit.hint.clone()).collect();
    Some(QueueLimit {
        queues: sum.min(cpus),
        reason: format!("on {cpus} CPUs, and by each way {}", each.join("; ")),
        hint: (!hints.is_empty()).then(|| hints.join("; ")),
    })
}

/// The row of the study's table, within the rule for queues.
fn queues(case: &Case<'_>, outstanding: u32) -> (u32, String, Basis) {
    let Some(limit) = limit(case) else {
        return (1, "the path is unknown".to_owned(), Basis::Rule("none".to_owned()));
    };
    let queues_max = u32::from(IO_QUEUES_MAX);
    let (row, most) = match case.goal {
        Goal::Cpu => ("CPU-constrained client: keep -i smaller", 8),
        Goal::Throughput if case.cores > MANY_CORES => {
            ("high-core-count server running heavy I/O: increase -i aggressively", queues_max)
        }
        _ if outstanding < WINDOW.0 => ("low outstanding I/O: 8 - 32", 32),
        Goal::Latency if case.cores <= MANY_CORES => ("high outstanding I/O, latency sensitive: 32 - 64", 64),
        Goal::Latency => ("high outstanding I/O, latency sensitive, very high core count: 64+", queues_max),
        Goal::Throughput => ("high outstanding I/O: 32 - 64", 64),
    };
    let queues = most.min(limit.queues).min(case.cores).min(outstanding).clamp(1, queues_max);
    let mut why = format!("at most {} by the rule ({})", limit.queues, limit.reason);
    if case.cores < limit.queues {
        why.push_str(&format!(", {} may be used", units::plural(case.cores.into(), "CPU")));
    }
    for choice in interfaces(case).iter().filter_map(|name| KernelChoice::of(case.topology, name)) {
        if choice.doubt.is_some() || choice.queues != queue_limit(case.topology, &choice.device).queues {
            why.push_str(&format!("; a kernel with the series of July 2026 creates {choice}"));
        }
    }
    if outstanding == queues {
        why.push_str(", and a queue without a command is idle");
    }
    why.push_str("; measure it: `selvedge sweep -i 1,2,4,...`");
    if queues < most {
        why.push_str(&format!(" (a published table for this case: {row})"));
        let rule = "no more I/O queues than NIC queues, CPUs and commands outstanding";
        return (queues, why, Basis::Rule(rule.to_owned()));
    }
    (queues, why, Basis::Table(row.to_owned()))
}

impl Load {
    pub(super) fn outstanding_advice(&self) -> Recommendation {
        let jobs = self.queues.min(self.outstanding);
        Recommendation {
            setting: "outstanding I/O".to_owned(),
            value: format!("{} ({} x {})", self.outstanding, jobs, self.outstanding.div_ceil(jobs)),
            now: None,
            why: self.outstanding_why.clone(),
            basis: self.outstanding_basis.clone(),
            command: None,
        }
    }

    pub(super) fn queues_advice(&self) -> Recommendation {
        Recommendation {
            setting: "I/O queues (-i), total".to_owned(),
            value: self.queues.to_string(),
            now: None,
            why: self.queues_why.clone(),
            basis: self.queues_basis.clone(),
            command: None,
        }
    }

    /// Queues of each path: all of them together where paths have loss or delay, else what one path would have, divided.
    pub(super) fn per_path_advice(&self, case: &Case<'_>) -> Option<Recommendation> {
        if self.paths < 2 {
            return None;
        }
        let is_long = super::network::is_long(case);
        let queues = self.per_path(case);
        let shared = shared_link(case);
        let why = if is_long {
            "a way with delay or loss needs congestion windows more than processors: over 4 emulated links of 1 Gbit/s, \
             5 ms and 0.5 % loss, 2 queues a path filled them with bbr, which auto takes there, and 32 with cubic"
        } else {
            "each path has its share; together they are as many as the CPUs serve"
        };
        Some(Recommendation {
            setting: "I/O queues of each path".to_owned(),
            value: queues.to_string(),
            now: None,
            why: format!("{why}{}", shared.unwrap_or_default()),
            basis: match is_long {
                true => Basis::Measured("`cargo xtask lab paths --compare`, docs/paths.md".to_owned()),
                false => Basis::Rule("queues divided by paths".to_owned()),
            },
            command: None,
        })
    }

    fn per_path(&self, case: &Case<'_>) -> u32 {
        let least = if self.paths > 1 && super::network::is_long(case) { 2 } else { 1 };
        // The paths of one interface have its queues together.
        let most = interfaces(case).into_iter().map(|name| {
            let paths = case.paths.iter().filter(|path| path.interface == name).count() as u32;
            queue_limit(case.topology, name).queues.div_ceil(paths.max(1))
        });
        self.queues.div_ceil(self.paths.max(1)).min(most.min().unwrap_or(u32::MAX)).max(least)
    }

    pub(super) fn commands(&self, case: &Case<'_>) -> Vec<String> {
        let queues = self.per_path(case);
        let jobs = self.queues.min(self.outstanding);
        let depth = self.outstanding.div_ceil(jobs);
        let address = |path: &Path| path.address.ip().to_string();
        let all: Vec<String> = case.paths.iter().map(address).collect();
        let mut commands = vec![format!(
            "selvedge bench -a {} -s {} -n NQN --rw randread --bs {} --numjobs {jobs} --iodepth {depth} -i {queues} \
             --match-hw-queues",
            all.join(","),
            case.paths.first().map_or(4420, |path| path.address.port()),
            case.block_bytes
        )];
        let connect = |path: &Path| {
            let address = path.address;
            format!("nvme connect -t tcp -a {} -s {} -n NQN -i {queues}", address.ip(), address.port())
        };
        commands.extend(case.paths.iter().map(connect));
        commands.push("selvedge tune plan".to_owned());
        commands
    }
}

/// Warns if two paths share one link, which carries no more by two paths, and fails for both.
fn shared_link(case: &Case<'_>) -> Option<String> {
    let names = |path: &Path| -> Vec<String> {
        let devices = devices(case.topology, &path.interface);
        let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
        if names.is_empty() { vec![path.interface.clone()] } else { names }
    };
    let shared = case.paths.iter().enumerate().find_map(|(at, path)| {
        let before: Vec<String> = case.paths[..at].iter().flat_map(names).collect();
        names(path).into_iter().find(|name| before.contains(name))
    })?;
    Some(format!(
        ". Several of the paths go by {shared}: they share its speed, which counts once here, and fail together. A route by \
         another interface for each target's address would part them"
    ))
}
