//! One run of one cell: a target and a host with a workload on the network as the cell has it, watched while it lasts.
//! It keeps out which cells are run, and what becomes of the figures.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::cell::{Access, Cell, Congestion, Tls, Transport, Word as _};
use crate::emulator::AllCounters;
use crate::emulator::link::{Counters, LossUnit};
use crate::load::{Load, Moment};
use crate::network::{LINKS, Network, target_address_of};
use crate::program::Program;
use crate::subflows::{self, Asked, Seen};
use crate::tls_files::{HOST_NQN, TlsFiles};

/// The subsystem that is served.
const NQN: &str = "nqn.2026-01.io.selvedge:lab";
/// The seed's workload: 128 KiB, four jobs, 256 commands each.
const WORKLOAD: &str = "--bs 128k --iodepth 256 --numjobs 4";
/// Time until the target listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a workload besides its runtime: to connect, and to end over links that lose.
const GRACE: Duration = Duration::from_secs(90);
/// The time between two looks at the links, and until data flows.
const SAMPLE: Duration = Duration::from_millis(250);
const FIRST_SAMPLE: Duration = Duration::from_millis(25);
/// Data flows when the links have carried more than connecting takes.
const CONNECT_BYTES_MAX: u64 = 1_000_000;
/// Lines a target may print before it says that it listens.
const START_LINES_MAX: usize = 100;

/// Something that happens to a link during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Event {
    /// Seconds since data began to flow.
    pub(crate) at_s: f64,
    /// Counted from 1.
    pub(crate) link: usize,
    /// True if the link carries from now on.
    pub(crate) up: bool,
}

/// Parameters of a run.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a Path,
    pub(crate) cell: Cell,
    pub(crate) access: Access,
    pub(crate) runtime_s: u32,
    /// True if everything is checked, and in the end read back.
    pub(crate) verify: bool,
    pub(crate) mode: LossUnit,
    /// In order of time.
    pub(crate) events: &'a [Event],
    /// Files for cells with TLS.
    pub(crate) tls: Option<&'a TlsFiles>,
}

impl<'a> Plan<'a> {
    fn tls_files(&self) -> Option<&'a TlsFiles> {
        self.tls.filter(|_| self.cell.tls == Tls::On)
    }
}

/// Megabytes (10^6 bytes) per second and link, one after the other.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LinkRates {
    /// End of each interval, in seconds since data began to flow.
    pub(crate) at_s: Vec<f64>,
    pub(crate) to_host_mb_s: [Vec<f64>; LINKS],
    pub(crate) to_target_mb_s: [Vec<f64>; LINKS],
}

/// Record of a run. Nothing else is kept of it.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) cell: Cell,
    pub(crate) access: Access,
    pub(crate) loss_unit: LossUnit,
    /// Megabytes (10^6 bytes) per second, by the workload's own account.
    pub(crate) mb_s: Option<f64>,
    /// Why there is no figure, or why it does not count.
    pub(crate) failure: Option<String>,
    pub(crate) target_command: Vec<String>,
    pub(crate) host_command: Vec<String>,
    /// Congestion control of a connection by default.
    pub(crate) kernel_congestion: String,
    pub(crate) load: Load,
    pub(crate) late_us_max: u64,
    pub(crate) events: Vec<Event>,
    /// Time at which the workload's program ended, in seconds since data began to flow, or since
    /// its start where none did.
    pub(crate) ended_s: f64,
    pub(crate) links: LinkRates,
    pub(crate) counters: Totals,
    /// Output of the workload's program, and its error output.
    pub(crate) bench: Value,
    pub(crate) errors: String,
}

/// Totals of all links during a run, both ways together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub(crate) delivered_segments: u64,
    pub(crate) lost_segments: u64,
    pub(crate) dropped_segments: u64,
    pub(crate) swallowed_segments: u64,
}

/// Runs a plan on a network that is there.
///
/// # Errors
/// The experiment could not be run. A workload that fails is not an error here: its record says so.
pub(crate) fn run(network: &mut Network, plan: &Plan<'_>) -> Result<Record, String> {
    prepare(network, plan)?;
    let target_command = target_command(plan);
    let _target = start_target(network, &target_command, plan.cell.paths)?;
    let host_command = host_command(plan);
    let before = network.counters()?;
    let moment = Moment::now(network.emulator_id());
    let mut host = Program::new(network.spawn_at_host(&mut command(&host_command))?);
    let watched = watch(network, &mut host, plan, before.clone())?;
    let load = moment.until_now(network.emulator_id());
    let after = network.counters()?;
    let bench: Value = serde_json::from_str(&host.rest()).unwrap_or_default();
    let errors = host.errors();
    let failure = failure(watched.status, &bench, plan.verify, &errors);
    Ok(Record {
        cell: plan.cell,
        access: plan.access,
        loss_unit: plan.mode,
        mb_s: bench[plan.access.name()]["bw_bytes"].as_f64().map(|bytes| bytes / 1e6),
        failure,
        target_command: named(target_command),
        host_command: named(host_command),
        kernel_congestion: network.default_congestion()?,
        load,
        late_us_max: watched.late_us_max,
        events: plan.events.to_vec(),
        ended_s: watched.ended_s,
        links: watched.links,
        counters: Totals::between(&before, &after),
        bench,
        errors,
    })
}

