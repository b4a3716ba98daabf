//! How busy the machine's processors were: what a suite waits for, and what it computes.

/// Time of all processors since the machine started, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct ProcessorTime {
    busy: u64,
    all: u64,
}

impl ProcessorTime {
    /// Up to now; none where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Of the first line: user, nice, system, idle, iowait, irq, softirq, steal, and guests, which are among the users.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let waited = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum();
        Some(Self { busy: all - waited, all })
    }

    /// The share of the time since then in which they were busy.
    pub(crate) fn busy_percent(self) -> Option<u64> {
        let now = Self::now()?;
        (100 * now.busy.saturating_sub(self.busy)).checked_div(now.all.saturating_sub(self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work() {
        let time =
            ProcessorTime::of("cpu  10 1 5 60 20 1 2 1 9 9\ncpu0 1 1 1 1\n").expect("the line is whole");
        assert_eq!((time.busy, time.all), (20, 100));
        assert!(ProcessorTime::of("cpu 1 2").is_none());
    }
}
