//! Two sweeps side by side: the points they have in common, how many times as much the second does, and whether that is
//! more than chance. It measures nothing and decides nothing about where the sweeps come from.

use chart::units;
use chart::{Axis, Chart, Drawing, Mark, Point, Scale, Series, Style, Unit};
use serde::Serialize;

use super::advice::verb;
use super::plan::Plan;
use super::statistics::{self, Comparison};
use super::summary::{Quantity, Summary};
use crate::report::document::{
    Cell, Column, DataTable, Document, FactGroup, Finding, FindingKind, LeadingFigure,
};

/// Sweep on one side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name: the folder or file of the sweep.
    pub name: String,
    pub plan: Plan,
    pub points: Vec<Summary>,
    pub facts: Vec<FactGroup>,
}

impl Side {
    /// Returns the facts with the side's name in their titles.
    fn named_facts(&self) -> impl Iterator<Item = FactGroup> + '_ {
        self.facts.iter().map(|group| FactGroup {
            title: format!("{}: {}", self.name, group.title),
            facts: group.facts.clone(),
        })
    }
}

/// A point of both.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub label: String,
    /// The second over the first.
    pub iops: Option<Comparison>,
    pub mean: Option<Comparison>,
    pub p99: Option<Comparison>,
    pub cpu_per_io: Option<Comparison>,
    pub first: Figures,
    pub second: Figures,
}

/// Measured figures of one side.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    pub iops: f64,
    pub p99_ns: f64,
    pub runs: usize,
}

/// Ratio of all points together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    pub ratio: f64,
    /// 95 % confidence; nothing where a point was measured once.
    pub interval: Option<(f64, f64)>,
}

impl Overall {
    fn text(self) -> String {
        units::ratio(self.ratio, self.interval)
    }
}

/// Both sweeps.
#[derive(Debug)]
pub struct Compared {
    pub first: Side,
    pub second: Side,
    pub pairs: Vec<Pair>,
    /// Measured points that the other does not have.
    pub only_first: usize,
    pub only_second: usize,
    /// Options that are different between the two, and the same within each.
    pub differences: Vec<String>,
}

impl Compared {
    /// Finds the points that both have.
    ///
    /// # Errors
    /// When there are none: what tells the points of each apart.
    pub fn new(first: Side, second: Side) -> Result<Self, String> {
        let varies = |option: &str| first.plan.varies(option) || second.plan.varies(option);
        // Writes of a sweep without these options are volatile.
        let is_volatile =
            |option: &str, value: &str| matches!((option, value), ("sync", "none" | "0") | ("fsync", "0"));
        let tells = |(option, value): &&(String, String)| varies(option) && !is_volatile(option, value);
        let key = |summary: &Summary| -> Vec<(String, String)> {
            summary.point.values.iter().filter(tells).cloned().collect()
        };
        let measured = |side: &Side| side.points.iter().filter(|point| point.is_measured()).count();
        let mut pairs = Vec::new();
        for one in first.points.iter().filter(|point| point.is_measured()) {
            let same = |other: &&Summary| other.is_measured() && key(other) == key(one);
            if let Some(other) = second.points.iter().find(same) {
                pairs.push(Pair::new(one.point.label(varies), one, other));
            }
        }
        if pairs.is_empty() {
            let options = |side: &Side| {
                let axes = side.plan.axes.iter().filter(|axis| axis.varies());
                let axes: Vec<String> =
                    axes.map(|axis| format!("--{} {}", axis.option, axis.values.join(","))).collect();
                if axes.is_empty() { "a single point".to_owned() } else { axes.join(" ") }
            };
            return Err(format!(
                "they have no point in common: {} has {}, {} has {}",
                first.name,
                options(&first),
                second.name,
                options(&second)
            ));
        }
        let (only_first, only_second) =
            (measured(&first) - pairs.len(), measured(&second).saturating_sub(pairs.len()));
        let differences = differences(&first.plan, &second.plan);
        Ok(Self { first, second, pairs, only_first, only_second, differences })
    }

