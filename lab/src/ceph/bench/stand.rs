//! What runs stand on: a cluster with images that are written from end to end, and how one run is made there. It keeps out
//! which runs are made and what they say.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::config::Shape;
use super::super::target::Target;
use super::super::testbed::Testbed;
use super::Bench;
use super::access::{self, Access, Librbd, RAMP_S};
use super::figures::Figures;
use super::run::{Held, Outcome, Plan, Run};
use super::watch::Watched;
use crate::answer::Answer;
use crate::program::Program;

/// Time for a client besides its runtime: it connects for each image.
const GRACE_S: u64 = 60;
/// Writing all images, on a slow disk.
const FILL_LIMIT: Duration = Duration::from_secs(600);

/// A cluster with images.
pub(super) struct Stand<'a> {
    bench: &'a Bench,
    testbed: Testbed,
    osds: Vec<u32>,
    /// The cluster's configurations as fio gets them, who takes all from the file.
    configurations: PathBuf,
}

impl Stand<'_> {
    /// Starts a cluster and writes `images` images of `mib` MiB.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn new(bench: &Bench, shape: Shape, images: u32, mib: u64) -> Result<Stand<'_>, String> {
        let testbed = Testbed::new(&bench.program, &bench.output, shape, bench.seed)?;
        let failed = |error: std::io::Error| format!("the cluster's configuration: {error}");
        let conf = std::fs::read_to_string(testbed.cluster.conf()).map_err(failed)?;
        let configurations = testbed.cluster.folder().to_owned();
        for (name, options) in Librbd::ALL.map(Librbd::file) {
            // Its last section is that of clients.
            std::fs::write(configurations.join(name), format!("{conf}{options}")).map_err(failed)?;
        }
        for number in 0..images {
            testbed.image(&access::image(number), mib)?;
        }
        let osds = testbed.cluster.osd_ids();
        let stand = Stand { bench, testbed, osds, configurations };
        let words = access::fill(&stand.configuration(Librbd::Uncached), images);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Answer::within(&words, FILL_LIMIT)?.well().map_err(|reason| format!("writing images: {reason}"))?;
        Ok(stand)
    }

    /// Makes one run and says how it went.
    pub(super) fn run(&self, plan: Plan) -> Run {
        let Plan { part, round, access, workload, images, step_percent } = plan;
        let mut run = Run {
            plan,
            gateway_command: Vec::new(),
            client_command: Vec::new(),
            outcome: None,
            failure: None,
        };
        let outcome = match access {
            Access::Fio { librbd } => self.alone(&mut run, librbd),
            Access::Gateway { reactors, bdevs_per_cluster } => {
                self.through(&mut run, reactors, bdevs_per_cluster)
            }
        };
        match outcome {
            Ok(outcome) => run.outcome = Some(outcome),
            Err(reason) => run.failure = Some(self.kept(&reason)),
        }
        let of = step_percent.map_or_else(String::new, |percent| format!(" at {percent} %"));
        let plural = if images == 1 { "" } else { "s" };
        let name =
            format!("{part} {round}, {}{of}, {images} image{}, {}", workload.name, plural, access.name());
        match (&run.failure, run.iops(), run.cpu_us()) {
            (None, Some(iops), Some(cpu_us)) => println!(
                "{name}: {iops:.0} IOPS, {cpu_us:.1} µs of CPU each (other work {:.0} %)",
                run.others_percent().unwrap_or_default()
            ),
            (reason, ..) => println!("FAILED: {name}: {}", reason.as_deref().unwrap_or("no figure")),
        }
        run
    }

    fn configuration(&self, librbd: Librbd) -> String {
        self.configurations.join(librbd.file().0).display().to_string()
    }

    fn alone(&self, run: &mut Run, librbd: Librbd) -> Result<Outcome, String> {
        let words =
            access::fio(&self.configuration(librbd), &run.plan.workload, run.plan.images, self.bench.seconds);
        run.client_command = words.iter().map(|word| self.kept(word)).collect();
        self.watch(&[words], None, Figures::of_fio)
    }

    fn through(
        &self,
        run: &mut Run,
        reactors: u32,
        bdevs_per_cluster: Option<u32>,
    ) -> Result<Outcome, String> {
        let specs: Vec<String> =
            (0..run.plan.images).map(|number| self.testbed.spec(&access::image(number))).collect();
        let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
        let mut flags = vec!["--reactors".to_owned(), reactors.to_string()];
        if let Some(count) = bdevs_per_cluster {
            flags.extend(["--bdevs-per-cluster".to_owned(), count.to_string()]);
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let target = self.testbed.serve_with(&specs, &flags)?;
        run.gateway_command = target.command.iter().map(|word| self.kept(word)).collect();
        // Where there are several images, each has one connection, and reactors share the connections.
        let each = if run.plan.images == 1 { reactors } else { 1 };
        let words = access::bench(&run.plan.workload, each, self.bench.seconds);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let all: Vec<Vec<String>> =
            (1..=run.plan.images).map(|nsid| target.bench_words(nsid, &words)).collect();
        run.client_command = all[0].iter().map(|word| self.kept(word)).collect();
        let outcome = self.watch(&all, Some(&target), Figures::of_bench)?;
        target.end()?;
        Ok(outcome)
    }

    /// Runs clients at the same time, each by its words.
    fn watch(
        &self,
        all: &[Vec<String>],
        target: Option<&Target>,
        read: fn(&str) -> Option<Figures>,
    ) -> Result<Outcome, String> {
        let seconds = self.bench.seconds;
        let mut clients = all.iter().map(|words| Program::start(words)).collect::<Result<Vec<_>, _>>()?;
        let deadline = Instant::now() + Duration::from_secs(u64::from(RAMP_S + seconds) + GRACE_S);
        let watched = Watched { gateway: target.map(Target::id), osds: &self.osds };
        let seen = watched.until_done(&mut clients, deadline)?;
        let held = match target {
            None => None,
            Some(target) => {
                Some(Held { resident_kib: target.resident_kib()?, threads: target.of_status("Threads")? })
            }
        };
        let figures = clients.iter().map(|client| {
            let output = client.rest();
            read(&output).ok_or_else(|| format!("a client says nothing that is understood: {output}"))
        });
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        Ok(Outcome {
            figures: Figures::together(&figures).ok_or("no client was started")?,
            spent: seen.spent(seconds)?,
            whole_client_s: seen.whole_client_s,
            held,
        })
    }

    /// A text as it is kept: where programs and the cluster are is this machine's own matter.
    fn kept(&self, text: &str) -> String {
        let folder = self.testbed.cluster.folder().display().to_string();
        text.replace(&folder, "CLUSTER").replace(&self.bench.program, "selvedge")
    }
}
