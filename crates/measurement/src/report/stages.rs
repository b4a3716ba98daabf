//! Time of a run's commands by stage at the initiator, as text and as JSON. The engine measures it.

use chart::units;
use engine::Histogram;
use engine::initiator::{Stage, StageLatencies};
use serde::{Deserialize, Serialize};

use super::table::{Side, Table};
use crate::bench::target_stages::TargetStages;

/// Smaller parts of the target's time are not named in the text.
const NAMED_SHARE_MIN: f64 = 0.01;
/// Excess of the target's commands over our own, as a share, from which on other hosts must have
/// sent some: its counters are read shortly before and after the run's own.
const SHARED_MIN: f64 = 0.05;

/// The stages of commands at the initiator, in their order. Times of all of them add up to the commands' own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StagesReport {
    /// Until the command is on a queue: it waits for a path, or for a free entry.
    pub waiting: StageReport,
    /// Until its last byte, and data that the target asked for, is handed to the socket.
    pub sending: StageReport,
    /// Until the first of its data, its response or a request for data comes: the network and the target.
    pub target: StageReport,
    /// Until all of it is received.
    pub receiving: StageReport,
}

/// Time by stage in the target, per command: means over the commands of all hosts on the namespace
/// during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TargetStagesReport {
    /// Commands of all hosts that went well.
    pub ios: u64,
    /// From when a command was received until its response was queued.
    pub mean_ns: f64,
    /// Data was on the way from the host.
    pub receive_ns: f64,
    /// Limits held it back.
    pub limits_ns: f64,
    /// Wait for a buffer.
    pub buffer_ns: f64,
    /// The storage had it.
    pub storage_ns: f64,
    /// Others went first.
    pub others_ns: f64,
}

/// Times of commands in one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StageReport {
    pub mean_ns: f64,
    /// Share of the time of all commands.
    pub share_percent: f64,
    /// Half of the commands took no longer; a power of two in microseconds. Nothing where that is longer than 16 s.
    pub p50_ns_max: Option<u64>,
    /// Upper bound of 99 % of the commands.
    pub p99_ns_max: Option<u64>,
    /// Commands by their time: number n, from 0, counts those that took at most 2^n µs and longer than half of that.
    pub buckets: Vec<u64>,
}

impl StagesReport {
    /// Of what was measured; nothing where there were no commands.
    pub(crate) fn some(latencies: &StageLatencies) -> Option<Self> {
        let (commands, all_ns) = (latencies.count(), latencies.sum_ns());
        if commands == 0 {
            return None;
        }
        let of = |stage| StageReport::new(latencies.of(stage), commands, all_ns);
        Some(Self {
            waiting: of(Stage::Waiting),
            sending: of(Stage::Sending),
            target: of(Stage::Target),
            receiving: of(Stage::Receiving),
        })
    }

    /// Of all paths together.
    pub fn of_all(paths: &[StageLatencies]) -> Option<Self> {
        let mut sum = StageLatencies::default();
        paths.iter().for_each(|path| sum.merge(path));
        Self::some(&sum)
    }

    /// Each stage with its name for people.
    pub fn named(&self) -> [(&'static str, &StageReport); 4] {
        [
            ("waiting for a queue", &self.waiting),
            ("being sent", &self.sending),
            ("target and network", &self.target),
            ("being received", &self.receiving),
        ]
    }

    /// The stages as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("time spent", Side::Left),
            ("share", Side::Right),
            ("mean", Side::Right),
            ("p50", Side::Right),
            ("p99", Side::Right),
        ]);
        for (name, stage) in self.named() {
            table.row(vec![
                name.to_owned(),
                format!("{:.1} %", stage.share_percent),
                units::time_ns(stage.mean_ns),
                at_most(stage.p50_ns_max),
                at_most(stage.p99_ns_max),
            ]);
        }
        table
    }
}

impl TargetStagesReport {
    /// Of what a target has said.
    pub fn new(said: &TargetStages) -> Self {
        let per_io = |ns: u64| ns as f64 / said.commands.max(1) as f64;
        let [receive, limits, buffer, storage, others] = said.stages_ns.map(per_io);
        Self {
            ios: said.commands,
            mean_ns: per_io(said.took_ns),
            receive_ns: receive,
            limits_ns: limits,
            buffer_ns: buffer,
            storage_ns: storage,
            others_ns: others,
        }
    }

    /// Returns the stages that took time; `None` if all commands were answered at once.
    pub fn parts(&self) -> Option<String> {
        let named = [
            ("data on the way", self.receive_ns),
            ("limits", self.limits_ns),
            ("buffers", self.buffer_ns),
            ("storage", self.storage_ns),
            ("others first", self.others_ns),
        ];
        let longest = named.into_iter().filter(|(_, ns)| *ns > self.mean_ns * NAMED_SHARE_MIN);
        let parts: Vec<String> = longest.map(|(name, ns)| format!("{name} {}", units::time_ns(ns))).collect();
        (self.mean_ns > 0.0).then(|| parts.join(", "))
    }

