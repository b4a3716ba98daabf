//! `lab ceph bench`: what the gateway costs beside librbd alone, what its knobs do, and latency by load. It keeps what was seen
//! and shows medians; it keeps out what is measured for which of these.

mod access;
mod cost;
mod curve;
mod figures;
mod knobs;
mod report;
mod run;
mod stand;
mod watch;
mod workload;

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

use super::config::Shape;
use crate::journal::Journal;
use crate::shuffle::Shuffle;
use run::Run;
use stand::Stand;

/// An image in memory, eight of which fit into an OSD.
const MEMORY_MIB: u64 = 128;
/// Image on three disks, larger than an OSD's cache of it.
const DISK_MIB: u64 = 512;

/// Part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    Cost,
    Knobs,
    Curve,
}

/// Arguments of the measurement.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    pub(super) program: String,
    /// Folder of runs.jsonl, README.md and curve.svg
    #[arg(long, value_name = "DIR", default_value = "ceph")]
    pub(super) output: PathBuf,
    /// Of which the medians count
    #[arg(long, value_name = "N", default_value = "5", value_parser = value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Of each run, after one second of ramp
    #[arg(long, value_name = "S", default_value = "5", value_parser = value_parser!(u32).range(1..=600))]
    pub(super) seconds: u32,
    /// Only this part
    #[arg(long)]
    pub(super) only: Option<Measurement>,
    /// Seed of the order of runs [default: random, and kept]
    #[arg(long, value_name = "N", default_value_t = crate::command_line::chance(), hide_default_value = true)]
    pub(super) seed: u64,
}

/// Store of runs, on disk as soon as they are known.
struct Keep {
    journal: Journal,
    runs: Vec<Run>,
}

impl Keep {
    fn run(&mut self, run: Run) -> Result<(), String> {
        self.journal.keep(&run)?;
        self.runs.push(run);
        Ok(())
    }

    fn runs(&self) -> &[Run] {
        &self.runs
    }
}

impl Bench {
    /// Measures all parts, or one. How many runs failed, which do not stop the others.
    ///
    /// # Errors
    /// No cluster comes up, or what was seen cannot be kept.
    pub(super) fn run(&self) -> Result<usize, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.output.display());
        std::fs::create_dir_all(&self.output).map_err(failed)?;
        // Ceph's daemons take no relative paths.
        let bench = Bench { output: self.output.canonicalize().map_err(failed)?, ..self.clone() };
        let environment = report::environment(&bench);
        println!("{}", serde_json::to_string_pretty(&environment).unwrap_or_default());
        let mut keep = Keep { journal: Journal::new(&bench.output, &environment)?, runs: Vec::new() };
        let mut shuffle = Shuffle::new(bench.seed);
        bench.in_memory(&mut shuffle, &mut keep)?;
        if bench.has(Measurement::Curve) {
            let stand = Stand::new(&bench, Shape::REPLICATED, 1, DISK_MIB)?;
            curve::measure(&stand, bench.rounds, &mut shuffle, &mut keep)?;
        }
        let picture = curve::picture(keep.runs());
        let text = report::text(&environment, keep.runs(), picture.is_some());
        println!("\n{text}");
        keep.journal.beside("README.md", &text)?;
        if let Some(picture) = picture {
            keep.journal.beside("curve.svg", &picture)?;
        }
        Ok(keep.runs().iter().filter(|run| run.failure.is_some()).count())
    }

    fn in_memory(&self, shuffle: &mut Shuffle, keep: &mut Keep) -> Result<(), String> {
        if !self.has(Measurement::Cost) && !self.has(Measurement::Knobs) {
            return Ok(());
        }
        let stand = Stand::new(self, Shape::SMALL, knobs::IMAGES_MAX, MEMORY_MIB)?;
        if self.has(Measurement::Cost) {
            cost::measure(&stand, self.rounds, shuffle, keep)?;
        }
        if self.has(Measurement::Knobs) {
            knobs::measure(&stand, self.rounds, shuffle, keep)?;
        }
        Ok(())
    }

    fn has(&self, part: Measurement) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}
