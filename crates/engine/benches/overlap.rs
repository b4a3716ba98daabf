//! Whether target and host work at the same time or take turns: the share of its time in which each of them works, where one
//! connection has few, some and many commands outstanding. Where both shares are far below 1, they wait for each other; where
//! one is near 1, that end is the limit. It prints what it saw and asserts nothing.

use std::net::SocketAddr;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Data, Driver, PathOptions, PathQueues, Paths};
use engine::limits::{POLL_US_MAX, RECEIVE_LENGTH};
use engine::ring::{Buffer, Ring, RingOptions, core};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use nvme::io::IoCommand;

const NQN: &str = "nqn.2026-01.io.selvedge:overlap";
const SPAN: u64 = 256 << 20;
const DEPTHS: [usize; 3] = [8, 32, 128];
const ROUNDS: usize = 3;
const MEASURED: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

/// What is asked for, in blocks of 4096 bytes.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    blocks: u32,
    is_write: bool,
}

const CASES: [Case; 4] = [
    Case { name: "4 KiB random reads", blocks: 1, is_write: false },
    Case { name: "4 KiB random writes", blocks: 1, is_write: true },
    Case { name: "128 KiB random reads", blocks: 32, is_write: false },
    Case { name: "128 KiB random writes", blocks: 32, is_write: true },
];

/// Commands per second, and the share of its time in which each end worked.
#[derive(Clone, Copy)]
struct Seen {
    per_second: f64,
    target: f64,
    host: f64,
}

fn main() {
    let cpus = core::available();
    let [host_cpu, target_cpu, ..] = cpus[..] else {
        eprintln!("overlap: it needs two processors, one for the target and one for the host");
        std::process::exit(1);
    };
    let target = start_target(target_cpu);
    core::pin_to(host_cpu).expect("the host's processor");
    let options = ConnectOptions { queue_entries: 256, ..ConnectOptions::new(target.ports()[0], NQN) };
    let paths = Paths::connect(PathOptions::once(options, 1)).expect("the host connects");
    let mut host = Host::open(&paths);
    host.fill();
    println!(
        "medians of {ROUNDS} rounds of {} s; the share of its time in which each end works",
        MEASURED.as_secs()
    );
    println!("{:<22}{:>6}{:>14}{:>10}{:>10}{:>10}", "", "depth", "per second", "target", "host", "both");
    for case in CASES {
        for depth in DEPTHS {
            let mut rounds = [(); ROUNDS].map(|()| host.measure(case, depth, &target));
            rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
            let Seen { per_second, target, host } = rounds[ROUNDS / 2];
            println!(
                "{:<22}{depth:>6}{per_second:>14.0}{:>9.0} %{:>9.0} %{:>9.0} %",
                case.name,
                100.0 * target,
                100.0 * host,
                // The least that they must have worked at the same time.
                100.0 * (target + host - 1.0).max(0.0),
            );
        }
    }
    host.driver.close();
    paths.disconnect();
    target.shutdown();
}

fn start_target(cpu: usize) -> Target {
    let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: SPAN }, 4096);
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![SubsystemConfig::new(NQN, "overlap", "Selvedge").with(vec![memory])],
            ..FabricConfig::default()
        },
        reactors: Reactors::Cpus(vec![cpu]),
        ..TargetConfig::default()
    };
    Target::start(&config).expect("the target starts")
}

/// The host, on this thread.
struct Host {
    driver: Driver<PathQueues, ()>,
    buffers: Vec<Buffer>,
    random: u64,
}

impl Host {
    fn open(paths: &Paths) -> Self {
        let options = RingOptions { poll_us_max: POLL_US_MAX, ..RingOptions::default() };
        let mut ring = Ring::new(options).expect("a ring");
        let queues = PathQueues::open(paths, &mut ring, 0, 0, 1, DEPTHS[DEPTHS.len() - 1]);
        let driver = Driver::new(ring, queues, RECEIVE_LENGTH);
        let mut host = Self { driver, buffers: Vec::new(), random: 0x9e37_79b9_7f4a_7c15 };
        while !host.driver.queues().is_ready() {
            host.driver.flush();
            host.driver.turn(None).expect("the ring works");
        }
        host
    }

    /// Writes every block once, so that every page is there.
    fn fill(&mut self) {
        let blocks = CASES[3].blocks;
        for start in (0..SPAN / 4096).step_by(blocks as usize) {
            self.send(IoCommand::Write { start, blocks, force_unit_access: false }, blocks, true);
            while self.turn() == 0 {}
        }
    }

    fn measure(&mut self, case: Case, depth: usize, target: &Target) -> Seen {
        self.buffers.clear();
        (0..depth).for_each(|_| self.next(case));
        self.run(case, WARM_UP);
        let waited = |host: &Self| (target.metrics().reactors[0].waited, host.driver.ring().waited());
        let (before, began) = (waited(self), self.driver.ring().now());
        let ended = self.run(case, MEASURED);
        let (after, elapsed) = (waited(self), self.driver.ring().now().since(began));
        let mut left = depth;
        while left > 0 {
            left -= self.turn();
        }
        let works = |waited: Duration| 1.0 - waited.as_secs_f64() / elapsed.as_secs_f64();
        Seen {
            per_second: ended as f64 / elapsed.as_secs_f64(),
            target: works(after.0 - before.0),
            host: works(after.1 - before.1),
        }
    }

    /// Keeps as many commands outstanding as there are; how many have ended.
    fn run(&mut self, case: Case, duration: Duration) -> usize {
        let (began, mut ended) = (self.driver.ring().now(), 0);
        while self.driver.ring().now().since(began) < duration {
            let now = self.turn();
            (0..now).for_each(|_| self.next(case));
            ended += now;
        }
        ended
    }

    /// Sends what there is and waits for answers: how many commands have ended.
    fn turn(&mut self) -> usize {
        self.driver.flush();
        self.driver.turn(None).expect("the ring works");
        let mut ended = 0;
        while let Some(((), end)) = self.driver.pop() {
            let completion = end.answer().map_err(|lost| lost.error).expect("the target answers");
            assert!(completion.status.is_success(), "{}", completion.status);
            self.buffers.extend(completion.data);
            ended += 1;
        }
        ended
    }

    fn next(&mut self, case: Case) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let blocks = case.blocks;
        let start = (self.random >> 33) % (SPAN / 4096 / u64::from(blocks)) * u64::from(blocks);
        let command = if case.is_write {
            IoCommand::Write { start, blocks, force_unit_access: false }
        } else {
            IoCommand::Read { start, blocks, force_unit_access: false }
        };
        self.send(command, blocks, case.is_write);
    }

    fn send(&mut self, command: IoCommand, blocks: u32, is_write: bool) {
        let length = blocks as usize * 4096;
        let buffer = self.buffers.pop().unwrap_or_else(|| Buffer::zeroed(length));
        let data = if is_write { Data::Send(buffer) } else { Data::Receive(buffer) };
        self.driver.submit(command.encode(1), data, ());
    }
}
