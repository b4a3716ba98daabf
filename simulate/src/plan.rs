//! What a seed stands for: who is there, how they are connected, what they do, and what befalls them and when. A plan can
//! be made smaller, to find out what a failure takes.

use engine::initiator::IoPolicy;
use engine::simulation::Random;
use nvme::tcp::Digests;

use crate::disk_plan::DiskPlan;
use crate::fault::Fault;
use crate::gateway_plan::GatewayPlan;
use crate::leaver::LeaverPlan;
use crate::secrets;
use crate::takeover_phase::Phase;
use crate::tenants::TenantPlan;
use crate::visitor::VisitorPlan;

/// The longest Command Quiesce Time of scenes in which the storage may be late.
const LATE_QUIESCE_MS_MAX: u16 = 2_000;

/// A fault, when it begins and for how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mishap {
    pub(crate) at_us: u64,
    pub(crate) for_ms: u64,
    pub(crate) fault: Fault,
    /// Phase of a takeover at which it strikes.
    pub(crate) amid: Option<Phase>,
}

impl Mishap {
    pub(crate) const fn new(at_us: u64, for_ms: u64, fault: Fault) -> Self {
        Self { at_us, for_ms, fault, amid: None }
    }
}

/// A host and its habits.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) jobs: u16,
    pub(crate) depth: usize,
    pub(crate) io_queues: u16,
    pub(crate) queue_entries: u16,
    pub(crate) policy: IoPolicy,
    pub(crate) digests: Digests,
    pub(crate) keep_alive_ms: u32,
    pub(crate) reconnect_ms: u64,
    pub(crate) command_timeout_ms: u64,
    pub(crate) flow_control: bool,
    /// Longest pause between two commands, in microseconds.
    pub(crate) pause_us_max: u64,
    pub(crate) blocks_max: u64,
    /// Of a thousand commands: writes, flushes, zeroes, compares; the rest reads.
    pub(crate) mix: [u64; 4],
    pub(crate) durable: u64,
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) targets: usize,
    pub(crate) ports: usize,
    pub(crate) reactors: usize,
    pub(crate) block_size: usize,
    pub(crate) blocks: usize,
    pub(crate) quiesce_ms: u16,
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) run_ms: u64,
    pub(crate) mishaps: Vec<Mishap>,
    /// The number of calls in a thousand that move fewer bytes than asked, among the calls to the storage that can.
    pub(crate) short_moves: u64,
    /// True if the volume is reserved by one host at a time.
    pub(crate) is_reserved: bool,
    /// True if hosts hardly pause between their commands.
    pub(crate) is_busy: bool,
    /// A process that uses the volume through the library meanwhile.
    pub(crate) visitor: Option<VisitorPlan>,
    /// A host that connects, starts to write, and leaves in the middle.
    pub(crate) leaver: Option<LeaverPlan>,
    /// Two hosts of different rights, with a subsystem of their own.
    pub(crate) tenants: Option<TenantPlan>,
    /// A disk, whose processes are killed.
    pub(crate) disk: Option<DiskPlan>,
    /// The targets are gateways of a group.
    pub(crate) gateways: Option<GatewayPlan>,
}

