//! Search for the best number of I/O queues of a workload, by trials: more while latency falls and
//! processors are left, else fewer. The module chooses the next number; its caller runs the trials.

use serde::Serialize;

/// Differences below this are taken for chance even where two trials of one number came out closer.
const NOISE_MIN: f64 = 0.05;
/// Upper limit of the noise: a machine whose trials differ more gives no usable results.
const NOISE_MAX: f64 = 0.5;
/// Share of the machine's processors from which on there is no room for more queues.
const BUSY_MAX: f64 = 0.95;

/// Result of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Trial {
    /// 99 % of the commands took no longer, in microseconds.
    pub p99_us: f64,
    pub iops: f64,
    /// Processor time of this side's workers for each command, in microseconds.
    pub cpu_us_per_io: f64,
    /// Load of all processors of this machine, from 0 to 1.
    pub cpu_busy: f64,
}

/// Next step of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A trial with this number of queues.
    Try(u16),
    /// This number, and why.
    Settled { queues: u16, reason: String },
}

/// The way to a number of queues. `next` says what to try, `observe` takes what it brought, in turn.
#[derive(Debug)]
pub struct Climb {
    start: u16,
    most: u16,
    phase: Phase,
    /// The number to stay with as far as is known, and what it brought.
    best: Option<(u16, Trial)>,
    noise: f64,
    /// Why it goes no further in the directions that were tried.
    bounds: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The number to begin with, tried twice: how far they differ is chance.
    First(u16),
    Second(u16),
    /// Twice as many each time.
    Up(u16),
    /// A number between the best and the lowest that was too many.
    Between(u16),
    /// Half as many each time.
    Down(u16),
    Settled,
}

impl Climb {
    /// Begins with `start` queues and never tries more than `most`.
    pub fn new(start: u16, most: u16) -> Self {
        let most = most.max(1);
        let start = start.clamp(1, most);
        Self { start, most, phase: Phase::First(start), best: None, noise: NOISE_MIN, bounds: Vec::new() }
    }

    /// The target grants no more than this many.
    pub fn limit_to(&mut self, granted: u16) {
        let most = self.most.min(granted.max(1));
        if most < self.most {
            self.bounds.push(format!("the target grants {most}"));
        }
        self.most = most;
        self.start = self.start.min(most);
    }

    /// Returns the next step.
    pub fn next(&self) -> Step {
        match self.phase {
            Phase::First(queues)
            | Phase::Second(queues)
            | Phase::Up(queues)
            | Phase::Between(queues)
            | Phase::Down(queues) => Step::Try(queues),
            Phase::Settled => Step::Settled {
                queues: self.best.map_or(1, |(queues, _)| queues),
                reason: if self.bounds.is_empty() {
                    "there is no other number to try".to_owned()
                } else {
                    self.bounds.join("; ")
                },
            },
        }
    }

    /// Takes what `queues` queues brought, and says what follows from it.
    pub fn observe(&mut self, queues: u16, trial: Trial) -> String {
        let Some((best, reference)) = self.best else {
            self.best = Some((queues, trial));
            self.phase = Phase::Second(queues);
            return "the first; once more, to see how much is chance".to_owned();
        };
        let gain = Gain::of(&reference, &trial, self.noise);
        match self.phase {
            Phase::First(_) | Phase::Second(_) => self.begun(queues, reference, trial),
            Phase::Up(_) | Phase::Between(_) => self.went_up(best, queues, trial, &gain),
            Phase::Down(_) => self.went_down(best, queues, trial, &gain),
            Phase::Settled => "it is settled already".to_owned(),
        }
    }

    /// Two trials of one number say what is chance, and their mean is what others are compared with.
    fn begun(&mut self, queues: u16, first: Trial, second: Trial) -> String {
        let apart = |one: f64, other: f64| (one - other).abs() / one.min(other).max(f64::MIN_POSITIVE);
        let widest = apart(first.p99_us, second.p99_us).max(apart(first.iops, second.iops));
        self.noise = widest.clamp(NOISE_MIN, NOISE_MAX);
        let mean = |one: f64, other: f64| f64::midpoint(one, other);
        let both = Trial {
            p99_us: mean(first.p99_us, second.p99_us),
            iops: mean(first.iops, second.iops),
            cpu_us_per_io: mean(first.cpu_us_per_io, second.cpu_us_per_io),
            cpu_busy: mean(first.cpu_busy, second.cpu_busy),
        };
        self.best = Some((queues, both));
        let chance = format!("differences up to {} may be chance", percent(self.noise));
        self.go_up(queues, &both);
        chance
    }

    /// Tries more, if that is possible and there are processors for them.
    fn go_up(&mut self, queues: u16, trial: &Trial) {
        if trial.cpu_busy >= BUSY_MAX {
            self.bounds.push(format!(
                "{} of the processors are busy, which leaves no room for more queues than {queues}",
                percent(trial.cpu_busy)
            ));
        } else if queues >= self.most {
            self.bounds.push(format!("more than {queues} are not to be tried"));
        } else {
            self.phase = Phase::Up(queues.saturating_mul(2).min(self.most));
            return;
        }
        self.turn(queues);
    }

