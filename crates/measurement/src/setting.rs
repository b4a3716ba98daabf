//! Common data of all runs of one command: target, I/O interface, and stop flag; and workloads put onto its namespaces.

use std::sync::{Arc, Once};
use std::time::SystemTime;

use command_line::eprintln;
use command_line::stop::Stop;
use engine::initiator::{Controller, NamespaceInfo, Paths};
use engine::ring::RingOptions;
use host_connection::config::connection::Connection;
use host_connection::discovery;
use nvme::discovery::Nqn;
use uuid::Uuid;

use crate::bench::matching::{Matching, Placements};
use crate::bench::paths::{self, PathsAsked};
use crate::bench::run::{Outcome, Run};
use crate::bench::state::Record;
use crate::consent;
use crate::failure::Failure;
use crate::flags::bench::{BenchFlags, IoQueues, Switch};
use crate::report;
use crate::report::bench::{BenchReport, Options};
use crate::report::fio::{FioReport, Measured};
use crate::spec::size::Size;
use crate::workload::{Fitted, Geometry, Queues, Range, Workload};

/// A command connects for each of its runs, and says once for how long writes may wait.
static QUIESCE_NOTICE: Once = Once::new();

/// Setting of the runs.
pub struct Setting<'a> {
    flags: &'a BenchFlags,
    connection: Connection,
    nqn: Nqn,
    pub ring: RingOptions,
    pub stop: &'a Stop,
    /// Queues of the NICs on the way, if queues are to be matched.
    matching: Option<Matching>,
}

impl<'a> Setting<'a> {
    /// Checks the flags, finds the subsystem where none is named, and looks at the machine where queues are to be matched to it.
    pub fn new(flags: &'a BenchFlags, stop: &'a Stop) -> Result<Self, Failure> {
        let ring = RingOptions {
            engine: flags.engine.into(),
            poll_us_max: flags.poll_us.unwrap_or(RingOptions::default().poll_us_max),
        };
        let connection = Connection::new(&flags.connection)?;
        let nqn = discovery::subsystem(&connection, flags.nqn.as_ref())?;
        let wanted = flags.match_hw_queues == Some(Switch::On) || flags.nr_io_queues == Some(IoQueues::Auto);
        let matching = wanted.then(|| Matching::look(&connection.paths(&nqn)));
        Ok(Self { flags, connection, nqn, ring, stop, matching })
    }

    /// The subsystem's name.
    pub const fn nqn(&self) -> &Nqn {
        &self.nqn
    }

    /// True if queues are limited to those of the NICs, and placed.
    pub fn is_matched(&self) -> bool {
        self.flags.match_hw_queues == Some(Switch::On)
    }

    /// The queues of each path that the NICs are good for, where that is known.
    pub fn limit(&self) -> Option<u16> {
        self.matching.as_ref().map(|matching| matching.queues(None))
    }

    /// The rule's number for each path with its reasons, where it is known.
    pub fn rules(&self) -> Vec<String> {
        self.matching.as_ref().map(Matching::rules).unwrap_or_default()
    }

    /// The queues that a workload asks for; `found` of them, where a number was found by trying.
    pub fn queues(&self, workload: &Workload, found: Option<u16>) -> Queues {
        let asked = match self.flags.nr_io_queues {
            Some(IoQueues::Count(count)) => Some(count),
            Some(IoQueues::Auto) | None => found,
        };
        let matching = self.matching.as_ref().filter(|_| self.is_matched());
        let count = matching.map_or(asked, |matching| Some(matching.queues(asked)));
        workload.queues(count, self.flags.queue_size)
    }

    /// Places the queues, if they are to be matched; each call chooses other ports, since those of
    /// connections that have just ended are still in use.
    pub fn place(&self, queues: Queues) -> Option<Placements> {
        let matching = self.matching.as_ref().filter(|_| self.is_matched())?;
        Some(matching.place(queues.count, Uuid::new_v4().as_u64_pair().1))
    }

    /// Connects all paths to the namespace.
    pub fn connect(&self, queues: Queues, placements: Option<&Placements>) -> Result<Arc<Paths>, Failure> {
        self.connect_to(self.flags.first_nsid(), queues, placements)
    }

