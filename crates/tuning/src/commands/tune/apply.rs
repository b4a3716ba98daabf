//! `selvedge tune apply`: makes the plan's changes on this machine, so that they can be undone.

use std::io;
use std::path::PathBuf;

use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::Serialize;
use topology::Topology;
use topology::apply::{LiveSettings, Watch, apply, journal_path, network_namespace};
use topology::plan::{Change, Plan, Standing, Step};

use super::plan;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::tune::{ApplyFlags, JournalFlags, MachineFlags};
use crate::report;
use crate::stop::Stop;
use crate::tune::PlanReport;

/// Plans, and makes the changes.
pub(super) fn run(flags: &ApplyFlags) -> Result<(), Failure> {
    if flags.machine.sysroot.is_some() && !flags.dry_run {
        return Err(Failure::usage(
            "a recorded machine cannot be changed: --sysroot takes --dry-run with it",
        ));
    }
    let (topology, plan) = plan::make(&flags.machine, &flags.wishes)?;
    if flags.dry_run {
        return report::print_as(flags.output.output_format, &PlanReport { plan, prediction: None });
    }
    if plan.steps.is_empty() {
        return report::print_as(flags.output.output_format, &PlanReport { plan, prediction: None });
    }
    let how = How {
        machine: &flags.machine,
        journal: journal(&flags.journal)?,
        ignores_irqbalance: flags.ignore_irqbalance,
        is_quiet: flags.output.output_format == OutputFormat::Json,
        kill_before_write: flags.kill_before_write,
    };
    let applied = carry_out(&topology, plan, how)?;
    match flags.output.output_format {
        OutputFormat::Json => report::print_json(&applied),
        OutputFormat::Normal => report::print(applied.text()),
    }
}

/// Options for applying a plan.
pub(super) struct How<'a> {
    pub(super) machine: &'a MachineFlags,
    pub(super) journal: PathBuf,
    pub(super) ignores_irqbalance: bool,
    pub(super) is_quiet: bool,
    pub(super) kill_before_write: Option<u32>,
}

/// Makes the changes of a plan.
///
/// # Errors
/// When they are not made: everything is as it was before then.
pub(super) fn carry_out(topology: &Topology, plan: Plan, how: How<'_>) -> Result<Applied, Failure> {
    let moves_interrupts = plan.steps.iter().any(|step| matches!(step.change, Change::Affinity { .. }));
    if let Some(pid) = topology.irqbalance.filter(|_| moves_interrupts && !how.ignores_irqbalance) {
        return Err(Failure::failed(format!(
            "irqbalance (process {pid}) runs and would move the interrupts again within 10 s: stop it (`systemctl stop \
             irqbalance`), or go on with --ignore-irqbalance"
        )));
    }
    let stop = Stop::on_signals()?;
    let mut watch = ChangeWatch {
        is_quiet: how.is_quiet,
        kill_before_write: how.kill_before_write,
        writes: 0,
        stop: &stop,
    };
    apply(&LiveSettings, &how.journal, &plan.steps, &mut watch).map_err(|error| {
        if stop.is_asked() { Failure::interrupted(error) } else { Failure::failed(error) }
    })?;
    let seen = super::see(how.machine).map(|topology| Standing::of(&topology)).unwrap_or(plan.after);
    Ok(Applied { steps: plan.steps, journal: how.journal, before: plan.before, planned: plan.after, seen })
}

/// Returns the path of the journal.
pub(super) fn journal(flags: &JournalFlags) -> Result<PathBuf, Failure> {
    if let Some(path) = &flags.journal {
        return Ok(path.clone());
    }
    let cannot =
        |error: io::Error| Failure::failed(format!("/proc/self/ns/net: {error}; --journal names a file"));
    Ok(journal_path(network_namespace().map_err(cannot)?))
}

/// Changes made, as printed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Applied {
    steps: Vec<Step>,
    journal: PathBuf,
    before: Standing,
    planned: Standing,
    /// Standing observed after the changes.
    seen: Standing,
}

impl Applied {
    pub(super) fn text(&self) -> String {
        let count = chart::units::plural(self.steps.len() as u64, "change");
        let mut text = format!("{count} made; `selvedge tune revert` undoes them\n");
        if self.seen != self.planned && self.seen.flows > 0 {
            text.push_str(
                "Not all of it is seen yet: flows reach their queues with their next packets, `selvedge tune show` tells\n",
            );
        }
        text
    }
}

/// Prints each change, and kills the process before the write that a test chooses.
struct ChangeWatch<'a> {
    is_quiet: bool,
    kill_before_write: Option<u32>,
    writes: u32,
    stop: &'a Stop,
}

impl Watch for ChangeWatch<'_> {
    fn done(&mut self, step: &Step) {
        if !self.is_quiet {
            // Who does not read it shall have the changes nevertheless.
            let _ = report::print(format!("{}\n", step.change));
        }
    }

    fn before_write(&mut self) {
        if self.kill_before_write == Some(self.writes) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        self.writes += 1;
    }

    fn stops(&mut self) -> bool {
        self.stop.is_asked()
    }
}