    /// Returns the report as a line. `ios` is the number of this host's completed commands.
    pub fn line(&self, ios: u64) -> Option<String> {
        let is_shared = self.ios as f64 > ios as f64 * (1.0 + SHARED_MIN);
        let whose = match is_shared {
            true => format!(", {} commands of all hosts", units::grouped(self.ios)),
            false => String::new(),
        };
        let parts = self.parts()?;
        Some(format!("target  {} at the target itself{whose}: {parts}", units::time_ns(self.mean_ns)))
    }
}

impl StageReport {
    fn new(histogram: &Histogram, commands: u64, all_ns: u64) -> Self {
        let used = histogram.buckets.iter().rposition(|commands| *commands > 0).map_or(0, |last| last + 1);
        let quantile_ns = |quantile| histogram.quantile_us(quantile).map(|end_us| end_us * 1000);
        Self {
            mean_ns: histogram.sum_ns as f64 / commands as f64,
            share_percent: 100.0 * histogram.sum_ns as f64 / all_ns.max(1) as f64,
            p50_ns_max: quantile_ns(0.5),
            p99_ns_max: quantile_ns(0.99),
            buckets: histogram.buckets[..used].to_vec(),
        }
    }
}

/// A time that was not exceeded.
fn at_most(ns: Option<u64>) -> String {
    ns.map_or_else(|| "> 16 s".to_owned(), |ns| format!("≤ {}", units::time_ns(ns as f64)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Stages of this number of commands, each of which took these times.
    fn stages(commands: u64, times_ns: [u64; 4]) -> StagesReport {
        let of = |took_ns: u64| {
            let mut histogram = Histogram::default();
            (0..commands).for_each(|_| histogram.add(took_ns));
            StageReport::new(&histogram, commands, commands * times_ns.iter().sum::<u64>())
        };
        let [waiting, sending, target, receiving] = times_ns.map(of);
        StagesReport { waiting, sending, target, receiving }
    }

    #[test]
    fn a_run_without_commands_has_no_stages() {
        assert_eq!(StagesReport::of_all(&[]), None);
        assert_eq!(StagesReport::of_all(&[StageLatencies::default(); 2]), None);
    }

    #[test]
    fn stages_have_their_share() {
        let report = stages(10, [0, 5_000, 80_000, 15_000]);
        let shares = report.named().map(|(_, stage)| stage.share_percent);
        assert_eq!(shares, [0.0, 5.0, 80.0, 15.0]);
        assert_eq!((report.target.mean_ns, report.target.p99_ns_max), (80_000.0, Some(128_000)));
        assert_eq!(report.sending.buckets, [0, 0, 0, 10]);
        let text = report.table().to_string();
        let line = text.lines().find(|line| line.contains("target and network")).expect("a row of it");
        assert!(line.contains("80.0 %") && line.contains("80.0 µs") && line.contains("≤ 128 µs"), "{text}");
    }

    #[test]
    fn the_json_keeps_its_names() {
        let json = serde_json::to_value(stages(4, [1_000, 2_000, 3_000, 4_000])).unwrap();
        for (name, mean_ns) in [("waiting", 1e3), ("sending", 2e3), ("target", 3e3), ("receiving", 4e3)] {
            assert_eq!(json[name]["mean_ns"], mean_ns, "{name}");
            for key in ["share_percent", "p50_ns_max", "p99_ns_max"] {
                assert!(json[name][key].is_number(), "{name} {key}");
            }
            assert_eq!(json[name]["buckets"].as_array().unwrap().last().unwrap(), 4, "{name}");
        }
    }

    #[test]
    fn the_target_names_what_took_its_time() {
        let said =
            TargetStages { commands: 100, took_ns: 6_120_000, stages_ns: [0, 0, 10_000, 5_800_000, 310_000] };
        let report = TargetStagesReport::new(&said);
        let line = report.line(100).expect("it took time");
        assert_eq!(line, "target  61.2 µs at the target itself: storage 58.0 µs, others first 3.10 µs");
        let line = report.line(50).expect("it took time");
        assert!(line.contains("100 commands of all hosts"), "{line}");
        let at_once = TargetStages { commands: 100, took_ns: 0, stages_ns: [0; 5] };
        assert_eq!(TargetStagesReport::new(&at_once).line(100), None);
    }

    #[test]
    fn a_time_beyond_all_buckets_is_said_so() {
        let text = stages(1, [0, 0, 100_000_000_000, 0]).table().to_string();
        assert!(text.contains("> 16 s"), "{text}");
    }
}
