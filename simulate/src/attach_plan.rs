//! Scenes that have a disk with NBD clients or a guest, mishaps of its processes, and those of them that its clients may notice.

use engine::simulation::Random;

use crate::disk_plan::{DiskPlan, FrontEnd};
use crate::fault::{Fate, Fault};
use crate::plan::{Mishap, Plan};
use crate::upgrade_plan::{STEPS, Side, Trouble, Version, When};

/// The number of scenes in a thousand, among those without a reservation, another disk, gateways, busy hosts or
/// late storage.
const SHARE: u64 = 120;

/// First step behind the state.
const LATE_STEP: u32 = 12;

impl Plan {
    /// Adds a disk with NBD clients to some scenes, from a random source of its own.
    pub(crate) fn vary_clients(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x1f83_d9ab).wrapping_add(53));
        // Busy hosts would have far more turns while processes are killed and upgraded.
        let is_other = self.is_reserved || self.is_busy || self.is_late();
        if is_other || self.disk.is_some() || self.gateways.is_some() || !random.chance(SHARE) {
            return;
        }
        let front_end = if random.chance(650) { FrontEnd::Nbd } else { FrontEnd::Ublk };
        self.add_attach(DiskPlan { front_end, ..DiskPlan::new(&mut random) }, &mut random);
    }

    /// Adds a disk with a guest to some of the scenes that are left, from a random source of its own.
    pub(crate) fn vary_guests(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x5be0_cd19).wrapping_add(59));
        let is_other = self.is_reserved || self.is_busy || self.is_late();
        if is_other || self.disk.is_some() || self.gateways.is_some() || !random.chance(SHARE) {
            return;
        }
        // Guests have no durable writes but by a flush.
        let plan = DiskPlan { front_end: FrontEnd::VhostUser, durable: 0, ..DiskPlan::new(&mut random) };
        self.add_attach(plan, &mut random);
    }

    /// Adds a disk that `attach` serves, with kills and upgrades of its process.
    fn add_attach(&mut self, plan: DiskPlan, random: &mut Random) {
        self.disk = Some(plan);
        // Clients know the size of the disk that they have chosen.
        self.mishaps.retain(|mishap| mishap.fault != Fault::Grow);
        let is_alone = random.chance(300);
        if is_alone {
            self.mishaps.clear();
        } else {
            if random.chance(500) {
                self.targets = 2;
            }
            if random.chance(500) {
                self.add_kills(random);
            }
        }
        for mishap in &mut self.mishaps {
            // Replies of the killed process may be read when the next one waits for an unknown client.
            if let Fault::KillAttach { record, .. } = &mut mishap.fault
                && *record == Fate::Unreadable
            {
                *record = Fate::Stays;
            }
        }
        for _ in 0..random.between(1, 4) {
            let trouble = any_trouble(random);
            let trouble = match trouble.is_harmless(false) {
                // The new process has the clients, and gives them up.
                false if is_alone && random.chance(300) => {
                    Trouble::Hangup { step: LATE_STEP + random.below(5) as u32 }
                }
                false if is_alone => Trouble::None,
                _ => trouble,
            };
            let at_us = random.between(50_000, self.run_ms * 1000);
            let most = *random.pick(&[500, 500, 8_000]);
            let fault = Fault::UpgradeAttach { trouble };
            self.mishaps.push(Mishap::new(at_us, random.between(1, most), fault));
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }

    /// True if clients and guests keep their connections: processes of their disk are upgraded, and neither process is disturbed.
    pub(crate) fn keeps_clients(&self) -> bool {
        let is_harmless = |mishap: &Mishap| match mishap.fault {
            Fault::UpgradeAttach { trouble } => trouble.is_harmless(false),
            fault => !fault.is_of_disk(),
        };
        self.mishaps.iter().all(is_harmless)
    }

    /// True if nothing happens but undisturbed upgrades of the disk's process.
    pub(crate) fn is_of_upgrades_alone(&self) -> bool {
        let is_upgrade = |mishap: &Mishap| matches!(mishap.fault, Fault::UpgradeAttach { .. });
        self.keeps_clients() && self.mishaps.iter().all(is_upgrade)
    }
}

/// Trouble of an upgrade, often at its end, where it is decided which process serves. The records of a disk's controllers do not
/// survive the power of its machine, and its offer needs no extension.
fn any_trouble(random: &mut Random) -> Trouble {
    let late =
        random.chance(400).then(|| When::Step(LATE_STEP + random.below(u64::from(STEPS - LATE_STEP)) as u32));
    match Trouble::any(random) {
        Trouble::PowerOff { when } => Trouble::Kill { side: Side::Old, when: late.unwrap_or(when) },
        Trouble::Kill { side, when } => Trouble::Kill { side, when: late.unwrap_or(when) },
        Trouble::Pause { side, when } => Trouble::Pause { side, when: late.unwrap_or(when) },
        Trouble::Version(Version::NeedsMore) => Trouble::Version(Version::SaysMore),
        other => other,
    }
}