impl Plan {
    /// The plan that `seed` stands for.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(1));
        let is_reserved = random.chance(200);
        let targets = if is_reserved { 1 } else { random.between(1, 2) as usize };
        let ports = random.between(1, 2) as usize;
        let host_count = if is_reserved { random.between(2, 3) } else { random.between(1, 3) };
        let mut hosts: Vec<HostPlan> = (0..host_count).map(|_| HostPlan::new(&mut random)).collect();
        let mut run_ms = random.between(500, 5_000);
        // Some scenes are short and busy, so that whatever happens meets commands at every stage.
        let is_busy = random.chance(40);
        if is_busy {
            run_ms = random.between(200, 600);
            hosts.iter_mut().for_each(|host| (host.pause_us_max, host.depth) = (500, 8));
        }
        let mut plan = Self {
            seed,
            targets,
            ports,
            reactors: random.between(1, 3) as usize,
            block_size: *random.pick(&[512, 512, 4096]),
            blocks: random.between(8, 96) as usize,
            // Some promise rest so late that a storage may take longer than any keep alive time.
            quiesce_ms: (if random.chance(250) {
                random.between(4_000, 12_000)
            } else {
                random.between(300, 2_000)
            }) as u16,
            hosts,
            run_ms,
            mishaps: Vec::new(),
            short_moves: 0,
            is_reserved,
            is_busy,
            visitor: None,
            leaver: None,
            tenants: None,
            disk: None,
            gateways: None,
        };
        if !is_reserved && random.chance(200) {
            plan.visitor = Some(VisitorPlan {
                target: plan.any_target(&mut random),
                port: plan.any_port(&mut random),
                io_queues: random.between(1, 3) as u16,
                keep_alive_ms: random.between(1, 3) as u32 * 1000,
            });
        }
        for _ in 0..random.between(0, 7) {
            plan.add_mishap(&mut random);
        }
        if is_reserved {
            for _ in 0..random.between(2, 6) {
                let host = random.below(host_count) as usize;
                let at_us = random.between(200_000, run_ms * 1000);
                plan.mishaps.push(Mishap::new(at_us, 0, Fault::Preempt { host }));
            }
        }
        plan.mishaps.sort_by_key(|mishap| mishap.at_us);
        plan.vary();
        plan
    }

    /// Adds variations that are newer than the rest. They draw from a random source of their own,
    /// so that scenes without them stay the same.
    fn vary(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x2545_f491).wrapping_add(7));
        if !self.is_reserved && random.chance(300) {
            self.leaver = Some(LeaverPlan {
                target: self.any_target(&mut random),
                port: self.any_port(&mut random),
                io_queues: random.between(1, 3) as u16,
                writes: random.between(1, 12) as usize,
                keep_alive_ms: random.between(1, 3) as u32 * 1000,
                pairs: 0,
            });
        }
        for mishap in &mut self.mishaps {
            if let Fault::PauseTarget { resets, .. } = &mut mishap.fault {
                *resets = random.chance(300);
            }
        }
        if random.chance(250) {
            self.tenants = Some(TenantPlan {
                target: self.any_target(&mut random),
                port: self.any_port(&mut random),
                keep_alive_ms: random.between(1, 3) as u32 * 1000,
            });
        }
        self.vary_disk();
        self.vary_storage();
        self.vary_records();
        self.vary_upgrades();
        self.vary_gateways();
        self.vary_clients();
        self.vary_guests();
    }

    /// Hosts alone, with nothing reserved.
    pub(crate) fn become_plain(&mut self) {
        (self.is_reserved, self.is_busy, self.short_moves) = (false, false, 0);
        (self.visitor, self.leaver, self.tenants, self.disk) = (None, None, None, None);
    }

    /// The same of what becomes of records. Tenants have bytes damaged themselves, which are in clear.
    fn vary_records(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x7f4a_7c15).wrapping_add(13));
        if !secrets::is_tls(self) || self.tenants.is_some() || !random.chance(400) {
            return;
        }
        for _ in 0..random.between(1, 4) {
            let host = random.below(self.hosts.len() as u64) as usize;
            let fault = Fault::DamageRecord { host, back: random.chance(500) };
            self.mishaps.push(Mishap::new(random.between(1_000, self.run_ms * 1000), 0, fault));
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }

    /// True if records are damaged.
    pub(crate) fn damages(&self) -> bool {
        self.mishaps.iter().any(|mishap| matches!(mishap.fault, Fault::DamageRecord { .. }))
    }

    /// True if the storage may take longer than targets promise.
    pub(crate) fn is_late(&self) -> bool {
        self.mishaps.iter().any(|mishap| mishap.fault == Fault::LateStorage)
    }

    /// The same of what storage does, and of what leavers do beyond writes.
    fn vary_storage(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x51ed_270b).wrapping_add(11));
        if random.chance(250) {
            self.short_moves = *random.pick(&[100, 500, 950]);
        }
        if let Some(leaver) = &mut self.leaver {
            leaver.pairs = *random.pick(&[0, 200, 500]);
        }
        let fault = match random.below(1000) {
            ..120 => Fault::FillingStorage { copies_on_write: random.chance(700) },
            120..400 if self.may_be_late() => Fault::LateStorage,
            _ => return,
        };
        for _ in 0..random.between(1, 3) {
            let at_us = random.between(50_000, self.run_ms * 1000);
            let for_ms = random.between(50, 2_500);
            self.mishaps.push(Mishap::new(at_us, for_ms, fault));
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }

    /// True if late commands must do no harm: the orphaned slots of a lost connection keep others
    /// off its blocks at one target for as long as that lives, and its file keeps the next process
    /// from starting before all has ended. A host that goes to another target relies on the time.
    /// Kills are left out.
    fn may_be_late(&self) -> bool {
        let kills =
            |mishap: &Mishap| matches!(mishap.fault, Fault::KillTarget { .. } | Fault::PowerOffTarget { .. });
        // A second attempt that is refused, by a reservation for one, ends while the first may yet land.
        self.targets == 1
            && self.quiesce_ms <= LATE_QUIESCE_MS_MAX
            && !self.lets_commands_fail()
            && !self.mishaps.iter().any(kills)
    }

    /// Adds a mishap, and sometimes one that belongs to it: what goes wrong seldom does so alone.
    fn add_mishap(&mut self, random: &mut Random) {
        let mishap = self.mishap(random);
        self.mishaps.push(mishap);
        if self.is_busy || !random.chance(250) {
            return;
        }
        let (at_us, until_us) = (mishap.at_us, mishap.at_us + mishap.for_ms * 1000);
        let mut next = self.mishap(random);
        match mishap.fault {
            // The storage works on while no host reaches it by this target.
            Fault::SlowStorage => {
                let (host, target) = (self.any_host(random), self.any_target(random));
                let at_us = at_us + random.between(0, 400_000);
                let for_ms = random.between(1_000, 15_000);
                for path in target * self.ports..(target + 1) * self.ports {
                    let fault = Fault::CutLink { host, path, there: true, back: true };
                    self.mishaps.push(Mishap::new(at_us, for_ms, fault));
                }
                return;
            }
            // It goes just after a host has begun to ask about it.
            Fault::RemoveNamespace { target } => {
                let host = self.any_host(random);
                let path = target * self.ports + self.any_port(random);
                let fault = Fault::SlowLink { host, path, bytes_per_second: 2_000_000 };
                let slow_us = at_us.saturating_sub(1_000_000);
                self.mishaps.push(Mishap::new(slow_us, 2_500, fault));
                next.fault = Fault::ResetLink { host, path };
                next.at_us = at_us.saturating_sub(random.between(200_000, 900_000));
            }
            // What the target says of its state comes late.
            Fault::SlowLink { path, .. } => {
                let fault = Fault::ChangeAna { target: path / self.ports, port: path % self.ports };
                let mut at_us = at_us;
                for _ in 0..4 {
                    at_us += random.between(0, 300_000);
                    let for_ms = random.between(20, 200);
                    self.mishaps.push(Mishap::new(at_us, for_ms, fault));
                    at_us += for_ms * 1000;
                }
                return;
            }
            // What was lost is seen when nothing but what is durable is left.
            Fault::LosingStorage => {
                next.fault = Fault::StorageLosesPower;
                next.at_us = at_us + random.between(0, 2 * mishap.for_ms * 1000);
            }
            // The next comes just when one is over, and hosts are about to connect again.
            _ => next.at_us = until_us + random.between(0, 300_000),
        }
        self.mishaps.push(next);
    }

    pub(crate) fn any_target(&self, random: &mut Random) -> usize {
        random.below(self.targets as u64) as usize
    }

    fn any_port(&self, random: &mut Random) -> usize {
        random.below(self.ports as u64) as usize
    }

    fn any_host(&self, random: &mut Random) -> usize {
        random.below(self.hosts.len() as u64) as usize
    }

    fn mishap(&self, random: &mut Random) -> Mishap {
        let target = self.any_target(random);
        let port = self.any_port(random);
        let host = self.any_host(random);
        let path = random.below((self.targets * self.ports) as u64) as usize;
        let fault = match random.below(24) {
            ..8 if self.is_busy => Fault::ResetControllers { target },
            0 | 1 => Fault::KillTarget { target },
            2 => Fault::StopTarget { target },
            3 | 4 => Fault::PauseTarget { target, resets: false },
            5 => Fault::PowerOffTarget { target },
            6 => Fault::KillHost { host },
            7 => Fault::PauseHost { host },
            8 | 9 => Fault::CutLink { host, path, there: true, back: true },
            10 => Fault::CutLink { host, path, there: true, back: false },
            11 | 12 => Fault::CutLink { host, path, there: false, back: true },
            13 => Fault::ResetLink { host, path },
            14 => {
                Fault::SlowLink { host, path, bytes_per_second: *random.pick(&[50_000, 200_000, 2_000_000]) }
            }
            15 | 16 => Fault::SlowStorage,
            17 if random.chance(500) => Fault::LosingStorage,
            17 => Fault::FailingStorage,
            18 => Fault::FullStorage,
            19 => Fault::StorageLosesPower,
            20 => Fault::Grow,
            21 => Fault::ChangeAna { target, port },
            22 => Fault::RemoveNamespace { target },
            _ if random.chance(500) => Fault::ClosePort { target, port },
            _ => Fault::ResetControllers { target },
        };
        // Most are short; some are longer than any keep alive time.
        let longest = if self.is_busy {
            50
        } else if random.chance(250) {
            12_000
        } else {
            1_500
        };
        // And some come when hosts have only begun to connect.
        let earliest_us = if random.chance(80) { 0 } else { 50_000 };
        let latest_us = if earliest_us == 0 { 4_000 } else { self.run_ms * 1000 };
        let at_us = random.between(earliest_us, latest_us);
        Mishap::new(at_us, random.between(10, longest), fault)
    }

    /// True if commands may fail.
    pub(crate) fn lets_commands_fail(&self) -> bool {
        self.is_reserved || self.mishaps.iter().any(|mishap| mishap.fault.lets_commands_fail())
    }

    /// True if the storage may lose acknowledged data while it has power.
    pub(crate) fn loses(&self) -> bool {
        self.mishaps.iter().any(|mishap| mishap.fault == Fault::LosingStorage)
    }

    /// In one line.
    pub(crate) fn summary(&self) -> String {
        let mishaps: Vec<String> = self
            .mishaps
            .iter()
            .map(|m| {
                let amid = m.amid.map_or(String::new(), |phase| format!(" amid {}", phase.name()));
                format!("{}+{} ms {:?}{amid}", m.at_us / 1000, m.for_ms, m.fault)
            })
            .collect();
        format!(
            "{} targets with {} ports and {} reactors, {} hosts, {} blocks of {}, CQT {} ms, {} ms{}; {}",
            self.targets,
            self.ports,
            self.reactors,
            self.hosts.len(),
            self.blocks,
            self.block_size,
            self.quiesce_ms,
            self.run_ms,
            match (self.is_reserved, self.is_busy) {
                (true, _) => ", reserved",
                (_, true) => ", busy",
                _ if self.leaver.is_some() => ", a leaver",
                _ => "",
            }
            .to_owned()
                + if self.disk.is_some() { ", a disk" } else { "" }
                + if self.gateways.is_some() { ", gateways" } else { "" }
                + if self.short_moves > 0 { ", short moves" } else { "" },
            if mishaps.is_empty() { "no mishaps".to_owned() } else { mishaps.join(", ") }
        )
    }
}