    /// All ratios of IOPS as one: their geometric mean, with its interval where each has one.
    pub fn overall(&self) -> Option<Overall> {
        let all = self.pairs.iter().filter_map(|pair| pair.iops).filter(|iops| iops.ratio > 0.0);
        let all: Vec<Comparison> = all.collect();
        if all.is_empty() {
            return None;
        }
        let count = all.len() as f64;
        let ratio = (all.iter().map(|iops| iops.ratio.ln()).sum::<f64>() / count).exp();
        // The intervals are factors, whose logarithms add up as independent errors do.
        let square = |iops: &Comparison| iops.interval.map(|(_, high)| (high / iops.ratio).ln().powi(2));
        let squares: Option<f64> = all.iter().map(square).sum();
        let factor = squares.map(|squares| (squares.sqrt() / count).exp());
        Some(Overall { ratio, interval: factor.map(|factor| (ratio / factor, ratio * factor)) })
    }

    /// The two as a report.
    pub fn document(&self) -> Document {
        let name = |side: &Side| side.name.clone();
        Document {
            title: format!("{} compared with {}", name(&self.second), name(&self.first)),
            subtitle: format!("{} in common", units::plural(self.pairs.len() as u64, "point")),
            answer: None,
            figures: self.leading_figures(),
            findings: self.findings(),
            charts: vec![
                self.chart("iops-ratio", "IOPS", "More is better.", |pair| pair.iops),
                self.chart("p99-ratio", "p99 latency", "Less is better.", |pair| pair.p99),
            ],
            tables: vec![self.table()],
            facts: self.first.named_facts().chain(self.second.named_facts()).collect(),
        }
    }

    fn leading_figures(&self) -> Vec<LeadingFigure> {
        let figure = |overall: Overall| LeadingFigure {
            name: "times the IOPS".to_owned(),
            unit: Unit::Ratio,
            value: overall.ratio,
            interval: overall.interval,
            note: format!("geometric mean over {}", units::plural(self.pairs.len() as u64, "point")),
        };
        self.overall().map(figure).into_iter().collect()
    }

