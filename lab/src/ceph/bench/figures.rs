//! What fio and the bench print of a run, as figures of reads and writes together. It keeps out how they are run.

use serde::Serialize;
use serde_json::Value;

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) iops: f64,
    /// Latency in microseconds, from a command's sending to its end. Of several processes, the 99th percentile is that of the
    /// slowest.
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
}

impl Figures {
    /// From fio's JSON of one group, with `--unified_rw_reporting=both` and percentiles of whole latencies.
    pub(super) fn of_fio(output: &str) -> Option<Figures> {
        // Warnings may stand in front of it.
        let report: Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
        let job = &report["jobs"][0];
        if job["error"] != 0 {
            return None;
        }
        let all = &job["mixed"];
        Figures::of(all, &all["lat_ns"]["percentile"]["99.000000"])
    }

    /// From `selvedge bench -o json`.
    pub(super) fn of_bench(output: &str) -> Option<Figures> {
        let report: Value = serde_json::from_str(output).ok()?;
        let all = &report["total"];
        (report["ended"] == "complete").then(|| Figures::of(all, &all["lat_ns"]["p99"]))?
    }

    fn of(all: &Value, p99_ns: &Value) -> Option<Figures> {
        let us = |value: &Value| value.as_f64().map(|ns| ns / 1000.0);
        let figures = Figures {
            iops: all["iops"].as_f64()?,
            mean_us: us(&all["lat_ns"]["mean"])?,
            p99_us: us(p99_ns)?,
        };
        (figures.iops > 0.0).then_some(figures)
    }

    /// Of several processes that ran at the same time.
    pub(super) fn together(all: &[Figures]) -> Option<Figures> {
        let iops: f64 = all.iter().map(|figures| figures.iops).sum();
        let weighted: f64 = all.iter().map(|figures| figures.iops * figures.mean_us).sum();
        let p99_us = all.iter().map(|figures| figures.p99_us).reduce(f64::max)?;
        Some(Figures { iops, mean_us: weighted / iops, p99_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded output of the programs, without unused parts.
    const FIO: &str = include_str!("recorded/fio-rbd.json");
    const BENCH: &str = include_str!("recorded/selvedge-bench.json");

    #[test]
    fn reads_fio() {
        let figures = Figures::of_fio(FIO).unwrap();
        assert_eq!(figures, Figures { iops: 8978.239367, mean_us: 7127.108322245, p99_us: 36438.016 });
        assert_eq!(Figures::of_fio(&format!("a warning\n{FIO}")), Some(figures));
        assert_eq!(Figures::of_fio(&FIO.replace("\"error\" : 0", "\"error\" : 5")), None);
        assert_eq!(Figures::of_fio("fio: engine rbd not loadable"), None);
    }

    #[test]
    fn reads_the_bench() {
        let figures = Figures::of_bench(BENCH).unwrap();
        assert_eq!(
            figures,
            Figures { iops: 2993.004752891548, mean_us: 540.1752034747741, p99_us: 2588.671 }
        );
        assert_eq!(Figures::of_bench(&BENCH.replace("complete", "failed")), None);
        assert_eq!(Figures::of_bench(""), None);
    }

    #[test]
    fn processes_add_up() {
        let one = Figures { iops: 1000.0, mean_us: 10.0, p99_us: 50.0 };
        let other = Figures { iops: 3000.0, mean_us: 20.0, p99_us: 40.0 };
        let both = Figures { iops: 4000.0, mean_us: 17.5, p99_us: 50.0 };
        assert_eq!((Figures::together(&[one, other]), Figures::together(&[])), (Some(both), None));
    }
}
