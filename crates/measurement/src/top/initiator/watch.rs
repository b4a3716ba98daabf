//! History of a run: its rates, the last minute, the news of its paths, and its duration. The
//! caller supplies the time.

use std::collections::VecDeque;
use std::time::Duration;

use super::rates::Rates;
use crate::bench::sample::Sample;

/// Samples whose IOPS are kept for the picture: a minute of them.
const HISTORY_MAX: usize = 60;
/// News that are kept until the terminal is given back.
const NEWS_MAX: usize = 100;
/// Workers say something once a second; their silence is reported after this.
const LATE: Duration = Duration::from_secs(3);

/// Facts about a run before it begins.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Type of I/O and block size.
    pub workload: String,
    /// On which namespace.
    pub target: String,
    /// Number of jobs, and I/O interface.
    pub(crate) means: String,
    /// Longest duration, if known.
    pub length: Option<Duration>,
}

/// A run as it is watched.
#[derive(Debug, Default)]
pub struct Watch {
    pub about: About,
    /// Time at which the workers started.
    began_at: Option<Duration>,
    heard_at: Option<Duration>,
    last: Option<Sample>,
    latest: Option<Rates>,
    /// Rates shown while the view is paused.
    frozen: Option<Rates>,
    history: VecDeque<f64>,
    news: VecDeque<(Duration, String)>,
}

impl Watch {
    /// Returns a watch without samples.
    pub fn new(about: About) -> Self {
        Self { about, ..Self::default() }
    }

    /// The workers begin.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.began_at = Some(now);
    }

    /// Takes what all workers have said.
    pub fn hear(&mut self, sample: Sample) {
        let mut rates = Rates::of(&sample, self.last.as_ref());
        if let Some(lately) = &rates.lately {
            self.history.push_back(lately.iops);
        }
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        rates.history = self.history.iter().copied().collect();
        self.heard_at = Some(sample.at);
        self.latest = Some(rates);
        self.last = Some(sample);
    }

    /// Takes something worth a line.
    pub(crate) fn hear_news(&mut self, now: Duration, line: &str) {
        if self.news.len() == NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back((now, crate::target_rates::printable(line)));
    }

    /// News with their times, the oldest first.
    pub fn news(&self) -> impl DoubleEndedIterator<Item = &(Duration, String)> {
        self.news.iter()
    }

    /// Rates to show, if there was a sample.
    pub fn rates(&self) -> Option<&Rates> {
        self.frozen.as_ref().or(self.latest.as_ref())
    }

    /// Stops what is shown, or lets it go on with what was heard meanwhile.
    pub fn pause(&mut self) {
        self.frozen = if self.frozen.is_some() { None } else { self.latest.clone() };
    }

    /// True if the view is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Time since the workers started.
    pub fn elapsed(&self, now: Duration) -> Duration {
        self.began_at.map_or(Duration::ZERO, |began_at| now.saturating_sub(began_at))
    }

    /// Returns a message if the workers are silent, with the time since their last report.
    pub fn absence(&self, now: Duration) -> Option<String> {
        let silent = now.saturating_sub(self.heard_at.or(self.began_at)?);
        (silent > LATE).then(|| format!("the workers have said nothing for {} s", silent.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{sample, watch};
    use super::*;

    fn iops(watch: &Watch) -> Option<f64> {
        watch.rates()?.lately.map(|lately| lately.iops)
    }

    #[test]
    fn a_pause_holds_what_is_shown_and_not_what_is_heard() {
        let mut watch = watch(1);
        assert_eq!(iops(&watch), Some(3000.0));
        watch.pause();
        watch.hear(sample(1, 5, 9000));
        assert_eq!((iops(&watch), watch.is_paused()), (Some(3000.0), true));
        watch.pause();
        assert_eq!(iops(&watch), Some(1500.0), "6000 to 9000 in two seconds");
        assert_eq!(watch.rates().unwrap().history, [3000.0, 1500.0]);
    }

    #[test]
    fn a_minute_and_the_last_news_are_kept() {
        let mut watch = watch(1);
        (4..200).for_each(|at| watch.hear(sample(1, at, 6000 + at)));
        assert_eq!(watch.rates().unwrap().history.len(), HISTORY_MAX);
        (0..150).for_each(|at| watch.hear_news(Duration::from_secs(at), &format!("news\x1b {at}")));
        assert_eq!(watch.news().count(), NEWS_MAX);
        assert_eq!(watch.news().next(), Some(&(Duration::from_secs(50), "news? 50".to_owned())));
    }

    #[test]
    fn silent_workers_are_reported_once_they_are_late() {
        let mut watch = Watch::new(About::default());
        assert_eq!(watch.absence(Duration::from_secs(100)), None, "they have not begun");
        watch.begin(Duration::from_secs(100));
        assert_eq!(watch.absence(Duration::from_secs(103)), None);
        assert!(watch.absence(Duration::from_secs(104)).unwrap().ends_with("for 4 s"));
        watch.hear(sample(1, 104, 1));
        assert_eq!(watch.absence(Duration::from_secs(105)), None);
        assert_eq!(watch.elapsed(Duration::from_secs(105)), Duration::from_secs(5));
    }
}
