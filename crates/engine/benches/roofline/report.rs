//! The figures of a roofline run: medians beside each other, the ratio to the best bare server, and the raw samples
//! kept in a file. It measures nothing.

use std::path::PathBuf;

use chart::{Bar, Bars, Group, Unit};
use serde_json::json;

use crate::client::Direction;

/// Result of a measurement.
pub(crate) struct Sample {
    pub(crate) server: &'static str,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) round: usize,
    pub(crate) per_second: f64,
}

/// A figure made of a server's samples in one case.
type Figure = fn(&Report, &str, (usize, usize)) -> f64;

pub(crate) struct Report {
    direction: Direction,
    is_tls: bool,
    samples: Vec<Sample>,
    output: Option<PathBuf>,
    seconds: f64,
}

impl Report {
    pub(crate) fn new(
        (direction, is_tls): (Direction, bool),
        output: &Option<PathBuf>,
        seconds: f64,
    ) -> Self {
        Self { direction, is_tls, samples: Vec::new(), output: output.clone(), seconds }
    }

    pub(crate) fn add(&mut self, sample: Sample) {
        eprintln!(
            "{} x {:>3}  round {}  {:<16} {:>9.0}/s",
            sample.connections, sample.depth, sample.round, sample.server, sample.per_second
        );
        self.samples.push(sample);
    }

    /// Prints the table and writes the raw samples.
    pub(crate) fn finish(&self) {
        let mut cases: Vec<(usize, usize)> = Vec::new();
        let mut servers: Vec<&str> = Vec::new();
        for sample in &self.samples {
            let case = (sample.connections, sample.depth);
            if !cases.contains(&case) {
                cases.push(case);
            }
            if !servers.contains(&sample.server) {
                servers.push(sample.server);
            }
        }
        println!(
            "4 KiB random {}s of 256 MiB{}, thousands per second, median of rounds of {} s",
            self.word(),
            if self.is_tls { " by TLS" } else { "" },
            self.seconds
        );
        print!("{:<18}", "connections x QD");
        servers.iter().for_each(|server| print!("{server:>18}"));
        println!("{:>14}{:>14}", "memory/bare", "of the best");
        for case in &cases {
            print!("{:<18}", format!("{} x {}", case.0, case.1));
            for server in &servers {
                print!("{:>18.1}", self.median(server, *case) / 1000.0);
            }
            let [median, best] = [Self::median, Self::best].map(|of| self.ratio(&servers, *case, of));
            println!("{median:>14.2}{best:>14.2}");
        }
        self.keep(&cases, &servers);
    }

    /// The target with memory over the best bare server, by the figure `of` each.
    fn ratio(&self, servers: &[&str], case: (usize, usize), of: Figure) -> f64 {
        let bare = servers.iter().filter(|server| server.starts_with("bare"));
        let best = bare.map(|server| of(self, server, case)).fold(0.0, f64::max);
        of(self, "target, memory", case) / best
    }

    /// The best round: what a machine with neighbours disturbs least.
    fn best(&self, server: &str, case: (usize, usize)) -> f64 {
        let of_case =
            |sample: &&Sample| sample.server == server && (sample.connections, sample.depth) == case;
        self.samples.iter().filter(of_case).map(|sample| sample.per_second).fold(0.0, f64::max)
    }

    fn median(&self, server: &str, case: (usize, usize)) -> f64 {
        let mut figures: Vec<f64> = self
            .samples
            .iter()
            .filter(|sample| sample.server == server && (sample.connections, sample.depth) == case)
            .map(|sample| sample.per_second)
            .collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(0.0)
    }

    fn keep(&self, cases: &[(usize, usize)], servers: &[&str]) {
        let Some(output) = &self.output else { return };
        let samples: Vec<_> = self
            .samples
            .iter()
            .map(|sample| {
                json!({
                    "server": sample.server, "connections": sample.connections, "depth": sample.depth,
                    "round": sample.round, "per_second": sample.per_second.round(),
                })
            })
            .collect();
        let ratios: Vec<_> = cases
            .iter()
            .map(|case| {
                json!({
                    "connections": case.0, "depth": case.1,
                    "memory_to_bare": self.ratio(servers, *case, Self::median),
                    "memory_to_bare_best_rounds": self.ratio(servers, *case, Self::best),
                })
            })
            .collect();
        let document = json!({
            "benchmark": "roofline", "rw": self.direction.word(), "tls": self.is_tls, "machine": machine(), "seconds": self.seconds,
            "ratios": ratios, "samples": samples,
        });
        let name = match (self.direction, self.is_tls) {
            (Direction::Read, false) => "roofline",
            (Direction::Write, false) => "roofline-writes",
            (Direction::Read, true) => "roofline-tls",
            (Direction::Write, true) => "roofline-tls-writes",
        };
        let path = output.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&document).expect("the document is plain");
        let written = std::fs::create_dir_all(output)
            .and_then(|()| std::fs::write(&path, text + "\n"))
            .and_then(|()| std::fs::write(output.join(format!("{name}.svg")), self.picture(cases, servers)));
        match written {
            Ok(()) => println!("raw runs are in {}", path.display()),
            Err(error) => eprintln!("cannot write {}: {error}", path.display()),
        }
    }
}

impl Report {
    const fn word(&self) -> &'static str {
        match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }

    fn picture(&self, cases: &[(usize, usize)], servers: &[&str]) -> String {
        let bar = |case, (kind, server): (usize, &&str)| Bar {
            name: (*server).to_owned(),
            kind,
            values: vec![Some(self.median(server, case))],
        };
        let group = |case: &(usize, usize)| Group {
            name: format!("{} x QD {}", case.0, case.1),
            bars: servers.iter().enumerate().map(|server| bar(*case, server)).collect(),
        };
        chart::svg::draw_bars(&Bars {
            id: "roofline".to_owned(),
            title: format!("4 KiB random {}s, one core each for server and client", self.word()),
            unit: Unit::Iops,
            panels: vec![format!("{}s per second", self.word())],
            kinds: servers.iter().map(|server| (*server).to_owned()).collect(),
            groups: cases.iter().map(group).collect(),
        })
    }
}

/// Description of the machine: its processor, how many, and its kernel.
fn machine() -> serde_json::Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    json!({
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cpus": engine::ring::core::available().len(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
