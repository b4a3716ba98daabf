//! Measurement of a point: a run of `bench` on a connection of its own, or several in a row until
//! they are steady. The sweep owns the order.

use std::cell::Cell;
use std::time::{Duration, Instant};

use engine::target::Measured;
use measurement::setting::{Setting, fit};

use super::testbed::Testbed;
use crate::bench::process::process_time;
use crate::bench::run::{Outcome, Run};
use crate::config::workload::{Fitted, Workload};
use crate::control::client::Client;
use crate::failure::Failure;
use crate::flags::sweep::OwnFlags;
use crate::stop::Stop;
use crate::sweep::environment::MachineTime;
use crate::sweep::measurement::{Around, Measurement};
use crate::sweep::plan::Plan;
use crate::sweep::point::Point;
use crate::sweep::steady;

/// Why there is no measurement.
#[derive(Debug)]
pub(super) enum Missed {
    /// The sweep was interrupted.
    Interrupted,
    /// The target is not there, or went away.
    Lost(String),
    /// The target is there, and this did not work.
    Failed(String),
}

/// Makes measurements.
pub(super) struct Meter<'a> {
    plan: &'a Plan,
    stop: &'a Stop,
    clock: Option<TargetClock>,
    /// True if the target is on this machine, whose other programs it is not among.
    is_local: bool,
    /// Process of the target on this machine, if it is known.
    target_process: Option<u32>,
}

/// Source of the target's processor time.
enum TargetClock {
    /// The target's metrics.
    Control(Box<Client>),
    /// The kernel reports on its process.
    Process(u32),
}

impl TargetClock {
    fn time(&self) -> Result<Duration, String> {
        match self {
            Self::Process(pid) => process_time(*pid),
            Self::Control(client) => {
                let metrics = client.text("/metrics").map_err(|error| error.line().unwrap_or_default())?;
                let reactors = Measured::all(&metrics)
                    .filter(|measured| measured.name == "selvedge_reactor_cpu_seconds_total")
                    .map(|measured| measured.value);
                Ok(Duration::try_from_secs_f64(reactors.sum()).unwrap_or_default())
            }
        }
    }
}

impl<'a> Meter<'a> {
    /// Checks that the target's processor time can be known, if it shall be. That of a target on this machine is also known
    /// without being asked for, if its process can be found.
    pub(super) fn new(
        plan: &'a Plan,
        own: &OwnFlags,
        stop: &'a Stop,
        testbed: &Testbed,
    ) -> Result<Self, Failure> {
        let is_local = testbed.is_local();
        let target_process = own.target_pid.or_else(|| testbed.target_process());
        let clock = match &own.control {
            Some(endpoint) => {
                let token = own.control_token_file.as_deref();
                Some(TargetClock::Control(Box::new(Client::new(Some(endpoint), token, &own.tls)?)))
            }
            None => target_process.map(TargetClock::Process),
        };
        if let Some(clock) = &clock {
            clock.time().map_err(|reason| {
                Failure::failed(format!("the target's processor time cannot be read: {reason}"))
            })?;
        }
        Ok(Self { plan, stop, clock, is_local, target_process })
    }

