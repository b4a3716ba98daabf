//! The plan for controllers that the kernel has just connected, and its changes.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use topology::{FlowOwner, Topology};

use super::apply::{Applied, How, carry_out, journal};
use super::{plan, see};
use crate::failure::Failure;
use crate::flags::tune::{JournalFlags, MachineFlags, WishFlags};
use crate::report;
use crate::tune::PlanReport;

/// Result: the changes, or the plan with the reasons for no change.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Tuned {
    Changed(Applied),
    Unchanged(PlanReport),
}

/// Sees before anything is connected whether it can be tuned.
///
/// # Errors
/// That another plan is in effect.
pub fn check() -> Result<(), Failure> {
    let journal = journal(&JournalFlags { journal: None })?;
    if journal.exists() {
        return Err(Failure::failed(format!(
            "a plan of `tune apply` is in effect ({}): `selvedge tune revert` undoes it, or connect without --tune",
            journal.display()
        )));
    }
    Ok(())
}

/// Plans for the interfaces that these controllers' connections use, and makes the changes.
///
/// # Errors
/// When they are not made: everything but the connections is as it was before then.
pub fn tune(controllers: &[String], is_quiet: bool) -> Result<Tuned, Failure> {
    let interfaces = interfaces(&see(&MachineFlags::default())?, controllers);
    if interfaces.is_empty() {
        return Err(Failure::failed(format!(
            "the interfaces of the connections of {} are not known; `selvedge tune show` says what is",
            controllers.join(", ")
        )));
    }
    let machine = MachineFlags { interface: interfaces, ..MachineFlags::default() };
    let (topology, plan) = plan::make(&machine, &WishFlags::default())?;
    if plan.steps.is_empty() {
        return Ok(Tuned::Unchanged(PlanReport { plan, prediction: None }));
    }
    let how = How {
        machine: &machine,
        journal: journal(&JournalFlags { journal: None })?,
        ignores_irqbalance: false,
        is_quiet,
        kill_before_write: None,
    };
    carry_out(&topology, plan, how).map(Tuned::Changed)
}

/// The interfaces by which the kernel's controllers with these names are connected.
fn interfaces(topology: &Topology, controllers: &[String]) -> Vec<String> {
    // Where two look alike, a connection is of `nvme0 or nvme1`.
    let is_one = |name: &str| name.split(" or ").any(|name| controllers.iter().any(|known| known == name));
    let flows =
        topology.flows.iter().filter(|flow| flow.owner == FlowOwner::Kernel && is_one(&flow.controller));
    let interfaces: BTreeSet<String> = flows.filter_map(|flow| flow.interface.clone()).collect();
    interfaces.into_iter().collect()
}

impl Tuned {
    /// Prints it for people.
    pub fn print(&self) -> Result<(), Failure> {
        match self {
            Self::Changed(applied) => report::print(applied.text()),
            Self::Unchanged(plan) => report::print(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interfaces_of_controllers_are_found() {
        let mut machine = topology::sample::topology("cpu72-queues32").unwrap();
        let kernels = machine.flows.iter().find(|flow| flow.owner == FlowOwner::Kernel).unwrap();
        let (name, interface) = (kernels.controller.clone(), kernels.interface.clone().unwrap());
        assert_eq!(interfaces(&machine, std::slice::from_ref(&name)), std::slice::from_ref(&interface));
        assert!(interfaces(&machine, &["nvme99".to_owned()]).is_empty());
        for flow in &mut machine.flows {
            flow.controller = format!("nvme98 or {name}");
        }
        assert_eq!(interfaces(&machine, &[name]), [interface]);
    }
}
