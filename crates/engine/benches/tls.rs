//! Cost of TLS: the same commands over a queue in clear and over one with TLS, one core for each end, in turns. It prints what
//! it saw and asserts nothing.

#[path = "shared/loaded_host.rs"]
mod loaded_host;
#[allow(dead_code, reason = "benchmarks with another host have use for all of it")]
#[path = "shared/tls_key.rs"]
mod tls_key;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, HostIdentity, PathOptions, Paths, TlsKeys};
use engine::ring::core;
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig, TlsUse,
};
use secure_channel::Suite;

use loaded_host::{Case, Host, SPAN};

const NQN: &str = "nqn.2026-01.io.selvedge:tls";
const MEASURED: Duration = Duration::from_millis(700);
const WARM_UP: Duration = Duration::from_millis(150);

const READS: Case = Case { name: "4 KiB random reads", blocks: 1, is_write: false };
const WRITES: Case = Case { name: "4 KiB random writes", blocks: 1, is_write: true };
const LONG_READS: Case = Case { name: "128 KiB random reads", blocks: 32, is_write: false };
const LONG_WRITES: Case = Case { name: "128 KiB random writes", blocks: 32, is_write: true };
/// With how many commands outstanding.
const CASES: [(Case, usize); 8] = [
    (READS, 1),
    (READS, 32),
    (READS, 128),
    (WRITES, 1),
    (WRITES, 32),
    (WRITES, 128),
    (LONG_READS, 16),
    (LONG_WRITES, 16),
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
    let folder = tempfile::tempdir().expect("a folder");
    let target = start_target(target_cpu, folder.path());
    core::pin_to(host_cpu).expect("the host's processor");
    let connect = |suite: Option<Suite>| {
        let port = usize::from(suite.is_some());
        let tls =
            suite.map(|suite| Arc::new(TlsKeys { suite: Some(suite), ..(*tls_key::of_host()).clone() }));
        let options =
            ConnectOptions { queue_entries: 256, tls, ..ConnectOptions::new(target.ports()[port], NQN) };
        let paths = Paths::connect(PathOptions::once(options, 1)).expect("the host connects");
        (Host::open(&paths, DEPTH_MAX), paths)
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
    for (case, depth) in CASES.into_iter().filter(|(case, _)| case.name.contains(&only)) {
        let mut seen = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (host, seen) in [&mut clear, &mut short, &mut long].into_iter().zip(&mut seen) {
                seen.push(measure(host, case, depth, &target));
            }
        }
        print(case, depth, seen);
    }
    for host in [&mut clear, &mut short, &mut long] {
        host.driver.close();
    }
    target.shutdown();
}

fn print(case: Case, depth: usize, [clear, short, long]: [Vec<Seen>; 3]) {
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
        depth,
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

fn start_target(cpu: usize, folder: &std::path::Path) -> Target {
    let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: SPAN }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "tls", "Selvedge").with(vec![memory]);
    subsystem.host_keys = vec![tls_key::of_target(&HostIdentity::of_this_machine(), folder)];
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

fn measure(host: &mut Host, case: Case, depth: usize, target: &Target) -> Seen {
    host.begin(case, depth);
    host.run(case, WARM_UP);
    let waited = |host: &Host| (target.metrics().reactors[0].waited, host.driver.ring().waited());
    let (before, began) = (waited(host), host.driver.ring().now());
    let ended = host.run(case, MEASURED) as f64;
    let (after, elapsed) = (waited(host), host.driver.ring().now().since(began));
    host.drain(depth);
    let cost_us = |waited: Duration| elapsed.saturating_sub(waited).as_secs_f64() * 1e6 / ended;
    Seen {
        per_second: ended / elapsed.as_secs_f64(),
        target_us: cost_us(after.0 - before.0),
        host_us: cost_us(after.1 - before.1),
    }
}
