//! What a target costs while nobody asks anything: processor time and wake-ups with 16 connected queues, and resident
//! memory of one reactor with 1,000 of them. It prints what it saw and asserts nothing.

#[allow(dead_code)]
#[path = "roofline/client.rs"]
mod client;

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};

const NQN: &str = "nqn.2026-01.io.selvedge:idle";
const WATCHED: Duration = Duration::from_secs(10);

fn main() {
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![SubsystemConfig::new(NQN, "idle", "Selvedge").with(vec![NamespaceConfig::new(
                1,
                BackendConfig::Memory { size: 64 << 20 },
                4096,
            )])],
            ..FabricConfig::default()
        },
        ..TargetConfig::default()
    };
    let target = Target::start(&config).expect("the target starts");
    let address = target.ports()[0];

    let few = open(address, 1, 16);
    std::thread::sleep(Duration::from_secs(1));
    let (before, woken_before) = (target.cpu_time(), wake_ups());
    std::thread::sleep(WATCHED);
    let (used, woken) = (target.cpu_time() - before, wake_ups() - woken_before);
    println!(
        "16 idle I/O queues: {:.3} % of one core and {:.1} wake-ups a second over {} s",
        100.0 * used.as_secs_f64() / WATCHED.as_secs_f64(),
        woken as f64 / WATCHED.as_secs_f64(),
        WATCHED.as_secs()
    );
    drop(few);
    std::thread::sleep(Duration::from_millis(200));

    let before = resident_bytes();
    let many = open(address, 10, 100);
    let after = resident_bytes();
    let queues = 1000;
    println!(
        "{queues} idle I/O queues of 128 entries: {} KiB resident before, {} KiB with them, {:.1} KiB a queue (the client's \
         end in the same process included)",
        before >> 10,
        after >> 10,
        (after.saturating_sub(before)) as f64 / 1024.0 / f64::from(queues)
    );
    drop(many);
    target.shutdown();
}

/// Opens `controllers` controllers with `queues` I/O queues each.
fn open(address: SocketAddr, controllers: usize, queues: usize) -> Vec<(TcpStream, Vec<TcpStream>)> {
    (0..controllers).map(|_| client::open_controller(address, NQN, queues, 128)).collect()
}

/// How often this process's threads have slept and been woken; the main thread's are few.
fn wake_ups() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_thread = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    };
    threads.filter_map(of_thread).sum()
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
