//! Cost of a hostile target to the initiator: at most the controller it was taken for. Between the initiator and a real
//! target stands one that turns hostile in the middle of reads and writes, each time in another way; the table of what
//! that cost is printed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, Volume};
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use prerequisite::{Wait, patience, wait_until};

const NQN: &str = "nqn.2014-08.org.example:test";
/// Callers of the hostile target at a time, and bytes of each one's request.
const CALLERS: usize = 4;
const REQUEST_LENGTH: usize = 1 << 20;
/// Limit of their cost in kB: their requests, as much again in commands under way, what each queue
/// keeps for receiving and sending, and what the allocator holds back.
const ALLOWED_KB: i64 = (CALLERS * REQUEST_LENGTH / 1024 * 2 + 8192) as i64;
/// Poll interval of the man in the middle.
const STEP: Duration = Duration::from_millis(20);

/// Conduct of the target from its turn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Sends nothing more.
    Silent,
    /// Takes nothing more.
    Deaf,
    /// Sends all it should, a byte at a time.
    Slow,
    /// Sends bytes of no meaning, without end.
    Garbage,
    /// Begins a PDU of four gigabytes, and sends them.
    Huge,
    /// Sends the last bytes again and again.
    Repeats,
    /// Closes every connection as soon as it is there.
    Closes,
}

const MANNERS: [Manner; 7] = [
    Manner::Silent,
    Manner::Deaf,
    Manner::Slow,
    Manner::Garbage,
    Manner::Huge,
    Manner::Repeats,
    Manner::Closes,
];

/// The man in the middle.
struct Middle {
    address: SocketAddr,
    has_turned: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Middle {
    fn start(manner: Manner, target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (has_turned, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (has_turned.clone(), ends.clone());
        let thread = thread::spawn(move || accept(&listener, manner, target, &flags));
        Self { address, has_turned, ends, thread }
    }

    fn turn(&self) {
        self.has_turned.store(true, Ordering::Release);
    }

    fn end(self) {
        self.ends.store(true, Ordering::Release);
        self.thread.join().unwrap();
    }
}

type Flags = (Arc<AtomicBool>, Arc<AtomicBool>);

fn accept(listener: &TcpListener, manner: Manner, target: SocketAddr, flags: &Flags) {
    let mut threads = Vec::new();
    while !flags.1.load(Ordering::Acquire) {
        let Ok((host, _)) = listener.accept() else {
            thread::sleep(STEP);
            continue;
        };
        let behind = TcpStream::connect(target).unwrap();
        for stream in [&host, &behind] {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(STEP)).unwrap();
            stream.set_write_timeout(Some(STEP)).unwrap();
        }
        let clones = (host.try_clone().unwrap(), behind.try_clone().unwrap());
        let (there, back) = (flags.clone(), flags.clone());
        threads
            .push(thread::spawn(move || carry(clones.0, clones.1, &there, |_, _, _| manner != Manner::Deaf)));
        threads.push(thread::spawn(move || {
            carry(behind, host, &back, |host, bytes, ends| behave(manner, host, bytes, ends));
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Carries bytes from one end to the other. From the turn on, `behaves` is asked what to do with them: true if they are
/// to be carried all the same, false if nothing is taken.
fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    (has_turned, ends): &Flags,
    behaves: impl Fn(&mut TcpStream, &[u8], &AtomicBool) -> bool,
) {
    let mut room = vec![0; 64 << 10];
    while !ends.load(Ordering::Acquire) {
        let count = match from.read(&mut room) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_slow(&error) => 0,
            Err(_) => break,
        };
        if has_turned.load(Ordering::Acquire) && !behaves(&mut to, &room[..count], ends) {
            while !ends.load(Ordering::Acquire) {
                thread::sleep(STEP);
            }
            break;
        }
        if !send(&mut to, &room[..count], ends) {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Does to the host, from the turn on, what the manner demands in place of what it should.
fn behave(manner: Manner, host: &mut TcpStream, bytes: &[u8], ends: &AtomicBool) -> bool {
    match manner {
        Manner::Deaf => true,
        Manner::Silent => false,
        Manner::Slow => {
            for byte in bytes {
                thread::sleep(STEP);
                if !send(host, &[*byte], ends) {
                    break;
                }
            }
            false
        }
        Manner::Garbage => {
            let noise: Vec<u8> =
                (0..64_u32 << 10).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            while send(host, &noise, ends) {}
            false
        }
        Manner::Huge => {
            // C2HData with a header of 24 bytes, its data behind it.
            let mut header = [0; 24];
            header[..8].copy_from_slice(&[7, 0, 24, 24, 0xfc, 0xff, 0xff, 0xff]);
            let zeroes = vec![0; 64 << 10];
            let mut goes_on = send(host, &header, ends);
            while goes_on {
                goes_on = send(host, &zeroes, ends);
            }
            false
        }
        Manner::Repeats => {
            while !bytes.is_empty() && send(host, bytes, ends) {}
            bytes.is_empty()
        }
        Manner::Closes => {
            let _ = host.shutdown(Shutdown::Both);
            false
        }
    }
}

fn is_slow(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Sends all of it; false when the peer does not take it, or it is over.
fn send(to: &mut TcpStream, mut bytes: &[u8], ends: &AtomicBool) -> bool {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_slow(&error) && !ends.load(Ordering::Acquire) => {}
            Err(_) => return false,
        }
    }
    true
}

fn target() -> (Target, SocketAddr) {
    let namespace = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 30 }, 4096);
    let target = Target::start(&TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, "127.0.0.1:0".parse().unwrap())],
            subsystems: vec![SubsystemConfig::new(NQN, "1", "test").with(vec![namespace])],
            ..FabricConfig::default()
        },
        poll_us_max: 0,
        ..TargetConfig::default()
    })
    .unwrap();
    let address = target.ports()[0];
    (target, address)
}

