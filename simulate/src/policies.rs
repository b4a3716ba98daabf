//! Path policies beside each other: a host that keeps a target busy over four links, which are good, lossy, uneven or cut.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{
    ConnectOptions, Data, Driver, Ended, EwmaKnobs, HostIdentity, IoPolicy, PathOptions, PathQueues, Paths,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Moment, Ring, RingOptions};
use engine::simulation::{self, Direction, Options, Streams, sleep};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use nvme::io::IoCommand;
use uuid::Uuid;

use crate::scene::address;
use crate::target::NQN;

/// Seeds of the table without others: a median needs a few.
pub(crate) const SEEDS: std::ops::Range<u64> = 1..6;
/// Links, each of which is a path.
const LINKS: usize = 4;
/// Bytes per second of a link, either way: all sizes are an eighth of those in docs/paths.md (1 Gbit/s, 128 KiB), so that as many
/// commands take as much virtual time and an eighth of the copying.
const LINK_RATE: u64 = 15_625_000;
const BLOCK_SIZE: u32 = 4096;
const BLOCKS: u32 = 4;
const COMMAND_BYTES: usize = (BLOCKS * BLOCK_SIZE) as usize;
/// Bytes of a packet: an eighth of 1,448.
const PACKET_LENGTH: u64 = 181;
/// Threads of the host, with queues of their own, and commands that each keeps outstanding.
const THREADS: u16 = 2;
const DEPTH: usize = 64;
/// Commands that fit into a thread's part of the namespace: the next of the same blocks follows after all others.
const PLACES: u64 = 512;
/// Time that a cut lasts.
const CUT: Duration = Duration::from_secs(5);
/// Time of a run: ten batches of the policy `latency-ewma` to learn, and then what counts.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Virtual time in which a run has to end.
const LIMIT: Duration = Duration::from_secs(300);

/// State of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Clean,
    Lossy,
    SlowOne,
    CutOne,
}

impl Links {
    const ALL: [Self; 4] = [Self::Clean, Self::Lossy, Self::SlowOne, Self::CutOne];

    const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Lossy => "5 ms and 0.5 % loss on all",
            Self::SlowOne => "5 ms on all, one with a quarter of the rate",
            Self::CutOne => "one cut for 5 s of 10",
        }
    }

    /// Shortest and longest latency one way, in microseconds.
    const fn latency_us(self) -> (u64, u64) {
        match self {
            Self::Clean | Self::CutOne => (20, 120),
            Self::Lossy | Self::SlowOne => (4_950, 5_050),
        }
    }

    const fn bytes_per_second(self, link: usize) -> u64 {
        match self {
            Self::SlowOne if link == 0 => LINK_RATE / 4,
            _ => LINK_RATE,
        }
    }

    /// Window and segments of the connections: an eighth of 4 MiB and 64 KiB.
    const fn streams(self) -> Streams {
        let lost_per_mille = if matches!(self, Self::Lossy) { 5 } else { 0 };
        Streams { capacity: 512 << 10, segment_length: 8 << 10, packet_length: PACKET_LENGTH, lost_per_mille }
    }

    /// Bytes that all links can carry in this time.
    fn capacity(self, time: Duration) -> f64 {
        let whole: u64 = (0..LINKS).map(|link| self.bytes_per_second(link)).sum();
        let cut = if self == Self::CutOne { LINK_RATE as f64 * CUT.as_secs_f64() } else { 0.0 };
        whole as f64 * time.as_secs_f64() - cut
    }
}

/// Run of a policy on one kind of links.
#[derive(Clone, Copy, Debug)]
struct Run {
    links: Links,
    sends: bool,
    policy: IoPolicy,
    seed: u64,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    /// Bytes of the commands, of those that the links can carry.
    percent: f64,
    /// Latency that 99 of 100 commands do not exceed, in milliseconds.
    p99_ms: f64,
}

/// State that the host's threads share with the director.
#[derive(Default)]
struct Progress {
    /// Threads that have queues on all paths.
    ready: Cell<u16>,
    is_measured: Cell<bool>,
    latencies: RefCell<Vec<Duration>>,
}

impl Run {
    fn play(self) -> Result<Measured, String> {
        let progress = Rc::new(Progress::default());
        let theirs = progress.clone();
        let options = Options { seed: self.seed, limit: LIMIT, traces: false, judge: None };
        let outcome = simulation::run(options, move || self.direct(&theirs));
        if let Some(failure) = outcome.failure {
            return Err(format!("{self:?}: {failure}"));
        }
        let mut latencies = progress.latencies.take();
        latencies.sort_unstable();
        let bytes = (latencies.len() * COMMAND_BYTES) as f64;
        let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
        let percent = 100.0 * bytes / self.links.capacity(MEASURED);
        Ok(Measured { percent, p99_ms: p99.as_secs_f64() * 1000.0 })
    }