    fn chart(&self, id: &str, what: &str, better: &str, of: fn(&Pair) -> Option<Comparison>) -> Chart {
        let point = |(number, pair): (usize, &Pair)| {
            let ratio = of(pair)?;
            let note = Some(pair.label.clone());
            Some(Point { x: number as f64 + 1.0, y: ratio.ratio, interval: ratio.interval, note })
        };
        let points: Vec<Point> = self.pairs.iter().enumerate().filter_map(point).collect();
        let scale = super::charts::scale(points.iter().map(|point| point.y));
        Chart {
            id: id.to_owned(),
            title: format!("{what}: {} over {}", self.second.name, self.first.name),
            caption: format!(
                "{better} Points in the order of the table; an interval that reaches 1 is not a difference."
            ),
            x: Axis { label: "point".to_owned(), unit: Unit::Count, scale: Scale::Linear },
            y: Axis { label: format!("ratio of {what}"), unit: Unit::Ratio, scale },
            drawing: Drawing::Lines(vec![Series { name: String::new(), style: Style::Dots, points }]),
            marks: vec![Mark { x: None, y: Some(1.0), until: None, label: "equal".to_owned() }],
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, title: String, text: String, chart: Option<&str>| {
            findings.push(Finding { kind, title, text, chart_id: chart.map(str::to_owned) });
        };
        let (first, second) = (&self.first.name, &self.second.name);
        if let Some(overall) = self.overall() {
            let title = format!("{}: {second} over {first}", self.verdict(overall));
            add(FindingKind::Observation, title, self.counted(overall), Some("iops-ratio"));
        }
        let far = |pair: &&Pair| pair.iops.map_or(0.0, |iops| iops.ratio.max(f64::MIN_POSITIVE).ln().abs());
        // Of those that may differ: the farthest of all may be the one that varies most.
        let may_differ = |pair: &&Pair| pair.iops.is_some_and(|iops| iops.differs != Some(false));
        if let Some(pair) = self.pairs.iter().filter(may_differ).max_by(|a, b| far(a).total_cmp(&far(b)))
            && let (Some(iops), true) = (pair.iops, self.pairs.len() > 1)
        {
            let title = "Where they differ most".to_owned();
            let text = format!(
                "At {}: {} times the IOPS ({} instead of {}), with a p99 of {} instead of {}.",
                pair.label,
                units::ratio(iops.ratio, iops.interval),
                units::count(pair.second.iops),
                units::count(pair.first.iops),
                units::time_ns(pair.second.p99_ns),
                units::time_ns(pair.first.p99_ns)
            );
            add(FindingKind::Observation, title, text, None);
        }
        if !self.differences.is_empty() {
            let text = format!("{}.", self.differences.join("; "));
            add(FindingKind::Caution, "They were asked for different things".to_owned(), text, None);
        }
        if self.only_first + self.only_second > 0 {
            let title = "Points of one only".to_owned();
            let text = format!(
                "{} of {first} and {} of {second} have no counterpart.",
                self.only_first, self.only_second
            );
            add(FindingKind::Caution, title, text, None);
        }
        findings
    }

    /// Number of points that are faster, slower, equal, and measured too rarely to know.
    fn counts(&self) -> [usize; 4] {
        let ratios = || self.pairs.iter().filter_map(|pair| pair.iops);
        let differ = || ratios().filter(|ratio| ratio.differs == Some(true));
        [
            differ().filter(|ratio| ratio.ratio > 1.0).count(),
            differ().filter(|ratio| ratio.ratio < 1.0).count(),
            ratios().filter(|ratio| ratio.differs == Some(false)).count(),
            ratios().filter(|ratio| ratio.differs.is_none()).count(),
        ]
    }

    /// Returns a summary of all points in a few words, within what is significant.
    fn verdict(&self, overall: Overall) -> String {
        match self.counts() {
            [0, 0, same, 0] if same > 0 => "No difference beyond chance".to_owned(),
            [more, less, ..] if more > 0 && less > 0 => {
                format!("More at some points, less at others, {} times the IOPS in all", overall.text())
            }
            _ => format!("{} times the IOPS", overall.text()),
        }
    }

    /// Returns the verdict with the numbers of points.
    fn counted(&self, overall: Overall) -> String {
        let ratios: Vec<Comparison> = self.pairs.iter().filter_map(|pair| pair.iops).collect();
        let [more, less, same, unknown] = self.counts();
        let mut text = format!(
            "{} times the IOPS is the geometric mean over {}. With 95 % confidence, {more} {} more, {less} {} less, and {same} {} \
             no difference (Welch's test)",
            overall.text(),
            units::plural(ratios.len() as u64, "point"),
            verb(more, "does", "do"),
            verb(less, "does", "do"),
            verb(same, "shows", "show")
        );
        if unknown > 0 {
            text.push_str(&format!(
                "; {unknown} {} measured once, without a confidence interval",
                verb(unknown, "was", "were")
            ));
        }
        if ratios.len() >= 20 {
            text.push_str(&format!(
                ". Of {} points that are the same, {:.0} would seem to differ at random",
                ratios.len(),
                ratios.len() as f64 * 0.05
            ));
        }
        text + "."
    }

    fn table(&self) -> DataTable {
        let column = |name: String, key: &str, unit: Option<Unit>| Column { name, key: key.to_owned(), unit };
        let (first, second) = (&self.first.name, &self.second.name);
        let columns = vec![
            column("point".to_owned(), "point", None),
            column("IOPS".to_owned(), "iops_ratio", Some(Unit::Ratio)),
            column("differs".to_owned(), "iops_differs", None),
            column("mean latency".to_owned(), "mean_ratio", Some(Unit::Ratio)),
            column("p99".to_owned(), "p99_ratio", Some(Unit::Ratio)),
            column("CPU per I/O".to_owned(), "cpu_ratio", Some(Unit::Ratio)),
            column(format!("IOPS, {first}"), "first_iops", Some(Unit::Iops)),
            column(format!("IOPS, {second}"), "second_iops", Some(Unit::Iops)),
            column(format!("p99, {first}"), "first_p99_ns", Some(Unit::Nanoseconds)),
            column(format!("p99, {second}"), "second_p99_ns", Some(Unit::Nanoseconds)),
        ];
        let ratio = |ratio: &Option<Comparison>| {
            ratio.map_or(Cell::Nothing, |ratio| Cell::Number { value: ratio.ratio, interval: ratio.interval })
        };
        let number = |value: f64| Cell::Number { value, interval: None };
        let row = |pair: &Pair| {
            vec![
                Cell::Text(pair.label.clone()),
                ratio(&pair.iops),
                Cell::Text(verdict(pair.iops).to_owned()),
                ratio(&pair.mean),
                ratio(&pair.p99),
                ratio(&pair.cpu_per_io),
                number(pair.first.iops),
                number(pair.second.iops),
                number(pair.first.p99_ns),
                number(pair.second.p99_ns),
            ]
        };
        DataTable {
            id: "compared".to_owned(),
            title: format!("{second} over {first}"),
            columns,
            rows: self.pairs.iter().map(row).collect(),
        }
    }
}

/// Returns the column text for a ratio: if it is significant, and in which direction.
pub fn verdict(ratio: Option<Comparison>) -> &'static str {
    match ratio {
        Some(Comparison { differs: Some(true), ratio, .. }) if ratio > 1.0 => "more",
        Some(Comparison { differs: Some(true), .. }) => "less",
        Some(Comparison { differs: Some(false), .. }) => "no",
        _ => "unknown",
    }
}

