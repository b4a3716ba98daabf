//! Overlap of the work of target and host: the share of its time in which each of them works, where one
//! connection has few, some and many commands outstanding. Where both shares are far below 1, they wait for each other; where
//! one is near 1, that end is the limit. It prints what it saw and asserts nothing.

#[path = "shared/loaded_host.rs"]
mod loaded_host;

use std::net::SocketAddr;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, PathOptions, Paths};
use engine::ring::core;
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};

use loaded_host::{Case, Host, SPAN};

const NQN: &str = "nqn.2026-01.io.selvedge:overlap";
const DEPTHS: [usize; 3] = [8, 32, 128];
const ROUNDS: usize = 3;
const MEASURED: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

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
    let mut host = Host::open(&paths, DEPTHS[DEPTHS.len() - 1]);
    host.fill();
    println!(
        "medians of {ROUNDS} rounds of {} s; the share of its time in which each end works",
        MEASURED.as_secs()
    );
    println!("{:<22}{:>6}{:>14}{:>10}{:>10}{:>10}", "", "depth", "per second", "target", "host", "both");
    for case in CASES {
        for depth in DEPTHS {
            let mut rounds = [(); ROUNDS].map(|()| measure(&mut host, case, depth, &target));
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

fn measure(host: &mut Host, case: Case, depth: usize, target: &Target) -> Seen {
    host.begin(case, depth);
    host.run(case, WARM_UP);
    let waited = |host: &Host| (target.metrics().reactors[0].waited, host.driver.ring().waited());
    let (before, began) = (waited(host), host.driver.ring().now());
    let ended = host.run(case, MEASURED);
    let (after, elapsed) = (waited(host), host.driver.ring().now().since(began));
    host.drain(depth);
    let works = |waited: Duration| 1.0 - waited.as_secs_f64() / elapsed.as_secs_f64();
    Seen {
        per_second: ended as f64 / elapsed.as_secs_f64(),
        target: works(after.0 - before.0),
        host: works(after.1 - before.1),
    }
}
