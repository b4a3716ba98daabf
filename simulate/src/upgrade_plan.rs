//! What goes wrong in an upgrade, and when.

use engine::simulation::Random;

use crate::fault::Fault;
use crate::plan::{Mishap, Plan};

/// Steps of an upgrade that goes well: before each of its seven words, amid it and behind it.
pub(crate) const STEPS: u32 = 21;
/// Number of the word `Go`, from 0, where no introduction comes before it.
const GO: u32 = 5;

/// Trouble of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No trouble.
    None,
    /// SIGKILL of one of the two processes.
    Kill { side: Side, when: When },
    /// SIGSTOP of one of them, and SIGCONT.
    Pause { side: Side, when: When },
    /// A process gets no descriptor, thread or memory for a while.
    Starve { side: Side, when: When },
    /// The machine loses its power.
    PowerOff { when: When },
    /// The line ends although both live: one of them has failed in a way that it does not know.
    Hangup { step: u32 },
    /// A byte of a word is changed.
    Damage { step: u32 },
    /// The new process is of another version.
    Version(Version),
}

/// Process of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Old,
    New,
}

/// A moment of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At this of its steps.
    Step(u32),
    /// This many microseconds after its beginning.
    Micros(u64),
}

/// Difference of another version's hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The version has further fields, which may be ignored.
    SaysMore,
    /// The version has a field that must not be ignored, and is unknown.
    NeedsMore,
    /// The version's words have another format, an older or a newer one.
    Format { by: i8 },
    /// The sender is another program.
    Foreign,
    /// Fewer descriptors come than it says.
    FewerDescriptors,
    /// A descriptor is not the announced socket.
    OtherDescriptors,
}

impl Trouble {
    pub(crate) fn any(random: &mut Random) -> Self {
        let side = if random.chance(500) { Side::Old } else { Side::New };
        let step = random.below(u64::from(STEPS)) as u32;
        let when = if random.chance(700) {
            When::Step(step)
        } else {
            let most = *random.pick(&[3_000, 30_000]);
            When::Micros(random.between(0, most))
        };
        match random.below(20) {
            0..=4 => Self::None,
            5..=9 => Self::Kill { side, when },
            10..=12 => Self::Pause { side, when },
            13..=14 => Self::Starve { side, when },
            15 => Self::PowerOff { when },
            16 => Self::Hangup { step },
            17 => Self::Damage { step: step / 3 * 3 + 1 },
            _ => Self::Version(*random.pick(&[
                Version::SaysMore,
                Version::SaysMore,
                Version::NeedsMore,
                Version::Format { by: -1 },
                Version::Format { by: 1 },
                Version::Foreign,
                Version::FewerDescriptors,
                Version::OtherDescriptors,
            ])),
        }
    }

    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Kill { side: Side::Old, .. } => "old killed",
            Self::Kill { side: Side::New, .. } => "new killed",
            Self::Pause { side: Side::Old, .. } => "old paused",
            Self::Pause { side: Side::New, .. } => "new paused",
            Self::Starve { side: Side::Old, .. } => "old gets nothing",
            Self::Starve { side: Side::New, .. } => "new gets nothing",
            Self::PowerOff { .. } => "power lost",
            Self::Hangup { .. } => "line ended",
            Self::Damage { .. } => "word damaged",
            Self::Version(Version::SaysMore) => "says more",
            Self::Version(Version::NeedsMore) => "needs more",
            Self::Version(Version::Format { by: ..=0 }) => "older format",
            Self::Version(Version::Format { .. }) => "newer format",
            Self::Version(Version::Foreign) => "not a Selvedge",
            Self::Version(Version::FewerDescriptors) => "descriptors missing",
            Self::Version(Version::OtherDescriptors) => "other descriptors",
        }
    }

    /// Time at which it strikes, if it has one.
    pub(crate) const fn when(self) -> Option<When> {
        match self {
            Self::Kill { when, .. }
            | Self::Pause { when, .. }
            | Self::Starve { when, .. }
            | Self::PowerOff { when } => Some(when),
            Self::Hangup { step } | Self::Damage { step } => Some(When::Step(step)),
            Self::None | Self::Version(_) => None,
        }
    }

    /// True if the new process does not understand the hand-over.
    pub(crate) const fn is_foreign(self) -> bool {
        matches!(self, Self::Version(Version::NeedsMore | Version::Format { .. } | Version::Foreign))
    }

    /// True if it ends a process while it works.
    const fn kills(self) -> bool {
        matches!(self, Self::Kill { .. } | Self::PowerOff { .. })
    }

    /// True if hosts notice nothing, in absence of other mishaps.
    pub(crate) const fn is_harmless(self, is_gateway: bool) -> bool {
        match self {
            Self::None | Self::Version(_) | Self::Hangup { .. } => true,
            // Without `Go` no process goes on with the old one's hosts. A gateway's new process
            // introduces itself, so `Go` is a word later; the word before it, `Taken`, is missed
            // when that process has the images' locks, which are broken then.
            Self::Damage { step } => step / 3 != GO && !(is_gateway && step / 3 == GO + 1),
            _ => false,
        }
    }
}

