//! Throughput over time, and what a cut did to it, as arithmetic. It keeps out measuring and drawing.

use serde::Serialize;
use serde_json::Value;

use crate::cell::Access;
use crate::experiment::{LinkRates, Record};

/// Megabytes (10^6 bytes) per second, interval by interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    /// End of each interval, in seconds since data began to flow.
    pub(crate) at_s: Vec<f64>,
    pub(crate) mb_s: Vec<f64>,
}

/// Effect of a cut on the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Recovery {
    /// Before the cut.
    pub(crate) before_mb_s: f64,
    /// From the cut until three quarters were back, if they came back before the link did.
    pub(crate) three_quarters_s: Option<f64>,
    /// From the link's return until all was back.
    pub(crate) full_s: Option<f64>,
}

/// Shares that count as three quarters and as all: a little less than exactly that, since
/// throughput is never even.
const THREE_QUARTERS: f64 = 0.73;
const FULL: f64 = 0.95;
/// Throughput is back when it has been for this long.
const STEADY_S: f64 = 1.0;
/// Time before the cut whose mean is the reference.
const BEFORE_S: f64 = 3.0;

impl Series {
    /// Throughput of the workload over time; where it does not say, that of the links.
    pub(crate) fn of(record: &Record) -> Series {
        // The workload's own account begins with its first command, which is when data begins to flow.
        Series::from_timeline(&record.bench, record.access)
            .unwrap_or_else(|| Series::from_links(&record.links, record.access))
    }

    fn from_timeline(bench: &Value, access: Access) -> Option<Series> {
        let timeline = &bench["timeline"];
        let interval_s = timeline["interval_s"].as_f64().filter(|seconds| *seconds > 0.0)?;
        let bytes = timeline[format!("{}_bytes", access.name())].as_array()?;
        // An interval that the end of the run cut short would look like a fall.
        let whole =
            bench["elapsed_s"].as_f64().map_or(bytes.len(), |elapsed_s| (elapsed_s / interval_s) as usize);
        let mb_s: Vec<f64> =
            bytes.iter().take(whole).map_while(Value::as_f64).map(|bytes| bytes / 1e6 / interval_s).collect();
        let at_s = (1..=mb_s.len()).map(|count| count as f64 * interval_s).collect();
        Some(Series { at_s, mb_s })
    }

    fn from_links(links: &LinkRates, access: Access) -> Series {
        let rates = links.of(access);
        let sum = |at: usize| rates.iter().filter_map(|link| link.get(at)).sum();
        Series { at_s: links.at_s.clone(), mb_s: (0..links.at_s.len()).map(sum).collect() }
    }

    /// Effect of a cut from `cut_s` to `return_s`.
    pub(crate) fn recovery(&self, cut_s: f64, return_s: f64) -> Option<Recovery> {
        let before_mb_s = self.mean(cut_s - BEFORE_S, cut_s)?;
        let back = |from_s: f64, share: f64| {
            let starts = self.at_s.iter().copied().filter(|at_s| *at_s >= from_s);
            let mut steady = starts.filter(|at_s| {
                self.mean(*at_s, at_s + STEADY_S).is_some_and(|mean| mean >= share * before_mb_s)
            });
            steady.next().map(|at_s| at_s - from_s)
        };
        Some(Recovery {
            before_mb_s,
            three_quarters_s: back(cut_s, THREE_QUARTERS).filter(|seconds| cut_s + seconds < return_s),
            full_s: back(return_s, FULL),
        })
    }

    /// The mean of the intervals that lie between two moments; none where the series does not reach so far.
    fn mean(&self, from_s: f64, to_s: f64) -> Option<f64> {
        // Half an interval at either end may stick out.
        let last_s = *self.at_s.last()?;
        let interval_s = last_s / self.at_s.len() as f64;
        if last_s + interval_s / 2.0 < to_s {
            return None;
        }
        let between: Vec<f64> = self
            .at_s
            .iter()
            .zip(&self.mb_s)
            .filter(|(at_s, _)| **at_s > from_s && **at_s <= to_s)
            .map(|(_, mb_s)| *mb_s)
            .collect();
        (!between.is_empty()).then(|| between.iter().sum::<f64>() / between.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Four intervals a second, with a rate that depends on when the interval begins.
    fn series(seconds: u32, rate: impl Fn(f64) -> f64) -> Series {
        let count = seconds * 4;
        let at_s: Vec<f64> = (1..=count).map(|interval| f64::from(interval) / 4.0).collect();
        let mb_s = at_s.iter().map(|at_s| rate(at_s - 0.25)).collect();
        Series { at_s, mb_s }
    }

    #[test]
    fn sees_when_throughput_comes_back() {
        let cut = series(20, |at_s| match at_s {
            at_s if at_s < 7.5 => 400.0,
            at_s if at_s < 9.0 => 20.0,
            at_s if at_s < 14.0 => 300.0,
            _ => 400.0,
        });
        let recovery = cut.recovery(7.5, 12.5).unwrap();
        assert_eq!(recovery.before_mb_s, 400.0);
        assert_eq!(recovery.three_quarters_s, Some(1.5));
        assert_eq!(recovery.full_s, Some(1.5));
    }

    #[test]
    fn what_does_not_come_back_has_no_time() {
        let dead = series(20, |at_s| if at_s < 7.5 { 400.0 } else { 0.0 });
        let recovery = dead.recovery(7.5, 12.5).unwrap();
        assert_eq!((recovery.three_quarters_s, recovery.full_s), (None, None));
        // One good interval is not yet recovery.
        let flicker = series(20, |at_s| if at_s < 7.5 || (9.0..9.25).contains(&at_s) { 400.0 } else { 0.0 });
        assert_eq!(flicker.recovery(7.5, 12.5).unwrap().three_quarters_s, None);
        // What came back only with the link did not come back without it.
        let late = series(20, |at_s| if (7.5..13.0).contains(&at_s) { 0.0 } else { 400.0 });
        assert_eq!(late.recovery(7.5, 12.5).unwrap().three_quarters_s, None);
        assert_eq!(Series::default().recovery(1.0, 2.0), None);
    }

    #[test]
    fn reads_the_workloads_own_account() {
        let timeline = json!({"interval_s": 0.5, "read_bytes": [1_000_000, 2_000_000, 7], "write_bytes": []});
        let bench = json!({"elapsed_s": 1.003, "timeline": timeline});
        let series = Series::from_timeline(&bench, Access::Read).unwrap();
        assert_eq!(series, Series { at_s: vec![0.5, 1.0], mb_s: vec![2.0, 4.0] });
        assert_eq!(Series::from_timeline(&Value::Null, Access::Read), None);
    }
}
