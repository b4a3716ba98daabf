//! Effect of a limit on its namespace and on others: a namespace of 1,000 commands a second beside one without a limit,
//! each read by deep queues of its own, together and the other one alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, Volume};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, QosConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};

const NQN: &str = "nqn.2026-01.io.selvedge:limits";
const LIMIT_IOPS: u64 = 1_000;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
/// Threads that read each namespace, one command at a time each.
const READERS: usize = 8;

fn main() {
    let target = start_target();
    let address = target.ports()[0];
    let (mut limited, mut shares) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        // One after the other, so that what the machine does besides meets both.
        let alone = measure(address, &[2])[0];
        let [slow, free] = measure(address, &[1, 2])[..] else { unreachable!("two were asked for") };
        println!("round {round}: limited {slow:.0}/s, neighbour {free:.0}/s beside it, {alone:.0}/s alone");
        limited.push(slow);
        shares.push(free / alone);
    }
    let (slow, share) = (median(&mut limited), median(&mut shares));
    println!("median: limited to {LIMIT_IOPS}/s gets {slow:.0}/s, neighbour {:.1} % of alone", 100.0 * share);
    target.shutdown();
    let as_it_should = (950.0..=1050.0).contains(&slow) && share >= 0.95;
    if !as_it_should {
        eprintln!("limits: not as it should be");
        std::process::exit(1);
    }
}

fn start_target() -> Target {
    let memory = |nsid| NamespaceConfig::new(nsid, BackendConfig::Memory { size: 64 << 20 }, 4096);
    let mut limited = memory(1);
    limited.qos = QosConfig { iops: Some(LIMIT_IOPS), ..QosConfig::default() };
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![SubsystemConfig::new(NQN, "limits", "Selvedge").with(vec![limited, memory(2)])],
            ..FabricConfig::default()
        },
        reactors: Reactors::Count(2),
        ..TargetConfig::default()
    };
    Target::start(&config).expect("the target starts")
}

/// Reads these namespaces at the same time; commands a second of each.
fn measure(address: SocketAddr, nsids: &[u32]) -> Vec<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<(Arc<AtomicU64>, Vec<JoinHandle<()>>)> =
        nsids.iter().map(|nsid| read(address, *nsid, &stop)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let counts = || readers.iter().map(|(count, _)| count.load(Ordering::Relaxed)).collect::<Vec<u64>>();
    let (before, began) = (counts(), Instant::now());
    std::thread::sleep(ROUND);
    let (after, took) = (counts(), began.elapsed().as_secs_f64());
    stop.store(true, Ordering::Relaxed);
    for (_, threads) in readers {
        threads.into_iter().for_each(|thread| thread.join().expect("a reader"));
    }
    before.iter().zip(after).map(|(before, after)| (after - before) as f64 / took).collect()
}

fn read(address: SocketAddr, nsid: u32, stop: &Arc<AtomicBool>) -> (Arc<AtomicU64>, Vec<JoinHandle<()>>) {
    let count = Arc::new(AtomicU64::new(0));
    let controller = Controller::connect(ConnectOptions::new(address, NQN)).expect("a host connects");
    let namespace = Arc::new(Volume::on_controller(&controller, nsid).expect("its namespace opens"));
    let threads = (0..READERS).map(|_| {
        let (namespace, stop, count) = (namespace.clone(), stop.clone(), count.clone());
        // The controller lives as long as one of its readers.
        let controller = controller.clone();
        std::thread::spawn(move || {
            let mut block = vec![0; 4096];
            while !stop.load(Ordering::Relaxed) {
                namespace.read_at(0, &mut block).expect("a read");
                count.fetch_add(1, Ordering::Relaxed);
            }
            drop(controller);
        })
    });
    (count.clone(), threads.collect())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