    /// Connects all paths to one of several namespaces.
    pub fn connect_to(
        &self,
        nsid: u32,
        queues: Queues,
        placements: Option<&Placements>,
    ) -> Result<Arc<Paths>, Failure> {
        let place = (&self.connection, &self.nqn);
        let options =
            paths::options(&PathsAsked::of(self.flags, nsid), place, queues, self.ring.engine, placements)?;
        let paths = Paths::connect(options).map(Arc::new).map_err(Failure::failed)?;
        QUIESCE_NOTICE.call_once(|| {
            if let Some(notice) = paths::quiesce_notice(&self.flags.paths, &paths) {
                eprintln!("{notice}");
            }
        });
        Ok(paths)
    }

    /// A run on these paths of which nothing is recorded.
    pub fn run<'r>(
        &self,
        paths: &'r Arc<Paths>,
        fitted: &'r Fitted,
        placements: Option<&'r Placements>,
    ) -> Run<'r> {
        Run {
            paths,
            nsid: self.flags.first_nsid(),
            fitted,
            ring: self.ring,
            writer: Uuid::new_v4().as_u64_pair().0,
            recorder: None,
            record: None,
            placements,
            stop: self.stop.flag(),
            target_cpu: None,
        }
    }

    /// Asks for consent to overwrite data, if these ranges have any.
    ///
    /// # Errors
    /// It may not.
    pub fn ask_to_write(&self, who: &str, nsid: u32, ranges: &[Range]) -> Result<(), Failure> {
        if self.flags.destroy_data || ranges.is_empty() {
            return Ok(());
        }
        let namespace = self.connection.volume(&self.nqn, nsid)?;
        consent::ask(who, (&self.nqn, &namespace), ranges)
    }

    /// The report of a run.
    pub fn report(
        &self,
        nsid: u32,
        fitted: &Fitted,
        queues: Queues,
        outcome: &Outcome,
        placements: Option<&Placements>,
    ) -> BenchReport {
        let nqn = self.nqn.to_string();
        let mut options = Options::new(fitted, self.connection.addresses(), nqn, nsid);
        options.iopolicy = (outcome.paths.len() > 1).then(|| self.flags.paths.iopolicy.name());
        options.hdr_digest = self.connection.digests.header;
        options.data_digest = self.connection.digests.data;
        let mut report = BenchReport::new(options, queues, outcome);
        report.match_hw_queues = placements.map(|placed| placed.report(&outcome.paths, outcome.workers));
        report
    }

    /// Prints these runs in fio's form.
    pub fn print_as_fio<'b>(&self, jobs: impl IntoIterator<Item = Measured<'b>>) -> Result<(), Failure> {
        let nsids: Vec<String> = self.flags.nsid.iter().map(ToString::to_string).collect();
        let (nqn, addresses) = (&self.nqn, self.connection.addresses());
        let place = format!("{nqn} namespace {} at {addresses}", nsids.join(", "));
        report::print_json(&FioReport::new(&place, jobs, SystemTime::now()))
    }
}

/// Puts the workload onto the namespace, and refuses what cannot work before anything is written.
pub fn fit(
    workload: Workload,
    controllers: &[Controller],
    namespace: &NamespaceInfo,
    record: Option<&Record>,
) -> Result<Fitted, Failure> {
    let most = controllers.iter().map(Controller::transfer_length_max).min().unwrap_or(0);
    if workload.block_bytes as usize > most {
        let most = Size(most as u64);
        return Err(Failure::usage(format!(
            "--bs is over the {most} that this controller transfers at once"
        )));
    }
    if namespace.metadata_bytes > 0 {
        return Err(Failure::failed(format!(
            "namespace {} has metadata in its blocks, which bench cannot use",
            namespace.nsid
        )));
    }
    if workload.writes() && namespace.is_write_protected {
        return Err(Failure::failed(format!("namespace {} is write protected", namespace.nsid)));
    }
    if let Some(Record { header, .. }) = record
        && header.unit_bytes != namespace.block_size
    {
        return Err(Failure::failed(format!(
            "the namespace's blocks are {} bytes long, and were {} when the state was recorded",
            namespace.block_size, header.unit_bytes
        )));
    }
    workload.fit(Geometry { unit_bytes: namespace.block_size, bytes: namespace.size_bytes() })
}
