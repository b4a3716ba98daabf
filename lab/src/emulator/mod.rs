//! The emulator: point-to-point links between two network namespaces, each with a rate, a delay, losses and a queue,
//! that change while it runs. It keeps out what the links are used for.

pub(crate) mod control;
pub(crate) mod link;
mod packet;
mod segment;
mod tun;

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use control::{Change, Command, LinkDirection};
use link::{Counters, Direction, Settings};
use packet::{Packet, Pool};
use segment::{Shape, VNET_HEADER};

/// Links of one emulator at most.
pub(crate) const LINKS_MAX: usize = 16;
/// Packets taken from one device before others have their turn and what is due is delivered.
const PACKETS_PER_TURN: usize = 16;
/// A longer line is not an order.
const LINE_BYTES_MAX: usize = 1024;

/// Parameters of an emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The namespaces at one end: the links are dealt out to them in order, as many to each.
    pub(crate) targets: Vec<String>,
    pub(crate) host: String,
    pub(crate) links: usize,
    pub(crate) seed: u64,
}

impl Options {
    /// The namespace at the target's end of a link, counted from 1.
    pub(crate) fn target_of(&self, link: usize) -> &str {
        &self.targets[(link - 1) * self.targets.len() / self.links]
    }
}

/// The answer to `counters`: one entry for each link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AllCounters {
    pub(crate) to_host: Vec<Counters>,
    pub(crate) to_target: Vec<Counters>,
    /// Latest delivery since the last query, in microseconds of delay. Milliseconds show an
    /// emulator that does not get enough of its processor.
    pub(crate) late_us_max: u64,
}

/// Runs until it gets the order to quit, or standard input is closed.
///
/// # Errors
/// What failed and why.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut devices = Vec::new();
    for link in 1..=options.links {
        devices.push(tun::open(options.target_of(link), &format!("tt{link}"))?);
        devices.push(tun::open(&options.host, &format!("th{link}"))?);
    }
    // The default slack of 50 µs is longer than what a packet takes on a gigabit.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
        .map_err(|error| format!("cannot have precise timers: {error}"))?;
    let mut emulator = Emulator::new(options);
    say("ready")?;
    while emulator.run_once(&devices)? {}
    Ok(())
}

/// Packets on their way, in one direction.
struct Lane {
    direction: Direction,
    in_flight: VecDeque<Traveller>,
    /// True if this direction alone drops everything.
    is_cut: bool,
}

impl Lane {
    fn swallow(&mut self, pool: &mut Pool) {
        for traveller in self.in_flight.drain(..) {
            self.direction.forget(traveller.segments);
            pool.take_back(traveller.packet);
        }
    }
}

/// A packet and when it arrives.
struct Traveller {
    packet: Packet,
    arrival_ns: u64,
    segments: u64,
    wire_bytes: u64,
}

struct Emulator {
    /// Of each link.
    settings: Vec<Settings>,
    /// Two for each link: what comes from device `n` is in `lanes[n]`, and goes to device `n ^ 1`.
    lanes: Vec<Lane>,
    pool: Pool,
    late_ns_max: u64,
    /// The part of a line of orders that has come.
    line: Vec<u8>,
}

impl Emulator {
    fn new(options: &Options) -> Self {
        let lane = |number: usize| Lane {
            direction: Direction::new(options.seed.wrapping_mul(64).wrapping_add(number as u64)),
            in_flight: VecDeque::new(),
            is_cut: false,
        };
        Self {
            settings: vec![Settings::default(); options.links],
            lanes: (0..2 * options.links).map(lane).collect(),
            pool: Pool::default(),
            late_ns_max: 0,
            line: Vec::new(),
        }
    }