    fn direct(self, progress: &Rc<Progress>) {
        let addresses: Vec<IpAddr> = (0..LINKS).map(|link| address(0, link).ip()).collect();
        let (target, host) = (simulation::add_machine(&addresses), simulation::add_machine(&[]));
        for (link, address) in addresses.iter().enumerate() {
            let rate = self.links.bytes_per_second(link);
            simulation::set_link(host, *address, self.links.latency_us(), rate);
            simulation::set_streams(host, *address, self.links.streams());
        }
        simulation::start_process("target", target, serve);
        sleep(LOOK_INTERVAL);
        let theirs = progress.clone();
        simulation::start_process("host", host, move || self.use_paths(&theirs));
        while progress.ready.get() < THREADS {
            sleep(LOOK_INTERVAL);
        }
        sleep(WARM_UP);
        progress.is_measured.set(true);
        if self.links == Links::CutOne {
            let calm = (MEASURED - CUT) / 2;
            let set = |is_cut| {
                simulation::cut(host, addresses[0], Direction::There, is_cut);
                simulation::cut(host, addresses[0], Direction::Back, is_cut);
            };
            sleep(calm);
            set(true);
            sleep(CUT);
            set(false);
            sleep(calm);
        } else {
            sleep(MEASURED);
        }
        progress.is_measured.set(false);
    }

    /// The life of the host's process, which the end of the run ends.
    fn use_paths(self, progress: &Rc<Progress>) {
        let path = |link| ConnectOptions {
            host: HostIdentity::from_uuid(Uuid::from_u128(1)),
            io_queues: THREADS,
            ..ConnectOptions::new(address(0, link), NQN)
        };
        let options =
            PathOptions { policy: self.policy, ..PathOptions::new((0..LINKS).map(path).collect(), 1) };
        let paths = match Paths::connect(options) {
            Ok(paths) => Arc::new(paths),
            Err(error) => return simulation::fail(format!("no path: {error}")),
        };
        for worker in 1..THREADS {
            let (paths, progress) = (paths.clone(), progress.clone());
            simulation::start_thread("worker", move || self.work(&paths, worker, &progress));
        }
        self.work(&paths, 0, progress);
    }

    /// Keeps commands outstanding.
    fn work(self, paths: &Paths, worker: u16, progress: &Progress) {
        let Ok(mut ring) = Ring::new(RingOptions::default()) else { return };
        let queues = PathQueues::open(paths, &mut ring, 0, worker, THREADS, DEPTH);
        let mut driver = Driver::new(ring, queues, RECEIVE_LENGTH);
        while !driver.queues().is_settled() {
            driver.flush();
            if driver.turn(Some(LOOK_INTERVAL)).is_err() {
                return;
            }
        }
        progress.ready.set(progress.ready.get() + 1);
        let mut places = (0..PLACES).cycle().map(|place| u64::from(worker) * PLACES + place);
        let mut submit = |driver: &mut Driver<PathQueues, Moment>, buffer: Buffer| {
            let start = places.next().unwrap_or_default() * u64::from(BLOCKS);
            let (blocks, force_unit_access) = (BLOCKS, false);
            let (command, data) = if self.sends {
                (IoCommand::Write { start, blocks, force_unit_access }, Data::Send(buffer))
            } else {
                (IoCommand::Read { start, blocks, force_unit_access }, Data::Receive(buffer))
            };
            driver.submit(command.encode(1), data, simulation::now());
        };
        (0..DEPTH).for_each(|_| submit(&mut driver, Buffer::zeroed(COMMAND_BYTES)));
        loop {
            driver.flush();
            if driver.turn(Some(LOOK_INTERVAL)).is_err() {
                return;
            }
            while let Some((began, ended)) = driver.pop() {
                let Ended::Answered(completion) = ended else {
                    return simulation::fail("a command has lost its paths");
                };
                if !completion.status.is_success() {
                    return simulation::fail(format!("a command failed: {}", completion.status));
                }
                if progress.is_measured.get() {
                    progress.latencies.borrow_mut().push(simulation::now().since(began));
                }
                let buffer = completion.data.unwrap_or_else(|| Buffer::zeroed(COMMAND_BYTES));
                submit(&mut driver, buffer);
            }
        }
    }
}

/// The life of the target's process: a namespace of memory, with a port on each link.
fn serve() {
    let size = u64::from(THREADS) * PLACES * COMMAND_BYTES as u64;
    let mut memory = NamespaceConfig::new(1, BackendConfig::Memory { size }, BLOCK_SIZE);
    memory.uuid = Some(Uuid::from_u128(0x5e1f_ed9e));
    let port = |link: usize| {
        let mut port = PortConfig::new(link as u16 + 1, address(0, link));
        port.congestion = Some("system".to_owned());
        port
    };
    let fabric = FabricConfig {
        ports: (0..LINKS).map(port).collect(),
        subsystems: vec![SubsystemConfig::new(NQN, "SIMULATED", "Selvedge").with(vec![memory])],
        ..FabricConfig::default()
    };
    let (reactors, poll_us_max) = (Reactors::Count(1), 0);
    let config = TargetConfig { fabric, reactors, poll_us_max, state_dir: None, ..Default::default() };
    let _target = match Target::start(&config) {
        Ok(target) => target,
        Err(error) => return simulation::fail(format!("the target does not start: {error}")),
    };
    loop {
        sleep(LIMIT);
    }
}

