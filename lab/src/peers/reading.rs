//! What the clients print, as figures. It keeps out how they are run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) iops: f64,
    /// Requests in all, where the client tells or can be counted on.
    pub(crate) requests: Option<f64>,
    /// Latency in microseconds, where the client measures it.
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// From `selvedge bench -o json`.
pub(crate) fn of_selvedge(output: &str, write: bool) -> Option<Reading> {
    let report: Value = serde_json::from_str(output).ok()?;
    if report["ended"] != "complete" {
        return None;
    }
    let direction = &report[if write { "write" } else { "read" }];
    let us = |name: &str| direction["lat_ns"][name].as_f64().map(|ns| ns / 1000.0);
    Some(Reading {
        iops: direction["iops"].as_f64()?,
        requests: direction["ios"].as_f64(),
        mean_us: us("mean"),
        p50_us: us("p50"),
        p99_us: us("p99"),
    })
}

/// The options with which fio keeps percentiles of whole latencies, from a request's making to its end, as all others have
/// them. Its usual ones begin when a request has been sent.
pub(crate) const FIO_PERCENTILES: &str = "--lat_percentiles=1 --clat_percentiles=0";

/// From fio's JSON of one job or one group, with whole latencies (`lat_ns`).
pub(crate) fn of_fio(output: &str, write: bool) -> Option<Reading> {
    // Warnings may stand in front of it.
    let report: Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        return None;
    }
    let direction = &job[if write { "write" } else { "read" }];
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1000.0);
    let percentiles = &direction["lat_ns"]["percentile"];
    Some(Reading {
        iops: direction["iops"].as_f64()?,
        requests: direction["total_ios"].as_f64(),
        mean_us: us(&direction["lat_ns"]["mean"]),
        p50_us: us(&percentiles["50.000000"]),
        p99_us: us(&percentiles["99.000000"]),
    })
}

/// From spdk_nvme_perf: a line of totals under a head that names its columns.
pub(crate) fn of_spdk(output: &str) -> Option<Reading> {
    let figures = |line: &str| -> Vec<String> {
        line.rsplit_once(':').map_or("", |(_, rest)| rest).split_whitespace().map(str::to_owned).collect()
    };
    let head = output.lines().find(|line| line.starts_with("Device Information"))?;
    let total = output.lines().find(|line| line.starts_with("Total "))?;
    let (names, total) = (figures(head), figures(total));
    let figure = |name: &str| -> Option<f64> {
        let column = names.iter().position(|other| other == name)?;
        total.get(column)?.parse().ok()
    };
    let iops = figure("IOPS").filter(|iops| *iops > 0.0)?;
    Some(Reading { mean_us: figure("Average"), ..without_latency(iops) })
}

/// From the bare pair, which is a line of JSON: the figures, and each end's processor time in seconds.
pub(crate) fn of_bare(output: &str) -> Option<(Reading, f64, f64)> {
    let report: Value = serde_json::from_str(output.lines().last()?).ok()?;
    let reading =
        Reading { requests: report["requests"].as_f64(), ..without_latency(report["iops"].as_f64()?) };
    Some((reading, report["server_s"].as_f64()?, report["client_s"].as_f64()?))
}

/// From iscsi-perf, which overwrites its line while it runs and says the average again in the end.
pub(crate) fn of_iscsi_perf(output: &str) -> Option<Reading> {
    let (_, last) = output.rsplit_once("iops average ")?;
    if !output.contains("finished.") {
        return None;
    }
    Some(without_latency(last.split_whitespace().next()?.parse().ok()?))
}

/// Reads the output of `qemu-img bench`, which has a fixed number of requests and prints the time.
pub(crate) fn of_qemu_img(output: &str, requests: u64) -> Option<Reading> {
    let (_, rest) = output.split_once("Run completed in ")?;
    let seconds: f64 = rest.split_once(" seconds")?.0.parse().ok()?;
    let reading = without_latency(requests as f64 / seconds);
    (seconds > 0.0).then_some(Reading { requests: Some(requests as f64), ..reading })
}

const fn without_latency(iops: f64) -> Reading {
    Reading { iops, requests: None, mean_us: None, p50_us: None, p99_us: None }
}

