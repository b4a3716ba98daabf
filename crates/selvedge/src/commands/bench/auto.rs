//! `-i auto`: short runs of the very workload with different numbers of queues, and what they say of each. Which number
//! comes next is `bench::auto_queues`'s.

use std::time::Duration;

use engine::limits::IO_QUEUES_MAX;

use super::fit;
use super::setting::Setting;
use crate::bench::auto_queues::{Climb, Step, Trial};
use crate::bench::run::Outcome;
use crate::config::workload::{VerifyState, Workload};
use crate::failure::Failure;
use crate::flags::bench::{BenchFlags, IoQueues};
use crate::report::locale;
use crate::report::queues::{AutoReport, TrialReport};
use crate::sweep::environment::MachineTime;

/// Default duration of a trial, and the least useful one.
const TRIAL: Duration = Duration::from_secs(3);
const TRIAL_MIN: Duration = Duration::from_millis(300);
/// The first of this number of parts of a trial is not counted.
const WARM_PARTS: u32 = 3;
/// More than the rule's number times this is not tried.
const RULE_TIMES_MAX: u16 = 4;

/// Refuses what trials would spoil.
pub(super) fn check(flags: &BenchFlags, workload: &Workload, state: &VerifyState) -> Result<(), Failure> {
    if flags.nr_io_queues != Some(IoQueues::Auto) {
        return match flags.auto_trial {
            Some(_) => Err(Failure::usage("--auto-trial requires -i auto")),
            None => Ok(()),
        };
    }
    let refuse = |what: &str| Err(Failure::usage(format!("-i auto cannot be used with {what}; write -i N")));
    match state {
        VerifyState::Record(_) => {
            return refuse("--verify-state: its trials would write what the record does not know of");
        }
        VerifyState::Check(_) => return refuse("--verify-only, which measures nothing"),
        VerifyState::None => {}
    }
    if workload.verify && workload.writes() {
        return refuse("--verify of a workload that writes: each trial would have to read all of it back");
    }
    if flags.auto_trial.is_some_and(|trial| trial < TRIAL_MIN) {
        return Err(Failure::usage("--auto-trial is too short: the minimum is 0.3 s"));
    }
    Ok(())
}

/// Finds the number of queues, if that is asked for, and says each step on stderr.
///
/// # Errors
/// Failure of a trial, or an interruption.
pub(super) fn find(
    setting: &Setting<'_>,
    flags: &BenchFlags,
    workload: &Workload,
) -> Result<Option<AutoReport>, Failure> {
    let (Some(IoQueues::Auto), Some(start)) = (flags.nr_io_queues, setting.limit()) else { return Ok(None) };
    // Where queues are matched to the NIC's, the rule is the limit too.
    let most = if setting.is_matched() { start } else { start.saturating_mul(RULE_TIMES_MAX) };
    let most = most.min(IO_QUEUES_MAX);
    if workload.writes() {
        eprintln!("selvedge: -i auto: the trials write to the namespace, as the workload does");
    }
    let rules = setting.rules();
    rules.iter().for_each(|rule| eprintln!("selvedge: -i auto: {rule}"));
    let mut climb = Climb::new(start, most);
    let mut trials = Vec::new();
    loop {
        match climb.next() {
            Step::Try(queues) => {
                let (granted, trial) = run(setting, flags, workload, queues, trials.len() as u64)?;
                if granted < queues {
                    climb.limit_to(granted);
                }
                let verdict = climb.observe(granted, trial);
                let report = TrialReport { queues: granted, trial, verdict };
                eprintln!("selvedge: -i auto: {}", locale::shown(&report.to_string()));
                trials.push(report);
            }
            Step::Settled { queues, reason } => {
                return Ok(Some(AutoReport { start, most, rules, trials, settled: queues, reason }));
            }
        }
    }
}

/// Runs one trial with this number of queues.
fn run(
    setting: &Setting<'_>,
    flags: &BenchFlags,
    workload: &Workload,
    queues: u16,
    number: u64,
) -> Result<(u16, Trial), Failure> {
    let interrupted = || Failure::interrupted("interrupted while -i auto tried numbers of queues");
    if setting.stop.is_asked() {
        return Err(interrupted());
    }
    let length = flags.auto_trial.unwrap_or(TRIAL);
    let ramp = length / WARM_PARTS;
    // Each trial goes to other places than the one before, whose blocks a cache may have.
    let seed = workload.seed.wrapping_add((number + 1) << 32);
    let workload = Workload { ramp, runtime: Some(length - ramp), once: false, seed, ..workload.clone() };
    let queues = setting.queues(&workload, Some(queues));
    let placements = setting.place(queues);
    let paths = setting.connect(queues, placements.as_ref())?;
    let fitted = fit(workload, &paths.controllers(), &paths.namespace(), None)?;
    let run = setting.run(&paths, &fitted, placements.as_ref());
    let before = MachineTime::now();
    let outcome = run.run()?;
    let busy = before.and_then(|before| before.busy_until(MachineTime::now()?));
    if outcome.interrupted {
        return Err(interrupted());
    }
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let granted = u16::try_from(outcome.queues).unwrap_or(IO_QUEUES_MAX);
    // Where the system does not say how busy it is, there is nothing against more queues.
    Ok((granted, trial(&outcome, busy.map_or(0.0, |busy| busy.all))))
}

fn trial(outcome: &Outcome, cpu_busy: f64) -> Trial {
    let total = outcome.tallies.total();
    let (ios, seconds) = (total.count() as f64, outcome.elapsed.as_secs_f64());
    let over = |value: f64, by: f64| if by > 0.0 { value / by } else { 0.0 };
    Trial {
        p99_us: total.quantile_ns(0.99) as f64 / 1000.0,
        iops: over(ios, seconds),
        cpu_us_per_io: over(1e6 * outcome.cpu.as_secs_f64(), ios),
        cpu_busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(arguments: &str) -> Result<(), String> {
        let flags = BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a {arguments}"));
        let (workload, state) = Workload::new(&flags).unwrap();
        check(&flags, &workload, &state).map_err(|failure| failure.line().unwrap_or_default())
    }

    #[test]
    fn trials_are_refused_where_they_would_spoil_something() {
        assert_eq!(checked("--rw randwrite -i auto"), Ok(()));
        assert_eq!(checked("--rw randread --verify -i auto --auto-trial 1"), Ok(()));
        assert_eq!(checked("--rw randwrite --verify -i 4"), Ok(()));
        for (arguments, word) in [
            ("--rw randwrite --verify-state x -i auto", "record"),
            ("--verify-only --verify-state x -i auto", "measures nothing"),
            ("--rw randwrite --verify -i auto", "back"),
            ("--rw randread -i auto --auto-trial 100ms", "0.3 s"),
            ("--rw randread -i 4 --auto-trial 1", "-i auto"),
        ] {
            let reason = checked(arguments).unwrap_err();
            assert!(reason.contains(word), "{arguments}: {reason}");
        }
    }
}
