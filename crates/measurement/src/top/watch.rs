//! History of a target: its last sample, the rates that are shown, and the start of a silence. The
//! caller supplies the time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::target_rates::rates::Rates;
use crate::target_rates::sample::Sample;

/// Delay of an answer beyond the interval until its absence is reported.
const LATE: Duration = Duration::from_secs(2);

/// Intervals whose IOPS are kept for the picture: as many as a wide terminal has columns.
const HISTORY_MAX: usize = 240;

/// A target as it is watched.
#[derive(Debug)]
pub struct Watch {
    /// Address of the target's control API.
    pub target: String,
    /// From one question to the next.
    pub interval: Duration,
    last: Option<Sample>,
    latest: Option<Rates>,
    /// Rates shown while the view is paused.
    frozen: Option<(Rates, Vec<f64>)>,
    history: VecDeque<f64>,
    /// Time of the last answer.
    answered_at: Duration,
    /// Why it does not answer.
    failure: Option<String>,
}

impl Watch {
    /// Returns a watch without samples.
    pub fn new(target: String, interval: Duration) -> Self {
        Self {
            target,
            interval,
            last: None,
            latest: None,
            frozen: None,
            history: VecDeque::new(),
            answered_at: Duration::ZERO,
            failure: None,
        }
    }

    /// Takes an answer, or the reason why there is none.
    pub fn hear(&mut self, answer: Result<Sample, String>) {
        match answer {
            Ok(sample) => {
                self.answered_at = sample.at;
                self.failure = None;
                let rates = Rates::of(&sample, self.last.as_ref());
                if self.history.len() == HISTORY_MAX {
                    self.history.pop_front();
                }
                self.history.extend(rates.all.total.iops);
                self.latest = Some(rates);
                self.last = Some(sample);
            }
            Err(why) => self.failure = Some(crate::target_rates::printable(&why)),
        }
    }

    /// Rates to show, if there was an answer.
    pub fn rates(&self) -> Option<&Rates> {
        self.frozen.as_ref().map(|(rates, _)| rates).or(self.latest.as_ref())
    }

    /// IOPS of the last intervals, the oldest first.
    pub(crate) fn history(&self) -> Vec<f64> {
        match &self.frozen {
            Some((_, history)) => history.clone(),
            None => self.history.iter().copied().collect(),
        }
    }

    /// Stops what is shown, or lets it go on with what was heard meanwhile.
    pub fn pause(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => self.latest.clone().map(|rates| (rates, self.history())),
        };
    }

    /// True if the view is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns a message if the target is silent, with the time and the reason.
    pub fn absence(&self, now: Duration) -> Option<String> {
        let silent = now.saturating_sub(self.answered_at);
        let seconds = silent.as_secs();
        match &self.failure {
            Some(why) => Some(format!("no answer for {seconds} s, still asking: {why}")),
            None if silent > self.interval + LATE => {
                Some(format!("no answer for {seconds} s, still waiting"))
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{NOW, NQN, sample, watch};
    use super::*;

    fn read_iops(watch: &Watch) -> Option<f64> {
        watch.rates().unwrap().subsystem(NQN).unwrap().load.read.iops
    }

    #[test]
    fn a_lost_target_has_a_message_and_comes_back() {
        let mut watch = watch();
        assert_eq!((watch.absence(NOW), read_iops(&watch)), (None, Some(10_000.0)));
        watch.hear(Err("it is\x1b gone".into()));
        let message = watch.absence(Duration::from_secs(7)).unwrap();
        assert_eq!(message, "no answer for 5 s, still asking: it is? gone");
        assert_eq!(read_iops(&watch), Some(10_000.0), "what was known last stays");
        watch.hear(Ok(sample(8, 107, 1)));
        assert_eq!(watch.absence(Duration::from_secs(8)), None);
        assert!(watch.rates().unwrap().restarted && read_iops(&watch).is_none());
        watch.hear(Ok(sample(9, 107, 2)));
        assert!(!watch.rates().unwrap().restarted);
        assert_eq!(read_iops(&watch), Some(10_000.0));
    }

    #[test]
    fn a_silence_of_the_same_target_is_averaged_over() {
        let mut watch = watch();
        watch.hear(Err("late".into()));
        watch.hear(Ok(sample(12, 100, 41)));
        assert_eq!(read_iops(&watch), Some(10_000.0), "ten seconds of work in ten seconds");
    }

    #[test]
    fn a_target_that_only_says_nothing_is_missed_after_a_while() {
        let watch = watch();
        assert_eq!(watch.absence(Duration::from_secs(5)), None);
        let message = watch.absence(Duration::from_secs(6)).unwrap();
        assert_eq!(message, "no answer for 4 s, still waiting");
    }

    #[test]
    fn a_pause_holds_what_is_shown_and_not_what_is_heard() {
        let mut watch = watch();
        watch.pause();
        watch.hear(Ok(sample(3, 100, 33)));
        assert!(watch.is_paused());
        assert_eq!(read_iops(&watch), Some(10_000.0));
        assert_eq!(watch.history(), [15_000.0]);
        watch.pause();
        assert!(!watch.is_paused());
        assert_eq!(read_iops(&watch), Some(20_000.0));
        assert_eq!(watch.history(), [15_000.0, 30_000.0]);
        (4..400).for_each(|at| watch.hear(Ok(sample(at, 100, 30 + at))));
        assert_eq!(watch.history().len(), HISTORY_MAX);
    }
}
