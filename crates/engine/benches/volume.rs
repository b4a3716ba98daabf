//! What a `Volume` costs beside the bare loop round queues that `selvedge bench` uses: processor time per 4 KiB read of
//! memory, 32 at a time, of the host alone. The target is a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{
    AsyncVolume, ConnectOptions, Data, Driver, PathOptions, PathQueues, Paths, Volume, VolumeOptions,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Ring, RingOptions};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use nvme::io::IoCommand;

const NQN: &str = "nqn.2026-01.io.selvedge:volume";
const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const DEPTH: usize = 32;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 9;

fn main() {
    if std::env::args().any(|argument| argument == "--serve") {
        return serve();
    }
    let (mut target, address) = start_target();
    let mut ratios = [Vec::new(), Vec::new()];
    println!("4 KiB reads, {DEPTH} at a time: processor time of the host per read, and reads a second");
    for round in 1..=ROUNDS {
        let (bare, local, remote) = (bare(address), local(address), remote(address));
        let show = |figures: (f64, f64)| format!("{:.2} us, {:.0}", figures.0 * 1e6, figures.1);
        println!(
            "  round {round}: queues {}; tasks of the volume {}; of another thread {}",
            show(bare),
            show(local),
            show(remote)
        );
        ratios[0].push(local.0 / bare.0);
        ratios[1].push(remote.0 / bare.0);
    }
    for ratios in &mut ratios {
        ratios.sort_by(f64::total_cmp);
    }
    let [local, remote] = ratios.map(|ratios| ratios[ROUNDS / 2]);
    println!(
        "medians: {local:.3} times the processor time for tasks of the volume, {remote:.3} for another thread's"
    );
    let _ = target.kill();
    let _ = target.wait();
}

fn serve() {
    let backend = BackendConfig::Memory { size: BLOCKS * BLOCK as u64 };
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, "127.0.0.1:0".parse().expect("an address"))],
            subsystems: vec![SubsystemConfig::new(NQN, "1", "volume").with(vec![NamespaceConfig::new(
                1,
                backend,
                BLOCK as u32,
            )])],
            ..FabricConfig::default()
        },
        reactors: Reactors::Count(1),
        state_dir: None,
        ..TargetConfig::default()
    };
    let target = Target::start(&config).expect("a target");
    println!("{}", target.ports()[0]);
    // Until it is killed, or its parent is gone.
    let _ = std::io::stdin().lines().next();
}

fn start_target() -> (Child, SocketAddr) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = command.spawn().expect("a process for the target");
    let mut line = String::new();
    let output = target.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("its address");
    (target, line.trim().parse().expect("an address"))
}

fn options(address: SocketAddr) -> PathOptions {
    PathOptions::new(vec![ConnectOptions { io_queues: 1, ..ConnectOptions::new(address, NQN) }], 1)
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Seconds of processor time per read, and reads a second.
fn measured(reads: u64, began: Instant, before: Duration) -> (f64, f64) {
    let used = processor_time() - before;
    (used.as_secs_f64() / reads as f64, reads as f64 / began.elapsed().as_secs_f64())
}

/// Blocks in no order, the same in each round.
fn block(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % BLOCKS
}

fn bare(address: SocketAddr) -> (f64, f64) {
    let paths = Paths::connect(options(address)).expect("a path");
    let mut ring = Ring::new(RingOptions::default()).expect("a ring");
    let queues = PathQueues::open(&paths, &mut ring, 0, 0, 1, DEPTH);
    let mut driver = Driver::new(ring, queues, RECEIVE_LENGTH);
    while !driver.queues().is_ready() {
        driver.flush();
        driver.turn(None).expect("a ring");
    }
    let read = |driver: &mut Driver<PathQueues, ()>, number, buffer| {
        let command = IoCommand::Read { start: block(number), blocks: 1, force_unit_access: false };
        driver.submit(command.encode(1), Data::Receive(buffer), ());
    };
    let (began, before, mut reads) = (Instant::now(), processor_time(), 0);
    for number in 0..DEPTH as u64 {
        read(&mut driver, number, Buffer::zeroed(BLOCK));
    }
    while began.elapsed() < ROUND {
        driver.flush();
        driver.turn(None).expect("a ring");
        while let Some(((), ended)) = driver.pop() {
            reads += 1;
            let buffer = ended.answer().ok().and_then(|completion| completion.data).expect("data");
            read(&mut driver, DEPTH as u64 + reads, buffer);
        }
    }
    let figures = measured(reads, began, before);
    driver.close();
    figures
}

/// Tasks on the volume's own thread.
fn local(address: SocketAddr) -> (f64, f64) {
    let options = VolumeOptions { threads: 1, ..VolumeOptions::from(options(address)) };
    let volume = Volume::connect(options).expect("a volume");
    let (began, before) = (Instant::now(), processor_time());
    let all = volume.spawn(move |volume| async move {
        let read = |task: u64| {
            let own = volume.clone();
            volume.spawn(async move {
                let (mut buffer, mut reads) = (Buffer::zeroed(BLOCK), 0);
                while began.elapsed() < ROUND {
                    let at = block(task + DEPTH as u64 * reads) * BLOCK as u64;
                    buffer = own.read(at, buffer).await.expect("data");
                    reads += 1;
                }
                reads
            })
        };
        let tasks: Vec<_> = (0..DEPTH as u64).map(read).collect();
        let mut reads = 0;
        for task in tasks {
            reads += task.await.expect("a task");
        }
        reads
    });
    measured(all.wait().expect("tasks"), began, before)
}

/// Tasks of an executor on another thread.
fn remote(address: SocketAddr) -> (f64, f64) {
    let options = VolumeOptions { threads: 1, ..VolumeOptions::from(options(address)) };
    let volume = AsyncVolume::connect(options).expect("a volume");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let reads = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (began, before) = (Instant::now(), processor_time());
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..DEPTH as u64 {
            let (volume, reads) = (volume.clone(), reads.clone());
            tasks.spawn(async move {
                let (mut data, mut number) = (vec![0; BLOCK], task);
                while began.elapsed() < ROUND {
                    volume.read_at(block(number) * BLOCK as u64, &mut data).await.expect("data");
                    reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    number += DEPTH as u64;
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    });
    measured(reads.load(std::sync::atomic::Ordering::Relaxed), began, before)
}