impl Plan {
    /// Adds upgrades: by themselves, or beside what else there is, often just then.
    pub(crate) fn vary_upgrades(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x3c6e_f372).wrapping_add(18));
        let is_alone = match random.below(1000) {
            ..150 => true,
            150..500 => false,
            _ => return,
        };
        if is_alone {
            self.mishaps.retain(|mishap| matches!(mishap.fault, Fault::Preempt { .. }));
        }
        let is_late = self.is_late();
        for _ in 0..random.between(1, 4) {
            let target = self.any_target(&mut random);
            let beside =
                (random.chance(400) && !self.mishaps.is_empty()).then(|| *random.pick(&self.mishaps));
            let at_us = match beside {
                Some(mishap) => (mishap.at_us + random.between(0, 60_000)).saturating_sub(20_000),
                None => {
                    let least = if random.chance(100) { 500 } else { 50_000 };
                    random.between(least, self.run_ms * 1000)
                }
            };
            let trouble = Trouble::any(&mut random);
            // What comes late after a kill may do harm.
            let is_fine = if is_alone { trouble.is_harmless(false) } else { !is_late || !trouble.kills() };
            let trouble = if is_fine { trouble } else { Trouble::None };
            let most = *random.pick(&[500, 500, 8_000]);
            let for_ms = random.between(1, most);
            self.mishaps.push(Mishap::new(at_us, for_ms, Fault::Upgrade { target, trouble }));
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }

    /// True if a target is upgraded.
    pub(crate) fn upgrades(&self, number: usize) -> bool {
        self.mishaps
            .iter()
            .any(|mishap| matches!(mishap.fault, Fault::Upgrade { target, .. } if target == number))
    }

    /// True if no mishap is visible to hosts.
    pub(crate) fn is_calm(&self) -> bool {
        let is_harmless = |mishap: &Mishap| match mishap.fault {
            Fault::Upgrade { trouble, .. } => trouble.is_harmless(self.gateways.is_some()),
            _ => false,
        };
        self.mishaps.iter().all(is_harmless)
    }

    /// True if there are no hosts that come and go.
    pub(crate) const fn only_hosts(&self) -> bool {
        self.visitor.is_none() && self.leaver.is_none() && self.tenants.is_none() && self.disk.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_go_costs_connections_at_a_gateway_too() {
        let costs = |is_gateway| {
            let is_noticed = |word: &u32| !Trouble::Damage { step: word * 3 + 1 }.is_harmless(is_gateway);
            (0..STEPS / 3).filter(is_noticed).collect::<Vec<_>>()
        };
        assert_eq!(costs(false), [GO]);
        assert_eq!(costs(true), [GO, GO + 1]);
    }
}
