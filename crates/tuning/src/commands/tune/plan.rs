//! `selvedge tune plan`: what would be changed, why, and what it should bring. It changes nothing.

use topology::Topology;
use topology::plan::{Plan, PlanError, PlanOptions, applied, plan};

use super::see;
use super::show::Drawing;
use crate::failure::Failure;
use crate::flags::tune::{MachineFlags, PlanFlags, WishFlags};
use crate::packet_path::Survey;
use crate::report;
use crate::tune::{PlanReport, Prediction};

/// Plans, and prints it.
pub(super) fn run(flags: &PlanFlags) -> Result<(), Failure> {
    let drawing = flags.picture.as_deref().map(Drawing::of).transpose()?;
    let (topology, plan) = make(&flags.machine, &flags.wishes)?;
    if let Some(drawing) = drawing {
        drawing.draw(&Survey::new(applied(&topology, &plan.steps)))?;
    }
    if flags.shell {
        let lines: Vec<String> = plan.steps.iter().map(|step| step.change.shell()).collect();
        return report::print_exactly(lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    let prediction = flags.model.then(|| Prediction::of(&topology, &plan));
    report::print_as(flags.output.output_format, &PlanReport { plan, prediction })
}

/// Looks at the machine, and makes the plan that was asked for.
pub(super) fn make(machine: &MachineFlags, wishes: &WishFlags) -> Result<(Topology, Plan), Failure> {
    let topology = see(machine)?;
    let options = PlanOptions {
        interfaces: machine.interface.clone(),
        queues: wishes.queues,
        cpus: wishes.cpus.clone(),
        uses_excluded_queues: wishes.all_queues,
        follows_workers: wishes.follow_workers,
    };
    let plan = plan(&topology, &options).map_err(|error| match error {
        PlanError::NothingToPlanFor => Failure::failed(error),
        // Values of options that this machine does not have.
        PlanError::NoInterface(..) | PlanError::NoCpu(_) | PlanError::Queues { .. } => Failure::usage(error),
    })?;
    Ok((topology, plan))
}