impl HostPlan {
    fn new(random: &mut Random) -> Self {
        let jobs = random.between(1, 2) as u16;
        Self {
            jobs,
            depth: *random.pick(&[1, 2, 4, 8]),
            io_queues: jobs * random.between(1, 2) as u16,
            queue_entries: *random.pick(&[2, 4, 16]),
            policy: *random.pick(&IoPolicy::ALL),
            digests: Digests { header: random.chance(400), data: random.chance(400) },
            keep_alive_ms: random.between(1, 3) as u32 * 1000,
            reconnect_ms: random.between(50, 1_000),
            command_timeout_ms: random.between(3_000, 30_000),
            flow_control: random.chance(300),
            pause_us_max: *random.pick(&[20_000, 100_000, 400_000]),
            blocks_max: *random.pick(&[1, 4, 24]),
            mix: *random.pick(&[[400, 30, 20, 20], [700, 20, 30, 10], [200, 10, 0, 50], [450, 100, 50, 0]]),
            durable: *random.pick(&[0, 100, 500]),
        }
    }
}

impl Plan {
    /// Keeps only these of the mishaps.
    pub(crate) fn keep(&mut self, keeps: &[usize]) {
        let mishaps = std::mem::take(&mut self.mishaps);
        let kept = mishaps.into_iter().enumerate().filter(|(at, _)| keeps.contains(at));
        self.mishaps = kept.map(|(_, mishap)| mishap).collect();
    }
}