    /// Searches in the other direction, unless this one was a success.
    fn turn(&mut self, best: u16) {
        self.phase = if best > self.start || best <= 1 { Phase::Settled } else { Phase::Down(best / 2) };
    }

    fn went_up(&mut self, best: u16, queues: u16, trial: Trial, gain: &Gain) -> String {
        let is_between = matches!(self.phase, Phase::Between(_));
        if gain.is_worth_more_queues() {
            self.best = Some((queues, trial));
            if is_between {
                self.phase = Phase::Settled;
            } else {
                self.go_up(queues, &trial);
            }
            return format!("better than with {best}: {gain}");
        }
        self.bounds.push(format!("no better with {queues} than with {best} ({gain})"));
        // Only a climb that has begun can have its top between two steps.
        let between = best + queues.saturating_sub(best) / 2;
        if !is_between && best > self.start && between > best {
            self.phase = Phase::Between(between);
        } else {
            self.turn(best);
        }
        format!("not better than with {best}: {gain}")
    }

    fn went_down(&mut self, best: u16, queues: u16, trial: Trial, gain: &Gain) -> String {
        if !gain.is_worth_fewer_queues() {
            self.bounds.push(format!("no better with {queues} than with {best} ({gain})"));
            self.phase = Phase::Settled;
            return format!("not better than with {best}: {gain}");
        }
        self.best = Some((queues, trial));
        if queues == 1 {
            self.bounds.push("there cannot be fewer".to_owned());
            self.phase = Phase::Settled;
        } else {
            self.phase = Phase::Down(queues / 2);
        }
        format!("better than with {best}: {gain}")
    }
}

/// Ratios of a new trial to an old one.
#[derive(Clone, Copy, Debug)]
struct Gain {
    p99: f64,
    iops: f64,
    cost: f64,
    noise: f64,
}

impl Gain {
    fn of(old: &Trial, new: &Trial, noise: f64) -> Self {
        let ratio = |new: f64, old: f64| if old > 0.0 { new / old } else { 1.0 };
        Self {
            p99: ratio(new.p99_us, old.p99_us),
            iops: ratio(new.iops, old.iops),
            cost: ratio(new.cpu_us_per_io, old.cpu_us_per_io),
            noise,
        }
    }

    /// A number has fallen by more than chance; the same share of it, up or down, is the same distance.
    fn falls(&self, ratio: f64) -> bool {
        ratio * (1.0 + self.noise) < 1.0
    }

    fn rises(&self, ratio: f64) -> bool {
        ratio > 1.0 + self.noise
    }

    /// Latency falls without fewer commands, or more commands come without more latency; and each command costs no
    /// more than it gains.
    fn is_worth_more_queues(&self) -> bool {
        let faster = self.falls(self.p99) && !self.falls(self.iops);
        let more = self.rises(self.iops) && !self.rises(self.p99);
        let gained = (1.0 / self.p99.max(f64::MIN_POSITIVE)).max(self.iops);
        (faster || more) && self.cost <= gained
    }

    /// True if nothing is lost, and latency, throughput or processor time is gained.
    fn is_worth_fewer_queues(&self) -> bool {
        let loses = self.rises(self.p99) || self.falls(self.iops) || self.rises(self.cost);
        !loses && (self.falls(self.p99) || self.rises(self.iops) || self.falls(self.cost))
    }
}

