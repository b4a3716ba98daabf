//! What all runs of one command have in common: where the target is, what carries the I/O, and who stops them.

use std::sync::Arc;
use std::time::SystemTime;

use engine::initiator::Paths;
use engine::ring::RingOptions;

use super::paths;
use crate::bench::run::Outcome;
use crate::config::connection::Connection;
use crate::config::workload::{Fitted, Queues, Workload};
use crate::failure::Failure;
use crate::flags::bench::BenchFlags;
use crate::report;
use crate::report::bench::{BenchReport, Options};
use crate::report::fio::{FioReport, Measured};
use crate::stop::Stop;

pub(in crate::commands) struct Setting<'a> {
    flags: &'a BenchFlags,
    connection: Connection,
    pub(in crate::commands) ring: RingOptions,
    pub(in crate::commands) stop: &'a Stop,
}

impl<'a> Setting<'a> {
    /// Checks the flags.
    pub(in crate::commands) fn new(flags: &'a BenchFlags, stop: &'a Stop) -> Result<Self, Failure> {
        let ring = RingOptions {
            engine: flags.engine.into(),
            poll_us_max: flags.poll_us.unwrap_or(RingOptions::default().poll_us_max),
        };
        let connection = Connection::new(&flags.connection)?;
        Ok(Self { flags, connection, ring, stop })
    }

    /// The queues that a workload asks for.
    pub(in crate::commands) fn queues(&self, workload: &Workload) -> Queues {
        workload.queues(self.flags.nr_io_queues, self.flags.queue_size)
    }

    /// Connects all paths to the namespace.
    pub(in crate::commands) fn connect(&self, queues: Queues) -> Result<Arc<Paths>, Failure> {
        let options = paths::options(self.flags, &self.connection, queues, self.ring.engine)?;
        Paths::connect(options).map(Arc::new).map_err(Failure::failed)
    }

    /// The report of a run.
    pub(in crate::commands) fn report(
        &self,
        fitted: &Fitted,
        queues: Queues,
        outcome: &Outcome,
    ) -> BenchReport {
        let nqn = self.flags.nqn.to_string();
        let mut options = Options::new(fitted, self.connection.addresses(), nqn, self.flags.nsid);
        options.iopolicy = (outcome.paths.len() > 1).then(|| self.flags.paths.iopolicy.name());
        options.hdr_digest = self.connection.digests.header;
        options.data_digest = self.connection.digests.data;
        BenchReport::new(options, queues, outcome)
    }

    /// Prints these runs in fio's form.
    pub(in crate::commands) fn print_as_fio<'b>(
        &self,
        jobs: impl IntoIterator<Item = Measured<'b>>,
    ) -> Result<(), Failure> {
        let (nqn, nsid, addresses) = (&self.flags.nqn, self.flags.nsid, self.connection.addresses());
        let place = format!("{nqn} namespace {nsid} at {addresses}");
        report::print_json(&FioReport::new(&place, jobs, SystemTime::now()))
    }
}