/// Several processes at the same time as one: rates add up; latencies are not put together, because those that run as
/// several processes tell none.
pub(crate) fn together(readings: &[Reading]) -> Option<Reading> {
    match readings {
        [] => None,
        [only] => Some(*only),
        several => {
            let requests: Option<Vec<f64>> = several.iter().map(|reading| reading.requests).collect();
            let requests = requests.map(|requests| requests.iter().sum());
            let iops = several.iter().map(|reading| reading.iops).sum();
            Some(Reading { requests, ..without_latency(iops) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded output of the programs.
    const ISCSI_PERF: &str = include_str!("recorded/iscsi-perf.txt");
    const QEMU_IMG: &str = include_str!("recorded/qemu-img-bench.txt");
    const FIO: &str = include_str!("recorded/fio-nbd.json");
    const SPDK: &str = include_str!("recorded/spdk-nvme-perf.txt");
    const SELVEDGE: &str = include_str!("recorded/selvedge-bench.json");

    #[test]
    fn reads_iscsi_perf() {
        let reading = of_iscsi_perf(ISCSI_PERF).unwrap();
        assert_eq!((reading.iops, reading.mean_us), (32783.0, None));
        assert_eq!(of_iscsi_perf("iops average 12 (1 MB/s)"), None);
        assert_eq!(of_iscsi_perf("iops average \nfinished."), None);
    }

    #[test]
    fn reads_qemu_img() {
        let reading = of_qemu_img(QEMU_IMG, 20_000).unwrap();
        assert_eq!((reading.iops.round(), reading.requests), (4149.0, Some(20_000.0)));
        assert_eq!(of_qemu_img("Run completed in 0.000 seconds.", 5), None);
        assert_eq!(of_qemu_img("qemu-img: Could not open", 5), None);
    }

    #[test]
    fn reads_fio() {
        let reading = of_fio(FIO, false).unwrap();
        assert_eq!((reading.iops, reading.requests), (28784.215784, Some(28813.0)));
        assert_eq!((reading.mean_us, reading.p50_us), (Some(1101.921838476), Some(847.872)));
        assert_eq!(reading.p99_us, Some(5341.184));
        assert_eq!(of_fio(&FIO.replace("\"error\" : 0", "\"error\" : 5"), false), None);
        assert!(of_fio(&format!("note: a warning\n{FIO}"), true).is_some());
        assert_eq!(of_fio("fio: engine nbd not loadable", false), None);
    }

    #[test]
    fn reads_spdk() {
        let reading = of_spdk(SPDK).unwrap();
        assert_eq!((reading.iops, reading.mean_us, reading.p99_us), (712_825.73, Some(44.88), None));
        // Its columns are found by their names.
        let turned = SPDK.replace("IOPS      MiB/s", "MiB/s      IOPS");
        assert_eq!(of_spdk(&turned).unwrap().iops, 2784.48);
        assert_eq!(of_spdk(&SPDK.replace("712825.73", "0.00")), None);
        assert_eq!(of_spdk("ERROR: spdk_nvme_ctrlr_alloc_io_qpair failed"), None);
    }

    #[test]
    fn reads_the_bare_pair() {
        let line = r#"{"iops":1000.5,"requests":2001,"server_s":1.5,"client_s":2.25}"#;
        let (reading, server_s, client_s) = of_bare(&format!("a note\n{line}\n")).unwrap();
        assert_eq!((reading.iops, reading.requests, server_s, client_s), (1000.5, Some(2001.0), 1.5, 2.25));
        assert!(of_bare(r#"{"iops":1000.5}"#).is_none() && of_bare("").is_none());
    }

    #[test]
    fn reads_our_own() {
        let reading = of_selvedge(SELVEDGE, false).unwrap();
        assert_eq!((reading.iops.round(), reading.requests), (38843.0, Some(77689.0)));
        assert_eq!((reading.p50_us, reading.p99_us), (Some(137.599), Some(2689.023)));
        assert_eq!(of_selvedge(SELVEDGE, true), None);
        assert_eq!(of_selvedge(&SELVEDGE.replace("complete", "failed"), false), None);
    }

    #[test]
    fn rates_of_processes_add_up() {
        let one = of_qemu_img(QEMU_IMG, 20_000).unwrap();
        let both = together(&[one, one]).unwrap();
        assert_eq!((both.iops, both.requests), (2.0 * one.iops, Some(40_000.0)));
        assert_eq!((together(&[one]), together(&[])), (Some(one), None));
    }
}