impl std::fmt::Display for Gain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let change = |ratio: f64| format!("{:+.0} %", 100.0 * (ratio - 1.0));
        write!(
            f,
            "p99 {}, IOPS {}, CPU time a command {}",
            change(self.p99),
            change(self.iops),
            change(self.cost)
        )
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Climbs a curve to its end: every number that was tried, and the one that was settled on.
    fn climb(start: u16, most: u16, mut curve: impl FnMut(u16) -> Trial) -> (Vec<u16>, u16, String) {
        let mut climb = Climb::new(start, most);
        let mut tried = Vec::new();
        loop {
            assert!(tried.len() < 24, "it does not come to an end: {tried:?}");
            match climb.next() {
                Step::Try(queues) => {
                    assert!((1..=most).contains(&queues), "{queues} of {most}");
                    tried.push(queues);
                    assert!(!climb.observe(queues, curve(queues)).is_empty());
                }
                Step::Settled { queues, reason } => return (tried, queues, reason),
            }
        }
    }

    /// So much latency, with as many commands as fit it, at the same cost and with processors to spare.
    fn trial(p99_us: f64) -> Trial {
        Trial { p99_us, iops: 1e8 / p99_us, cpu_us_per_io: 5.0, cpu_busy: 0.4 }
    }

    #[test]
    fn latency_that_falls_and_rises_again_is_followed_to_its_bottom() {
        let curve = |queues: u16| trial(200.0 + (f64::from(queues) - 16.0).abs() * 10.0);
        let (tried, settled, reason) = climb(4, 128, curve);
        assert_eq!((tried, settled), (vec![4, 4, 8, 16, 32, 24], 16));
        assert!(reason.contains("no better with 32 than with 16"), "{reason}");
        // Between two steps there may be a better one.
        let curve = |queues: u16| trial(200.0 + (f64::from(queues) - 24.0).abs() * 10.0);
        assert_eq!(climb(4, 128, curve).1, 24);
    }

    #[test]
    fn fewer_are_tried_where_more_do_not_help() {
        // Each queue costs: one is best.
        let curve = |queues: u16| Trial { cpu_us_per_io: 2.0 + f64::from(queues), ..trial(300.0) };
        let (tried, settled, reason) = climb(8, 32, curve);
        assert_eq!((tried, settled), (vec![8, 8, 16, 4, 2, 1], 1));
        assert!(reason.contains("no better with 16 than with 8"), "{reason}");
        // Too few are felt.
        let curve = |queues: u16| match queues {
            0..=3 => trial(900.0),
            _ => Trial { cpu_us_per_io: 2.0 + f64::from(queues), ..trial(300.0) },
        };
        assert_eq!(climb(8, 32, curve).1, 4);
    }

    #[test]
    fn where_all_are_alike_the_rule_stands() {
        let (tried, settled, reason) = climb(6, 24, |_| trial(250.0));
        assert_eq!((tried, settled), (vec![6, 6, 12, 3], 6));
        assert!(reason.contains("with 12 than with 6") && reason.contains("with 3 than with 6"));
    }

    #[test]
    fn busy_processors_allow_no_more() {
        let curve = |queues: u16| Trial { cpu_busy: 0.99, ..trial(1000.0 / f64::from(queues)) };
        let (tried, settled, reason) = climb(4, 128, curve);
        assert_eq!((tried, settled), (vec![4, 4, 2], 4));
        assert!(reason.contains("99 % of the processors are busy"), "{reason}");
        // Where fewer do the same for less, fewer it is.
        let curve =
            |queues: u16| Trial { cpu_busy: 0.99, cpu_us_per_io: 4.0 + f64::from(queues), ..trial(500.0) };
        assert_eq!(climb(4, 128, curve).1, 1);
        // A climb ends where the processors do.
        let curve =
            |queues: u16| Trial { cpu_busy: f64::from(queues) / 16.0, ..trial(1000.0 / f64::from(queues)) };
        let (tried, settled, _) = climb(4, 128, curve);
        assert_eq!((tried, settled), (vec![4, 4, 8, 16], 16));
    }

    #[test]
    fn a_gain_that_costs_more_than_it_brings_is_none() {
        let curve = |queues: u16| Trial {
            cpu_us_per_io: f64::from(queues) * 5.0,
            ..trial(1000.0 - f64::from(queues) * 20.0)
        };
        assert!(climb(4, 16, curve).1 <= 4);
    }

    #[test]
    fn chance_is_not_followed() {
        // Trials of one number differ by up to 30 %, whatever the number.
        for seed in 0..200_u64 {
            let mut random = crate::bench::slot_sequence::Random::new(seed);
            let mut first = 0;
            let curve = |_| {
                first += 1;
                // The two that say what is chance show all of it.
                let chance = match first {
                    1 => 0.0,
                    2 => 1.0,
                    _ => (random.next() % 1000) as f64 / 1000.0,
                };
                trial(300.0 * (1.0 + 0.3 * chance))
            };
            let (tried, settled, reason) = climb(8, 32, curve);
            assert_eq!(settled, 8, "seed {seed}: {tried:?}, {reason}");
        }
    }

    #[test]
    fn the_most_is_kept_to() {
        let curve = |queues: u16| trial(1000.0 / f64::from(queues));
        assert_eq!(climb(4, 6, curve).1, 6);
        assert_eq!(climb(200, 128, curve).0[0], 128);
        assert_eq!(climb(1, 1, curve), (vec![1, 1], 1, "more than 1 are not to be tried".to_owned()));
        let mut granted = Climb::new(4, 16);
        for _ in 0..2 {
            granted.observe(4, curve(4));
        }
        assert_eq!(granted.next(), Step::Try(8));
        granted.limit_to(5);
        granted.observe(5, curve(5));
        let Step::Settled { queues, reason } = granted.next() else { panic!("{granted:?}") };
        assert_eq!(queues, 5);
        assert!(reason.contains("the target grants 5"), "{reason}");
    }

    #[test]
    fn a_run_of_nothing_settles() {
        let nothing = Trial { p99_us: 0.0, iops: 0.0, cpu_us_per_io: 0.0, cpu_busy: 0.0 };
        assert_eq!(climb(4, 16, |_| nothing).1, 4);
    }
}
