//! Which scenes have a disk that processes serve, what it is like, and what befalls those: mostly that they are killed, also in
//! the middle of taking over, while what they had sent is slow.

use engine::initiator::IoPolicy;
use engine::simulation::Random;
use nvme::tcp::Digests;

use crate::fault::{Cut, Fate, Fault};
use crate::plan::{Mishap, Plan};

/// The number of scenes in a thousand with a disk, among those without a reservation.
const SHARE: u64 = 180;
/// Times in a row that a process is killed at most.
const ROW_MAX: u64 = 4;

/// Interface by which the disk's users reach the process that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// By a block layer, which gives each process the requests that are not answered. The process is a short one of the
    /// simulation's own.
    BlockLayer,
    /// As a block device of ublk, which `attach` serves.
    Ublk,
    /// As NBD clients of `attach`.
    Nbd,
    /// As a guest of a hypervisor, by vhost-user.
    VhostUser,
}

/// A disk and the processes that serve it.
#[derive(Clone, Debug)]
pub(crate) struct DiskPlan {
    pub(crate) front_end: FrontEnd,
    pub(crate) queues: u16,
    pub(crate) depth: usize,
    pub(crate) queue_entries: u16,
    pub(crate) policy: IoPolicy,
    pub(crate) digests: Digests,
    pub(crate) keep_alive_ms: u32,
    pub(crate) reconnect_ms: u64,
    /// True if controllers of a killed process can be reset by others.
    pub(crate) has_resets: bool,
    /// Longest pause between two requests of a queue, in microseconds.
    pub(crate) pause_us_max: u64,
    pub(crate) blocks_max: u64,
    /// Of a thousand requests: writes, flushes, zeroes, discards; the rest reads.
    pub(crate) mix: [u64; 4],
    pub(crate) durable: u64,
}

impl DiskPlan {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            front_end: FrontEnd::BlockLayer,
            queues: random.between(1, 3) as u16,
            depth: *random.pick(&[2, 4, 8]),
            queue_entries: *random.pick(&[4, 16]),
            policy: *random.pick(&IoPolicy::ALL),
            digests: Digests { header: random.chance(300), data: random.chance(300) },
            keep_alive_ms: random.between(1, 3) as u32 * 1000,
            reconnect_ms: random.between(50, 500),
            has_resets: random.chance(600),
            pause_us_max: *random.pick(&[2_000, 10_000, 60_000]),
            blocks_max: *random.pick(&[1, 4, 16]),
            mix: *random.pick(&[[500, 50, 30, 30], [700, 20, 60, 60], [300, 100, 100, 100]]),
            durable: *random.pick(&[0, 200, 500]),
        }
    }
}

impl Plan {
    /// The number by which links of the disk's machine are named, behind those of the hosts.
    pub(crate) const fn disk_number(&self) -> usize {
        self.hosts.len()
    }

    /// Adds a disk to some scenes, from a random source of its own.
    pub(crate) fn vary_disk(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x6c62_272e).wrapping_add(29));
        if self.is_reserved || !random.chance(SHARE) {
            return;
        }
        self.disk = Some(DiskPlan::new(&mut random));
        // What one target still has to do can undo what was done by another.
        if random.chance(600) {
            self.targets = 2;
        }
        for _ in 0..random.between(1, 2) {
            self.add_kills(&mut random);
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }

    /// Kills a process of the disk, and those that follow while they take it over.
    pub(crate) fn add_kills(&mut self, random: &mut Random) {
        // Some of those that are killed have just connected, and still write that down.
        let is_young = random.chance(250);
        let mut at_us = if is_young {
            random.between(5_000, 400_000)
        } else {
            random.between(100_000, self.run_ms * 1000)
        };
        for _ in 0..random.between(1, ROW_MAX) {
            self.add_company(at_us, random);
            let for_ms = if random.chance(150) { random.between(500, 8_000) } else { random.between(1, 300) };
            let cut = match random.below(10) {
                ..2 => Cut::All,
                2..4 => Cut::Path(random.below((self.targets * self.ports) as u64) as usize),
                _ => Cut::None,
            };
            let record = match random.below(100) {
                ..6 => Fate::Unreadable,
                6..10 => Fate::Gone,
                _ => Fate::Stays,
            };
            let is_early = record != Fate::Gone && random.chance(200);
            let fault = Fault::KillAttach { cut, record, is_early };
            self.mishaps.push(Mishap::new(at_us, for_ms, fault));
            let cut_ms = if cut == Cut::None { 0 } else { for_ms };
            at_us += (for_ms + cut_ms) * 1000 + random.between(1_000, 400_000);
        }
    }

    /// Adds a second mishap to a kill: something slow keeps the process' commands under way, or
    /// something else fails.
    fn add_company(&mut self, kill_us: u64, random: &mut Random) {
        let host = self.disk_number();
        let path = random.below((self.targets * self.ports) as u64) as usize;
        let just_before = kill_us.saturating_sub(random.between(5_000, 80_000));
        if random.chance(500) {
            // In most of them what comes next overtakes it.
            let for_ms =
                if random.chance(700) { random.between(10, 160) } else { random.between(160, 1_500) };
            self.mishaps.push(Mishap::new(just_before, for_ms, Fault::SlowStorage));
        }
        if random.chance(300) {
            let fault = Fault::SlowLink { host, path, bytes_per_second: *random.pick(&[200_000, 2_000_000]) };
            self.mishaps.push(Mishap::new(just_before, random.between(50, 1_000), fault));
        }
        if random.chance(200) {
            // It connects again.
            let at_us = kill_us.saturating_sub(random.between(10_000, 400_000));
            self.mishaps.push(Mishap::new(at_us, 0, Fault::ResetLink { host, path }));
        }
        let at_us = kill_us + random.between(0, 400_000);
        let for_ms = random.between(10, 2_000);
        let fault = match random.below(20) {
            0 => Fault::CutLink { host, path, there: random.chance(700), back: random.chance(700) },
            1 => Fault::ResetLink { host, path },
            2 => Fault::PauseAttach,
            3 => Fault::RefuseRecords,
            4 => Fault::KillTarget { target: path / self.ports },
            5 => Fault::ResetControllers { target: path / self.ports },
            6 => Fault::StorageLosesPower,
            _ => return,
        };
        self.mishaps.push(Mishap::new(at_us, for_ms, fault));
    }
}
