//! Scenes in which gateways of one group serve images of a Ceph cluster, and what befalls them there beyond what befalls targets.

use engine::simulation::Random;

use crate::fault::Fault;
use crate::plan::{Mishap, Plan};
use crate::takeover_phase::Phase;
use crate::upgrade_plan::{Trouble, Version};

/// The group's pool.
pub(crate) const POOL: &str = "rbd";
/// The group's name.
pub(crate) const GROUP: &str = "group";
/// An image that comes and goes, and that no host uses.
pub(crate) const SPARE: &str = "spare";

/// A gateway that is drained serves nothing after this time, in milliseconds, when all else is well.
pub(crate) const DRAINED_FOR_SURE_MS: u64 = 9_000;

/// The name of what holds writes, in tables.
pub(crate) const WRITES_HELD: &str = "writes held";

/// The image that hosts use as this volume.
pub(crate) fn image(volume: usize) -> String {
    format!("disk{volume}")
}

/// Plan of a scene with gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayPlan {
    /// The load-balancing groups that the volumes are in at first.
    pub(crate) groups: Vec<u32>,
    /// Blocks of an object of an image.
    pub(crate) object_blocks: u64,
    /// Limit on the time that a command may wait for the cluster, in milliseconds.
    pub(crate) operation_timeout_ms: u64,
    /// Longest time until an OSD has a new map by itself, in microseconds.
    pub(crate) map_us_max: u64,
    /// Number of sites at which gateways are, or 0 if they have no location.
    pub(crate) sites: usize,
}

/// Fault of the cluster, or of the way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterFault {
    /// A gateway's machine has no way to it.
    CutOff { target: usize },
    /// No part of the cluster answers.
    Silent,
    /// The cluster is slow.
    Slow,
    /// An OSD does not answer.
    SilentOsd { osd: usize },
    /// The monitors do not answer.
    SilentMonitors,
}

impl ClusterFault {
    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CutOff { .. } => "gateway cut off its cluster",
            Self::Silent => "cluster silent",
            Self::Slow => "cluster slow",
            Self::SilentOsd { .. } => "OSD silent",
            Self::SilentMonitors => "monitors silent",
        }
    }
}

/// Change of the group by an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupChange {
    /// A volume moves to another load-balancing group.
    Move { volume: usize, group: u32 },
    /// There is a namespace more for a while.
    Spare,
    /// A gateway that has gone is taken out of the group.
    Remove { target: usize },
    /// The writes to all volumes are held for a while, through one of the gateways.
    Hold { target: usize },
    /// A gateway is to serve nothing for a while.
    Drain { target: usize },
}

impl GroupChange {
    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Move { .. } => "namespace moved",
            Self::Spare => "namespace added",
            Self::Remove { .. } => "gateway removed",
            Self::Hold { .. } => WRITES_HELD,
            Self::Drain { .. } => "gateway drained",
        }
    }
}

impl Fault {
    /// Has it befall this gateway, or the way to it.
    pub(crate) const fn aim(&mut self, owner: usize) {
        match self {
            Self::KillTarget { target }
            | Self::StopTarget { target }
            | Self::PauseTarget { target, .. }
            | Self::PowerOffTarget { target }
            | Self::Upgrade { target, .. }
            | Self::Cluster(ClusterFault::CutOff { target })
            | Self::Group(GroupChange::Drain { target }) => *target = owner,
            Self::CutLink { path, .. } | Self::ResetLink { path, .. } => *path = owner,
            _ => {}
        }
    }
}

