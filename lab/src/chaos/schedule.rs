//! What goes wrong, in which order and for how long, by a seed. It keeps out the doing: it knows which disturbances would
//! be in each other's way, and nothing of processes or links.

use std::time::Duration;

use super::attack;
use super::target::Role;
use crate::emulator::control::LinkDirection;
use crate::emulator::link::Dice;
use crate::network::LINKS;

/// Inverse share of pauses and cuts that outlast the keep alive timeout and all waits of hosts
/// after it.
const LONG_ONE_IN: u32 = 4;

/// With fewer left, those that are too long or in the way would leave nothing to draw.
const DECK_LEFT_MIN: usize = 12;

/// A kind of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A link swallows everything.
    Cut,
    /// A link swallows everything in one direction.
    CutOneWay(LinkDirection),
    /// All links are cut.
    CutAll,
    Slow,
    Lossy,
    /// SIGKILL, and a new start.
    Kill,
    /// SIGTERM, and a new start.
    Stop,
    /// SIGSTOP and SIGCONT.
    Pause,
    /// Another ANA state.
    Ana(&'static str),
    /// The administration ends a controller.
    Reset,
    /// A namespace comes, is used, and goes while it is used.
    Namespace,
    /// A namespace grows, is used where it is new, and shrinks again.
    Resize,
    /// A disk is full, and has room again.
    DiskFull,
    /// A host is killed, and a fresh one checks what it left.
    HostKill,
    Attack(attack::Kind),
}

impl Kind {
    /// All of them, some more than once since they come in more ways.
    fn deck() -> Vec<Kind> {
        let mut deck = vec![
            Kind::Cut,
            Kind::Cut,
            Kind::CutOneWay(LinkDirection::ToHost),
            Kind::CutOneWay(LinkDirection::ToTarget),
            Kind::CutAll,
            Kind::Slow,
            Kind::Lossy,
            Kind::Kill,
            Kind::Kill,
            Kind::Kill,
            Kind::Stop,
            Kind::Stop,
            Kind::Pause,
            Kind::Pause,
            Kind::Pause,
            Kind::Ana("non-optimized"),
            Kind::Ana("inaccessible"),
            Kind::Reset,
            Kind::Reset,
            Kind::Namespace,
            Kind::Resize,
            Kind::DiskFull,
            Kind::HostKill,
        ];
        deck.extend(attack::Kind::ALL.map(Kind::Attack));
        deck
    }

    /// For tables and logs.
    pub(crate) fn name(self) -> String {
        match self {
            Kind::Cut => "link cut".to_owned(),
            Kind::CutOneWay(LinkDirection::ToHost) => "link cut to hosts".to_owned(),
            Kind::CutOneWay(LinkDirection::ToTarget) => "link cut to targets".to_owned(),
            Kind::CutAll => "all links cut".to_owned(),
            Kind::Slow => "link slow".to_owned(),
            Kind::Lossy => "link lossy".to_owned(),
            Kind::Kill => "target killed".to_owned(),
            Kind::Stop => "target stopped".to_owned(),
            Kind::Pause => "target paused".to_owned(),
            Kind::Ana(state) => format!("ANA {state}"),
            Kind::Reset => "controller reset".to_owned(),
            Kind::Namespace => "namespace comes and goes".to_owned(),
            Kind::Resize => "namespace grows".to_owned(),
            Kind::DiskFull => "disk full".to_owned(),
            Kind::HostKill => "host killed".to_owned(),
            Kind::Attack(kind) => format!("attack: {}", kind.name()),
        }
    }

    fn roles(self) -> &'static [Role] {
        match self {
            Kind::Kill | Kind::Stop => &[Role::PairA, Role::PairB, Role::Single],
            Kind::Namespace | Kind::Resize => &[Role::Single, Role::Steady],
            Kind::DiskFull => &[Role::Steady],
            Kind::HostKill => &[Role::PairA],
            // It writes to blocks that are not checked, which only that one has; and it concerns
            // namespaces in memory.
            Kind::Attack(attack::Kind::Copies) => &[Role::Steady],
            _ => &Role::ALL,
        }
    }

    const fn is_about_links(self) -> bool {
        matches!(self, Kind::Cut | Kind::CutOneWay(_) | Kind::CutAll | Kind::Slow | Kind::Lossy)
    }
}

/// Disturbance of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Disturbance {
    pub(crate) kind: Kind,
    /// Link concerned, counted from 1.
    pub(crate) link: usize,
    /// Target concerned.
    pub(crate) role: Role,
    pub(crate) lasts: Duration,
    /// Until the next one may begin.
    pub(crate) pause: Duration,
    /// From 0 to 1: how slow, how lossy.
    pub(crate) degree: f64,
    pub(crate) seed: u64,
}

impl Disturbance {
    /// For a line of progress.
    pub(crate) fn line(&self) -> String {
        match self.kind {
            Kind::CutAll | Kind::HostKill => self.kind.name(),
            kind if kind.is_about_links() => format!("{} ({})", kind.name(), self.link),
            kind => format!("{} ({})", kind.name(), self.role.name()),
        }
    }

