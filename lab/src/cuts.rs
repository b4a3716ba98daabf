//! When which link is cut: once in the middle of a run, or many times at random. It keeps out the cutting.

use crate::emulator::link::Dice;
use crate::experiment::Event;
use crate::network::LINKS;
use crate::scenario::Scenario;

/// The link of the one cut.
const MIDDLE_LINK: usize = 2;
/// Length of the one cut, in seconds.
const MIDDLE_S: f64 = 5.0;
/// Before the first of many cuts, so that all connections stand; and after the last, so that they can stand again.
const CALM_S: f64 = 3.0;
/// Inverse share of cuts that outlast the keep alive timeout of 5 s, so that the controller on the
/// link is lost.
const LONG_ONE_IN: u32 = 4;

/// Link 2 is cut for 5 s in the middle of `runtime_s`.
pub(crate) fn middle(runtime_s: u32) -> [Event; 2] {
    in_the_middle(MIDDLE_LINK, runtime_s)
}

/// Events of a scenario: link 1, which a single path uses too, is cut in the same way.
pub(crate) fn of(scenario: Scenario, runtime_s: u32) -> Vec<Event> {
    if scenario == Scenario::CutOne { in_the_middle(1, runtime_s).to_vec() } else { Vec::new() }
}

fn in_the_middle(link: usize, runtime_s: u32) -> [Event; 2] {
    let at_s = (f64::from(runtime_s) - MIDDLE_S) / 2.0;
    [Event { at_s, link, up: false }, Event { at_s: at_s + MIDDLE_S, link, up: true }]
}

/// `count` random cuts of links, one after the other, some short and some longer than the keep alive timeout; and how
/// many seconds all of it takes.
pub(crate) fn by_chance(count: u32, seed: u64) -> (Vec<Event>, u32) {
    let mut dice = Dice::new(seed);
    let mut at_s = CALM_S;
    let mut events = Vec::new();
    for _ in 0..count {
        let link = 1 + dice.next() as usize % LINKS;
        events.push(Event { at_s, link, up: false });
        at_s += if dice.next().is_multiple_of(LONG_ONE_IN) {
            6.0 + 3.0 * dice.fraction()
        } else {
            0.2 + 1.8 * dice.fraction()
        };
        events.push(Event { at_s, link, up: true });
        at_s += 0.2 + 1.5 * dice.fraction();
    }
    (events, (at_s + CALM_S).ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_cut_is_in_the_middle() {
        let [cut, back] = middle(20);
        assert_eq!((cut.at_s, cut.up, back.at_s, back.up), (7.5, false, 12.5, true));
        assert_eq!((cut.link, back.link), (2, 2));
    }

    #[test]
    fn only_one_scenario_has_a_cut() {
        assert!(of(Scenario::Lossy, 12).is_empty());
        let cut = of(Scenario::CutOne, Scenario::CutOne.runtime_s(5));
        let times: Vec<(f64, usize, bool)> =
            cut.iter().map(|event| (event.at_s, event.link, event.up)).collect();
        assert_eq!(times, [(3.5, 1, false), (8.5, 1, true)]);
        assert_eq!((Scenario::CutOne.runtime_s(30), Scenario::Lossy.runtime_s(5)), (30, 5));
    }

    #[test]
    fn many_cuts_come_one_after_the_other_on_all_links() {
        let (events, seconds) = by_chance(200, 42);
        assert_eq!(events.len(), 400);
        assert!(events.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
        assert!(events.chunks(2).all(|pair| pair[0].link == pair[1].link && !pair[0].up && pair[1].up));
        assert!((1..=LINKS).all(|link| events.iter().any(|event| event.link == link)));
        assert!(events.chunks(2).any(|pair| pair[1].at_s - pair[0].at_s > 5.0));
        assert!(events.last().unwrap().at_s < f64::from(seconds));
        assert_eq!(by_chance(200, 42).0, events);
        assert_ne!(by_chance(200, 43).0, events);
    }
}