impl Plan {
    /// Some scenes are of gateways. They have hosts as the others, and mishaps of their own.
    pub(crate) fn vary_gateways(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x6a09_e667).wrapping_add(23));
        if !random.chance(80) {
            return;
        }
        self.targets = random.between(2, 4) as usize;
        (self.ports, self.reactors) = (1, random.between(1, 2) as usize);
        // Few blocks, so that what lands late finds something newer.
        self.blocks = random.between(8, 32) as usize;
        self.hosts.truncate(2);
        // Takeovers take seconds, in which hosts of short scenes would do little else than write.
        self.hosts.iter_mut().for_each(|host| host.pause_us_max = host.pause_us_max.max(20_000));
        self.become_plain();
        self.run_ms = random.between(8_000, 25_000);
        let volumes = *random.pick(&[1, 1, 2, 3]);
        let groups = (0..volumes).map(|_| random.between(1, self.targets as u64) as u32).collect();
        let object_blocks = *random.pick(&[1, 4, 16]);
        let map_us_max = *random.pick(&[50_000, 1_000_000, 10_000_000]);
        let operation_timeout_ms = *random.pick(&[2_000, 5_000, 30_000]);
        self.gateways =
            Some(GatewayPlan { groups, object_blocks, operation_timeout_ms, map_us_max, sites: 0 });
        self.mishaps.clear();
        let kind = random.below(10);
        match kind {
            // Nothing befalls hosts that they may notice.
            0 => self.add_quiet_changes(&mut random),
            1..6 => self.add_ambushes(&mut random),
            _ => self.add_gateway_mishaps(&mut random),
        }
        if kind > 0 {
            self.add_ignorance();
            self.add_holds();
            self.add_drains();
            self.vary_sites();
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
        // Who holds a reservation is known of the first volume.
        if volumes == 1 && kind > 0 {
            self.reserve_at_gateways();
        }
    }

    /// True if there is a fault of the cluster.
    pub(crate) fn has_cluster_trouble(&self) -> bool {
        self.mishaps.iter().any(|mishap| matches!(mishap.fault, Fault::Cluster(_)))
    }

    /// Upgrades alone.
    fn add_quiet_changes(&mut self, random: &mut Random) {
        for _ in 0..random.between(1, 3) {
            let fault = Fault::Upgrade { target: self.any_target(random), trouble: Trouble::None };
            self.mishaps.push(Mishap::new(random.between(1_000_000, self.run_ms * 1000), 10, fault));
        }
    }

    fn add_gateway_mishaps(&mut self, random: &mut Random) {
        for _ in 0..random.between(1, 6) {
            let mishap = self.gateway_mishap(random);
            self.mishaps.push(mishap);
            self.add_removed(mishap, random);
            // What goes wrong seldom does so alone.
            if random.chance(400) {
                let mut next = self.gateway_mishap(random);
                next.at_us = mishap.at_us + random.between(0, mishap.for_ms * 1000 + 4_000_000);
                // A handover just when what was sent before may not have arrived.
                if matches!(mishap.fault, Fault::Cluster(_)) {
                    next.fault = match random.below(4) {
                        0 | 1 => Fault::StopTarget { target: self.any_target(random) },
                        2 => self.any_move(random),
                        _ => next.fault,
                    };
                }
                self.mishaps.push(next);
                self.add_removed(next, random);
            }
        }
    }

    /// Only what is gone can be removed.
    fn add_removed(&mut self, mishap: Mishap, random: &mut Random) {
        if let Fault::Group(GroupChange::Remove { target }) = mishap.fault {
            let fault =
                if random.chance(500) { Fault::KillTarget { target } } else { Fault::StopTarget { target } };
            let before_us = random.between(100_000, 3_000_000);
            let at_us = mishap.at_us.saturating_sub(before_us);
            self.mishaps.push(Mishap::new(at_us, random.between(4_000, 14_000), fault));
        }
    }

    /// Adds mishaps at the moments of a takeover, and the cause of that takeover.
    fn add_ambushes(&mut self, random: &mut Random) {
        for _ in 0..random.between(1, 3) {
            let phase = *random.pick(&Phase::ALL);
            // The first digit says that it is meant for who has the volume.
            let at_us = random.between(100_000, self.run_ms * 100) * 10;
            let long_ms = random.between(4_000, 10_000);
            let target = self.any_target(random);
            let cause = match (phase, random.below(5)) {
                (Phase::Served, _) => None,
                (Phase::HandedOver | Phase::HandedOverLocked, 0) => Some(self.any_move(random)),
                (Phase::HandedOver | Phase::HandedOverLocked, _) => Some(Fault::StopTarget { target }),
                (Phase::Unowned, _) => {
                    for target in 0..self.targets {
                        let stop_us = at_us + random.between(0, 300_000);
                        let fault = Fault::StopTarget { target };
                        self.mishaps.push(Mishap::new(stop_us | 1, random.between(50, 3_000), fault));
                    }
                    None
                }
                (_, 0) => Some(Fault::PowerOffTarget { target }),
                (_, 1) => Some(Fault::PauseTarget { target, resets: false }),
                (Phase::GivenUp | Phase::Fenced | Phase::FencedLocked, 2) => {
                    Some(Fault::Cluster(ClusterFault::CutOff { target }))
                }
                _ => Some(Fault::KillTarget { target }),
            };
            self.mishaps.extend(cause.map(|fault| Mishap::new(at_us, long_ms, fault)));
            let mut mishap = self.gateway_mishap(random);
            if phase == Phase::GivenUp && random.chance(500) {
                // What it has sent waits, and so does the blocklist, while hosts ask whether it rests.
                let fault = Fault::Cluster(ClusterFault::SilentOsd { osd: random.below(3) as usize });
                self.mishaps.push(Mishap::new(at_us - random.between(1, 99_999), long_ms, fault));
                if random.chance(300) {
                    let removal = Fault::Group(GroupChange::Remove { target });
                    self.mishaps.push(Mishap { amid: Some(phase), ..Mishap::new(at_us, 10, removal) });
                }
                mishap.fault = Fault::Cluster(ClusterFault::SilentMonitors);
            }
            self.mishaps.push(Mishap { at_us: at_us + random.below(10), amid: Some(phase), ..mishap });
        }
    }

    /// Gateways that do not know yet what has become of the group: by a chance of its own, so that the rest of a scene does not
    /// depend on it.
    fn add_ignorance(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0xbb67_ae85).wrapping_add(29));
        match random.below(5) {
            0 => self.add_old_news(&mut random),
            1 => self.add_late_newcomer(&mut random),
            _ => {}
        }
    }

    /// A gateway comes back and serves, and hosts lose it and ask another one, which has not heard of that.
    fn add_old_news(&mut self, random: &mut Random) {
        let lost = self.any_target(random);
        let asked = (lost + random.between(1, self.targets as u64 - 1) as usize) % self.targets;
        let away_ms = random.between(3_000, 5_000);
        let gone_us = random.between(1_000_000, self.run_ms * 1000);
        let back_us = gone_us + away_ms * 1000;
        let gone = match random.below(2) {
            0 => Fault::KillTarget { target: lost },
            _ => Fault::StopTarget { target: lost },
        };
        let silent = Fault::Cluster(ClusterFault::CutOff { target: asked });
        let silent_us = back_us - random.between(0, 500_000);
        self.mishaps.push(as_planned(gone_us, away_ms, gone));
        self.mishaps.push(as_planned(silent_us, random.between(6_000, 12_000), silent));
        for host in 0..self.hosts.len() {
            let link = match random.below(2) {
                0 => Fault::ResetLink { host, path: lost },
                _ => Fault::CutLink { host, path: lost, there: true, back: true },
            };
            let at_us = back_us + random.between(500_000, 5_000_000);
            self.mishaps.push(as_planned(at_us, random.between(10, 2_000), link));
        }
    }

    /// A gateway comes, and is stopped before it has opened anything, until the others give it up.
    fn add_late_newcomer(&mut self, random: &mut Random) {
        let target = self.any_target(random);
        let slow_us = random.between(2_000_000, self.run_ms * 1000);
        let slow = Fault::Cluster(ClusterFault::Slow);
        self.mishaps.push(as_planned(slow_us, random.between(6_000, 12_000), slow));
        let away_ms = random.between(500, 3_000);
        let back_us = slow_us + random.between(0, 1_000_000);
        let gone_us = back_us.saturating_sub(away_ms * 1000);
        self.mishaps.push(as_planned(gone_us, away_ms, Fault::StopTarget { target }));
        let pause = Fault::PauseTarget { target, resets: false };
        let pause_us = back_us + random.between(300_000, 5_000_000);
        self.mishaps.push(as_planned(pause_us, random.between(4_000, 8_000), pause));
    }

    /// Writes are held in some scenes: for as long as a snapshot takes, or for longer than anybody holds them; or while a gateway comes
    /// back that has not heard of it, and gets its images.
    fn add_holds(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x3c6e_f372).wrapping_add(37));
        let count = if random.chance(200) { random.between(1, 4) } else { 0 };
        for _ in 0..count {
            let target = self.any_target(&mut random);
            let mut at_us = random.between(1_000_000, self.run_ms * 1000);
            let (shortest, longest) =
                *random.pick(&[(10, 200), (200, 4_000), (9_000, 14_000), (7_000, 9_500)]);
            if shortest == 7_000 {
                let (gone, away_ms) = (self.any_target(&mut random), random.between(4_000, 7_000));
                self.mishaps.push(as_planned(at_us, away_ms, Fault::KillTarget { target: gone }));
                at_us += away_ms * 1000 - random.between(0, 1_000_000);
            }
            let hold = Fault::Group(GroupChange::Hold { target });
            self.mishaps.push(as_planned(at_us, random.between(shortest, longest), hold));
        }
    }

    /// Gateways are drained in some scenes: all by itself, at any time, or just at a moment of a takeover.
    fn add_drains(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0xa54f_f53a).wrapping_add(41));
        if !random.chance(150) {
            return;
        }
        if random.chance(200) {
            self.mishaps.clear();
            let drain = Fault::Group(GroupChange::Drain { target: self.any_target(&mut random) });
            let at_us = random.between(1_000_000, 3_000_000);
            return self.mishaps.push(as_planned(at_us, DRAINED_FOR_SURE_MS, drain));
        }
        for _ in 0..random.between(1, 3) {
            let drain = Fault::Group(GroupChange::Drain { target: self.any_target(&mut random) });
            let at_us = random.between(1_000_000, self.run_ms * 1000);
            let amid = random.chance(700).then(|| *random.pick(&Phase::ALL));
            let for_ms = random.between(10, 12_000);
            self.mishaps.push(Mishap { amid, ..Mishap::new(at_us, for_ms, drain) });
        }
    }

    fn any_move(&self, random: &mut Random) -> Fault {
        let volume = random.below(self.volumes() as u64) as usize;
        let group = random.between(1, self.targets as u64) as u32;
        Fault::Group(GroupChange::Move { volume, group })
    }

    fn gateway_mishap(&self, random: &mut Random) -> Mishap {
        let target = self.any_target(random);
        let host = random.below(self.hosts.len() as u64) as usize;
        let fault = match random.below(28) {
            0..3 => Fault::KillTarget { target },
            3..5 => Fault::StopTarget { target },
            5..8 => Fault::PauseTarget { target, resets: false },
            8 => Fault::PowerOffTarget { target },
            9 => Fault::KillHost { host },
            10 => Fault::PauseHost { host },
            11 => Fault::CutLink { host, path: target, there: true, back: true },
            12 => Fault::CutLink { host, path: target, there: false, back: true },
            13 => Fault::ResetLink { host, path: target },
            14 | 15 => Fault::Cluster(ClusterFault::CutOff { target }),
            16 => Fault::Cluster(ClusterFault::Silent),
            17 => Fault::Cluster(ClusterFault::Slow),
            18 => Fault::Cluster(ClusterFault::SilentOsd { osd: random.below(3) as usize }),
            19 => Fault::Cluster(ClusterFault::SilentMonitors),
            20..24 => Fault::Upgrade { target, trouble: gateway_trouble(random) },
            24 | 25 => self.any_move(random),
            26 => Fault::Group(GroupChange::Spare),
            _ => Fault::Group(GroupChange::Remove { target }),
        };
        let longest = *random.pick(&[1_500, 5_000, 15_000]);
        let at_us = random.between(1_000_000, self.run_ms * 1000);
        let mut for_ms = random.between(10, longest);
        // Some stay away for longer than librbd shuts out whose lock it breaks.
        let stays_away =
            matches!(fault, Fault::PauseTarget { .. } | Fault::Cluster(ClusterFault::CutOff { .. }));
        if stays_away && random.chance(250) {
            for_ms += 35_000;
        }
        Mishap::new(at_us, for_ms, fault)
    }
}

/// Mishap that strikes only the target that it names.
pub(crate) const fn as_planned(at_us: u64, for_ms: u64, fault: Fault) -> Mishap {
    Mishap::new(at_us - at_us % 10 + 9, for_ms, fault)
}

/// Trouble of a gateway's upgrade. Words of other versions are the same for every target, and
/// played there.
fn gateway_trouble(random: &mut Random) -> Trouble {
    match Trouble::any(random) {
        Trouble::Version(_) => Trouble::Version(Version::SaysMore),
        trouble => trouble,
    }
}