/// Makes the network what the plan's cell says.
fn prepare(network: &mut Network, plan: &Plan<'_>) -> Result<(), String> {
    for link in 1..=LINKS {
        network.set(link, &plan.cell.scenario.link(link, plan.mode))?;
    }
    network.use_mptcp((plan.cell.transport == Transport::Mptcp).then_some(plan.cell.family))?;
    match plan.tls_files() {
        Some(files) => files.write_target(&plan.cell, NQN),
        None => Ok(()),
    }
}

/// Runs a workload with an option on every connection, and lists the connections meanwhile, at the moment with most of
/// them.
///
/// # Errors
/// The experiment could not be run. A workload that fails is not an error here.
pub(crate) fn look(network: &mut Network, plan: &Plan<'_>, asked: Asked) -> Result<Seen, String> {
    prepare(network, plan)?;
    let _target = start_target(network, &target_command(plan), plan.cell.paths)?;
    let mut words = host_command(plan);
    words.extend(asked.flags(&plan.cell).split_whitespace().map(str::to_owned));
    let mut host = Program::new(network.spawn_at_host(&mut command(&words))?);
    let deadline = Instant::now() + Duration::from_secs(plan.runtime_s.into()) + GRACE;
    let mut sockets = Vec::new();
    let status = loop {
        let status = host.ended(deadline.min(Instant::now() + SAMPLE))?;
        if status.is_some() || Instant::now() >= deadline {
            break status;
        }
        let now = subflows::parse(&network.output_at_host(&subflows::SS)?);
        // The later of two: MPTCP gives a subflow its options after it is there.
        if now.len() >= sockets.len() {
            sockets = now;
        }
    };
    let bench: Value = serde_json::from_str(&host.rest()).unwrap_or_default();
    let sockets = match failure(status, &bench, false, &host.errors()) {
        None => Ok(sockets),
        Some(reason) => Err(reason),
    };
    Ok(Seen { cell: plan.cell, asked, sockets })
}

/// A command as it is kept: where its program and its files were is this machine's own matter.
fn named(mut command: Vec<String>) -> Vec<String> {
    for (at, word) in command.iter_mut().enumerate() {
        if (at == 0 || word.starts_with('/'))
            && let Some(name) = Path::new(word.as_str()).file_name()
        {
            *word = name.to_string_lossy().into_owned();
        }
    }
    command
}

fn target_command(plan: &Plan<'_>) -> Vec<String> {
    if let Some(files) = plan.tls_files() {
        return with_file(words(plan, "serve -c"), &files.target());
    }
    let mut line = "serve".to_owned();
    for link in 1..=plan.cell.paths {
        line += &format!(" -a {}", target_address_of(plan.cell.family, link));
    }
    line += &format!(" -n {NQN} --namespace memory:256M --allow-any-host");
    // A target listens for TCP by default.
    if plan.cell.transport == Transport::Mptcp {
        line += " -t mptcp";
    }
    if plan.cell.congestion != Congestion::Default {
        line += &format!(" --congestion {}", plan.cell.congestion.name());
    }
    words(plan, &line)
}

fn host_command(plan: &Plan<'_>) -> Vec<String> {
    let cell = &plan.cell;
    let mut line = format!("bench -t {} -n {NQN}", cell.transport.name());
    for link in 1..=cell.paths {
        line += &format!(" -a {}", target_address_of(cell.family, link));
    }
    line += &format!(" --iopolicy {}", cell.policy.name());
    if let Some(queues) = cell.queues {
        line += &format!(" -i {queues}");
    }
    if cell.congestion != Congestion::Default {
        line += &format!(" --congestion {}", cell.congestion.name());
    }
    let (workload, runtime_s) = (plan.access.workload(), plan.runtime_s);
    line += &format!(" -k 5 -c 1 --destroy-data --rw {workload} {WORKLOAD} --runtime {runtime_s}");
    if plan.verify {
        line += " --verify";
    }
    line += " --output-format json";
    match plan.tls_files() {
        Some(files) => with_file(words(plan, &format!("{line} -q {HOST_NQN} --tls-key-file")), &files.key()),
        None => words(plan, &line),
    }
}

fn with_file(mut words: Vec<String>, file: &Path) -> Vec<String> {
    words.push(file.display().to_string());
    words
}