fn options(address: SocketAddr, connect_timeout: Duration) -> ConnectOptions {
    ConnectOptions {
        io_queues: 2,
        keep_alive_ms: 1000,
        connect_timeout,
        command_timeout: Duration::from_secs(2),
        ..ConnectOptions::new(address, NQN)
    }
}

/// This process: resident kB, threads, descriptors.
fn costs() -> (i64, usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kb = line.trim().trim_end_matches(" kB").parse().unwrap();
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (kb, count("/proc/self/task"), count("/proc/self/fd"))
}

/// Cost of a hostile target.
struct Cost {
    most_kb: i64,
    ended_ms: u128,
    good_ios: u64,
}

/// Lets a target turn hostile while callers use it, until none of them does.
fn suffer(manner: Manner, target: SocketAddr, good: &AtomicU64) -> Cost {
    let before = costs();
    let middle = Middle::start(manner, target);
    let controller = Controller::connect(options(middle.address, patience())).unwrap();
    let namespace = Volume::on_controller(&controller, 1).unwrap();
    let callers: Vec<_> = (0..CALLERS as u64)
        .map(|caller| {
            let namespace = namespace.clone();
            thread::spawn(move || {
                let mut data = vec![0; REQUEST_LENGTH];
                for round in 0.. {
                    let outcome = if (caller + round) % 2 == 0 {
                        namespace.read_at(caller << 20, &mut data)
                    } else {
                        namespace.write_at(caller << 20, &data)
                    };
                    if outcome.is_err() {
                        break;
                    }
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(200));
    let (turned, ios) = (Instant::now(), good.load(Ordering::Relaxed));
    middle.turn();
    let wait = Wait::begin("all callers have ended");
    let mut most_kb = 0;
    while callers.iter().any(|caller| !caller.is_finished()) {
        wait.check();
        most_kb = most_kb.max(costs().0 - before.0);
        thread::sleep(Duration::from_millis(5));
    }
    let ended_ms = turned.elapsed().as_millis();
    // A host that connects to what is hostile from the beginning gets an answer, too.
    let again = Controller::connect(options(middle.address, Duration::from_secs(2)));
    assert!(again.is_err() || manner == Manner::Slow, "{manner:?}: it can be connected");
    drop(again);
    let good_ios = good.load(Ordering::Relaxed) - ios;
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    drop((namespace, controller));
    middle.end();
    let condition = format!("{manner:?}: threads and descriptors are what they were, {before:?}");
    wait_until(&condition, || costs().1 <= before.1 && costs().2 <= before.2);
    Cost { most_kb, ended_ms, good_ios }
}

#[test]
fn a_hostile_target_costs_its_controller_and_nothing_else() {
    let (_target, address) = target();
    let (good, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let bystander = {
        let (good, stops) = (good.clone(), stops.clone());
        thread::spawn(move || {
            // With the usual time-outs: it is to notice nothing on a busy machine, either.
            let controller = Controller::connect(ConnectOptions::new(address, NQN)).unwrap();
            let namespace = Volume::on_controller(&controller, 1).unwrap();
            let mut data = vec![0; 4096];
            while !stops.load(Ordering::Acquire) {
                namespace.read_at(0, &mut data).expect("a bystander does not notice");
                good.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    wait_until("the bystander reads", || good.load(Ordering::Relaxed) > 0);
    println!(
        "| the target is | most kB (of {ALLOWED_KB}) | callers ended after ms | I/Os of another controller |"
    );
    println!("|---|---|---|---|");
    for manner in MANNERS {
        let cost = suffer(manner, address, &good);
        println!("| {manner:?} | {} | {} | {} |", cost.most_kb, cost.ended_ms, cost.good_ios);
        assert!(cost.most_kb <= ALLOWED_KB, "{manner:?} costs {} kB", cost.most_kb);
        assert!(cost.good_ios > 0, "{manner:?}: another controller stands still");
    }
    stops.store(true, Ordering::Release);
    bystander.join().unwrap();
}