impl Pair {
    fn new(label: String, first: &Summary, second: &Summary) -> Self {
        let ratio =
            |of: fn(&Summary) -> Quantity| statistics::compare(&of(first).sample(), &of(second).sample());
        let figures = |summary: &Summary| Figures {
            iops: summary.iops.mean,
            p99_ns: summary.seen_latency().p99_ns.mean,
            runs: summary.runs,
        };
        Self {
            label: if label.is_empty() { "the only point".to_owned() } else { label },
            iops: ratio(|summary| summary.iops),
            mean: ratio(|summary| summary.seen_latency().mean_ns),
            p99: ratio(|summary| summary.seen_latency().p99_ns),
            cpu_per_io: ratio(|summary| summary.cpu_ns_per_io).filter(|ratio| ratio.ratio > 0.0),
            first: figures(first),
            second: figures(second),
        }
    }
}

/// Options of two plans that do not agree, apart from where the target is.
fn differences(first: &Plan, second: &Plan) -> Vec<String> {
    const PLACES: [&str; 6] = ["traddr", "trsvcid", "nqn", "nsid", "host-traddr", "host-iface"];
    let all = |plan: &Plan| -> Vec<(String, String)> {
        let axes = plan.axes.iter().map(|axis| (axis.option.clone(), axis.values.join(",")));
        axes.chain(plan.fixed.iter().map(|given| (given.option.clone(), given.values.join(",")))).collect()
    };
    let (first, second) = (all(first), all(second));
    let mut options: Vec<&String> = first.iter().chain(&second).map(|(option, _)| option).collect();
    options.sort();
    options.dedup();
    let value = |all: &[(String, String)], option: &str| {
        all.iter().find(|(name, _)| name == option).map_or("default".to_owned(), |(_, value)| value.clone())
    };
    let wanted = options.into_iter().filter(|option| !PLACES.contains(&option.as_str()));
    wanted
        .filter(|option| value(&first, option) != value(&second, option))
        .map(|option| format!("--{option} {} and {}", value(&first, option), value(&second, option)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::sample::{measurement, sweep};

    fn side(name: &str, arguments: &str, factor: f64) -> Side {
        let (plan, points) = sweep(arguments, |point| {
            let iops = 1000.0 * point.outstanding() as f64 * factor;
            [0.99, 1.0, 1.01].map(|noise| measurement(iops * noise, 1e9 / iops)).to_vec()
        });
        Side { name: name.into(), plan, points, facts: Vec::new() }
    }

    #[test]
    fn common_points_are_compared_ratio_first() {
        let first = side("old", "--rw randread --iodepth 1,2,4 -t tcp", 1.0);
        let second = side("new", "--rw randread --iodepth 2,4,8 -t mptcp", 1.5);
        let compared = Compared::new(first, second).unwrap();
        assert_eq!((compared.pairs.len(), compared.only_first, compared.only_second), (2, 1, 1));
        let overall = compared.overall().unwrap();
        let (low, high) = overall.interval.unwrap();
        assert!((overall.ratio - 1.5).abs() < 1e-9 && low > 1.45 && high < 1.55, "{overall:?}");
        for pair in &compared.pairs {
            let iops = pair.iops.unwrap();
            assert!((iops.ratio - 1.5).abs() < 1e-9 && iops.differs == Some(true), "{pair:?}");
            assert!((pair.p99.unwrap().ratio - 1.0 / 1.5).abs() < 1e-3);
        }
        assert!(
            compared.differences.iter().any(|text| text == "--transport tcp and mptcp"),
            "{:?}",
            compared.differences
        );
        let document = compared.document();
        assert_eq!(document.title, "new compared with old");
        assert!(
            document.findings[0].title.starts_with("1.50 ± 0.03 times the IOPS"),
            "{}",
            document.findings[0].title
        );
        assert_eq!(document.figures.len(), 1);
        assert!(document.findings[0].text.contains("2 do more, 0 do less"));
        assert!(document.tables[0].rows.iter().all(|row| row.len() == document.tables[0].columns.len()));
    }

    #[test]
    fn writes_of_sweeps_without_acknowledgements_are_volatile_ones() {
        let new = || side("new", "--rw randwrite --iodepth 1,2 --sync none,sync --fsync 0,64", 1.0);
        let old = side("old", "--rw randwrite --iodepth 1,2 --fsync 0,64", 1.0);
        let compared = Compared::new(old, new()).unwrap();
        assert_eq!((compared.pairs.len(), compared.only_first, compared.only_second), (4, 0, 2));
        let compared = Compared::new(side("old", "--rw randwrite --iodepth 1,2", 1.0), new()).unwrap();
        assert_eq!((compared.pairs.len(), compared.only_first, compared.only_second), (2, 0, 4));
    }

    #[test]
    fn equal_options_do_not_distinguish_points() {
        let compared =
            Compared::new(side("a", "--rw randread", 1.0), side("b", "--rw randread", 1.0)).unwrap();
        assert_eq!(compared.pairs[0].iops.unwrap().differs, Some(false));
        assert_eq!(verdict(compared.pairs[0].iops), "no");
        assert_eq!(compared.pairs[0].label, "the only point");
        let findings = compared.document().findings;
        assert_eq!(findings[0].title, "No difference beyond chance: b over a");
        let text = &findings[0].text;
        assert!(text.starts_with("1.00 ± 0.02 times the IOPS is the geometric mean over 1 point."), "{text}");
        assert!(text.contains("0 do more, 0 do less, and 1 shows no difference"), "{text}");
    }

    #[test]
    fn the_title_says_no_more_than_the_points_bear_out() {
        let noisy = |name: &str, factor: f64| {
            let (plan, points) = sweep("--rw randread --iodepth 1,2", |point| {
                let iops = 1000.0 * point.outstanding() as f64 * factor;
                [0.4, 1.0, 1.6].map(|noise| measurement(iops * noise, 1e9 / iops)).to_vec()
            });
            Side { name: name.into(), plan, points, facts: Vec::new() }
        };
        let compared = Compared::new(noisy("a", 1.0), noisy("b", 0.77)).unwrap();
        let findings = compared.document().findings;
        assert_eq!(findings[0].title, "No difference beyond chance: b over a");
        assert!(findings.iter().all(|finding| finding.title != "Where they differ most"));
        for iops in compared.pairs.iter().filter_map(|pair| pair.iops) {
            let (low, high) = iops.interval.unwrap();
            assert!(low > 0.0 && low < iops.ratio && iops.ratio < high, "{iops:?}");
        }
    }

    #[test]
    fn nothing_in_common_is_said_with_what_there_is() {
        let error = Compared::new(
            side("a", "--rw randread --iodepth 1,2", 1.0),
            side("b", "--rw randread --iodepth 4,8", 1.0),
        );
        let error = error.unwrap_err();
        assert!(error.contains("--iodepth 1,2") && error.contains("--iodepth 4,8"), "{error}");
    }
}