    /// Subjects as bits: links and then targets. Two disturbances that share one do not happen at
    /// the same time.
    fn subjects(&self) -> u32 {
        let role = |role: Role| 1 << (LINKS + Role::ALL.iter().position(|other| *other == role).unwrap_or(0));
        match self.kind {
            Kind::CutAll => (1 << LINKS) - 1,
            Kind::HostKill => role(Role::PairA) | role(Role::PairB),
            kind if kind.is_about_links() => 1 << (self.link - 1),
            _ => role(self.role),
        }
    }
}

/// A deck of disturbances that is shuffled again when all have been drawn, so that each has its turn.
pub(crate) struct Schedule {
    dice: Dice,
    deck: Vec<Kind>,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Schedule {
        Schedule { dice: Dice::new(seed), deck: Vec::new() }
    }

    /// The next disturbance that is not about what one of `active` is about, and ends within `left`; None when there is
    /// none among those that have not had their turn.
    pub(crate) fn next(&mut self, active: &[&Disturbance], left: Duration) -> Option<Disturbance> {
        if self.deck.len() < DECK_LEFT_MIN {
            let mut fresh = Kind::deck();
            for end in (1..fresh.len()).rev() {
                let other = self.dice.next() as usize % (end + 1);
                fresh.swap(end, other);
            }
            // Below what is left of the last one, which is drawn first.
            self.deck.splice(..0, fresh);
        }
        let taken = active.iter().fold(0, |taken, disturbance| taken | disturbance.subjects());
        for at in (0..self.deck.len()).rev() {
            let drawn = self.draw(self.deck[at]);
            if drawn.subjects() & taken == 0 && drawn.lasts <= left {
                self.deck.remove(at);
                return Some(drawn);
            }
        }
        None
    }

    fn draw(&mut self, kind: Kind) -> Disturbance {
        let dice = &mut self.dice;
        let roles = kind.roles();
        let (link, role) = (1 + dice.next() as usize % LINKS, roles[dice.next() as usize % roles.len()]);
        let is_long = dice.next().is_multiple_of(LONG_ONE_IN);
        let (least_s, most_s) = match kind {
            Kind::Pause if is_long => (8.0, 14.0),
            Kind::Cut | Kind::CutOneWay(_) if is_long => (6.0, 12.0),
            Kind::Pause | Kind::Cut | Kind::CutOneWay(_) => (0.2, 4.0),
            Kind::CutAll => (0.3, 5.0),
            Kind::Slow | Kind::Lossy => (3.0, 12.0),
            Kind::Kill | Kind::Stop => (0.1, 6.0),
            Kind::Ana(_) => (0.5, 5.0),
            Kind::Reset => (0.5, 1.0),
            // These take as long as they take; a time is kept free for them.
            Kind::Namespace | Kind::Resize | Kind::DiskFull | Kind::HostKill => (15.0, 15.0),
            Kind::Attack(_) => (3.0, 8.0),
        };
        let span = |dice: &mut Dice, least_s: f64, most_s: f64| {
            Duration::from_secs_f64(least_s + (most_s - least_s) * dice.fraction())
        };
        Disturbance {
            kind,
            link,
            role,
            lasts: span(dice, least_s, most_s),
            pause: span(dice, 0.2, 2.5),
            degree: dice.fraction(),
            seed: u64::from(dice.next()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn drawn(seed: u64, count: usize) -> Vec<Disturbance> {
        let mut schedule = Schedule::new(seed);
        (0..count).map(|_| schedule.next(&[], LONG).unwrap()).collect()
    }

    #[test]
    fn a_seed_is_a_history() {
        assert_eq!(drawn(7, 100), drawn(7, 100));
        assert_ne!(drawn(7, 100), drawn(8, 100));
    }

    #[test]
    fn every_kind_has_its_turn() {
        let deck = Kind::deck();
        let drawn = drawn(1, deck.len());
        assert!(deck.len() > DECK_LEFT_MIN);
        assert!(deck.iter().all(|kind| drawn.iter().any(|disturbance| disturbance.kind == *kind)));
    }

    #[test]
    fn what_cannot_come_back_is_not_killed() {
        let killed = drawn(3, 2000).into_iter().filter(|d| matches!(d.kind, Kind::Kill | Kind::Stop));
        assert!(killed.into_iter().all(|disturbance| disturbance.role.may_die()));
    }

    #[test]
    fn nothing_is_in_anothers_way() {
        let mut schedule = Schedule::new(5);
        let mut active: Vec<Disturbance> = Vec::new();
        for turn in 0..1000 {
            let next = schedule.next(&active.iter().collect::<Vec<_>>(), LONG);
            if let Some(next) = next {
                assert!(active.iter().all(|other| other.subjects() & next.subjects() == 0));
                active.push(next);
            }
            if active.len() > 3 || turn % 3 == 0 {
                active.drain(..1.min(active.len()));
            }
        }
    }

    #[test]
    fn nothing_outlasts_what_is_left() {
        let mut schedule = Schedule::new(5);
        let left = Duration::from_secs(3);
        for _ in 0..100 {
            assert!(schedule.next(&[], left).is_none_or(|next| next.lasts <= left));
        }
    }
}