    /// Delivers what is due, waits for the next packet, order or due time, and takes in what has come. False when it
    /// is over.
    fn run_once(&mut self, devices: &[OwnedFd]) -> Result<bool, String> {
        let next_ns = self.deliver(devices);
        let stdin = std::io::stdin();
        let mut files: Vec<PollFd<'_>> =
            devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
        files.push(PollFd::new(&stdin, PollFlags::IN));
        let wait = next_ns.map(|at_ns| timespec(at_ns.saturating_sub(now_ns())));
        match poll(&mut files, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("cannot wait for packets: {error}")),
        }
        let came = |file: &PollFd<'_>| !file.revents().is_empty();
        for (lane, _) in files[..devices.len()].iter().enumerate().filter(|(_, file)| came(file)) {
            self.take_in(lane, &devices[lane]);
        }
        if came(&files[devices.len()]) { self.take_orders() } else { Ok(true) }
    }

    /// Gives the devices what has arrived by now, and returns when the next packet will.
    fn deliver(&mut self, devices: &[OwnedFd]) -> Option<u64> {
        let now_ns = now_ns();
        let mut next_ns: Option<u64> = None;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            while lane.in_flight.front().is_some_and(|traveller| traveller.arrival_ns <= now_ns) {
                let Some(traveller) = lane.in_flight.pop_front() else { break };
                self.late_ns_max = self.late_ns_max.max(now_ns - traveller.arrival_ns);
                let counters = &mut lane.direction.counters;
                // A device that is down, or that has gone with its namespace, takes nothing; the links stay.
                if rustix::io::write(&devices[number ^ 1], traveller.packet.bytes()).is_ok() {
                    counters.delivered_segments += traveller.segments;
                    counters.delivered_bytes += traveller.wire_bytes;
                } else {
                    counters.refused_segments += traveller.segments;
                }
                self.pool.take_back(traveller.packet);
            }
            if let Some(first) = lane.in_flight.front() {
                next_ns = Some(next_ns.map_or(first.arrival_ns, |ns| ns.min(first.arrival_ns)));
            }
        }
        next_ns
    }

    /// Sends what a device has on its way.
    fn take_in(&mut self, number: usize, device: &OwnedFd) {
        let Lane { direction, in_flight, is_cut } = &mut self.lanes[number];
        let link = self.settings[number / 2];
        let settings = &Settings { up: link.up && !*is_cut, ..link };
        for _ in 0..PACKETS_PER_TURN {
            let Some(packet) = self.pool.receive(device) else { return };
            if packet.bytes().len() <= VNET_HEADER {
                self.pool.take_back(packet);
                continue;
            }
            let shape = Shape::of(packet.bytes());
            let runs = direction.carry(settings, &shape, now_ns());
            let all = shape.segments();
            if let [run] = runs
                && run.segments.len() == all
            {
                let (arrival_ns, wire_bytes) = (run.arrival_ns, run.wire_bytes);
                in_flight.push_back(Traveller { packet, arrival_ns, segments: all as u64, wire_bytes });
                continue;
            }
            for run in runs {
                let part = self.pool.part(&packet, &shape, run.segments.clone());
                let segments = run.segments.len() as u64;
                let (arrival_ns, wire_bytes) = (run.arrival_ns, run.wire_bytes);
                in_flight.push_back(Traveller { packet: part, arrival_ns, segments, wire_bytes });
            }
            self.pool.take_back(packet);
        }
    }

    /// Reads what has come on the standard input and does each whole line of it. False when it is over.
    fn take_orders(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 512];
        let count = match rustix::io::read(std::io::stdin(), &mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(true),
            Err(error) => return Err(format!("cannot read orders: {error}")),
        };
        for &byte in &bytes[..count] {
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > LINE_BYTES_MAX {
                    return Err("an order is longer than any that exists".to_owned());
                }
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            match control::parse(&line, self.settings.len()) {
                Ok(Command::Quit) => {
                    say("ok")?;
                    return Ok(false);
                }
                Ok(Command::CutOneWay(links, direction)) => {
                    links.into_iter().for_each(|link| self.cut_one_way(link, direction));
                    say("ok")?;
                }
                Ok(Command::Counters) => {
                    let counters =
                        serde_json::to_string(&self.counters()).map_err(|error| error.to_string())?;
                    say(&format!("ok {counters}"))?;
                }
                Ok(Command::Set(links, change)) => {
                    links.into_iter().for_each(|link| self.change(link, change));
                    say("ok")?;
                }
                Err(problem) => say(&format!("error {problem}"))?,
            }
        }
        Ok(true)
    }

    fn change(&mut self, link: usize, change: Change) {
        change.apply(&mut self.settings[link]);
        let Change::Up(up) = change else { return };
        for lane in &mut self.lanes[2 * link..2 * link + 2] {
            if up {
                lane.is_cut = false;
            } else {
                lane.swallow(&mut self.pool);
            }
        }
    }

    /// Cuts one direction of a link. Packets from the target's device go to the host.
    fn cut_one_way(&mut self, link: usize, direction: LinkDirection) {
        let lane = &mut self.lanes[2 * link + usize::from(direction == LinkDirection::ToTarget)];
        lane.is_cut = true;
        lane.swallow(&mut self.pool);
    }

    fn counters(&mut self) -> AllCounters {
        let each =
            |first: usize| self.lanes.iter().skip(first).step_by(2).map(|l| l.direction.counters).collect();
        let (to_host, to_target) = (each(0), each(1));
        AllCounters { to_host, to_target, late_us_max: std::mem::take(&mut self.late_ns_max) / 1000 }
    }
}

/// Prints one line of answer.
fn say(line: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot answer: {error}"))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as _ }
}
