//! What TLS costs: the same commands over a queue in clear and over one with TLS, one core for each end, in turns. It prints what
//! it saw and asserts nothing.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{
    ConnectOptions, Data, Driver, HostIdentity, PathOptions, PathQueues, Paths, TlsKeys,
};
use engine::limits::{POLL_US_MAX, RECEIVE_LENGTH};
use engine::ring::{Buffer, Ring, RingOptions, core};
use engine::target::{
    FabricConfig, HostKeyConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target,
    TargetConfig, TlsUse,
};
use nvme::io::IoCommand;
use secure_channel::{ConfiguredPsk, Suite};

const NQN: &str = "nqn.2026-01.io.selvedge:tls";
const HOST: &str = "nqn.2026-01.io.selvedge:host";
const SPAN: u64 = 256 << 20;
const MEASURED: Duration = Duration::from_millis(700);
const WARM_UP: Duration = Duration::from_millis(150);

/// What is asked for, in blocks of 4096 bytes.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    blocks: u32,
    is_write: bool,
    depth: usize,
}

const CASES: [Case; 8] = [
    Case { name: "4 KiB random reads", blocks: 1, is_write: false, depth: 1 },
    Case { name: "4 KiB random reads", blocks: 1, is_write: false, depth: 32 },
    Case { name: "4 KiB random reads", blocks: 1, is_write: false, depth: 128 },
    Case { name: "4 KiB random writes", blocks: 1, is_write: true, depth: 1 },
    Case { name: "4 KiB random writes", blocks: 1, is_write: true, depth: 32 },
    Case { name: "4 KiB random writes", blocks: 1, is_write: true, depth: 128 },
    Case { name: "128 KiB random reads", blocks: 32, is_write: false, depth: 16 },
    Case { name: "128 KiB random writes", blocks: 32, is_write: true, depth: 16 },
];
const DEPTH_MAX: usize = 128;

/// Commands per second, and the processor time of each end for one, in microseconds.
#[derive(Clone, Copy)]
struct Seen {
    per_second: f64,
    target_us: f64,
    host_us: f64,
}

fn main() {
    let rounds: usize = std::env::args()
        .skip_while(|word| word != "--rounds")
        .nth(1)
        .map_or(9, |rounds| rounds.parse().expect("--rounds N"));
    let only = std::env::args().skip_while(|word| word != "--only").nth(1).unwrap_or_default();
    let cpus = core::available();
    let [host_cpu, target_cpu, ..] = cpus[..] else {
        eprintln!("tls: it needs two processors, one for the target and one for the host");
        std::process::exit(1);
    };
    let key = ConfiguredPsk::new(&[0x5e; 32], None).expect("a key of 32 bytes");
    let folder = tempfile::tempdir().expect("a folder");
    let target = start_target(target_cpu, folder.path(), &key);
    core::pin_to(host_cpu).expect("the host's processor");
    let connect = |suite: Option<Suite>| {
        let port = usize::from(suite.is_some());
        let tls =
            suite.map(|suite| Arc::new(TlsKeys { suite: Some(suite), ..TlsKeys::new(vec![key.clone()]) }));
        let options = ConnectOptions {
            queue_entries: 256,
            host: HostIdentity::from_nqn(HOST),
            tls,
            ..ConnectOptions::new(target.ports()[port], NQN)
        };
        let paths = Paths::connect(PathOptions::once(options, 1)).expect("the host connects");
        (Host::open(&paths), paths)
    };
    let (mut clear, _one) = connect(None);
    let (mut short, _two) = connect(Some(Suite::Aes128Gcm));
    let (mut long, _three) = connect(Some(Suite::Aes256Gcm));
    clear.fill();
    println!(
        "medians of {rounds} rounds in turns; processor time per command in microseconds, target / host"
    );
    println!(
        "{:<22}{:>6}{:>11}{:>16}{:>10}{:>16}{:>10}{:>16}",
        "", "depth", "clear/s", "", "AES-128", "", "AES-256", ""
    );
    for case in CASES.into_iter().filter(|case| case.name.contains(&only)) {
        let mut seen = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (host, seen) in [&mut clear, &mut short, &mut long].into_iter().zip(&mut seen) {
                seen.push(host.measure(case, &target));
            }
        }
        print(case, seen);
    }
    for host in [&mut clear, &mut short, &mut long] {
        host.driver.close();
    }
    target.shutdown();
}

fn print(case: Case, [clear, short, long]: [Vec<Seen>; 3]) {
    let ratio = |other: &[Seen]| {
        median(other.iter().zip(&clear).map(|(other, clear)| other.per_second / clear.per_second))
    };
    let costs = |seen: &[Seen]| {
        let target = median(seen.iter().map(|seen| seen.target_us));
        format!("{target:.2} / {:.2}", median(seen.iter().map(|seen| seen.host_us)))
    };
    println!(
        "{:<22}{:>6}{:>11.0}{:>16}{:>10.3}{:>16}{:>10.3}{:>16}",
        case.name,
        case.depth,
        median(clear.iter().map(|seen| seen.per_second)),
        costs(&clear),
        ratio(&short),
        costs(&short),
        ratio(&long),
        costs(&long)
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn start_target(cpu: usize, folder: &std::path::Path, key: &ConfiguredPsk) -> Target {
    let file = folder.join("key");
    std::fs::write(&file, key.reveal().as_bytes()).expect("a file for the key");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: SPAN }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "tls", "Selvedge").with(vec![memory]);
    subsystem.host_keys = vec![HostKeyConfig::tls(HOST, file)];
    let port = |id, tls| {
        let mut port = PortConfig::new(id, SocketAddr::from(([127, 0, 0, 1], 0)));
        port.tls = Some(tls);
        port
    };
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![port(1, TlsUse::Off), port(2, TlsUse::Required)],
            subsystems: vec![subsystem],
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
        let queues = PathQueues::open(paths, &mut ring, 0, 0, 1, DEPTH_MAX);
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
        const BLOCKS: u32 = 32;
        for start in (0..SPAN / 4096).step_by(BLOCKS as usize) {
            self.send(IoCommand::Write { start, blocks: BLOCKS, force_unit_access: false }, BLOCKS, true);
            while self.turn() == 0 {}
        }
    }

    fn measure(&mut self, case: Case, target: &Target) -> Seen {
        self.buffers.clear();
        (0..case.depth).for_each(|_| self.next(case));
        self.run(case, WARM_UP);
        let worked = |host: &Self| (target.metrics().reactors[0].waited, host.driver.ring().waited());
        let (before, began) = (worked(self), self.driver.ring().now());
        let ended = self.run(case, MEASURED) as f64;
        let (after, elapsed) = (worked(self), self.driver.ring().now().since(began));
        let mut left = case.depth;
        while left > 0 {
            left -= self.turn();
        }
        let cost_us = |waited: Duration| elapsed.saturating_sub(waited).as_secs_f64() * 1e6 / ended;
        Seen {
            per_second: ended / elapsed.as_secs_f64(),
            target_us: cost_us(after.0 - before.0),
            host_us: cost_us(after.1 - before.1),
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
