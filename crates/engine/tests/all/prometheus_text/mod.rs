//! Checks of a whole text for Prometheus: it fails on everything that a scraper could take in two ways.
//! Which metrics there should be is not its concern.

use std::collections::{BTreeMap, BTreeSet};

use engine::target::Measured;

pub(crate) type Labels = BTreeMap<String, String>;

/// Line with a number.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

/// A whole text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposition {
    /// The kind of each metric.
    pub(crate) kinds: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

impl Exposition {
    /// Reads a text and checks all of it.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends like all others");
        let mut exposition = Self::default();
        let mut helped = None;
        let mut current = None;
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("HELP has a text");
                assert!(!help.trim().is_empty() && !help.contains('\\'), "{line}");
                assert!(!exposition.kinds.contains_key(name), "{name} stands in one place only");
                helped = Some(name.to_owned());
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("TYPE has a kind");
                assert_eq!(helped.take().as_deref(), Some(name), "TYPE follows HELP");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
                exposition.kinds.insert(name.to_owned(), kind.to_owned());
                current = Some((name.to_owned(), kind == "histogram"));
            } else {
                assert!(helped.is_none(), "TYPE follows HELP before {line}");
                let sample = parse_sample(line);
                let (family, is_histogram) = current.as_ref().expect("HELP and TYPE come before samples");
                let suffix = sample.name.strip_prefix(family.as_str());
                let suffix = suffix.unwrap_or_else(|| panic!("{line} stands under {family}"));
                let allowed: &[&str] = if *is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(allowed.contains(&suffix), "{line} stands under {family}");
                exposition.samples.push(sample);
            }
        }
        exposition.check_series();
        exposition.check_histograms();
        exposition
    }

    fn check_series(&self) {
        let mut known = BTreeSet::new();
        for sample in &self.samples {
            let series = (&sample.name, &sample.labels);
            assert!(known.insert(series), "{series:?} stands there twice");
            assert!(sample.value.is_finite() && sample.value >= 0.0, "{sample:?}");
        }
    }

    fn check_histograms(&self) {
        for (name, _) in self.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
            let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for sample in self.samples.iter().filter(|sample| sample.name == format!("{name}_bucket")) {
                let mut labels = sample.labels.clone();
                let end = labels.remove("le").expect("a bucket has an end");
                let end = if end == "+Inf" { f64::INFINITY } else { end.parse().unwrap() };
                series.entry(labels).or_default().push((end, sample.value));
            }
            for (labels, buckets) in &series {
                let rising = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                assert!(rising, "{name} {labels:?}: buckets are cumulative, in the order of their ends");
                let (end, all) = *buckets.last().unwrap();
                assert_eq!(end, f64::INFINITY, "{name} {labels:?}");
                assert_eq!(self.value(&format!("{name}_count"), labels), Some(all), "{name} {labels:?}");
                assert!(self.value(&format!("{name}_sum"), labels).is_some(), "{name} {labels:?}");
            }
            let counts = self.samples.iter().filter(|sample| sample.name == format!("{name}_count"));
            assert_eq!(counts.count(), series.len(), "{name}: every count has its buckets");
        }
    }

    /// The value of the series with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &Labels) -> Option<f64> {
        let found = self.samples.iter().find(|sample| sample.name == name && sample.labels == *labels);
        found.map(|sample| sample.value)
    }

    /// The samples under this name that have these labels, and perhaps more.
    pub(crate) fn with<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample, (label, value): &(&str, &str)| {
            sample.labels.get(*label).map(String::as_str) == Some(*value)
        };
        self.samples
            .iter()
            .filter(move |sample| sample.name == name && labels.iter().all(|label| has(sample, label)))
    }

    /// The sum of them.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.with(name, labels).map(|sample| sample.value).sum()
    }

    /// Every series that only rises: counters, and all of a histogram.
    pub(crate) fn rising(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|suffix| {
                let family = sample.name.strip_suffix(suffix);
                family.and_then(|family| self.kinds.get(family)).is_some_and(|kind| kind == "histogram")
            });
            of_histogram || self.kinds.get(&sample.name).is_some_and(|kind| kind == "counter")
        })
    }
}

fn parse_sample(line: &str) -> Sample {
    let read = Measured::parse(line).unwrap_or_else(|wrong| panic!("{line:?}: {wrong}"));
    let is_plain =
        |name: &str| name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    assert!(is_plain(read.name) && read.labels.keys().all(|label| is_plain(label)), "{line:?}");
    // Behind one space, without an exponent, a sign or a timestamp.
    let (before, value) = line.rsplit_once(' ').expect("a sample has a value");
    assert!(before.ends_with('}') || before == read.name, "{line:?} has one value");
    assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{line:?} has a plain number");
    let labels = read.labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect();
    Sample { name: read.name.to_owned(), labels, value: read.value }
}