/// The program with the arguments of a line.
fn words(plan: &Plan<'_>, line: &str) -> Vec<String> {
    let program = plan.program.display().to_string();
    std::iter::once(program).chain(line.split_whitespace().map(str::to_owned)).collect()
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts the target and waits until it listens on every address.
fn start_target(network: &Network, words: &[String], addresses: usize) -> Result<Program, String> {
    let mut target = Program::new(network.spawn_at_target(&mut command(words))?);
    let deadline = Instant::now() + START_TIMEOUT;
    let mut listening = 0;
    for _ in 0..START_LINES_MAX {
        let Some(line) = target.line(deadline) else { break };
        listening += usize::from(line.starts_with("listening on "));
        if listening == addresses {
            return Ok(target);
        }
    }
    Err(format!("`{}` does not listen: {}", words.join(" "), target.errors()))
}

/// Observations while the workload ran.
struct Watched {
    /// None for a workload that had to be ended.
    status: Option<ExitStatus>,
    ended_s: f64,
    links: LinkRates,
    late_us_max: u64,
}

/// Lets the workload run to its end, and looks at the links at regular times. The clock starts when data begins to flow,
/// for what happens to links too, so that connecting over links that lose takes nothing from the run.
fn watch(
    network: &mut Network,
    host: &mut Program,
    plan: &Plan<'_>,
    mut last: AllCounters,
) -> Result<Watched, String> {
    let start = Instant::now();
    let deadline = start + Duration::from_secs(plan.runtime_s.into()) + GRACE;
    let connected = last.bytes(plan.access) + CONNECT_BYTES_MAX;
    let mut events = plan.events.iter().peekable();
    let (mut links, mut late_us_max) = (LinkRates::default(), 0);
    let (mut flows_since, mut last_at, mut next_sample) = (None, start, start + FIRST_SAMPLE);
    loop {
        let next_event = flows_since
            .zip(events.peek())
            .map(|(since, event): (Instant, _)| since + Duration::from_secs_f64(event.at_s));
        let until = next_event.map_or(next_sample, |at| at.min(next_sample)).min(deadline);
        let status = host.ended(until)?;
        let now = Instant::now();
        if status.is_some() || now >= deadline {
            let ended_s = (now - flows_since.unwrap_or(start)).as_secs_f64();
            return Ok(Watched { status, ended_s, links, late_us_max });
        }
        if next_event.is_some_and(|at| at <= now)
            && let Some(event) = events.next()
        {
            if event.up { network.restore(event.link)? } else { network.cut(event.link)? }
        }
        if next_sample <= now {
            let counters = network.counters()?;
            late_us_max = late_us_max.max(counters.late_us_max);
            if let Some(since) = flows_since {
                links.note((now - since).as_secs_f64(), (now - last_at).as_secs_f64(), &last, &counters);
                // After a late look, the next one is not so soon that it sees hardly anything.
                next_sample = (next_sample + SAMPLE).max(now + SAMPLE / 2);
            } else if counters.bytes(plan.access) > connected {
                flows_since = Some(now);
                next_sample = now + SAMPLE;
            } else {
                next_sample += FIRST_SAMPLE;
            }
            (last, last_at) = (counters, now);
        }
    }
}

impl AllCounters {
    /// Bytes that all links together have delivered in the direction of the data.
    fn bytes(&self, access: Access) -> u64 {
        let links = match access {
            Access::Read => &self.to_host,
            Access::Write => &self.to_target,
        };
        links.iter().map(|counters| counters.delivered_bytes).sum()
    }
}

impl LinkRates {
    fn note(&mut self, at_s: f64, interval_s: f64, before: &AllCounters, after: &AllCounters) {
        self.at_s.push((at_s * 1000.0).round() / 1000.0);
        let note = |rates: &mut [Vec<f64>; LINKS], before: &[Counters], after: &[Counters]| {
            for (rate, (before, after)) in rates.iter_mut().zip(before.iter().zip(after)) {
                let bytes = after.delivered_bytes.saturating_sub(before.delivered_bytes);
                // Tenths are enough, and keep what is kept short.
                rate.push((bytes as f64 / 1e5 / interval_s.max(0.001)).round() / 10.0);
            }
        };
        note(&mut self.to_host_mb_s, &before.to_host, &after.to_host);
        note(&mut self.to_target_mb_s, &before.to_target, &after.to_target);
    }

    /// The rates of each link in the direction of the data.
    pub(crate) fn of(&self, access: Access) -> &[Vec<f64>; LINKS] {
        match access {
            Access::Read => &self.to_host_mb_s,
            Access::Write => &self.to_target_mb_s,
        }
    }
}

impl Totals {
    fn between(before: &AllCounters, after: &AllCounters) -> Totals {
        let sum = |all: &AllCounters, what: fn(&Counters) -> u64| -> u64 {
            all.to_host.iter().chain(&all.to_target).map(what).sum()
        };
        let grown = |what| sum(after, what).saturating_sub(sum(before, what));
        Totals {
            delivered_segments: grown(|counters| counters.delivered_segments),
            lost_segments: grown(|counters| counters.lost_segments),
            dropped_segments: grown(|counters| counters.dropped_segments),
            swallowed_segments: grown(|counters| counters.swallowed_segments),
        }
    }
}

/// Why a run does not count, if it does not.
fn failure(status: Option<ExitStatus>, bench: &Value, verify: bool, errors: &str) -> Option<String> {
    // The last thing said is the reason; lines in brackets only tell how far it is.
    let reason = errors.lines().rev().find(|line| !line.starts_with('[')).unwrap_or("without a reason");
    let Some(status) = status else {
        return Some(format!("the workload did not come to its end: {reason}"));
    };
    if !status.success() {
        return Some(format!("the workload failed ({status}): {reason}"));
    }
    if bench["ended"] != "complete" {
        return Some(format!("the workload ended as {}", bench["ended"]));
    }
    // A run that was to check its data and says nothing of it has not checked.
    if verify && bench["verify"]["blocks_wrong"] != 0 {
        return Some(format!("blocks that are wrong: {}", bench["verify"]["blocks_wrong"]));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Family;
    use crate::scenario::Scenario;
    use serde_json::json;
    use std::os::unix::process::ExitStatusExt;

    fn plan(cell: Cell) -> Plan<'static> {
        let program = Path::new("selvedge");
        let (access, mode) = (Access::Write, LossUnit::Skb);
        Plan { program, cell, access, runtime_s: 10, verify: false, mode, events: &[], tls: None }
    }

    #[test]
    fn the_product_chooses_unnamed_settings() {
        let plan = plan(Cell { paths: 2, ..Cell::product(Scenario::Lossy) });
        assert_eq!(
            target_command(&plan).join(" "),
            "selvedge serve -a 10.1.1.1 -a 10.1.2.1 -n nqn.2026-01.io.selvedge:lab --namespace memory:256M --allow-any-host"
        );
        assert_eq!(
            host_command(&plan).join(" "),
            "selvedge bench -t tcp -n nqn.2026-01.io.selvedge:lab -a 10.1.1.1 -a 10.1.2.1 --iopolicy latency -k 5 -c 1 \
             --destroy-data --rw randwrite --bs 128k --iodepth 256 --numjobs 4 --runtime 10 --output-format json"
        );
    }

    #[test]
    fn names_reach_both_ends() {
        let cell = Cell::product(Scenario::Lossy);
        let plan =
            plan(Cell { transport: Transport::Mptcp, congestion: Congestion::Bbr, queues: Some(3), ..cell });
        for words in [target_command(&plan), host_command(&plan)] {
            let line = words.join(" ");
            assert!(line.contains("-t mptcp") && line.contains("--congestion bbr"), "{line}");
        }
        assert!(host_command(&plan).join(" ").contains("-i 3"));
    }

    #[test]
    fn both_ends_have_the_family() {
        let plan = plan(Cell { family: Family::Ipv6, paths: 2, ..Cell::product(Scenario::Lossy) });
        for words in [target_command(&plan), host_command(&plan)] {
            let line = words.join(" ");
            assert!(line.contains(" -a fd10:1:1::1 -a fd10:1:2::1 "), "{line}");
        }
    }

    #[test]
    fn kept_commands_have_no_folders() {
        let words = ["/usr/bin/selvedge", "bench", "-a", "10.1.1.1", "/folder/host.key"].map(str::to_owned);
        assert_eq!(named(words.to_vec()).join(" "), "selvedge bench -a 10.1.1.1 host.key");
    }

    #[test]
    fn only_a_whole_run_counts() {
        let judge = |code: i32, bench: Value, verify: bool| {
            failure(Some(ExitStatus::from_raw(code << 8)), &bench, verify, "lost\n[ 5/46 s] randwrite")
        };
        assert_eq!(judge(0, json!({"ended": "complete"}), false), None);
        assert_eq!(judge(0, json!({"ended": "complete", "verify": {"blocks_wrong": 0}}), true), None);
        assert!(
            judge(1, json!({"ended": "complete"}), false).is_some_and(|reason| reason.ends_with(": lost"))
        );
        assert!(judge(0, json!({"ended": "failed"}), false).is_some());
        assert!(judge(0, json!({}), false).is_some());
        assert!(judge(0, json!({"ended": "complete"}), true).is_some());
        assert!(judge(0, json!({"ended": "complete", "verify": {"blocks_wrong": 1}}), true).is_some());
        assert!(failure(None, &json!({"ended": "complete"}), false, "").is_some());
    }
}
