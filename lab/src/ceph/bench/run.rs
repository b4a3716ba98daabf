//! One run, which is one line of what is kept, and what runs say together: medians, and ratios round by round. It keeps out how
//! runs are made.

use serde::Serialize;

use super::access::Access;
use super::figures::Figures;
use super::watch::Spent;
use super::workload::Workload;
use crate::statistics::median;

/// Resources of a gateway when its clients were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Held {
    pub(super) resident_kib: u64,
    pub(super) threads: u64,
}

/// Result of a run that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
    pub(super) spent: Spent,
    /// Of all clients from their start to their end, in seconds of processor time.
    pub(super) whole_client_s: f64,
    /// None where there is no gateway.
    pub(super) held: Option<Held>,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Plan {
    pub(super) part: &'static str,
    pub(super) round: u32,
    #[serde(rename = "way")]
    pub(super) access: Access,
    pub(super) workload: Workload,
    pub(super) images: u32,
    /// Of the asked rate's saturation, in percent, where the part has such steps.
    pub(super) step_percent: Option<u32>,
}

/// Run with its result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    #[serde(flatten)]
    pub(super) plan: Plan,
    pub(super) gateway_command: Vec<String>,
    pub(super) client_command: Vec<String>,
    pub(super) outcome: Option<Outcome>,
    /// Why there is none.
    pub(super) failure: Option<String>,
}

impl Run {
    pub(super) fn iops(&self) -> Option<f64> {
        self.outcome.map(|outcome| outcome.figures.iops)
    }

    pub(super) fn mean_us(&self) -> Option<f64> {
        self.outcome.map(|outcome| outcome.figures.mean_us)
    }

    pub(super) fn p99_us(&self) -> Option<f64> {
        self.outcome.map(|outcome| outcome.figures.p99_us)
    }

    /// Processor time for each I/O of the process that has librbd in it, in microseconds: fio, or the gateway.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        match self.plan.access {
            Access::Fio { .. } => self.per_io(|spent| spent.client_s_per_s),
            Access::Gateway { .. } => self.per_io(|spent| spent.gateway_s_per_s),
        }
    }

    /// The same of the gateway's clients.
    pub(super) fn client_us(&self) -> Option<f64> {
        match self.plan.access {
            Access::Fio { .. } => None,
            Access::Gateway { .. } => self.per_io(|spent| spent.client_s_per_s),
        }
    }

    /// The same of the OSDs.
    pub(super) fn osds_us(&self) -> Option<f64> {
        self.per_io(|spent| spent.osds_s_per_s)
    }

    /// Other work on the machine, in percent of all processors.
    pub(super) fn others_percent(&self) -> Option<f64> {
        self.outcome.map(|outcome| outcome.spent.others_percent)
    }

    fn per_io(&self, of: fn(&Spent) -> f64) -> Option<f64> {
        self.outcome.map(|outcome| of(&outcome.spent) / outcome.figures.iops * 1e6)
    }
}

/// A figure of a run.
pub(super) type Figure = fn(&Run) -> Option<f64>;

/// Runs that are alike but for their rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Group<'a>(Vec<&'a Run>);

impl<'a> Group<'a> {
    /// Group of the runs that are `alike`.
    pub(super) fn of(runs: &'a [Run], alike: impl Fn(&Run) -> bool) -> Group<'a> {
        Group(runs.iter().filter(|run| alike(run)).collect())
    }

    /// The median of a figure.
    pub(super) fn median(&self, figure: Figure) -> Option<f64> {
        median(&self.all(figure))
    }

    /// The median of a figure, and from where to where it went.
    pub(super) fn spread(&self, figure: Figure) -> String {
        let all = self.all(figure);
        let (least, most) = (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max));
        match (median(&all), least, most) {
            (Some(median), Some(least), Some(most)) => format!("{median:.0} ({least:.0} to {most:.0})"),
            _ => "-".to_owned(),
        }
    }

    /// Ratio of this group's figure to that of `base`, in each round that has both.
    pub(super) fn ratios(&self, base: &Group, figure: Figure) -> Vec<f64> {
        let of_round =
            |round: u32| base.0.iter().find(|run| run.plan.round == round).and_then(|run| figure(run));
        let pairs = self.0.iter().filter_map(|run| Some((figure(run)?, of_round(run.plan.round)?)));
        pairs.filter(|(_, base)| *base > 0.0).map(|(own, base)| own / base).collect()
    }

    fn all(&self, figure: Figure) -> Vec<f64> {
        self.0.iter().filter_map(|run| figure(run)).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run at 4 KiB whose librbd takes `cpu_us` for each I/O.
    pub(in super::super) fn run(round: u32, access: Access, iops: f64, cpu_us: f64) -> Run {
        let per_s = iops * cpu_us / 1e6;
        let (client, gateway) = match access {
            Access::Fio { .. } => (per_s, 0.0),
            Access::Gateway { .. } => (iops * 5.0 / 1e6, per_s),
        };
        let spent = Spent {
            window_s: 1.0,
            client_s_per_s: client,
            gateway_s_per_s: gateway,
            osds_s_per_s: iops * 20.0 / 1e6,
            others_percent: 3.0,
        };
        let figures = Figures { iops, mean_us: 100.0, p99_us: 400.0 };
        let held =
            matches!(access, Access::Gateway { .. }).then_some(Held { resident_kib: 51_200, threads: 30 });
        Run {
            plan: Plan {
                part: "cost",
                round,
                access,
                workload: Workload::new("4 KiB random read, depth 32", "randread", 4096, 32),
                images: 1,
                step_percent: None,
            },
            gateway_command: Vec::new(),
            client_command: Vec::new(),
            outcome: Some(Outcome { figures, spent, whole_client_s: 1.0, held }),
            failure: None,
        }
    }

    #[test]
    fn time_is_that_of_who_has_librbd() {
        let (fio, gateway) = (run(1, Access::ALONE, 1000.0, 30.0), run(1, Access::gateway(1), 500.0, 45.0));
        let rounded = |figure: Option<f64>| figure.map(|figure| figure.round());
        assert_eq!((rounded(fio.cpu_us()), rounded(fio.client_us())), (Some(30.0), None));
        assert_eq!((rounded(gateway.cpu_us()), rounded(gateway.client_us())), (Some(45.0), Some(5.0)));
        assert_eq!(rounded(gateway.osds_us()), Some(20.0));
    }

    #[test]
    fn ratios_are_those_of_rounds() {
        let lost = Run { outcome: None, ..run(3, Access::gateway(1), 1.0, 1.0) };
        let runs = [
            run(2, Access::gateway(1), 900.0, 40.0),
            run(1, Access::ALONE, 1000.0, 40.0),
            run(1, Access::gateway(1), 800.0, 50.0),
            run(2, Access::ALONE, 1000.0, 40.0),
            run(3, Access::ALONE, 1000.0, 40.0),
            lost,
        ];
        let group = |access: Access| Group::of(&runs, |run| run.plan.access == access);
        let (alone, gateway) = (group(Access::ALONE), group(Access::gateway(1)));
        assert_eq!(gateway.ratios(&alone, Run::iops), [0.9, 0.8]);
        assert_eq!(gateway.spread(Run::iops), "850 (800 to 900)");
        assert_eq!(group(Access::gateway(2)).spread(Run::iops), "-");
    }
}