/// Policies of the table: two that programs offer, and the one that a patch of the kernel proposes.
const fn compared(knobs: EwmaKnobs) -> [IoPolicy; 3] {
    [IoPolicy::RoundRobin, IoPolicy::Latency, IoPolicy::LatencyEwma(knobs)]
}

/// Runs every policy on every kind of links with every seed, and returns the table as Markdown.
///
/// # Errors
/// The first run that failed.
pub(crate) fn table(seeds: std::ops::Range<u64>, threads: usize, knobs: EwmaKnobs) -> Result<String, String> {
    let mut cells = Vec::new();
    for links in Links::ALL {
        for sends in [false, true] {
            for policy in compared(knobs) {
                cells.extend(seeds.clone().map(|seed| Run { links, sends, policy, seed }));
            }
        }
    }
    let results = play_all(&cells, threads)?;
    let mut text = format!(
        "Share of the links' rate that commands get, in percent, and 99th percentile of their latency: medians of the seeds \
         {} to {} (lowest to highest). `latency-ewma` with a shift of {} and batches of {} ms.\n\n",
        seeds.start,
        seeds.end - 1,
        knobs.shift,
        knobs.batch_timeout.as_millis()
    );
    let names = compared(knobs).map(|policy| format!(" `{policy}` |")).concat();
    text.push_str(&format!("| four links | commands |{names}\n|---|---|---|---|---|\n"));
    let per_cell = results.len() / (Links::ALL.len() * 2 * compared(knobs).len());
    let mut of_cells = results.chunks(per_cell);
    for links in Links::ALL {
        for direction in ["reads", "writes"] {
            let cells = of_cells.by_ref().take(compared(knobs).len());
            let row: String = cells.map(|cell| format!(" {} |", show(cell))).collect();
            text.push_str(&format!("| {} | {direction} |{row}\n", links.name()));
        }
    }
    Ok(text)
}

/// Plays runs on several threads; the results are in the order of the runs.
fn play_all(runs: &[Run], threads: usize) -> Result<Vec<Measured>, String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Ok(Measured::default()); runs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let claim = || {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    runs.get(at).map(|run| (at, run))
                };
                while let Some((at, run)) = claim() {
                    let result = run.play();
                    results.lock().unwrap_or_else(PoisonError::into_inner)[at] = result;
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Cell of the table: median, lowest and highest of its runs.
fn show(cell: &[Measured]) -> String {
    let [low, middle, high] = spread(cell.iter().map(|run| run.percent).collect());
    let [fast, usual, slow] = spread(cell.iter().map(|run| run.p99_ms).collect());
    format!("{middle:.1} % ({low:.1} to {high:.1}), {usual:.0} ms ({fast:.0} to {slow:.0})")
}

/// Lowest, median and highest of some figures.
fn spread(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (figures.first(), figures.last()) else { return [0.0; 3] };
    let middle = f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
    [*low, middle, *high]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percents(links: Links, sends: bool) -> [f64; 3] {
        let of = |policy| Run { links, sends, policy, seed: 1 }.play().expect("a run").percent;
        compared(EwmaKnobs::default()).map(of)
    }

    #[test]
    fn good_links_are_filled_by_every_policy() {
        let percents = percents(Links::Clean, false);
        assert!(percents.iter().all(|percent| (80.0..=101.0).contains(percent)), "{percents:?}");
    }

    #[test]
    fn round_robin_goes_at_the_pace_of_the_slowest_link() {
        let [round_robin, latency, ewma] = percents(Links::SlowOne, true);
        // Four times a quarter, of three and a quarter.
        assert!(round_robin < 33.0, "{round_robin}");
        assert!(latency > 2.0 * round_robin && ewma > 2.0 * round_robin, "{latency}, {ewma}");
    }

    #[test]
    fn a_seed_gives_the_same_figures_each_time() {
        let policy = IoPolicy::LatencyEwma(EwmaKnobs::default());
        let run = Run { links: Links::Lossy, sends: false, policy, seed: 7 };
        assert_eq!(run.play(), run.play());
    }

    #[test]
    fn cells_show_the_median_and_its_neighbours() {
        let runs = [3.0, 1.0, 2.0].map(|figure| Measured { percent: figure, p99_ms: 10.0 * figure });
        assert_eq!(show(&runs), "2.0 % (1.0 to 3.0), 20 ms (10 to 30)");
        assert_eq!(spread(vec![1.0, 2.0]), [1.0, 1.5, 2.0]);
    }
}