    /// Measures a point; `rate` is the one of each job, where its load is a share.
    pub(super) fn measure(
        &self,
        point: &Point,
        rate: Option<u64>,
        since_sweep: Duration,
    ) -> Result<Measurement, Missed> {
        let failed = |failure: Failure| Missed::Failed(failure.line().unwrap_or_default());
        let flags = self.plan.bench_flags(point, rate).map_err(Missed::Failed)?;
        let (workload, _) = Workload::new(&flags).map_err(failed)?;
        let setting = Setting::new(&flags, self.stop).map_err(failed)?;
        let lost = |failure: Failure| match self.stop.is_asked() {
            true => Missed::Interrupted,
            false => Missed::Lost(failure.line().unwrap_or_default()),
        };
        let began = Instant::now();
        let queues = setting.queues(&workload, None);
        let placements = setting.place(queues);
        let paths = setting.connect(queues, placements.as_ref()).map_err(lost)?;
        let offered = workload.rate_iops.map(|rate| rate as f64 * f64::from(workload.jobs));
        let fitted = fit(workload, &paths.controllers(), &paths.namespace(), None).map_err(failed)?;
        let ignorant = Cell::new(self.clock.is_none());
        let time = || self.clock.as_ref().map_or(Duration::ZERO, |clock| self.time_of(clock, &ignorant));
        let run = |fitted: &Fitted| {
            let run = Run {
                target_cpu: if self.clock.is_some() { Some(&time) } else { None },
                ..setting.run(&paths, fitted, placements.as_ref())
            };
            run.run().map_err(lost)
        };
        let (before, known) = (MachineTime::now(), self.known_time());
        let (mut rounds, rounds_iops) = self.rounds(fitted, run)?;
        let busy = before.and_then(|before| before.busy_until(MachineTime::now()?));
        let known = known.and_then(|before| Some(self.known_time()?.saturating_sub(before)));
        let foreign = busy.zip(known).map(|(busy, known)| busy.foreign(known));
        if ignorant.get() {
            rounds.iter_mut().for_each(|round| round.target_cpu = None);
        }
        let at = since_sweep + began.elapsed();
        let around = Around { at, busy, foreign, offered_iops: offered, rounds_iops: &rounds_iops };
        Ok(Measurement::of(&rounds, around))
    }

    /// Processor time of both ends, as far as they are on this machine; nothing where a part of it is not known.
    fn known_time(&self) -> Option<Duration> {
        let own = process_time(std::process::id()).ok()?;
        let target = match (self.target_process, &self.clock) {
            // The target's metrics leave out its threads beside the reactors, and a process that was named is here
            // wherever its addresses seem to be.
            (Some(pid), _) => process_time(pid).ok()?,
            (None, Some(clock)) if self.is_local => clock.time().ok()?,
            (None, None) if self.is_local => return None,
            (None, _) => Duration::ZERO,
        };
        Some(own + target)
    }

    fn time_of(&self, clock: &TargetClock, ignorant: &Cell<bool>) -> Duration {
        clock.time().unwrap_or_else(|_| {
            ignorant.set(true);
            Duration::ZERO
        })
    }

    /// The rounds that count, and the IOPS of all where there were several.
    fn rounds(
        &self,
        mut fitted: Fitted,
        run: impl Fn(&Fitted) -> Result<Outcome, Missed>,
    ) -> Result<(Vec<Outcome>, Vec<f64>), Missed> {
        let most = self.plan.steady_rounds_max.unwrap_or(1);
        let mut rounds: Vec<Outcome> = Vec::new();
        let mut all = Vec::new();
        for _ in 0..most {
            let outcome = run(&fitted)?;
            if outcome.interrupted {
                return Err(Missed::Interrupted);
            }
            if let Some(failure) = &outcome.failure {
                let reason = failure.line().unwrap_or_default();
                return Err(if outcome.connection_lost {
                    Missed::Lost(reason)
                } else {
                    Missed::Failed(reason)
                });
            }
            // It would count as none at all, in no time at all.
            if outcome.tallies.total().count() == 0 {
                return Err(Missed::Failed("no command ended in the time of a run".to_owned()));
            }
            let seconds = outcome.elapsed.as_secs_f64();
            all.push(if seconds > 0.0 { outcome.tallies.total().count() as f64 / seconds } else { 0.0 });
            if rounds.len() >= steady::WINDOW {
                rounds.remove(0);
            }
            rounds.push(outcome);
            if steady::is_steady(&all) {
                break;
            }
            // Only the first begins cold, and each goes on elsewhere than the one before.
            fitted.workload.ramp = Duration::ZERO;
            fitted.workload.seed = fitted.workload.seed.wrapping_add(1);
        }
        let several = if most > 1 { all } else { Vec::new() };
        Ok((rounds, several))
    }
}
